"""A page over 1,000 clusters and 10,000 Workloads, as a process: `python -m tests.web.large`.

With `--changes N` so many Workloads change each second. It prints its address, as `stowage ui` does.
"""

from __future__ import annotations

import asyncio
import sys

from machinery.api.resources import MEMBER_CLUSTERS, WORKLOADS
from stowage.simulation.plan import Where
from stowage.web import app, source
from stowage.web.app import UiSettings
from stowage.web.source import FileSource
from tests.web import fleets

CLUSTERS, PER_NAMESPACE, NAMESPACES = 1000, 100, 100


def body(namespace: int, n: int, ready: int = 4) -> dict[str, object]:
    at = namespace * PER_NAMESPACE + n
    shares = {f"member-{(at + k) % CLUSTERS}": 1 for k in range(4)}
    if at % 50 == 0:
        return fleets.workload(f"web-{n}", {}, namespace=f"ns-{namespace}", why=fleets.REASONS[0])
    made = fleets.workload(f"web-{n}", shares, namespace=f"ns-{namespace}")
    made["status"]["ready"] = ready
    return made


def fleet() -> FileSource:
    found = FileSource("1,000 clusters, 10,000 Workloads", [])
    for n in range(CLUSTERS):
        lost = "no route to host" if n % 100 == 0 else ""
        cluster = fleets.cluster(f"member-{n}", zone=f"zone-{n % 10}", lost=lost, used=n % 32)
        found.snapshot.put(MEMBER_CLUSTERS, cluster)
    for namespace in range(NAMESPACES):
        for n in range(PER_NAMESPACE):
            found.snapshot.put(WORKLOADS, body(namespace, n))
    return found


async def change(found: FileSource, rate: int) -> None:
    at = 0
    while True:
        await asyncio.sleep(1 / rate)
        at += 1
        found.snapshot.put(WORKLOADS, body(at % 3, at % PER_NAMESPACE, ready=at % 4))


async def main(rate: int) -> None:
    found = fleet()
    settings = UiSettings(where=Where("default", ("none",)), browser=False)

    def large(*_: object) -> FileSource:
        return found

    source.of_files = large
    async with asyncio.TaskGroup() as group:
        if rate:
            group.create_task(change(found, rate))
        group.create_task(app.run(settings))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[2]) if len(sys.argv) > 2 else 0))
