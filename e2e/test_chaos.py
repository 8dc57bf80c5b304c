"""One short seed of each chaos in every run of the tests; `make chaos` runs it for longer."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from e2e.chaos.engine import run
from e2e.chaos.gangs.wishes import Gangs
from e2e.chaos.gangs.wishes import Size as GangSize
from e2e.chaos.rollouts.wishes import Rollouts, Size
from e2e.chaos.stage import MEMBERS, chaos_clusters
from e2e.chaos.workloads import Workloads

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
    wishes = partial(Workloads, seed=8, seconds=60.0, least=LEAST)
    made = await run(clusters, tmp_path, wishes, say=print)
    assert min(made["faults"], made["edits"]) >= LEAST
    assert made["states of Workloads"] > made["Workloads at the end"]
    assert made.pop("writes on members") == 0, "no member logs them"
    assert all(made.values()), made
    assert made["times that the hub was set back"] == 1


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.proves("SC2", "SC4", "SC6", "PL19")
async def test_two_never_write_on_one_member_whatever_breaks(tmp_path: Path) -> None:
    """On clusters of its own: a member is in mode Pull or switched, and each logs its writes."""
    wishes = partial(Workloads, seed=5, seconds=60.0, least=LEAST)
    with chaos_clusters(tmp_path / "clusters") as clusters:
        made = await run(clusters, tmp_path, wishes, say=print, shards=3, pulled=MEMBERS[-1])
    assert made["faults"] >= LEAST
    assert made["writes on members"] > made["Workloads at the end"]


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.proves("G3", "G4", "G24")
async def test_no_half_gang_stands_on_members_whatever_breaks(
    clusters: Path, tmp_path: Path
) -> None:
    size = GangSize(gangs=30, kills=8, stops=4, removals=2)
    made = await run(clusters, tmp_path, partial(Gangs, seed=12, size=size), say=print)
    assert made["kills"] == {"controller": size.kills, "propagator": size.kills}
    assert (made["stops"], made["removals"]) == (size.stops, size.removals)
    assert made["arrivals"] > made["running"] > 5
    assert made["running"] < size.gangs, "there is no room for all of them"


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.proves("T2", "T5", "T8", "T21", "O10", "DP18")
async def test_no_cluster_runs_what_no_wave_gave_it_whatever_breaks(
    clusters: Path, tmp_path: Path
) -> None:
    size = Size(workloads=5, seconds=60.0)
    made = await run(clusters, tmp_path, partial(Rollouts, seed=3, size=size), say=print)
    assert made["kills"] == {"controller": size.kills, "propagator": size.kills}
    assert made["remakes"] == size.remakes
    assert made["turns"] > made["approvals"] > 0
    assert made["bad images"]
    assert made["rollbacks"]
