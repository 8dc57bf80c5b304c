"""A budget of units: a number or whole percents."""

from __future__ import annotations

import re

from crds.base import PERCENT
from machinery.types.bounds import MOST_UNITS, quoted

_PERCENT = re.compile(PERCENT)


def amount(value: int | str, of: int, *, up: bool) -> int:
    """Return a budget as a number; percents are those of `of`, rounded up or down.

    Raises ValueError for a malformed budget.
    """
    if isinstance(value, int) and 0 <= value <= MOST_UNITS:
        return value
    if not isinstance(value, str) or not _PERCENT.fullmatch(value):
        raise ValueError(f"{quoted(value)} is neither a number of units nor whole percents")
    hundredths = int(value.removesuffix("%")) * of
    return -(-hundredths // 100) if up else hundredths // 100
