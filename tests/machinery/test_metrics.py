"""What Prometheus is told, as the text that it reads."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.parser import text_string_to_metric_families

from machinery import metrics
from machinery.api.client import ApiClient
from machinery.config.kubeconfig import Connection
from machinery.errors import Unreachable
from machinery.runtime.workqueue import WorkQueue
from tests.fakeclock import FakeClock

Keep = Callable[[MetricWrapperBase], MetricWrapperBase]


@pytest.fixture
def keep() -> Iterator[Keep]:
    """Keep a metric until the end of the test: names are for the whole process."""
    kept: list[MetricWrapperBase] = []

    def add(metric: MetricWrapperBase) -> MetricWrapperBase:
        kept.append(metric)
        return metric

    yield add
    for metric in kept:
        metrics.REGISTRY.unregister(metric)


def exported(name: str) -> list[str]:
    """The lines of the exposition about that name, but for the moments of creation."""
    return [
        line
        for line in metrics.exposition().decode().splitlines()
        if name in line and "_created" not in line
    ]


# --- there from the start


def test_a_counter_is_at_zero_before_its_first_event(keep: Keep) -> None:
    keep(metrics.counter("try_counts", "Tries"))
    assert exported("try_counts") == [
        "# HELP try_counts_total Tries",
        "# TYPE try_counts_total counter",
        "try_counts_total 0.0",
    ]


def test_the_labels_that_are_known_are_at_zero_and_others_come_when_they_count(keep: Keep) -> None:
    counter = metrics.counter(
        "try_outcomes", "By outcome", ("verb", "outcome"), zero=[("get", "good"), ("get", "bad")]
    )
    keep(counter)
    assert exported("try_outcomes")[2:] == [
        'try_outcomes_total{outcome="good",verb="get"} 0.0',
        'try_outcomes_total{outcome="bad",verb="get"} 0.0',
    ]
    counter.labels("put", "good").inc(3)
    assert exported("try_outcomes")[-1] == 'try_outcomes_total{outcome="good",verb="put"} 3.0'


def test_a_gauge_is_at_zero_and_shows_what_it_is_set_to(keep: Keep) -> None:
    alone, labelled = (
        metrics.gauge("try_depth", "Depth"),
        metrics.gauge("try_ready", "Ready", ("ready",), zero=[("true",), ("false",)]),
    )
    keep(alone)
    keep(labelled)
    assert exported("try_depth")[1:] == ["# TYPE try_depth gauge", "try_depth 0.0"]
    assert exported("try_ready")[2:] == [
        'try_ready{ready="true"} 0.0',
        'try_ready{ready="false"} 0.0',
    ]
    alone.set(2.5)
    labelled.labels("true").set_function(lambda: 7)
    assert exported("try_depth")[-1] == "try_depth 2.5"
    assert exported("try_ready")[2] == 'try_ready{ready="true"} 7.0'


def test_a_histogram_is_there_with_all_its_buckets(keep: Keep) -> None:
    keep(metrics.histogram("try_seconds", "Seconds"))
    bounds = [
        "0.005",
        "0.01",
        "0.025",
        "0.05",
        "0.1",
        "0.25",
        "0.5",
        "1.0",
        "2.5",
        "5.0",
        "10.0",
        "+Inf",
    ]
    assert exported("try_seconds") == [
        "# HELP try_seconds Seconds",
        "# TYPE try_seconds histogram",
        *(f'try_seconds_bucket{{le="{bound}"}} 0.0' for bound in bounds),
        "try_seconds_count 0.0",
        "try_seconds_sum 0.0",
    ]


def test_a_bucket_holds_all_that_are_not_above_its_bound(keep: Keep) -> None:
    histogram = metrics.histogram(
        "try_sizes", "Sizes", ("kind",), zero=[("a",), ("b",)], buckets=(1, 10, 100)
    )
    keep(histogram)
    for size in (0.5, 1, 9, 10.5, 1000):
        histogram.labels("a").observe(size)
    assert exported("try_sizes")[2:] == [
        'try_sizes_bucket{kind="a",le="1.0"} 2.0',
        'try_sizes_bucket{kind="a",le="10.0"} 3.0',
        'try_sizes_bucket{kind="a",le="100.0"} 4.0',
        'try_sizes_bucket{kind="a",le="+Inf"} 5.0',
        'try_sizes_count{kind="a"} 5.0',
        'try_sizes_sum{kind="a"} 1021.0',
        'try_sizes_bucket{kind="b",le="1.0"} 0.0',
        'try_sizes_bucket{kind="b",le="10.0"} 0.0',
        'try_sizes_bucket{kind="b",le="100.0"} 0.0',
        'try_sizes_bucket{kind="b",le="+Inf"} 0.0',
        'try_sizes_count{kind="b"} 0.0',
        'try_sizes_sum{kind="b"} 0.0',
    ]


# --- misuse is loud


def test_one_name_is_one_metric(keep: Keep) -> None:
    keep(metrics.counter("try_twice", "Once"))
    with pytest.raises(ValueError, match="try_twice"):
        metrics.gauge("try_twice", "Again")


def test_labels_are_given_in_full(keep: Keep) -> None:
    counter = metrics.counter("try_labels", "Labels", ("one", "two"))
    keep(counter)
    with pytest.raises(ValueError, match="label"):
        counter.labels("only one")


def test_a_label_is_quoted_and_comes_back(keep: Keep) -> None:
    nasty = 'a "quote", a \\ and\na line'
    keep(metrics.counter("try_quotes", "Quotes", ("name",), zero=[(nasty,)]))
    families = text_string_to_metric_families(metrics.exposition().decode())
    (family,) = (each for each in families if each.name == "try_quotes")
    assert [s.labels for s in family.samples if s.name == "try_quotes_total"] == [{"name": nasty}]


# --- what the process exports


def test_the_exposition_is_what_its_content_type_says() -> None:
    assert metrics.CONTENT_TYPE.startswith("text/plain; version=")
    text = metrics.exposition().decode()
    assert text.endswith("\n")
    names = {family.name for family in text_string_to_metric_families(text)}
    assert {"process_resident_memory_bytes", "process_open_fds", "python_info"} <= names


NAMES = """
import importlib, pkgutil
import machinery
from machinery import metrics
for module in pkgutil.walk_packages(machinery.__path__, "machinery."):
    importlib.import_module(module.name)
for family in metrics.REGISTRY.collect():
    print(family.type, family.name, bool(family.documentation))
"""


def test_names_tell_whose_they_are_and_in_which_unit() -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", NAMES],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    families = [line.split() for line in ran.stdout.splitlines()]
    ours = [family for family in families if not family[1].startswith(("process_", "python_"))]
    assert len(ours) > 5
    for kind, name, documented in ours:
        assert name.startswith("stowage_")
        assert documented == "True"
        assert kind in ("counter", "gauge", "histogram")
        assert kind != "histogram" or name.endswith("_seconds")


def test_a_queue_is_seen_from_the_moment_it_is_made() -> None:
    queue: WorkQueue[str] = WorkQueue(name="try-queue", clock=FakeClock())
    seen = exported('queue="try-queue"')
    for line in (
        'stowage_queue_depth{queue="try-queue"} 0.0',
        'stowage_queue_adds_total{queue="try-queue"} 0.0',
        'stowage_queue_retries_total{queue="try-queue"} 0.0',
        'stowage_queue_work_seconds_count{queue="try-queue"} 0.0',
    ):
        assert line in seen
    queue.add("a")
    queue.add("b")
    assert 'stowage_queue_depth{queue="try-queue"} 2.0' in exported("try-queue")
    assert 'stowage_queue_adds_total{queue="try-queue"} 2.0' in exported("try-queue")


async def test_a_client_is_seen_from_its_making_to_the_close_of_the_last_of_its_name() -> None:
    connection = Connection("http://127.0.0.1:1")  # nobody listens there
    first = ApiClient(connection, name="try-client", timeout=0.1)
    second = ApiClient(connection, name="try-client")
    good = 'stowage_api_requests_total{client="try-client",code="200",verb="GET"} 0.0'
    assert good in exported("try-client")
    assert 'stowage_api_request_seconds_count{client="try-client"} 0.0' in exported("try-client")
    with pytest.raises(Unreachable):
        await first.request("DELETE", "/api")
    failed = f'stowage_api_requests_total{{client="try-client",code="0",verb="DELETE"}} {first.requests}.0'
    assert first.requests > 0
    assert failed in exported("try-client")
    await first.close()
    assert failed in exported("try-client")
    await second.close()
    assert exported("try-client") == []
