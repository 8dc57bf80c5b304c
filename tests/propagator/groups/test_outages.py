"""Gangs on real members of which one is away, and a process that is killed: all of it, or nothing.

As in `test_gangs`, a test plays the schedulers, the group's controller, and the kubelets.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from machinery.types.metadata import Key
from propagator.groups import starting
from propagator.groups.rule import APPLY
from stowage.playground.controlplanes import Cluster
from tests.propagator.conftest import QUICK
from tests.propagator.groups.test_gangs import NAMES, gang, gate, held, stand, standing
from tests.propagator.stage import MakeStage, settled
from tests.propagator.test_kills import outside

pytestmark = [pytest.mark.long, pytest.mark.proves("G24")]


async def test_a_gate_that_is_closed_for_a_moment_takes_all_of_it_away(
    stage_on: MakeStage, m2: Cluster
):
    """Also from a member that was away in that moment, and though everything is placed still."""
    async with stage_on(sessions=QUICK) as stage:
        await gang(stage)
        await gate(stage, *NAMES)
        await stand(stage, m1=2, m2=1)
        async with stage.away("m2"):
            await gate(stage, state="Closed")
            await gate(stage, state=None)
            await stage.goes("m1", "driver")
            await stage.goes("m1", "worker")
        await stand(stage)
        await held(stage, words="waits for its quorum")
        await gate(stage, *NAMES)
        await stand(stage, m1=2, m2=1)


async def test_a_gate_that_closes_in_the_midst_of_a_start_leaves_nothing(
    stage_on: MakeStage, m2: Cluster, monkeypatch: pytest.MonkeyPatch
):
    """One member stands still right after it answered; what was begun must not be found there."""
    verdict, stopped = starting.Contacts.verdict, []

    def stops(contacts: starting.Contacts, of: starting.Starting, group: Key) -> Any:
        found = verdict(contacts, of, group)
        if found is APPLY and not stopped:
            m2.freeze()
            stopped.append(group)
        return found

    # A busy machine pushes to the one before it is known that the other stands still.
    async with stage_on(sessions=replace(QUICK, probe_timeout=4.0)) as stage:
        await gang(stage)
        monkeypatch.setattr(starting.Contacts, "verdict", stops)
        try:
            await gate(stage, *NAMES)
            await stage.appears("m1", "driver")
            await stage.refused("worker", "ClusterUnreachable", within=20)
            await gate(stage, state="Closed")
            await stage.goes("m1", "driver")
            await stage.goes("m1", "worker")
        finally:
            m2.thaw()
        await stage.ready()
        await held(stage, words="took all of its replicas back")
        await settled(stage)
        assert not +(await standing(stage))


async def test_a_process_killed_at_any_moment_goes_on_by_what_the_gate_says(
    stage_on: MakeStage, hub: Cluster, m2: Cluster, tmp_path: Path
):
    """Killed while it is held, in the midst of a start, and then while everything leaves."""
    async with stage_on() as stage, outside(stage, hub, tmp_path) as process:
        await gang(stage)
        await held(stage)
        process.kill()
        await gate(stage, *NAMES)
        await stand(stage, m1=1)  # the Workload that showed the process at work
        m2.freeze()
        try:
            await process.start()
            await stage.refused("driver", "ClusterUnreachable", within=60)
            process.kill()
            assert +(await standing(stage, only="m1")) == Counter(m1=1), "m2 was never connected"
        finally:
            m2.thaw()
        await process.start()
        await stage.appears("m2", "worker")
        process.kill()
        await gate(stage, state="Closed")
        m2.freeze()
        try:
            await process.start()
            await stage.goes("m1", "driver")
            await stage.goes("m1", "worker")
            process.kill()
            await gate(stage, state="Closed", failures=1)
        finally:
            m2.thaw()
        await process.start()
        await stand(stage, m1=1)
