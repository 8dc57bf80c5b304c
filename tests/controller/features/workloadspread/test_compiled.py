"""A WorkloadSpread as it is read: its meaning, its faults, and the oldest of several."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.features.workloadspread.compiled import (
    CompiledSpread,
    Spreads,
    WorkloadSpread,
    compile_spread,
)
from controller.planner.problem import UNBOUNDED

TARGET = {"apiVersion": "stowage.dev/v1alpha1", "kind": "Workload", "name": "demo"}
GPU = {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}


def spread(
    *subsets: dict[str, Any], meta: Any = None, status: Any = None, **spec: Any
) -> CompiledSpread:
    body = {
        "metadata": {
            "name": "ws",
            "namespace": "shop",
            "uid": "u",
            "generation": 3,
            **(meta or {}),
        },
        "spec": {"targetRef": TARGET, "subsets": list(subsets)}
        | {name: value for name, value in spec.items() if value is not None},
        "status": status or {},
    }
    return compile_spread(msgspec.convert(body, WorkloadSpread))


def capped(*caps: Any, **spec: Any) -> CompiledSpread:
    named = [
        {"name": f"s{i}"} | ({} if c is None else {"maxReplicas": c}) for i, c in enumerate(caps)
    ]
    return spread(*named, **spec)


def adaptive(**fields: Any) -> dict[str, Any]:
    return {"type": "Adaptive", "adaptive": fields}


@pytest.mark.proves("W6", "W7")
def test_a_number_is_a_cap_and_none_is_no_limit():
    found = capped(100, None)
    assert not found.fault
    assert found.caps(130).tolist() == [100, UNBOUNDED]
    assert found.target == ("shop", "demo")


@pytest.mark.proves("W8", "W9")
@pytest.mark.parametrize(
    ("total", "caps"), [(10, [2, 2, 6]), (5, [1, 1, 3]), (4, [1, 1, 3]), (0, [0, 0, 0])]
)
def test_percentages_are_rounded_up(total, caps):
    assert capped("20%", "20%", "60%").caps(total).tolist() == caps


@pytest.mark.proves("W8", "W30", "W31")
@pytest.mark.parametrize(
    ("caps", "strategy", "says"),
    [
        (("40%", "70%"), None, "percents of maxReplicas must add up to 100%"),
        (("40%", "70%", None), None, "must add up to 100%, or to less"),
        ((3, "20%"), None, "maxReplicas must be of one type"),
        (("50.2%", None), None, "subsets[0].maxReplicas: must be a number of units"),
        (("101%", None), None, "subsets[0].maxReplicas: must be a number of units"),
        ((-1, None), None, "or whole percents"),
        ((True, None), None, "maxReplicas"),
        ((2**40, None), None, "maxReplicas"),
        (([], None), None, "maxReplicas"),
        ((1, 2), adaptive(), "the last subset must have no maxReplicas"),
        (
            (1, 1, 1, None),
            adaptive(rescheduleCriticalSeconds=99),
            "rescheduleCriticalSeconds: times the number of subsets",
        ),
        (
            (1, None),
            adaptive(rescheduleCriticalSeconds=-1),
            "rescheduleCriticalSeconds: Input should be greater than or equal to 0, not -1",
        ),
        (
            (1, None),
            {"type": "Sometimes"},
            "scheduleStrategy.type: Input should be 'Fixed' or 'Adaptive', not 'Sometimes'",
        ),
        ((), None, "spec.subsets: List should have at least 1 item"),
    ],
)
def test_what_makes_no_sense_is_named(caps, strategy, says):
    found = capped(*caps, scheduleStrategy=strategy)
    assert says in found.fault
    assert found.subsets == ()
    assert found.target == ("shop", "demo"), "whom it would divide is known nevertheless"


@pytest.mark.proves("W31")
def test_the_seconds_may_reach_their_bound():
    found = capped(1, 1, 1, None, scheduleStrategy=adaptive(rescheduleCriticalSeconds=98))
    assert (found.fault, found.critical_seconds, found.simulates) == ("", 98, True)
    alone = capped(None, scheduleStrategy=adaptive(rescheduleCriticalSeconds=296))
    assert (alone.fault, alone.critical_seconds) == ("", 296), "nothing is tried before it"
    many = capped(*(1,) * 20, None, scheduleStrategy=adaptive())
    assert (many.fault, many.critical_seconds) == ("", 14), "30 would be too long for so many"


@pytest.mark.proves("W27")
@pytest.mark.parametrize("strategy", [None, {}, {"type": "Fixed"}])
def test_fixed_is_the_default(strategy):
    found = capped(1, None, scheduleStrategy=strategy)
    assert (found.fault, found.adaptive, found.simulates) == ("", False, False)


@pytest.mark.parametrize(
    ("subset", "says"),
    [
        ({"name": ""}, "spec.subsets[1].name: String should have at least 1 character"),
        ({"name": "a" * 64}, "spec.subsets[1].name: String should have at most 63 characters"),
        (
            {
                "name": "b",
                "requiredNodeSelectorTerm": {"matchExpressions": [{"key": "x", "operator": "Is"}]},
            },
            "'Is'",
        ),
        (
            {"name": "b", "requiredNodeSelectorTerm": GPU, "requiredClusterSelectorTerm": {}},
            "give one",
        ),
        (
            {"name": "b", "preferredNodeSelectorTerms": [{"weight": 0, "preference": GPU}]},
            "weight: Input should be greater than or equal to 1, not 0",
        ),
        (
            {"name": "b", "tolerations": [{"operator": "Exists", "tolerationSeconds": 2**31}]},
            "tolerations[0].tolerationSeconds: Input should be less than or equal to",
        ),
        ({"name": "b", "tolerations": 3}, "spec.subsets[1].tolerations"),
        ({"name": "a"}, "spec.subsets: only one element with name a"),
        ({"name": "b", "patch": "x"}, "spec.subsets[1].patch"),
    ],
)
def test_a_subset_that_makes_no_sense_is_named(subset, says):
    found = spread({"name": "a"}, subset)
    assert says in found.fault
    assert found.target == ("shop", "demo")


@pytest.mark.parametrize(
    "target", ["demo", {}, {"kind": "Deployment", "apiVersion": "apps/v1", "name": "demo"}]
)
def test_only_a_workload_is_a_target(target):
    assert spread({"name": "a"}, targetRef=target).fault.startswith("spec.targetRef")


@pytest.mark.parametrize("stored", [None, 3, [], "x", {"subsets": "none"}])
def test_whatever_is_stored_is_read(stored):
    body = {"metadata": {"name": "ws", "namespace": "shop"}, "spec": stored}
    assert compile_spread(msgspec.convert(body, WorkloadSpread)).fault


@pytest.mark.proves("W29", "W30")
def test_marks_are_read_and_never_of_the_last_one():
    full = [{"type": "Schedulable", "status": "False", "reason": "PodUnschedulable"}]
    said = {"subsetStatuses": [{"name": n, "conditions": full} for n in ("s0", "s1", "gone")]}
    assert capped(1, None, status=said, scheduleStrategy=adaptive()).marked == {"s0"}
    assert capped(1, None, status=said).marked == frozenset(), "Fixed looks at no mark"


@pytest.mark.proves("W35")
def test_of_several_the_oldest_that_makes_sense_has_a_say():
    books, key = Spreads(), ("shop", "demo")
    young = spread(
        {"name": "a"}, meta={"name": "young", "creationTimestamp": "2026-01-02T00:00:00Z"}
    )
    old = spread({"name": "a"}, meta={"name": "old", "creationTimestamp": "2026-01-01T00:00:00Z"})
    broken = spread(meta={"name": "broken", "creationTimestamp": "2025-01-01T00:00:00Z"})
    assert books.put_spread(young) == {key}
    books.put_spread(broken)
    books.put_spread(old)
    assert books.of(key) == old
    assert books.all_of(key)[1:] == (young, broken)
    assert books.drop_spread(old.key) == {key}
    assert books.of(key) == young
    assert books.drop_spread(young.key) == {key}
    assert books.of(key) == broken
    other = spread({"name": "a"}, meta={"name": "broken"}, targetRef={**TARGET, "name": "other"})
    assert books.put_spread(other) == {key, ("shop", "other")}
    assert books.of(key) is None
    assert books.drop_spread(("shop", "unknown")) == set()
