"""Joining and unjoining on the member, in an order in which no account has too many rights.

Admission policies bound the account that makes namespaces, and one that writes in all namespaces. A
new policy takes effect after a moment: an object that it must deny is applied as a dry run, with
the new token, until it is denied. Only then an account gets the right to write everywhere. What a
former `join` made and this one does not ask for is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from crds.names import ANNOTATION_GIVEN, LABEL_TENANT
from machinery.api.acting import Acting, account
from machinery.api.client import ApiClient
from machinery.api.resources import (
    CONFIG_MAPS,
    LEASES,
    NAMESPACES,
    ROLE_BINDINGS,
    SERVICE_ACCOUNTS,
    Resource,
)
from machinery.api.verbs import Verbs
from machinery.clock import SystemClock
from machinery.config.kubeconfig import Connection
from machinery.errors import (
    ApiError,
    ConfigurationError,
    Forbidden,
    Invalid,
    NotFound,
    StowageError,
    TransportError,
)
from machinery.tasks import patiently
from propagator.credentials.accounts import (
    ACTING_BINDING,
    MEMBER_ACCOUNT,
    NAMESPACES_ACCOUNT,
    RBAC_GROUP,
    TENANT_ACCOUNT,
    TENANT_BINDING,
    TENANT_ROLE,
    tenancy,
)
from propagator.credentials.credentials import PodSecurity, Rights
from propagator.credentials.tokens import life_of, request_token
from propagator.members.hub_lease import HUB_LEASE
from stowage.setup import agent_manifests, member_rights
from stowage.setup.install import apply_one, ensure_namespace

FORCE_SECONDS = 60.0
"""A new policy is in force by then."""
OLD_TOKEN = 0.5
"""The part of its life after which a token is replaced when a cluster is joined again."""
MANAGER = "stowage-join"
_RBAC = f"{RBAC_GROUP}/v1"
_OURS = f"{LABEL_TENANT}=true"
_REVIEW = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)

Say = Callable[[str], object]


@dataclass(frozen=True, kw_only=True)
class Side:
    """The arguments of `join` that concern the member.

    Args:
        namespace: of Stowage, on the hub and on the member.
        member: how `join` reaches the member.
        allow: further kinds, spelled as kubectl takes them, or as `group/resource`.
        rights: whether it writes in given namespaces alone.
        targets: namespaces that are given by name.
        new_namespaces: whether the propagator may make others; None keeps the present answer,
            which is yes at first.
        pod_security: the standard of namespaces that it makes.
        anew: nothing that an earlier `join` was given is taken up.
    """

    namespace: str
    member: Connection
    allow: Sequence[str] = ()
    rights: Rights = Rights.NARROW
    targets: Sequence[str] = ()
    new_namespaces: bool | None = None
    pod_security: PodSecurity = PodSecurity.BASELINE
    anew: bool = False


@dataclass(frozen=True, slots=True)
class _Checked:
    """What is found out about the member before anything is written."""

    side: Side
    allow: Sequence[member_rights.AllowedKind]
    guarded: bool
    makes: bool
    taken_up: str
    """What of `side` is of an earlier join, as options; empty for nothing."""


async def _check(member: ApiClient, side: Side) -> _Checked:
    """Return what `set_up` needs. Writes nothing. Raises ConfigurationError with what to do."""
    given = _Given() if side.anew else await _given_before(member, side.namespace)
    named = [await _kind(member, text) for text in side.allow]
    more = [each for each in given.allow if each not in {kind.text for kind in named}]
    allow = [*named, *[await _kind(member, text) for text in more]]
    targets = [each for each in given.namespaces if each not in side.targets]
    there = {each["metadata"]["name"] for each in (await member.list(NAMESPACES))["items"]}
    targets = [each for each in targets if each in there] if side.rights is Rights.NARROW else []
    options = [f"--allow {text}" for text in more] + [f"--target-namespace {t}" for t in targets]
    side = replace(side, targets=[*side.targets, *targets])
    guarded = await _serves_policies(member)
    makes = side.rights is Rights.NARROW and await _makes_namespaces(member, side, guarded=guarded)
    return _Checked(side, allow, guarded, makes, " ".join(options))


async def set_up(member: ApiClient, side: Side, known: str, say: Say) -> str:
    """Make everything on the member; return a token of the propagator's account.

    The token is `known` while that is good. Raises StowageError with what to do: before anything is
    made, if `side` is at fault.
    """
    found = await _check(member, side)
    side, allow = found.side, found.allow
    await ensure_namespace(member, side.namespace)
    say(f"Namespace {side.namespace} is there")
    if found.taken_up:
        say(f"takes up what it was joined with before: {found.taken_up} (--anew leaves that out)")
    await _note(member, side.namespace, _Given([each.text for each in allow], list(side.targets)))
    await make_placeholder_class(member, say)
    for each in allow:
        if not each.known:
            told = f"it does not know {each.text} yet"
            say(f"warning: {told}, so its rights are those of a namespaced kind")
    if side.rights is Rights.CLUSTER:
        return await _set_up_cluster(member, side, allow, known, guarded=found.guarded, say=say)
    await make(member, member_rights.narrow(side.namespace, allow), say)
    # only now: the narrow role has replaced a wide one that this policy bounded
    await _unmake(member, member_rights.cluster_policy(side.namespace), say)
    for name in side.targets:
        await make(member, member_rights.given(name, side.namespace), say)
    token = await _token(member, side, known)
    if found.makes:
        await make(member, member_rights.maker_policy(side.namespace, side.pod_security), say)
        await make(member, member_rights.maker(side.namespace), say)
        await _maker_in_force(member, side, token)
    else:
        await _unmake(member, _maker(side.namespace), say)
        say("takes the namespaces that were named, and no others")
    return token


class _Given(msgspec.Struct):
    """What a member was joined with. It is noted on its namespace of Stowage, which stays."""

    allow: list[str] = []
    namespaces: list[str] = []


async def _given_before(member: ApiClient, home: str) -> _Given:
    with suppress(NotFound, KeyError, msgspec.MsgspecError):
        meta = (await member.get(NAMESPACES, home))["metadata"]
        return msgspec.json.decode(meta.get("annotations", {})[ANNOTATION_GIVEN], type=_Given)
    return _Given()


async def _note(member: ApiClient, home: str, given: _Given) -> None:
    note = {ANNOTATION_GIVEN: msgspec.json.encode(given).decode()}
    await member.merge_patch(NAMESPACES, home, {"metadata": {"annotations": note}})


async def make_placeholder_class(member: ApiClient, say: Say) -> None:
    """Make the class of pods that keep room; leave one that is not ours alone."""
    manifest = member_rights.placeholder_class()
    name = manifest["metadata"]["name"]
    without = "Reservations with `hold: Member` keep no room there"
    try:
        found = await _priority_class(member)
        if found is None or _ours(found):
            await make(member, [manifest], say)
        elif any(found.get(field) != manifest[field] for field in ("value", "preemptionPolicy")):
            say(f"warning: its PriorityClass {name} is somebody else's, and another one: {without}")
    except Forbidden as e:
        say(f"warning: no PriorityClass {name}, as the member refuses it ({e}): {without}")


async def _priority_class(member: ApiClient) -> dict[str, Any] | None:
    manifest = member_rights.placeholder_class()
    resource = await member.resource(manifest["apiVersion"], manifest["kind"])
    return await member.find(resource, manifest["metadata"]["name"])


def _ours(found: dict[str, Any]) -> bool:
    return bool(found["metadata"].get("labels", {}).get(LABEL_TENANT) == "true")


async def _set_up_cluster(
    member: ApiClient,
    side: Side,
    allow: Sequence[member_rights.AllowedKind],
    known: str,
    *,
    guarded: bool,
    say: Say,
) -> str:
    await make(member, member_rights.cluster_account(side.namespace), say)
    if guarded:
        await make(member, member_rights.cluster_policy(side.namespace), say)
    else:
        say("warning: it serves no ValidatingAdmissionPolicy v1: nothing keeps it out of kube-*")
    token = await _token(member, side, known)
    if guarded:
        await _cluster_in_force(side, token)
    await make(member, member_rights.cluster(side.namespace, allow), say)
    await _unmake(member, _maker(side.namespace), say)
    return token


@dataclass(frozen=True, slots=True)
class Made:
    """An object on a member that joining or the propagator made; of a namespace only the label."""

    resource: Resource
    name: str
    namespace: str | None = None

    def __str__(self) -> str:
        named = f"{self.resource.kind} {_where(self.name, self.namespace)}"
        return f"{named}: the label {LABEL_TENANT}" if self.resource == NAMESPACES else named


async def made_there(member: ApiClient, home: str) -> list[Made]:
    """Return everything that joining and the propagator made there, in the order of removal.

    Rights go first, everywhere, and the policies that bound them last.
    """
    found = []
    for resource, names in (
        (ROLE_BINDINGS, {TENANT_BINDING, ACTING_BINDING}),
        (SERVICE_ACCOUNTS, {TENANT_ACCOUNT}),
        (NAMESPACES, None),
    ):
        for each in (await member.list(resource, label_selector=_OURS))["items"]:
            meta = each["metadata"]
            if names is None or meta["name"] in names:
                found.append(Made(resource, meta["name"], meta.get("namespace")))
    known = await _priority_class(member)
    agent = agent_manifests.agent(home, image="", data={})
    lease = {"apiVersion": LEASES.api_version, "kind": LEASES.kind}
    whole = [*member_rights.cluster_policy(home), *_maker(home), *member_rights.narrow(home)]
    whole += [{**lease, "metadata": {"name": HUB_LEASE, "namespace": home}}]
    whole += [member_rights.placeholder_class()] if known is not None and _ours(known) else []
    whole += agent  # which runs, and so it goes first
    for manifest in reversed(whole):
        meta = manifest["metadata"]
        with suppress(NotFound):
            resource = await member.resource(manifest["apiVersion"], manifest["kind"])
            await member.get(resource, meta["name"], namespace=meta.get("namespace"))
            found.append(Made(resource, meta["name"], meta.get("namespace")))
    return found


async def remove_all(member: ApiClient, home: str, say: Say) -> None:
    """Remove everything that joining and the propagator made there, but namespaces.

    What the member was given is noted there for the next join.
    """
    made = await made_there(member, home)
    given = await _given_before(member, home)
    tenants = [each.name for each in made if each.resource == NAMESPACES]
    given.namespaces = list(dict.fromkeys([*given.namespaces, *tenants]))
    with suppress(NotFound):  # there was no join
        await _note(member, home, given)
    await remove_made(member, made, say)


async def remove_made(member: ApiClient, made: Sequence[Made], say: Say) -> None:
    """Remove these objects, and of namespaces the label alone."""
    for each in made:
        if each.resource == NAMESPACES:
            patch = {"metadata": {"labels": {LABEL_TENANT: None}}}
            with suppress(NotFound):  # it is gone since it was listed
                await member.merge_patch(NAMESPACES, each.name, patch)
        else:
            await remove(member, each.resource, each.name, namespace=each.namespace, say=say)


async def remove_agent(member: ApiClient, home: str, say: Say) -> None:
    """Remove what runs in mode Pull alone; the rights there stay."""
    await _unmake(member, agent_manifests.agent(home, image="", data={}), say)


async def remove(
    client: ApiClient, resource: Resource, name: str, *, namespace: str | None, say: Say
) -> bool:
    try:
        await client.delete(resource, name, namespace=namespace)
    except NotFound:
        return False
    say(f"{resource.kind} {_where(name, namespace)} removed")
    return True


def as_account(member: Connection, token: str) -> Connection:
    """Return the connection to the same server with that token alone."""
    return replace(
        member,
        token=token,
        token_source=None,
        client_cert=None,
        client_key=None,
        username=None,
        password=None,
        impersonate=None,
        impersonate_groups=(),
    )


def _maker(home: str) -> list[member_rights.Manifest]:
    # the policy first, so that `_unmake` removes it last
    return [*member_rights.maker_policy(home, PodSecurity.BASELINE), *member_rights.maker(home)]


async def make(member: ApiClient, manifests: Sequence[member_rights.Manifest], say: Say) -> None:
    for manifest in manifests:
        await apply_one(member, manifest, manager=MANAGER)
        meta = manifest["metadata"]
        say(f"{manifest['kind']} {_where(meta['name'], meta.get('namespace'))} is there")


async def _unmake(member: ApiClient, manifests: Sequence[member_rights.Manifest], say: Say) -> None:
    """Remove these objects, the last one first; a server may lack a kind."""
    for manifest in reversed(manifests):
        meta = manifest["metadata"]
        with suppress(NotFound):
            resource = await member.resource(manifest["apiVersion"], manifest["kind"])
            await remove(member, resource, meta["name"], namespace=meta.get("namespace"), say=say)


def _where(name: str, namespace: str | None) -> str:
    return f"{namespace}/{name}" if namespace else name


async def _serves_policies(member: ApiClient) -> bool:
    try:
        await member.resource(member_rights.ADMISSION, "ValidatingAdmissionPolicy")
    except NotFound:
        return False
    return True


class _Served(msgspec.Struct, rename="camel"):
    """A resource type as discovery tells of it."""

    name: str
    kind: str
    namespaced: bool
    singular_name: str = ""
    short_names: list[str] = []

    def called(self, word: str) -> bool:
        names = (self.name, self.singular_name, self.kind.lower(), *self.short_names)
        return word.lower() in names and "/" not in self.name


class _ServedList(msgspec.Struct):
    resources: list[_Served] = []


async def _kind(member: ApiClient, text: str) -> member_rights.AllowedKind:
    """Return a further kind as the member has it, of any of kubectl's spellings.

    Without a group the core group comes first, then the others in the member's order. Raises
    ConfigurationError for a name without a group that the member does not know.
    """
    group, slash, word = text.rpartition("/")
    if not slash:
        word, _, group = text.partition(".")
    for version in await member.api_versions():
        of = version.rpartition("/")[0]
        if group and group != of:
            continue
        path = f"/apis/{version}" if of else f"/api/{version}"
        try:
            listed = msgspec.json.decode(await member.request("GET", path), type=_ServedList)
        except TransportError:  # of a server behind this one that does not answer
            continue
        for found in listed.resources:
            if found.called(word):
                return member_rights.AllowedKind(of, found.name, found.namespaced)
    if not group:
        raise ConfigurationError(
            f"--allow {text}: the member knows no such kind: `kubectl api-resources` lists them; "
            "one that comes later is named as GROUP/RESOURCE"
        )
    return member_rights.AllowedKind(group, word, namespaced=True, known=False)


async def _makes_namespaces(member: ApiClient, side: Side, *, guarded: bool) -> bool:
    """Return whether the propagator shall make namespaces. Raises ConfigurationError."""
    wanted = side.new_namespaces
    if wanted is None:
        wanted = guarded and not await _is_restricted(member, side)
    if not guarded and (wanted or (not side.targets and not await _tenants(member))):
        raise ConfigurationError(
            "the member serves no ValidatingAdmissionPolicy v1 (Kubernetes 1.30), without which "
            "nothing bounds the account that makes namespaces: name them by --target-namespace"
        )
    if not wanted and not side.targets and not await _tenants(member):
        raise ConfigurationError(
            "the member would take no namespace at all: name some by --target-namespace"
        )
    return wanted


async def _is_restricted(member: ApiClient, side: Side) -> bool:
    """Return whether it was joined before with narrow rights, and namespaces by name alone."""
    roles = await member.resource(_RBAC, "ClusterRole")
    try:
        await member.get(roles, TENANT_ROLE)
        await member.get(SERVICE_ACCOUNTS, MEMBER_ACCOUNT, namespace=side.namespace)
    except NotFound:
        return False
    try:
        await member.get(SERVICE_ACCOUNTS, NAMESPACES_ACCOUNT, namespace=side.namespace)
    except NotFound:
        return bool(await _tenants(member))
    return False


async def _tenants(member: ApiClient) -> list[str]:
    """Return the namespaces that hold the account of a target namespace."""
    listed = await member.list(SERVICE_ACCOUNTS, label_selector=_OURS)
    return [
        each["metadata"]["namespace"]
        for each in listed["items"]
        if each["metadata"]["name"] == TENANT_ACCOUNT
    ]


async def _maker_in_force(member: ApiClient, side: Side, token: str) -> None:
    """Wait until the maker is denied a canary; else remove the maker, and raise StowageError."""
    *_, canary = tenancy("kube-system", home=side.namespace)
    async with ApiClient(as_account(side.member, token)) as itself:
        maker = Acting(itself, account(side.namespace, NAMESPACES_ACCOUNT))
        why = await _undenied(maker, SERVICE_ACCOUNTS, canary)
    if why:
        await _unmake(member, _maker(side.namespace), lambda _: None)
        raise _not_in_force(
            NAMESPACES_ACCOUNT, "so the account of that name was removed again", why
        )


async def _cluster_in_force(side: Side, token: str) -> None:
    """Wait until the account is denied a canary. Raises StowageError."""
    async with ApiClient(as_account(side.member, token)) as itself:
        why = await _undenied(itself, CONFIG_MAPS, member_rights.cluster_canary(side.namespace))
    if why:
        # The policy stays: the account may have had wide rights before.
        raise _not_in_force(MEMBER_ACCOUNT, "so the account was given no further right", why)


def _not_in_force(policy: str, therefore: str, why: str) -> StowageError:
    return StowageError(
        f"ValidatingAdmissionPolicy {policy} of the member is not in force after "
        f"{FORCE_SECONDS:.0f} s, {therefore}: {why}"
    )


async def _undenied(who: Verbs, resource: Resource, canary: member_rights.Manifest) -> str:
    """Return why an object that the policy must deny is not denied after FORCE_SECONDS.

    RBAC must allow the object, so that its refusal is the policy's.
    """
    meta = canary["metadata"]

    async def why() -> str:
        try:
            await who.apply(
                resource, canary, name=meta["name"], namespace=meta["namespace"], dry_run=True
            )
        except Invalid:
            return ""
        except (Forbidden, ApiError) as e:
            return str(e)  # rights that were just given may not be known yet
        return f"it lets {resource.kind} {_where(meta['name'], meta['namespace'])} be made"

    return await patiently(why, seconds=FORCE_SECONDS, every=0.2, clock=SystemClock())


async def _token(member: ApiClient, side: Side, known: str) -> str:
    life = life_of(known)
    if life and life.spent(SystemClock().now()) < OLD_TOKEN and await _good(side, known):
        return known
    return await request_token(member, (side.namespace, MEMBER_ACCOUNT))


async def _good(side: Side, token: str) -> bool:
    """Return whether the member still accepts that token as our account's."""
    review = {"apiVersion": _REVIEW.api_version, "kind": _REVIEW.kind}
    async with ApiClient(as_account(side.member, token)) as itself:
        try:
            who = await itself.create(_REVIEW, review)
        except TransportError:
            return False
    name: str = who.get("status", {}).get("userInfo", {}).get("username", "")
    return name == account(side.namespace, MEMBER_ACCOUNT)
