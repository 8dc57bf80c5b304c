"""Durations as Kubernetes writes them, `1h30m`: a sum of numbers with units, or 0."""

from __future__ import annotations

import re
from datetime import timedelta

_TERM = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|s|m|h)")
_UNITS = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
}


def parse(text: str) -> timedelta:
    """Return the duration of a text such as `1h30m`. Raises ValueError if malformed."""
    terms = _TERM.findall(text)
    if text != "0" and (not terms or "".join(map("".join, terms)) != text):
        raise ValueError(f"{text!r:.40} is no duration such as 1h30m")
    try:
        return sum((_UNITS[unit] * float(number) for number, unit in terms), timedelta())
    except OverflowError as e:
        raise ValueError(f"{text!r:.40} is longer than any calendar") from e
