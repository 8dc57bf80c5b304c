"""A decision without traces, beside one that is recorded, and one that is kept.

    uv run python -m benchmarks.traces

The pass alone, on 10 and 1,000 clusters, in turns so that all kinds meet the same machine; times
are medians in microseconds, of the event loop alone. `off` is what everybody pays: each plugin call
asks whether somebody records it. The ratio is that of the line to `off`. The collector is away, and
what waits is bounded.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import count

from benchmarks.fleets import clusters, info
from controller.cache.placements import PlacementIndex
from controller.config import default_profile
from controller.scheduling.cycle import decide
from controller.snapshot.builder import SnapshotBuilder
from machinery import otlp, tracing
from machinery.clock import stopwatch
from machinery.tracing import TraceIds, TraceSettings, TraceSpan

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SIZES = (10, 1000)
ROUNDS = 2000
AWAY = "http://127.0.0.1:1"
CALLS = 1_000_000


def recorded(made: tracing.Tracer, once: Callable[[], object], numbers: count[int]) -> TraceSpan:
    whole = TraceSpan("place", stopwatch())
    with tracing.recording(whole), tracing.span("decide"):
        once()
    made.finish(TraceIds.of("uid", str(next(numbers))), whole)
    return whole


def tracer(stack: ExitStack, ratio: float) -> tracing.Tracer:
    settings = TraceSettings(endpoint=AWAY, ratio=ratio)
    stack.enter_context(otlp.exporting(settings, service="benchmark"))
    made = tracing.tracer()
    assert made is not None
    return made


def measure(size: int, none: tracing.Tracer, all_: tracing.Tracer) -> None:
    builder, numbers = SnapshotBuilder(), count()
    for member in clusters(size):
        builder.upsert(member)
    snapshot, index, profile = builder.snapshot(), PlacementIndex(), default_profile()
    asked = info()

    def once() -> object:
        return decide(snapshot, asked, index, profile, NOW)

    kinds: dict[str, Callable[[], object]] = {
        "off": once,
        "recorded, not kept": lambda: recorded(none, once, numbers),
        "recorded and kept": lambda: recorded(all_, once, numbers),
    }
    taken: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(ROUNDS):
        for kind, call in kinds.items():
            started = time.perf_counter()
            call()
            taken[kind].append((time.perf_counter() - started) * 1e6)
    (decide_span,) = recorded(none, once, numbers).children
    off = sorted(taken["off"])[ROUNDS // 2]
    for kind, each in taken.items():
        each.sort()
        p50, p99 = each[ROUNDS // 2], each[ROUNDS * 99 // 100]
        print(
            f"{size:5} clusters  {kind:20}  p50 {p50:7.1f} µs  p99 {p99:7.1f} µs"
            f"  ratio {p50 / off:5.3f}"
        )
    asks = len(decide_span.calls)
    each_ask = _nobody_records()
    print(
        f"{size:5} clusters  off: {asks} plugin calls ask {each_ask * 1e9:.0f} ns each:"
        f" {asks * each_ask * 1e8 / off:.2f} % of the pass"
    )


def _nobody_records() -> float:
    started = time.perf_counter()
    for _ in range(CALLS):
        if tracing.WITHIN.get() is not None:
            raise SystemExit("somebody records the benchmark")
    return (time.perf_counter() - started) / CALLS


def main() -> None:
    logging.disable()  # of the collector that is away
    with ExitStack() as stack:
        none, all_ = tracer(stack, 0.0), tracer(stack, 1.0)
        for size in SIZES:
            measure(size, none, all_)


if __name__ == "__main__":
    main()
