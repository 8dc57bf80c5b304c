"""The controller's decisions without a controller: the same cache, queue order and `decide`.

The live controller decides again when something changes; the rehearsal goes round until no share
changes. Nothing is read or written; each decision counts as if it were.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeAlias, TypeVar

import msgspec

from controller import catalogue
from controller.binding.statuspatch import status_of
from controller.cache.ledger import Ledger
from controller.eventhandlers import SchedulerCache, known
from controller.framework.profile import Profile, SchedulerConfiguration
from controller.framework.runtime import framework as runtime
from controller.framework.runtime.feature import placed_kinds, told_of_placed
from controller.framework.runtime.handle import DryRunHandle
from controller.model.moving import MovementConfiguration
from controller.model.objects import MemberCluster, Workload, WorkloadStatus
from controller.model.placed import is_workload
from controller.model.unit import WorkloadInfo, restated
from controller.scheduling.batch import decide_set
from controller.scheduling.decision import Decision
from controller.scheduling.sets import Batch, Others
from controller.scheduling.steps import at_once
from machinery import logs
from machinery.api.resources import WORKLOADS
from machinery.types.metadata import Key, Object
from machinery.types.workload_api import ReservedShare

LOG = logs.get(__name__)

_Inside: TypeAlias = tuple[ReservedShare, ...]
L = TypeVar("L", bound=Ledger)
_ATTRIBUTES: Mapping[str, str] = dict(
    zip(WorkloadStatus.__struct_encode_fields__, WorkloadStatus.__struct_fields__, strict=True)
)


def written(decision: Decision, before: Workload) -> WorkloadStatus:
    """Return the status of a Workload once the controller has written a decision on it."""
    told = status_of(decision, before)
    after = msgspec.convert(told, WorkloadStatus)
    fields = {_ATTRIBUTES[name] for name in told.keys() & _ATTRIBUTES.keys()}
    changes = {name: getattr(after, name) for name in fields}
    return msgspec.structs.replace(before.status, **changes)


class Rehearsal:
    """Makes decisions from clusters, Workloads and objects of features, all at the time `now`.

    `handle` is the one that the plugins of the profiles were made with.
    """

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        *,
        clusters: Collection[MemberCluster],
        workloads: Collection[Workload],
        objects: Collection[Object],
        now: datetime,
        handle: DryRunHandle | None = None,
        movement: MovementConfiguration | None = None,
    ) -> None:
        sort = runtime.Ranking(next(iter(profiles.values())))
        self._features = features = catalogue.features()
        self._watches = [watch for feature in features for watch in feature.watches]
        self._kinds = {kind.type_: kind for kind in placed_kinds(features)}
        ledgers = [ledger for feature in features for ledger in feature.ledgers]
        self._cache = SchedulerCache(
            profiles.keys(),
            sort=sort,
            reviewed=lambda _: True,
            ledgers=ledgers,
            fields=runtime.telling(profiles),
        )
        if handle is not None:
            configuration = SchedulerConfiguration(
                profiles, leader_elect=False, movement=movement or MovementConfiguration()
            )
            handle.begin(self._cache, configuration)
        self._profiles = profiles
        self._now = now
        self._infos: dict[Key, WorkloadInfo] = {}
        self._moved: dict[Key, Workload] = {}
        """Workloads whose replicas move, as their last decisions would be written."""
        self.decisions: dict[Key, Decision] = {}
        """The last decision that changed a Workload's shares or left it none, else its first."""
        self.judged: dict[Key, Batch] = {}
        """The last batch that a plugin gathered, by the key of its gathering."""
        for cluster in clusters:
            self._cache.cluster_changed(None, cluster)
            self._tell(cluster)
        self.placed: dict[Key, Workload] = {}
        """Workloads and objects of placed kinds, as they were given."""
        for workload in workloads:
            self._take(workload)
            self._tell(workload)
        for each in objects:
            self._tell(each)
            self._take_placed(each)
        self._cache.listed(self.placed.values())
        self._faults = {key: each.fault for key, each in self.placed.items() if each.fault}
        self._sound = self._infos.keys() - self._faults.keys()
        self._undecided = {k for k, each in self.placed.items() if self._cache.needs_decision(each)}

    def _take(self, workload: Workload) -> None:
        key = workload.metadata.key
        self.placed[key] = workload
        self._cache.workload_changed(None, workload)
        if self._cache.ours(workload):
            self._infos[key] = self._cache.named(workload).info

    def _take_placed(self, stored: Object) -> None:
        if (found := self._read(stored)) is not None:
            self._take(found)
            for handler in told_of_placed(self._features):
                handler(None, found)

    def _read(self, stored: Object) -> Workload | None:
        kind = self._kinds.get(type(stored))
        try:
            return kind.read(stored, known) if kind is not None else None
        except Exception:  # as in the controller: it harms itself alone
            LOG.exception("it cannot be read", extra={"object": "/".join(stored.metadata.key)})
            return None

    def kind_of(self, key: Key) -> str:
        kinds = {kind.resource.plural: kind.resource.kind for kind in self._kinds.values()}
        return kinds.get(key[1].rpartition("/")[0], WORKLOADS.kind)

    def _tell(self, new: Any) -> None:
        for watch in self._watches:
            if watch.type_ is type(new):
                watch.handler(None, new)

    def run(self, asked: Iterable[Key]) -> None:
        """Decide these Workloads, and all that need a decision, until no share changes."""
        turns = self._in_order({*asked, *self._undecided} & self._infos.keys())
        for _ in range(len(self._infos) + 1):
            if not self._round(turns):
                return
            turns = self._in_order(self._open())

    def once(self, key: Key) -> Decision | None:
        """Return the decision of now on one Workload; None if no profile here decides it."""
        batch = self.together(key)
        return batch.of(key) if batch is not None else None

    def together(self, key: Key) -> Batch | None:
        """Return the same, with the decisions that are made together with it."""
        return self._decide(self._infos[key]) if key in self._infos else None

    def info(self, key: Key) -> WorkloadInfo | None:
        """Return a Workload with its shares so far; None if no profile here decides it."""
        return self._infos.get(key)

    def ledger(self, kind: type[L]) -> L:
        """Return a feature's ledger with all decisions so far; the caller must not change it."""
        return self._cache.index.ledger(kind)

    @property
    def clusters(self) -> int:
        return len(self._cache.snapshot())

    def _in_order(self, keys: Iterable[Key]) -> list[Key]:
        return sorted(keys, key=lambda key: self._cache.rank(self._infos[key]))

    def _open(self) -> list[Key]:
        """Return Workloads that a change could help: refused, or placed wherever there is room."""
        return [k for k, d in self.decisions.items() if not d.scheduled or d.workload.everywhere]

    def _round(self, turns: Iterable[Key]) -> bool:
        """Decide each once; return whether any share changed."""
        moved = False
        for decision in self._decisions(turns):
            moved |= dict(decision.placements) != dict(decision.workload.present)
            self._count(decision)
        return moved

    def _decisions(self, turns: Iterable[Key]) -> Iterator[Decision]:
        """Yield a decision on each; those that are decided together have one turn."""
        done = set[Key]()
        for key in turns:
            if key not in done:
                decisions = self._decide(self._infos[key]).decisions
                done.update(each.workload.key for each in decisions)
                yield from decisions

    def _decide(self, info: WorkloadInfo) -> Batch:
        fault = self._faults.get(info.key, "")
        others = Others(partner=self._sound.__contains__)
        steps = decide_set(self._cache, info, self._profiles, self._now, fault=fault, others=others)
        batch = at_once(steps)
        if batch.conclusion is not None:
            self.judged[batch.conclusion.gathering.key] = batch
        return batch

    def _count(self, decision: Decision) -> None:
        """Count a decision as if it were written and read back."""
        info, key = decision.workload, decision.workload.key
        before = self.decisions.get(key)
        same = dict(decision.placements) == dict(info.present)
        if before is None or not same or not decision.placements:
            self.decisions[key] = decision
        decided = info.decided
        if decision.scheduled or not (same and decision.placements):
            decided = (info.constraints, info.demand, info.shape)
        inside = msgspec.convert(decision.fields.get("reservations") or (), _Inside)
        present = dict(decision.placements)
        after = replace(info, present=present, decided=decided, reservations=inside)
        if is_workload(key) and info.present and not same:
            # What moves counts against the fleet's budget until it is ready, and what cannot leave
            # yet is held to the rules of before.
            stored = self._moved.get(key) or self.placed[key]
            status = written(decision, stored)
            self._moved[key] = moved = restated(stored, stored.metadata, status)
            after = replace(after, moving=moved.info.moving, decided=moved.info.decided)
        # The clusters' reports are about the old shares.
        self._infos[key] = after if same else replace(after, shown={})
        self._cache.assume(self._infos[key], decision.placements)
