"""Clusters whose processes and control planes a test may freeze and end.

The tests run controller and propagator themselves, on the clusters of the playground. Control
planes are frozen with SIGSTOP and killed with SIGKILL on local control planes, with `docker pause`
and `docker kill` on kind.
"""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from e2e.harness import Kubectl, Playground, Process, at_rest, wait
from stowage.playground.kind import container
from stowage.playground.local import load_planes
from stowage.toolchain import binaries

MEMBERS = ("member-1", "member-2", "member-3")
LISTENING = re.compile(r"listening on \S+:(\d+)")
"""A line of a process's log; the last match is of the process that runs."""
_numbers = itertools.count(1)


class Stage(Playground):
    """A playground whose two processes and control planes the test may end."""

    def __init__(self, directory: Path, provider: str) -> None:
        kubectl = binaries.path("kubectl")
        super().__init__(
            directory=directory,
            provider=provider,
            hub=Kubectl(kubectl, directory / "hub.kubeconfig"),
            members={m: Kubectl(kubectl, directory / f"{m}.kubeconfig") for m in MEMBERS},
        )
        self.processes: dict[str, Process] = {}
        self.planes = load_planes(directory) if provider == "local" else None

    def logs(self) -> Iterator[tuple[str, Path]]:
        for name, process in self.processes.items():
            yield name, process.log

    def process(
        self, role: str, name: str = "", kubeconfig: Path | None = None, *more: str
    ) -> Process:
        """Start a controller or a propagator on this hub, with `more` arguments."""
        name = name or role
        args = [sys.executable, "-m", "stowage", role, "--http-port=0", *more]
        args += ["--kubeconfig", str(kubeconfig or self.hub.kubeconfig)]
        process = self.processes.setdefault(name, Process(args, self.directory / f"{name}.log"))
        process.args = args
        process.start()
        return process

    def ask(self, path: str, name: str = "controller") -> Any:
        """Return a process's answer, from JSON."""
        return json.loads(self._get(name, path))

    def _get(self, name: str, path: str) -> str:
        *_, port = LISTENING.findall(self.processes[name].log.read_text())
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return str(answer.read().decode())

    def metric(self, name: str, pattern: str) -> float:
        """Return the sum of a process's samples whose line matches the pattern."""
        lines = self._get(name, "/metrics").splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if re.match(pattern, line))

    def signal(self, cluster: str, what: str) -> None:
        """Freeze, thaw, kill or restart a control plane's API server."""
        if self.planes is None:
            verb = {"freeze": "pause", "thaw": "unpause", "kill": "kill", "restart": "start"}[what]
            node = container(self.directory, cluster)
            subprocess.run(["docker", verb, node], check=True, capture_output=True)
        else:
            getattr(self.planes.clusters[cluster], what)()

    def managed(self, member: str) -> dict[str, int]:
        """Return the Deployments on a member that we manage: namespace/name to replicas."""
        return {
            f"{o['metadata']['namespace']}/{o['metadata']['name']}": o["spec"]["replicas"]
            for o in self.members[member].items("deploy", labels="stowage.dev/managed=true")
            if not o["metadata"].get("deletionTimestamp")
        }


def _as_long(*, fixture_name: str, config: pytest.Config) -> Literal["module", "session"]:
    """Return the scope: on kind both processes must run on the hub between modules.

    Elsewhere the tests that ask for the stage are the last ones (`e2e/conftest.py`).
    """
    return "module" if config.getoption("--provider") == "kind" else "session"


@pytest.fixture(scope=_as_long)
def stage(playground: Playground) -> Iterator[Stage]:
    """Yield the playground's clusters while its two processes are at rest."""
    with at_rest(playground):
        yield from _staged(playground.directory, playground.provider)


def _staged(directory: Path, provider: str) -> Iterator[Stage]:
    stage = Stage(directory, provider)
    if stage.planes is not None:
        stage.planes.hold_ports()
    try:
        yield stage
    finally:
        if stage.planes is not None:
            stage.planes.release_ports()
        for process in stage.processes.values():
            process.kill()


@pytest.fixture
def running(stage: Stage) -> Iterator[Stage]:
    """Yield the stage with both processes and all members ready; then delete every Workload."""
    for role in ("controller", "propagator"):
        process = stage.processes.get(role)
        if process is None or process.running is None:
            stage.process(role)
    for role in ("controller", "propagator"):
        wait(f"the {role} to listen", lambda r=role: stage.metric(r, "process_") > 0)
    for member in MEMBERS:
        wait(f"{member} ready", lambda m=member: stage.ready(m)["status"] == "True", timeout=60)
    yield stage
    for role in ("controller", "propagator"):
        if stage.processes[role].running is None:
            stage.process(role)
    stage.hub("delete", "wl", "-A", "--all", timeout=180)


@pytest.fixture
def space(stage: Stage, request: pytest.FixtureRequest) -> str:
    stem = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:40].strip("-")
    name = f"{stem}-{next(_numbers)}"
    stage.hub("create", "namespace", name)
    return name
