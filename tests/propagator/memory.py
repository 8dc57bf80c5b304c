"""A propagator between a hub and members in memory, and a record of each request that it sends.

Everything of its clients is real but the connections, so a record has the bytes of a request: path,
query, User-Agent and body. Time is the test's. Versions, times and the UIDs that members give are
replaced by words, as no two runs have the same.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any
from unittest import mock
from urllib.parse import parse_qsl
from uuid import NAMESPACE_URL, uuid5

import msgspec

import crds
from benchmarks.simulated_members import MISSING, PRESENT, Member
from crds.names import ANNOTATION_HUB_VERSION, LABEL_REGISTER, SYSTEM_NAMESPACE
from machinery.api.client import ApiClient
from machinery.api.resources import CRDS, MEMBER_CLUSTERS, NAMESPACES, SECRETS, WORKLOADS
from machinery.api.status_errors import refusal
from machinery.api.verbs import query_of
from machinery.config.kubeconfig import Connection
from machinery.errors import ApiError, Unreachable
from machinery.release import release
from machinery.types.merge_patch import merged
from propagator.app import AGENT, Propagator
from propagator.settings import PropagatorSettings
from tests.fakeclock import FakeClock
from tests.memoryhub import MemoryHub

Json = dict[str, Any]
HUB = "https://hub.invalid"
SPACE = "shop"
STEP = 0.1
PROCESS: ContextVar[str] = ContextVar("process", default="")
"""The identity of the process that a task belongs to."""
_KINDS = ("Workload", "MemberCluster", "WorkloadGroup")
_NODE: Json = {
    "metadata": {"name": "n1", "uid": "n1", "resourceVersion": "1"},
    "status": {
        "allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}
_UNUSUAL = (
    {"name": "persistentvolumeclaims", "kind": "PersistentVolumeClaim"},
    {"name": "serviceaccounts", "kind": "ServiceAccount"},
)
"""Served in v1 by a member that has one."""
_LISTED = {"namespaced": True, "verbs": ["get", "list", "watch", "patch", "delete"]}
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIME = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_OF_EVENT = re.compile(r"(?<=[a-z0-9]\.)[0-9a-f]{32}$")
_VERSIONS = frozenset({"resourceVersion", "capacityVersion", ANNOTATION_HUB_VERSION})


class World:
    """The hub, the members by name, and `sent`: (server, method, path and query, agent, body)."""

    def __init__(self, *members: str) -> None:
        self.clock = FakeClock()
        self.hub = MemoryHub(clock=self.clock)
        self.members = {name: Member() for name in members}
        self.away: set[str] = set()
        """Members whose connections break."""
        self.same: dict[str, str] = {}
        """Members that lead to the cluster of another one."""
        self.cut: set[str] = set()
        """Processes that do not reach the hub."""
        self.sent: list[tuple[str, str, str, str, bytes | None]] = []
        for kind in _KINDS:
            self.put(CRDS, crds.definition_of(kind))
        for name in ("kube-system", SYSTEM_NAMESPACE, SPACE):
            self.put(NAMESPACES, {"apiVersion": "v1", "metadata": {"name": name}})
        for name, member in self.members.items():
            member.objects["nodes"]["", "n1"] = _NODE
            data = {"endpoint": f"https://{name}.invalid".encode(), "token": b"none"}
            meta = {"name": name, "namespace": SYSTEM_NAMESPACE}
            meta["labels"] = {LABEL_REGISTER: "true"}
            given = {key: base64.b64encode(value).decode() for key, value in data.items()}
            self.put(SECRETS, {"apiVersion": "v1", "metadata": meta, "data": given})

    # What a test does and sees.

    def put(self, res: Any, body: Json) -> None:
        meta = body["metadata"]
        uid = str(uuid5(NAMESPACE_URL, f"{res.kind}/{meta['name']}"))
        self.hub.put(res, {**body, "metadata": {**meta, "uid": uid}})

    def delete(self, name: str) -> None:
        """As an API server does of a Workload with a finalizer."""
        now = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
        self.hub.edit(WORKLOADS, name, {"metadata": now})

    def place(self, name: str, **shares: int) -> None:
        placements = [{"cluster": c, "replicas": n} for c, n in shares.items()]
        self.hub.edit(WORKLOADS, name, {"status": {"placements": placements}}, status=True)

    def status(self, name: str) -> Json:
        status: Json = self.hub.read(WORKLOADS, name).get("status", {})
        return status

    def cluster(self, name: str) -> Json:
        status: Json = self.hub.read(MEMBER_CLUSTERS, name).get("status", {})
        return status

    def deployments(self, member: str) -> list[Json]:
        return [*self.members[member].objects["deployments"].values()]

    def written(self, since: int = 0) -> list[tuple[str, str]]:
        """Server and path of each write but those of Leases, and what is only tried."""
        return [
            (server, path.partition("?")[0])
            for server, method, path, _, _ in self.sent[since:]
            if method not in ("GET", "WATCH") and "/leases/" not in path and "dryRun" not in path
        ]

    async def until(
        self, holds: Callable[[], Any], *, seconds: float = 60.0, step: float = STEP
    ) -> None:
        """Let time pass until it holds; AssertionError after that long on the test's clock."""
        end = self.clock.monotonic() + seconds
        while not _true(holds):
            assert self.clock.monotonic() < end, "it never came to that"
            await self.clock.advance(step)

    async def calm(self, seconds: float, *, step: float = STEP) -> None:
        """Let so much time pass, in small steps."""
        end = self.clock.monotonic() + seconds
        while self.clock.monotonic() < end:
            await self.clock.advance(step)

    @asynccontextmanager
    async def propagating(
        self, identity: str = "one", **settings: Any
    ) -> AsyncIterator[Propagator]:
        given = PropagatorSettings(http_port=0, identity=identity, **settings)
        with self._wired():
            async with ApiClient(Connection(server=HUB), user_agent=AGENT, clock=self.clock) as hub:
                process = Propagator(hub, settings=given, clock=self.clock)
                before = PROCESS.set(identity)
                running = asyncio.create_task(process.run())
                PROCESS.reset(before)
                try:
                    yield process
                finally:
                    running.cancel()
                    with suppress(asyncio.CancelledError):
                        await running

    # The wires.

    @contextmanager
    def _wired(self) -> Iterator[None]:
        attempt, watch = self._attempt, self._watch

        async def attempted(client: ApiClient, call: Any, token: str | None) -> bytes:
            return await attempt(client, call, token)

        @asynccontextmanager
        async def watched(client: ApiClient, res: Any, **how: Any) -> AsyncIterator[Any]:
            yield watch(client, res, how)

        with (
            mock.patch.object(ApiClient, "_attempt", attempted),
            mock.patch.object(ApiClient, "watch", watched),
            # A thread takes as long as the host lets it, while the test's clock goes on.
            mock.patch("asyncio.to_thread", at_once),
            mock.patch("random.uniform", lambda least, most: (least + most) / 2),
            mock.patch("random.random", return_value=0.5),
        ):
            yield

    async def _attempt(self, client: ApiClient, call: Any, token: str | None) -> bytes:
        url = call.url if call.method == "GET" else client._ending(call)
        agent = client._headers_for(call, token)["User-Agent"]
        body = msgspec.json.decode(call.body) if call.body else None
        server = url.host.removesuffix(".invalid")
        self.sent.append((server, call.method, url.path_qs, agent, call.body))
        await asyncio.sleep(0)
        if server == "hub" and PROCESS.get() in self.cut:
            raise Unreachable("the hub is away")
        if server == "hub":
            return await self._of_hub(call.method, url, body)
        if server in self.away:
            raise Unreachable(f"{server} is away")
        dry_run = "dryRun" in url.query
        cluster, member = self.same.get(server, server), self.members[server]
        code, answer = _of_member(cluster, member, call.method, url.path, body, dry_run=dry_run)
        encoded = answer.encode() if isinstance(answer, str) else msgspec.json.encode(answer)
        if code >= 300:
            raise refusal(code, {}, encoded)
        return encoded

    async def _of_hub(self, method: str, url: Any, body: Any) -> bytes:
        if method == "POST" and body.get("kind") == "MemberCluster":
            name = body["metadata"]["name"]
            body["metadata"]["uid"] = str(uuid5(NAMESPACE_URL, f"MemberCluster/{name}"))
        params = dict(parse_qsl(url.query_string))
        answer = await self.hub.request(method, url.path, params=params, body=body)
        meta = msgspec.json.decode(answer).get("metadata", {})
        if method == "PATCH" and meta.get("deletionTimestamp") and not meta.get("finalizers"):
            self.hub._delete(url.path)
        return answer

    async def _watch(self, client: ApiClient, res: Any, how: Json) -> AsyncIterator[bytes]:
        chosen = {k: v for k, v in how.items() if k not in ("timeout_seconds", "acting_as")}
        version = chosen.pop("resource_version")
        query = "&".join(f"{k}={v}" for k, v in query_of(chosen, watch="true").items())  # type: ignore[arg-type] # the keys of a Selection
        server = client._base.removeprefix("https://").removesuffix(".invalid")
        path = res.path(chosen.get("namespace"))
        agent = dict(client._identity)["User-Agent"]
        self.sent.append((server, "WATCH", f"{path}?{query}", agent, None))
        if server == "hub":
            named = SimpleNamespace(path=lambda _: path)
            found: Any = {"resource_version": version, **chosen}
            async with self.hub.watch(named, **found) as lines:  # type: ignore[arg-type] # only its path is asked for
                async for line in lines:
                    yield line
            return
        lines = asyncio.Queue[bytes]()
        self.members[server].watchers[res.plural].add(lines)
        while True:
            yield await lines.get()

    # The record.

    def record(self) -> Json:
        """Writes by server and path, in order; what was read and watched, each once."""
        writes: dict[str, list[Any]] = defaultdict(list)
        reads: set[str] = set()
        for server, method, path, agent, sent in self.sent:
            where, body = _plain(f"{server}{path}"), msgspec.json.decode(sent or b"null")
            if method in ("GET", "WATCH"):
                reads.add(f"{method} {where} {_plain(agent)}")
            else:
                entry = {"method": method, "agent": _plain(agent), "body": _plain(body)}
                if "/leases/" not in path or entry not in writes[where]:  # renewals are alike
                    writes[where].append(entry)
        for entries in writes.values():
            if entries[0]["method"] == "POST":  # of several objects, in any order
                entries.sort(key=json.dumps)
        return {"reads": sorted(reads), "writes": dict(sorted(writes.items()))}


async def at_once(doing: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Stand in for `asyncio.to_thread`."""
    return doing(*args, **named)


def _of_member(
    name: str, member: Member, method: str, path: str, body: Any, *, dry_run: bool
) -> tuple[int, Any]:
    match path.strip("/").split("/"):
        case ["readyz"]:
            return 200, "ok"
        case ["version"]:
            return 200, {"gitVersion": "v1.36.0"}
        case ["api"]:
            return 200, {"versions": ["v1"]}
        case ["apis"]:
            return 200, {"groups": [], "items": []}
        case ["apis", "autoscaling", _]:
            scalers = {"name": "horizontalpodautoscalers", "kind": "HorizontalPodAutoscaler"}
            return 200, {"resources": [scalers | _LISTED]}
        case ["apis", "policy", _]:
            budgets = {"name": "poddisruptionbudgets", "kind": "PodDisruptionBudget"}
            return 200, {"resources": [budgets | _LISTED]}
        case ["api", "v1"]:
            listed = [each | _LISTED for each in _UNUSUAL if member.objects[each["name"]]]
            return 200, {"resources": listed}
        case ["api", "v1", "namespaces", "kube-system"]:
            return 200, {"metadata": {"name": "kube-system", "uid": f"uid-of-{name}"}}
        case ["api", _, *rest] | ["apis", _, _, *rest]:
            return _of_kind(member, method, rest, body, dry_run=dry_run)
    return 404, MISSING


def _of_kind(
    member: Member, method: str, rest: list[str], body: Any, *, dry_run: bool
) -> tuple[int, Any]:
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    plural, key = rest[0], (namespace, rest[1] if len(rest) > 1 else "")
    held = member.objects[plural].get(key)
    if method == "GET" and not key[1]:
        items = [*member.objects[plural].values()]
        return 200, {"kind": "List", "metadata": {"resourceVersion": "1"}, "items": items}
    if method == "GET" and held is not None:
        return 200, held
    if method == "POST":
        made = member.apply(plural, (namespace, body["metadata"]["name"]), body)
        return (409, PRESENT) if made is None else (201, made)
    if method == "PATCH" and "kind" not in body and "spec" in body and held is not None:
        asked = body["metadata"].pop("resourceVersion", None)
        if asked not in (None, held["metadata"]["resourceVersion"]):
            return 409, PRESENT
        body = merged({**held, "metadata": _unstamped(held["metadata"])}, body)
    if method == "PATCH":
        stored = member.apply(plural, key, body, dry_run=dry_run)
        return (409, PRESENT) if stored is None else (200, stored)
    if method == "DELETE" and member.delete(plural, key):
        return 200, {"kind": "Status", "status": "Success"}
    return 404, MISSING


def _unstamped(meta: Json) -> Json:
    return {key: value for key, value in meta.items() if key != "resourceVersion"}


def _true(holds: Callable[[], Any]) -> bool:
    try:
        return bool(holds())
    except (ApiError, KeyError):
        return False


def _plain(found: Any) -> Any:
    if isinstance(found, dict):
        return {_plain(k): "VERSION" if k in _VERSIONS else _plain(v) for k, v in found.items()}
    if isinstance(found, list):
        return [_plain(each) for each in found]
    if isinstance(found, str):
        known = found.replace(release(), "RELEASE")
        known = re.sub(r"timeout=\d+ms", "timeout=MILLISECONDS", known)
        return _TIME.sub("TIME", _UUID.sub("UID", _OF_EVENT.sub("DIGEST", known)))
    return found


def written(found: Json) -> str:
    """Return a record as it is stored."""
    return json.dumps(found, indent=1, sort_keys=True) + "\n"
