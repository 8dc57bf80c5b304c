"""Step 4, finish: the peer's objects and marks go, and the Workload gets its own values.

From the first deletion on the Secret says so, and the step goes on from what was kept. What the
peer still has must let go still: its rules may have been applied anew since.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any

import msgspec

from crds.names import ANNOTATION_MIGRATION
from machinery.api.resources import SECRETS, WORKLOADS
from machinery.errors import ConfigurationError, Conflict, NotFound
from machinery.types import conditions
from machinery.types.metadata import Key
from stowage.console import words
from stowage.hub import edit
from stowage.migrating import kept, members
from stowage.migrating.examining import side_by_side
from stowage.migrating.kept import FINISHED, Progress, Record, Step
from stowage.migrating.letting_go import edit_member, on_members, unproven
from stowage.migrating.outcomes import NEXT, Outcome, migrating, ordered, uid_of
from stowage.migrating.peer import Json, PeerView, Ref, without_marks
from stowage.migrating.survey import Asked, Survey, World, surveyed


async def finish(world: World, asked: Asked) -> list[Outcome]:
    """Delete the peer's objects, take its marks off, and give the Workload its own values."""
    survey = await surveyed(world, asked, imports=False)
    room, ended = asyncio.Lock(), set[str]()  # the last Workload of a rule sees that it is the last

    async def one(key: Key) -> str:
        workload = survey.stored[key]
        uid = uid_of(workload)
        record = survey.kept(uid)
        if record.progress is not Progress.FINISHING:
            if fault := await _unready(world, survey.view, workload, record):
                return fault
            later = msgspec.structs.replace(record, progress=Progress.FINISHING)
            await kept.change(world.hub, world.home, uid, survey.records[uid], later)
        elif fault := await _held_again(world, survey.view, record):
            return f"{world.peer.title} holds it again since finish was cut off: {fault}"
        for name, ref in on_members(record.standing, record.clusters):
            await edit_member(world, name, ref, lambda found: _bare(world, found))
        for ref in record.standing.templates:
            await _delete(world, record, ref)
        async with room:
            await _last_rules(world, survey, uid, ended)
        await _hand_over(world, workload, record)
        with suppress(NotFound):
            await world.hub.delete(SECRETS, kept.name_of(uid), namespace=world.home)
        return ""

    todo, out = list[Key](), list[Outcome]()
    for key in migrating(world, asked, survey):
        step = survey.step(key)
        if step in (Step.TAKEN, Step.FINISHING):
            todo.append(key)
        else:
            out.append(Outcome(key, step, f"is {step}: {NEXT[step]}" if step in NEXT else ""))
    for key, fault in await side_by_side(todo, one):
        out.append(Outcome(key, survey.step(key) if fault else Step.FINISHED, fault))
    return ordered(out)


def _bare(world: World, found: Json) -> dict[str, Any]:
    return without_marks(found, world.peer.mark)


async def _unready(world: World, view: PeerView, workload: Json, record: Record) -> str:
    """Return why the peer's objects have to stay; empty if they may go."""
    status = workload.get("status") or {}
    ready = conditions.find(status, "Ready")
    if ready.get("status") != "True":
        why = ready.get("message") or ready.get("reason") or "nothing is seen of it yet"
        return f"is not Ready: {why}"
    # It was Ready while the peer brought it, too: Propagated is True since Stowage does.
    brought = conditions.find(status, "Propagated") or ready
    for each in (ready, brought):
        since = words.time(str(each.get("lastTransitionTime") or ""))
        if since is None or world.now() - since < timedelta(seconds=world.ready):
            return f"has to be Ready for {world.ready:.0f} s first: run it again"
    seen = (status.get("observed") or {}).get("propagator")
    if seen != workload["metadata"].get("generation"):
        return "was edited, and the members have not seen that yet: run it again"
    for name in sorted({name for name, _ in on_members(record.standing, record.clusters)}):
        await (await world.member(name)).version()
    return await unproven(world, view, record)


async def _held_again(world: World, view: PeerView, record: Record) -> str:
    """Return why the end of what the peer still has would take along what runs; empty if not."""
    standing = record.standing
    templates = [ref for ref in standing.templates if await _is_there(world, record, ref)]
    rules = [ref for ref in standing.rules if await _is_there(world, record, ref)]
    if not (templates or rules):
        return ""
    left = msgspec.structs.replace(standing, templates=templates, rules=rules)
    return await unproven(world, view, msgspec.structs.replace(record, standing=left))


async def _is_there(world: World, record: Record, ref: Ref) -> bool:
    """Whether the peer has an object that was kept, and does not delete it yet."""
    there, before = await members.find(world.theirs, ref), record.found(ref)
    if there is None or before is None:
        return False
    meta = there[1]["metadata"]
    return meta["uid"] == before["metadata"]["uid"] and not meta.get("deletionTimestamp")


async def _last_rules(world: World, survey: Survey, uid: str, ended: set[str]) -> None:
    """Delete the rules that nothing else is placed by; `ended` are those that have passed here."""
    ended.add(uid)
    rules = survey.records[uid].record.standing.rules
    for at, others in survey.rules().items():
        shared = [rule for rule in rules if rule in others]
        if at not in ended and shared and await kept.read(world.hub, world.home, at) is not None:
            rules = [rule for rule in rules if rule not in shared]
    for rule in rules:
        await _delete(world, survey.records[uid].record, rule)


async def _hand_over(world: World, workload: Json, record: Record) -> None:
    """Give the Workload the values that waited, and say that its migration has ended."""
    done = {"annotations": {ANNOTATION_MIGRATION: f"{world.peer.name}/{FINISHED}"}}
    own = {"onDelete": None, **record.own}

    def patch_of(found: Json) -> Mapping[str, Any]:
        if found["metadata"]["uid"] != workload["metadata"]["uid"]:
            raise ConfigurationError("is another Workload by now")
        if kept.step_of(found, None) is Step.FINISHED:
            return {}
        return {"metadata": done, "spec": own}

    namespace, name = workload["metadata"]["namespace"], workload["metadata"]["name"]
    await edit(world.hub, WORKLOADS, name, patch_of, namespace=namespace)


async def _delete(world: World, record: Record, ref: Ref) -> None:
    """Delete an object of the peer's hub, and only the one that was kept."""
    before = record.found(ref)
    if before is None:
        return
    resource = await world.theirs.resource(ref.api_version, ref.kind)
    where = ref.namespace if resource.namespaced else None
    try:
        await world.theirs.delete(
            resource, ref.name, namespace=where, uid=before["metadata"]["uid"]
        )
    except (NotFound, Conflict):
        return  # it is gone, or another object has its name
