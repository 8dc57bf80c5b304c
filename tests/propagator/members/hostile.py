"""A member's API server that misbehaves on purpose, in the way that the client's token names.

It speaks as much of the Kubernetes API as the propagator asks of a member: /readyz, /version, lists,
watches, and writes that are answered with what was sent. Each `Mode` twists some of that. One
process serves any number of members, so that it costs the machine little; run it as a module, and
it prints its port. `Hostile` starts it and makes registration Secrets for it.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import itertools
import json
import os
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from stowage.playground.pki import Authority

KIB, MIB = 1024, 1024 * 1024
ANSI = "\x1b[31mred\x1b[0m\x07"


class Mode(StrEnum):
    """The fault of the server."""

    HONEST = "quiet"
    BOMB = "bomb"  # answers that inflate to a thousand times their size
    ENDLESS_LIST = "endless-list"  # one page that never ends
    ENDLESS_PAGES = "endless-pages"  # always another page, of objects never seen before
    WHOLE = "whole"  # everything at once, whatever limit was asked for
    LONG_LINE = "long-line"  # a watch event of 64 MiB
    DEEP = "deep"  # JSON nested a thousand times
    JUNK = "junk"  # a million empty objects
    CRUMBS = "crumbs"  # chunks of one byte
    FLOOD = "flood"  # changes as fast as they can be sent
    CHURN = "churn"  # objects that appear and vanish as fast
    BOOKMARKS = "bookmarks"  # bookmarks as fast
    NEWLINES = "newlines"  # empty lines as fast
    ERRORS = "errors"  # watches that begin with an error
    HALF = "half"  # answers that break off
    HANG = "hang"  # a head, and then nothing
    SILENT = "silent"  # not even a head, but for /readyz
    DRIP = "drip"  # a byte now and then
    RESTART = "restart"  # every connection is cut each second
    WORDS = "words"  # terminal codes, ten thousand of everything
    LIES = "lies"  # numbers, names and versions that cannot be
    BACKWARDS = "backwards"  # versions that go back
    LATER = "later"  # 429, come again in a year
    REDIRECT = "redirect"  # elsewhere
    SELECTIVE = "selective"  # hangs for whatever is of the namespace `evil`, or of its kinds


@dataclass
class Asked:
    """One request."""

    mode: Mode
    method: str
    path: str
    query: dict[str, str]
    body: bytes

    @property
    def watch(self) -> bool:
        return self.query.get("watch") == "true"

    @property
    def named(self) -> bool:
        """Whether one object is asked for, and not all of a kind."""
        start = 3 if self.path.startswith("/api/") else 4
        return len(self.path.split("/")[start:]) in (2, 4)

    @property
    def kind(self) -> str:
        return {"pods": "Pod", "nodes": "Node"}.get(self.plural, "ConfigMap")

    @property
    def plural(self) -> str:
        return self.path.rstrip("/").rsplit("/", 1)[-1]


_numbers = itertools.count(1)


def pod(number: int | None = None, **meta: Any) -> dict[str, Any]:
    """A pod like a real one, of two kilobytes."""
    number = next(_numbers) if number is None else number
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": f"pod-{number}",
            "namespace": "default",
            "uid": f"00000000-0000-0000-0000-{number:012}",
            "resourceVersion": str(1000 + number),
            "annotations": {"filler": "x" * 1500},
            **meta,
        },
        "spec": {
            "nodeName": f"node-{number % 50}",
            "containers": [
                {"name": "c", "resources": {"requests": {"cpu": "10m", "memory": "1Mi"}}}
            ],
        },
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }


def node(name: str, **parts: Any) -> dict[str, Any]:
    """A node that is ready."""
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "5", "labels": {}},
        "spec": {"providerID": "kind://x"},
        "status": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    } | parts


def wordy_node() -> dict[str, Any]:
    """One with ten thousand of everything."""
    many = {f"r{n}.example/x": "1" for n in range(10_000)}
    taint = {"effect": "NoSchedule", "value": ANSI}
    said = node(
        "wordy",
        spec={
            "providerID": ANSI + "://x",
            "taints": [{"key": f"k{n}", **taint} for n in range(100)],
        },
    )
    said["metadata"]["labels"] = many | {"topology.kubernetes.io/zone": ANSI}
    said["status"]["allocatable"] = many | {"cpu": "4"}
    return said


def lying_nodes() -> list[dict[str, Any]]:
    """Numbers that no machine has."""
    amounts = ("9223372036854775807", "9E", "-5", "1e999", "", "9" * 4000, 1e300, -1)
    return [
        node(
            f"liar-{n}",
            status={
                "allocatable": {"cpu": amount, "memory": amount, "pods": amount},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        )
        for n, amount in enumerate(amounts)
    ]


def lying_objects() -> list[dict[str, Any]]:
    """Names, versions and counts that cannot be."""
    return [
        {"kind": "Wrong", "apiVersion": "no/v9", "metadata": {}},
        {"metadata": {"name": "x" * 100_000, "resourceVersion": "9" * 10_000}},
        {"metadata": {"name": "../..", "namespace": "kube-system", "resourceVersion": "-1"}},
        {"metadata": {"name": "same", "resourceVersion": "7"}, "status": {"readyReplicas": 1e300}},
        {"metadata": {"name": "same", "resourceVersion": "6"}, "status": {"readyReplicas": -9}},
        {"metadata": {"name": ANSI, "generation": 2**200, "deletionTimestamp": "never"}},
        {"metadata": {"name": "n", "labels": {"stowage.dev/workload-uid": "x" * 10_000}}},
        {"metadata": None},
        {},
    ]


class Misbehaviour:
    """One connection's answers. Made for each; `alive` is until when it may live."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def serve(self) -> None:
        """Answer until somebody hangs up."""
        with suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError, TimeoutError):
            while True:
                await self.answer(await self.read())
        self.writer.transport.abort()

    async def read(self) -> Asked:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines if ": " in line)
        body = await self.reader.readexactly(int(headers.get("content-length", 0)))
        method, target, _ = first.split(" ")
        url = urlsplit(target)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        mode = Mode(headers["authorization"].removeprefix("bearer "))
        return Asked(mode, method, url.path, query, body)

    async def answer(self, asked: Asked) -> None:
        match asked:
            case Asked(mode=Mode.SELECTIVE, path=path) if "evil" in path:
                await asyncio.sleep(3600)
            case Asked(path="/readyz"):
                await self.body(b"ok")
            case Asked(mode=Mode.WORDS, path="/version"):
                await self.json({"gitVersion": f"v1.36.0{ANSI}" + "x" * 10_000})
            case Asked(path="/version"):
                await self.json({"gitVersion": "v1.36.0"})
            case Asked(method="GET", path=path) if path.startswith(("/api/", "/apis/")):
                await self.read_only(asked)
            case _:
                await self.write(asked)

    async def read_only(self, asked: Asked) -> None:
        match asked.mode:
            case Mode.SELECTIVE | Mode.HONEST if asked.named:
                await self.json(STATUS | {"code": 404, "reason": "NotFound"}, "404 Not Found")
            case Mode.BOMB:
                await self.head("Content-Encoding: gzip", f"Content-Length: {len(bomb())}")
                await self.send(bomb())
            case Mode.HALF:
                await self.head("Content-Length: 100000")
                await self.send(b'{"items":[')
                raise ConnectionError
            case Mode.HANG:
                await self.head("Content-Length: 100000")
                await asyncio.sleep(3600)
            case Mode.SILENT:
                await asyncio.sleep(3600)
            case Mode.DRIP:
                await self.head("Content-Length: 100000")
                while True:
                    await self.send(b" ")
                    await asyncio.sleep(0.1)
            case Mode.LATER:
                await self.json(STATUS | {"code": 429}, "429 Too Many", "Retry-After: 31536000")
            case Mode.REDIRECT:
                await self.json({}, "307 Elsewhere", "Location: https://127.0.0.1:1/")
            case _ if asked.watch:
                await self.watch(asked)
            case _:
                await self.list(asked)

    async def write(self, asked: Asked) -> None:
        if asked.mode is Mode.WORDS:
            await self.json(STATUS | {"code": 422, "message": ANSI * 1000}, "422 No")
        elif asked.mode in (Mode.HANG, Mode.SILENT):
            await asyncio.sleep(3600)
        else:
            said = json.loads(asked.body or b"{}")
            meta = {
                **(said.get("metadata") or {}),
                "uid": "u",
                "resourceVersion": str(5000 + next(_numbers)),
            }
            await self.json(said | {"metadata": meta})

    async def list(self, asked: Asked) -> None:
        meta: dict[str, Any] = {"resourceVersion": "1000"}
        items: list[Any] = []
        pods = asked.plural == "pods"
        match asked.mode:
            case Mode.ENDLESS_LIST:
                await self.chunked()
                await self.chunk(b'{"metadata":{"resourceVersion":"1"},"items":[')
                piece = json.dumps(pod(1)).encode() + b","
                while True:
                    await self.chunk(piece * 30)
            case Mode.ENDLESS_PAGES if pods:
                meta["continue"] = str(next(_numbers))
                items = [pod() for _ in range(min(500, int(asked.query.get("limit", 500))))]
            case Mode.WHOLE if pods:
                items = [pod(n) for n in range(20_000)]
            case Mode.DEEP:
                deep = (
                    b'{"metadata":{"name":"deep","resourceVersion":"1"},"spec":'
                    + b'{"a":' * 900
                    + b"1"
                    + b"}" * 901
                )
                await self.body(b'{"metadata":{"resourceVersion":"1"},"items":[' + deep + b"]}")
                return
            case Mode.JUNK:
                await self.body(
                    b'{"metadata":{"resourceVersion":"1"},"items":[' + b"{}," * 1_000_000 + b"{}]}"
                )
                return
            case Mode.CRUMBS:
                await self.chunked()
                for _ in range(1000):
                    await self.send(b"1\r\n \r\n" * 1000)
                await self.chunk(b'{"metadata":{"resourceVersion":"1"}}')
                await self.send(b"0\r\n\r\n")
                return
            case Mode.WORDS if asked.plural == "nodes":
                items = [wordy_node(), node("plain")]
            case Mode.LIES:
                items = lying_nodes() if asked.plural == "nodes" else lying_objects()
            case Mode.BACKWARDS:
                meta["resourceVersion"] = str(10_000_000 - next(_numbers))
            case Mode.FLOOD | Mode.CHURN if pods:
                items = [pod(n) for n in range(200)]
            case _ if asked.plural == "nodes":
                items = [node("plain")]
        await self.json({"kind": "List", "metadata": meta, "items": items})

    async def watch(self, asked: Asked) -> None:
        await self.chunked()
        match asked.mode:
            case Mode.LONG_LINE:
                await self.chunk(b'{"type":"ADDED","object":{"metadata":{"name":"')
                for _ in range(64):
                    await self.chunk(b"x" * MIB)
                await self.chunk(b'"}}}\n')
            case Mode.DEEP:
                deep = (
                    b'{"metadata":{"name":"a","resourceVersion":"%d"},"spec":'
                    + b"[" * 900
                    + b"]" * 900
                    + b"}"
                )
                for version in itertools.count(2000):
                    await self.chunk(b'{"type":"ADDED","object":' + deep % version + b"}\n")
            case Mode.FLOOD | Mode.CHURN | Mode.BOOKMARKS | Mode.NEWLINES | Mode.LIES:
                for piece in flood(asked.mode, asked.kind):
                    await self.chunk(piece)
            case Mode.ERRORS:
                await self.chunk(event("ERROR", STATUS | {"code": 500, "message": ANSI}))
                await self.send(b"0\r\n\r\n")
            case Mode.BACKWARDS:
                for version in range(999, 0, -1):
                    await self.chunk(
                        event("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})
                    )
            case _:
                while True:
                    await asyncio.sleep(10)
                    await self.chunk(event("BOOKMARK", {"metadata": {"resourceVersion": "1001"}}))

    async def json(self, said: Any, status: str = "200 OK", *headers: str) -> None:
        await self.body(json.dumps(said).encode(), status, *headers)

    async def body(self, data: bytes, status: str = "200 OK", *headers: str) -> None:
        await self.head(*headers, f"Content-Length: {len(data)}", status=status)
        await self.send(data)

    async def chunked(self) -> None:
        await self.head("Transfer-Encoding: chunked")

    async def chunk(self, data: bytes) -> None:
        await self.send(b"%x\r\n%b\r\n" % (len(data), data))

    async def head(self, *headers: str, status: str = "200 OK") -> None:
        lines = [f"HTTP/1.1 {status}", "Content-Type: application/json", *headers]
        await self.send("\r\n".join([*lines, "", ""]).encode())

    async def send(self, data: bytes) -> None:
        if self.writer.transport.is_closing():
            raise ConnectionError
        self.writer.write(data)
        await self.writer.drain()
        await asyncio.sleep(0)  # a drain that need not wait would let nobody else run


STATUS = {"kind": "Status", "status": "Failure", "reason": "No" + ANSI, "message": f"no {ANSI}"}


def event(kind: str, obj: Any) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


@cache
def bomb() -> bytes:
    """A quarter of a megabyte that becomes 250."""
    return gzip.compress(b'{"items":[' + b" " * 250 * MIB)


def flood(mode: Mode, kind: str) -> Iterator[bytes]:
    """Events without end, sixty-four in a piece, made once: sending must be what takes the time."""
    if mode is Mode.NEWLINES:
        yield from itertools.repeat(b"\n" * 16 * KIB)
    made = [_batch(mode, kind, turn) for turn in range(16)]
    for turn in itertools.count():
        yield made[turn % 16]


def _batch(mode: Mode, kind: str, turn: int) -> bytes:
    lines = []
    for n in range(64):
        number = turn * 64 + n
        version = {"resourceVersion": str(100_000 + number)}
        obj = (
            pod(number, **version)
            if kind == "Pod"
            else {"metadata": {"name": f"o{number}", **version}}
        )
        if mode is Mode.BOOKMARKS:
            lines.append(event("BOOKMARK", {"metadata": version}))
        elif mode is Mode.CHURN:
            lines += [event("ADDED", obj), event("DELETED", obj)]
        elif mode is Mode.LIES:
            lines += [event("MODIFIED", lie) for lie in lying_objects()[2:]]
        else:
            lines.append(event("MODIFIED", obj))
    return b"".join(lines)


async def serve(port: int, keys: Path) -> None:
    """Until cancelled; prints the port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keys / "cert", keys / "key")
    restarting: set[asyncio.StreamWriter] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Misbehaviour(reader, writer)
        read = connection.read

        async def noting() -> Asked:
            asked = await read()
            if asked.mode is Mode.RESTART:
                restarting.add(writer)
            return asked

        connection.read = noting  # type: ignore[method-assign]
        await connection.serve()

    server = await asyncio.start_server(connected, "127.0.0.1", port, ssl=context)
    print(server.sockets[0].getsockname()[1], flush=True)
    while True:
        await asyncio.sleep(1)
        for writer in restarting:
            writer.transport.abort()
        restarting.clear()


@dataclass
class Hostile:
    """The running server, and how a member of it is registered."""

    port: int
    authority: Authority
    process: subprocess.Popen[str]

    def secret_data(self, mode: Mode) -> dict[str, str | bytes]:
        """The data of a registration Secret."""
        return {
            "endpoint": f"https://127.0.0.1:{self.port}",
            "clusterCA": self.authority.certificate,
            "token": mode.value,
        }


@contextmanager
def hostile() -> Iterator[Hostile]:
    """Started in a process of its own, ended with the block."""
    authority = Authority("hostile")
    pair = authority.server()
    with tempfile.TemporaryDirectory() as folder:
        keys = Path(folder)
        (keys / "cert").write_bytes(pair.certificate)
        (keys / "key").write_bytes(pair.key)
        command = [sys.executable, "-m", "tests.propagator.members.hostile", "--keys", folder]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        try:
            assert process.stdout is not None
            # A real one has a machine of its own: what it costs there is not to count here.
            os.setpriority(os.PRIO_PROCESS, process.pid, os.getpriority(os.PRIO_PROCESS, 0) + 10)
            yield Hostile(int(process.stdout.readline()), authority, process)
        finally:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--keys", type=Path, required=True)
    given = parser.parse_args()
    with suppress(KeyboardInterrupt):
        asyncio.run(serve(given.port, given.keys))
