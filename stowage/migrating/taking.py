"""Step 3, take: Stowage brings what the peer has let go of, where each object is as it renders."""

from __future__ import annotations

from stowage.console import words
from stowage.migrating.examining import brought_along, differing, placed
from stowage.migrating.kept import Record, Step
from stowage.migrating.letting_go import unproven
from stowage.migrating.outcomes import Outcome, each_at, ran, shares_of, starts_of, write
from stowage.migrating.peer import Json
from stowage.migrating.survey import Asked, World, surveyed


async def take(world: World, asked: Asked) -> list[Outcome]:
    """Have Stowage bring what the peer has let go of, where each object is as it renders."""
    survey = await surveyed(world, asked, imports=False)

    async def one(workload: Json, record: Record) -> str:
        if fault := await unproven(world, survey.view, record):
            return fault
        if (now := shares_of(workload)) != (was := ran(record)):
            there = words.shares(was)
            return (
                f"the hub has it on {words.shares(now)}, and {world.peer.title} ran it on {there}"
            )
        body = placed(workload, now, starts_of(workload))
        along = await brought_along(world, asked, workload)
        found = await differing(world, survey, body, now, along)
        if found.texts:
            return "; ".join(found.texts)
        await write(world, workload, {"spec": {"delivery": "Push"}})
        return ""

    return await each_at(world, asked, survey, Step.RELEASED, Step.TAKEN, one)
