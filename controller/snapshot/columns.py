"""Columns of a snapshot: texts as small integers, and sums of amounts that do not wrap around.

A label is a code for each row and a vocabulary. A selector costs one call for each word, and one
numpy lookup for all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Mask: TypeAlias = NDArray[np.bool_]
Codes: TypeAlias = NDArray[np.int32]
Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
V = TypeVar("V")

ABSENT = 0
"""The code of a row without a value."""

_SPARE_WORDS = 256
_MOST_KEPT = 16
_MOST_STEPS = 64
_FEW = 4
"""Changed rows are computed alone if they are less than one in this many."""


class Vocabulary:
    """Values to codes, in order of arrival; code 0 means absence. Only ever grows."""

    __slots__ = ("codes", "values")

    def __init__(self) -> None:
        self.codes: dict[str, int] = {}
        self.values: list[str | None] = [None]

    def code(self, value: str | None) -> int:
        if value is None:
            return ABSENT
        code = self.codes.get(value)
        if code is None:
            code = self.codes[value] = len(self.values)
            self.values.append(value)
        return code


@dataclass(frozen=True, slots=True)
class Column:
    codes: Codes
    vocabulary: Vocabulary

    @staticmethod
    def absent(rows: int) -> Column:
        return Column(np.zeros(rows, dtype=np.int32), Vocabulary())

    def where(self, holds: Callable[[str | None], bool]) -> Mask:
        """`holds` sees each distinct value once."""
        values = self.vocabulary.values
        table = np.fromiter(map(holds, values), dtype=np.bool_, count=len(values))
        mask: Mask = table[self.codes]
        return mask

    def equals(self, value: str) -> Mask:
        mask: Mask = self.codes == self.vocabulary.codes.get(value, -1)
        return mask

    def tidy(self) -> Column:
        # A label that changes all the time would make its vocabulary grow for ever.
        if len(self.vocabulary.values) <= 2 * len(self.codes) + _SPARE_WORDS:
            return self
        used, codes = np.unique(self.codes, return_inverse=True)
        words = Vocabulary()
        recoded = [words.code(self.vocabulary.values[code]) for code in used]
        return Column(np.array(recoded, dtype=np.int32)[codes], words)

    def missing(self) -> Mask:
        mask: Mask = self.codes == ABSENT
        return mask


@dataclass(frozen=True, slots=True)
class _Step:
    """The rows that differ from the step before."""

    rows: Ints
    before: _Step | None
    depth: int


_START = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class DerivedColumns:
    """Columns computed from a snapshot, for the snapshots that follow it.

    Only these rows are computed again.
    """

    _step: _Step = field(default_factory=lambda: _Step(_START, None, 0))
    _columns: dict[Hashable, tuple[_Step, Ints]] = field(default_factory=dict)
    _fixed: dict[Hashable, object] = field(default_factory=dict)

    def after(self, rows: Ints) -> DerivedColumns:
        """Differing from this one in these sorted rows alone."""
        return DerivedColumns(
            _Step(rows, self._step, self._step.depth + 1), self._columns, self._fixed
        )

    def column(self, name: Hashable, compute: Callable[[Ints | None], Ints]) -> Ints:
        """Return the column of that name, read-only.

        `compute` returns the values of sorted rows, or of all rows for None. A value may depend
        only on the name and its row of the snapshot.
        """
        at, column = self._columns.get(name, (None, _START))
        if at is self._step:
            return column
        rows = None if at is None else _between(at, self._step, len(column) // _FEW)
        if rows is None:
            column = compute(None)
        elif len(rows):
            column = column.copy()
            column[rows] = compute(rows)
        column.flags.writeable = False
        _put(self._columns, name, (self._step, column))
        return column

    def fixed(self, name: Hashable, compute: Callable[[], V]) -> V:
        """The same in every following snapshot, computed once."""
        found: Any = self._fixed.get(name)
        if found is None:
            found = compute()
            _put(self._fixed, name, found)
        value: V = found
        return value


def _put(kept: dict[Hashable, V], name: Hashable, value: V) -> None:
    kept.pop(name, None)
    kept[name] = value
    if len(kept) > _MOST_KEPT:
        del kept[next(iter(kept))]


def _between(one: _Step, other: _Step, most: int) -> Ints | None:
    """The rows in which two snapshots may differ; None if too many."""
    found: list[Ints] = []
    number = 0
    while one is not other:
        if one.depth < other.depth:
            one, other = other, one
        number += len(one.rows)
        if one.before is None or number > most or len(found) == _MOST_STEPS:
            return None
        found.append(one.rows)
        one = one.before
    if len(found) < 2:
        return found[0] if found else _START
    return np.unique(np.concatenate(found))


CEILING = 2**62 - 1
"""numpy's int64 wraps silently, so a larger result is this. Every bound on input is smaller."""
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
    """Shape (size,): the sum of each group's values, or `CEILING`.

    Sums of halves are exact in float64 for up to 2**22 values a group.
    """
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
