"""One chaos run with staged rollouts, from empty clusters to empty clusters."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crds.names import LABEL_MANAGED
from e2e.chaos.frame import watched
from e2e.chaos.judgement import image_of
from e2e.chaos.leaders import LeaderFaults
from e2e.chaos.promises import Broken, until_held
from e2e.chaos.rollouts.users import NAMESPACE, SECRET_VALUE, Authors, Wish
from e2e.chaos.rollouts.watch import RolloutWatchman
from e2e.chaos.stage import MEMBERS, ChaosStage, at_work, not_ready
from machinery.kinds.revisions import digest_of, revision_data
from machinery.types.conditions import find

SETTLE_SECONDS = 240.0
MOST_REVISIONS = 3


@dataclass(frozen=True)
class Size:
    """The size of a run; kills of each role, stops and remakes of members come about evenly."""

    workloads: int = 6
    seconds: float = 120.0

    @property
    def kills(self) -> int:
        return max(2, int(self.seconds / 10))

    @property
    def stops(self) -> int:
        return max(1, int(self.seconds / 25))

    @property
    def remakes(self) -> int:
        return max(1, int(self.seconds / 30))


@dataclass(frozen=True)
class Made:
    """The acts and checks of a run, for its last line."""

    edits: int
    bad: int
    approvals: int
    kills: Mapping[str, int]
    stops: int
    remakes: int
    versions: int
    turns: int
    rolled_back: int

    def __str__(self) -> str:
        return (
            f"{self.edits} edits, {self.bad} of them bad images, {self.approvals} approvals, kills "
            f"{dict(self.kills)}, {self.stops} stops of members, {self.remakes} MemberClusters "
            f"made again; {self.versions} versions of Workloads, {self.turns} turns of clusters "
            f"and {self.rolled_back} statuses after a rollback were looked at"
        )


async def run(
    clusters: Path, logs: Path, *, seed: int, size: Size, say: Callable[[str], object]
) -> Made:
    """Break, settle, clear, on the clusters of that folder. Raises Found."""
    started = time.monotonic()

    def tell(text: str) -> None:
        say(f"{time.monotonic() - started:6.1f} {text}")

    async with at_work(clusters, logs) as stage:
        tell("two of each process are at work")
        authors = Authors(stage, seed=seed, most=size.workloads)
        faults = LeaderFaults(stage, about="rollouts", seed=seed, say=tell)
        watchman = RolloutWatchman(stage)
        phases = _broken(stage, authors, faults, watchman, size, tell)
        await watched(stage, watchman, phases)
        return Made(
            edits=authors.edits,
            bad=authors.bad,
            approvals=authors.approvals,
            kills=faults.kills,
            stops=faults.stops,
            remakes=faults.remakes,
            versions=watchman.versions,
            turns=watchman.turns,
            rolled_back=watchman.rolled_back,
        )


async def _broken(
    stage: ChaosStage,
    authors: Authors,
    faults: LeaderFaults,
    watchman: RolloutWatchman,
    size: Size,
    tell: Callable[[str], object],
) -> None:
    """Run all phases."""
    await authors.prepare()
    await until_held(lambda: _complete(stage, authors.wanted), SETTLE_SECONDS)
    tell("all run their first revision")
    editing = asyncio.create_task(authors.run())
    enough = asyncio.create_task(asyncio.sleep(size.seconds))
    try:
        await faults.run(kills=size.kills, stops=size.stops, removals=0, remakes=size.remakes)
        await enough
    finally:
        enough.cancel()
        editing.cancel()
        await asyncio.gather(editing, return_exceptions=True)
    await authors.finished()
    tell("all is whole again, and each author wants a good image")

    async def done() -> None:
        await authors.approve()
        await _complete(stage, authors.wanted)

    await until_held(done, SETTLE_SECONDS)
    tell("all run what their authors want")
    await _kept_secret(stage)
    await authors.end()
    await until_held(lambda: _empty(stage), SETTLE_SECONDS)
    tell("all is gone")
    await watchman.judged()


async def _complete(stage: ChaosStage, wanted: Mapping[str, Wish]) -> None:
    """Return if each Workload runs everywhere what its author wants. Raises Broken."""
    if away := await not_ready(stage.hub):
        raise Broken(f"not all members are Ready: {'; '.join(away)}")
    found = {w["metadata"]["name"]: w for w in await stage.lists("hub", "wl", namespace=NAMESPACE)}
    if found.keys() != wanted.keys():
        raise Broken(f"Workloads {sorted(found)}, wanted {sorted(wanted)}")
    for name, workload in found.items():
        _told_complete(name, workload)
    for member in MEMBERS:
        copies = await stage.lists(
            member, "deploy", namespace=NAMESPACE, labels=f"{LABEL_MANAGED}=true"
        )
        runs = {each["metadata"]["name"]: image_of(each) for each in copies}
        if runs != {name: wish.image for name, wish in wanted.items()}:
            raise Broken(f"{member} runs {runs}, wanted {wanted}")
    kept = await stage.lists("hub", "controllerrevisions", namespace=NAMESPACE)
    for each in kept:
        spec, name = each["data"]["spec"], each["metadata"]["name"]
        if digest_of(spec) != name.rpartition("-")[2]:
            raise Broken(f"{name} is not what its name says")
    if len(kept) > MOST_REVISIONS * len(wanted):
        raise Broken(f"{len(kept)} ControllerRevisions are kept")


def _told_complete(name: str, workload: Mapping[str, Any]) -> None:
    status = workload.get("status", {})
    rollout = status.get("rollout") or {}
    present = digest_of(revision_data(workload["spec"]))
    whole = rollout.get("phase") == "Complete" and rollout.get("stable") == present
    if not whole or status.get("revisions"):
        raise Broken(f"{name} wants {present}: {rollout}, {status.get('revisions')}")
    if find(status, "RolledOut").get("status") != "True":
        raise Broken(f"{name}: {find(status, 'RolledOut')}")
    others = [c for c in status["clusters"] if c.get("revision") != present]
    if others:
        raise Broken(f"{name}: {others} do not say that they run {present}")


async def _kept_secret(stage: ChaosStage) -> None:
    """Look for the value of the Secret wherever people read. Raises Broken."""
    told = [("the log of " + instance, stage.log(instance)) for instance in stage.processes]
    kinds = ("events", "wl", "controllerrevisions", "mc")
    told += [(kind, str(await stage.lists("hub", kind))) for kind in kinds]
    coded = base64.b64encode(SECRET_VALUE.encode()).decode()
    where = [place for place, text in told if SECRET_VALUE in text or coded in text]
    if where:
        raise Broken(f"the value of a Secret stands in {where}")


async def _empty(stage: ChaosStage) -> None:
    if found := await stage.lists("hub", "wl", namespace=NAMESPACE):
        raise Broken(f"on the hub there are {[w['metadata']['name'] for w in found]}")
    for member in MEMBERS:
        if left := await stage.lists(member, "deploy", labels=f"{LABEL_MANAGED}=true"):
            raise Broken(f"{member}: left behind are {[d['metadata']['name'] for d in left]}")
