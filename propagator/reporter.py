"""Brings together what is known of a Workload, writes it to the hub, and lets go of deleted ones.

At once when the Workload was quiet, at most once a second while it changes; what says no more than
that work has begun is not worth a write when it passes within that second. `survey` sees, `report`
puts it into words; this module decides when it is told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crds.names import API_VERSION
from crds.workload import EventReason, PropagatedReason, WorkloadCondition
from machinery import logs
from machinery.events import ObjectRef
from machinery.objects import Key
from machinery.queue import WorkQueue, work
from propagator.endings import Endings
from propagator.hubworkloads import HubWorkloads
from propagator.marks import is_ours
from propagator.model import Workload
from propagator.prune import AGAIN_SECONDS
from propagator.report import Outcome, compose, share_of
from propagator.survey import Survey
from propagator.term import Ground

LOG = logs.get(__name__)
SPACING_SECONDS = 1.0
"""Between two status writes of one Workload."""
_WRITERS = 8


class Reporter:
    """Add a Workload's key to `queue` to have it reported, or released, as it is then."""

    def __init__(
        self, ground: Ground, *, workloads: HubWorkloads, survey: Survey, endings: Endings
    ) -> None:
        self._clock = ground.clock
        self._recorder = ground.recorder
        self._workloads = workloads
        self._survey = survey
        self._endings = endings
        self._outcomes: dict[Key, dict[str, Outcome]] = {}
        self._due: dict[Key, float] = {}
        self._begun: dict[Key, float] = {}
        self.queue: WorkQueue[Key] = WorkQueue(name="reports", clock=ground.clock)

    async def run(self) -> None:
        """Report and release, until cancelled."""
        await work(self.queue, self._report, workers=_WRITERS, log=LOG)

    def note(self, key: Key, member: str, outcome: Outcome | None) -> None:
        """What came of a sync on that member; None: it was taken away there."""
        if outcome is None:
            self._outcomes.get(key, {}).pop(member, None)
        else:
            self._outcomes.setdefault(key, {})[member] = outcome
        self.queue.add(key)

    def forget(self, key: Key) -> None:
        """There is no such Workload any more."""
        for notes in (self._outcomes, self._due, self._begun):
            notes.pop(key, None)

    async def _report(self, key: Key) -> float | None:
        workload = self._workloads.informer.get(key)
        if workload is None:
            self.forget(key)
            return None
        if workload.metadata.deleting and self._endings.clean(workload):
            self.forget(key)
            await self._workloads.release(workload)
            return None
        if not workload.placements and not workload.status.clusters and not is_ours(workload):
            return None
        return await self._bring_up_to_date(workload)

    async def _bring_up_to_date(self, workload: Workload) -> float | None:
        """Write what is known of a Workload, if that is news and the time has come."""
        key, now = workload.metadata.key, self._clock.monotonic()
        if self._due.get(key, now) > now:
            return self._due[key] - now
        status = self._status(workload)
        again = AGAIN_SECONDS if workload.metadata.deleting else None
        if not _news(workload, status):
            return again
        since = self._begun.setdefault(key, now)
        if _under_way(status) and now - since < SPACING_SECONDS:
            return since + SPACING_SECONDS - now
        self._begun.pop(key, None)
        self._due[key] = now + SPACING_SECONDS
        if await self._workloads.tell(workload, status):
            self._announce(workload, status)
        return again

    def _status(self, workload: Workload) -> dict[str, Any]:
        seen = self._survey.seen(workload, self._outcomes.get(workload.metadata.key, {}))
        before = {share["name"]: share for share in workload.status.clusters}
        shares = [share_of(s, workload.template_kind, before.get(s.name, {})) for s in seen]
        return compose(workload, shares, seen, self._clock.now())

    def _announce(self, workload: Workload, status: Mapping[str, Any]) -> None:
        """An event where Propagated changed."""
        was, is_ = _propagated(workload.status.conditions), _propagated(status["conditions"])
        unchanged = (was.get("status"), was.get("reason")) == (is_["status"], is_["reason"])
        if unchanged or _under_way(status):
            return
        good = is_["status"] == "True"
        reason = EventReason.PROPAGATED if good else EventReason.PROPAGATION_FAILED
        namespace, name = workload.metadata.key
        self._recorder.event(
            ObjectRef(API_VERSION, "Workload", namespace, name, workload.uid),
            type="Normal" if good else "Warning",
            reason=reason.value,
            note=is_["message"] if good else f"{is_['reason']}: {is_['message']}",
            action="Propagating",
        )


def _propagated(conditions: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The condition of that type, empty when it is not there yet."""
    kind = WorkloadCondition.PROPAGATED.value
    return next((each for each in conditions if each["type"] == kind), {})


def _under_way(status: Mapping[str, Any]) -> bool:
    """Whether it says no more than that work on the members has begun."""
    reason: str = _propagated(status["conditions"])["reason"]
    return reason == PropagatedReason.PROPAGATING.value


def _news(workload: Workload, status: Mapping[str, Any]) -> bool:
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
