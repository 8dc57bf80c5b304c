"""The controller follows each WorkloadSpread that admission lets through, and no other.

Two judges of the same rules: the schema with its Python twin, and the compiler, which also meets
what an older schema let in. So they are held against each other on spreads of all kinds.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from controller.features.workloadspread.compiled import WorkloadSpread, compile_spread
from crds.admission.validation import object_violations
from machinery.types.metadata import Meta
from tests.examples import examples

TARGET = {"apiVersion": "stowage.dev/v1alpha1", "kind": "Workload", "name": "demo"}
OPERATORS = st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
VALUES = st.lists(st.sampled_from(["a", "b", "3", "-3"]), max_size=2)
EXPRESSION = st.fixed_dictionaries(
    {"key": st.just("zone"), "operator": OPERATORS, "values": VALUES}
)
TERM = st.one_of(
    st.just({"matchLabels": {"zone": "a"}}),
    st.builds(lambda e: {"matchExpressions": e}, st.lists(EXPRESSION, max_size=2)),
)
RIGHT = [0, 1, 100, 2**31 - 1, "0%", "20%", "30%", "40%", "50%", "060%", "100%"]
WRONG = [-1, 2**31, "", "3", "50.2%", "101%", "0020%", "-5%", "%", True]
CAP = st.sampled_from([*RIGHT, *WRONG])
SUBSET = st.fixed_dictionaries(
    {"name": st.sampled_from(["a", "b", "c", "d", "e"])},
    optional={
        "maxReplicas": CAP,
        "requiredNodeSelectorTerm": TERM,
        "requiredClusterSelectorTerm": TERM,
        "preferredNodeSelectorTerms": st.lists(
            st.fixed_dictionaries(
                {"weight": st.sampled_from([1, 100, 0, 101]), "preference": TERM}
            ),
            max_size=1,
        ),
    },
)
SECONDS = st.sampled_from([0, 30, 73, 74, 98, 99, 147, 148, 295, 296, -1, 2**31 - 1])
STRATEGY = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["Fixed", "Adaptive"]),
        "adaptive": st.fixed_dictionaries(
            {},
            optional={
                "rescheduleCriticalSeconds": SECONDS,
                "disableSimulationSchedule": st.booleans(),
            },
        ),
    },
)
SPEC = st.fixed_dictionaries(
    {"targetRef": st.just(TARGET), "subsets": st.lists(SUBSET, min_size=0, max_size=5)},
    optional={"scheduleStrategy": STRATEGY},
)
ZONES = [{"name": f"z{n}", "maxReplicas": most} for n, most in enumerate(("20%", "20%", "60%"))]


def refused(spec: dict[str, Any]) -> bool:
    body = {
        "apiVersion": TARGET["apiVersion"],
        "kind": "WorkloadSpread",
        "metadata": {"name": "demo", "namespace": "shop"},
        "spec": spec,
    }
    return bool(object_violations("WorkloadSpread", body))


def fault(spec: dict[str, Any]) -> str:
    meta = Meta(name="demo", namespace="shop")
    return compile_spread(WorkloadSpread(metadata=meta, spec=spec)).fault


@pytest.mark.proves("W8", "W30", "W31")
@examples(1000)
@given(SPEC)
@example({"targetRef": TARGET, "subsets": ZONES})
@example({"targetRef": TARGET, "subsets": ZONES, "scheduleStrategy": {"type": "Adaptive"}})
def test_what_is_admitted_is_followed_and_nothing_else(spec: dict[str, Any]) -> None:
    if not refused(spec):
        assert fault(spec) == ""
        return
    assert fault(spec) or harmless(spec)


def harmless(spec: dict[str, Any]) -> bool:
    """Admission alone refuses critical seconds that nobody reads, and percents behind no cap."""
    fixed = spec.get("scheduleStrategy", {}).get("type", "Fixed") == "Fixed"
    if fixed and not refused(spec | {"scheduleStrategy": {}}):
        return True
    return any("maxReplicas" not in each for each in spec["subsets"][:-1])
