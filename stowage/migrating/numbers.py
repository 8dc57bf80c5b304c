"""The peer's placements as the status of a Workload, such that the controller holds them.

The controller's own pass decides on the Workload as it will be stored, with these placements: what
it would not keep is in the way. So the status is what the controller itself would write, and a
restart of it changes nothing. Nothing is read or written here.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from controller.binding.statuspatch import patch_of
from controller.eventhandlers import known
from controller.model.objects import Workload
from controller.scheduling.decision import Decision
from crds.fields.why import ChangeCause
from crds.names import ANNOTATION_RESTORED
from crds.workload import ScheduledReason, WorkloadCondition
from machinery.types.metadata import Key
from stowage.console import words
from stowage.fleet.inventory import PlanInputs
from stowage.migrating.peer import Json
from stowage.simulation.plan import Where

REASON = ScheduledReason.IMPORTED.value


class Numbers:
    """What the controller makes of Workloads that have the peer's placements."""

    def __init__(
        self,
        where: Where,
        present: PlanInputs,
        bodies: Mapping[Key, Json],
        shares: Mapping[Key, Mapping[str, int]],
        starts: Mapping[Key, Mapping[str, int]],
        *,
        now: datetime,
    ) -> None:
        """`bodies` are Workloads as stored, `starts` the first ordinals that members have."""
        self._shares = shares
        self._bare = {key: _workload(body, None) for key, body in bodies.items()}
        placed = {
            key: _workload(body, _status(body, bare, shares[key], starts.get(key, {})))
            for (key, body), bare in zip(bodies.items(), self._bare.values(), strict=True)
        }
        configuration = where.configuration()
        self._kept = where.rehearsal(configuration, present, now=now, over=placed)
        self._anew = where.rehearsal(configuration, present, now=now, over=self._bare)

    def fault(self, key: Key) -> str:
        """Return why the controller would not keep these placements; empty if it would."""
        if self._bare[key].fault:
            return self._bare[key].fault
        decision = self._kept.once(key)
        if decision is None:
            return f"scheduler {self._bare[key].spec.scheduler_name} decides it, and not Stowage's"
        if not decision.desired:
            text = "it asks for no replicas, and no member would hold it"
            return f"{text}: scale it up at the peer first"
        if dict(decision.placements) == dict(self._shares[key]) and decision.scheduled:
            return ""
        told = words.shares(decision.placements) or "nowhere"
        why = "" if decision.scheduled else f": {decision.message}"
        return f"its rules would have it run on {told}{why}"

    def moves(self, key: Key) -> tuple[int, Mapping[str, int]]:
        """Return how many replicas would move if it were decided anew, and where all would be."""
        decision = self._anew.once(key)
        anew = dict(decision.placements) if decision is not None else {}
        now = self._shares[key]
        return sum(max(n - now.get(name, 0), 0) for name, n in anew.items()), anew

    def status(self, key: Key, title: str) -> dict[str, Any]:
        """Return the fields of the status that the controller writes, from `title`'s bindings."""
        decision = self._kept.once(key)
        if decision is None or self.fault(key):
            raise ValueError(f"{key}: the placements would not be kept")
        return _imported(decision, self._bare[key], title)


def _workload(body: Json, status: Json | None) -> Workload:
    """Return a Workload as the controller reads it once its status is written."""
    notes = {**(body["metadata"].get("annotations") or {})}
    notes.pop(ANNOTATION_RESTORED, None)
    metadata = {**body["metadata"], "annotations": notes}
    fields = {**body, "metadata": metadata, "status": status or {}}
    return known(msgspec.convert(fields, Workload))


def _status(
    body: Json, bare: Workload, shares: Mapping[str, int], starts: Mapping[str, int]
) -> dict[str, Any]:
    replicas = sum(shares.values())
    return {
        "observed": {"controller": body["metadata"].get("generation", 1)},
        "desired": replicas,
        "assigned": replicas,
        "pending": 0,
        "placements": [{"cluster": name, "replicas": n} for name, n in shares.items()],
        "ordinals": [{"cluster": name, "start": n} for name, n in starts.items()],
        "decision": {"hash": bare.info.hash},
    }


def _imported(decision: Decision, workload: Workload, title: str) -> dict[str, Any]:
    """Return the status of a decision whose cause is the import."""
    patch = patch_of(decision, workload, always=True) or {}
    status: dict[str, Any] = patch["status"]
    for step in (step for share in status.get("reasons", ()) for step in share["steps"]):
        step["cause"] = ChangeCause.IMPORTED.value
        step.pop("because", None)  # no rule of ours has chosen it
    for entry in status.get("history", ()):
        entry["cause"] = ChangeCause.IMPORTED.value
    for condition in status["conditions"]:
        if condition["type"] == WorkloadCondition.SCHEDULED.value:
            condition["reason"] = REASON
            condition["message"] = f"it is where {title} has placed it"
    return status
