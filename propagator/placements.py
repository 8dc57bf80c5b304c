"""Workloads onto members, and their state back: the half of the propagator that writes.

`sync` makes one member right for one Workload; it is called by that member's own workers. A second
queue brings together what is known of a Workload and writes it to the hub: at once when the
Workload was quiet, at most once a second while it changes. A deleted Workload keeps its
finalizer until no member holds anything of it.

What it takes away, and when: a share that left the placements goes when all present ones
are ready, so that the last healthy copy stays until there is another; everything goes when the
Workload is deleted or placed nowhere. Never on a view of the hub that is stale.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from crds.names import API_VERSION, FINALIZER
from crds.workload import EventReason, PropagatedReason, ShareState, WorkloadCondition
from machinery import logs
from machinery.errors import ApiError, Conflict, NotFound, TransportError
from machinery.events import ObjectRef
from machinery.informer import Informer
from machinery.objects import Key
from machinery.queue import WorkQueue, work
from machinery.resources import WORKLOADS
from propagator.apply import (
    USUAL,
    Applier,
    Refused,
    known_to_be,
    listed,
    owned,
    resource_of,
)
from propagator.hubsecrets import HubSecrets
from propagator.managed import ManagedObject
from propagator.member import MemberSession
from propagator.model import ANNOTATION_KINDS, ANNOTATION_ORDINALS, HubSecret, Workload
from propagator.render import ORDINAL_BLOCK, Piece, render
from propagator.report import Outcome, Seen, compose, share_of
from propagator.term import Ground

LOG = logs.get(__name__)
SPACING_SECONDS = 1.0
"""Between two status writes of one Workload."""
AGAIN_SECONDS = 0.5
REFUSED_SECONDS = 5.0
"""A member that refused an object is asked again: its quota or its admission may have changed."""
_WRITERS = 8
_USUAL_KINDS = {(resource.api_version, resource.kind) for resource in USUAL}


class WorkloadPlacements:
    """See the module. Made for one term of leadership."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._fleet = ground.fleet
        self._clock = ground.clock
        self._applier = Applier(clock=ground.clock)
        self._outcomes: dict[tuple[Key, str], Outcome] = {}
        self._due: dict[Key, float] = {}
        self._begun: dict[Key, float] = {}
        self._preparing: dict[Key, asyncio.Lock] = {}
        self._gone: dict[str, Key] = {}
        self._absent: dict[tuple[str, str, str], int] = {}
        self._reports: WorkQueue[Key] = WorkQueue(name="reports", clock=ground.clock)
        self._workloads: Informer[Workload] = Informer(
            ground.hub, WORKLOADS, Workload, clock=ground.clock
        )
        self._workloads.add_index("cluster", _clusters_of)
        self._workloads.add_index("secret", _secrets_of)
        self._workloads.add_handler(self._workload_changed)
        self._secrets = HubSecrets(ground.hub, clock=ground.clock, changed=self._secret_changed)
        self._fleet.on_change(self._member_changed)
        for resource in USUAL:
            self._fleet.watch(resource)

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        """Workloads, and the names of Secrets."""
        return (self._workloads, self._secrets.informer)

    async def run(self) -> None:
        """Report and finalize, until cancelled."""
        for informer in self.informers:
            await informer.wait_synced()
        await work(self._reports, self._report, workers=_WRITERS, log=LOG)

    async def sync(self, session: MemberSession, key: Key) -> float | None:
        """Make one ready member right for one Workload; seconds until the next look, or None."""
        if not self._ground.fresh():
            return SPACING_SECONDS
        if await self._sweep(session, key):
            return AGAIN_SECONDS
        workload = self._workloads.get(key)
        if workload is None:
            self._forget(key)
            return None
        if workload.metadata.deleting or not workload.placements:
            return await self._leave(session, workload)
        if session.name in workload.placements:
            return await self._push(session, workload)
        await self._watch_kinds(session, workload)
        if not owned(session, workload.uid):
            self._reports.add(key)
            return None
        if self._settled(workload):
            return await self._leave(session, workload)
        self._reports.add(key)
        return None

    async def _push(self, session: MemberSession, workload: Workload) -> float | None:
        """Write everything, then remove what is no longer rendered; note what came of it."""
        key = workload.metadata.key
        try:
            self._ground.check()
            again = await self._apply(session, workload)
            outcome = Outcome()
        except Refused as refusal:
            again, outcome = REFUSED_SECONDS, Outcome(refusal.reason, str(refusal))
        except Conflict:
            raise  # the hub's Workload was changed while it was prepared: nothing is wrong there
        except TransportError as fault:
            LOG.info("%s: %s", session.name, fault, extra={"object": workload.owner})
            self._note(key, session.name, _outcome(fault))
            raise
        self._note(key, session.name, outcome)
        return again

    async def _apply(self, session: MemberSession, workload: Workload) -> float | None:
        for namespace in _namespaces(workload):
            if not session.allows(namespace):
                raise Refused(
                    PropagatedReason.NAMESPACE_NOT_ALLOWED,
                    f"{session.name} does not take namespace {namespace}",
                )
        secrets = await self._needed_secrets(workload)
        workload = await self._prepare(workload)
        pieces = render(
            workload,
            units=workload.placements[session.name],
            first_ordinal=workload.ordinals().get(session.name, 0),
            secrets=secrets,
        )
        applied = await self._applier.apply(session, workload, pieces)
        if applied.whole:
            await self._prune(session, workload, pieces)
        if applied.refusals:
            raise Refused.of(applied.refusals)
        return applied.again

    async def _prune(
        self, session: MemberSession, workload: Workload, pieces: Sequence[Piece]
    ) -> None:
        """Remove what is no longer rendered; a kind that the member lacks has nothing there."""
        await self._watch_kinds(session, workload)
        if not self._knows(session, workload):
            return
        keep = []
        for piece in pieces:
            with suppress(Refused):
                resource = await resource_of(session, piece.api_version, piece.kind)
                keep.append((resource, piece.namespace if resource.namespaced else "", piece.name))
        await self._applier.prune(session, workload.uid, keep)

    async def _watch_kinds(self, session: MemberSession, workload: Workload) -> None:
        """Have the further kinds of a Workload listed, as far as the member has them."""
        for version, kind in workload.remembered():
            try:
                resource = await resource_of(session, version, kind)
                await listed(session, resource, clock=self._clock)
            except (Refused, NotFound):
                self._absent[session.name, version, kind] = id(session.link)
            else:
                self._absent.pop((session.name, version, kind), None)

    def _knows(self, session: MemberSession, workload: Workload) -> bool:
        """Whether what a Workload owns on that member is known, whatever its kinds."""
        kinds = workload.remembered()
        if not known_to_be(session, kinds) or session.link is None:
            return False
        watched = {(each.api_version, each.kind) for each in session.link.managed}
        return all(
            pair in watched or self._absent.get((session.name, *pair)) == id(session.link)
            for pair in kinds
        )

    async def _needed_secrets(self, workload: Workload) -> list[HubSecret]:
        """Those that travel along. Raises Refused while one of them is missing."""
        found = []
        for name in workload.secrets:
            secret = await self._secrets.get((workload.metadata.namespace, name))
            if secret is None:
                raise Refused(
                    PropagatedReason.SECRET_NOT_FOUND,
                    f"Secret {workload.metadata.namespace}/{name} does not exist on the hub",
                )
            found.append(secret)
        return found

    async def _prepare(self, workload: Workload) -> Workload:
        """Before the first write to any member: the finalizer, the kinds, the first ordinals.

        One write on top of the version that was read; a Workload that has it all costs nothing.
        """
        key = workload.metadata.key
        async with self._preparing.setdefault(key, asyncio.Lock()):
            now = self._workloads.get(key)
            workload = now if now is not None and now.uid == workload.uid else workload
            metadata = _missing(workload)
            if not metadata:
                return workload
            metadata["resourceVersion"] = workload.metadata.resource_version
            namespace, name = key
            answer = await self._ground.hub.merge_patch(
                WORKLOADS, name, {"metadata": metadata}, namespace=namespace
            )
            prepared = msgspec.convert(answer, Workload)
            self._workloads.upsert(prepared)
            return prepared

    async def _leave(self, session: MemberSession, workload: Workload) -> float | None:
        """Remove everything of a Workload from one member."""
        key = workload.metadata.key
        try:
            await self._watch_kinds(session, workload)
        except TransportError as fault:
            self._note(key, session.name, _outcome(fault))
            raise
        if not self._knows(session, workload):
            return AGAIN_SECONDS
        self._ground.check()
        left = await self._applier.prune(session, workload.uid, ())
        self._outcomes.pop((key, session.name), None)
        self._reports.add(key)
        return AGAIN_SECONDS if left else None

    async def _sweep(self, session: MemberSession, key: Key) -> bool:
        """Remove what Workloads of that name left that went without us; whether there was any.

        Somebody took the finalizer away, or the member was removed and is back. Only Workloads
        whose end was seen count: one that was never heard of may be another hub's. The hub is
        asked once more before anything is removed.
        """
        gone = [uid for uid, of in self._gone.items() if of == key and owned(session, uid)]
        if not gone:
            return False
        with suppress(NotFound):
            found = await self._ground.hub.get(WORKLOADS, key[1], namespace=key[0])
            gone = [uid for uid in gone if uid != found["metadata"]["uid"]]
        self._ground.check()
        for uid in gone:
            await self._applier.prune(session, uid, ())
        return bool(gone)

    def _settled(self, workload: Workload) -> bool:
        """Whether all present shares are ready, so that what left may go."""
        shares = {share["name"]: share for share in workload.status.clusters}
        return all(
            name in shares
            and shares[name].get("state") == ShareState.RUNNING.value
            and shares[name].get("replicas") == units
            for name, units in workload.placements.items()
        )

    async def _report(self, key: Key) -> float | None:
        """Write what is known of a Workload, if that is news."""
        workload = self._workloads.get(key)
        if workload is None:
            self._forget(key)
            return None
        if workload.metadata.deleting and self._clean(workload):
            await self._release(workload)
            return None
        if not workload.placements and not workload.status.clusters and not _ours(workload):
            return None
        now = self._clock.monotonic()
        wait = self._due.get(key, now) - now
        if wait > 0:
            return wait
        seen = [self._see(workload, name) for name in self._names(workload)]
        before = {share["name"]: share for share in workload.status.clusters}
        shares = [share_of(s, workload.template_kind, before.get(s.name, {})) for s in seen]
        status = compose(workload, shares, seen, self._clock.now())
        if not _news(workload, status):
            return AGAIN_SECONDS if workload.metadata.deleting else None
        since = self._begun.setdefault(key, now)
        if _under_way(status) and now - since < SPACING_SECONDS:
            return since + SPACING_SECONDS - now  # what passes so soon is not worth a write
        self._begun.pop(key, None)
        self._due[key] = now + SPACING_SECONDS
        await self._write(workload, status)
        return AGAIN_SECONDS if workload.metadata.deleting else None

    async def _write(self, workload: Workload, status: dict[str, Any]) -> None:
        namespace, name = workload.metadata.key
        patch = {
            "metadata": {"resourceVersion": workload.metadata.resource_version},
            "status": status,
        }
        self._ground.check()
        with suppress(NotFound):
            answer = await self._ground.hub.merge_patch(
                WORKLOADS, name, patch, namespace=namespace, subresource="status"
            )
            self._workloads.upsert(msgspec.convert(answer, Workload))
            self._tell(workload, status)

    def _tell(self, workload: Workload, status: dict[str, Any]) -> None:
        """An event where Propagated changed."""
        kind = WorkloadCondition.PROPAGATED.value
        was = next((c for c in workload.status.conditions if c["type"] == kind), {})
        is_ = next(c for c in status["conditions"] if c["type"] == kind)
        unchanged = (was.get("status"), was.get("reason")) == (is_["status"], is_["reason"])
        if unchanged or is_["reason"] == PropagatedReason.PROPAGATING.value:
            return
        good = is_["status"] == "True"
        reason = EventReason.PROPAGATED if good else EventReason.PROPAGATION_FAILED
        namespace, name = workload.metadata.key
        self._ground.recorder.event(
            ObjectRef(API_VERSION, "Workload", namespace, name, workload.uid),
            type="Normal" if good else "Warning",
            reason=reason.value,
            note=is_["message"] if good else f"{is_['reason']}: {is_['message']}",
            action="Propagating",
        )

    def _see(self, workload: Workload, name: str) -> Seen:
        session = self._fleet.get(name)
        asked = workload.placements.get(name, 0)
        leaving = name not in workload.placements
        if session is None or not session.ready:
            why = session.message if session else "there is no MemberCluster of this name"
            return Seen(name, asked, leaving, False, why, None, None, None, None)
        objects = owned(session, workload.uid)
        main = _main_of(workload, objects)
        outcome = self._outcomes.get((workload.metadata.key, name))
        units = session.units(workload.uid)
        return Seen(name, asked, leaving, True, "", outcome, main, units, _balancer(objects))

    def _names(self, workload: Workload) -> list[str]:
        """The clusters to speak of: those placed, and those that still hold something."""
        holding = [
            name
            for name in self._fleet.names()
            if name not in workload.placements
            and (session := self._fleet.get(name)) is not None
            and owned(session, workload.uid)
        ]
        away = [
            share["name"]
            for share in workload.status.clusters
            if share["name"] not in workload.placements and self._may_hold(workload, share["name"])
        ]
        return sorted({*workload.placements, *holding, *away})

    def _may_hold(self, workload: Workload, name: str) -> bool:
        """Whether it is not known what a member holds of a Workload. A removed one has nothing.

        Right after the start there are members that have no session yet.
        """
        session = self._fleet.get(name)
        if session is None:
            return self._ground.clusters.get(("", name)) is not None
        return not self._knows(session, workload)

    def _clean(self, workload: Workload) -> bool:
        """Whether no member holds anything of a deleted Workload. A removed member does not."""
        if not self._ground.fresh():
            return False
        held = {*workload.placements, *(share["name"] for share in workload.status.clusters)}
        for name in {*held, *self._fleet.names()}:
            session = self._fleet.get(name)
            holds = session is not None and bool(owned(session, workload.uid))
            if holds or (name in held and self._may_hold(workload, name)):
                self._wake(name, workload.metadata.key)
                return False
        return True

    async def _release(self, workload: Workload) -> None:
        """Let the deletion of a Workload come to its end."""
        self._forget(workload.metadata.key)
        if FINALIZER not in workload.metadata.finalizers:
            return
        rest = [each for each in workload.metadata.finalizers if each != FINALIZER]
        namespace, name = workload.metadata.key
        metadata = {"resourceVersion": workload.metadata.resource_version, "finalizers": rest}
        self._ground.check()
        with suppress(NotFound):
            await self._ground.hub.merge_patch(
                WORKLOADS, name, {"metadata": metadata}, namespace=namespace
            )

    def _note(self, key: Key, member: str, outcome: Outcome) -> None:
        self._outcomes[key, member] = outcome
        self._reports.add(key)

    def _forget(self, key: Key) -> None:
        self._due.pop(key, None)
        self._begun.pop(key, None)
        self._preparing.pop(key, None)
        for name in self._fleet.names():
            self._outcomes.pop((key, name), None)

    def _workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        """Wake the members concerned.

        Our own reports come by here too, and wake only the leaving.
        """
        known = new or old
        if known is None:
            return
        key = known.metadata.key
        self._mind_end(known, gone=new is None)
        self._reports.add(key)
        if old is not None and new is not None and _same_wish(old, new):
            names = set(_clusters_of(new)) - set(new.placements)
        else:
            names = {n for each in (old, new) if each is not None for n in _clusters_of(each)}
            names |= {
                n
                for n in self._fleet.names()
                if (session := self._fleet.get(n)) is not None and owned(session, known.uid)
            }
        for name in names:
            self._wake(name, key)

    def _mind_end(self, workload: Workload, *, gone: bool) -> None:
        """Remember a Workload that went while a member held, or may have held, some of it."""
        if not gone:
            self._gone.pop(workload.uid, None)
            return
        sessions = {name: self._fleet.get(name) for name in self._fleet.names()}
        holding = any(s is not None and owned(s, workload.uid) for s in sessions.values())
        unasked = any(
            (session := sessions.get(name)) is None or not self._knows(session, workload)
            for name in _clusters_of(workload)
        )
        if holding or unasked:
            self._gone[workload.uid] = workload.metadata.key

    def _member_changed(self, name: str, key: Key | None) -> None:
        if key is not None:
            self._reports.add(key)
            return
        if self._fleet.get(name) is None:
            self._applier.forget(name)
        for workload in self._workloads.by_index("cluster", name):
            self._reports.add(workload.metadata.key)
            self._wake(name, workload.metadata.key)
        for workload in self._workloads.values():
            if workload.metadata.deleting:
                self._reports.add(workload.metadata.key)

    def _secret_changed(self, key: Key) -> None:
        for workload in self._workloads.by_index("secret", "/".join(key)):
            for name in workload.placements:
                self._wake(name, workload.metadata.key)

    def _wake(self, member: str, key: Key) -> None:
        session = self._fleet.get(member)
        if session is not None:
            session.queue.forget(key)
            session.queue.add(key)


def _under_way(status: dict[str, Any]) -> bool:
    """Whether it says no more than that work on the members has begun."""
    kind, under_way = WorkloadCondition.PROPAGATED.value, PropagatedReason.PROPAGATING.value
    return any(c["type"] == kind and c["reason"] == under_way for c in status["conditions"])


def _outcome(fault: TransportError) -> Outcome:
    """What a fault says about a share: an answer of the member that is no, or none at all."""
    forbidden = isinstance(fault, ApiError) and fault.code == 403
    reason = PropagatedReason.REJECTED if forbidden else PropagatedReason.CLUSTER_UNREACHABLE
    return Outcome(reason, str(fault))


def _clusters_of(workload: Workload) -> set[str]:
    return {*workload.placements, *(share["name"] for share in workload.status.clusters)}


def _secrets_of(workload: Workload) -> list[str]:
    return [f"{workload.metadata.namespace}/{name}" for name in workload.secrets]


def _namespaces(workload: Workload) -> set[str]:
    """The target namespaces of everything that a Workload renders."""
    manifests = (body.get("metadata") or {} for body in workload.spec.manifests)
    return {workload.namespace, *(m["namespace"] for m in manifests if m.get("namespace"))}


def _same_wish(old: Workload, new: Workload) -> bool:
    return (
        old.uid == new.uid
        and old.metadata.generation == new.metadata.generation
        and old.metadata.deleting == new.metadata.deleting
        and old.placements == new.placements
    )


def _ours(workload: Workload) -> bool:
    return FINALIZER in workload.metadata.finalizers


def _missing(workload: Workload) -> dict[str, Any]:
    """What the hub's object lacks before anything of it may be written to a member."""
    metadata: dict[str, Any] = {}
    if FINALIZER not in workload.metadata.finalizers:
        metadata["finalizers"] = [*workload.metadata.finalizers, FINALIZER]
    annotations: dict[str, str] = {}
    kinds = workload.remembered() | (set(workload.kinds()) - _USUAL_KINDS)
    if kinds != workload.remembered():
        annotations[ANNOTATION_KINDS] = ",".join(sorted("/".join(pair) for pair in kinds))
    if workload.template_kind == "StatefulSet":
        ordinals = first_ordinals(workload)
        if ordinals != workload.ordinals():
            annotations[ANNOTATION_ORDINALS] = json.dumps(ordinals, sort_keys=True)
    if annotations:
        metadata["annotations"] = annotations
    return metadata


def first_ordinals(workload: Workload) -> dict[str, int]:
    """Each cluster's first ordinal: those it has, and the lowest free block for every new one.

    A cluster keeps its block for good, so that scaling or moving renumbers nobody.
    """
    ordinals = workload.ordinals()
    taken = set(ordinals.values())
    for name in sorted(set(workload.placements) - ordinals.keys()):
        first = 0
        while first in taken:
            first += ORDINAL_BLOCK
        taken.add(first)
        ordinals[name] = first
    return ordinals


def _main_of(
    workload: Workload, objects: Sequence[tuple[Any, ManagedObject]]
) -> ManagedObject | None:
    """The object that runs the units, among those that the Workload owns on a member."""
    name = (workload.template.get("metadata") or {}).get("name") or workload.metadata.name
    version = workload.template.get("apiVersion")
    for resource, found in objects:
        if (resource.api_version, resource.kind) != (version, workload.template_kind):
            continue
        if found.metadata.key == (workload.namespace, name) and not found.metadata.deleting:
            return found
    return None


def _balancer(objects: Sequence[tuple[Any, ManagedObject]]) -> dict[str, Any] | None:
    for resource, found in objects:
        if resource.kind == "Service" and found.status.get("loadBalancer"):
            return dict(found.status["loadBalancer"])
    return None


def _news(workload: Workload, status: dict[str, Any]) -> bool:
    old = workload.status
    return (
        status["clusters"] != old.clusters
        or status["conditions"] != old.conditions
        or status["ready"] != old.ready
        or status["readySummary"] != old.ready_summary
        or status["serviceExternalIP"] != old.service_external_ip
        or status.get("state", old.state) != old.state
        or "clusterSummary" in status
    )
