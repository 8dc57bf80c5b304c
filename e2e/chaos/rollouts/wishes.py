"""Staged rollouts with edits and bad images, while leaders are killed and members are stopped."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crds.names import LABEL_MANAGED
from e2e.chaos.engine import SETTLE_SECONDS, Say, Wishes
from e2e.chaos.judgement import image_of
from e2e.chaos.leaders import LeaderFaults
from e2e.chaos.promises import Broken, until_held
from e2e.chaos.rollouts.users import NAMESPACE, SECRET_VALUE, Authors, Wish
from e2e.chaos.rollouts.watch import RolloutWatchman
from e2e.chaos.stage import MEMBERS, ChaosStage, not_ready
from machinery.kinds.revisions import digest_of, revision_data
from machinery.types.conditions import find

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


class Rollouts(Wishes):
    """No cluster runs what no wave gave it, and in the end all run what their authors want."""

    watchman: RolloutWatchman

    def __init__(self, stage: ChaosStage, say: Say, *, seed: int, size: Size) -> None:
        super().__init__(stage)
        self._size = size
        self._authors = Authors(stage, seed=seed, most=size.workloads)
        self.wanted = self._authors.wanted
        self._faults = LeaderFaults(stage, about="rollouts", seed=seed, say=say)
        self.watchman = RolloutWatchman(stage)

    async def prepare(self) -> None:
        await self._authors.prepare()

    async def disturbed(self) -> None:
        await until_held(lambda: _complete(self.stage, self._authors.wanted), SETTLE_SECONDS)
        await self._authors.beside(self._broken())
        await self._authors.finished()

    async def _broken(self) -> None:
        size = self._size
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(asyncio.sleep(size.seconds))
            faults = self._faults.run(
                kills=size.kills, stops=size.stops, removals=0, remakes=size.remakes
            )
            tasks.create_task(faults)

    async def whole(self) -> None:
        await self._authors.approve()
        await _complete(self.stage, self._authors.wanted)

    async def rested(self) -> None:
        await _kept_secret(self.stage)

    async def end(self) -> None:
        await self._authors.end()

    def made(self) -> dict[str, Any]:
        authors, faults, look = self._authors, self._faults, self.watchman
        return {
            "edits": authors.edits,
            "bad images": authors.bad,
            "approvals": authors.approvals,
            "kills": faults.kills,
            "stops": faults.stops,
            "remakes": faults.remakes,
            "versions of Workloads": look.versions,
            "turns": look.turns,
            "rollbacks": look.rolled_back,
        }


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
