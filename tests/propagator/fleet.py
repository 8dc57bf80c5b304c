"""Several processes that share out the members, between a hub and members in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from crds.names import SYSTEM_NAMESPACE
from machinery.api.client import ApiClient
from machinery.api.resources import (
    CONFIG_MAPS,
    LEASES,
)
from machinery.errors import Conflict, Unreachable
from machinery.types import conditions
from machinery.types.shards import lease_name, owner
from propagator.app import Propagator
from tests.propagator.memory import PROCESS, STEP, World

MEMBERS = tuple(f"m{n}" for n in range(1, 5))
ALL = dict.fromkeys(MEMBERS, 1)
HERE, THERE = (next(n for n in MEMBERS if owner(n, 2) == shard) for shard in (0, 1))
"""Members of the first and of the second one of two shards."""


class Fleet(World):
    """A hub, members and processes, which a test begins and ends."""

    def __init__(self, *members: str) -> None:
        super().__init__(*members)
        self.processes: dict[str, Propagator] = {}
        self.lag = 0.0
        """Seconds that the hub takes for a write of a status."""
        self.lost: list[str] = []
        """The paths of writes that lost a race."""
        self.hung: set[str] = set()
        """Members that answer nothing."""
        self.blind: set[str] = set()
        """Processes that read no Lease, and renew their own."""
        self.renewed: dict[str, float] = {}
        """When the last renewal of each process began."""
        self.lands: list[tuple[str, float]] = []
        """The process of each write of a term, and how long after that it may still land."""

    async def _attempt(self, client: ApiClient, call: Any, token: str | None) -> bytes:
        began, process = self.clock.monotonic(), PROCESS.get()
        if call.url.host.removesuffix(".invalid") in self.hung:
            await self.clock.sleep(call.seconds)
            raise Unreachable("no answer in time")
        if call.method != "GET" and client._before_write is not None:
            left = int(client._ending(call).query["timeout"].removesuffix("ms")) / 1000
            self.lands.append((process, began + left - self.renewed[process]))
        if process in self.blind and call.method == "GET" and "/leases/" in call.url.path:
            raise Unreachable("the queue of such requests is full")
        answer = await super()._attempt(client, call, token)
        if call.method != "GET" and LEASES.path(SYSTEM_NAMESPACE) in call.url.path:
            self.renewed[process] = began
        return answer

    async def _of_hub(self, method: str, url: Any, body: Any) -> bytes:
        if self.lag and method == "PATCH" and url.path.endswith("/status"):
            await self.clock.sleep(self.lag)
        try:
            return await super()._of_hub(method, url, body)
        except Conflict:
            self.lost.append(url.path)
            raise

    def shards(self, number: Any) -> None:
        meta = {"name": "stowage-propagator", "namespace": SYSTEM_NAMESPACE}
        data = {"data": {"shards": str(number)}}
        if any(each["metadata"]["name"] == meta["name"] for each in self.hub.all(CONFIG_MAPS)):
            self.hub.edit(CONFIG_MAPS, meta["name"], data, namespace=SYSTEM_NAMESPACE)
        else:
            self.put(
                CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta} | data
            )

    def lease(self, shard: int) -> dict[str, Any]:
        return self.hub.read(LEASES, lease_name(shard), SYSTEM_NAMESPACE)

    def holder(self, shard: int) -> str:
        try:
            return self.lease(shard)["spec"].get("holderIdentity") or ""
        except KeyError:
            return ""

    def served(self, shards: int) -> bool:
        """Whether each member is Ready, and told to be served by its shard."""
        told = {name: self.cluster(name) for name in self.members}
        ready = all(conditions.holds(each, "Ready") for each in told.values())
        theirs = {n: None if shards == 1 else owner(n, shards) for n in told}
        return ready and {name: each.get("shard") for name, each in told.items()} == theirs

    def held(self, shards: int) -> bool:
        return all(self.holder(each) for each in range(shards))

    def reported(self, shards: int) -> bool:
        """Whether each shard has compared its members in its present term."""
        leases = [self.lease(each) for each in range(shards)]
        said = [each["metadata"]["annotations"].get("stowage.dev/reported") for each in leases]
        return said == [str(each["spec"]["leaseTransitions"]) for each in leases]

    def writers(self) -> dict[str, list[str]]:
        """By member, the shards and terms of its writes in order, each once in a row."""
        found: dict[str, list[str]] = {name: [] for name in self.members}
        for server, method, _, agent, _ in self.sent:
            if server in found and method not in ("GET", "WATCH"):
                words = [word for word in agent.split() if word.startswith(("shard/", "term/"))]
                if found[server][-1:] != [" ".join(words)]:
                    found[server].append(" ".join(words))
        return found

    async def calm(self, seconds: float) -> None:
        """Let time pass, and see that no two processes may write to one member."""
        end = self.clock.monotonic() + seconds
        while self.clock.monotonic() < end:
            await self.clock.advance(STEP)
            for name in self.members:
                assert len(self.serving(name)) < 2, name
            for name, process in self.processes.items():
                electors = process._election._electors.values()
                assert sum(each.leading for each in electors) < 2, name

    def serving(self, member: str) -> list[str]:
        """The processes that have a session with the member, and the right to write."""
        terms = ((name, process.term) for name, process in self.processes.items())
        held = [(n, t.registry.get(member)) for n, t in terms if t is not None]
        leads = {n for n, each in self.processes.items() if each._election.elector.leading}
        return [n for n, session in held if session is not None and n in leads]

    @asynccontextmanager
    async def running(self, *names: str) -> AsyncIterator[dict[str, AsyncExitStack]]:
        """Yield what ends each process, by its name."""
        async with AsyncExitStack() as all_of_them:
            ends = {}
            for name in names:
                ends[name] = await all_of_them.enter_async_context(AsyncExitStack())
                process = await ends[name].enter_async_context(self.propagating(name))
                self.processes[name] = process
            yield ends

    @asynccontextmanager
    async def shared(self, shards: int, *names: str) -> AsyncIterator[dict[str, AsyncExitStack]]:
        """As `running`, of processes that share out the members, once each member is served."""
        self.shards(shards)
        async with self.running(*names) as ends:
            await self.until(lambda: self.served(shards))
            yield ends
