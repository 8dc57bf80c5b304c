"""Memory of the hosted page beside that of the page of one reader, over the same fleet.

    uv run python -m benchmarks.webpage [--clusters 1000] [--workloads 10000] [--callers 100]

Each serves 1,000 clusters and 10,000 Workloads from a process of its own. The local page is read by
one reader; the hosted one by so many, of whom each may list one namespace, and by one who may list
all. The hub is not there: reviews are answered at once. Worker processes, of which both have the
same, are not counted. It prints the resident memory of both, and their ratio.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, cast

from machinery.api.resources import MEMBER_CLUSTERS, TOKEN_REVIEWS, WORKLOADS, Resource
from machinery.api.verbs import Verbs
from machinery.clock import SystemClock
from machinery.http_messages import Request
from stowage.simulation.plan import Where
from stowage.web.app import serving
from stowage.web.hosted import TokenDoor
from stowage.web.login import SealedTokens, key_of_process
from stowage.web.session import KeyDoor, Sessions
from stowage.web.source import FileSource
from stowage.web.visit import Door, Sights

NAMESPACES = 100
PATHS = ("/", "/workloads", "/clusters", "/api/v1/workloads.columns")
ZONE = "topology.kubernetes.io/zone"


def cluster(number: int) -> dict[str, Any]:
    offered = {"cpu": "32", "memory": "128Gi", "pods": "440"}
    asked = {"cpu": str(number % 32), "memory": f"{number % 128}Gi", "pods": str(number % 440)}
    return {
        "metadata": {"name": f"member-{number}", "labels": {ZONE: f"zone-{number % 10}"}},
        "status": {
            "conditions": [{"type": "Ready", "status": "True", "reason": "Connected"}],
            "version": "v1.36.3",
            "capacity": {"nodes": 4, "allocatable": offered, "requested": asked},
        },
    }


def workload(number: int, clusters: int) -> dict[str, Any]:
    name, shares = f"web-{number}", [f"member-{(number + k) % clusters}" for k in range(4)]
    container = {"name": "web", "image": "web:1", "resources": {"requests": {"cpu": "1"}}}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
    spec = {"replicas": 4, "selector": {"matchLabels": {"app": name}}, "template": template}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}}
    step = {"units": 1, "cause": "Placed", "because": [{"rule": "Weight", "numbers": {"of": 4}}]}
    return {
        "metadata": {"name": name, "namespace": f"ns-{number % NAMESPACES}"},
        "spec": {"distribution": "Divided", "targetDeployment": {**deployment, "spec": spec}},
        "status": {
            "state": "Running",
            "desired": 4,
            "assigned": 4,
            "ready": 4,
            "placements": [{"cluster": each, "replicas": 1} for each in shares],
            "reasons": [{"cluster": each, "steps": [step]} for each in shares],
            "clusters": [{"name": each, "replicas": 1, "ready": 1} for each in shares],
            "conditions": [{"type": "Scheduled", "status": "True", "reason": "Scheduled"}],
        },
    }


class Reviewer:
    """Answers reviews: `all` may list everything, `ns-7` what is in that namespace."""

    async def create(self, res: Resource, body: Mapping[str, Any]) -> dict[str, Any]:
        spec = body["spec"]
        if res == TOKEN_REVIEWS:
            return {"status": {"authenticated": True, "user": {"username": spec["token"]}}}
        namespace = spec["resourceAttributes"].get("namespace", "")
        return {"status": {"allowed": spec["user"] in ("all", namespace)}}


async def serve(clusters: int, workloads: int, callers: int) -> None:
    """Serve one reader, or `callers` of them if there are any; print the memory in MiB."""
    found, clock = FileSource("a fleet", []), SystemClock()
    for number in range(clusters):
        found.snapshot.put(MEMBER_CLUSTERS, cluster(number))
    for number in range(workloads):
        found.snapshot.put(WORKLOADS, workload(number, clusters))
    sights, sessions = Sights(found.snapshot, system="", clock=clock), Sessions(os.urandom(32))
    door: Door = KeyDoor(sessions, sights)
    given = sessions.redeem(Request("GET", "/", query={"key": sessions.key or ""}))
    readers = [{"Cookie": given.partition(";")[0]}]
    if callers:
        door = TokenDoor(cast("Verbs", Reviewer()), sights, SealedTokens(key_of_process()), clock)
        names = ["all", *(f"ns-{number % NAMESPACES}" for number in range(callers))]
        readers = [{"Authorization": f"Bearer {name}"} for name in names]
    server, site = serving(found, door, Where("default", ()))
    port = await server.start("127.0.0.1", 0)
    for reader in readers:
        for path in PATHS:
            await asyncio.to_thread(load, port, path, reader)
    print(f"{resident():.1f}")
    await server.stop()
    await site.close()


def load(port: int, path: str, headers: dict[str, str]) -> None:
    connection = HTTPConnection(f"127.0.0.1:{port}", timeout=120)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status}")
    finally:
        connection.close()


def resident() -> float:
    """Return the resident memory of this process, in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def measured(options: argparse.Namespace, callers: int) -> float:
    size = (f"--clusters={options.clusters}", f"--workloads={options.workloads}")
    argv = [sys.executable, "-m", "benchmarks.webpage", "--serve", *size, f"--callers={callers}"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return float(done.stdout)


def main() -> None:
    options = argparse.ArgumentParser(description="Memory of the web page.")
    options.add_argument("--clusters", type=int, default=1000)
    options.add_argument("--workloads", type=int, default=10_000)
    options.add_argument("--callers", type=int, default=100)
    options.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.serve:
        asyncio.run(serve(given.clusters, given.workloads, given.callers))
        return
    local, hosted = measured(given, 0), measured(given, given.callers)
    print(f"{given.clusters} clusters, {given.workloads} Workloads")
    print(f"  local page, one reader       {local:7.1f} MiB")
    print(f"  hosted page, {given.callers + 1:3} callers     {hosted:7.1f} MiB")
    print(f"  ratio {hosted / local:.2f}")


if __name__ == "__main__":
    main()
