"""Sends traces to a collector, by OTLP over HTTP, with the SDK of OpenTelemetry.

The only module that imports the SDK (`stowage[otel]`), and only if traces are enabled.
"""

from __future__ import annotations

import logging
import random
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from machinery import metrics, tracing
from machinery.clock import Clock, SystemClock, stopwatch
from machinery.errors import ConfigurationError
from machinery.release import release
from machinery.tracing import Tracer, TraceSettings, TraceSpan

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter

MOST_WAITING = 4096
"""Spans that wait to be sent."""
BATCH = 64
"""Spans that are encoded at once."""
DELAY_SECONDS = 1.0
"""Seconds between two checks of the queue."""
REST_SECONDS = 10.0
"""Seconds after a request that failed."""
TIMEOUT_SECONDS = 5.0
"""Seconds of one request, with the SDK's retries."""
FAREWELL_SECONDS = 1.0
"""Seconds for which a process that ends waits for its last spans."""
NANOSECONDS = 1_000_000_000

_SDK = logging.getLogger("opentelemetry.exporter.otlp.proto.http.trace_exporter")
SPANS = metrics.counter(
    "stowage_trace_spans",
    "Spans by what became of them: sent, refused by the collector, or too many waited",
    ("outcome",),
    zero=[("sent",), ("failed",), ("dropped",)],
)


@contextmanager
def exporting(settings: TraceSettings, *, service: str) -> Iterator[None]:
    """Send the traces of this process within; nothing if the settings name no collector.

    Raises ConfigurationError for a wrong URL or ratio, and if OpenTelemetry is not installed.
    """
    if not settings.endpoint:
        yield
        return
    if not 0 <= settings.ratio <= 1:  # nor is NaN
        raise ConfigurationError(f"--trace-ratio: {settings.ratio} is not between 0 and 1")
    sender = TraceSender(_exporter(_traces_of(settings.endpoint)), service=service)
    try:
        with tracing.using(Tracer(sender.export, ratio=settings.ratio)):
            yield
    finally:
        sender.close()


def _traces_of(endpoint: str) -> str:
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(
            f"--otlp-endpoint: {endpoint!r} is no URL of a collector, as http://localhost:4318 is"
        )
    return f"{endpoint.rstrip('/')}/v1/traces"


def _exporter(url: str) -> SpanExporter:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - see above
            OTLPSpanExporter,
        )
    except ImportError as e:
        raise ConfigurationError(
            f"--otlp-endpoint needs OpenTelemetry: pip install 'stowage[otel]' ({e})"
        ) from e
    return OTLPSpanExporter(url, timeout=TIMEOUT_SECONDS)


class _Waiting(NamedTuple):
    """A span with its parts, as for `machinery.tracing.Export`."""

    trace: int
    whole: TraceSpan
    own: int | None
    parent: int | None
    epoch: float
    """The Unix time at which the stopwatch was at 0."""


class TraceSender:
    def __init__(self, exporter: SpanExporter, *, service: str, clock: Clock | None = None) -> None:
        self._exporter = exporter
        self._clock = clock or SystemClock()
        self._made = _Made(service)
        self._queue: deque[_Waiting] = deque()
        self._queued = self._taken = 0  # spans; one thread writes each
        self._ends = threading.Event()
        self._quiet = _Quiet()
        _SDK.addFilter(self._quiet)
        self._thread = threading.Thread(target=self._run, name="traces", daemon=True)
        self._thread.start()

    def export(self, trace: int, whole: TraceSpan, own: int | None, parent: int | None) -> None:
        size = whole.size
        if self.waiting + size > MOST_WAITING:
            SPANS.labels("dropped").inc(size)
            return
        self._queued += size
        epoch = self._clock.now().timestamp() - stopwatch()
        self._queue.append(_Waiting(trace, whole, own, parent, epoch))

    @property
    def waiting(self) -> int:
        return self._queued - self._taken

    def close(self) -> None:
        """Send the queue, for `FAREWELL_SECONDS` at most."""
        self._ends.set()
        self._thread.join(FAREWELL_SECONDS)
        self._exporter.shutdown()

    def _run(self) -> None:
        pause = DELAY_SECONDS
        try:
            while not self._ends.wait(pause):
                pause = DELAY_SECONDS if self._send_all() else REST_SECONDS
            self._send_all()
        finally:
            # Not in `close`: the SDK also logs a request that the shutdown interrupted.
            _SDK.removeFilter(self._quiet)

    def _send_all(self) -> bool:
        while self._queue:
            each = self._queue.popleft()
            self._taken += each.whole.size
            spans = list(self._made.of(each))
            for first in range(0, len(spans), BATCH):
                batch = spans[first : first + BATCH]
                if not self._send(batch):
                    SPANS.labels("failed").inc(len(spans) - first)
                    return False
                SPANS.labels("sent").inc(len(batch))
        return True

    def _send(self, spans: Sequence[ReadableSpan]) -> bool:
        try:
            sent = self._exporter.export(spans).name == "SUCCESS"
        except Exception:  # noqa: BLE001 - whatever the SDK raises, the thread continues
            _SDK.exception("%d spans are not sent", len(spans))
            return False
        if sent:
            self._quiet.told = False
        return sent


class _Quiet(logging.Filter):
    told = False

    def filter(self, record: logging.LogRecord) -> bool:
        told, self.told = self.told, True
        return not told


class _Made:
    """Makes spans of OpenTelemetry."""

    def __init__(self, service: str) -> None:
        from opentelemetry import trace  # noqa: PLC0415 - see above
        from opentelemetry.sdk import resources  # noqa: PLC0415 - as above
        from opentelemetry.sdk.trace import ReadableSpan  # noqa: PLC0415 - as above
        from opentelemetry.sdk.util.instrumentation import (  # noqa: PLC0415 - as above
            InstrumentationScope,
        )

        self._api = trace
        self._span = ReadableSpan
        about = {"service.name": service, "service.version": release()}
        self._shared: dict[str, Any] = {
            "resource": resources.Resource.create(about),
            "instrumentation_scope": InstrumentationScope("stowage", release()),
        }
        self._sampled = trace.TraceFlags(trace.TraceFlags.SAMPLED)

    def of(self, each: _Waiting) -> Iterator[ReadableSpan]:
        parent = None if each.parent is None else self._context(each.trace, each.parent)
        own = self._context(each.trace, each.own or _any_id())
        return self._parts(each.whole, own, parent, each.epoch)

    def _parts(
        self, part: TraceSpan, own: Any, parent: Any, epoch: float
    ) -> Iterator[ReadableSpan]:
        code = self._api.StatusCode
        yield self._span(
            part.name,
            context=own,
            parent=parent,
            attributes=part.attributes,
            start_time=int((epoch + part.began) * NANOSECONDS),
            end_time=int((epoch + part.ended) * NANOSECONDS),
            status=self._api.Status(code.ERROR if part.error else code.UNSET, part.error or None),
            **self._shared,
        )
        for each in part.parts():
            yield from self._parts(each, self._context(own.trace_id, _any_id()), own, epoch)

    def _context(self, trace: int, own: int) -> Any:
        return self._api.SpanContext(trace, own, is_remote=False, trace_flags=self._sampled)


def _any_id() -> int:
    return random.getrandbits(64) or 1
