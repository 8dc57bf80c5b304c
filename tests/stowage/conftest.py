"""Run the command line as its users do: in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from crds.names import SYSTEM_NAMESPACE
from stowage.playground.cluster import Cluster
from stowage.playground.processes import Process
from tests.patience import hold_on


@dataclass
class Outcome:
    code: int
    out: str
    err: str


class Stowage:
    """`stowage(...)` gives the outcome, `stowage.succeed(...)` standard output of a success."""

    def __call__(
        self, *args: object, env: dict[str, str] | None = None, timeout: float = 240
    ) -> Outcome:
        done = subprocess.run(
            [sys.executable, "-m", "stowage", *map(str, args)],
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            env={**os.environ, **(env or {})},
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Outcome(done.returncode, done.stdout, done.stderr)

    def succeed(self, *args: object, **how: object) -> str:
        outcome = self(*args, **how)
        assert outcome.code == 0, outcome.err
        return outcome.out


@pytest.fixture(scope="session")
def stowage() -> Stowage:
    return Stowage()


def listening(log: Path) -> int:
    """The port of a process, as soon as its log names it: it was asked for any that is free."""
    found = hold_on(lambda: re.search(r"listening on \S+:(\d+)", log.read_text()))
    return int(found[1])


@contextmanager
def propagating(hub: Cluster, stowage: Stowage, log: Path) -> Iterator[Process]:
    """Our kinds on that hub, and a propagator that runs beside it until the block ends."""
    stowage.succeed("install", "--crds-only", f"--kubeconfig={hub.kubeconfig}")
    hub.kubectl("create", "namespace", SYSTEM_NAMESPACE)
    arguments = [sys.executable, "-m", "stowage", "propagator", "--http-port=0"]
    process = Process("propagator", [*arguments, f"--kubeconfig={hub.kubeconfig}"], log)
    process.start(detached=False)
    try:
        yield process
    finally:
        process.end()
