"""Rolls new revisions out, wave by wave; the leader alone runs it.

A turn of a Workload is three steps. The ControllerRevision of its spec is stored. Then its status
is written on the version that was read: the wave machine says what follows. Then the
ControllerRevisions that nothing names any more are deleted. A process that dies between two of them
leaves what the next turn, here or elsewhere, takes up. A Workload without spec.rollout costs
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from controller.features.rollout.clusters import view_of
from controller.features.rollout.machine import BACK, Machine, RolloutStep, RolloutView
from controller.features.rollout.revisions import PresentRevision, RevisionHistory
from controller.features.rollout.status import changes_of, named_by
from controller.features.rollout.words import RolledOutCondition, condition_of
from controller.framework.runtime.feature import Term
from controller.framework.runtime.handle import Handle
from controller.framework.statuswriter import Result, StatusWriter
from controller.model.objects import Workload
from controller.model.rollout import Rollout, RolloutState
from crds.fields.rollout import RolledOutReason, RolloutPhase
from crds.workload import WorkloadCondition
from machinery import logs
from machinery.api.resources import WORKLOADS
from machinery.types import conditions
from machinery.types.metadata import Key

LOG = logs.get(__name__)
AGAIN_SECONDS = 30.0
"""Between two attempts to store a ControllerRevision that the hub refuses."""
WORDS_SECONDS = 10.0
"""Between two writes of which only the message is another."""
_ROLLED_OUT = WorkloadCondition.ROLLED_OUT.value


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft(Result):
    """A drafted status; with `tidy` a revision is named no more."""

    tidy: bool = False


class RolloutController(StatusWriter[Workload, _Draft]):
    """The rollouts of a hub, for one term of leadership."""

    action = "RollingOut"

    def __init__(self, term: Term, *, handle: Handle) -> None:
        super().__init__(term, WORKLOADS, Workload)
        self._handle = handle
        self._history = RevisionHistory(term.client, check=term.check)
        self._present: dict[Key, PresentRevision] = {}
        self._tried: dict[Key, float] = {}
        self._written: dict[Key, float] = {}
        self._lost: dict[Key, str] = {}
        self._untidy: set[Key] = set()

    def resync(self, stored: Workload) -> None:
        if stored.info.rollout is not None:
            self.add(stored.metadata.key)

    def forget(self, key: Key) -> None:
        for known in (self._present, self._tried, self._written, self._lost):
            known.pop(key, None)
        self._untidy.discard(key)

    async def sync(self, key: Key) -> float | None:
        wait = await super().sync(key)
        if key in self._untidy and (stored := self._stored.get(key)) is not None:
            await self._tidy(stored)
        return wait

    async def prepare(self, stored: Workload) -> None:
        """Store the ControllerRevision of the spec, and look for that of a rollback."""
        key, state = stored.metadata.key, _state(stored)
        if state is None or state.spec is None or stored.metadata.deleting:
            self.forget(key)
            return
        known = self._present.get(key)
        if known is None or not known.of(stored.metadata) or (known.fault and self._is_due(key)):
            self._present[key] = await self._history.store(stored)
            self._tried[key] = self._clock.monotonic()
        self._lost.pop(key, None)
        step = self._step(stored)
        if step is not None and step.status.phase in BACK and not _goes_back(state):
            self._lost[key] = await self._history.unusable(stored, step.status.stable)

    def _is_due(self, key: Key) -> bool:
        return self._clock.monotonic() - self._tried[key] >= AGAIN_SECONDS

    def draft(self, stored: Workload) -> _Draft | None:
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
            return _Draft(fields=fields or None, anyway=True, requeue_after=AGAIN_SECONDS)
        step = self._step(stored)
        return None if step is None else self._drafted(stored, state, state.spec, step)

    def _drafted(
        self, stored: Workload, state: RolloutState, spec: Rollout, step: RolloutStep
    ) -> _Draft:
        said = condition_of(step, spec)
        status = msgspec.structs.replace(step.status, message=said.message)
        before = state.stored()
        fields = changes_of(state, status, step.exceptions)
        quiet = fields.get("rollout", {}).keys() <= {"message"} and "revisions" not in fields
        fields |= self._conditions(stored, said)
        if not fields:
            return _Draft(fields=None, requeue_after=step.wait)
        rest = self._rest(stored, said) if quiet else 0.0
        if rest > 0:
            return _Draft(fields=None, requeue_after=min(rest, step.wait or rest))
        named = named_by(before, state.exceptions().values())
        return _Draft(
            fields=fields,
            events=step.events,
            requeue_after=step.wait,
            anyway=True,  # compared above
            tidy=bool(named - named_by(status, step.exceptions.values())),
        )

    def _rest(self, stored: Workload, said: RolledOutCondition) -> float:
        """Return the seconds until another message alone may be written."""
        old = conditions.among(stored.status.conditions, _ROLLED_OUT)
        written = self._written.get(stored.metadata.key)
        if written is None or old.get("reason") != said.reason.value:
            return 0.0
        return written + WORDS_SECONDS - self._clock.monotonic()

    def _step(self, stored: Workload) -> RolloutStep | None:
        """Return what the wave machine says; None while the revision of the spec is not stored."""
        key = stored.metadata.key
        present, view = self._present.get(key), self._view(stored)
        if present is None or present.fault or not present.of(stored.metadata) or view is None:
            return None
        revision = present.revision
        if _refused(stored):  # what reaches no member is not rolled out
            if view.stored is None:
                return None
            revision = view.stored.revision
        return Machine(view, revision).step()

    def _view(self, stored: Workload) -> RolloutView | None:
        try:
            view = view_of(stored, self._handle.snapshot(), self._clock.now())
        except msgspec.ValidationError as e:
            about = {"object": "/".join(stored.metadata.key)}
            LOG.warning(
                "its rollout stays as it is, as its status cannot be read: %s", e, extra=about
            )
            return None
        lost = self._lost.get(stored.metadata.key, "")
        return None if view is None else replace(view, lost=lost)

    def _removed(self, stored: Workload) -> _Draft:
        """Take everything off that tells of a rollout: spec.rollout is gone."""
        others = [c for c in stored.status.conditions if c.get("type") != _ROLLED_OUT]
        fields = {"rollout": None, "revisions": None, "conditions": others}
        return _Draft(fields=fields, anyway=True, tidy=True)

    def _conditions(self, stored: Workload, said: RolledOutCondition) -> Mapping[str, Any]:
        """Return the conditions where RolledOut says something else than before."""
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
        others = [c for c in stored.status.conditions if c.get("type") != _ROLLED_OUT]
        return {"conditions": [*others, renewed]}

    def landed(self, key: Key, result: _Draft, *, written: bool) -> None:
        if written:
            self._written[key] = self._clock.monotonic()
        if result.tidy:
            self._untidy.add(key)

    async def _tidy(self, stored: Workload) -> None:
        state, present = _state(stored), self._present.get(stored.metadata.key)
        keep = set[str]()
        if state is not None and state.spec is not None:
            keep |= named_by(state.stored(), state.exceptions().values())
            if present is None or not present.of(stored.metadata):
                return  # the revision of the spec is not known: the next turn tidies up
            keep.add(present.revision)
        await self._history.prune(stored, keep)
        self._untidy.discard(stored.metadata.key)


def under_way(workload: Workload) -> bool:
    """Whether a change of a cluster may change what the rollout of a Workload says."""
    state = _state(workload)
    if state is None or state.spec is None:
        return False
    phase = state.rollout.get("phase") if isinstance(state.rollout, Mapping) else None
    return phase != RolloutPhase.COMPLETE or bool(state.revisions)


def _state(workload: Workload) -> RolloutState | None:
    state: RolloutState | None = workload.info.rollout
    return state


def _goes_back(state: RolloutState) -> bool:
    return isinstance(state.rollout, Mapping) and state.rollout.get("phase") in BACK


def _refused(workload: Workload) -> bool:
    review = workload.status.review
    judged = review.generation == workload.metadata.generation and review.refusal
    return bool(workload.fault or judged)
