"""A hub without TLS that answers as a test says, and the kubeconfig that leads to it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

Answer = tuple[int, dict[str, Any]]


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
