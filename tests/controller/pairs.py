"""Two controllers on a hub, in processes of their own: the leader is killed, another one follows."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from crds.names import SYSTEM_NAMESPACE
from machinery.api.resources import LEASES
from machinery.errors import NotFound
from tests.patience import until

from .live import World

LISTENING = re.compile(r"listening on \S+:(\d+)")
LEASE = "stowage-controller"


class Pair:
    """Two controllers at work, by their process ids; one that is killed has another one follow."""

    def __init__(self, world: World, folder: Path) -> None:
        self._world, self._folder = world, folder
        self.processes: dict[int, tuple[subprocess.Popen[bytes], Path]] = {}
        self._number = 0

    def start(self) -> None:
        self._number += 1
        log = self._folder / f"controller-{self._number}.log"
        kubeconfig = log.with_suffix(".kubeconfig")
        kubeconfig.write_text(self._world.hub.admin_kubeconfig)
        command = [sys.executable, "-m", "stowage", "controller", "--http-port=0"]
        with log.open("wb") as out:
            process = subprocess.Popen(
                [*command, f"--kubeconfig={kubeconfig}"], stdout=out, stderr=out
            )
        self.processes[process.pid] = (process, log)

    async def leader(self) -> int:
        """The process id of who holds the lease."""
        found = 0

        async def held() -> bool:
            nonlocal found
            try:
                lease = await self._world.client.get(LEASES, LEASE, namespace=SYSTEM_NAMESPACE)
            except NotFound:
                return False
            parts = (lease["spec"].get("holderIdentity") or "").split("_")
            found = int(parts[1]) if len(parts) > 1 and parts[1].isdigit() else 0
            return found in self.processes

        await until(held, seconds=60)
        return found

    async def kill(self, pid: int = 0) -> None:
        """End the leader as a power cut does, without a wait for the end of its lease.

        Who knows its process id kills it without a question.
        """
        pid = pid or await self.leader()
        process, _ = self.processes.pop(pid)
        os.kill(pid, signal.SIGKILL)
        process.wait()
        self.start()
        await free_lease(self._world)

    async def ask(self, path: str) -> Any:
        """The leader's answer over HTTP, as soon as it decides."""
        found: Any = None

        def get(log: Path) -> Any:
            port = LISTENING.findall(log.read_text())[-1]
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
                return json.loads(answer.read())

        async def answered() -> bool:
            nonlocal found
            _, log = self.processes[await self.leader()]
            with suppress(OSError, LookupError):  # it begins, or no longer leads
                found = await asyncio.to_thread(get, log)
            return found is not None

        await until(answered)
        return found

    async def end(self) -> None:
        """Kill both; who leads next on this hub need not wait for the end of their lease."""
        for process, _ in self.processes.values():
            process.kill()
            process.wait()
        with suppress(NotFound):
            await free_lease(self._world)


async def free_lease(world: World) -> None:
    """Give up the lease in the name of a leader that was killed."""
    nobody = {"spec": {"holderIdentity": ""}}
    await world.client.merge_patch(LEASES, LEASE, nobody, namespace=SYSTEM_NAMESPACE)


@asynccontextmanager
async def pair(world: World, folder: Path) -> AsyncIterator[Pair]:
    both = Pair(world, folder)
    try:
        both.start()
        both.start()
        yield both
    finally:
        await both.end()
