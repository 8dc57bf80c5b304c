"""The time of `stowage status`, beside one plain LIST of the same objects.

    uv run python -m benchmarks.status [--clusters 1000] [--workloads 10000]

A control plane of its own, with our kinds and nobody who decides. The LIST is one request for each
of both kinds, read to its last byte and not decoded. `status` reads page by page, decodes, and
makes the whole text. Both take turns in one process; it prints the least time of each, and the
least processor time of the API server and of this process together, with their ratios. These may be
compared between machines. Starting the command is not part of it.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from benchmarks import webpage
from benchmarks.ground import spent
from benchmarks.hubcost import hub
from crds.names import SYSTEM_NAMESPACE
from machinery.api.client import ApiClient
from machinery.api.resources import MEMBER_CLUSTERS, NAMESPACES, WORKLOADS, Resource
from machinery.config.kubeconfig import Connection
from stowage.hub import Reader, reader
from stowage.report import status

AT_ONCE = 8
ROUNDS = 5


async def fill(connection: Connection, clusters: int, workloads: int) -> None:
    gate = asyncio.Semaphore(AT_ONCE)
    async with ApiClient(connection, timeout=60.0) as client:

        async def put(resource: Resource, body: dict[str, Any]) -> None:
            told, meta = body.pop("status"), body["metadata"]
            body |= {
                "apiVersion": resource.api_version,
                "kind": resource.kind,
                "spec": body.get("spec", {}),
            }
            async with gate:
                await client.create(resource, body)
                where = {"namespace": meta.get("namespace"), "subresource": "status"}
                await client.merge_patch(resource, meta["name"], {"status": told}, **where)

        for number in range(webpage.NAMESPACES):
            space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"ns-{number}"}}
            await client.create(NAMESPACES, space)
        some = range(clusters)
        await asyncio.gather(*(put(MEMBER_CLUSTERS, webpage.cluster(n)) for n in some))
        many = range(workloads)
        await asyncio.gather(*(put(WORKLOADS, webpage.workload(n, clusters)) for n in many))


class PlainReader(Reader):
    """Reads one answer of any size, without decoding it."""

    def size(self, resource: Resource) -> int:
        """Return the bytes of the list."""
        self._http.request("GET", f"{self._prefix}{resource.path(None)}", headers=self._headers)
        answer: http.client.HTTPResponse = self._http.getresponse()
        return len(answer.read())


def listed(connection: Connection) -> int:
    with PlainReader(connection) as api:
        return sum(map(api.size, (MEMBER_CLUSTERS, WORKLOADS)))


def told(connection: Connection) -> int:
    with reader(connection) as api:
        report = status.read(api, None, SYSTEM_NAMESPACE, now := datetime.now(UTC))
    return len(status.text(report, now, everything=False))


def timed(act: Callable[[], object], others: Callable[[], float]) -> tuple[float, float]:
    """Return seconds, and seconds of processors with those that `others` tells of."""
    began, used = time.perf_counter(), time.process_time() + others()
    act()
    return time.perf_counter() - began, time.process_time() + others() - used


def line(what: str, found: list[tuple[float, float]], plain: list[tuple[float, float]]) -> str:
    texts = []
    for at, name in enumerate(("s", "s of processors")):
        ours, other = (min(each[at] for each in some) for some in (found, plain))
        texts.append(f"{ours:.2f} {name}" + (f" ({ours / other:.2f})" if found != plain else ""))
    return f"  {what}: {', '.join(texts)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--clusters", type=int, default=1000)
    parser.add_argument("--workloads", type=int, default=10_000)
    given = parser.parse_args()
    with hub() as cluster:
        connection = cluster.connection()
        asyncio.run(fill(connection, given.clusters, given.workloads))
        size = listed(connection)
        server = cluster.processes["kube-apiserver"].pid()
        plain: list[tuple[float, float]] = []
        ours: list[tuple[float, float]] = []
        for _ in range(ROUNDS):
            plain.append(timed(partial(listed, connection), partial(spent, server)))
            ours.append(timed(partial(told, connection), partial(spent, server)))
    print(f"{given.clusters} clusters and {given.workloads} Workloads, {size / 1e6:.1f} MB")
    print(line("one plain LIST of each kind", plain, plain))
    print(line("stowage status", ours, plain))


if __name__ == "__main__":
    main()
