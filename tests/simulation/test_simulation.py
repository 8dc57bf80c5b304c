"""Simulated worlds hold what is promised, and the judge sees what does not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from crds.names import LABEL_WORKLOAD_UID
from e2e.chaos import wishes

from .judge import Judge
from .users import Users
from .world import SimWorld

ROOT = Path(__file__).resolve().parents[2]


def simulated(*args: str) -> None:
    """Run it in a process of its own, in which a seed is the same run each time."""
    command = [sys.executable, "-m", "tests.simulation", *args]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.proves("R5", "N2", "M51")
def test_a_short_simulation_holds() -> None:
    simulated("1-2", "--seconds", "60")


@pytest.mark.long
@pytest.mark.proves("R5", "N2", "M51")
@pytest.mark.parametrize("seeds", ["1-20", "21-40", "41-60"])
def test_simulations_hold(seeds: str) -> None:
    simulated(seeds)


@pytest.mark.proves("M51")
def test_the_judge_sees_what_runs_twice() -> None:
    world = SimWorld(1, "member-1", "member-2")
    judge = Judge(world, Users(world, seed=1, most=1))
    labels = {LABEL_WORKLOAD_UID: "u", wishes.LABEL_RUNS: wishes.ONCE}
    for cluster in world.clusters.values():
        pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "db-0", "labels": labels}}
        cluster.create("pods", "shop", {**pod, "status": {"phase": "Running"}, "ends": None})
        judge.look()
    first, second = judge.breaches
    assert "the same pod twice" in first
    assert "runs once" in second
