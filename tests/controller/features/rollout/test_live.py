"""Rollouts on a real API server; patches of status.clusters play the propagator's part."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest

from controller.features.rollout.revisions import CONTROLLER_REVISIONS
from machinery.errors import Conflict
from machinery.kinds.revisions import digest_of, revision_data, revision_name
from tests.controller.live import World, condition, deciding, deployment
from tests.patience import until

CANARY = {"name": "canary", "clusterSelector": {"matchLabels": {"tier": "canary"}}}
UNITS = 2


def pictured(image: str) -> dict[str, Any]:
    body = deployment("web", "100m")
    body["spec"]["template"]["spec"]["containers"][0]["image"] = image
    return body


class Members:
    """They run at once what the status gives them, but for those of `sick`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.sick: set[str] = set()
        self.given: dict[str, list[str]] = {}

    async def act(self) -> None:
        """One look and one report."""
        found = await self._world.get("web")
        status = found.get("status", {})
        told = [self._entry(*each) for each in sorted(targets(status).items())]
        if told == status.get("clusters", []):
            return
        meta = {"resourceVersion": found["metadata"]["resourceVersion"]}
        with suppress(Conflict):
            await self._world.edit(
                "web", {"metadata": meta, "status": {"clusters": told}}, status=True
            )

    def _entry(self, name: str, target: str) -> dict[str, Any]:
        seen = self.given.setdefault(name, [])
        if not seen or seen[-1] != target:
            seen.append(target)
        ready = 0 if name in self.sick and len(seen) > 1 else UNITS
        zero = dict.fromkeys(("scheduled", "current", "unschedulable", "finished"), 0)
        told = {"name": name, "replicas": UNITS, "updated": UNITS, "ready": ready, **zero}
        state = "Running" if ready else "Creating"
        return {**told, "revision": target, "state": state, "message": "" if ready else "ErrImage"}

    async def until(self, phase: str) -> dict[str, Any]:
        """Act until the rollout has that phase; return the status."""

        async def there() -> bool:
            await self.act()
            return phase_of((await self._world.get("web"))["status"]) == phase

        await until(there, seconds=20, every=0.1)
        status: dict[str, Any] = (await self._world.get("web"))["status"]
        return status


def phase_of(status: Mapping[str, Any]) -> str:
    return str(status.get("rollout", {}).get("phase", ""))


def targets(status: Mapping[str, Any]) -> dict[str, str]:
    if "rollout" not in status:
        return {}
    exceptions = {c: e["revision"] for e in status.get("revisions", []) for c in e["clusters"]}
    held = [each["cluster"] for each in status.get("placements", [])]
    return {name: exceptions.get(name, status["rollout"]["revision"]) for name in held}


async def revisions(world: World) -> set[str]:
    found = await world.client.list(CONTROLLER_REVISIONS, namespace=world.namespace)
    return {each["metadata"]["name"] for each in found["items"]}


async def fleet(world: World, **rollout: Any) -> None:
    for name, tier in (("c1", "canary"), ("m1", "large"), ("m2", "large")):
        await world.cluster(name, labels={"tier": tier})
    spec = {"waves": [CANARY], **rollout}
    given = {"distribution": "Duplicated", "targetDeployment": pictured("v1"), "rollout": spec}
    await world.workload("web", replicas=UNITS, **given)


@pytest.mark.long
@pytest.mark.proves("T1", "T5", "T11")
async def test_a_whole_rollout_with_an_approval(world: World) -> None:
    members = Members(world)
    await fleet(world, waves=[{**CANARY, "approval": True}])
    async with deciding(world):
        status = await members.until("Complete")
        old = status["rollout"]["stable"]
        assert await revisions(world) == {revision_name("web", old)}
        await world.edit("web", {"spec": {"targetDeployment": pictured("v2")}})
        status = await members.until("AwaitingApproval")
        new = digest_of(revision_data((await world.get("web"))["spec"]))
        assert targets(status) == {"c1": new, "m1": old, "m2": old}
        assert condition(status, "RolledOut")["reason"] == "AwaitingApproval"
        where = {"namespace": world.namespace}
        kept = await world.client.get(CONTROLLER_REVISIONS, revision_name("web", old), **where)
        assert digest_of(kept["data"]["spec"]) == old
        approvals = [{"revision": new, "wave": "canary"}]
        await world.edit("web", {"spec": {"rollout": {"approvals": approvals}}})
        status = await members.until("Complete")
        assert members.given == {name: [old, new] for name in ("c1", "m1", "m2")}
        assert condition(status, "RolledOut")["status"] == "True"

        async def tidy() -> bool:
            return await revisions(world) == {revision_name("web", new)}

        await until(tidy)
        uid = (await world.get("web"))["metadata"]["uid"]

        async def told() -> bool:
            reasons = {each["reason"] for each in await world.events_about(uid)}
            return reasons >= {"RolloutStarted", "WaveStarted", "ApprovalNeeded", "RolloutComplete"}

        await until(told, seconds=15, every=0.5)
