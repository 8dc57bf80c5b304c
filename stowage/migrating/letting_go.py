"""What has the peer let go, how that is proven, and what takes it back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from machinery.api.resources import SECRETS
from machinery.errors import ConfigurationError, NotFound, StowageError
from stowage.console import words
from stowage.hub import edit
from stowage.migrating import kept, members
from stowage.migrating.examining import side_by_side
from stowage.migrating.kept import KeptObject, Progress, Record
from stowage.migrating.peer import (
    Change,
    Json,
    Objects,
    PeerView,
    Ref,
    Standing,
    freed,
    held_again,
    held_back,
    held_words,
    made,
    unmade,
)
from stowage.migrating.survey import Survey, World, read

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 8.0
"""Seconds between two readings of the peer, each twice the last: all its works are read."""
Place = tuple[str, Ref]
"""An object on the MemberCluster of that name."""


class Waiting:
    """Waits for what the peer's objects are to say; one reading of its hub serves all who wait."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._room = asyncio.Lock()
        self._asked = self._read = 0
        self._view: PeerView

    async def until(self, missing: Callable[[PeerView], list[str]]) -> None:
        """Return once nothing is missing. Raises StowageError with what is, after a while."""

        async def lacking(view: PeerView) -> str:
            return words.some(missing(view))

        await self._until(lacking)

    async def proven(self, record: Record) -> None:
        """Return once the members prove it too. Raises StowageError with what does not."""

        async def lacking(view: PeerView) -> str:
            return await unproven(self._world, view, record)

        await self._until(lacking)

    async def _until(self, lacking: Callable[[PeerView], Awaitable[str]]) -> None:
        clock, pause = self._world.clock, FIRST_PAUSE
        end = clock.monotonic() + self._world.patience
        while fault := await lacking(await self.view()):
            if clock.monotonic() >= end:
                who = self._world.peer.title
                raise StowageError(f"{fault}; run it again once {who} has synced")
            await clock.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def view(self) -> PeerView:
        """Return a view that was read after this call: an earlier one does not show a change."""
        self._asked += 1
        mine = self._asked
        async with self._room:
            if self._read < mine:
                upto = self._asked
                self._view = self._world.peer.view(Objects(await read(self._world)))
                self._read = upto
            return self._view


async def unproven(world: World, view: PeerView, record: Record) -> str:
    """Return why it is not proven that the peer has let go; empty if it is."""
    found = [*view.unreleased(record.standing)]
    for name, ref in on_members(record.standing, record.clusters):
        there = await members.find(await world.member(name), ref)
        if there is not None and (by := world.peer.held_by(there[1])):
            found.append(f"{name}: {ref} has {held_words(by)}")
    return words.some(found)


def on_members(standing: Standing, names: Mapping[str, str]) -> Iterator[Place]:
    """Yield each object that the peer holds, with the MemberCluster that it is on.

    `names` are the MemberClusters by the peer's names of the clusters.
    """
    for held in standing.held:
        for cluster in held.clusters:
            if cluster in names:
                yield names[cluster], held.ref


async def change(
    world: World, record: Record, changes: Sequence[Change], *, back: bool = False
) -> None:
    """Make changes of the peer's objects, or take them back."""
    for ref in dict.fromkeys(each.ref for each in changes):
        mine = [each for each in changes if each.ref == ref]
        patch_of = partial(_changed, record.found(ref), mine, back=back)
        resource = await world.theirs.resource(ref.api_version, ref.kind)
        where = ref.namespace if resource.namespaced else None
        try:
            await edit(world.theirs, resource, ref.name, patch_of, namespace=where)
        except NotFound:
            if back:
                raise ConfigurationError(f"{ref} is gone: a backup of the peer has it") from None


def _changed(
    before: Json | None, mine: Sequence[Change], found: Json, *, back: bool
) -> Mapping[str, Any]:
    """Return the patch of one object. Raises ConfigurationError for another one of its name."""
    if before is not None and found["metadata"]["uid"] != before["metadata"]["uid"]:
        what = f"{before['kind']} {before['metadata']['name']}"
        raise ConfigurationError(f"{what} is another object by now: nothing of it is changed")
    return unmade(found, before, mine) if back and before is not None else made(found, mine)


async def edit_member(
    world: World, name: str, ref: Ref, patch_of: Callable[[Json], Mapping[str, Any]]
) -> None:
    """Patch the metadata of an object on a member, if it is there."""
    member = await world.member(name)

    def patch(found: Json) -> Mapping[str, Any]:
        metadata = patch_of(members.formed(found))
        return {"metadata": metadata} if metadata else {}

    with suppress(NotFound):
        resource = await member.resource(ref.api_version, ref.kind)
        where = ref.namespace if resource.namespaced else None
        await edit(member, resource, ref.name, patch, namespace=where)


async def let_go(world: World, record: Record, wait: Waiting) -> None:
    """Have the peer let go of all that a Workload runs."""
    standing = record.standing
    if not (standing.seals and not await unproven(world, await wait.view(), record)):
        await change(world, record, standing.changes)
        await wait.until(lambda view: [*view.unreleased(standing)])
    if world.peer.frees:
        for name, ref in on_members(standing, record.clusters):
            await edit_member(world, name, ref, partial(_free, world))
    else:
        await wait.proven(record)
    await change(world, record, standing.seals)


def _free(world: World, found: Json) -> Mapping[str, Any]:
    return freed(world.peer.held_by(found), found)


# --- and back -------------------------------------------------------------------------------------


async def staying(world: World, survey: Survey, uids: Collection[str]) -> dict[str, str]:
    """Return of which Workloads a release cannot be taken back, by UID, and why.

    Nothing is written: what is found halfway would leave the peer with half of what it had.
    """

    async def one(uid: str) -> str:
        return await _stays(world, survey, uid)

    faults = dict(await side_by_side(uids, one))
    rules = survey.rules()
    others = dict.fromkeys(rules.keys() - faults.keys(), "is not given back")
    for uid, rule in held_back(rules, {**faults, **others}).items():
        faults[uid] = f"{rule} holds other Workloads too: undo them together"
    return {uid: fault for uid, fault in faults.items() if fault}


async def _stays(world: World, survey: Survey, uid: str) -> str:
    record = survey.kept(uid)
    standing, changed = record.standing, False
    for ref in dict.fromkeys(each.ref for each in standing.changes):
        there, before = await members.find(world.theirs, ref), record.found(ref)
        if there is None:
            return f"{ref} is gone: a backup of the peer has it"
        mine = [each for each in standing.changes if each.ref == ref]
        changed |= bool(_changed(before, mine, there[1], back=True))
    left = sorted({*standing.shares} - {*survey.view.runs_on(standing)})
    if changed and left:
        text = f"{world.peer.title} does not place it on {words.some(left)} any more"
        return f"{text}, where it runs: place it there again, or take it"
    for name, ref in on_members(standing, record.clusters):
        there = await members.find(await world.member(name), ref)
        if there is not None and members.ours(there[1]):
            return f"{name}: {ref} carries Stowage's marks still: run it again"
    return ""


async def give_back(
    world: World, survey: Survey, uid: str, others: Collection[Place], wait: Waiting
) -> None:
    """Give what a release took, and see the peer write again; then forget what was kept.

    `others` are the objects on members that Workloads need which are not given back.
    """
    stored = survey.records[uid]
    record = stored.record
    if record.progress is not Progress.KEPT:
        earlier = msgspec.structs.replace(record, progress=Progress.KEPT)
        await kept.change(world.hub, world.home, uid, stored, earlier)
    for each in record.members:
        if (each.member, each.ref) not in others:  # such as a Namespace
            await _hold_again(world, each)
    await change(world, record, record.standing.changes, back=True)
    await wait.until(lambda view: [*view.silent(record.standing)])
    await world.hub.delete(SECRETS, kept.name_of(uid), namespace=world.home)


def held_by_others(survey: Survey, leaving: Collection[str]) -> set[Place]:
    """Return the objects on members that Workloads need which are not given back."""
    return {
        place
        for uid, stored in survey.records.items()
        if uid not in leaving
        for place in on_members(stored.record.standing, stored.record.clusters)
    }


async def _hold_again(world: World, was: KeptObject) -> None:
    member, space = await world.member(was.member), was.ref.namespace
    owners = was.held_by.get("ownerReferences") or ()
    if not all([await members.lives(member, each, space) for each in owners]):
        return  # the peer takes it by an owner that it has by now

    def patch_of(found: Json) -> Mapping[str, Any]:
        same = found["metadata"]["uid"] == was.uid
        return held_again(was.held_by, found) if same else {}

    await edit_member(world, was.member, was.ref, patch_of)
