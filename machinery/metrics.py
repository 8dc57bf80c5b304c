"""Prometheus metrics in our own registry, each at zero from the start.

Hot paths keep the child of `labels()`, whose lookup costs more than counting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import TypeAlias, TypeVar, cast

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

M = TypeVar("M", bound=MetricWrapperBase)

CONTENT_TYPE = CONTENT_TYPE_LATEST
OPENMETRICS_CONTENT_TYPE = openmetrics.CONTENT_TYPE_LATEST
"""The Content-Type for a scraper whose Accept header names OpenMetrics."""

LATENCY_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Seconds."""


def _registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)  # memory, descriptors, processor time
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


REGISTRY = _registry()


def _present(metric: M, zero: Iterable[Sequence[str]]) -> M:
    for values in zero:
        metric.labels(*values)
    return metric


def counter(
    name: str, doc: str, labels: Sequence[str] = (), *, zero: Iterable[Sequence[str]] = ()
) -> Counter:
    """`zero` lists the label values that exist from the start."""
    return _present(Counter(name, doc, labels, registry=REGISTRY), zero)


def gauge(
    name: str, doc: str, labels: Sequence[str] = (), *, zero: Iterable[Sequence[str]] = ()
) -> Gauge:
    """Make a gauge; `zero` as in `counter`."""
    return _present(Gauge(name, doc, labels, registry=REGISTRY), zero)


def histogram(
    name: str,
    doc: str,
    labels: Sequence[str] = (),
    *,
    zero: Iterable[Sequence[str]] = (),
    buckets: Sequence[float] = LATENCY_BUCKETS,
) -> Histogram:
    """Make a histogram, of seconds by default; `zero` as in `counter`, `buckets`: upper bounds."""
    return _present(Histogram(name, doc, labels, registry=REGISTRY, buckets=buckets), zero)


Samples: TypeAlias = Mapping[tuple[str, ...], float]
"""Values by the label values of their series."""


class GaugeFunc(Collector):
    """A gauge with labels; a function returns its values at each scrape."""

    def __init__(
        self, name: str, doc: str, labels: Sequence[str], *, zero: Iterable[Sequence[str]] = ()
    ) -> None:
        self._name, self._doc, self.labels = name, doc, tuple(labels)
        self._zero: Samples = {tuple(values): 0.0 for values in zero}
        self._read: Callable[[], Samples] | None = None
        REGISTRY.register(self)

    def set_function(self, read: Callable[[], Samples] | None) -> None:
        """Read the values by that function; None: only the series of `zero`, at zero."""
        self._read = read

    def describe(self) -> Iterator[Metric]:
        yield self._family()

    def collect(self) -> Iterator[Metric]:
        family = self._family()
        for values, value in {**self._zero, **(self._read() if self._read else {})}.items():
            family.add_metric(values, value)
        yield family

    def _family(self) -> GaugeMetricFamily:
        return GaugeMetricFamily(self._name, self._doc, labels=self.labels)


class Shared:
    """Metrics that several parts may request by name: the first request creates one.

    Every method raises ValueError if the name is taken by another metric.
    """

    def __init__(self) -> None:
        self._made: dict[str, tuple[object, MetricWrapperBase]] = {}

    def counter(
        self, name: str, doc: str, labels: Sequence[str] = (), *, zero: Iterable[Sequence[str]] = ()
    ) -> Counter:
        return self._of(name, ("counter", *labels), lambda: counter(name, doc, labels), zero)

    def gauge(
        self, name: str, doc: str, labels: Sequence[str] = (), *, zero: Iterable[Sequence[str]] = ()
    ) -> Gauge:
        return self._of(name, ("gauge", *labels), lambda: gauge(name, doc, labels), zero)

    def histogram(
        self, name: str, doc: str, labels: Sequence[str] = (), *, zero: Iterable[Sequence[str]] = ()
    ) -> Histogram:
        return self._of(name, ("histogram", *labels), lambda: histogram(name, doc, labels), zero)

    def _of(
        self, name: str, form: object, make: Callable[[], M], zero: Iterable[Sequence[str]]
    ) -> M:
        if name not in self._made:
            self._made[name] = (form, make())
        known, metric = self._made[name]
        if known != form:
            raise ValueError(f"there is a metric {name} already, of another form")
        return _present(cast("M", metric), zero)


SHARED = Shared()


def exposition() -> bytes:
    """Return all metrics in Prometheus' text format, computed at once: see `Scrape`."""
    return generate_latest(REGISTRY)


class Scrape:
    """The text of all metrics, computed outside of the event loop."""

    def __init__(self) -> None:
        self._under_way: dict[str, asyncio.Task[bytes]] = {}

    async def text(self, accept: str = "") -> tuple[bytes, str]:
        content_type = _content_type(accept)
        task = self._under_way.get(content_type)
        if task is None or task.done():
            task = asyncio.create_task(_text(content_type))
            self._under_way[content_type] = task
        return await asyncio.shield(task), content_type  # one caller may hang up while others wait


def _content_type(accept: str) -> str:
    # prometheus_client's own choice fails for a version that is no number, and repeats any other.
    types = (each.partition(";")[0].strip().lower() for each in accept.split(","))
    return OPENMETRICS_CONTENT_TYPE if "application/openmetrics-text" in types else CONTENT_TYPE


async def _text(content_type: str) -> bytes:
    collected: list[Metric] = []
    for family in REGISTRY.collect():  # gauges read queues and sessions of the loop
        collected.append(family)
        await asyncio.sleep(0)
    generate: Callable[..., bytes] = generate_latest
    if content_type == OPENMETRICS_CONTENT_TYPE:
        generate = openmetrics.generate_latest
    return await asyncio.to_thread(generate, SimpleNamespace(collect=lambda: collected))
