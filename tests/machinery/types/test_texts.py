"""One copy of a text, for as long as it is asked for."""

from __future__ import annotations

import pytest

from machinery.types.metadata import MOST_SHARED, shared


def text(number: int) -> str:
    return f"a message, the {number}th of its kind"


@pytest.mark.proves("B8")
def test_equal_texts_are_one_and_old_ones_are_forgotten() -> None:
    shared.cache_clear()
    first = shared(text(0))
    assert shared(text(0)) is first
    for number in range(1, MOST_SHARED + 1):
        shared(text(number))
    assert shared.cache_info().currsize == MOST_SHARED
    assert shared(text(0)) is not first, "it was kept for nobody"
