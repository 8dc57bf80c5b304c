"""Orders of the hub as Assignments: the other side of `share_applier`, for a member in mode Pull.

An Assignment is written when it says something else than what is ordered, and not for a younger
`decided` alone. Copies of Secrets are there before the Assignment that names them, and go after it
names others. An Assignment goes when the agent has told that nothing is left; one that is missing
removes nothing.

`Leftovers` orders the removal of what gone Workloads left on such a member, by the rule of
`orphans`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Any, TypeAlias

import msgspec

from crds.admission.carried import kind_name
from crds.assignment import AssignmentOrder, AssignmentState
from crds.names import ANNOTATION_MEMBER, API_VERSION, GROUP
from crds.workload import OnDelete, PropagatedReason
from machinery import logs
from machinery.api.client import ApiClient
from machinery.api.resources import ASSIGNMENTS, SECRETS, group_of
from machinery.errors import AlreadyExists, Conflict, Forbidden, NotFound, TransportError
from machinery.kinds.workloadkinds import WorkloadKind
from machinery.types.api import AssignmentSpec
from machinery.types.merge_patch import merging
from machinery.types.metadata import Key
from propagator.apply.render import ANNOTATION_CARRIED
from propagator.errors import HubFault, Refused
from propagator.hub.cluster_status import too_old
from propagator.hub.workloads import HubWorkloads
from propagator.members.pods import main_of
from propagator.members.pulled import PullSession
from propagator.orders import Share, ShareReport
from propagator.outcome import DesiredShare, Outcome
from propagator.pull.bundle import (
    CONTENTS,
    SecretCopy,
    Unreadable,
    digest_of,
    outlines,
    packed,
    unpacked,
)
from propagator.removal.brake import SweepBrake
from propagator.types.assignment import Assignment
from propagator.types.workload import ObjectId, Workload, workload_of

_LONG_AGO = "2000-01-01T00:00:00Z"
Kinds: TypeAlias = AbstractSet[tuple[str, str]]
"""Pairs of apiVersion and kind."""
LABEL_ASSIGNMENT = f"{GROUP}/assignment"
"""On a copy of a Secret: the Assignment that it goes along with."""


class AssignmentWriter:
    def __init__(
        self, hub: ApiClient, *, described: Callable[[Kinds], Sequence[WorkloadKind]]
    ) -> None:
        self._hub = hub
        self._described = described

    async def carry_out(self, session: PullSession, share: Share) -> ShareReport:
        """Write the Assignment if it changes; return what its agent has told of this very order.

        Raises Refused, HubFault, Conflict.
        """
        uid, removes = share.workload.uid, share.order is AssignmentOrder.REMOVE
        if removes and not session.holds(share.workload):
            return ShareReport(Outcome(share.desired))
        applies, found = share.order is AssignmentOrder.APPLY, session.assignment(uid)
        if applies and share.workload.starts_later(session.name) and not _applied(found, share):
            return ShareReport(Outcome(share.desired))  # an agent knows of its own share alone
        if applies and _new(found) and (why := too_old(session)):
            raise Refused(PropagatedReason.PROPAGATING, why)
        spec, copies = self._spec_of(session, share)
        try:
            await self._tidy_first(session)
            await self._write(session, uid, spec, copies)
        except Conflict:
            raise
        except TransportError as fault:
            raise HubFault("the Assignment could not be written", fault) from fault
        report = _told(session, share)
        if not removes or report.obstacle is not None or report.stays:
            return report
        told, said = session.assignment(uid), share.workload.status.kept
        keeps = bool(told and told.status.kept) or any(e["cluster"] == session.name for e in said)
        if share.workload.ended or not keeps:  # the Assignment alone tells when that is gone
            await self.forget(session, uid)
        return report

    async def observe(self, session: PullSession, share: Share) -> None:
        """Order that nothing is written, where an order stands."""
        if session.assignment(share.workload.uid) is not None:
            spec, _ = self._spec_of(session, share)
            await self._write(session, share.workload.uid, spec, ())

    async def end(self, session: PullSession, uid: str, key: Key, *, orphan: bool | None) -> None:
        """Order that all goes of a Workload that the hub does not know. Raises TransportError."""
        namespace, name = key
        meta = {"namespace": namespace, "name": name, "uid": uid, "deletionTimestamp": _LONG_AGO}
        workload = workload_of({"metadata": meta, "spec": {}})
        share = Share(
            order=AssignmentOrder.REMOVE,
            workload=workload,
            desired=DesiredShare.of(workload, session.name),
            decided=math.inf,
            orphan=orphan,
            left=False,
        )
        spec, _ = self._spec_of(session, share)
        await self._write(session, uid, spec, ())

    def _spec_of(
        self, session: PullSession, share: Share
    ) -> tuple[dict[str, Any], list[SecretCopy]]:
        kinds = {*share.workload.kinds(), *share.workload.remembered()}
        return spec_of(session, share, kinds, self._described(kinds))

    async def forget(self, session: PullSession, uid: str) -> None:
        """Remove an Assignment that is done with, and its Secrets. Raises TransportError."""
        found = session.assignment(uid)
        if found is None:
            return
        namespace = session.source.namespace
        with suppress(NotFound):
            await self._hub.delete(
                ASSIGNMENTS, uid, namespace=namespace, uid=found.metadata.uid or None
            )
        await self._drop(namespace, [each.name for each in found.spec.secrets])

    async def _tidy_first(self, session: PullSession) -> None:
        async with session.tidying:  # a copy that has just been made has no Assignment yet
            if not session.tidy:
                session.tidy = True
                await self._tidy(session)

    async def _tidy(self, session: PullSession) -> None:
        named = {each.name for one in session.assignments.values() for each in one.spec.secrets}
        namespace, found = session.source.namespace, []
        selection: Any = {"namespace": namespace, "label_selector": LABEL_ASSIGNMENT}
        async for page in self._hub.pages(SECRETS, metadata_only=True, **selection):
            listed = msgspec.json.decode(page).get("items") or ()
            found += [each["metadata"]["name"] for each in listed]
        await self._drop(namespace, [name for name in found if name not in named])

    async def _write(
        self,
        session: PullSession,
        uid: str,
        spec: Mapping[str, Any],
        copies: Sequence[SecretCopy],
    ) -> None:
        found, mark = session.assignment(uid), str(session.mark)
        stands = found is not None and _says(found, spec, mark)
        if stands and not (found and found.status.reason):
            return
        namespace = session.source.namespace
        for copy in copies:  # its agent may lack one that was deleted
            await self._copy(namespace, uid, copy)
        if stands:
            return
        metadata: dict[str, Any] = {"annotations": {ANNOTATION_MEMBER: mark}}
        if found is None:
            metadata |= {"name": uid, "namespace": namespace}
            kind = {"apiVersion": API_VERSION, "kind": ASSIGNMENTS.kind}
            body = {**kind, "metadata": metadata, "spec": spec}
            try:
                answer = await self._hub.create(ASSIGNMENTS, body)
            except AlreadyExists as e:  # its event is in flight
                raise Conflict(code=409, reason="Conflict", message=str(e)) from e
        else:
            metadata |= {"resourceVersion": found.metadata.resource_version}
            changed = merging(msgspec.to_builtins(found.spec), spec)
            patch = {"metadata": metadata, "spec": changed}
            answer = await self._hub.merge_patch(ASSIGNMENTS, uid, patch, namespace=namespace)
        session.assignments.upsert(msgspec.convert(answer, Assignment))
        if found is not None:
            kept = {each.name for each in copies}
            await self._drop(namespace, [s.name for s in found.spec.secrets if s.name not in kept])

    async def _copy(self, namespace: str, uid: str, copy: SecretCopy) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": copy.name,
                "namespace": namespace,
                "labels": {LABEL_ASSIGNMENT: uid},
            },
            "type": "Opaque",
            "immutable": True,
            "data": {CONTENTS: copy.contents},
        }
        with suppress(AlreadyExists):  # its name tells its contents
            await self._hub.create(SECRETS, body)

    async def _drop(self, namespace: str, names: Sequence[str]) -> None:
        for name in names:
            with suppress(NotFound, Forbidden):
                await self._hub.delete(SECRETS, name, namespace=namespace)


def spec_of(
    session: PullSession, share: Share, kinds: Kinds, described: Sequence[WorkloadKind]
) -> tuple[dict[str, Any], list[SecretCopy]]:
    """Return `spec` of the Assignment, and the copies of Secrets that go along. Raises Refused."""
    workload, copies = share.workload, list[SecretCopy]()
    more: Any = {
        "replicas_path": workload.spec.replicas_path,
        "described": described,
        "follows": workload.follows,
    }
    if share.order is AssignmentOrder.APPLY:
        bundle, copies = packed(workload.uid, share.pieces, kinds, absent=share.absent, **more)
    else:
        bundle = outlines(_outlines(workload), kinds, **more)
    meta = workload.metadata
    about: dict[str, Any] = {
        "workload": {
            "namespace": meta.namespace,
            "name": meta.name,
            "uid": workload.uid,
            "generation": meta.generation,
        },
        "order": share.order.value,
        "targetNamespace": workload.namespace,
        "replicas": share.replicas,
        "bundle": bundle,
        "secrets": [{"name": c.name, "as": c.as_, "digest": c.digest} for c in copies],
        "rules": _rules(session, share, kinds),
    }
    decided = meta.resource_version if meta.resource_version.isdigit() else ""
    return {**about, "digest": digest_of(about), "decided": decided}, copies


def written_of(found: Assignment | None) -> dict[ObjectId, str]:
    if found is None or found.spec.order != AssignmentOrder.APPLY:
        return {}
    with suppress(Unreadable):
        return {
            (
                group_of(each.body["apiVersion"]),
                each.body["kind"],
                each.body["metadata"].get("namespace", ""),
                each.body["metadata"]["name"],
            ): each.template_digest or each.digest
            for each in unpacked(found.spec.bundle).objects
        }
    return {}


def stands(found: Assignment | None) -> bool:
    """Whether the agent tells of something there."""
    if found is None or (counts := found.status.counts) is None:
        return False
    return bool(counts.asked or counts.current or found.status.health)


def carried_of(found: Assignment | None) -> str | None:
    if found is None or found.spec.order != AssignmentOrder.APPLY:
        return None
    with suppress(Unreadable):
        for each in unpacked(found.spec.bundle).objects:
            if each.main:
                noted = each.body["metadata"].get("annotations", {}).get(ANNOTATION_CARRIED)
                return str(noted) if noted is not None else None
    return None


def _says(found: Assignment, spec: Mapping[str, Any], mark: str) -> bool:
    """Whether that is ordered, but for the version: a person may have edited any of it."""
    wanted = msgspec.convert(spec, AssignmentSpec)
    same = msgspec.structs.replace(found.spec, decided=wanted.decided) == wanted
    return same and found.metadata.annotations.get(ANNOTATION_MEMBER) == mark


def _new(found: Assignment | None) -> bool:
    """Whether nothing was ordered to be written yet."""
    return found is None or found.spec.order == AssignmentOrder.OBSERVE


def _applied(found: Assignment | None, share: Share) -> bool:
    """Whether the main object is ordered already: one of another name is of another run."""
    main = main_of(share.workload)
    return (main.group, main.kind, main.namespace, main.name) in written_of(found)


def _told(session: PullSession, share: Share) -> ShareReport:
    desired, found = share.desired, session.assignment(share.workload.uid)
    status = found.status if found is not None and found.carried_out else None
    if share.order is not AssignmentOrder.REMOVE:
        if status is None:
            return ShareReport(Outcome(desired))
        blocked = status.blocked.message if status.blocked is not None else ""
        return ShareReport(Outcome(desired, message=blocked, written=not status.reason))
    if status is None:
        waits = f"{session.name}: its agent has not told that it is gone"
        return ShareReport(Outcome(desired), obstacle=Refused(PropagatedReason.PROPAGATING, waits))
    if found is not None and found.removed:
        return ShareReport(Outcome(desired), stays=status.state == AssignmentState.KEPT)
    reason = PropagatedReason.PROPAGATING
    with suppress(ValueError):  # of a younger release
        reason = PropagatedReason(status.reason)
    return ShareReport(Outcome(desired), obstacle=Refused(reason, status.message))


def _outlines(workload: Workload) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    main = workload.outline if not workload.alone else None
    for each in workload.outlines():
        body: dict[str, Any] = {
            "apiVersion": each.api_version,
            "kind": each.kind,
            "metadata": {
                "namespace": each.namespace or workload.namespace,
                "name": each.name or workload.metadata.name,
            },
        }
        found.append(body | ({"main": True} if each == main else {}))
    for name in workload.secrets:
        meta = {"namespace": workload.namespace, "name": name}
        found.append({"apiVersion": "v1", "kind": "Secret", "metadata": meta})
    return found


def _costs(share: Share, member: str) -> list[dict[str, int]]:
    applies = share.order is AssignmentOrder.APPLY
    costs = share.workload.costs_on(member) if applies else None
    return [{"cost": cost, "replicas": replicas} for cost, replicas in costs or ()]


def _rules(session: PullSession, share: Share, kinds: Iterable[tuple[str, str]]) -> dict[str, Any]:
    workload, spec, member = share.workload, share.workload.spec, session.name
    allowed = {kind_name(*pair) for pair in kinds} & session.allowed_kinds
    told, ended = share.told, workload.end_of(member, session.former)
    movement = {k: v for k, v in msgspec.to_builtins(spec.movement).items() if v not in (None, ())}
    rules: dict[str, Any] = {
        "adoption": spec.adoption,
        "drift": spec.drift,
        "forgotten": True if share.orphan is None else None,
        "onDelete": (OnDelete.ORPHAN if share.orphan else OnDelete.DELETE).value,
        "ended": dict(ended) if ended is not None else None,
        "left": share.left or None,
        "deleted": workload.ended or None,
        "done": told.done,
        "part": told.part,
        "awaitsEnd": told.awaits_end or None,
        "budgets": movement or None,
        "forced": share.forced or None,
        "accepted": share.accepted or None,
        "allowedKinds": sorted(allowed) or None,
        "deletionCosts": _costs(share, member) or None,
        "revision": workload.revision_of(member) or None,
        "kept": [_kept(each) for each in workload.claims_left(member)] or None,
    }
    return {key: value for key, value in rules.items() if value is not None}


def _kept(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key != "clusterUID"}


LOG = logs.get(__name__)


class Leftovers:
    def __init__(
        self, *, workloads: HubWorkloads, brake: SweepBrake, assignments: AssignmentWriter
    ) -> None:
        self._workloads = workloads
        self._brake = brake
        self._assignments = assignments

    async def order(self, session: PullSession, key: Key) -> None:
        """The view of the hub must be fresh. Raises TransportError."""
        for uid in sorted(u for u in session.uids_of(key) if not self._workloads.known(u)):
            if (found := session.assignment(uid)) is not None:
                # Until its report names that no more, it would be ordered once more.
                if uid not in session.unassigned and await self._is_over(found, key):
                    await self._assignments.forget(session, uid)
                continue
            if not await self._brake.allows(session, uid):
                continue  # which queues the key when it may go
            if await self._workloads.vanished(uid, key):
                told = "%s: ordering the removal of what Workload %s (uid %s) left"
                LOG.info(told, session.name, "/".join(key), uid)
                orphan = True if await self._workloads.kind_ends(uid) else None
                await self._assignments.end(session, uid, key, orphan=orphan)
                self._brake.swept(session)

    async def _is_over(self, found: Assignment, key: Key) -> bool:
        """Whether the Assignment of an unknown Workload goes, which removes nothing.

        The agent has told that nothing is left, or a finalizer was removed by hand.
        """
        if found.spec.order == AssignmentOrder.REMOVE:
            return found.carried_out and found.status.state == AssignmentState.REMOVED
        return await self._workloads.vanished(found.uid, key)
