"""Groups and their Workloads on a hub in memory, and clusters that report as members would."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Any

from crds.groups.gate import decision_of
from crds.names import LABEL_GROUP
from machinery.api.resources import WORKLOAD_GROUPS, WORKLOADS
from tests.controller.live import condition, placements
from tests.controller.memory import Stage

CONFIGURATION = "apiVersion: stowage.dev/v1alpha1\nkind: SchedulerConfiguration\n"


def group(name: str = "batch", least: Any = 4, **spec: Any) -> dict[str, Any]:
    """A WorkloadGroup of the namespace shop."""
    return {
        "apiVersion": WORKLOAD_GROUPS.api_version,
        "kind": "WorkloadGroup",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"minMember": least, **spec},
    }


class Gangs(Stage):
    """A stage with gangs on it; in `folder` its configuration is written, with these arguments."""

    def __init__(self, folder: Path, **args: object) -> None:
        super().__init__()
        about = {"name": "Coscheduling", "args": args}
        profile = {"schedulerName": "stowage", "pluginConfig": [about] if args else []}
        self._config = folder / "scheduler.yaml"
        self._config.write_text(f"{CONFIGURATION}profiles: {json.dumps([profile])}\n")

    def led(self, identity: str = "one", **given: Any) -> AbstractAsyncContextManager[None]:
        """A controller whose plugins live in that very process, from when it leads on."""
        return self.configured(self._config, identity=identity, **given)

    def group(self, name: str = "batch", least: Any = 4, **spec: Any) -> None:
        """Create a group."""
        self.hub.put(WORKLOAD_GROUPS, group(name, least, **spec))

    def member(
        self, name: str, *, of: str = "batch", replicas: int = 2, cpu: str = "3", **spec: Any
    ) -> None:
        """Create a Workload of a group, divided unless told otherwise."""
        labels = {"app": name, LABEL_GROUP: of}
        given = {"distribution": "Divided", **spec}
        self.workload(name, replicas=replicas, cpu=cpu, labels=labels, **given)

    def status(self, name: str = "batch") -> dict[str, Any]:
        """The status of the group."""
        with suppress(KeyError):
            found: dict[str, Any] = self.hub.read(WORKLOAD_GROUPS, name).get("status", {})
            return found
        return {}

    def phase(self, name: str = "batch") -> str:
        """Its phase."""
        return str(self.status(name).get("phase", ""))

    def gate(self, name: str = "batch") -> str:
        """Its gate; empty without one."""
        return str(self.status(name).get("gate") or "")

    def released(self, name: str = "batch") -> set[str]:
        """The Workloads that are released at the placements that they have."""
        return {each for each, at_present in self.decisions(name).items() if at_present}

    def decisions(self, name: str = "batch") -> dict[str, bool]:
        """The Workloads that are released: whether at the placements that they have."""
        status, found = self.status(name), dict[str, bool]()
        known = status.get("decisions", {}) if status.get("gate") == "Open" else {}
        uids = {each["metadata"]["uid"]: each for each in self.hub.all(WORKLOADS)}
        for uid, decision in known.items():
            workload = uids.get(uid)
            if workload is None:
                found[uid] = False
            else:
                present = decision_of(placements(workload))
                found[workload["metadata"]["name"]] = present == decision
        return found

    def tells(self, name: str = "batch") -> tuple[str, str, str]:
        """(status, reason, message) of its condition Scheduled."""
        with suppress(KeyError):
            found = condition(self.status(name), "Scheduled")
            return found["status"], found["reason"], found["message"]
        return "", "", ""

    def reports(self, name: str, state: str = "Running", **counts: int) -> None:
        """Report as the propagator does on a Workload's units."""
        shares = placements(self.hub.read(WORKLOADS, name))
        entries = [
            {
                "name": cluster,
                "replicas": units,
                "state": state,
                **({"ready": units} if state == "Running" else {}),
                **counts,
            }
            for cluster, units in shares.items()
        ]
        self.hub.edit(WORKLOADS, name, {"status": {"clusters": entries}}, status=True)

    def writes(self) -> int:
        """So often a status of a group was written."""
        return len(self.hub.writes("/workloadgroups/"))

    def told(self, reason: str = "") -> list[Mapping[str, Any]]:
        """Events about groups."""
        found = self.hub.events(reason)
        return [each for each in found if each["regarding"]["kind"] == "WorkloadGroup"]
