"""Shards under a large fleet: the time until all is served, memory of each shard, long steps.

    uv run python -m benchmarks.scale [--members 100] [--workloads 10] [--shards 4] [--json FILE]

The hub is a real API server, the members are simulated (`benchmarks.simulated_members`). One
propagator more than shards runs. Half of the members are registered, then the other half; then half
of the Workloads are placed, one share each, and the other half. The slopes of memory are those of
the second halves, so what every process needs is in none of them. At last all propagators start
anew. `--json` adds the run to a file; `docs/scale.md` shows what `table` makes of
`benchmarks/data/scale.json`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.ground import SPACE, workload
from benchmarks.members import CREATORS, POLICIES_SECONDS, Fleet, fleet, until
from crds.names import PROPAGATOR_CONFIG, SYSTEM_NAMESPACE
from machinery.api.client import ApiClient
from machinery.api.resources import CONFIG_MAPS, LEASES, MEMBER_CLUSTERS, NAMESPACES, SECRETS
from machinery.api.resources import WORKLOADS as KIND
from machinery.loopwatch import LONG_SECONDS
from machinery.types.shards import lease_name
from stowage.playground.roles import listening

DATA = Path(__file__).parent / "data" / "scale.json"
SETTLE_SECONDS = 40.0
"""Idle connections are closed after 30 s."""
_STEPS = re.compile(
    r'^stowage_loop_step_seconds_(bucket\{le="([^"]+)"\}|count) (\S+)$', re.MULTILINE
)
Run = Mapping[str, Any]


class Propagators:
    """One process more than shards."""

    def __init__(self, folder: Path, shards: int) -> None:
        self._logs = [folder / f"propagator-{number}.log" for number in range(shards + 1)]
        self._processes = [self._start(folder, log) for log in self._logs]

    def _start(self, folder: Path, log: Path) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "stowage", "propagator", "--http-port=0"]
        with log.open("wb") as out:
            kubeconfig = f"--kubeconfig={folder / 'hub.kubeconfig'}"
            return subprocess.Popen([*command, kubeconfig], stdout=out, stderr=out)

    def resident(self) -> dict[str, int]:
        """Return the resident bytes of each process, by its pid."""
        found = {}
        for process in self._processes:
            pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
            found[str(process.pid)] = pages * os.sysconf("SC_PAGE_SIZE")
        return found

    def long_steps(self) -> int:
        """Return how many steps of all loops took longer than LONG_SECONDS."""
        return sum(long_steps(_metrics(listening(log))) for log in self._logs)

    def end(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait(timeout=60)


def _metrics(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


def long_steps(told: str) -> int:
    """Return how many steps were longer than LONG_SECONDS, by the metrics of a process."""
    counts = {bound or "all": float(value) for _, bound, value in _STEPS.findall(told)}
    return int(counts["all"] - counts[f"{LONG_SECONDS:g}"]) if counts else 0


@contextmanager
def propagators(folder: Path, shards: int) -> Iterator[Propagators]:
    """Yield them; they end with the block."""
    running = Propagators(folder, shards)
    try:
        yield running
    finally:
        running.end()


async def held(hub: ApiClient, shards: int) -> None:
    """Return once each shard has a holder."""
    while True:
        leases = (await hub.list(LEASES, namespace=SYSTEM_NAMESPACE))["items"]
        holders = {e["metadata"]["name"]: e["spec"].get("holderIdentity") for e in leases}
        if all(holders.get(lease_name(each)) for each in range(shards)):
            return
        await asyncio.sleep(1)


async def place(hub: ApiClient, names: Sequence[tuple[str, str]]) -> None:
    """Create Workloads, each on its member, as a scheduler of another name does."""
    gate = asyncio.Semaphore(CREATORS)

    async def one(member: str, name: str) -> None:
        async with gate:
            await hub.create(KIND, workload(name, schedulerName="benchmark"))
            status = {"placements": [{"cluster": member, "replicas": 1}]}
            where: dict[str, Any] = {"namespace": SPACE, "subresource": "status"}
            await hub.merge_patch(KIND, name, {"status": status}, **where)

    await asyncio.gather(*(one(*each) for each in names))


async def measure(servers: Fleet, members: int, workloads: int, shards: int) -> dict[str, Any]:
    """Return what was measured of one fleet."""
    names = [f"m{number}" for number in range(members)]
    # Each half on all members: the first share of a member costs what no other does.
    shares = [(name, f"w-{name}-{number}") for number in range(workloads) for name in names]
    samples: list[dict[str, Any]] = []
    async with ApiClient(servers.hub.connection(), timeout=60) as hub:
        await asyncio.sleep(POLICIES_SECONDS)
        await hub.create(
            NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}
        )
        meta = {"name": PROPAGATOR_CONFIG, "namespace": SYSTEM_NAMESPACE}
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
        await hub.create(CONFIG_MAPS, {**config, "data": {"shards": str(shards)}})
        with propagators(servers.folder, shards) as running:
            await held(hub, shards)
            for half in (names[: members // 2], names[members // 2 :]):
                for name in half:
                    await hub.create(SECRETS, servers.secret(name))
                there = sum(each["members"] for each in samples[-1:]) + len(half)
                await until(hub, MEMBER_CLUSTERS, "Ready", there)
                await asyncio.sleep(SETTLE_SECONDS)
                samples.append({"members": there, "shares": 0, "resident": running.resident()})
            for half_of in (shares[: len(shares) // 2], shares[len(shares) // 2 :]):
                await place(hub, half_of)
                there = samples[-1]["shares"] + len(half_of)
                await until(hub, KIND, "Ready", there)
                await asyncio.sleep(SETTLE_SECONDS)
                sample = {"members": members, "shares": there, "resident": running.resident()}
                samples.append(sample)
            steps = running.long_steps()
        began = time.monotonic()
        with propagators(servers.folder, shards) as running:
            await served(hub, shards)
            seconds = time.monotonic() - began
            steps += running.long_steps()
    return {"samples": samples, "serveSeconds": round(seconds, 1), "longSteps": steps}


async def served(hub: ApiClient, shards: int) -> None:
    """Return once the holder of each shard has compared all of its members in its term."""
    while True:
        leases = (await hub.list(LEASES, namespace=SYSTEM_NAMESPACE))["items"]
        told = {}
        for each in leases:
            notes = each["metadata"].get("annotations") or {}
            term = str(each["spec"].get("leaseTransitions"))
            now = bool(each["spec"].get("holderIdentity")) and notes.get("stowage.dev/reported")
            told[each["metadata"]["name"]] = now == term
        if all(told.get(lease_name(each)) for each in range(shards)):
            return
        await asyncio.sleep(1)


def machine() -> str:
    """Return what a reader has to know of it to judge a figure."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = len(os.sched_getaffinity(0))
    python = f"Python {platform.python_version()}"
    return f"{cores} processors ({platform.machine()}), {memory:.0f} GiB, {python}"


def commit() -> str:
    """Return the short id of the commit; with + where files differ from it."""
    git = ["git", "describe", "--always", "--exclude=*", "--dirty=+"]
    return subprocess.check_output(git, text=True, cwd=Path(__file__).parent).strip()


def slope(run: Run, what: str) -> float:
    """Return the KiB of memory, over all processes, that one more of that takes: second half."""
    first, second = (0, 1) if what == "members" else (2, 3)
    before, after = run["samples"][first], run["samples"][second]
    grown = sum(after["resident"].values()) - sum(before["resident"].values())
    return float(grown / (after[what] - before[what]) / 1024)


def largest(run: Run) -> float:
    """Return the MiB of the largest process, in any sample."""
    return float(max(max(each["resident"].values()) for each in run["samples"]) / 2**20)


def table(runs: Sequence[Run]) -> str:
    """Return the figures as docs/scale.md shows them."""
    lines = []
    for run in runs:
        lines += [
            f"`{run['command']}` at {run['commit']}, on {run['machine']}, load {run['load']}:",
            "",
            "| figure | measured |",
            "|---|---|",
            f"| memory of a member without shares | {slope(run, 'members'):.0f} KiB |",
            f"| memory of a share | {slope(run, 'shares'):.1f} KiB |",
            f"| the largest of {run['shards'] + 1} processes | {largest(run):.0f} MiB |",
            f"| all members compared after a start of all | {run['serveSeconds']:.0f} s |",
            f"| steps of a loop longer than {LONG_SECONDS * 1000:.0f} ms | {run['longSteps']} |",
            "",
        ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--members", type=int, default=100)
    parser.add_argument("--workloads", type=int, default=10, help="for each member")
    parser.add_argument("--shards", type=int, default=4, choices=range(2, 65), metavar="N")
    parser.add_argument(
        "--json", type=Path, help="the file that gets the run, such as " + DATA.name
    )
    given = parser.parse_args()
    sizes = {name: getattr(given, name) for name in ("members", "workloads", "shards")}
    flags = " ".join(f"--{name} {number}" for name, number in sizes.items())
    run: dict[str, Any] = {"machine": machine(), "commit": commit()}
    run |= {"command": f"python -m benchmarks.scale {flags}", **sizes}
    with fleet() as servers:
        run |= asyncio.run(measure(servers, **sizes))
        run["load"] = round(os.getloadavg()[2])
    print(table([run]))
    if given.json is not None:
        runs = json.loads(given.json.read_text()) if given.json.exists() else []
        kept = [each for each in runs if each["command"] != run["command"]]
        given.json.write_text(json.dumps([*kept, run], indent=1) + "\n")


if __name__ == "__main__":
    main()
