"""All writes of the controller end with its term, whichever feature makes them."""

from __future__ import annotations

import pytest

from tests.controller.memory import Stage

BESIDE_TERMS = ("/leases", "/events", "reviews")
"""Paths of writes that need no term: who leads is asked of the first, and the others decide nothing."""


@pytest.mark.proves("RB24")
async def test_each_write_of_a_term_ends_with_it() -> None:
    stage = Stage("a", cpu="4")
    async with stage.leading():
        stage.workload(
            "demo", publish={"clusterDecision": True}, rollout={"waves": [{"name": "all"}]}
        )
        await stage.until(lambda: stage.placed("demo"))
        await stage.calm(5)
    written = [(how, path) for how, path, _ in stage.hub.requests if how != "GET"]
    free = [each for each in written if not any(part in each[1] for part in BESIDE_TERMS)]
    assert {path.rpartition("/")[2] for _, path in free} >= {"status", "controllerrevisions"}
    assert sorted(free) == sorted(stage.hub.fenced)
