"""A hub without TLS that answers as a test says, and the kubeconfig that leads to it."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

T = TypeVar("T", bound="PlainHub")
Answer = tuple[int, dict[str, Any]]
Json = dict[str, Any]
_NAMES = {
    "memberclusters": "clusters",
    "workloadgroups": "groups",
    "workloadquotas": "quotas",
    "workloadspreads": "spreads",
}
"""The attribute of `PlainHub` by plural, where it is not the plural itself."""


class PlainHub:
    """The objects of a hub, which it lists in pages.

    `faults` are the codes of what is refused: an object by its name, the list of a kind by its
    plural, everything by an empty text. A `secret` hub shows its lists to nobody. A `foreign` one is
    the API server of a cluster without our kinds. `file` is the kubeconfig that leads to it.
    """

    file: Path

    def __init__(self) -> None:
        self.leases: list[Json] = []
        self.configmaps: list[Json] = []
        self.clusters: list[Json] = []
        self.workloads: list[Json] = []
        self.spreads: list[Json] = []
        self.reservations: list[Json] = []
        self.groups: list[Json] = []
        self.quotas: list[Json] = []
        self.workloadkinds: list[Json] = []
        self.faults: dict[str, int] = {}
        self.secret = False
        self.foreign = False
        self.asked: list[str] = []

    def answer(self, path: str, query: dict[str, list[str]]) -> Answer:
        self.asked.append(path)
        if self.foreign and path.startswith("/apis/stowage.dev/"):
            return 404, "404 page not found"  # type: ignore[return-value] # no Status: no such path
        namespace, kind, name = _parts(path)
        if code := self.faults.get(name or kind) or self.faults.get(""):
            reason = {403: "Forbidden", 404: "NotFound", 429: "TooManyRequests"}
            told = {"reason": reason.get(code, "InternalError"), "message": f"no {name or kind}"}
            return code, told
        items = getattr(self, _NAMES.get(kind, kind), [])
        if name:
            found = next((each for each in items if each["metadata"]["name"] == name), None)
            return (200, found) if found else (404, {"reason": "NotFound", "message": "none"})
        if self.secret:
            return 403, {"reason": "Forbidden", "message": "may not list"}
        if namespace and kind != "leases":
            items = [e for e in items if e["metadata"].get("namespace", namespace) == namespace]
        start, size = int(query.get("continue", ["0"])[0]), int(query.get("limit", ["500"])[0])
        onward = {"continue": str(start + size)} if start + size < len(items) else {}
        return 200, {"items": items[start : start + size], "metadata": onward}


def _parts(path: str) -> tuple[str, str, str]:
    """Namespace, plural and name of a path; empty without one."""
    found = re.fullmatch(
        r"(?:/api/v\w+|/apis/.+/v\w+)?(?:/namespaces/([^/]+))?/([^/]+)(?:/(.+))?", path
    )
    assert found is not None, path
    return found[1] or "", found[2], found[3] or ""


def hub_of(made: Callable[[], T]) -> Callable[[Path], Iterator[T]]:
    """The fixture of such a hub."""

    @pytest.fixture
    def hub(tmp_path: Path) -> Iterator[T]:
        there = made()
        with serving(there.answer, tmp_path) as there.file:
            yield there

    return hub


@contextmanager
def serving(
    answer: Callable[[str, dict[str, list[str]]], Answer], folder: Path, **headers: str
) -> Iterator[Path]:
    """`answer(path, query)` gives code and body; what fails has these headers beside it."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one packet for head and body, or each answer waits for an acknowledgement

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            code, body = answer(url.path, parse_qs(url.query))
            data = json.dumps(body).encode()
            self.send_response(code)
            for name, value in headers.items() if code >= 400 else ():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_PATCH(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def do_DELETE(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", "0")))
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield kubeconfig(folder, f"http://127.0.0.1:{server.server_port}")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def kubeconfig(folder: Path, server: str) -> Path:
    """A file that names that server, and no credential."""
    file = folder / "hub.kubeconfig"
    document = {
        "current-context": "hub",
        "clusters": [{"name": "hub", "cluster": {"server": server}}],
        "users": [{"name": "hub", "user": {}}],
        "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "hub"}}],
    }
    file.write_text(yaml.safe_dump(document))
    return file
