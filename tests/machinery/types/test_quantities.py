"""Quantities as Kubernetes reads them: exact, rounded up, canonical on the way back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from machinery.types import quantities


@pytest.mark.parametrize(
    ("text", "whole", "thousandths"),
    [
        ("0", 0, 0),
        ("100m", 1, 100),
        ("1.5", 2, 1500),
        (".5", 1, 500),
        ("2", 2, 2000),
        ("1k", 1000, 1_000_000),
        ("1Ki", 1024, 1_024_000),
        ("1.5Gi", 3 * 2**29, 3 * 2**29 * 1000),
        ("12e3", 12000, 12_000_000),
        ("1E", 10**18, 10**21),
        ("1Ei", 2**60, 2**60 * 1000),
        ("100u", 1, 1),
        ("1n", 1, 1),
        ("-1500m", -1, -1500),
    ],
)
def test_every_suffix(text: str, whole: int, thousandths: int) -> None:
    assert quantities.value(text) == whole
    assert quantities.milli(text) == thousandths


@pytest.mark.parametrize("text", ["", "m", "1 Gi", "1gi", "1KI", "--1", "1e", "0x1", "\u0661"])
def test_what_is_none_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="quantity"):
        quantities.exact(text)


@given(st.integers(0, 2**50), st.sampled_from(["cpu", "memory", "pods", "example.com/gpu"]))
def test_rendering_is_the_inverse(amount: int, resource: str) -> None:
    assert quantities.amount(resource, quantities.render(resource, amount)) == amount


@pytest.mark.proves("Y5", "Q12")
@pytest.mark.parametrize(
    ("resource", "text", "readable"),
    [
        ("memory", "24684084Ki", "23.5Gi"),
        ("memory", "96Gi", "96Gi"),
        ("memory", "1048575Mi", "1023.9Gi"),
        ("memory", "512", "512"),
        ("memory", "0", "0"),
        ("cpu", "7999m", "7.9"),
        ("cpu", "24", "24"),
        ("cpu", "50m", "50m"),
        ("cpu", "0", "0"),
        ("pods", "330", "330"),
    ],
)
def test_what_people_read_never_says_more_than_there_is(
    resource: str, text: str, readable: str
) -> None:
    assert quantities.readable(resource, quantities.amount(resource, text)) == readable
