"""Run the command line as its users do: in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass

import pytest


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
