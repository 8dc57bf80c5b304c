"""The cost of a restart of the propagator in which nothing changed: writes, and time.

    uv run python -m benchmarks.restart [--workloads 1000]

One propagator writes that many small Workloads to three real members, each on all of them, and
reports them. It ends, and starts again; until it has read everything, the API servers count their
requests. Every request that changes a resource of the propagator's is one too many: the aim is 0.
The Lease of the leader is not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from machinery.api.resources import EVENTS, WORKLOADS
from propagator.settings import SessionSettings
from stowage.playground.controlplanes import Cluster, ControlPlanes, Parts
from stowage.toolchain import build
from tests.conftest import install_kinds
from tests.propagator.stage import Stage, changes, configmap, deployment, settled, staged

MEMBERS = ("m1", "m2", "m3")
AT_ONCE = 16
PATIENCE_SECONDS = 1800.0


@contextmanager
def fleet() -> Iterator[tuple[Cluster, Mapping[str, Cluster]]]:
    """Yield a hub with our kinds, and three members."""
    build.ensure()
    with tempfile.TemporaryDirectory() as folder:
        planes = ControlPlanes(Path(folder))
        try:
            planes.start()
            clusters = {name: planes.create(name, Parts()) for name in ("hub", *MEMBERS)}
            install_kinds(clusters["hub"])
            yield clusters["hub"], {name: clusters[name] for name in MEMBERS}
        finally:
            planes.stop()


async def write(stage: Stage, count: int) -> None:
    """Create that many Workloads, a Deployment and a ConfigMap each, and wait for all of them."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(name: str) -> None:
        async with gate:
            await stage.create(
                name, targetDeployment=deployment(name), manifests=[configmap(name, a="1")]
            )
            await stage.place(name, footprint="", **dict.fromkeys(MEMBERS, 1))

    await asyncio.gather(*(one(f"w{number}") for number in range(count)))
    until = time.monotonic() + PATIENCE_SECONDS
    while (done := await propagated(stage)) < count:
        if time.monotonic() > until:
            raise SystemExit(f"{done} of {count} Workloads were propagated in time")
        await asyncio.sleep(5)


async def propagated(stage: Stage) -> int:
    listed = await stage.hub.list(WORKLOADS, namespace=stage.namespace)
    conditions = (c for w in listed["items"] for c in w.get("status", {}).get("conditions", ()))
    return sum((c["type"], c["status"]) == ("Propagated", "True") for c in conditions)


async def asked(stage: Stage) -> Counter[tuple[str, str]]:
    """Return the requests that changed an object so far, on the hub and all members."""
    counts = [await changes(client) for client in (stage.hub, *stage.members.values())]
    return sum(counts, Counter())


async def measure(hub: Cluster, members: Mapping[str, Cluster], count: int) -> None:
    """Print the cost of writing, and of a restart."""
    async with staged(hub, members, sessions=SessionSettings()) as stage:
        before, started = await asked(stage), time.monotonic()
        await write(stage, count)
        await settled(stage)
        seconds, written = time.monotonic() - started, await asked(stage)
        print(f"{count} Workloads on {len(members)} members: 2 objects each, on each")
        print(f"  written in             {seconds:8.1f} s, {(written - before).total()} changes")
        await stage.stop()
        written = await asked(stage)  # its last events are written by now
        started = time.monotonic()
        stage.start()
        await stage.ready()
        ready = time.monotonic() - started
        await settled(stage)
        again = await asked(stage) - written
        news = await stage.hub.list(EVENTS)
        print(f"  ready again after      {ready:8.1f} s")
        print(f"  all looked at after    {time.monotonic() - started:8.1f} s")
        print(f"  changes by the restart {again.total():8} (aim 0) {dict(again) or ''}")
        print(f"  told by events         {Counter(each['note'] for each in news['items'])}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workloads", type=int, default=1000)
    count = parser.parse_args().workloads
    with fleet() as (hub, members):
        asyncio.run(measure(hub, members, count))


if __name__ == "__main__":
    main()
