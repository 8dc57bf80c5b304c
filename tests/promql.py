"""Evaluates as much of PromQL as the alert rules use, over samples that a test gives.

A series has one value a minute, None where no scrape came, and NaN, which is Prometheus' stale
marker, where a scrape failed or came without it. As in Prometheus 3, a value counts for five minutes
unless a marker ends it, ranges are open on their left, and rates know resets and are extrapolated to
the ends of their range. `tests/test_promql.py` holds this to Prometheus' own test data. What is not
known here raises.
"""

from __future__ import annotations

import math
import operator
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import promql_parser as promql

Labels = frozenset[tuple[str, str]]
Series = Mapping[str, Sequence[float | None]]
"""Values by series, as `up{job="a"}`."""
Vector = dict[Labels, float]

NAME = "__name__"
STALE = math.nan
LOOKBACK_MINUTES = 5
COMPARISONS = {">": operator.gt, "<": operator.lt, "==": operator.eq}
ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda a, b: a / b if b else math.nan,
}
AGGREGATES: dict[str, Callable[[list[float]], float]] = {"sum": sum, "max": max, "min": min}


def firing(rule: Mapping[str, Any], series: Series) -> set[Labels]:
    """The label sets for which a rule fires at the last minute."""
    expression = promql.parse(rule["expr"])
    last = max(map(len, series.values())) - 1
    waits = promql.parse_duration(rule["for"]).total_seconds() / 60 if "for" in rule else 0
    looks = range(last - int(waits), last + 1)
    assert looks.start >= 0, "fewer samples than the rule waits for"
    return set.intersection(*(set(evaluated(expression, series, at)) for at in looks))


def evaluated(node: Any, series: Series, at: int) -> Any:
    """A Vector, or a number."""
    match node:
        case promql.NumberLiteral():
            return node.val
        case promql.ParenExpr():
            return evaluated(node.expr, series, at)
        case promql.VectorSelector():
            found = ((labels, latest(values, at)) for labels, values in selected(node, series))
            return {labels: value for labels, value in found if value is not None}
        case promql.AggregateExpr():
            return aggregated(node, evaluated(node.expr, series, at))
        case promql.Call():
            return called(node, series, at)
        case promql.BinaryExpr():
            left, right = (evaluated(each, series, at) for each in (node.lhs, node.rhs))
            return combined(str(node.op), left, right)
    raise NotImplementedError(type(node).__name__)


def latest(values: Sequence[float | None], at: int) -> float | None:
    """What an instant query at a minute sees of a series, or None where it sees nothing."""
    for value in reversed(values[max(at - LOOKBACK_MINUTES + 1, 0) : at + 1]):
        if value is not None:
            return None if math.isnan(value) else value
    return None


def parsed(text: str) -> tuple[str, dict[str, str]]:
    name, _, labels = text.partition("{")
    return name, dict(re.findall(r'(\w+)="([^"]*)"', labels))


def selected(node: Any, series: Series) -> Iterator[tuple[Labels, Sequence[float | None]]]:
    for text, values in series.items():
        name, labels = parsed(text)
        if name == node.name and all(matches(each, labels) for each in node.matchers.matchers):
            yield frozenset({NAME: name, **labels}.items()), values


def matches(matcher: Any, labels: Mapping[str, str]) -> bool:
    value = labels.get(matcher.name, "")
    match matcher.op:
        case promql.MatchOp.Equal:
            return value == matcher.value
        case promql.MatchOp.NotEqual:
            return value != matcher.value
        case promql.MatchOp.Re:
            return re.fullmatch(matcher.value, value) is not None
    return re.fullmatch(matcher.value, value) is None


def without(labels: Labels, *names: str) -> Labels:
    return frozenset((name, value) for name, value in labels if name not in names)


def aggregated(node: Any, vector: Vector) -> Vector:
    kept = set(node.modifier.labels) if node.modifier is not None else set()
    groups = defaultdict[Labels, list[float]](list)
    for labels, value in vector.items():
        groups[frozenset(each for each in labels if each[0] in kept)].append(value)
    return {labels: AGGREGATES[str(node.op)](values) for labels, values in groups.items()}


def called(node: Any, series: Series, at: int) -> Any:
    name = node.func.name
    if name == "time":
        return at * 60.0
    if name in ("rate", "increase"):
        return increased(node.args[0], series, at, rate=name == "rate")
    *parameters, vector = (evaluated(each, series, at) for each in node.args)
    if name == "abs":
        return {without(labels, NAME): abs(value) for labels, value in vector.items()}
    if name == "absent":
        return {} if vector else {frozenset(): 1.0}
    if name == "histogram_quantile":
        return quantiles(parameters[0], vector)
    raise NotImplementedError(name)


def increased(node: Any, series: Series, at: int, *, rate: bool) -> Vector:
    """Seconds of a range are counted from its beginning."""
    span = int(node.range.total_seconds() // 60)
    found: Vector = {}
    for labels, values in selected(node.vector_selector, series):
        first = max(at - span + 1, 0)
        window = [
            (60.0 * (first + place - at + span), value)
            for place, value in enumerate(values[first : at + 1])
            if value is not None and not math.isnan(value)
        ]
        if len(window) > 1:
            grown = extrapolated(window, span * 60.0)
            found[without(labels, NAME)] = grown / (span * 60) if rate else grown
    return found


def extrapolated(window: Sequence[tuple[float, float]], seconds: float) -> float:
    """By how much a counter grew in a range of so many seconds, by its samples there."""
    (first, start), (last, end) = window[0], window[-1]
    resets = sum(old for (_, old), (_, new) in pairwise(window) if new < old)
    grown = end - start + resets
    sampled = last - first
    apart = sampled / (len(window) - 1)
    before, after = (
        distance if distance < 1.1 * apart else apart / 2 for distance in (first, seconds - last)
    )
    if grown > 0:  # no counter was below zero
        before = min(before, sampled * start / grown)
    return grown * (sampled + before + after) / sampled


def quantiles(quantile: float, vector: Vector) -> Vector:
    histograms = defaultdict[Labels, dict[float, float]](dict)
    for labels, value in vector.items():
        bound = float(dict(labels)["le"])
        histograms[without(labels, NAME, "le")][bound] = value
    return {labels: _quantile(quantile, buckets) for labels, buckets in histograms.items()}


def _quantile(quantile: float, buckets: Mapping[float, float]) -> float:
    rank, below, under = quantile * buckets[math.inf], 0.0, 0.0
    if not rank:
        return math.nan
    for bound, count in sorted(buckets.items()):
        if count >= rank:
            if math.isinf(bound):
                return below
            return below + (bound - below) * (rank - under) / (count - under)
        below, under = bound, count
    raise AssertionError("the buckets are not cumulative")


def combined(op: str, left: Any, right: Any) -> Any:
    if op == "or":
        taken = {without(labels, NAME) for labels in left}
        return {**left, **{k: v for k, v in right.items() if without(k, NAME) not in taken}}
    if isinstance(left, float) and isinstance(right, float):
        return ARITHMETIC[op](left, right)
    if op in COMPARISONS:
        assert isinstance(right, float), "the rules compare with numbers"
        return {labels: value for labels, value in left.items() if COMPARISONS[op](value, right)}
    if isinstance(right, float):
        return {without(k, NAME): ARITHMETIC[op](v, right) for k, v in left.items()}
    others = {without(labels, NAME): value for labels, value in right.items()}
    pairs = ((without(labels, NAME), value) for labels, value in left.items())
    return {k: ARITHMETIC[op](v, others[k]) for k, v in pairs if k in others}
