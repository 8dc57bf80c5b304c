"""Memory of member sessions and of their watch streams, and of each pod that is kept.

    uv run python -m benchmarks.sessions [--sessions 50]

All sessions talk to one real API server that holds none of our objects, each with its own client,
probe, queue and workers, and a watch of each usual kind beside those of nodes and pods; so what is
measured is the cost of the streams alone. It is the growth of this process's resident memory, after
a first session has paid for what is paid once, divided by the streams. Before that, pods are
decoded and reduced as the pods watch does it, and what is kept of each is measured the same way.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import gc
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from machinery.clock import SystemClock
from machinery.kubeconfig import Connection
from machinery.objects import Key
from propagator.capacity import CapacityLedger, Pod, WirePod, slim_pod
from propagator.fleet import MemberFleet
from propagator.kinds import USUAL
from propagator.member import MemberSession
from propagator.observe import UnitLedger
from propagator.settings import SessionSettings
from stowage.playground import build
from stowage.playground.controlplanes import Cluster, ControlPlanes, Parts

AIM_KIB = 40.0
SETTLE_SECONDS = 45.0
"""Long enough for the connections of the first lists to be closed again, which idle for 30 s."""
PODS = 50_000
WATCHES = len(USUAL) + 2


def resident() -> int:
    """Bytes of this process that lie in memory, once what is free was given back."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def api_server() -> Iterator[Cluster]:
    """A control plane of its own."""
    build.ensure()
    with tempfile.TemporaryDirectory() as directory:
        planes = ControlPlanes(Path(directory))
        try:
            planes.start()
            yield planes.create("sessions", Parts())
        finally:
            planes.stop()


async def idle(_session: MemberSession, _key: Key) -> float | None:
    """There is nothing to sync."""
    return None


async def connect(fleet: MemberFleet, connection: Connection, names: list[str]) -> None:
    """Admit sessions of these names and wait until all have settled."""
    sessions = [fleet.admit(name) for name in names]
    for session in sessions:
        session.use(connection)
    await asyncio.sleep(SETTLE_SECONDS)
    missing = [session.name for session in sessions if not session.ready]
    if missing:
        raise SystemExit(f"not ready within {SETTLE_SECONDS:g} s: {', '.join(missing)}")


async def measure_sessions(connection: Connection, count: int) -> None:
    """Print what `count` sessions cost."""
    fleet = MemberFleet(idle, settings=SessionSettings(), clock=SystemClock())
    fleet.watch(*USUAL)
    await connect(fleet, connection, ["first"])
    before = resident()
    await connect(fleet, connection, [f"member-{number}" for number in range(count)])
    grown = resident() - before
    await fleet.close()
    streams = count * WATCHES
    kib = grown / streams / 1024
    print(f"{count} sessions, {streams} watch streams ({WATCHES} each)")
    print(f"  resident memory before {before / 2**20:8.1f} MiB")
    print(f"  grown by               {grown / 2**20:8.1f} MiB")
    print(f"  per session            {grown / count / 1024:8.1f} KiB")
    print(f"  per watch stream       {kib:8.1f} KiB  (aim {AIM_KIB:g}, ratio {kib / AIM_KIB:.2f})")


def wire_pod(number: int) -> bytes:
    """A pod as an API server shows it, with what we skip."""
    pod = {
        "metadata": {
            "name": f"web-7c5ddbdf54-{number:05}",
            "namespace": f"team-{number % 40}",
            "uid": f"5b6f1c1e-0000-4000-8000-{number:012}",
            "resourceVersion": str(1_000_000 + number),
            "creationTimestamp": "2026-01-02T03:04:05Z",
            "labels": {"app": "web", "pod-template-hash": "7c5ddbdf54"},
            "managedFields": [{"manager": "kube-controller-manager", "fieldsV1": {"f:x": {}}}] * 3,
        },
        "spec": {
            "nodeName": f"node-{number % 500}",
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example.com/web:1.2.3",
                    "env": [{"name": f"KEY_{n}", "value": "value"} for n in range(20)],
                    "resources": {"requests": {"cpu": "250m", "memory": "512Mi"}},
                }
            ],
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }
    return json.dumps(pod).encode()


def measure_pods() -> None:
    """Print what one kept pod costs, its share of both ledgers included."""
    decoder = msgspec.json.Decoder(WirePod)
    capacity, units = CapacityLedger(), UnitLedger()
    kept: dict[Key, Pod] = {}
    size = len(wire_pod(0))
    before = resident()
    for number in range(PODS):
        pod = slim_pod(decoder.decode(wire_pod(number)))
        assert isinstance(pod, Pod)
        capacity.replace_pod(None, pod)
        units.replace(None, pod)
        kept[pod.metadata.key] = pod
    grown = resident() - before
    print(f"{PODS} pods of {size} bytes on the wire, on 500 nodes")
    print(f"  grown by               {grown / 2**20:8.1f} MiB")
    each = grown / PODS
    print(f"  per pod                {each:8.0f} bytes, {each / size:.2f} of the wire")


def main() -> None:
    """Measure both."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sessions", type=int, default=50)
    count = parser.parse_args().sessions
    measure_pods()
    with api_server() as cluster:
        asyncio.run(measure_sessions(cluster.connection(), count))


if __name__ == "__main__":
    main()
