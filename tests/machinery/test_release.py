"""Which of two releases comes before the other."""

from __future__ import annotations

import pytest

from machinery.release import older


@pytest.mark.proves("PL20")
@pytest.mark.parametrize(
    ("one", "before"),
    [
        ("1.9.0", True),
        ("1.10.0", False),
        ("1.10.0+g1a2b3c", False),
        ("1.10.0.post1", False),
        ("1.10.0rc1", True),
        ("1.10.0.dev3", True),
        ("1.10.0-alpha.1", True),
        ("1.10.0rc1+g1a2b3c", True),
        ("1.10.1rc1", False),
        ("dev", False),
        ("", False),
    ],
)
def test_releases_compare_as_versions_with_pre_releases_below(one: str, *, before: bool) -> None:
    assert older(one, "1.10.0") is before
    assert not older(one, "")
