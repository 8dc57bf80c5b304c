"""A collector of traces, as a real one answers OTLP over HTTP, and what it was sent."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

SECOND = 1_000_000_000


class Received:
    """A span: `trace`, `id` and `parent` in hex, `began` and `ended` in seconds."""

    def __init__(self, service: str, span: Any) -> None:
        self.service = service
        self.name = span.name
        self.trace, self.id = span.trace_id.hex(), span.span_id.hex()
        self.parent = span.parent_span_id.hex()
        self.began, self.ended = (
            span.start_time_unix_nano / SECOND,
            span.end_time_unix_nano / SECOND,
        )
        self.error = span.status.message
        self.attributes = {each.key: _value(each.value) for each in span.attributes}

    @property
    def seconds(self) -> float:
        return self.ended - self.began


def _value(value: Any) -> Any:
    return getattr(value, value.WhichOneof("value"))


class Collector:
    """`status` is what it answers; `endpoint` is its base URL."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.status = 200
        self.requests = 0
        self.spans: list[Received] = []

    def take(self, body: bytes) -> None:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            about = {each.key: _value(each.value) for each in resource.resource.attributes}
            for scope in resource.scope_spans:
                self.spans += [Received(about["service.name"], span) for span in scope.spans]

    def named(self, name: str) -> list[Received]:
        return [each for each in self.spans if each.name == name]

    def within(self, span: Received) -> list[Received]:
        """The spans right below it, in their order."""
        below = [e for e in self.spans if (e.trace, e.parent) == (span.trace, span.id)]
        return sorted(below, key=lambda each: each.began)


@contextmanager
def collector() -> Iterator[Collector]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = made.status if self.path == "/v1/traces" else 404
            if status == 200:
                made.take(body)
            made.requests += 1  # last: who waits for it sets the next status
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made = Collector(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield made
        finally:
            server.shutdown()
            thread.join()
