"""Durations as Go writes them: `1h30m`."""

from __future__ import annotations

import re
from fractions import Fraction

_UNITS = {
    "h": Fraction(3600),
    "m": Fraction(60),
    "s": Fraction(1),
    "ms": Fraction(1, 10**3),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "ns": Fraction(1, 10**9),
}
_TERM = r"([0-9]{1,12}(?:\.[0-9]{1,9})?)(h|ms|us|µs|ns|m|s)"


def seconds(text: str) -> int | None:
    """Return a duration in whole seconds, rounded up; None for a text that is none."""
    if text == "0":
        return 0
    if not re.fullmatch(f"({_TERM})+", text):
        return None
    total = sum(Fraction(number) * _UNITS[unit] for number, unit in re.findall(_TERM, text))
    return -(-total.numerator // total.denominator)
