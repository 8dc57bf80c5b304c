"""What is in the way of each candidate: on its members, and in what the controller would decide.

Members are only read, and with `compare` asked by dry runs. A member that does not answer is in the
way of what it runs, and of nothing else.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from controller.model.objects import MemberCluster
from machinery.api.resources import SECRETS
from machinery.api.verbs import Verbs
from machinery.errors import StowageError
from machinery.kinds.table import profile_of
from machinery.types.metadata import Key
from propagator.types.hub_objects import HubSecret
from stowage.migrating import kept, members
from stowage.migrating.kept import Step
from stowage.migrating.members import ObjectsAlong, Scalers
from stowage.migrating.numbers import Numbers
from stowage.migrating.peer import Json, Ref, held_back
from stowage.migrating.survey import Asked, Candidate, Survey, World, followed

AT_ONCE = 16
"""Workloads that are looked at side by side."""
T = TypeVar("T")


@dataclass(slots=True)
class Examined:
    """What was found of one candidate."""

    objects: int = 0
    alike: int = 0
    """Of the objects on members, those that are as the Workload renders them."""
    starts: dict[str, int] = field(default_factory=dict)
    """The first ordinal that each member has."""


async def side_by_side(
    items: Iterable[T], work: Callable[[T], Awaitable[str]]
) -> list[tuple[T, str]]:
    """Return each item with what `work` returned, or the text of the fault that it raised."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(item: T) -> tuple[T, str]:
        async with room:
            try:
                return item, await work(item)
            except (StowageError, ValueError, OSError) as e:
                return item, str(e) or type(e).__name__

    return list(await asyncio.gather(*map(one, items)))


async def examined(
    world: World, asked: Asked, survey: Survey, *, compare: bool
) -> tuple[dict[Key, Examined], Numbers]:
    """Add what is in the way to each candidate. Raises StowageError if our hub does not answer."""
    found = {each.key: Examined() for each in survey.candidates}
    scaled = await _scaled(world, survey.candidates)

    async def look(candidate: Candidate) -> str:
        mine = found[candidate.key]
        await _on_members(world, asked, survey, candidate, mine, scaled, compare=compare)
        return ""

    for candidate, fault in await side_by_side(survey.candidates, look):
        if fault:
            candidate.ways.append(fault)
    sound = [each for each in survey.candidates if each.sound]
    numbers = Numbers(
        world.where,
        await asyncio.to_thread(world.inputs),
        {each.key: _body(world, survey, each) for each in sound},
        {each.key: each.shares for each in sound},
        {key: each.starts for key, each in found.items()},
        now=world.now(),
    )
    for candidate in sound:
        if candidate.shares and (fault := numbers.fault(candidate.key)):
            candidate.ways.append(fault)
    _together(survey, survey.candidates)
    for candidate in survey.candidates:
        candidate.ways = [*dict.fromkeys(candidate.ways)]
    return found, numbers


def _body(world: World, survey: Survey, candidate: Candidate) -> Json:
    """Return a Workload as stored since it was adopted, or as the controller would read it."""
    stored = survey.stored.get(candidate.key)
    if stored is not None and kept.peer_of(stored) == world.peer.name:
        return stored
    body = candidate.body
    return {**body, "metadata": {"uid": "", "resourceVersion": "", **body["metadata"]}}


def _together(survey: Survey, candidates: Sequence[Candidate]) -> None:
    """Hold back what shares a rule with a Workload that cannot go on: a rule goes with all."""
    before = (Step.NONE, Step.ADOPTING, Step.ADOPTED)
    stuck = {c.key: "; ".join(c.ways) for c in candidates if survey.step(c.key) in before}
    rules = {each.key: each.standing.rules for each in candidates}
    held = held_back(rules, stuck)
    for each in candidates:
        if each.key in held:
            each.ways.append(f"{held[each.key]} places others too that cannot go on")


async def _on_members(
    world: World,
    asked: Asked,
    survey: Survey,
    candidate: Candidate,
    found: Examined,
    scaled: Mapping[tuple[str, str], Scalers],
    *,
    compare: bool,
) -> None:
    body = _body(world, survey, candidate)
    along = await brought_along(world, asked, body) if compare else ObjectsAlong()
    for name in candidate.shares:
        try:
            member = await world.member(name)
            candidate.ways += _held(scaled, name, candidate)
            await _ordinals(member, name, candidate, found)
        except (StowageError, OSError) as e:
            candidate.ways.append(f"{name}: {e}")
    candidate.ways += _twice(candidate, found)
    if not compare or not candidate.sound:
        return
    body = placed(body, candidate.shares, found.starts)
    results = await differing(world, survey, body, candidate.shares, along)
    found.objects, found.alike = results.objects, results.objects - len(results.texts)
    candidate.ways += results.texts


def _main(candidate: Candidate) -> Ref | None:
    main = candidate.placed.main
    return Ref.of(main.body, candidate.key[0]) if main is not None else None


async def _scaled(world: World, candidates: Iterable[Candidate]) -> dict[tuple[str, str], Scalers]:
    """Return the autoscalers of each member and namespace, which are listed once."""
    found: dict[tuple[str, str], Scalers] = {}

    async def look(place: tuple[str, str]) -> str:
        found[place] = await members.scalers(await world.member(place[0]), place[1])
        return ""

    mains = [(each, ref) for each in candidates if (ref := _main(each)) is not None]
    places = {(name, ref.namespace) for each, ref in mains for name in each.shares}
    for (name, _), fault in await side_by_side(sorted(places), look):
        if fault:
            for each in (each for each, _ in mains if name in each.shares):
                each.ways.append(f"{name}: {fault}")
    return found


def _held(scaled: Mapping[tuple[str, str], Scalers], name: str, candidate: Candidate) -> list[str]:
    if (ref := _main(candidate)) is None:
        return []
    held = scaled.get((name, ref.namespace), {}).get((ref.kind, ref.name), ())
    return [f"{name}: HorizontalPodAutoscaler {each} there holds the replicas" for each in held]


async def _ordinals(member: Verbs, name: str, candidate: Candidate, found: Examined) -> None:
    ref = _main(candidate)
    if ref is None or not profile_of(ref.api_version, ref.kind).ordered:
        return
    if (there := await members.find(member, ref)) is not None:
        found.starts[name] = members.start_of(there[1])


def _twice(candidate: Candidate, found: Examined) -> list[str]:
    """Return which members give one ordinal twice: here each replica has its own."""
    ranges = sorted((start, name) for name, start in found.starts.items())
    texts = []
    for (start, name), (after, other) in itertools.pairwise(ranges):
        if after < start + candidate.shares[name]:
            text = f"ordinal {after} runs on {name} and on {other}"
            texts.append(f"{text}: give one of them another spec.ordinals.start, by an override")
    return texts


# --- comparing ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Comparison:
    """How many objects were compared on members, and how each that differs does."""

    objects: int
    texts: Sequence[str]


def placed(body: Json, shares: Mapping[str, int], starts: Mapping[str, int]) -> dict[str, Any]:
    """Return a Workload as the propagator would bring it to these placements."""
    status = {
        **(body.get("status") or {}),
        "placements": [{"cluster": name, "replicas": n} for name, n in shares.items()],
        "ordinals": [{"cluster": name, "start": start} for name, start in starts.items()],
    }
    return {**body, "spec": {**body["spec"], "delivery": "Push"}, "status": status}


async def differing(
    world: World,
    survey: Survey,
    body: Json,
    shares: Iterable[str],
    along: ObjectsAlong,
) -> Comparison:
    """Compare the objects of a Workload on each member of its shares, by dry runs.

    A member that does not answer counts as one object that differs.
    """
    objects, texts = 0, list[str]()
    for name in shares:
        try:
            cluster = msgspec.convert(survey.members[name], MemberCluster)
            found = await members.compared(await world.member(name), body, cluster, along)
        except (StowageError, ValueError, OSError) as e:
            objects += 1
            texts.append(f"{name}: {e}")
            continue
        objects += len(found)
        texts += [f"{name}: {each.text}" for each in found if each.text]
    return Comparison(objects, texts)


async def brought_along(world: World, asked: Asked, body: Json) -> ObjectsAlong:
    """Return what a Workload brings along, from our hub or as it would be copied there."""
    found = {}
    space = body["metadata"]["namespace"]
    for each in body["spec"].get("resources") or ():
        for server in (world.hub, world.theirs) if asked.secrets else (world.hub,):
            secret = await server.find(SECRETS, each["name"], namespace=space)
            if secret is not None:
                found[each["name"]] = msgspec.convert(secret, HubSecret)
                break
    return ObjectsAlong(found, await followed(world, asked, body))
