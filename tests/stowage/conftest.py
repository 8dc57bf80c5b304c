"""Run the command line as its users do, and the clusters that several modules share.

`full_cluster` runs pods, and `propagated_hub` is a hub beside which a propagator runs; the modules
that need one of these two, or install into a hub of their own, are one group (`FLEET`).
"""

from __future__ import annotations

import copy
import functools
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from click.testing import CliRunner

import crds
from crds.names import SYSTEM_NAMESPACE
from machinery import garbage
from stowage.cli import main
from stowage.playground.cluster import Cluster
from stowage.playground.processes import Process
from tests.patience import hold_on

FLEET = pytest.mark.xdist_group("fleet")


@dataclass
class Outcome:
    code: int
    out: str
    err: str


class Stowage:
    """`stowage(...)` gives the outcome, `stowage.succeed(...)` standard output of a success.

    Both call the entry point in this process, in a thread: a command has an event loop of its own.
    `stowage.process(...)` is the same as a process, for tests that are about one.
    """

    def __call__(self, *args: object, env: dict[str, str] | None = None) -> Outcome:
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(_called, list(map(str, args)), env).result()

    def process(self, *args: object, timeout: float = 240) -> Outcome:
        done = subprocess.run(
            [sys.executable, "-m", "stowage", *map(str, args)],
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Outcome(done.returncode, done.stdout, done.stderr)

    def succeed(self, *args: object) -> str:
        outcome = self(*args)
        assert outcome.code == 0, outcome.err
        return outcome.out


def _called(args: list[str], env: dict[str, str] | None) -> Outcome:
    with (
        # It is for the rest of a process, and this one goes on with tests.
        mock.patch.object(garbage, "loading"),
        CliRunner().isolation(env=env) as (out, err, _),
        mock.patch.object(sys, "argv", ["stowage", *args]),
    ):
        try:
            main()
            code: Any = 0
        except SystemExit as end:
            code = end.code or 0
        sys.stdout.flush()
        sys.stderr.flush()
        return Outcome(code, out.getvalue().decode(), err.getvalue().decode())


@pytest.fixture(scope="session")
def stowage() -> Stowage:
    return Stowage()


@pytest.fixture(scope="session", autouse=True)
def _read_once() -> Iterator[None]:
    """A process reads the manifests once, for a third of a second; this one serves many commands."""
    read = functools.cache(crds.manifests)

    def manifests() -> list[dict[str, Any]]:
        return copy.deepcopy(read())

    with mock.patch.object(crds, "manifests", manifests):
        yield


@pytest.fixture(scope="session")
def full_cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    """A cluster that runs pods, on two nodes."""
    return make_cluster("full", controller_manager=True, scheduler=True, kwok=True, nodes=2)


@pytest.fixture(scope="session")
def propagator(
    make_cluster: Callable[..., Cluster], stowage: Stowage, tmp_path_factory: Any
) -> Iterator[tuple[Cluster, Process]]:
    """A hub with our kinds, and the propagator that runs beside it."""
    hub = make_cluster("propagated")
    stowage.succeed("install", "--crds-only", f"--kubeconfig={hub.kubeconfig}")
    hub.kubectl("create", "namespace", SYSTEM_NAMESPACE)
    arguments = [sys.executable, "-m", "stowage", "propagator", "--http-port=0"]
    log = tmp_path_factory.mktemp("propagator") / "propagator.log"
    process = Process("propagator", [*arguments, f"--kubeconfig={hub.kubeconfig}"], log)
    process.start(detached=False)
    yield hub, process
    process.end()


@pytest.fixture(scope="session")
def propagated_hub(propagator: tuple[Cluster, Process]) -> Cluster:
    """That hub."""
    return propagator[0]


def listening(log: Path) -> int:
    """The port of a process, as soon as its log names it: it was asked for any that is free."""
    found = hold_on(lambda: re.search(r"listening on \S+:(\d+)", log.read_text()))
    return int(found[1])


def assert_guarded(hub: Cluster) -> None:
    """A Workload that asks for a namespace that is not its own is refused, at once."""
    workload = {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": "elsewhere", "namespace": "default"},
        "spec": {
            "targetNamespace": "kube-system",
            "template": {"apiVersion": "batch/v1", "kind": "Job", "spec": {}},
        },
    }
    create = ("create", "-f", "-", "--dry-run=server")
    assert "targetNamespace" in hub.kubectl(*create, check=False, input=json.dumps(workload))
