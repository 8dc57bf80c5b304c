"""Whole columns of amounts, added up and multiplied without ever wrapping around.

numpy's int64 wraps in silence: the room of a cluster would turn negative, or worse, large. Here a
result that would pass `CEILING` is `CEILING`, which is more than any bound on what comes in, so
that comparisons stay right. Every function takes values of 0 to `CEILING` and returns such.

Why nothing wraps, with C = `CEILING` = 2**62 - 1:

- `plus`: a + b <= 2C = 2**63 - 2, which int64 holds; then it is cut.
- `times`: a is cut to C // b first, so that a * b <= C. Where that cut something, a * b > C was
  true of the integers, so C is the answer there.
- `sums`: each value is a high and a low part, v = high * 2**31 + low, with both below 2**31. numpy
  adds the parts of a group up as float64, which is exact below 2**53, so for up to 2**22 values a
  group. The low sum carries into the high one; where that is 2**31 or more, the sum is 2**62 or
  more, and cut; elsewhere high * 2**31 + low < 2**62.

Where the greatest values show that nothing can come near such numbers, which is nearly always, the
plain operation is taken.
"""

from __future__ import annotations

import numpy as np

from controller.snapshot.columns import Ints

CEILING = 2**62 - 1
_EXACT = 2**53
_HALF = 31
_LOW = 2**_HALF - 1


def plus(a: Ints, b: Ints | int) -> Ints:
    """A + b, or `CEILING`; shape as numpy broadcasts."""
    total: Ints = np.minimum(a + b, CEILING)
    return total


def times(a: Ints, b: Ints | int) -> Ints:
    """A * b, or `CEILING`; shape as numpy broadcasts."""
    if _most(a) * _most(b) <= CEILING:
        small: Ints = a * b
        return small
    most = CEILING // np.maximum(b, 1)
    product: Ints = np.where(a > most, CEILING, np.minimum(a, most) * b)
    return product


def sums(group: Ints, values: Ints, size: int) -> Ints:
    """Shape (size,): the values of each group added up, or `CEILING`."""
    if _most(values) * len(values) < _EXACT:
        small: Ints = np.bincount(group, weights=values, minlength=size).astype(np.int64)
        return small
    low = np.bincount(group, weights=values & _LOW, minlength=size).astype(np.int64)
    high = np.bincount(group, weights=values >> _HALF, minlength=size).astype(np.int64)
    high += low >> _HALF
    total: Ints = np.where(high > _LOW, CEILING, (np.minimum(high, _LOW) << _HALF) | (low & _LOW))
    return total


def _most(values: Ints | int) -> int:
    return values if isinstance(values, int) else int(values.max(initial=0))
