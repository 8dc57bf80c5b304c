"""The faults of a simulation: each is made, stands for a while, and is mended again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from contextlib import suppress

from crds.names import (
    ANNOTATION_UNJOIN,
    LABEL_MANAGED,
    RENAMED,
    SYSTEM_NAMESPACE,
    TAINT_DRAIN,
)
from machinery.api.resources import MEMBER_CLUSTERS, SECRETS, WORKLOADS

from .world import SimWorld, zone_of

Say = Callable[[str], None]
_WEIGHTS = {
    "kill": 10,
    "cut": 6,
    "away": 10,
    "drain": 5,
    "flaky": 3,
    "hold": 4,
    "failing": 3,
    "remake": 4,
    "meddle": 4,
    "lose pods": 3,
}
KINDS = tuple(_WEIGHTS)


class Faults:
    """`kinds` are those that are made. Two never stand on the same subject."""

    def __init__(self, world: SimWorld, *, seed: int, kinds: Iterable[str], say: Say) -> None:
        self.standing: set[str] = set()
        """The subjects of faults that are not mended yet."""
        self._world, self._say = world, say
        self._chance = random.Random(f"faults {seed}")
        self._kinds = [*kinds]
        self._tasks: set[asyncio.Task[None]] = set()

    async def make(self) -> None:
        """Make one, or none if its subject has one already."""
        weights = [_WEIGHTS[kind] for kind in self._kinds]
        kind = self._chance.choices(self._kinds, weights)[0]
        member = self._chance.choice(sorted(self._world.members))
        process = self._chance.choice(sorted(self._world.processes))
        match kind:
            case "kill":
                await self._kill(process)
            case "cut":
                self._cut(process)
            case "away":
                self._away(member)
            case "drain":
                self._drain(member)
            case "flaky":
                self._flaky()
            case "hold":
                self._hold()
            case "failing":
                self._failing(member)
            case "remake":
                self._remake(member)
            case "meddle":
                self._meddle(member)
            case "lose pods":
                self._lose_pods(member)

    async def _kill(self, process: str) -> None:
        if process not in self._world.running or not self._begins(process):
            return
        gently, pause = self._chance.random() < 0.3, self._pause(0, 40)
        self._say(f"kill {process}{' gently' if gently else ''} for {pause:.1f} s")
        await self._world.kill(process, gently=gently)
        self._later(process, pause, lambda: self._world.run(process))

    def _cut(self, process: str) -> None:
        if not self._begins(process):
            return
        self._world.cut.add(process)
        pause = self._chance.uniform(1, 30)
        self._say(f"cut {process} for {pause:.1f} s")
        self._later(process, pause, lambda: self._world.cut.discard(process))

    def _away(self, member: str) -> None:
        if not self._begins(member):
            return
        self._world.away.add(member)
        self._world.clusters[member].wake()
        pause = self._pause(0.5, 90)
        self._say(f"{member} is away for {pause:.1f} s")
        self._later(member, pause, lambda: self._world.away.discard(member))

    def _drain(self, member: str) -> None:
        if not self._begins(subject := f"taints of {member}"):
            return
        self._taint(member, TAINT_DRAIN)
        pause = self._chance.uniform(0.5, 60)
        self._say(f"drain {member} for {pause:.1f} s")
        self._later(subject, pause, lambda: self._taint(member))

    def _taint(self, member: str, *keys: str) -> None:
        taints = [{"key": key, "effect": "NoExecute"} for key in keys]
        with suppress(Exception):  # it is being made again
            self._world.hub.edit(MEMBER_CLUSTERS, member, {"spec": {"taints": taints}})

    def _flaky(self) -> None:
        if not self._begins("hub"):
            return
        self._world.flaky = self._chance.uniform(0.05, 0.5)
        pause = self._chance.uniform(2, 20)
        self._say(f"the hub loses writes and answers for {pause:.1f} s")
        self._later("hub", pause, lambda: setattr(self._world, "flaky", 0.0))

    def _hold(self) -> None:
        if not self._begins("watches"):
            return
        kind = self._chance.choice((WORKLOADS, MEMBER_CLUSTERS, SECRETS))
        release = self._world.hub.hold(kind)
        pause = self._chance.uniform(1, 15)
        self._say(f"watches of {kind.plural} are silent for {pause:.1f} s")
        self._later("watches", pause, release)

    def _failing(self, member: str) -> None:
        if not self._begins(subject := f"images on {member}"):
            return
        failing = self._world.clusters[member].failing
        failing.add(image := f"registry.k8s.io/pause:3.{self._chance.randint(1, 9)}")
        pause = self._chance.uniform(5, 60)
        self._say(f"{image} fails on {member} for {pause:.1f} s")
        self._later(subject, pause, failing.clear)

    def _remake(self, member: str) -> None:
        """Delete a MemberCluster, and make it again by hand, unless its Secret has made it."""
        if not self._begins(subject := f"taints of {member}"):
            return
        hub, marked = self._world.hub, self._chance.random() < 0.5
        mark = {"metadata": {"annotations": {ANNOTATION_UNJOIN: RENAMED}}}
        with suppress(Exception):
            if marked:
                hub.edit(MEMBER_CLUSTERS, member, mark)
            hub.remove(MEMBER_CLUSTERS, member)
        pause = self._pause(0, 20)
        self._say(f"remake {member} after {pause:.1f} s")
        self._later(subject, pause, lambda: self._made_again(member))

    def _made_again(self, member: str) -> None:
        ref = {"namespace": SYSTEM_NAMESPACE, "name": member}
        body = {"apiVersion": MEMBER_CLUSTERS.api_version, "kind": MEMBER_CLUSTERS.kind}
        body |= {"metadata": {"name": member, "labels": zone_of(member)}}
        with suppress(Exception):
            self._world.hub.put(MEMBER_CLUSTERS, body | {"spec": {"secretRef": ref}})

    def _meddle(self, member: str) -> None:
        """Delete an object of ours, as a person with rights on the member might."""
        cluster = self._world.clusters[member]
        ours = sorted(
            (plural, key)
            for plural in ("deployments", "statefulsets", "configmaps")
            for key, each in cluster.objects[plural].items()
            if LABEL_MANAGED in each["metadata"].get("labels", {})
        )
        if ours:
            plural, key = self._chance.choice(ours)
            cluster.delete(plural, key)
            self._say(f"somebody deletes {plural} {key[1]} on {member}")

    def _lose_pods(self, member: str) -> None:
        cluster = self._world.clusters[member]
        alive = sorted(key for key, pod in cluster.objects["pods"].items() if pod["ends"] is None)
        for key in self._chance.sample(alive, min(len(alive), 2)):
            cluster.end_pod(key)
            self._say(f"pod {key[1]} of {member} ends")

    def _begins(self, subject: str) -> bool:
        if subject in self.standing:
            return False
        self.standing.add(subject)
        return True

    def _pause(self, least: float, most: float) -> float:
        """Return a time that is often short."""
        few = least + (most - least) / 10
        return self._chance.choice((least, *(self._chance.uniform(least, n) for n in (few, most))))

    def _later(self, subject: str, seconds: float, mend: Callable[[], object]) -> None:
        async def mending() -> None:
            await self._world.clock.sleep(seconds)
            mend()
            self.standing.discard(subject)
            self._say(f"{subject}: mended")

        task = asyncio.create_task(mending())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
