"""Step 2, release: the peer lets go, and its objects and the members prove it.

All that is changed is kept before the first change. The peer's objects are changed first: what is
taken off on a member while the peer still writes might come back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from machinery.api.resources import SECRETS
from machinery.types.metadata import Key
from stowage.console import words
from stowage.migrating import kept, members
from stowage.migrating.examining import examined, side_by_side
from stowage.migrating.kept import KeptObject, Progress, Record, Step, StoredRecord
from stowage.migrating.letting_go import Waiting, let_go, on_members, unproven
from stowage.migrating.outcomes import NEXT, Outcome, ordered, shares_of, uid_of
from stowage.migrating.survey import Asked, Candidate, Survey, World, surveyed


async def release(world: World, asked: Asked) -> list[Outcome]:
    """Have the peer let go, and see it proven by the peer's objects and by the members."""
    survey = await surveyed(world, asked)
    await examined(world, asked, survey, compare=True)
    out, todo = _sorted_out(world, survey)
    faults = await _all_kept(world, survey, todo)
    out += [Outcome(key, survey.step(key), fault) for key, fault in faults.items()]
    records = await kept.read_all(world.hub, world.home)
    going = [each.key for each in todo if each.key not in faults]
    going += _begun(world, asked, survey)
    wait = Waiting(world)

    async def free(key: Key) -> str:
        await let_go(world, records[uid_of(survey.stored[key])].record, wait)
        return ""

    async def prove(key: Key) -> str:
        return await _prove(world, uid_of(survey.stored[key]), records, wait)

    freed = await side_by_side(going, free)
    out += [Outcome(key, Step.RELEASING, fault) for key, fault in freed if fault]
    # the peer answers a change on a member by a sync, and may put back what was taken off
    await world.clock.sleep(world.settle)
    for key, fault in await side_by_side([key for key, fault in freed if not fault], prove):
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
        elif step in (Step.ADOPTED, Step.RELEASING, Step.RELEASED):
            todo.append(each)
        else:
            fault = f"is {step}: {NEXT[step]}" if step in NEXT else ""
            out.append(Outcome(each.key, step, fault))
    return out, todo


def _begun(world: World, asked: Asked, survey: Survey) -> list[Key]:
    """Return the Workloads of which the peer has lost its objects since their release began."""
    known = {each.key for each in survey.candidates}
    return [
        key
        for key, workload in survey.stored.items()
        if kept.peer_of(workload) == world.peer.name
        and asked.takes(key)
        and key not in known
        and survey.step(key) in (Step.RELEASING, Step.RELEASED)
    ]


async def _all_kept(world: World, survey: Survey, todo: Sequence[Candidate]) -> dict[Key, str]:
    """Keep what the release of each changes, before any change. Return why of some it cannot be."""

    async def keep(candidate: Candidate) -> str:
        await _keep(world, survey, candidate)
        return ""

    new = [each for each in todo if survey.record(survey.stored[each.key]) is None]
    faults = {each.key: fault for each, fault in await side_by_side(new, keep) if fault}
    return faults | _beside(todo, faults)


def _beside(todo: Iterable[Candidate], faults: Mapping[Key, str]) -> dict[Key, str]:
    """Return the Workloads that share a rule with one that cannot be released."""
    stuck = {rule: each.key for each in todo if each.key in faults for rule in each.standing.rules}
    return {
        each.key: f"{rule} is shared with {'/'.join(stuck[rule])}, which could not be kept"
        for each in todo
        for rule in each.standing.rules
        if rule in stuck and each.key not in faults
    }


async def _keep(world: World, survey: Survey, candidate: Candidate) -> None:
    """Keep all that a release changes, before the first change."""
    standing = candidate.standing
    refs = dict.fromkeys((*standing.templates, *standing.rules, *(c.ref for c in standing.changes)))
    before = [_without_values(found) for ref in refs if (found := survey.objects.find(ref.key))]
    others = {(e.member, e.ref): e for r in survey.records.values() for e in r.record.members}
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
    record = Record(standing, survey.names, candidate.own, before, held)
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


async def _prove(world: World, uid: str, records: Mapping[str, StoredRecord], wait: Waiting) -> str:
    """Return why a release is not proven; note that it is."""
    stored = records[uid]
    record = stored.record
    if fault := await unproven(world, await wait.view(), record):
        return fault
    if record.progress is not Progress.RELEASED:
        later = msgspec.structs.replace(record, progress=Progress.RELEASED)
        await kept.change(world.hub, world.home, uid, stored, later)
    return ""
