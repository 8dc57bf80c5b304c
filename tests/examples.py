"""How much is tried: of each property a twentieth of its examples in every run, all in a long one.

The profile decides: `pytest --hypothesis-profile=long`, which `make test-all` asks for. A short
run draws the same every time, so that it fails for what was changed and not by chance; a long one
draws again, and prints with a failure what repeats it. Where a test looks for a while whether something
happens, it looks longer in a long run (`window`).
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings

SHORT, LONG = "short", "long"
SHARE = 20
"""A short run tries one in so many."""
LEAST = 5

_NEVER = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
"""How long it takes to draw something says more of the machine than of the property."""
settings.register_profile(
    SHORT,
    deadline=None,
    max_examples=LEAST,
    derandomize=True,
    suppress_health_check=_NEVER,
)
settings.register_profile(
    LONG,
    deadline=None,
    max_examples=100,
    derandomize=False,
    print_blob=True,
    suppress_health_check=_NEVER,
)


def examples(number: int, **others: Any) -> settings:
    """Settings for a property that is worth `number` examples; `others` as hypothesis has them."""
    if not _long():
        number = max(LEAST, number // SHARE)
    return settings(max_examples=number, deadline=None, **others)


def window(seconds: float, *, short: float) -> float:
    """For how many seconds a test looks whether something happens that must not."""
    return seconds if _long() else short


def _long() -> bool:
    return settings.get_current_profile_name() == LONG
