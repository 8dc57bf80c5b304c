"""What is measured, what is kept of it, and what a collector gets of that."""

from __future__ import annotations

import asyncio
import json
import math
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

import controller.app
import propagator.app
from machinery import metrics, otlp, tracing
from machinery.clock import stopwatch
from machinery.config.kubeconfig import Connection
from machinery.errors import ConfigurationError
from machinery.tracing import MOST_BEYOND, TraceIds, Tracer, TraceSettings, TraceSpan
from propagator.settings import PropagatorSettings
from tests.collector import collector
from tests.patience import hold_on

HUB = "https://127.0.0.1:1"


class Kept:
    """An exporter that keeps all."""

    def __init__(self) -> None:
        self.spans: list[tuple[int, TraceSpan, int | None, int | None]] = []

    def export(self, trace: int, whole: TraceSpan, own: Any, parent: Any) -> None:
        self.spans.append((trace, whole, own, parent))


def measured(seconds: float = 0.0, *, error: str = "", calls: int = 0) -> TraceSpan:
    now = stopwatch()
    whole = TraceSpan("place", now - seconds, now, {"stowage.workload": "shop/web"}, error)
    whole.calls = [tracing.Call(f"Point{n // 5}", f"plugin{n}", now, now) for n in range(calls)]
    return whole


async def test_parts_are_measured_within_each_other_also_in_tasks() -> None:
    async def task(name: str) -> None:
        with tracing.span(name):
            await asyncio.sleep(0)

    with tracing.span("nobody records it"):
        assert not tracing.recorded()
    whole = TraceSpan("whole", stopwatch())
    with tracing.recording(whole):
        with tracing.span("first", {"a": 1}):
            tracing.called("Filter", "one", stopwatch())
            tracing.called("Filter", "two", stopwatch())
            tracing.called("Score", "one", stopwatch())
        await asyncio.gather(task("second"), task("third"))
        with pytest.raises(ValueError, match="no"), tracing.span("fourth"):
            raise ValueError("no")
    first, *others = whole.parts()
    assert [each.name for each in others] == ["second", "third", "fourth"]
    assert others[-1].error == "ValueError: no"
    assert first.attributes == {"a": 1}
    points = first.parts()
    assert [(p.name, [c.name for c in p.parts()]) for p in points] == [
        ("Filter", ["one", "two"]),
        ("Score", ["one"]),
    ]
    assert whole.began <= first.began <= first.ended <= others[0].began <= whole.ended
    assert not whole.error
    assert not tracing.recorded()


async def test_a_task_that_outlives_a_recording_adds_nothing_to_it() -> None:
    ended = asyncio.Event()

    async def watch() -> None:
        await ended.wait()
        assert not tracing.recorded()
        tracing.called("Filter", "one", stopwatch())
        with tracing.span("late"):
            pass

    whole = TraceSpan("whole", stopwatch())
    with tracing.recording(whole):
        task = asyncio.create_task(watch())
    ended.set()
    await task
    assert not whole.parts()


def test_what_one_span_holds_is_bounded() -> None:
    whole = TraceSpan("whole", stopwatch())
    with tracing.recording(whole):
        for _ in range(tracing.MOST_PARTS + 10):
            tracing.called("Filter", "one", 0.0)
            with tracing.span("part"):
                pass
    assert len(whole.calls) == len(whole.children) == tracing.MOST_PARTS


def test_both_processes_keep_the_same_part_of_all_traces() -> None:
    one, other = (Tracer(Kept().export, ratio=0.1) for _ in range(2))
    ids = [TraceIds.of("uid", str(number)) for number in range(5000)]
    kept = [each for each in ids if one.samples(each)]
    assert kept == [each for each in ids if other.samples(each)]
    assert 400 < len(kept) < 600
    assert len({each.trace for each in ids} | {each.root for each in ids}) == 10_000


@pytest.mark.proves("CT17")
def test_what_is_slow_or_failed_is_kept_whatever_the_ratio() -> None:
    kept = Kept()
    tracer, ids = Tracer(kept.export, ratio=0.0), TraceIds.of("uid", "1")
    tracer.finish(ids, measured(0.9))
    assert not kept.spans
    tracer.finish(ids, slow := measured(1.1))
    tracer.finish(ids, failed := measured(error="PluginError"))
    tracer.join(ids, late := measured(1.2))
    assert kept.spans == [
        (ids.trace, slow, ids.root, None),
        (ids.trace, failed, None, None),
        (ids.trace, late, None, ids.root),
    ]


def test_a_burst_that_is_slow_as_a_whole_is_kept_in_part(monkeypatch) -> None:
    kept, now = Kept(), [100.0]
    monkeypatch.setattr(tracing, "stopwatch", lambda: now[0])
    tracer = Tracer(kept.export, ratio=0.0)
    for number in range(100):
        tracer.finish(TraceIds.of("uid", str(number)), measured(2.0))
    assert len(kept.spans) == MOST_BEYOND
    now[0] += 1.0
    tracer.finish(TraceIds.of("uid", "next"), measured(2.0))
    assert len(kept.spans) == MOST_BEYOND + 1


def test_an_exemplar_names_a_trace_that_is_kept() -> None:
    assert tracing.exemplar("uid", "1") is None
    with tracing.using(Tracer(Kept().export, ratio=1.0)):
        ids = TraceIds.of("uid", "1")
        assert tracing.exemplar("uid", "1") == {"trace_id": f"{ids.trace:032x}"}
    with tracing.using(Tracer(Kept().export, ratio=0.0)):
        assert tracing.exemplar("uid", "1") is None


@pytest.mark.proves("CT17")
def test_a_collector_gets_a_span_with_its_parts_and_their_times(monkeypatch) -> None:
    monkeypatch.setattr(otlp, "DELAY_SECONDS", 0.01)
    ids, about = TraceIds.of("uid", "1"), time.time()
    with collector() as at:
        settings = TraceSettings(endpoint=at.endpoint + "/", ratio=1.0)
        with otlp.exporting(settings, service="stowage-controller"):
            made = tracing.tracer()
            assert made is not None
            made.finish(ids, measured(0.5, calls=7))
            made.join(ids, measured(0.25, error="Unreachable: no route"))
        root, joined = at.named("place")
    assert (root.trace, root.id, root.parent) == (f"{ids.trace:032x}", f"{ids.root:016x}", "")
    assert (joined.trace, joined.parent, joined.error) == (
        root.trace,
        root.id,
        "Unreachable: no route",
    )
    assert root.service == "stowage-controller"
    assert root.attributes == {"stowage.workload": "shop/web"}
    assert root.seconds == pytest.approx(0.5, abs=0.001)
    assert abs(root.ended - about) < 60
    points = [each for each in at.within(root) if each is not joined]
    assert [each.name for each in points] == ["Point0", "Point1"]
    assert [each.name for each in at.within(points[0])] == [f"plugin{n}" for n in range(5)]
    assert tracing.tracer() is None


def ended() -> None:
    """Wait until what sent traces has ended, and with it what it logs."""
    for each in threading.enumerate():
        if each.name == "traces":
            each.join(30)
            assert not each.is_alive()


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name.startswith("opentelemetry")]


def count(outcome: str) -> float:
    value = metrics.REGISTRY.get_sample_value("stowage_trace_spans_total", {"outcome": outcome})
    assert value is not None
    return value


@pytest.mark.proves("CT17")
def test_a_collector_that_is_away_costs_no_time_and_no_memory(monkeypatch, caplog) -> None:
    """What finishes a trace sends nothing itself, and what waits is bounded."""
    monkeypatch.setattr(otlp, "DELAY_SECONDS", 0.01)
    monkeypatch.setattr(otlp, "FAREWELL_SECONDS", 0.0)
    settings = TraceSettings(endpoint="http://127.0.0.1:1", ratio=1.0)
    before, senders, send = count("dropped"), set[str](), otlp.TraceSender._send

    def noted(sender: otlp.TraceSender, spans: Any) -> bool:
        senders.add(threading.current_thread().name)
        return send(sender, spans)

    monkeypatch.setattr(otlp.TraceSender, "_send", noted)
    whole = measured(calls=30)
    finished = 4 * otlp.MOST_WAITING // whole.size
    with otlp.exporting(settings, service="stowage-controller"):
        made = tracing.tracer()
        assert made is not None
        for number in range(finished):
            made.finish(TraceIds.of("uid", str(number)), whole)
        hold_on(lambda: senders)
    ended()
    # Also of the request that the end cut off nothing more is said.
    assert len(said(caplog)) == 1, said(caplog)
    assert senders == {"traces"}
    # One trace at most was taken from those that waited, for the request that failed.
    assert count("dropped") - before >= (finished - 1) * whole.size - otlp.MOST_WAITING


def test_it_says_once_that_a_collector_refuses_and_again_after_it_took_some(
    monkeypatch, caplog
) -> None:
    monkeypatch.setattr(otlp, "DELAY_SECONDS", 0.01)
    monkeypatch.setattr(otlp, "REST_SECONDS", 0.01)
    with (
        collector() as at,
        otlp.exporting(TraceSettings(endpoint=at.endpoint, ratio=1.0), service="any"),
    ):
        made = tracing.tracer()
        assert made is not None
        for at.status in (400, 400, 400, 200, 200, 400):
            before = at.requests
            made.finish(TraceIds.of("uid", "1"), measured())
            hold_on(lambda before=before: at.requests > before, every=0.01)
    assert len(said(caplog)) == 2, said(caplog)


@pytest.mark.parametrize(
    ("settings", "option"),
    [
        *(
            (TraceSettings(endpoint=e), "--otlp-endpoint")
            for e in ("host:4318", "ftp://h", "http://")
        ),
        *((TraceSettings(endpoint=HUB, ratio=r), "--trace-ratio") for r in (math.nan, -0.1, 2.0)),
    ],
)
def test_what_cannot_be_meant_is_refused_at_the_start(settings, option) -> None:
    with (
        pytest.raises(ConfigurationError, match=option),
        otlp.exporting(settings, service="any"),
    ):
        pass


@pytest.mark.proves("CT18")
@pytest.mark.parametrize(
    "modules",
    [
        "machinery.tracing",
        pytest.param(
            "controller.app, propagator.app, stowage.commands.processes", marks=pytest.mark.long
        ),
    ],
    ids=["alone", "in the processes"],
)
def test_without_an_endpoint_no_module_of_opentelemetry_is_imported(modules: str) -> None:
    code = (
        f"import sys, {modules}\n"
        "from machinery import otlp\n"
        "from machinery.tracing import TraceSettings\n"
        "def loaded(): return sorted(m for m in sys.modules if m.startswith('opentelemetry'))\n"
        "with otlp.exporting(TraceSettings(), service='any'):\n"
        "    print(loaded())\n"
        "with otlp.exporting(TraceSettings(endpoint='http://localhost:1'), service='any'):\n"
        "    print(len(loaded()) > 10)\n"
    )
    command = [sys.executable, "-c", code]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=120)
    assert said.stdout.split() == ["[]", "True"]


@pytest.mark.proves("CT18")
@pytest.mark.parametrize("process", ["controller", "propagator"])
async def test_without_the_extra_a_process_says_what_to_install(
    process, monkeypatch, tmp_path
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    cluster = {"name": "hub", "cluster": {"server": HUB}}
    context = {"name": "hub", "context": {"cluster": "hub", "user": "any"}}
    user = {"name": "any", "user": {"token": "any"}}
    lists = {"clusters": [cluster], "contexts": [context], "users": [user]}
    kubeconfig.write_text(json.dumps({**lists, "current-context": "hub"}))
    for name in [each for each in sys.modules if each.startswith("opentelemetry")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)  # it cannot be imported
    traces = TraceSettings(endpoint="http://localhost:4318")
    running = (
        controller.app.run(
            controller.app.ControllerSettings(connection=Connection(server=HUB), traces=traces)
        )
        if process == "controller"
        else propagator.app.run(PropagatorSettings(kubeconfig=str(kubeconfig), traces=traces))
    )
    with pytest.raises(ConfigurationError, match=r"pip install 'stowage\[otel\]'"):
        await running
