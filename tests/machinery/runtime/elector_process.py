"""A process that acts ten times a second while it leads, and says each time when: for signals.

Arguments: kubeconfig, namespace, identity. The monotonic clock is the same in every process of a
machine, so what two of them say can be compared.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from machinery.api.client import ApiClient
from machinery.clock import SystemClock
from machinery.config.kubeconfig import parse_kubeconfig
from machinery.errors import LeaseLost
from machinery.runtime.leader_election import LeaderElector

SHORT = {"lease_seconds": 3.0, "renew_deadline": 2.0, "retry_seconds": 0.4}
"""Terms that are soon waited for; what holds between two leaders holds for any."""


async def main(kubeconfig: str, namespace: str, identity: str) -> None:
    clock = SystemClock()
    connection = parse_kubeconfig(Path(kubeconfig).read_bytes())  # noqa: ASYNC240 - a small file, once
    async with ApiClient(connection, name=identity) as client:
        elector = LeaderElector(
            client, namespace=namespace, name="lease", identity=identity, clock=clock, **SHORT
        )

        async def lead() -> None:
            while True:
                moment = clock.monotonic()  # looked at first: a check after it covers it
                try:
                    elector.check()
                    print("acts", elector._held().transitions, moment, flush=True)
                except LeaseLost:
                    print("lost", 0, moment, flush=True)
                await clock.sleep(0.1)

        print("contends", 0, clock.monotonic(), flush=True)
        await elector.run(lead)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
