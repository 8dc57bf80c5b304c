"""`stowage uninstall`: takes Stowage off a hub; members keep what they run unless a person says so.

The kind Workload goes first. The propagator then lets go of what every Workload runs, whatever its
`onDelete` says (`propagator.hub.own_kind`), no new Workload can be made meanwhile, and the
definition is gone once every member has answered for its objects. So an uninstall that ends halfway
has removed nothing, and the same command goes on from there. After it go processes, rights,
policies, the other kinds and the namespace.

Nothing is changed without the digest of what was shown.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from crds.names import (
    ANNOTATION_DELETION,
    ANNOTATION_MIGRATION,
    ANNOTATION_UNINSTALL,
    ANNOTATION_UNJOIN,
    CONFIRMED,
    GIVEN_UP,
    GROUP,
    PLACEHOLDER_SCHEDULER,
    UNINSTALL,
)
from crds.workload import OnDelete
from machinery.api.client import ApiClient
from machinery.api.resources import (
    CONFIG_MAPS,
    CRDS,
    DEPLOYMENTS,
    MEMBER_CLUSTERS,
    NAMESPACES,
    RESERVATIONS,
    ROLE_BINDINGS,
    ROLES,
    WORKLOAD_KINDS,
    WORKLOADS,
    Resource,
)
from machinery.clock import SystemClock
from machinery.errors import ApiError, ConfigurationError, Conflict, NotFound, StowageError
from machinery.kinds.table import profile_of_main
from machinery.kinds.templates import claims_in
from machinery.kinds.workloadkinds import WorkloadKind, use_stored
from machinery.tasks import patiently
from machinery.types import conditions
from stowage.console import output
from stowage.console.words import some
from stowage.setup import install, member_namespace
from stowage.setup.holders import named, standing
from stowage.setup.join import give_up

Json = Mapping[str, Any]
Say = Callable[[str], object]

PATIENCE_SECONDS = 300.0
"""Seconds for which members are waited for, before the first change and after each one."""
_COLUMNS = ("member", "workloads", "replicas", "claims", "")
_CLAIM = "PersistentVolumeClaim"
_KIND = f"{WORKLOADS.plural}.{GROUP}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Uninstall:
    """What to take away; `namespace` is where Stowage lives."""

    namespace: str
    delete_workloads: bool = False
    abandon: tuple[str, ...] = ()
    """The members that are not waited for: what runs there stays, with our marks."""


@dataclass(slots=True)
class Member:
    """What Workloads have on a member."""

    name: str
    answers: bool
    workloads: list[Json] = field(default_factory=list)
    replicas: int = 0
    claims: int = 0

    def take(self, workload: Json) -> None:
        has = standing(workload, self.name)
        if has:
            replicas = has.replicas + has.leaving
            self.workloads.append(workload)
            self.replicas += replicas
            self.claims += _claims(workload, self.name, replicas)


@dataclass(frozen=True, slots=True)
class State:
    """All that an uninstall would end, as one read of the hub shows it."""

    members: Sequence[Member]
    workloads: Sequence[Json]

    @property
    def placeholders(self) -> list[Json]:
        """The Workloads whose pods keep the room of Reservations."""
        of_ours = PLACEHOLDER_SCHEDULER
        return [w for w in self.workloads if w["spec"].get("schedulerName") == of_ours]


async def state(hub: ApiClient) -> State:
    """Raises TransportError."""
    kinds = await _all(hub, WORKLOAD_KINDS)  # they say which claims go with a replica
    use_stored(msgspec.convert(kinds, list[WorkloadKind]))
    workloads = await _all(hub, WORKLOADS)
    members = {}
    for each in await _all(hub, MEMBER_CLUSTERS):
        meta = each["metadata"]
        if (meta.get("annotations") or {}).get(ANNOTATION_UNJOIN) != GIVEN_UP:
            ready = conditions.holds(each.get("status") or {}, "Ready")
            members[meta["name"]] = Member(meta["name"], ready)
    registered = [*members]
    for each in workloads:
        for name in named(each, lambda: registered):
            members.setdefault(name, Member(name, answers=False)).take(each)
    return State([members[name] for name in sorted(members)], workloads)


async def show(hub: ApiClient, plan: Uninstall, *, say: Say) -> None:
    """Say what an uninstall would end, and how to confirm that. Raises StowageError."""
    found = await _planned(hub, plan)
    say(table(found, plan))
    if going := [name for each in found.workloads if (name := _migrating(each))]:
        text = "what its release has changed at the peer stays so: undo or finish it first"
        say(f"{some(going)}: the migration is not over; {text}")
    say(f"Nothing was changed. {_fate(found, plan)}: {_command(plan, digest(found, plan))}")


async def uninstall(
    hub: ApiClient, plan: Uninstall, shown: str, *, unled: str = "", say: Say
) -> None:
    """Uninstall, if `shown` is the digest of what is there. Raises StowageError.

    `unled` says that no propagator leads, and so nothing would be let go of; empty if one does.
    """
    found = await _planned(hub, plan)
    if shown != digest(found, plan):
        say(table(found, plan))
        raise ConfigurationError(
            f"this is not what was shown as {shown} any more, nothing is changed: look by "
            "`stowage uninstall`, and confirm again"
        )
    if found.workloads:
        if unled:
            raise StowageError(f"nothing was changed: {unled}")
        await _answering(hub, plan, say)
        await _remove(hub, plan, found, say)
        await _let_go(hub, plan, say)
    await _take_away(hub, plan, say)


def digest(found: State, plan: Uninstall) -> str:
    """Return a digest of what would end, and how.

    Numbers are part of it only where they are removed: elsewhere nothing becomes of them.
    """
    parts = [sorted(each["metadata"]["uid"] for each in found.workloads)]
    parts.append([each.name for each in found.members])
    parts.append([*sorted(plan.abandon), str(plan.delete_workloads)])
    if plan.delete_workloads:
        parts.append([f"{each.name}={each.replicas}/{each.claims}" for each in found.members])
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


def table(found: State, plan: Uninstall) -> str:
    """Return a row for each member."""
    rows = [
        {
            "member": each.name,
            "workloads": len(each.workloads),
            "replicas": each.replicas,
            "claims": each.claims,
            "": _note(each, plan),
        }
        for each in found.members
    ]
    return output.table(rows, _COLUMNS)


def _note(member: Member, plan: Uninstall) -> str:
    if member.name in plan.abandon:
        return "is abandoned: what it runs stays, with our marks"
    if member.answers or not member.workloads:
        return ""
    return f"does not answer: waits for it, or --abandon {member.name}"


def _migrating(workload: Json) -> str:
    """Return the name of a Workload that is being migrated; empty for others."""
    meta = workload["metadata"]
    system, _, ended = (meta.get("annotations") or {}).get(ANNOTATION_MIGRATION, "").partition("/")
    return f"{meta['namespace']}/{meta['name']}" if system and not ended else ""


def _fate(found: State, plan: Uninstall) -> str:
    if not plan.delete_workloads:
        return "Members keep what they run"
    going = [each for each in found.workloads if not _stays(each)]
    on = [(member, each) for member in found.members for each in going]
    replicas = sum(_replicas(each, member.name) for member, each in on)
    claims = sum(_claims(each, m.name, _replicas(each, m.name)) for m, each in on)
    return (
        f"{len(going)} Workloads would be deleted, with {replicas} replicas and {claims} claims on "
        "the members"
    )


def _command(plan: Uninstall, which: str) -> str:
    words = ["stowage uninstall", *(["--delete-workloads"] if plan.delete_workloads else [])]
    words += [f"--abandon {name}" for name in plan.abandon]
    return " ".join([*words, f"--confirm {which}"])


async def _planned(hub: ApiClient, plan: Uninstall) -> State:
    """Raises ConfigurationError if no such member is to be abandoned."""
    found = await state(hub)
    if unknown := sorted({*plan.abandon} - {each.name for each in found.members}):
        raise ConfigurationError(f"--abandon: the hub knows no member {', '.join(unknown)}")
    return found


# --- what is written ------------------------------------------------------------------------------


async def _answering(hub: ApiClient, plan: Uninstall, say: Say) -> None:
    """Return once every member answers that has something and is not abandoned."""

    async def missing() -> str:
        silent = _silent(await state(hub), plan)
        for name in silent:
            if name not in told:
                say(f"{name} does not answer: it is waited for")
                told.add(name)
        return ", ".join(silent)

    told: set[str] = set()
    if silent := await _patiently(missing):
        raise StowageError(
            f"nothing was changed, as what {silent} runs would stay with our marks: wait until it "
            "answers, or abandon it by --abandon"
        )


def _silent(found: State, plan: Uninstall) -> list[str]:
    held = (each for each in found.members if each.workloads and not each.answers)
    return [each.name for each in held if each.name not in plan.abandon]


async def _remove(hub: ApiClient, plan: Uninstall, found: State, say: Say) -> None:
    """Delete what shall not stay: placeholders, and with `delete_workloads` all, by members.

    What an abandoned member has a part of goes last: it is given up only then, since what runs
    there would be placed elsewhere first.
    """
    for reservation in await _all(hub, RESERVATIONS):
        await _deleted(hub, RESERVATIONS, reservation)
    going = found.workloads if plan.delete_workloads else found.placeholders
    left = {each["metadata"]["uid"]: each for each in going}
    beside = {uid for m in found.members if m.name in plan.abandon for uid in _uids(m.workloads)}
    for member in sorted(found.members, key=lambda each: each.name in plan.abandon):
        last = member.name in plan.abandon
        if last and not plan.delete_workloads:
            break  # what else it runs is let go first
        mine = [uid for uid in _uids(member.workloads) if uid in left]
        group = [left.pop(uid) for uid in mine if last or uid not in beside]
        for each in group:
            await _delete_confirmed(hub, each)
        if last:
            await give_up(hub, member.name, make=True)
        await _until_gone(hub, {*_uids(group)}, f"Workloads of {member.name}")
        if group:
            say(f"{member.name}: {len(group)} Workloads are gone")


async def _delete_confirmed(hub: ApiClient, workload: Json) -> None:
    """Delete a Workload that the brake on deletions need not hold: a person has counted it."""
    meta = workload["metadata"]
    notes = {"uid": meta["uid"], "annotations": {ANNOTATION_DELETION: CONFIRMED}}
    with suppress(NotFound, Conflict):
        patch = {"metadata": notes}
        await hub.merge_patch(WORKLOADS, meta["name"], patch, namespace=meta["namespace"])
        await _deleted(hub, WORKLOADS, workload)


async def _let_go(hub: ApiClient, plan: Uninstall, say: Say) -> None:
    """Delete the kind Workload, and return once every Workload has been let go."""
    new = [w for w in await _all(hub, WORKLOADS) if named(w, list)]
    if plan.delete_workloads and new:
        names = some([_key(each) for each in new])
        raise StowageError(f"{names} came meanwhile, and stays: look by `stowage uninstall`")
    say("the members let go of what they run")
    await _end_kind(hub, _KIND)
    for name in plan.abandon:  # not before: its Workloads would be placed elsewhere
        await give_up(hub, name, make=True)
    await _until_gone(hub, None, "Workloads")


async def _until_gone(hub: ApiClient, uids: set[str] | None, what: str) -> None:
    """Return once these Workloads are gone; None: all, and the kind with them."""

    async def missing() -> str:
        found = [w for w in await _all(hub, WORKLOADS) if uids is None or _uid(w) in uids]
        if found or uids is not None:
            return some([_key(each) for each in found])
        return _KIND if await hub.find(CRDS, _KIND) is not None else ""

    if last := await _patiently(missing):
        raise StowageError(
            f"{what} are waited for, and {last} remain: `kubectl describe` says what holds them. "
            "This goes on by itself, and `stowage uninstall` shows what is left"
        )


async def _take_away(hub: ApiClient, plan: Uninstall, say: Say) -> None:
    """Delete processes, rights, policies, kinds and the namespaces, in that order."""
    for each in _in_order(plan.namespace):
        kind, name = each["kind"], each["metadata"]["name"]
        if kind == CRDS.kind:
            gone = await _end_kind(hub, name)
        else:
            try:
                resource = await hub.resource(each["apiVersion"], kind)
            except ApiError:
                continue  # the hub has no such kind, as before 1.36
            gone = await _deleted(hub, resource, each)
        if gone:
            say(f"{kind} {name} deleted")
        if kind == "ClusterRoleBinding":
            await _wherever(hub, ROLE_BINDINGS, name, say)
    await _argocd(hub, say)
    for name in await member_namespace.members(hub):
        with suppress(NotFound):
            await hub.delete(NAMESPACES, name)
            say(f"Namespace {name} deleted, with the accounts of an agent")
    say(
        "Stowage is uninstalled. On members the accounts of `stowage join` stay: "
        "`stowage clean --member-kubeconfig FILE` removes them"
    )


def _in_order(namespace: str) -> list[dict[str, Any]]:
    """Return all that an install may have made, in the order in which it goes."""
    whole = install.manifests(namespace=namespace, all_namespaces=True)
    whole += [*install.page_manifests(namespace=namespace, image=""), *install.wide(namespace)]
    return sorted(whole, key=_rank)


def _rank(manifest: Json) -> int:
    kind, group = manifest["kind"], manifest["apiVersion"].partition("/")[0]
    if kind in (DEPLOYMENTS.kind, CRDS.kind, NAMESPACES.kind):
        return {DEPLOYMENTS.kind: 0, CRDS.kind: 4, NAMESPACES.kind: 5}[kind]
    return {ROLE_BINDINGS.group: 2, "admissionregistration.k8s.io": 3}.get(group, 1)


async def _argocd(hub: ApiClient, say: Say) -> None:
    """Delete what `install --argocd` has made in the namespace of an Argo CD."""
    for resource in (ROLE_BINDINGS, ROLES, CONFIG_MAPS):
        await _wherever(hub, resource, install.DECISIONS, say)


async def _wherever(hub: ApiClient, resource: Resource, name: str, say: Say) -> None:
    """Delete the objects of that name in all namespaces, as those of single tenants."""
    listed = await hub.list(resource, field_selector=f"metadata.name={name}")
    for each in listed["items"]:
        if await _deleted(hub, resource, each):
            say(f"namespace {each['metadata']['namespace']}: {resource.kind} {name} deleted")


async def _end_kind(hub: ApiClient, name: str) -> bool:
    """Delete the definition of a kind of ours, past the guard; return whether there was one."""
    note = {"metadata": {"annotations": {ANNOTATION_UNINSTALL: UNINSTALL}}}
    with suppress(NotFound):
        await hub.merge_patch(CRDS, name, note)
        await hub.delete(CRDS, name)
        return True
    return False


async def _deleted(hub: ApiClient, resource: Resource, found: Json) -> bool:
    """Delete an object, and only that one if its UID is known; return whether it was there."""
    meta = found["metadata"]
    where = meta.get("namespace") if resource.namespaced else None
    with suppress(NotFound, Conflict):
        await hub.delete(resource, meta["name"], namespace=where, uid=meta.get("uid"))
        return True
    return False


# --- what is read ---------------------------------------------------------------------------------


async def _all(hub: ApiClient, resource: Resource) -> list[dict[str, Any]]:
    """Return all objects of a kind of ours; none where the hub does not have the kind any more."""
    try:
        return list((await hub.list(resource))["items"])
    except NotFound:
        return []


def _claims(workload: Json, member: str, replicas: int) -> int:
    spec = workload["spec"]
    each = len(claims_in(profile_of_main(spec), spec.get("template") or {}))
    brought = sum(body.get("kind") == _CLAIM for body in spec.get("manifests") or ())
    kept = (workload.get("status") or {}).get("kept") or ()
    left = sum(one["cluster"] == member and one["kind"] == _CLAIM for one in kept)
    return int(replicas * each + brought + left)


def _replicas(workload: Json, member: str) -> int:
    has = standing(workload, member)
    return has.replicas + has.leaving


def _stays(workload: Json) -> bool:
    return bool(workload["spec"].get("onDelete") == OnDelete.ORPHAN)


def _uid(workload: Json) -> str:
    return str(workload["metadata"]["uid"])


def _uids(workloads: Iterable[Json]) -> list[str]:
    return [_uid(each) for each in workloads]


def _key(workload: Json) -> str:
    return f"{workload['metadata']['namespace']}/{workload['metadata']['name']}"


async def _patiently(missing: Callable[[], Any]) -> str:
    return await patiently(missing, seconds=PATIENCE_SECONDS, every=0.5, clock=SystemClock())
