"""Step 2, release: the peer lets go, and its objects and the members prove it.

All that is changed is kept before the first change. The peer's objects are changed first: what is
taken off on a member while the peer still writes might come back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from machinery.api.resources import SECRETS
from machinery.types.metadata import Key
from stowage.console import words
from stowage.migrating import kept, members
from stowage.migrating.examining import examined, side_by_side
from stowage.migrating.kept import KeptObject, Progress, Record, Step
from stowage.migrating.letting_go import Place, Waiting, let_go, on_members, unproven
from stowage.migrating.outcomes import NEXT, Outcome, ordered, shares_of, uid_of
from stowage.migrating.peer import held_back
from stowage.migrating.survey import Asked, Candidate, Survey, World, surveyed

_BEGUN = (Step.RELEASING, Step.RELEASED)


async def release(world: World, asked: Asked) -> list[Outcome]:
    """Have the peer let go, and see it proven by the peer's objects and by the members."""
    survey = await surveyed(world, asked)
    await examined(world, asked, survey, compare=True)
    out, todo = _sorted_out(world, survey)
    faults = await _all_kept(world, survey, todo, {each.key: each.fault for each in out})
    out += [Outcome(key, survey.step(key), fault) for key, fault in faults.items()]
    survey.records = await kept.read_all(world.hub, world.home, survey.members)
    going = [each.key for each in todo if each.key not in faults]
    for each in _lost(world, asked, survey):
        going += [] if each.fault else [each.key]
        out += [each] if each.fault else []
    wait = Waiting(world)

    async def free(key: Key) -> str:
        await let_go(world, survey.kept(uid_of(survey.stored[key])), wait)
        return ""

    async def prove(key: Key) -> str:
        return await _prove(world, survey, uid_of(survey.stored[key]), wait)

    freed = await side_by_side(going, free)
    out += [Outcome(key, Step.RELEASING, fault) for key, fault in freed if fault]
    if not (free_now := [key for key, fault in freed if not fault]):
        return ordered(out)
    # the peer answers a change on a member by a sync, and may put back what was taken off
    await world.clock.sleep(world.settle)
    for key, fault in await side_by_side(free_now, prove):
        out.append(Outcome(key, Step.RELEASING if fault else Step.RELEASED, fault))
    return ordered(out)


def _sorted_out(world: World, survey: Survey) -> tuple[list[Outcome], list[Candidate]]:
    """Return what becomes of those that are not released, and those that are."""
    out, todo = list[Outcome](), list[Candidate]()
    for each in survey.candidates:
        step, ways = survey.step(each.key), each.ways
        if step is Step.ADOPTED and (now := shares_of(survey.stored[each.key])) != each.shares:
            there = words.shares(each.shares)
            text = f"the hub has it on {words.shares(now)}, and {world.peer.title} on {there}"
            ways = [f"{text}: undo, and adopt it again", *ways]
        if step is Step.ADOPTED and ways:
            out.append(Outcome(each.key, step, "; ".join(ways)))
        elif step in (Step.ADOPTED, *_BEGUN):
            todo.append(each)
        else:
            fault = f"is {step}: {NEXT[step]}" if step in NEXT else ""
            out.append(Outcome(each.key, step, fault))
    return out, todo


def _lost(world: World, asked: Asked, survey: Survey) -> Iterator[Outcome]:
    """Yield the Workloads of which the peer has lost its objects since they were adopted.

    What was begun goes on without these, from what was kept.
    """
    known = {each.key for each in survey.candidates}
    for key, workload in survey.stored.items():
        if kept.peer_of(workload) != world.peer.name or key in known or not asked.takes(key):
            continue
        step = survey.step(key)
        if step in (Step.ADOPTING, Step.ADOPTED):
            yield Outcome(key, step, f"{world.peer.title} runs it no more: undo it")
        elif step in _BEGUN:
            yield Outcome(key, step)


async def _all_kept(
    world: World, survey: Survey, todo: Sequence[Candidate], out: Mapping[Key, str]
) -> dict[Key, str]:
    """Keep what the release of each changes, before any change. Return why of some it cannot be.

    `out` is why others are not released: a rule is with all that it places, or not at all.
    """

    async def keep(candidate: Candidate) -> str:
        await _keep(world, survey, candidate, others)
        return ""

    rules = {each.key: each.standing.rules for each in survey.candidates}
    stuck = held_back(rules, out)
    others = {(e.member, e.ref): e for r in survey.records.values() for e in r.record.members}
    new = [
        each
        for each in todo
        if each.key not in stuck and survey.record(survey.stored[each.key]) is None
    ]
    faults = {each.key: fault for each, fault in await side_by_side(new, keep) if fault}
    stuck |= held_back(rules, faults)
    shared = {
        each.key: f"{stuck[each.key]} places others too that are not released"
        for each in todo
        if each.key in stuck and survey.step(each.key) is not Step.RELEASED
    }
    return shared | faults


async def _keep(
    world: World, survey: Survey, candidate: Candidate, others: Mapping[Place, KeptObject]
) -> None:
    """Keep all that a release changes, before the first change."""
    standing = candidate.standing
    refs = dict.fromkeys((*standing.templates, *standing.rules, *(c.ref for c in standing.changes)))
    before = [_without_values(found) for ref in refs if (found := survey.objects.find(ref.key))]
    held = []
    for name, ref in on_members(standing, survey.names):
        there = await members.find(await world.member(name), ref)
        if there is None:
            continue
        uid = there[1]["metadata"]["uid"]
        if world.peer.frees and (by := world.peer.held_by(there[1])):
            held.append(KeptObject(name, ref, uid, by))
        elif (before_that := others.get((name, ref))) is not None and before_that.uid == uid:
            held.append(before_that)  # another Workload's release has taken it off
    key, own = candidate.key, candidate.own
    record = Record(key, survey.theirs, standing, survey.names, own, before, held)
    uid = survey.stored[candidate.key]["metadata"]["uid"]
    await kept.keep(world.hub, world.home, uid, record)


def _without_values(value: Any) -> Any:
    """Return an object of the peer as it is kept: no value of a Secret is, at any depth."""
    if isinstance(value, list):
        return [_without_values(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    hidden = ("data", "stringData") if value.get("kind") == SECRETS.kind else ()
    return {key: _without_values(each) for key, each in value.items() if key not in hidden}


async def _prove(world: World, survey: Survey, uid: str, wait: Waiting) -> str:
    """Return why a release is not proven; note that it is."""
    stored = survey.records[uid]
    record = stored.record
    if fault := await unproven(world, await wait.view(), record):
        return fault
    if record.progress is not Progress.RELEASED:
        later = msgspec.structs.replace(record, progress=Progress.RELEASED)
        await kept.change(world.hub, world.home, uid, stored, later)
    return ""
