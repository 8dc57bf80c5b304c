"""What an agent told of drift before it was started again; in memory."""

from __future__ import annotations

from typing import Any

import pytest

from machinery.api.resources import WORKLOADS
from tests.propagator.pulling import PullWorld
from tests.propagator.test_one_shard import ready, runs, workload

Json = dict[str, Any]


def forgetful(world: PullWorld) -> None:
    """Let the member keep nothing of a field of pods, as an older API server does."""
    member = world.members["paris"]
    apply = member.apply

    def guarded(plural: str, key: tuple[str, str], body: Json, *, dry_run: bool = False) -> Any:
        found = apply(plural, key, body, dry_run=dry_run)
        if plural == "deployments" and found is not None:  # its managedFields name it all the same
            found["spec"]["template"]["spec"].pop("hostname", None)
        return found

    member.apply = guarded  # type: ignore[method-assign] # a member with a rule more


@pytest.mark.proves("PL2", "RB8")
async def test_a_dropped_field_is_told_also_after_the_agent_was_started_again() -> None:
    world = PullWorld()
    forgetful(world)

    def told() -> list[tuple[str, str]]:
        return [(each["cluster"], each["state"]) for each in world.status("web").get("drift", [])]

    async with world.propagating():
        async with world.agent():
            await ready(world)
            body = workload("web")
            body["spec"]["targetDeployment"]["spec"]["template"]["spec"]["hostname"] = "one"
            world.put(WORKLOADS, body)
            world.place("web", paris=2)
            await world.until(lambda: runs(world, "web", paris=2))
            await world.until(lambda: told() == [("paris", "Dropped")])
            first = world.status("web")["drift"]
        async with world.agent(identity="agent-2"):
            await world.calm(60)
            assert world.status("web")["drift"] == first
