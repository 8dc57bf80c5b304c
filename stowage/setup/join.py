"""Joining a cluster to the hub, and taking it out again.

Joining makes accounts and roles on the member (`stowage.setup.member_side`), asks for a token of
the propagator's account there, and puts its kubeconfig into a Secret on the hub, which registers
the cluster. Nothing runs on the member. A second run brings everything to the new arguments, and
keeps a good token.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec
from pydantic import BaseModel, Field, ValidationError

from crds.base import DnsName, LabelKey, LabelValue
from crds.faults import worded
from crds.membercluster import MemberMode
from crds.names import (
    AGENT,
    AGENT_LEASE,
    ANNOTATION_IDENTITY,
    ANNOTATION_MEMBER_NAMESPACE,
    ANNOTATION_UNJOIN,
    GIVEN_UP,
    LABEL_REGISTER,
)
from machinery.api.client import ApiClient
from machinery.api.resources import (
    DEPLOYMENTS,
    LEASES,
    MEMBER_CLUSTERS,
    NAMESPACES,
    SECRETS,
    WORKLOADS,
)
from machinery.clock import SystemClock
from machinery.config.address import loopback
from machinery.config.kubeconfig import Connection, parse_kubeconfig
from machinery.errors import ApiError, ConfigurationError, KubeconfigError, NotFound, StowageError
from machinery.tasks import patiently
from machinery.types import conditions
from machinery.types.bounds import NAME, clean
from propagator.credentials import credentials
from propagator.credentials.accounts import MEMBER_ACCOUNT
from propagator.credentials.credentials import Rights, credentials_of
from propagator.credentials.tokens import kubeconfig
from propagator.members.hub_lease import AGENT_MARK, HELD_SECONDS, HUB_LEASE
from propagator.members.pulled import SILENT_SECONDS
from stowage.console.words import some
from stowage.following import Stored, following
from stowage.hub import no_such_cluster
from stowage.setup import member_namespace, member_side
from stowage.setup import pull as pulling
from stowage.setup.holders import holders, standing
from stowage.setup.install import apply_one, ensure_namespace
from stowage.setup.member_side import Say, as_account

READY_SECONDS = 120.0
GIVEN_UP_SECONDS = 60.0
"""How long the controller may take to place anew what a cluster that is given up had."""
OPEN_WATCHES = (
    "new requests with its tokens are refused within seconds, but a watch that is open now goes on "
    "delivering for up to about half an hour; docs/members.md says how to end it at once"
)
"""An API server checks a token when a request begins, and not again while the request lasts."""


class _Registered(BaseModel):
    """The metadata of the Secret and the MemberCluster, as an API server takes them."""

    name: Annotated[DnsName, Field(max_length=63)]
    labels: dict[LabelKey, LabelValue]


@dataclass(frozen=True, slots=True)
class Pull:
    """How the agent of a member in mode Pull reaches the hub, and which image it runs.

    `server` None stands for the address by which this command reaches the hub.
    """

    image: str
    server: str | None = None
    proxy: str = ""


@dataclass(frozen=True, kw_only=True)
class Join(member_side.Side):
    """The arguments of `join`.

    `server` and `tls_server_name` are how the hub reaches the member, where that differs. With
    `replace` the name may move to another cluster than the one that has it, and with `itself` the
    hub may be its own member.
    """

    name: str
    server: str | None = None
    tls_server_name: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    replace: bool = False
    itself: bool = False
    pull: Pull | None = None
    """None for mode Push, in which the hub connects to the member."""

    @property
    def reached(self) -> Connection:
        name = self.tls_server_name or self.member.tls_server_name
        return replace(self.member, server=self.server or self.member.server, tls_server_name=name)


@dataclass(frozen=True, kw_only=True)
class Unjoin:
    """The arguments of `unjoin`; with `member`, the accounts and roles there are removed, too."""

    name: str
    namespace: str
    member: Connection | None = None
    force: bool = False


async def join(hub: ApiClient, plan: Join, *, say: Say) -> None:
    """Join, and wait until the cluster is Ready. Raises StowageError saying what to do."""
    _check(plan)
    if plan.pull is not None:
        await _join_pull(hub, plan, plan.pull, say)
        return
    await _refuse_loopback(hub, plan, say)
    async with ApiClient(plan.member, name=plan.name) as member:
        identity = await _identified(hub, plan, member)
        known = await _known_token(hub, plan)
        token = await member_side.set_up(member, plan, known, _of(plan.name, say))
    await ensure_namespace(hub, plan.namespace)
    await apply_one(hub, registration(plan, token, identity), manager=member_side.MANAGER)
    say(f"hub: Secret {plan.namespace}/{plan.name} is there, it registers the cluster")
    pulled = await _take_back(hub, plan, identity)
    await _ready(hub, plan.name, say)
    if pulled:
        await _end_agent(hub, plan, say)
    # Outlives the Secret, so that the name stays this cluster's until it is unjoined.
    mark = {"metadata": {"annotations": {ANNOTATION_IDENTITY: identity}}}
    await hub.merge_patch(MEMBER_CLUSTERS, plan.name, mark)


async def _identified(hub: ApiClient, plan: Join, member: ApiClient) -> str:
    """Return the UID of the member's kube-system. Raises ConfigurationError if it is another's."""
    identity: str = (await member.get(NAMESPACES, "kube-system"))["metadata"]["uid"]
    await _refuse_another(hub, plan, identity)
    if not plan.itself:
        await _refuse_itself(hub, plan, identity)
    return identity


async def _join_pull(hub: ApiClient, plan: Join, how: Pull, say: Say) -> None:
    """Make rights and agent on the member, and have the agent connect.

    On a member in Push it is the switch: its kubeconfig goes once the agent has the member.
    """
    asked = pulling.Invite(
        name=plan.name, namespace=plan.namespace, server=how.server, labels=plan.labels, switch=True
    )
    await pulling.hub_facts(hub, asked)  # before anything is made
    async with ApiClient(plan.member, name=plan.name) as member:
        identity = await _identified(hub, plan, member)
        known = await _known_token(hub, plan)
        await member_side.set_up(member, plan, known, _of(plan.name, say))
        invited = await pulling.invite(
            hub, replace(asked, identity=identity, renew=True), say=_of("hub", say)
        )
        if plan.replace:
            await _forget_cluster(hub, plan.name)
        made = pulling.agent(
            asked,
            invited,
            image=how.image,
            proxy=how.proxy,
            narrow=plan.rights is Rights.NARROW,
            pod_security=plan.pod_security,
        )
        await member_side.make(member, made, _of(plan.name, say))
        more = partial(_held_there, member, plan.namespace, _of(plan.name, say))
        await _agent_holds(hub, plan.name, [invited.namespace], holds=True, more=more)
    await _ready(hub, plan.name, say)
    await member_side.remove(hub, SECRETS, plan.name, namespace=plan.namespace, say=_of("hub", say))
    await hub.merge_patch(MEMBER_CLUSTERS, plan.name, {"spec": {"secretRef": None}})


async def _end_agent(hub: ApiClient, plan: Join, say: Say) -> None:
    """Take the agent off a member that is in Push again, and its namespaces off the hub."""
    own = await member_namespace.members(hub, plan.name)
    await _agent_holds(hub, plan.name, [*own], holds=False)
    async with ApiClient(plan.member, name=plan.name) as member:
        await member_side.remove_agent(member, plan.namespace, _of(plan.name, say))
    await _remove_namespaces(hub, plan.name, say)
    note = {"metadata": {"annotations": {ANNOTATION_MEMBER_NAMESPACE: None}}}
    await hub.merge_patch(MEMBER_CLUSTERS, plan.name, note)


async def _remove_namespaces(hub: ApiClient, name: str, say: Say) -> None:
    """Remove the namespaces of a member, with the accounts of its agents."""
    for each in await member_namespace.members(hub, name):
        await member_side.remove(hub, NAMESPACES, each, namespace=None, say=_of("hub", say))


async def unjoin(hub: ApiClient, plan: Unjoin, *, say: Say) -> None:
    """Give a cluster up. Raises ConfigurationError while Workloads have anything there.

    With `force` what is there is left behind, and its replicas are placed anew. The mark comes
    first, so that the same command goes on where this one was ended. A cluster whose MemberCluster
    is gone is given up in the same way. On a member that no hub has ever served, what a `join` left
    that was interrupted is removed.
    """
    found = await holders(hub, plan.name)
    if found and not plan.force:
        told = [f"{name} ({each.words})" if each.words else name for name, each in found.items()]
        raise ConfigurationError(
            f"{plan.name} still runs {some(told)}: "
            "delete or move them, or say --force to leave their objects behind there"
        )
    if found:
        say(f"{plan.name}: the objects of {len(found)} Workloads are left behind there")
    pulled = await _pulled(hub, plan.name)
    marked = await give_up(hub, plan.name, make=any(each.shared for each in found.values()))
    # The Secret would register the cluster again, and so it goes before the MemberCluster.
    on_hub, where = _of("hub", say), plan.namespace
    removed = await member_side.remove(hub, SECRETS, plan.name, namespace=where, say=on_hub)
    if not (marked or removed) and (plan.member is None or await _served(plan.member, where)):
        raise await no_such_cluster(hub, plan.name)
    with suppress(NotFound):  # our kinds are gone
        await _given_up(hub, plan.name)
    if marked:
        await _check_given_up(hub, plan.name)
    if pulled:  # as long as the MemberCluster stands, the same command goes on from here
        await _remove_namespaces(hub, plan.name, say)
    await member_side.remove(hub, MEMBER_CLUSTERS, plan.name, namespace=None, say=on_hub)
    if plan.member is None:
        say(f"{plan.name}: its service account stays; --member-kubeconfig removes it as well")
        return
    async with ApiClient(plan.member, name=plan.name) as member:
        await member_side.remove_all(member, plan.namespace, _of(plan.name, say))
    say(f"{plan.name}: {OPEN_WATCHES}")


async def _held_there(member: ApiClient, home: str, say: Say) -> float:
    """Return for how many more seconds the agent waits for a propagator that serves the member.

    One that lost its term in the moment of the switch has not let go of its Lease there. Each
    agent that begins waits for all of that time.
    """
    spec = (await member.find(LEASES, HUB_LEASE, namespace=home) or {}).get("spec") or {}
    holder = clean(str(spec.get("holderIdentity") or ""), NAME)
    if not holder or f" {AGENT_MARK}" in holder:
        return 0.0
    say(
        f"waits up to {HELD_SECONDS} s more, as {holder} has not let go of the Lease "
        f"{home}/{HUB_LEASE}: the agent takes it once it was unchanged for so long"
    )
    return HELD_SECONDS


async def _nothing_more() -> float:
    return 0.0


async def _agent_holds(
    hub: ApiClient,
    name: str,
    namespaces: Sequence[str],
    *,
    holds: bool,
    more: Callable[[], Awaitable[float]] = _nothing_more,
) -> None:
    """Return when the agent has the member, or has let go of it.

    Ready may still be what it was in the other mode. A Lease that nobody renews is not held. `more`
    is asked for how many seconds to go on when READY_SECONDS have passed.
    """
    clock = SystemClock()
    seen: dict[str, tuple[str, float]] = {}

    async def held(namespace: str) -> bool:
        with suppress(NotFound):
            spec = (await hub.get(LEASES, AGENT_LEASE, namespace=namespace)).get("spec") or {}
            renewed, now = str(spec.get("renewTime") or ""), clock.monotonic()
            if seen.get(namespace, ("", 0.0))[0] != renewed:
                seen[namespace] = renewed, now
            alive = now - seen.get(namespace, ("", now))[1] < SILENT_SECONDS
            return bool(spec.get("holderIdentity")) and alive
        return False

    async def missing() -> str:
        told = f"its agent has {'not connected' if holds else 'the member'}"
        return "" if any([await held(each) for each in namespaces]) is holds else told

    last, waited = await patiently(missing, seconds=READY_SECONDS, every=0.5, clock=clock), 0.0
    if last and (waited := await more()):
        last = await patiently(missing, seconds=waited, every=0.5, clock=clock)
    if last:
        raise StowageError(
            f"{name}: after {READY_SECONDS + waited:.0f} s {last}: see the logs of {AGENT} there. "
            "The same command goes on from there"
        )


async def _pulled(hub: ApiClient, name: str) -> bool:
    """Whether the MemberCluster names a namespace of an agent."""
    found = await hub.find(MEMBER_CLUSTERS, name)
    return found is not None and bool(member_namespace.named(found))


async def _served(at: Connection, home: str) -> bool:
    """Whether a propagator has written its Lease there: some hub has the cluster, by some name."""
    async with ApiClient(at, name="member") as member:
        return await member.find(LEASES, HUB_LEASE, namespace=home) is not None


async def give_up(hub: ApiClient, name: str, *, make: bool) -> bool:
    """Mark the MemberCluster; return whether there is one. One that shares name is made anew."""
    mark = {"annotations": {ANNOTATION_UNJOIN: GIVEN_UP}}
    try:
        await hub.merge_patch(MEMBER_CLUSTERS, name, {"metadata": mark})
    except NotFound:
        if not make:
            return False
        body = {"apiVersion": MEMBER_CLUSTERS.api_version, "kind": MEMBER_CLUSTERS.kind}
        await hub.create(MEMBER_CLUSTERS, {**body, "metadata": {"name": name, **mark}, "spec": {}})
    return True


async def _check_given_up(hub: ApiClient, name: str) -> None:
    """Raise StowageError if somebody has joined or invited the cluster since it was marked."""
    found = await hub.find(MEMBER_CLUSTERS, name)
    notes = found["metadata"].get("annotations", {}) if found is not None else {}
    if notes.get(ANNOTATION_UNJOIN) != GIVEN_UP:
        raise StowageError(
            f"{name} was joined, invited or unjoined by somebody else meanwhile: nothing more of "
            "it is removed"
        )


async def _given_up(hub: ApiClient, name: str) -> None:
    """Return when no share is there but what has ended: it would count as away, not as given up."""
    clock = SystemClock()
    async with following(hub, (WORKLOADS, Stored)) as (workloads,):

        async def missing() -> str:
            left = [
                "/".join(each.metadata.key)
                for each in workloads.values()
                if standing(msgspec.to_builtins(each), name).runs
            ]
            return some(left)

        last = await patiently(missing, seconds=GIVEN_UP_SECONDS, every=0.5, clock=clock)
    if last:
        raise StowageError(
            f"not done after {GIVEN_UP_SECONDS:.0f} s, and goes on by itself: shares of {last} "
            f"still name {name}: does their scheduler run? The same command waits again"
        )


def registration(plan: Join, token: str, identity: str) -> dict[str, Any]:
    """Return the Secret that registers a cluster, with notes on its credential's rights."""
    connection = as_account(plan.reached, token)
    text = kubeconfig(connection, user=MEMBER_ACCOUNT)
    body = secret(plan.name, plan.namespace, text, plan.labels)
    body["metadata"]["annotations"] = {ANNOTATION_IDENTITY: identity}
    body["stringData"] |= {
        credentials.RIGHTS: str(plan.rights),
        credentials.ACCOUNT: f"{plan.namespace}/{MEMBER_ACCOUNT}",
        credentials.POD_SECURITY: str(plan.pod_security),
    }
    return body


def secret(name: str, namespace: str, kubeconfig: str, labels: Mapping[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {**labels, LABEL_REGISTER: "true"},
        },
        "stringData": {"kubeconfig": kubeconfig},
    }


def _of(name: str, say: Say) -> Say:
    return lambda text: say(f"{name}: {text}")


async def _refuse_another(hub: ApiClient, plan: Join, identity: str) -> None:
    """Raise ConfigurationError when the name is, or may be, that of another cluster.

    Also when the cluster has another name already.
    """
    for cluster in (await hub.list(MEMBER_CLUSTERS))["items"]:
        name = cluster["metadata"]["name"]
        status = cluster.get("status", {})
        noted = status.get("clusterUID") or status.get("clusterID")
        marked = cluster["metadata"].get("annotations", {}).get(ANNOTATION_IDENTITY)
        if name != plan.name and identity == (noted or marked):
            raise ConfigurationError(
                f"this cluster is registered as {name} already: `stowage rename {name} "
                f"{plan.name}` gives it that name, and what runs there goes on"
            )
    if plan.replace:
        return
    for resource, namespace in ((SECRETS, plan.namespace), (MEMBER_CLUSTERS, None)):
        with suppress(NotFound):
            found = await hub.get(resource, plan.name, namespace=namespace)
            known = found["metadata"].get("annotations", {}).get(ANNOTATION_IDENTITY)
            if known == identity or _nobodys(found):
                return
            whose = "another cluster" if known else "a cluster that was registered without `join`"
            raise ConfigurationError(
                f"{plan.name} is the name of {whose} ({resource.kind} {plan.name} on the hub): "
                f"choose another name, run `stowage unjoin {plan.name}` first, or say --replace if "
                "the cluster was rebuilt"
            )


async def _refuse_itself(hub: ApiClient, plan: Join, identity: str) -> None:
    """Raise ConfigurationError if the member is the hub, for who took the wrong context."""
    with suppress(ApiError):  # who may not read it is not asked
        if (await hub.get(NAMESPACES, "kube-system"))["metadata"]["uid"] == identity:
            raise ConfigurationError(
                f"{plan.member.server} is the hub itself: name the member by --member-kubeconfig "
                "and --member-context, or say --itself if the hub shall run Workloads, too"
            )


def _nobodys(found: Mapping[str, Any]) -> bool:
    """Whether it is a MemberCluster without credentials, such as one of a ClusterProfile."""
    told = found.get("status", {}).get("clusterID") or found.get("spec", {}).get("secretRef")
    return found["kind"] == MEMBER_CLUSTERS.kind and not told


async def _take_back(hub: ApiClient, plan: Join, identity: str) -> bool:
    """Have a MemberCluster of that name accept the Secret's cluster.

    One that an `unjoin` had begun to give up is given up no more. With `replace` the name may move
    to another cluster than the one that is noted. Return whether it was in Pull.
    """
    notes = {ANNOTATION_UNJOIN: None} | ({ANNOTATION_IDENTITY: identity} if plan.replace else {})
    pulled = False
    with suppress(NotFound):
        patch: dict[str, Any] = {"metadata": {"annotations": notes}}
        found = await hub.merge_patch(MEMBER_CLUSTERS, plan.name, patch)
        pulled = bool(member_namespace.named(found))
        if found.get("spec", {}).get("mode") == MemberMode.PULL:
            reference = {"namespace": plan.namespace, "name": plan.name}
            push = {"spec": {"mode": MemberMode.PUSH.value, "secretRef": reference}}
            await hub.merge_patch(MEMBER_CLUSTERS, plan.name, push)
        if plan.replace:
            await _forget_cluster(hub, plan.name)
    return pulled


async def _forget_cluster(hub: ApiClient, name: str) -> None:
    note = {"status": {"clusterID": None}}
    await hub.merge_patch(MEMBER_CLUSTERS, name, note, subresource="status")


async def _known_token(hub: ApiClient, plan: Join) -> str:
    """Return the token in the hub's Secret; empty where there is none that can be read."""
    with suppress(NotFound, KubeconfigError, ValueError):
        found = await hub.get(SECRETS, plan.name, namespace=plan.namespace)
        data = {k: base64.b64decode(v) for k, v in (found.get("data") or {}).items()}
        return credentials_of(data).connection.token or ""
    return ""


def _check(plan: Join) -> None:
    """Raise ConfigurationError for a name, labels or an address that the hub would refuse."""
    meta = {"name": plan.name, "labels": dict(plan.labels)}
    try:
        _Registered.model_validate(meta)
    except ValidationError as e:
        loc, text = worded(e, _Registered)[0]
        raise ConfigurationError(f"{'.'.join(map(str, loc))}: {text}") from e
    try:
        parse_kubeconfig(
            kubeconfig(as_account(plan.reached, "a-token"), user=MEMBER_ACCOUNT).encode()
        )
    except KubeconfigError as e:
        raise ConfigurationError(f"the hub could not use that address of {plan.name}: {e}") from e


async def _refuse_loopback(hub: ApiClient, plan: Join, say: Say) -> None:
    """Raise ConfigurationError for an address of this machine if the propagator runs in the hub.

    Such an address leads the propagator to its own pod. `--member-server` with it is meant, and
    gives a warning.
    """
    host = urlsplit(plan.reached.server).hostname or ""
    if not (loopback(host) or host.endswith(".localhost")):
        return
    try:
        await hub.get(DEPLOYMENTS, "stowage-propagator", namespace=plan.namespace)
    except ApiError:
        return  # the propagator is a process of this machine
    told = (
        f"{plan.name} is {host} to this machine, but a propagator in the hub finds its own pod "
        "there: name the address that the hub reaches with --member-server"
    )
    if plan.server is None:
        raise ConfigurationError(told)
    say(f"warning: {told}")


async def _ready(hub: ApiClient, name: str, say: Say) -> None:
    async def missing() -> str:
        with suppress(NotFound):
            status = (await hub.get(MEMBER_CLUSTERS, name)).get("status", {})
            if conditions.holds(status, "Ready"):
                say(f"{name} is Ready: {status.get('version')}, {status.get('provider')}")
                return ""
            if ready := conditions.find(status, "Ready"):
                return f"{ready['reason']}: {ready['message']}"
        return "the propagator has not looked at it: is it running?"

    if last := await patiently(missing, seconds=READY_SECONDS, every=0.2, clock=SystemClock()):
        raise StowageError(
            f"{name} is registered, but not Ready after {READY_SECONDS:.0f} s: {last}"
        )
