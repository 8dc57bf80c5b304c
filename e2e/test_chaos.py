"""One short seed of each chaos in every run of the tests; `make chaos` runs it for longer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.chaos.churn import MOST
from e2e.chaos.gangs.run import Size
from e2e.chaos.gangs.run import run as run_gangs
from e2e.chaos.rollouts.run import Size as RolloutSize
from e2e.chaos.rollouts.run import run as run_rollouts
from e2e.chaos.run import run
from e2e.chaos.stage import MEMBERS, chaos_clusters

pytestmark = pytest.mark.stops_api_servers
LEAST = 7
"""Faults, and edits, on a machine where each takes its time."""


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield hub and members for all runs: each run leaves them empty."""
    with chaos_clusters(tmp_path_factory.mktemp("chaos")) as directory:
        yield directory


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.proves("R1", "R2", "R5", "C32", "D3", "N1", "N2", "N3b", "N11")
async def test_whatever_breaks_the_promises_hold(clusters: Path, tmp_path: Path) -> None:
    """The first faults are those of registrations; in the middle the hub is set back in time."""
    made = await run(clusters, tmp_path, seed=8, seconds=60.0, say=print, least=LEAST, most=MOST)
    assert made.faults >= LEAST
    assert made.edits >= LEAST
    assert made.states > made.workloads
    assert made.claims
    assert made.looks
    assert made.volumes
    assert made.jobs
    assert made.pods
    assert made.backs == 1


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.proves("SC2", "SC4", "SC6", "PL19")
async def test_two_never_write_on_one_member_whatever_breaks(tmp_path: Path) -> None:
    """On clusters of its own: a member stays in mode Pull, and each logs what is written there."""
    with chaos_clusters(tmp_path / "clusters") as clusters:
        made = await run(
            clusters, tmp_path, seed=5, seconds=60.0, say=print, least=LEAST, shards=3,
            pulled=MEMBERS[-1],
        )  # fmt: skip
    assert made.faults >= LEAST
    assert made.written > made.workloads


SIZE = Size(gangs=30, kills=8, stops=4, removals=2)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.proves("G3", "G4", "G24")
async def test_no_half_gang_stands_on_members_whatever_breaks(
    clusters: Path, tmp_path: Path
) -> None:
    made = await run_gangs(clusters, tmp_path, seed=12, size=SIZE, say=print)
    assert made.kills == {"controller": SIZE.kills, "propagator": SIZE.kills}
    assert (made.stops, made.removals) == (SIZE.stops, SIZE.removals)
    assert made.arrivals > made.running > 5
    assert made.running < made.gangs, "there is no room for all of them"
    print(made)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.proves("T2", "T5", "T8", "T21", "O10", "DP18")
async def test_no_cluster_runs_what_no_wave_gave_it_whatever_breaks(
    clusters: Path, tmp_path: Path
) -> None:
    size = RolloutSize(workloads=5, seconds=60.0)
    made = await run_rollouts(clusters, tmp_path, seed=3, size=size, say=print)
    assert made.kills == {"controller": size.kills, "propagator": size.kills}
    assert made.remakes == size.remakes
    assert made.turns > made.approvals > 0
    assert made.bad
    assert made.rolled_back
    print(made)
