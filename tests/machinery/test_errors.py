"""An exception that is kept holds no frames, and one that is raised for it none of before."""

from __future__ import annotations

import traceback

import pytest

from crds.workload import PropagatedReason
from machinery.errors import ApiError, Unreachable, fresh
from propagator.errors import Refused


@pytest.mark.proves("B9")
@pytest.mark.parametrize(
    "fault",
    [
        Unreachable("no route"),
        ApiError.of(code=422, reason="Invalid", message="no", details={"a": 1}, retry_after=2.0),
        Refused(PropagatedReason.REJECTED, "m1: no"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_fresh_one_says_the_same_and_holds_nothing(fault: Exception) -> None:
    with pytest.raises(type(fault)) as raised:
        raise fault from ValueError("why")
    kept = fresh(raised.value)
    assert type(kept) is type(fault)
    assert (str(kept), vars(kept)) == (str(fault), vars(fault))
    assert kept.__traceback__ is kept.__cause__ is kept.__context__ is None
    frames = []
    for _ in range(3):
        with pytest.raises(type(fault)) as caught:
            raise fresh(kept)
        frames.append(len(traceback.extract_tb(caught.value.__traceback__)))
    assert frames == [1, 1, 1]
    assert kept.__traceback__ is None
