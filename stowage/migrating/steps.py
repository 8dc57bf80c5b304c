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
from stowage.console import words
from stowage.migrating import kept
from stowage.migrating.adopting import adopt
from stowage.migrating.examining import side_by_side
from stowage.migrating.finishing import finish
from stowage.migrating.kept import Step
from stowage.migrating.letting_go import Waiting, give_back, held_by_others, staying, unproven
from stowage.migrating.outcomes import (
    Outcome,
    migrating,
    ordered,
    ran,
    shares_of,
    uid_of,
    write,
)
from stowage.migrating.peer import Json
from stowage.migrating.releasing import release
from stowage.migrating.survey import DELETED, Asked, Survey, World, surveyed
from stowage.migrating.taking import take


async def undo(world: World, asked: Asked) -> list[Outcome]:
    """Take back the last step of each Workload."""
    survey = await surveyed(world, asked, imports=False)
    wait = Waiting(world)
    uids = survey.left(asked)
    at = dict.fromkeys(uids, Step.RELEASING)
    for key in migrating(world, asked, survey, known=uids):
        if key not in uids:
            uids[key], at[key] = uid_of(survey.stored[key]), survey.step(key)
    released = [uids[key] for key, step in at.items() if step in (Step.RELEASING, Step.RELEASED)]
    faults = await staying(world, survey, released)
    others = held_by_others(survey, {*released} - faults.keys())

    async def one(key: Key) -> str:
        step = at[key]
        if step in (Step.FINISHING, Step.FINISHED):
            return "finish deletes what the peer had: only a backup of the peer has it"
        if step in (Step.RELEASING, Step.RELEASED):
            if fault := faults.get(uids[key]):
                return fault
            await give_back(world, survey, uids[key], others, wait)
            return ""
        workload = survey.stored[key]
        if step is Step.TAKEN:
            if fault := _strays(world, survey, workload):
                return fault
            await write(world, workload, {"spec": {"delivery": "None"}})
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

    out = []
    for key, fault in await side_by_side(at, one):
        before = _BEFORE.get(at[key], Step.NONE) if key in survey.stored else Step.NONE
        out.append(Outcome(key, at[key] if fault else before, fault))
    return ordered(out)


def _strays(world: World, survey: Survey, workload: Json) -> str:
    """Return why the end of the delivery would leave copies that the peer does not know of."""
    if (stored := survey.record(workload)) is None:
        return ""
    seen = (workload.get("status") or {}).get("clusters") or ()
    now = {*shares_of(workload), *(each["name"] for each in seen)}
    if left := sorted(now - ran(stored.record).keys()):
        text = f"it runs on {words.some(left)} too, where {world.peer.title} has not placed it"
        return f"{text}: have it leave there first"
    return ""


_BEFORE = {
    Step.ADOPTING: Step.NONE,
    Step.ADOPTED: Step.NONE,
    Step.RELEASING: Step.ADOPTED,
    Step.RELEASED: Step.ADOPTED,
    Step.TAKEN: Step.RELEASED,
}
_RELEASED = (Step.RELEASING, Step.RELEASED, Step.TAKEN)


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
    for key in survey.left(asked):
        found[key] = Outcome(key, Step.RELEASING, DELETED)
    return ordered(found.values())


async def _holds(world: World, workload: Json, survey: Survey) -> str:
    step = kept.step_of(workload, record.record if (record := survey.record(workload)) else None)
    if step in (Step.ADOPTING, Step.FINISHING):
        return "was cut off: run the step again"
    if step in _RELEASED and record is not None:
        if fault := await unproven(world, survey.view, survey.kept(uid_of(workload))):
            return fault
        if step is Step.RELEASING:
            return "was cut off: run the step again"
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
