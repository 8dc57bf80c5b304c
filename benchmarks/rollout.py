"""One image edit of one Workload on many clusters in three waves: what it costs the hub.

    uv run python -m benchmarks.rollout [--clusters 1000] [--concurrency 10%] [--at-once 1]

A whole controller works on a hub in memory, by a clock that the benchmark moves. The members are
simulated: so many of the clusters that have been given the revision run it from one look to the
next. Counted are the controller's writes of the Workload's status from the edit to Complete, and
their bytes; beside them the changes of clusters, of which each has one: it runs the new revision.
Prints both, how much of status.rollout and status.revisions was stored at most, and the seconds of
the controller's process for a change.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Mapping
from typing import Any

from machinery.api.resources import WORKLOADS
from tests.controller.features.rollout.fleet import NAME, pictured
from tests.controller.memory import Stage

WAVES = ("canary", "eu", "all")
SHARES = (0.05, 0.25, 0.7)
"""Of the clusters, those of each wave."""
Body = dict[str, Any]


class Members:
    """They run what they are given, a few of them from one look to the next."""

    def __init__(self, stage: Stage, at_once: int) -> None:
        self._stage = stage
        self._at_once = at_once
        self._runs: dict[str, str] = {}
        self.changes = 0
        self.largest = 0

    def status(self) -> Body:
        found: Body = self._stage.hub.read(WORKLOADS, NAME).get("status", {})
        return found

    def targets(self, status: Mapping[str, Any]) -> dict[str, str]:
        """Return the revision that each cluster gets."""
        revision = status["rollout"]["revision"]
        named = {c: e["revision"] for e in status.get("revisions", []) for c in e["clusters"]}
        held = (each["cluster"] for each in status.get("placements", []))
        return {cluster: named.get(cluster, revision) for cluster in held}

    def act(self, *, at_once: int = 0) -> None:
        """Let some clusters run what they are given, and report it in one write."""
        status = self.status()
        if "rollout" not in status:
            return
        told = json.dumps([status["rollout"], status.get("revisions", [])], separators=(",", ":"))
        self.largest = max(self.largest, len(told))
        late = [(c, r) for c, r in self.targets(status).items() if self._runs.get(c) != r]
        for cluster, revision in late[: at_once or self._at_once]:
            self._runs[cluster] = revision
            self.changes += 1
        if late:
            clusters = [_entry(cluster, runs) for cluster, runs in sorted(self._runs.items())]
            self._stage.hub.edit(WORKLOADS, NAME, {"status": {"clusters": clusters}}, status=True)


def _entry(cluster: str, revision: str) -> Body:
    counts = dict.fromkeys(("replicas", "updated", "ready", "scheduled"), 1)
    return {"name": cluster, "revision": revision, "state": "Running", **counts}


async def complete(stage: Stage, members: Members, *, at_once: int = 0) -> None:
    """Return once all clusters run the revision of the spec."""
    while True:
        members.act(at_once=at_once)
        stage.hub.bookmark()
        await stage.calm(0.2)
        if members.status().get("rollout", {}).get("phase") == "Complete":
            return


async def measure(clusters: int, concurrency: int | str, at_once: int) -> None:
    stage = Stage()
    members = Members(stage, at_once)
    bounds = [sum(SHARES[: at + 1]) * clusters for at in range(len(SHARES))]
    for number in range(clusters):
        wave = next(name for name, most in zip(WAVES, bounds, strict=True) if number < most + 1e-9)
        stage.cluster(f"member-{number:04}", wave=wave)
    waves = [
        {
            "name": name,
            "clusterSelector": {"matchLabels": {"wave": name}},
            "maxConcurrent": concurrency,
        }
        for name in WAVES
    ]
    given: Body = {"distribution": "Duplicated", "targetDeployment": pictured("v1")}
    stage.workload(NAME, replicas=1, rollout={"waves": waves}, **given)
    async with stage.leading():
        await complete(stage, members, at_once=clusters)
        members.changes, members.largest = 0, 0
        stage.hub.requests.clear()
        began = time.process_time()
        stage.hub.edit(WORKLOADS, NAME, {"spec": {"targetDeployment": pictured("v2")}})
        await stage.calm(0.2)
        await complete(stage, members)
        took = time.process_time() - began
    writes = [body for _, _, body in stage.hub.writes(f"{NAME}/status")]
    sizes = [len(json.dumps(body, separators=(",", ":"))) for body in writes]
    changes = members.changes
    print(f"{clusters} clusters in {len(WAVES)} waves, {concurrency} of a wave at once")
    print(f"  changes of clusters: {changes}, {at_once} at once")
    print(f"  status writes of the controller: {len(writes)}, {len(writes) / changes:.2f} a change")
    print(f"  bytes: {sum(sizes) / changes:.0f} a change, {max(sizes) / 1024:.1f} KiB the largest")
    print(f"  stored of the rollout: {members.largest / 1024:.1f} KiB at most")
    print(f"  {took / changes * 1000:.1f} ms of processor a change, hub and members with it")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--clusters", type=int, default=1000)
    parser.add_argument("--concurrency", default="10%")
    parser.add_argument("--at-once", type=int, default=1)
    given = parser.parse_args()
    concurrency = int(given.concurrency) if given.concurrency.isdigit() else given.concurrency
    asyncio.run(measure(given.clusters, concurrency, given.at_once))


if __name__ == "__main__":
    main()
