"""The brake, which counts lost clusters, and the toleration of a taint that counts."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.features.evacuation.taints import braked, tolerated
from controller.model.moving import BrakeConfiguration
from machinery.types.taints import Taint, Toleration

SIX = {"a1": "a", "a2": "a", "b1": "b", "b2": "b", "c1": "c", "c2": "c"}
PLAIN = BrakeConfiguration(topology_key="region")
TAINT = Taint(key="k", effect="NoExecute")


@pytest.mark.proves("M42")
@pytest.mark.parametrize(
    ("clusters", "lost", "holds"),
    [
        (2, 1, False),
        (2, 2, True),
        (3, 1, False),
        (3, 2, True),
        (1, 1, False),
        (10, 5, False),
        (10, 6, True),
    ],
)
def test_one_may_be_lost_and_otherwise_the_share(clusters: int, lost: int, holds: bool) -> None:
    domains = {f"m{n}": "" for n in range(clusters)}
    found = braked([f"m{n}" for n in range(lost)], domains, PLAIN)
    assert (found is not None) is holds
    if found is not None:
        assert found.scope == "clusters"
        assert f"{lost} of {clusters} clusters are lost" in found.text


@pytest.mark.proves("M43")
def test_more_than_half_of_the_clusters_of_two_regions() -> None:
    many = BrakeConfiguration(max_lost="90%", topology_key="region")
    assert braked(["a1", "a2"], SIX, many) is None, "one whole region"
    assert braked(["a1", "b1"], SIX, many) is None, "half of two is not more than half"
    found = braked(["a1", "a2", "b1", "b2"], SIX, many)
    assert found is not None
    assert found.scope == "domains"
    assert "2 values of region (a, b), 1 at most" in found.text
    assert braked(list(SIX)[:4], dict.fromkeys(SIX, ""), many) is None, "without the label"


@given(
    st.dictionaries(st.text("abcd", min_size=1), st.sampled_from(["", "x", "y", "z"])),
    st.integers(0, 100),
    st.integers(0, 3),
    st.randoms(),
)
def test_what_holds_for_some_holds_for_more(
    domains: dict[str, str], percent: int, most: int, chance: object
) -> None:
    limits = BrakeConfiguration(f"{percent}%", "region", most)
    lost: list[str] = []
    held = False
    for name in sorted(domains, key=lambda _: chance.random()):  # type: ignore[attr-defined] # st.randoms
        lost.append(name)
        now = braked(lost, domains, limits) is not None
        assert now or not held
        held = now


@pytest.mark.proves("RB16")
@pytest.mark.parametrize(
    ("seconds", "leaves_after"),
    [
        ((9, 4), 9),  # and not after the shortest
        ((4, 9), 4),
        ((None, 4), None),
        ((4, None), 4),
        ((), 300),
    ],
)
def test_the_first_toleration_that_matches_counts(
    seconds: tuple[int | None, ...], leaves_after: int | None
) -> None:
    """As Kubernetes 1.36.3 does it with the tolerations of a pod."""
    other = Toleration(key="other", operator="Exists", toleration_seconds=1)
    each = [Toleration(key="k", operator="Exists", toleration_seconds=s) for s in seconds]
    found = tolerated(TAINT, [other, *each], 300)
    assert found == (None if leaves_after is None else timedelta(seconds=leaves_after))
