"""What admission and the controller each say of spec.minResources: the same, whatever is written."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.features.workloadgroup.compiled import compile_group
from crds.admission.validation import group_violations
from crds.groups import workloadgroup
from machinery.types import bounds

from .ganging import group
from .grouping import group as written

NAMES = st.sampled_from(["cpu", "memory", "pods", "nvidia.com/gpu"])
SUFFIXES = ["", *"numkMGTPE", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
EXPONENTS = [f"{e}{sign}{n}" for e in "eE" for sign in ("", "+", "-") for n in (0, 9, 14, 17, 80)]
MOST = bounds.MOST_AMOUNT
NUMBERS = st.one_of(
    st.integers(0, 10**6),
    st.integers(MOST - 2, MOST + 2),
    st.integers(MOST // 1000 - 2, MOST // 1000 + 2),
    st.integers(0, 10**40),
)


def fault(amounts: dict[str, Any]) -> str:
    """What the controller says of them."""
    return compile_group(group(minResources=amounts)).fault


def refused(amounts: dict[str, Any]) -> str:
    """What admission says of them."""
    body = written(minResources=amounts)
    return "; ".join(group_violations(body))


@pytest.mark.proves("G1", "G23")
@given(st.dictionaries(NAMES, NUMBERS, max_size=3))
def test_of_numbers_they_say_the_same(amounts: dict[str, int]) -> None:
    assert bool(refused(amounts)) == bool(fault(amounts))


@pytest.mark.proves("G1", "G23")
@given(
    NAMES,
    st.sampled_from(["", "+"]),
    NUMBERS,
    st.sampled_from(["", ".", ".0", ".5", ".936", ".936000000000000000001"]),
    st.sampled_from([*SUFFIXES, *EXPONENTS]),
)
def test_of_quantities_they_say_the_same(
    name: str, sign: str, number: int, fraction: str, suffix: str
) -> None:
    amounts = {name: f"{sign}{number}{fraction}{suffix}"}
    assert bool(refused(amounts)) == bool(fault(amounts)), amounts


@pytest.mark.proves("G1", "G23")
@pytest.mark.parametrize(
    "amounts",
    [{"cpu": "10Pi"}, {"memory": "9Ei"}, {"cpu": "1e80"}, {"k" * 318: "1"}, {"k" * 400: "1"}],
    ids=["cpu", "memory", "exponent", "318", "400"],
)
def test_what_the_controller_cannot_count_is_refused_when_it_is_written(
    amounts: dict[str, str],
) -> None:
    assert fault(amounts)
    assert "spec.minResources: " in refused(amounts)


@pytest.mark.proves("G1")
def test_they_are_bounded_alike() -> None:
    assert workloadgroup.MOST_AMOUNT == bounds.MOST_AMOUNT
    assert not fault({"k" * workloadgroup.MOST_RESOURCE: "1"})
