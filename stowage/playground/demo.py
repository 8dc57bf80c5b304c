"""What `make demo` shows: the examples applied, and what became of them."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from machinery.errors import StowageError
from stowage.playground import binaries, ground
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
    deadline = time.monotonic() + RUNNING_SECONDS
    while True:
        listed = json.loads(
            _kubectl(directory, ground.HUB, "-n", NAMESPACE, "get", "workloads", "-o", "json")
        )
        items = [w for w in listed["items"] if w["metadata"]["name"] not in ELSEWHERE]
        waiting = [
            w["metadata"]["name"] for w in items if w.get("status", {}).get("state") != "Running"
        ]
        progress.step("Workloads running", len(items) - len(waiting), len(items))
        if not waiting:
            return
        if time.monotonic() > deadline:
            raise StowageError(
                f"not Running after {RUNNING_SECONDS:.0f} s: {', '.join(waiting)}; "
                f"look with `kubectl -n {NAMESPACE} describe workload {waiting[0]}`"
            )
        time.sleep(0.3)  # polling another process


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
