"""A drained member: from the moment a successor is Ready until its old unit is given up.

    uv run python -m benchmarks.drain [--units 40] [--dir PLAYGROUND]

One Workload, of which so many units run on the first member and then none may stay; watches on the
members tell when each new pod is Ready and when each old one goes. Each old unit is counted to the
successor of its turn. Prints the middle and the longest of these times, the time of the whole, the
fewest units that were Ready at once, and beside it what the members take by themselves: from the
creation of a pod to its Ready.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.ground import (
    RUN,
    SPACE,
    Body,
    Process,
    clients,
    deployment,
    following,
    playground,
    workload,
)
from crds.names import LABEL_CLUSTER, TAINT_DRAIN
from machinery.api.client import ApiClient
from machinery.api.resources import MEMBER_CLUSTERS, PODS, WORKLOADS, Resource
from machinery.errors import TransportError

MEMBER = "member-1"
PATIENCE_SECONDS = 600.0
CONFIGURATION = """\
apiVersion: stowage.dev/v1alpha1
kind: SchedulerConfiguration
movement: {maxMoving: 100%}
"""


class Pods:
    """The pods of one Workload on one member, and when each was Ready first and went."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.ready: dict[str, float] = {}
        self.gone: dict[str, float] = {}
        self.took: list[float] = []

    def seen(self, pod: Body) -> None:
        meta, now = pod["metadata"], time.monotonic()
        if meta.get("labels", {}).get("app") != self._name:
            return
        conditions = pod.get("status", {}).get("conditions", ())
        ready = next((c for c in conditions if (c["type"], c["status"]) == ("Ready", "True")), None)
        if ready is not None and meta["uid"] not in self.ready:
            self.ready[meta["uid"]] = now
            moments = (meta["creationTimestamp"], ready["lastTransitionTime"])
            made, was = (datetime.fromisoformat(each) for each in moments)
            self.took.append((was - made).total_seconds())
        if meta.get("deletionTimestamp"):
            self.gone.setdefault(meta["uid"], now)

    @property
    def now(self) -> int:
        return len(self.ready.keys() - self.gone.keys())


async def until(what: str, holds: Callable[[], bool]) -> None:
    began = time.monotonic()
    while not holds():
        if time.monotonic() - began > PATIENCE_SECONDS:
            raise SystemExit(f"{what}: not in {PATIENCE_SECONDS:.0f} s")
        await asyncio.sleep(0.05)


async def edit(hub: ApiClient, kind: Resource, name: str, spec: Body, **where: Any) -> None:
    await hub.merge_patch(kind, name, {"spec": spec}, **where)


async def measure(directory: Path, units: int) -> None:
    name, config = f"drained-{RUN}", directory / "drain.yaml"
    config.write_text(CONFIGURATION)
    async with clients(directory) as (hub, members):
        pods = [Pods(name) for _ in members]
        watches = [
            asyncio.create_task(following(member, PODS, each.seen))
            for member, each in zip(members, pods, strict=True)
        ]
        with (
            Process("propagator", directory),
            Process("controller", directory, f"--config={config}"),
        ):
            body = workload(name, replicas=units, distribution="Divided")
            body["spec"]["targetDeployment"] = deployment(name, units)
            body["spec"]["clusterSelector"] = {LABEL_CLUSTER: MEMBER}
            await hub.create(WORKLOADS, body)
            old, new = pods[0], pods[1:]
            await until("all units on one member", lambda: old.now == units)
            await edit(hub, WORKLOADS, name, {"clusterSelector": None}, namespace=SPACE)
            began, fewest = time.monotonic(), [units]
            taints = [{"key": TAINT_DRAIN, "effect": "NoExecute"}]
            await edit(hub, MEMBER_CLUSTERS, MEMBER, {"taints": taints})

            def over() -> bool:
                fewest.append(sum(each.now for each in pods))
                return len(old.gone) == units

            try:
                await until("all units elsewhere", over)
            finally:
                with suppress(TransportError):
                    await edit(hub, MEMBER_CLUSTERS, MEMBER, {"taints": None})
            took = time.monotonic() - began
        for each in watches:
            each.cancel()
        await asyncio.gather(*watches, return_exceptions=True)
    ready = sorted(at for each in new for at in each.ready.values())
    waited = [
        max(gone - at, 0.0) for at, gone in zip(ready, sorted(old.gone.values()), strict=False)
    ]
    alone = [each for one in new for each in one.took]
    print(f"{units} units drained in {took:.1f} s; at least {min(fewest)} Ready at any time")
    print(f"  from a successor's Ready to the end of its old unit: p50 {median(waited):.2f} s")
    print(f"  longest {max(waited):.2f} s")
    print(f"  the members alone, creation to Ready: p50 {median(alone):.0f} s of whole seconds")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--units", type=int, default=40)
    parser.add_argument("--dir", type=Path, help="a playground that is up")
    given = parser.parse_args()
    with playground(given.dir) as directory:
        asyncio.run(measure(directory, given.units))


if __name__ == "__main__":
    main()
