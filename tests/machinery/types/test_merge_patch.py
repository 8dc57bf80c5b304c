"""A merge patch makes one object of another, and says nothing of what stays."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from machinery.types.merge_patch import merging

WORDS = st.text(max_size=3)
VALUES = st.recursive(
    st.booleans() | st.integers(-9, 9) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(WORDS, VALUES, max_size=4)


def applied(target: Any, patch: Any) -> Any:
    """RFC 7386, as it stands there."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = applied(result.get(name), value)
    return result


@given(OBJECTS, OBJECTS)
def test_a_merge_patch_makes_one_of_the_other(before: Any, after: Any) -> None:
    patch = merging(before, after)
    assert applied(before, patch) == after
    assert bool(patch) == (before != after)
