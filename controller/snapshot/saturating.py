"""Whole columns of amounts, added and multiplied without wrapping around.

numpy's int64 wraps silently. A result beyond `CEILING` (C = 2**62 - 1) is `CEILING` here, above
every bound on input, so comparisons stay right.

- `plus`: a + b <= 2C < 2**63, then cut.
- `times`: a is cut to C // b first; if that cuts, the result is C.
- `sums`: v = high * 2**31 + low. Sums of the parts in float64 are exact below 2**53, for up to
  2**22 values a group. The low sum carries into the high one; from 2**31 on it is cut.
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
    """Shape (size,): the sum of each group's values, or `CEILING`."""
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
