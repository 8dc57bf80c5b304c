"""Step 1, adopt: the Workloads are made, with the peer's placements. Members are only read.

A Workload is made with the mark that keeps both processes off it, its status is written, and only
then the mark comes off. So the controller never decides on one that lacks the peer's placements.
"""

from __future__ import annotations

import asyncio
from typing import Any

from crds.names import ANNOTATION_RESTORED
from crds.restored import RestoredMark
from machinery.api.resources import WORKLOADS
from machinery.errors import AlreadyExists
from machinery.types.metadata import Key
from stowage.migrating import kept
from stowage.migrating.examining import examined, side_by_side
from stowage.migrating.kept import Step
from stowage.migrating.numbers import Numbers
from stowage.migrating.outcomes import Outcome, ordered
from stowage.migrating.peer import Json
from stowage.migrating.survey import Asked, Candidate, World, copy, surveyed

_NAME = "migration"
"""The name in the mark that keeps both processes off a Workload without its status."""


async def adopt(world: World, asked: Asked) -> list[Outcome]:
    """Make the Workloads, with the peer's placements. Members are only read."""
    survey = await surveyed(world, asked)
    found, _ = await examined(world, asked, survey, compare=False)
    todo, out = [], list[Outcome]()
    for each in survey.candidates:
        step = survey.step(each.key)
        if step not in (Step.NONE, Step.ADOPTING):
            out.append(Outcome(each.key, step))
        elif each.ways:
            out.append(Outcome(each.key, step, "; ".join(each.ways)))
        else:
            todo.append(each)

    async def make(candidate: Candidate) -> str:
        await copy(world, asked, candidate)
        survey.stored[candidate.key] = await _made(world, candidate)
        return ""

    results = await side_by_side(todo, make)
    out += [Outcome(each.key, Step.NONE, fault) for each, fault in results if fault]
    whole = [each for each, fault in results if not fault]
    if not whole:
        return ordered(out)
    numbers = Numbers(
        world.where,
        await asyncio.to_thread(world.inputs),
        {each.key: survey.stored[each.key] for each in whole},
        {each.key: each.shares for each in whole},
        {each.key: found[each.key].starts for each in whole},
        now=world.now(),
    )

    async def complete(candidate: Candidate) -> str:
        if fault := numbers.fault(candidate.key):
            return fault
        await _complete(world, survey.stored[candidate.key], numbers, candidate.key)
        return ""

    for each, fault in await side_by_side(whole, complete):
        out.append(Outcome(each.key, Step.ADOPTING if fault else Step.ADOPTED, fault))
    return ordered(out)


async def _made(world: World, candidate: Candidate) -> dict[str, Any]:
    """Return the Workload as stored, which neither process acts on so far."""
    body = candidate.body
    notes = {
        **body["metadata"]["annotations"],
        ANNOTATION_RESTORED: str(RestoredMark.restoring(_NAME)),
    }
    metadata = {**body["metadata"], "annotations": notes}
    metadata.pop("creationTimestamp", None)
    namespace, name = candidate.key
    try:
        return await world.hub.create(
            WORKLOADS, {**body, "metadata": metadata}, namespace=namespace
        )
    except AlreadyExists:
        there = await world.hub.get(WORKLOADS, name, namespace=namespace)
        if kept.step_of(there, None) is Step.ADOPTING and kept.peer_of(there) == world.peer.name:
            return there
        raise


async def _complete(world: World, stored: Json, numbers: Numbers, key: Key) -> None:
    """Write the status of a Workload that was made, and then let both processes at it."""
    status = numbers.status(key, world.peer.title)
    namespace, name = key
    meta = {k: stored["metadata"][k] for k in ("uid", "resourceVersion")}
    body = {"metadata": meta, "status": status}
    stored = await world.hub.merge_patch(
        WORKLOADS, name, body, namespace=namespace, subresource="status"
    )
    meta = {k: stored["metadata"][k] for k in ("uid", "resourceVersion")}
    whole = {"metadata": {**meta, "annotations": {ANNOTATION_RESTORED: None}}}
    await world.hub.merge_patch(WORKLOADS, name, whole, namespace=namespace)
