"""Rolls new revisions out wave by wave. Leader only.

A turn stores the ControllerRevision of the spec, writes the status by the wave machine on the
version that was read, then prunes ControllerRevisions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

import msgspec
import numpy as np

from controller.cache.asread import current_names, named_now, renamed
from controller.features.rollout.machine import Machine, RolloutCluster, RolloutStep, RolloutView
from controller.features.rollout.revisions import PresentRevision, RevisionHistory, refusal
from controller.features.rollout.status import (
    RolledOutCondition,
    changes_of,
    condition_of,
    named_by,
)
from controller.framework.runtime.feature import Term
from controller.framework.runtime.handle import Handle
from controller.framework.statuswriter import Result, StatusWriter
from controller.model.objects import ClusterShare, RolloutState, Workload
from controller.model.unit import WorkloadInfo
from controller.snapshot.columns import Ints
from controller.snapshot.snapshot import Snapshot
from crds.fields.rollout import BACK, RolledOutReason, RolloutPhase
from crds.workload import WorkloadCondition
from machinery import logs
from machinery.api.resources import WORKLOADS
from machinery.errors import Forbidden
from machinery.kinds.profile import Profile
from machinery.kinds.revisions import revision_name
from machinery.types import conditions
from machinery.types.metadata import Key
from machinery.types.selectors import label_selector
from machinery.types.workload_api import Rollout, RolloutStatus

V = TypeVar("V")


def view_of(workload: Workload, snapshot: Snapshot, now: datetime) -> RolloutView | None:
    """None without a rollout."""
    state: RolloutState | None = workload.info.rollout
    if state is None or state.spec is None:
        return None
    shares = _by_present_names(snapshot, {e.name: e for e in workload.status.clusters})
    held = _by_present_names(snapshot, workload.placements)
    waves, last = waves_of(state.spec, snapshot), len(state.spec.waves)
    left = _by_present_names(snapshot, dict.fromkeys(e.cluster for e in workload.status.leaving))
    suspended = _suspended(workload.info, snapshot)
    clusters = []
    for name in sorted({*held, *left}):
        cluster = _placed(name, snapshot, waves, last, held.get(name))
        cluster = replace(cluster, suspended=name in suspended)
        if name in shares:
            shown = _shown(shares[name], cluster.units, workload.info.profile)
            cluster = replace(cluster, **shown)
        clusters.append(cluster)
    spec = _pace(state.spec, workload.info)
    open_waves = _open_waves(waves, workload.info, snapshot)
    named = _named(state, snapshot)
    return RolloutView(spec, *named, clusters, now, open_waves=open_waves)


def _suspended(info: WorkloadInfo, snapshot: Snapshot) -> frozenset[str]:
    if info.suspended is None:
        return frozenset()
    selected = snapshot.selected(info.suspended)
    return frozenset(name for name, row in snapshot.row.items() if selected[row])


def _by_present_names(snapshot: Snapshot, by_cluster: Mapping[str, V]) -> dict[str, V]:
    """Until the decision after a rename a status has the former name."""
    return named_now(by_cluster, renamed(by_cluster, snapshot.clusters, snapshot.row))


def placed_view(
    info: WorkloadInfo, placements: Mapping[str, int], snapshot: Snapshot
) -> RolloutView | None:
    """None without a rollout."""
    state = info.rollout
    if state is None or state.spec is None:
        return None
    waves, last = waves_of(state.spec, snapshot), len(state.spec.waves)
    left = info.moving.leaving.keys() - placements.keys()
    clusters = [
        _placed(name, snapshot, waves, last, placements.get(name))
        for name in sorted({*placements, *left})
    ]
    return RolloutView(state.spec, *_named(state, snapshot), clusters)


def _named(
    state: RolloutState, snapshot: Snapshot
) -> tuple[RolloutStatus | None, Mapping[str, str]]:
    stored, exceptions = state.stored, state.exceptions
    updates = stored.updates if stored is not None else []
    if all(name in snapshot.row for name in [*exceptions, *(each.cluster for each in updates)]):
        return stored, exceptions
    now = current_names(snapshot.clusters, snapshot.row)
    if stored is not None:
        updates = [
            msgspec.structs.replace(each, cluster=now.get(each.cluster, each.cluster))
            for each in updates
        ]
        stored = msgspec.structs.replace(stored, updates=updates)
    return stored, {now.get(name, name): each for name, each in exceptions.items()}


def waves_of(spec: Rollout, snapshot: Snapshot) -> Ints:
    """Shape (n,): the first that selects it, or the rest."""
    waves = np.full(len(snapshot), len(spec.waves), dtype=np.int64)
    for at in reversed(range(len(spec.waves))):
        waves[snapshot.labelled(label_selector(spec.waves[at].cluster_selector))] = at
    return waves


def _open_waves(waves: Ints, info: WorkloadInfo, snapshot: Snapshot) -> frozenset[int]:
    taken = snapshot.chosen(info.cluster_selector)
    return frozenset(np.unique(waves[taken]).tolist())


def _placed(
    name: str, snapshot: Snapshot, waves: Ints, last: int, units: int | None
) -> RolloutCluster:
    row = snapshot.row.get(name)
    return RolloutCluster(
        name,
        wave=last if row is None else int(waves[row]),
        reachable=row is not None and bool(snapshot.ready[row]),
        leaving=units is None,
        units=units or 0,
    )


def _shown(share: ClusterShare, units: int, profile: Profile) -> Mapping[str, Any]:
    return {
        "revision": share.revision,
        "settled": _settled(share, units),
        "ready": min(share.updated, max(share.ready - share.outdated, 0), units),
        "note": share.message,
        # A kind without a count of units is taken to run what was written.
        "runs": share.ready > 0 or bool(share.revision and not profile.scales),
    }


def _settled(share: ClusterShare, units: int) -> bool:
    return share.replicas == units <= share.updated == share.ready and not share.outdated


def _pace(spec: Rollout, info: WorkloadInfo) -> Rollout:
    return msgspec.structs.replace(spec, min_ready_seconds=0) if info.profile.ready.exists else spec


LOG = logs.get(__name__)
AGAIN_SECONDS = 30.0
"""Seconds between retries for a ControllerRevision that is lost or refused."""
WORDS_SECONDS = 10.0
"""Seconds between two writes that change the message alone."""
_ROLLED_OUT = WorkloadCondition.ROLLED_OUT.value


class RolloutController(StatusWriter[Workload]):
    """`carry` of a draft is whether the status no longer names a revision."""

    action = "RollingOut"

    def __init__(self, term: Term, *, handle: Handle) -> None:
        super().__init__(term, WORKLOADS, Workload)
        self._handle = handle
        self._history = RevisionHistory(term.client, check=term.check)
        self._present: dict[Key, PresentRevision] = {}
        self._tried: dict[Key, float] = {}
        self._lost: dict[Key, str] = {}
        self._untidy: set[Key] = set()

    def resync(self, stored: Workload) -> None:
        if stored.info.rollout is not None:
            self.add(stored.metadata.key)

    def forget(self, key: Key) -> None:
        super().forget(key)
        for known in (self._present, self._tried, self._lost):
            known.pop(key, None)
        self._untidy.discard(key)

    async def sync(self, key: Key) -> float | None:
        wait = await super().sync(key)
        if key in self._untidy and (stored := self._stored.get(key)) is not None:
            try:
                await self._history.prune(stored.metadata)
            except Forbidden as e:  # they stay, which is harmless
                LOG.warning("%s", refusal(e), extra={"object": "/".join(key)})
            self._untidy.discard(key)
        return wait

    async def prepare(self, stored: Workload) -> None:
        """Store the ControllerRevision of the spec, and check that of a rollback."""
        key, state = stored.metadata.key, _state(stored)
        if state is None or state.spec is None or stored.metadata.deleting:
            self.forget(key)
            return
        known = self._present.get(key)
        if known is None or not known.of(stored.metadata) or (known.fault and self._is_due(key)):
            self._present[key] = present = await self._history.store(stored)
            self._tried[key] = self._clock.monotonic()
            if present.kept - self._names(stored, present):
                self._untidy.add(key)  # a process died before it pruned
        self._lost.pop(key, None)
        step = self._step(stored)
        if step is not None and step.status.phase in BACK and not _goes_back(state):
            self._lost[key] = await self._history.unusable(stored, step.status.stable)

    def _is_due(self, key: Key) -> bool:
        return self._clock.monotonic() - self._tried[key] >= AGAIN_SECONDS

    def draft(self, stored: Workload) -> Result | None:
        state, present = _state(stored), self._present.get(stored.metadata.key)
        if state is None or stored.metadata.deleting:
            return None
        if state.spec is None:
            return self._removed(stored)
        if present is None or not present.of(stored.metadata):
            return None  # its newest version is queued
        if present.fault:
            said = RolledOutCondition(False, RolledOutReason.REVISION_LOST, present.fault)
            fields = self._conditions(stored, said)
            return Result(fields=fields or None, requeue_after=AGAIN_SECONDS)
        step = self._step(stored)
        return None if step is None else self._drafted(stored, state, state.spec, step)

    def _drafted(
        self, stored: Workload, state: RolloutState, spec: Rollout, step: RolloutStep
    ) -> Result:
        said = condition_of(step, spec)
        status = msgspec.structs.replace(step.status, message=said.message)
        before = state.stored
        fields = changes_of(state, status, step.exceptions)
        quiet = fields.get("rollout", {}).keys() <= {"message"} and "revisions" not in fields
        fields |= self._conditions(stored, said)
        wait = AGAIN_SECONDS if step.lost else step.wait
        if not fields:
            return Result(fields=None, requeue_after=wait)
        rest = self._rest(stored, said) if quiet else 0.0
        if rest > 0:
            return Result(fields=None, requeue_after=min(rest, wait or rest))
        named = named_by(before, state.exceptions.values())
        return Result(
            fields=fields,
            events=step.events,
            requeue_after=wait,
            anyway=True,  # compared above
            carry=bool(named - named_by(status, step.exceptions.values())),
        )

    def _rest(self, stored: Workload, said: RolledOutCondition) -> float:
        old = conditions.among(stored.status.conditions, _ROLLED_OUT)
        same = old.get("reason") == said.reason.value
        return self.rest(stored.metadata.key, WORDS_SECONDS) if same else 0.0

    def _step(self, stored: Workload) -> RolloutStep | None:
        present = self._present.get(stored.metadata.key)
        if present is None or present.fault or not present.of(stored.metadata):
            return None
        view = self._view(stored)
        if view is None or view.unknown:
            return None
        if not _refused(stored):
            return Machine(view, present.revision).step()
        # A refused edit reaches no member and is not rolled out.
        return None if view.stored is None else Machine(view, view.stored.revision).step()

    def _view(self, stored: Workload) -> RolloutView | None:
        view = view_of(stored, self._handle.snapshot(), self._clock.now())
        lost = self._lost.get(stored.metadata.key, "")
        return None if view is None else replace(view, lost=lost)

    def _removed(self, stored: Workload) -> Result:
        fields = {"rollout": None, "revisions": None, "conditions": _others(stored)}
        return Result(fields=fields, anyway=True, carry=True)

    def _conditions(self, stored: Workload, said: RolledOutCondition) -> Mapping[str, Any]:
        old = conditions.among(stored.status.conditions, _ROLLED_OUT)
        renewed = conditions.renewed(
            old,
            type_=_ROLLED_OUT,
            true=said.true,
            reason=said.reason.value,
            message=said.message,
            now=self._clock.now(),
            generation=stored.metadata.generation,
        )
        if renewed == old:
            return {}
        return {"conditions": [*_others(stored), renewed]}

    def landed(self, key: Key, result: Result, *, written: bool) -> None:
        if result.carry:
            self._untidy.add(key)

    def _names(self, stored: Workload, present: PresentRevision) -> frozenset[str]:
        state = _state(stored)
        named = {present.revision}
        if state is not None:
            named |= named_by(state.stored, state.exceptions.values())
        return frozenset(revision_name(stored.metadata.name, each) for each in named)


def under_way(workload: Workload) -> bool:
    state: RolloutState | None = workload.info.rollout
    if state is None or state.spec is None:
        return False
    phase = state.rollout.get("phase") if isinstance(state.rollout, Mapping) else None
    return phase != RolloutPhase.COMPLETE or bool(state.revisions)


def _state(workload: Workload) -> RolloutState | None:
    """Return None for a status that cannot be read: the rollout rests."""
    state: RolloutState | None = workload.info.rollout
    try:
        if state is not None:
            _ = state.stored, state.listed
    except msgspec.ValidationError as e:
        about = {"object": "/".join(workload.metadata.key)}
        LOG.warning("its rollout rests, as its status cannot be read: %s", e, extra=about)
        return None
    return state


def _others(workload: Workload) -> list[Mapping[str, Any]]:
    return [c for c in workload.status.conditions if c.get("type") != _ROLLED_OUT]


def _goes_back(state: RolloutState) -> bool:
    return isinstance(state.rollout, Mapping) and state.rollout.get("phase") in BACK


def _refused(workload: Workload) -> bool:
    review = workload.status.review
    judged = review.generation == workload.metadata.generation and review.refusal
    return bool(workload.fault or judged)
