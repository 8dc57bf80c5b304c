"""What a hub that was set back to an older state has removed of Workloads that it knows: nothing that runs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.propagator.stage import Stage, settled
from tests.propagator.waits import until


async def running_on(stage: Stage, name: str, member: str) -> dict[str, Any]:
    """The Workload runs there, and the hub says so; its status."""
    await stage.place(name, **{member: 1})
    await stage.make_ready(member)

    async def told() -> bool:
        shares = (await stage.status(name)).get("clusters", [])
        return [(each["name"], each["state"]) for each in shares] == [(member, "Running")]

    await until(told)
    return await stage.status(name)


@pytest.mark.long
@pytest.mark.proves("N11")
async def test_a_copy_goes_when_another_is_seen_to_run_and_not_when_an_old_status_says_so(
    stage: Stage,
):
    await stage.create("demo")
    backup = await running_on(stage, "demo", "m1")
    await running_on(stage, "demo", "m2")
    await stage.goes("m1")
    await stage.stop()
    told = {key: backup[key] for key in ("placements", "clusters", "conditions")}
    await stage.patch("demo", {"status": told}, subresource="status")
    copy = await stage.on("m2")
    assert copy is not None
    stage.start()
    await stage.ready()
    await stage.appears("m1")
    await settled(stage)
    found = await stage.on("m2")
    assert found is not None, "the last copy that runs was taken away"
    assert found["metadata"]["uid"] == copy["metadata"]["uid"]
    await stage.make_ready("m1")
    await stage.goes("m2")
