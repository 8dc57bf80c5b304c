"""Many members in one process, as far as a propagator can tell: more than fit on one machine.

One TLS server answers for all of them, each below a path of its own (`/m17`). A member stores
applied objects, lists and watches them, reports a Deployment as ready as soon as it is written, and
has no nodes and no pods. It validates nothing, and is not as fast or slow as a real API server: a
measurement against it is of the propagator alone. Started by `benchmarks.members`.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import socket
import ssl
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any
from uuid import uuid4

from aiohttp import web

from machinery.types.merge_patch import merged

Json = dict[str, Any]
BOOKMARK_SECONDS = 20.0
_NOT_OWNED = ("apiVersion", "kind", "metadata")
_versions = itertools.count(1000)
MISSING = {"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound"}
PRESENT = {"kind": "Status", "status": "Failure", "code": 409, "reason": "Conflict"}


class Member:
    """One member's objects, by plural and (namespace, name), and its watches."""

    def __init__(self) -> None:
        self.objects: defaultdict[str, dict[tuple[str, str], Json]] = defaultdict(dict)
        self.watchers: defaultdict[str, set[asyncio.Queue[bytes]]] = defaultdict(set)

    def apply(
        self, plural: str, key: tuple[str, str], body: Json, *, dry_run: bool = False
    ) -> Json | None:
        """Store the object and return it; None on a conflict of UID or resourceVersion.

        A body without a kind is a merge patch of the metadata.
        """
        if "kind" not in body:
            return self._patch_metadata(plural, key, body["metadata"])
        meta, held = body["metadata"], self.objects[plural].get(key)
        wanted = meta.pop("resourceVersion", None), meta.get("uid")
        if held is not None and (
            wanted[0] not in (None, held["metadata"]["resourceVersion"])
            or wanted[1] not in (None, held["metadata"]["uid"])
        ):
            return None
        uid = held["metadata"]["uid"] if held else str(uuid4())
        generation = held["metadata"]["generation"] + 1 if held else 1
        fields = {"manager": "stowage", "operation": "Apply", "apiVersion": body["apiVersion"]}
        ours = {k: v for k, v in body.items() if k not in _NOT_OWNED}
        ours["metadata"] = {k: meta[k] for k in ("labels", "annotations") if k in meta}
        fields["fieldsV1"] = owned(ours)
        version = str(next(_versions))
        body["metadata"] = {**meta, "uid": uid, "resourceVersion": version}
        if key[0]:
            body["metadata"]["namespace"] = key[0]
        body["metadata"] |= {"generation": generation, "managedFields": [fields]}
        if plural == "deployments":
            body["status"] = running(body["spec"].get("replicas", 1), generation)
        if dry_run:
            return body
        self.objects[plural][key] = body
        self.tell(plural, "MODIFIED" if held else "ADDED", body)
        return body

    def _patch_metadata(self, plural: str, key: tuple[str, str], meta: Json) -> Json | None:
        held = self.objects[plural].get(key)
        if held is None or any(
            meta.get(each) not in (None, held["metadata"][each])
            for each in ("uid", "resourceVersion")
        ):
            return None
        now = {**merged(held["metadata"], meta), "resourceVersion": str(next(_versions))}
        self.objects[plural][key] = patched = {**held, "metadata": now}
        self.tell(plural, "MODIFIED", patched)
        return patched

    def report(self, plural: str, key: tuple[str, str], **status: Any) -> None:
        """Change these fields of the status of an object that is there."""
        held = self.objects[plural][key]
        meta = {**held["metadata"], "resourceVersion": str(next(_versions))}
        now = {**held, "metadata": meta, "status": {**held.get("status", {}), **status}}
        self.objects[plural][key] = now
        self.tell(plural, "MODIFIED", now)

    def delete(self, plural: str, key: tuple[str, str]) -> bool:
        """Delete the object; return whether there was one."""
        gone = self.objects[plural].pop(key, None)
        if gone is not None:
            gone["metadata"]["resourceVersion"] = str(next(_versions))
            self.tell(plural, "DELETED", gone)
        return gone is not None

    def tell(self, plural: str, kind: str, body: Json) -> None:
        """Send an event to all watches."""
        line = json.dumps({"type": kind, "object": body}).encode() + b"\n"
        for each in self.watchers[plural]:
            each.put_nowait(line)


def owned(value: Any) -> Json:
    """Return an object's fields as an entry of managedFields names them; lists as a whole."""
    if not isinstance(value, dict):
        return {}
    return {f"f:{key}": owned(inner) for key, inner in value.items()}


def running(replicas: int, generation: int) -> Json:
    """Return the status of a Deployment that runs."""
    numbers = dict.fromkeys(
        ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas"), replicas
    )
    condition = {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"}
    return {**numbers, "observedGeneration": generation, "conditions": [condition]}


class Fleet:
    """Answers for all members."""

    def __init__(self) -> None:
        self.members: defaultdict[str, Member] = defaultdict(Member)
        self.asked: Counter[str] = Counter()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer a request to the member that the path begins with."""
        name, _, path = request.path.lstrip("/").partition("/")
        if not path:  # no member's path: the counts of all requests so far
            return web.json_response(self.asked)
        self.asked[_of(request, path)] += 1
        member = self.members[name]
        match path.split("/"):
            case ["readyz"]:
                return web.Response(text="ok")
            case ["version"]:
                return web.json_response({"gitVersion": "v1.36.0"})
            case ["api"]:
                return web.json_response({"versions": ["v1"]})
            case ["apis"]:
                return web.json_response({"groups": []})
            case ["api", "v1"]:
                return web.json_response({"resources": []})
            case ["api", "v1", "namespaces", "kube-system"]:
                return web.json_response({"metadata": {"name": "kube-system", "uid": name}})
            case ["api", _, *rest] | ["apis", _, _, *rest]:
                return await self._of_kind(request, member, rest)
        return web.json_response(MISSING, status=404)

    async def _of_kind(
        self, request: web.Request, member: Member, rest: list[str]
    ) -> web.StreamResponse:
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        plural, key = rest[0], (namespace, rest[1] if len(rest) > 1 else "")
        if request.method == "GET" and request.query.get("watch"):
            return await _watch(request, member, plural)
        if request.method == "GET" and not key[1]:
            items = list(member.objects[plural].values())
            meta = {"resourceVersion": str(next(_versions))}
            return web.json_response({"kind": "List", "metadata": meta, "items": items})
        if request.method == "PATCH":
            stored = member.apply(plural, key, await request.json())
            if stored is None:
                return web.json_response(PRESENT, status=409)
            return web.json_response(stored)
        if request.method == "DELETE" and member.delete(plural, key):
            return web.json_response({"kind": "Status", "status": "Success"})
        held = member.objects[plural].get(key)
        if request.method == "GET" and held is not None:
            return web.json_response(held)
        return web.json_response(MISSING, status=404)


def _of(request: web.Request, path: str) -> str:
    """Return `VERB what`, such as `LIST pods`; a write of an object is a WRITE, all else a GET."""
    parts = path.split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        parts = parts[2:]
    what = parts[0] if parts else path
    if request.method != "GET":
        return f"WRITE {what}"
    if request.query.get("watch"):
        return f"WATCH {what}"
    return f"LIST {what}" if len(parts) == 1 else f"GET {what}"


async def _watch(request: web.Request, member: Member, plural: str) -> web.StreamResponse:
    """Send objects that are newer than the version asked for, and every later event."""
    lines: asyncio.Queue[bytes] = asyncio.Queue()
    since = int(request.query["resourceVersion"])
    for body in member.objects[plural].values():
        if int(body["metadata"]["resourceVersion"]) > since:
            lines.put_nowait(json.dumps({"type": "ADDED", "object": body}).encode() + b"\n")
    member.watchers[plural].add(lines)
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    try:
        await response.prepare(request)
        while True:
            try:
                async with asyncio.timeout(BOOKMARK_SECONDS):
                    line = await lines.get()
            except TimeoutError:
                meta = {"metadata": {"resourceVersion": str(next(_versions))}}
                line = json.dumps({"type": "BOOKMARK", "object": meta}).encode() + b"\n"
            await response.write(line)
    except ConnectionResetError:
        return response  # the watch was closed by its client
    finally:
        member.watchers[plural].discard(lines)


async def serve(keys: Path) -> None:
    """Print the port, and serve until cancelled."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keys / "cert", keys / "key")
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", Fleet().answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
    await web.SockSite(runner, listening, ssl_context=context).start()
    print(listening.getsockname()[1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--keys", type=Path, required=True)
    asyncio.run(serve(parser.parse_args().keys))
