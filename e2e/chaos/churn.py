"""The users of a chaos run: they make, edit, scale and delete Workloads, and insist.

Every edit is repeated until the hub has surely accepted it, so that the wanted state is known at
each moment, whatever broke meanwhile.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from e2e.chaos import wishes
from e2e.chaos.judgement import life_of, template_of
from e2e.chaos.stage import MEMBERS, ChaosStage
from e2e.chaos.wishes import NAMESPACES, Wish
from e2e.harness import Failed
from machinery.api.resources import NAMESPACES as NAMESPACE_KIND
from machinery.api.resources import (
    RESERVATIONS,
    SECRETS,
    WORKLOAD_POLICIES,
    WORKLOAD_SPREADS,
    WORKLOADS,
    Resource,
)
from machinery.errors import AlreadyExists, NotFound, TransportError
from machinery.types.metadata import Key
from propagator.members.hub_lease import HELD_SECONDS
from stowage.playground.processes import ProcessFailed

_MOST = 60
"""The bound of Workloads at the same time."""
_PATIENCE_SECONDS = HELD_SECONDS + 240.0


class NotTaken(AssertionError):
    """The hub refused a user's edit for very long, though no fault stands any more."""


class Churn:
    """`wanted` holds the Workloads that must exist; a key that is `busy` is being edited.

    Users leave the Workloads of `want` alone. Each Workload has a life with a number that its
    objects on members carry; `ended` holds the lives that a user has ended.
    """

    def __init__(self, stage: ChaosStage, *, seed: int) -> None:
        self.wanted: dict[Key, Wish] = {}
        self.busy: set[Key] = set()
        self.edits = 0
        self.ended: set[int] = set()
        self.forgotten: set[str] = set()
        """UIDs of swept Workloads, which the hub forgot when it was set back."""
        self.idle_at: dict[Key, float] = {}
        """When each Workload last wanted no unit, by its wish or by the hub."""
        self._lives: dict[Key, int] = {}
        self._numbered = itertools.count(1)
        self._going = asyncio.Event()
        self._going.set()
        self._ours: set[Key] = set()
        self._begun: set[asyncio.Task[None]] = set()
        self._stage = stage
        self._chance = random.Random(f"users {seed}")
        self._numbers = 0

    async def prepare(self) -> None:
        """Create the namespaces, the Secrets that Workloads bring along, and the policies."""
        for namespace in NAMESPACES:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            with suppress(AlreadyExists):
                await self._stage.hub.create(NAMESPACE_KIND, body)
            await self._secret(namespace)
            await self._policy(wishes.policy(namespace, self._chance))
            await self._policy(wishes.strict_policy(namespace))

    async def run(self) -> None:
        """Edit until cancelled, a few users at once."""
        async with asyncio.TaskGroup() as users:
            for _ in range(4):
                users.create_task(self._user())

    async def finished(self, *, seconds: float) -> None:
        """Return when the hub has accepted each edit that was begun.

        Raises NotTaken after that time.
        """
        try:
            async with asyncio.timeout(seconds):
                await asyncio.gather(*self._begun)
        except TimeoutError:
            raise NotTaken(f"after {seconds:.0f} s still edited: {sorted(self.busy)}") from None

    async def want(self, key: Key, wish: Wish) -> None:
        """Add a Workload that no user touches."""
        self._ours.add(key)
        await self._apply(key, wish)

    async def end(self) -> None:
        for key in list(self.wanted):
            await self._delete(key)

    @asynccontextmanager
    async def still(self) -> AsyncIterator[None]:
        """Hold the users back: no edit is under way, and none begins."""
        self._going.clear()
        try:
            while begun := [edit for edit in self._begun if not edit.done()]:
                await asyncio.wait(begun)
            yield
        finally:
            self._going.set()

    async def again(self) -> None:
        """Ask for everything again, of a hub that has forgotten some of it.

        Each is an edit: an object that is older on the hub than on a member stays until an edit
        decides.
        """
        for found in (await _listed(self._stage)).values():
            key = (found["metadata"]["namespace"], found["metadata"]["name"])
            if not found["spec"]["replicas"]:
                self._idle(key)
            if key not in self.wanted:
                await self._delete(key)
            elif life_of(template_of(found)) != self._lives.get(key):
                # Of this name there was another one then: an edit would make one of the other.
                await self._delete_on_hub(key)
        # The copy may be of the moment between what stands beside a Workload and the Workload.
        for kind in (WORKLOAD_SPREADS, RESERVATIONS):
            for key in (await _listed(self._stage, kind)).keys() - self.wanted.keys():
                await self._delete(key)
        for key in list(self.wanted):
            await self.edited(key)

    async def edited(self, key: Key) -> None:
        """Apply a Workload again, with another image alone."""
        await self._apply(key, wishes.renewed(self.wanted[key]))

    def _idle(self, key: Key) -> None:
        self.idle_at[key] = asyncio.get_running_loop().time()

    async def _user(self) -> None:
        while True:
            await asyncio.sleep(self._chance.uniform(0.05, 0.8))
            await self._going.wait()
            # Shielded: an edit that is cancelled half-way would leave the wanted state unknown.
            edit = asyncio.create_task(self._edit())
            self._begun.add(edit)
            await asyncio.shield(edit)
            self._begun.discard(edit)

    async def _edit(self) -> None:
        what = self._chance.random()
        idle = sorted(self.wanted.keys() - self.busy - self._ours)
        if (what < 0.4 and len(self.wanted) < _MOST) or not idle:
            self._numbers += 1
            key = (self._chance.choice(NAMESPACES), f"w{self._numbers}")
            await self._apply(key, wishes.made(self._chance))
        elif what < 0.75:
            key = self._chance.choice(idle)
            await self._apply(key, wishes.changed(self.wanted[key], self._chance))
        elif what < 0.85:
            await self._delete(self._chance.choice(idle))
        elif what < 0.92:
            key = self._chance.choice(idle)
            # Another one of the same name comes, maybe before the first is gone.
            await self._delete(key)
            await self._apply(key, wishes.made(self._chance))
        elif what < 0.97:
            await self._secret(self._chance.choice(NAMESPACES))
        else:
            await self._policy(wishes.policy(self._chance.choice(NAMESPACES), self._chance))
        self.edits += 1

    async def _apply(self, key: Key, wish: Wish) -> None:
        self.busy.add(key)
        before = self.wanted.get(key)
        self.wanted[key] = wish
        if not wish.replicas or (before is not None and not before.replicas):
            self._idle(key)
        namespace, name = key
        life = self._lives.setdefault(key, next(self._numbered))
        body = wishes.manifest(namespace, name, wish, life)
        before_it: dict[str, Any] = {}

        async def once() -> bool:
            await self._beside(key, wish)
            found = await self._stage.hub.apply(
                WORKLOADS, body, name=name, namespace=namespace, field_manager="chaos", force=True
            )
            before_it.clear()
            if found["metadata"].get("deletionTimestamp"):
                before_it.update(found)
                return False  # the one before is still being deleted
            if wish.mode == "Placed":
                await self._place(key, wish)
            return True

        try:
            await insist(once, of="/".join(key), waits=lambda: _ending(before_it))
        finally:
            self.busy.discard(key)

    async def _beside(self, key: Key, wish: Wish) -> None:
        """Apply the spread or reservation of its wish; delete those of an earlier wish."""
        namespace, name = key
        made = {
            WORKLOAD_SPREADS: ("Spread", wishes.spread(namespace, name, wish)),
            RESERVATIONS: ("Reserved", wishes.reservation(namespace, name)),
        }
        for kind, (mode, body) in made.items():
            where = {"name": name, "namespace": namespace}
            if wish.mode == mode:
                await self._stage.hub.apply(kind, body, **where, field_manager="chaos", force=True)
            else:
                with suppress(NotFound):
                    await self._stage.hub.delete(kind, **where)

    async def _place(self, key: Key, wish: Wish) -> None:
        """Place it as an external scheduler does: any split over any of the members."""
        shares = dict.fromkeys(self._chance.sample(MEMBERS, self._chance.randint(1, 3)), 0)
        for _ in range(wish.replicas):
            shares[self._chance.choice(list(shares))] += 1
        placements = [{"cluster": c, "replicas": n} for c, n in sorted(shares.items())]
        status = {"placements": placements, "desired": wish.replicas, "pending": 0}
        await self._stage.hub.merge_patch(
            WORKLOADS, key[1], {"status": status}, namespace=key[0], subresource="status"
        )

    async def _delete(self, key: Key) -> None:
        self.wanted.pop(key, None)
        if key in self._lives:
            self.ended.add(self._lives.pop(key))
        await self._delete_on_hub(key)

    async def _delete_on_hub(self, key: Key) -> None:
        async def once() -> bool:
            for kind in (WORKLOAD_SPREADS, RESERVATIONS, WORKLOADS):
                with suppress(NotFound):
                    await self._stage.hub.delete(kind, key[1], namespace=key[0])
            return True

        self.busy.add(key)
        try:
            await insist(once, of="/".join(key))
        finally:
            self.busy.discard(key)

    async def _secret(self, namespace: str) -> None:
        value = base64.b64encode(str(self._chance.random()).encode()).decode()
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": wishes.SECRET, "namespace": namespace},
            "data": {"value": value},
        }

        async def once() -> bool:
            await self._stage.hub.apply(
                SECRETS, body, name=wishes.SECRET, namespace=namespace, field_manager="chaos"
            )
            return True

        await insist(once)

    async def _policy(self, body: dict[str, Any]) -> None:
        name, namespace = body["metadata"]["name"], body["metadata"]["namespace"]

        async def once() -> bool:
            await self._stage.hub.apply(
                WORKLOAD_POLICIES,
                body,
                name=name,
                namespace=namespace,
                field_manager="chaos",
                force=True,
            )
            return True

        await insist(once)


async def _listed(stage: ChaosStage, kind: Resource = WORKLOADS) -> dict[Key, dict[str, Any]]:
    found: dict[Key, dict[str, Any]] = {}

    async def once() -> bool:
        for each in (await stage.hub.list(kind))["items"]:
            found[each["metadata"]["namespace"], each["metadata"]["name"]] = each
        return True

    await insist(once)
    return found


def _ending(workload: Mapping[str, Any]) -> str:
    """Return what a Workload that is being deleted tells of itself; empty for none."""
    if not workload:
        return ""
    meta, status = workload["metadata"], workload.get("status", {})
    told = {
        each: status.get(each) for each in ("placements", "clusters", "conditions", "footprint")
    }
    return (
        f"its predecessor (uid {meta['uid']}) is being deleted since {meta['deletionTimestamp']}, "
        f"finalizers {meta.get('finalizers')}, annotations {meta.get('annotations')}, {told}"
    )


async def insist(
    once: Callable[[], Awaitable[bool]], *, of: str = "", waits: Callable[[], str] = str
) -> None:
    """Repeat `once` until it returns True; a server that fails is asked again.

    While faults stand, a Workload may wait for its predecessor as long as they do. Raises NotTaken,
    with the last answer and what `waits` tells, after more time than any fault stands.
    """
    fault: Exception | None = None
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while True:
                try:
                    if await once():
                        return
                    fault = None
                except (TransportError, ProcessFailed, Failed, OSError) as e:  # also a time-out
                    fault = e
                await asyncio.sleep(0.3)
    except TimeoutError:
        why = fault or waits() or "what it waits for does not come"
        raise NotTaken(f"{of} asked for {_PATIENCE_SECONDS:.0f} s: {why}".strip()) from None
