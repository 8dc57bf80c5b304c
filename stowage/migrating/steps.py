"""The steps that write, by name; `undo` takes back the last one, `status` tells them.

Where a Workload stands is read off hub, peer and members each time, so a step that was cut off
anywhere is run again. Every write is made on the version that was read. No step deletes an object
on a member. One Workload that cannot go on stops no other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from machinery.api.resources import WORKLOADS
from machinery.types import conditions
from machinery.types.metadata import Key
from stowage.migrating import kept
from stowage.migrating.adopting import adopt
from stowage.migrating.examining import side_by_side
from stowage.migrating.finishing import finish
from stowage.migrating.kept import Step
from stowage.migrating.letting_go import Waiting, give_back, unproven
from stowage.migrating.outcomes import Outcome, migrating, ordered, uid_of, write
from stowage.migrating.peer import Json
from stowage.migrating.releasing import release
from stowage.migrating.survey import Asked, Survey, World, surveyed
from stowage.migrating.taking import take


async def undo(world: World, asked: Asked) -> list[Outcome]:
    """Take back the last step of each Workload."""
    survey = await surveyed(world, asked, imports=False)
    wait = Waiting(world)

    async def one(key: Key) -> str:
        workload, step = survey.stored[key], survey.step(key)
        if step in (Step.FINISHING, Step.FINISHED):
            return "finish deletes what the peer had: only a backup of the peer has it"
        if step is Step.TAKEN:
            await write(world, workload, {"spec": {"delivery": "None"}})
        elif step in (Step.RELEASING, Step.RELEASED):
            await give_back(world, workload, survey, leaving, wait)
        else:
            meta = workload["metadata"]
            await world.hub.delete(
                WORKLOADS,
                meta["name"],
                namespace=meta["namespace"],
                uid=meta["uid"],
                resource_version=meta["resourceVersion"],
            )
        return ""

    keys = list(migrating(world, asked, survey))
    released = [key for key in keys if survey.step(key) in (Step.RELEASING, Step.RELEASED)]
    leaving = {uid_of(survey.stored[key]) for key in released}
    out = []
    for key, fault in await side_by_side(keys, one):
        step = survey.step(key)
        out.append(Outcome(key, step if fault else _BEFORE[step], fault))
    return ordered(out)


_BEFORE = {
    Step.ADOPTING: Step.NONE,
    Step.ADOPTED: Step.NONE,
    Step.RELEASING: Step.ADOPTED,
    Step.RELEASED: Step.ADOPTED,
    Step.TAKEN: Step.RELEASED,
}


async def status(world: World, asked: Asked) -> list[Outcome]:
    """Return the step of each Workload, and what holds it there though it was begun."""
    survey = await surveyed(world, asked)
    found = {each.key: Outcome(each.key, survey.step(each.key)) for each in survey.candidates}
    mine = {
        key: each
        for key, each in survey.stored.items()
        if asked.takes(key) and kept.peer_of(each) == world.peer.name
    }

    async def look(key: Key) -> str:
        return await _holds(world, mine[key], survey)

    for key, fault in await side_by_side(mine, look):
        found[key] = Outcome(key, survey.step(key), fault)
    return ordered(found.values())


async def _holds(world: World, workload: Json, survey: Survey) -> str:
    step = kept.step_of(workload, record.record if (record := survey.record(workload)) else None)
    if step in (Step.ADOPTING, Step.FINISHING):
        return "was cut off: run the step again"
    if step in (Step.RELEASING, Step.RELEASED) and record is not None:
        return await unproven(world, survey.view, record.record)
    ready = conditions.find(workload.get("status") or {}, "Ready")
    if step is Step.TAKEN and ready.get("status") != "True":
        return f"is not Ready: {ready.get('message') or 'nothing is seen of it yet'}"
    return ""


STEPS: Mapping[str, Callable[[World, Asked], Awaitable[list[Outcome]]]] = {
    "adopt": adopt,
    "release": release,
    "take": take,
    "finish": finish,
    "undo": undo,
    "status": status,
}
