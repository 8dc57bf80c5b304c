"""`make demo`: apply the examples, wait for them, and show the result.

The demo waits as long as the Workloads' status changes. Lack of room is reported and no fault; a
Workload that is stuck for another reason is one.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crds.workload import ScheduledReason
from machinery.clock import Clock, SystemClock
from machinery.errors import StowageError
from machinery.types import conditions
from stowage.console.progress import Progress
from stowage.playground import ground
from stowage.toolchain import binaries

NAMESPACE = "demo"
STUCK_SECONDS = 300.0
"""The wait ends after so long without a change: an image may take minutes to be pulled."""
SETTLED_SECONDS = 100.0
"""The same where only room is lacking: after a minute units without a node move."""
ELSEWHERE = frozenset({"handmade"})
"""Workloads of a scheduler that is not ours."""
_LOOK_SECONDS = 0.5
_NO_ROOM = frozenset(
    {
        ScheduledReason.INSUFFICIENT_CAPACITY.value,
        ScheduledReason.FAILED_TO_SCHEDULE.value,
        ScheduledReason.GROUP_DENIED.value,
    }
)


@dataclass(frozen=True)
class PendingWorkload:
    """A Workload that does not run, with its status."""

    name: str
    status: Mapping[str, Any]

    @property
    def crowded(self) -> bool:
        """Whether the Workload lacks only a cluster, or a node, to run on."""
        return self._scheduled.get("reason") in _NO_ROOM or bool(self._without_node)

    def __str__(self) -> str:
        return f"{self.name}: {self._why()}"

    def _why(self) -> str:
        if self._without_node:
            waiting = (f"{units} on {cluster}" for cluster, units in self._without_node.items())
            return f"its replicas find no node: {', '.join(waiting)}"
        for condition in (self._scheduled, self._condition("Propagated")):
            if condition.get("status") == "False":
                return f"{condition['reason']}: {condition['message']}"
        state = self.status.get("state", "not looked at yet")
        return f"{state}, {self.status.get('readySummary', 'nothing')} ready"

    @property
    def _scheduled(self) -> Mapping[str, Any]:
        return self._condition("Scheduled")

    @property
    def _without_node(self) -> dict[str, int]:
        shares = self.status.get("clusters", ())
        return {s["name"]: s["unschedulable"] for s in shares if s.get("unschedulable")}

    def _condition(self, kind: str) -> Mapping[str, Any]:
        return conditions.find(self.status, kind)


def run(
    directory: Path,
    *,
    progress: Progress,
    out: Callable[[str], object],
    clock: Clock | None = None,
) -> None:
    """Apply `examples/`, wait until they run or lack room, and show them.

    Raises StowageError naming the Workloads that are stuck for another reason.
    """
    for path in sorted(examples().glob("*.yaml")):
        _kubectl(directory, ground.HUB, "apply", "-f", "-", stdin=_text(directory, path))
    waiting = _settled(directory, progress, clock or SystemClock())
    _show(directory, out)
    if waiting:
        out("Not running:")
        for each in waiting:
            out(f"  {each}")
        out("")
    if stuck := [each for each in waiting if not each.crowded]:
        raise StowageError(
            f"{len(stuck)} of the Workloads did not come to run: {'; '.join(map(str, stuck))}; "
            f"look with `kubectl -n {NAMESPACE} describe workload {stuck[0].name}`"
        )
    _suggest(directory, out)


def _show(directory: Path, out: Callable[[str], object]) -> None:
    out("\nThe clusters:")
    out(_kubectl(directory, ground.HUB, "get", "memberclusters"))
    out("The Workloads, and where they run:")
    out(_kubectl(directory, ground.HUB, "-n", NAMESPACE, "get", "workloads"))
    out("Room that is held for Workloads, and how many use it:")
    out(_kubectl(directory, ground.HUB, "-n", NAMESPACE, "get", "reservations", "-o", "wide"))
    out("Workloads that start together:")
    out(_kubectl(directory, ground.HUB, "-n", NAMESPACE, "get", "workloadgroups"))
    for name in sorted(p.stem for p in directory.glob("member-*.kubeconfig")):
        out(f"On {name}:")
        out(_kubectl(directory, name, "-n", NAMESPACE, "get", "deployments", "--ignore-not-found"))


def _suggest(directory: Path, out: Callable[[str], object]) -> None:
    out("Three things to try:")
    out(f"  {ground.exported(directory)}")
    out("  kubectl -n demo describe workload front-end")
    out("  kubectl -n demo scale workload wordpress --replicas=6")
    out("  kubectl -n demo delete workload back-end")
    out("A page of it in your browser:")
    out("  stowage ui")


def examples() -> Path:
    """Return `examples/`: inside the installed package, or beside it in a checkout."""
    inside = Path(__file__).parent.parent / "examples"
    return inside if inside.exists() else Path(__file__).parent.parent.parent / "examples"


def _text(directory: Path, path: Path) -> str:
    text = path.read_text()
    if "cloudProvider" not in text:
        return text
    listed = json.loads(_kubectl(directory, ground.HUB, "get", "memberclusters", "-o", "json"))
    status: dict[str, Any] = listed["items"][0]["status"]
    text = text.replace("cloudProvider: kwok", f"cloudProvider: {status['provider']}")
    return text.replace("clusterVersion: v1.36.3", f"clusterVersion: {status['version']}")


def _settled(directory: Path, progress: Progress, clock: Clock) -> Sequence[PendingWorkload]:
    """Return the Workloads that do not run when nothing changes any more."""
    seen, since = "", clock.monotonic()
    while True:
        picture, waiting = _waiting(directory, progress)
        now = clock.monotonic()
        if picture != seen:
            seen, since = picture, now
        crowded = all(each.crowded for each in waiting)
        if not waiting or now - since > (SETTLED_SECONDS if crowded else STUCK_SECONDS):
            return waiting
        time.sleep(_LOOK_SECONDS)


def _waiting(directory: Path, progress: Progress) -> tuple[str, Sequence[PendingWorkload]]:
    """Return the status of all Workloads as one text, and the Workloads that do not run."""
    listed = _kubectl(directory, ground.HUB, "-n", NAMESPACE, "get", "workloads", "-o", "json")
    found = {
        each["metadata"]["name"]: each.get("status", {}) for each in json.loads(listed)["items"]
    }
    ours = {name: status for name, status in found.items() if name not in ELSEWHERE}
    waiting = [PendingWorkload(name, s) for name, s in ours.items() if not _done(s)]
    progress.step("Workloads running", len(ours) - len(waiting), len(ours))
    return json.dumps(ours, sort_keys=True), waiting


def _done(status: Mapping[str, Any]) -> bool:
    # One that another tool delivers is Ready once it is decided, and may never run here.
    return status.get("state") == "Running" or conditions.holds(status, conditions.READY)


def _kubectl(directory: Path, cluster: str, *arguments: str, stdin: str | None = None) -> str:
    kubeconfig = ground.kubeconfig(directory, cluster)
    done = subprocess.run(  # noqa: S603 - the binary that we built
        [str(binaries.path("kubectl")), f"--kubeconfig={kubeconfig}", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise StowageError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout
