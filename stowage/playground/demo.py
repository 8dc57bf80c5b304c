"""What `make demo` shows: the examples applied, and what became of them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from machinery.errors import StowageError
from stowage.playground import binaries, ground
from stowage.playground.processes import wait_until
from stowage.progress import Progress

NAMESPACE = "demo"
RUNNING_SECONDS = 120.0
ELSEWHERE = frozenset({"handmade"})
"""Waits for a scheduler that is not ours."""


def run(directory: Path, *, progress: Progress, out: Callable[[str], object]) -> None:
    """Apply `examples/`, wait until they run, show it. Raises StowageError when they do not."""
    for path in sorted(examples().glob("*.yaml")):
        _kubectl(directory, ground.HUB, "apply", "-f", "-", stdin=_text(directory, path))
    _until_running(directory, progress)
    hub = ground.kubeconfig(directory, ground.HUB)
    out("\nThe clusters:")
    out(_kubectl(directory, ground.HUB, "get", "memberclusters"))
    out("The Workloads, and where they run:")
    out(_kubectl(directory, ground.HUB, "-n", NAMESPACE, "get", "workloads"))
    for name in sorted(p.stem for p in directory.glob("member-*.kubeconfig")):
        out(f"On {name}:")
        out(_kubectl(directory, name, "-n", NAMESPACE, "get", "deployments", "--ignore-not-found"))
    out("Three things to try:")
    out(f"  export KUBECONFIG={hub}; PATH={binaries.path('kubectl').parent}:$PATH")
    out("  kubectl -n demo describe workload front-end")
    out("  kubectl -n demo scale workload wordpress --replicas=6")
    out("  kubectl -n demo delete workload back-end")


def examples() -> Path:
    """`examples/`: inside the installed package, or beside it in a checkout."""
    inside = Path(__file__).parent.parent / "examples"
    return inside if inside.exists() else Path(__file__).parent.parent.parent / "examples"


def _text(directory: Path, path: Path) -> str:
    """The example, with the provider and version of the clusters that stand here."""
    text = path.read_text()
    if "cloudProvider" not in text:
        return text
    listed = json.loads(_kubectl(directory, ground.HUB, "get", "memberclusters", "-o", "json"))
    status: dict[str, Any] = listed["items"][0]["status"]
    text = text.replace("cloudProvider: kwok", f"cloudProvider: {status['provider']}")
    return text.replace("clusterVersion: v1.36.3", f"clusterVersion: {status['version']}")


def _until_running(directory: Path, progress: Progress) -> None:
    """Raises StowageError naming those that do not run in time."""
    last: list[str] = []

    def done() -> bool:
        last[:] = _waiting(directory, progress)
        return not last

    if not wait_until(done, seconds=RUNNING_SECONDS, every=0.3):
        raise StowageError(
            f"not Running after {RUNNING_SECONDS:.0f} s: {', '.join(last)}; "
            f"look with `kubectl -n {NAMESPACE} describe workload {last[0]}`"
        )


def _waiting(directory: Path, progress: Progress) -> list[str]:
    """The Workloads of the examples that do not run yet."""
    listed = _kubectl(directory, ground.HUB, "-n", NAMESPACE, "get", "workloads", "-o", "json")
    states = {
        each["metadata"]["name"]: each.get("status", {}).get("state")
        for each in json.loads(listed)["items"]
        if each["metadata"]["name"] not in ELSEWHERE
    }
    waiting = [name for name, state in states.items() if state != "Running"]
    progress.step("Workloads running", len(states) - len(waiting), len(states))
    return waiting


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
