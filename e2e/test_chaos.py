"""One short seed of the chaos in every run of the tests; `make chaos` runs it for longer."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.chaos.gangs.run import Size
from e2e.chaos.gangs.run import run as run_gangs
from e2e.chaos.run import run

SECONDS = 20.0
LEAST = 10
"""Faults, and edits, on a machine where each takes its time."""


@pytest.mark.timeout(1800)
@pytest.mark.proves("R1", "R2", "R5", "C32", "D3")
async def test_whatever_breaks_the_promises_hold(provider: str, tmp_path: Path) -> None:
    if provider != "local":
        pytest.skip("breaks etcd and the roads to API servers, which only local ones let it do")
    made = await run(tmp_path, seed=7, seconds=SECONDS, say=print, least=LEAST)
    assert made.faults >= LEAST
    assert made.edits >= LEAST
    assert made.states > made.workloads
    assert made.claims
    assert made.looks


SMALL = Size(gangs=30, kills=4, stops=2, removals=1)


@pytest.mark.timeout(1800)
@pytest.mark.proves("G3", "G4", "G24")
async def test_no_half_gang_stands_on_members_whatever_breaks(
    provider: str, tmp_path: Path
) -> None:
    if provider != "local":
        pytest.skip("stops API servers and takes leases away, which only local ones let it do")
    made = await run_gangs(tmp_path, seed=11, size=SMALL, say=print)
    assert made.kills == {"controller": SMALL.kills, "propagator": SMALL.kills}
    assert (made.stops, made.removals) == (SMALL.stops, SMALL.removals)
    assert made.arrivals > made.running > 5
    assert made.running < made.gangs, "there is no room for all of them"
    print(made)
