"""Of several tolerations of one taint the first that tolerates it counts, as on nodes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controller.features.evacuation.taints import tolerated
from machinery.types.taints import Taint, Toleration

TAINT = Taint(key="k", effect="NoExecute")


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
