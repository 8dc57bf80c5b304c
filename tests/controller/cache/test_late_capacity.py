"""Capacities that are reported late, as in a large fleet: no cluster gets more than it has."""

from __future__ import annotations

from collections import Counter

import pytest

from machinery.api.resources import MEMBER_CLUSTERS, WORKLOADS
from tests.controller.memory import Stage

CORES = 40
STRANGERS = 20
"""Cores of each that others hold at first."""
LATE_SECONDS = 4.0
"""Between two reports of one member, as with 200 members."""
STEP = 0.25


class Members:
    """Pods start at once, and their room is reported late; strangers leave one by one."""

    def __init__(self, stage: Stage, count: int) -> None:
        self.stage = stage
        self.strangers = dict.fromkeys((f"m{number}" for number in range(count)), STRANGERS)
        self.pods: dict[str, str] = {}
        """Workload → its member."""
        self.counted: set[str] = set()
        self.next: dict[str, float] = {}
        for number, name in enumerate(self.strangers):
            stage.cluster(name, cpu=str(CORES), pods="1000")
            self.report(name)
            self.next[name] = number * LATE_SECONDS / count

    def report(self, name: str) -> None:
        """Write the room, and of the pods that it counts from which version on it does."""
        held = sum(member == name for member in self.pods.values()) + self.strangers[name]
        (group,) = self.stage.hub.read(MEMBER_CLUSTERS, name)["status"]["nodeGroups"]
        group["free"]["cpu"] = str(CORES - held)
        body = {"status": {"nodeGroups": [group]}}
        stored = self.stage.hub.edit(MEMBER_CLUSTERS, name, body, status=True)
        version = int(stored["metadata"]["resourceVersion"])
        for workload in [w for w, m in self.pods.items() if m == name and w not in self.counted]:
            self.counted.add(workload)
            self._tell(workload, name, scheduled=1, capacityVersion=version)

    def look(self) -> None:
        """Start what is placed, and let some strangers go."""
        for workload, name in self.placed().items():
            if workload not in self.pods:
                self.pods[workload] = name
                self._tell(workload, name, scheduled=0, current=1)
        now = self.stage.clock.monotonic()
        for name, at in self.next.items():
            self.strangers[name] = max(self.strangers[name] - 1, 0)
            if at <= now:
                self.next[name] = now + LATE_SECONDS
                self.report(name)

    def _tell(self, workload: str, name: str, **counts: int) -> None:
        entry = {"name": name, "replicas": 1, "ready": 1, "state": "Running", **counts}
        self.stage.hub.edit(WORKLOADS, workload, {"status": {"clusters": [entry]}}, status=True)

    def excess(self) -> dict[str, int]:
        """The members with more than they have room for, strangers included."""
        placed = Counter(self.placed().values())
        held = {name: placed[name] + others for name, others in self.strangers.items()}
        return {name: n for name, n in held.items() if n > CORES}

    def placed(self) -> dict[str, str]:
        """The member of each Workload that is decided on."""
        return {
            each["metadata"]["name"]: share["cluster"]
            for each in self.stage.hub.stored(WORKLOADS)
            for share in each.get("status", {}).get("placements", ())
        }


@pytest.mark.proves("SC24")
@pytest.mark.parametrize(
    ("count", "at_once"), [(4, 100), pytest.param(20, 500, marks=pytest.mark.long)]
)
async def test_many_at_once_find_no_more_than_the_room_that_is_there(
    count: int, at_once: int
) -> None:
    stage = Stage()
    members = Members(stage, count)
    async with stage.leading():
        for number in range(at_once):
            stage.workload(f"w{number}", replicas=1)
        for _ in range(round(4 * LATE_SECONDS / STEP)):
            members.look()
            stage.hub.bookmark()
            await stage.calm(STEP)
            assert members.excess() == {}
        assert len(members.placed()) == at_once, "what is freed is used"
