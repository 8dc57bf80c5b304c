"""Memory of member sessions and of their watch streams, and of each pod that is kept.

    uv run python -m benchmarks.sessions [--sessions 50]

All sessions talk to one real API server that holds no object of ours, each with its own client,
probe, queue and workers, and watches of nodes and pods; first without objects of ours on the
member, then with a watch of some kinds each, so that the cost of a stream is measured. The measure
is the growth of this process's resident memory, after a first session has paid for everything that
is shared. Before that, pods are decoded and reduced as the pods watch does it, and the kept part of
each is measured the same way.
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

from machinery.api.client import ApiClient
from machinery.api.resources import MEMBER_CLUSTERS, USUAL
from machinery.clock import SystemClock
from machinery.config.kubeconfig import Connection
from machinery.pace import ServerBudget
from machinery.runtime.informer import Informer
from machinery.tasks import end
from machinery.types.metadata import Key
from propagator.credentials.credentials import Credentials
from propagator.members.capacity.kept import Pod, WirePod, slim_pod
from propagator.members.capacity.ledger import CapacityLedger
from propagator.members.cluster_identity import Identities
from propagator.members.pod_index import PodIndex
from propagator.members.registry import MemberRegistry
from propagator.members.session import MemberSession
from propagator.settings import SessionSettings
from propagator.types.cluster import MemberCluster
from stowage.playground.controlplanes import Cluster, ControlPlanes, Parts
from stowage.toolchain import build

AIM_KIB = 40.0
SETTLE_SECONDS = 45.0
"""Long enough for the first lists' connections to be closed again, which idle for 30 s."""
PODS = 50_000
KINDS = USUAL[:4]


def resident() -> int:
    """Return the resident memory of this process in bytes, once free memory was given back."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class Handshakes:
    """Counts the connections that were begun since it was made."""

    def __init__(self) -> None:
        self.number = 0
        connect = ServerBudget.connect

        async def counted(pace: ServerBudget) -> None:
            self.number += 1
            await connect(pace)

        ServerBudget.connect = counted  # type: ignore[assignment, method-assign] # a benchmark looks on


@contextmanager
def api_server() -> Iterator[Cluster]:
    """Yield a control plane."""
    build.ensure()
    with tempfile.TemporaryDirectory() as directory:
        planes = ControlPlanes(Path(directory))
        try:
            planes.start()
            yield planes.create("sessions", Parts())
        finally:
            planes.stop()


async def idle(_session: MemberSession, _key: Key) -> float | None:
    """Sync nothing."""
    return None


async def connect(registry: MemberRegistry, connection: Connection, names: list[str]) -> None:
    """Admit sessions of these names and wait until all have settled."""
    sessions = [registry.admit(name) for name in names]
    for session in sessions:
        session.use(Credentials(connection))
    await asyncio.sleep(SETTLE_SECONDS)
    missing = [session.name for session in sessions if not session.ready]
    if missing:
        raise SystemExit(f"not ready within {SETTLE_SECONDS:g} s: {', '.join(missing)}")


async def measure_sessions(connection: Connection, count: int) -> None:
    """Print the cost of `count` sessions."""
    clock = SystemClock()
    async with ApiClient(connection) as client:
        none: Informer[MemberCluster] = Informer(
            client, MEMBER_CLUSTERS, MemberCluster, clock=clock
        )
        identities = Identities(client, none, clock=clock)
    registry = MemberRegistry(
        settings=SessionSettings(),
        clock=clock,
        before_write=lambda: None,
        identities=identities,
    )
    working = asyncio.create_task(registry.work(idle))
    await connect(registry, connection, ["first"])
    before, handshakes = resident(), Handshakes()
    names = [f"member-{number}" for number in range(count)]
    await connect(registry, connection, names)
    bare = resident() - before
    print(f"{count} sessions, nodes and pods watched")
    print(f"  resident memory before {before / 2**20:8.1f} MiB")
    print(f"  per session            {bare / count / 1024:8.1f} KiB")
    print(f"  handshakes per session {handshakes.number / count:8.1f}")
    for name in names:
        if session := registry.get(name):
            for resource in KINDS:
                session.track(resource)
    await asyncio.sleep(SETTLE_SECONDS)
    more = resident() - before - bare
    kib = more / (count * len(KINDS)) / 1024
    print(f"{len(KINDS)} kinds watched besides")
    print(f"  per session            {(bare + more) / count / 1024:8.1f} KiB")
    print(f"  handshakes per session {handshakes.number / count:8.1f}")
    print(f"  per watch stream       {kib:8.1f} KiB  (aim {AIM_KIB:g}, ratio {kib / AIM_KIB:.2f})")
    await end([working])
    await registry.close()


def wire_pod(number: int) -> bytes:
    """Return a pod as an API server sends it, with the fields that we skip."""
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
    """Print the cost of one kept pod, with its share of both ledgers."""
    decoder = msgspec.json.Decoder(WirePod)
    capacity, units = CapacityLedger(), PodIndex(clock=SystemClock())
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
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sessions", type=int, default=50)
    count = parser.parse_args().sessions
    measure_pods()
    with api_server() as cluster:
        asyncio.run(measure_sessions(cluster.connection(), count))


if __name__ == "__main__":
    main()
