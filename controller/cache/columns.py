"""Columns of small integers for texts: a predicate is asked once for each distinct value.

A fleet of thousands of clusters has a handful of regions. So a label is a code for each row and a
vocabulary of what the codes mean, and a selector costs one look at each word of the vocabulary and
one lookup in a table, done by numpy for all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Mask: TypeAlias = NDArray[np.bool_]
Codes: TypeAlias = NDArray[np.int32]
Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]

ABSENT = 0
"""The code of a row without a value."""

_SPARE_WORDS = 256


class Vocabulary:
    """Values to codes, in the order of arrival; code 0 stands for absence. Only ever grows.

    Columns of several snapshots may share one: what a code means never changes.
    """

    __slots__ = ("codes", "values")

    def __init__(self) -> None:
        self.codes: dict[str, int] = {}
        self.values: list[str | None] = [None]

    def code(self, value: str | None) -> int:
        """The code of a value, a new one where it is seen for the first time."""
        if value is None:
            return ABSENT
        code = self.codes.get(value)
        if code is None:
            code = self.codes[value] = len(self.values)
            self.values.append(value)
        return code


@dataclass(frozen=True, slots=True)
class Column:
    """A code for each row, and what the codes mean."""

    codes: Codes
    vocabulary: Vocabulary

    @staticmethod
    def absent(rows: int) -> Column:
        """A column without any value."""
        return Column(np.zeros(rows, dtype=np.int32), Vocabulary())

    def where(self, holds: Callable[[str | None], bool]) -> Mask:
        """The rows whose value satisfies the predicate, which sees each distinct value once."""
        values = self.vocabulary.values
        table = np.fromiter(map(holds, values), dtype=np.bool_, count=len(values))
        mask: Mask = table[self.codes]
        return mask

    def equals(self, value: str) -> Mask:
        """The rows with exactly this value."""
        mask: Mask = self.codes == self.vocabulary.codes.get(value, -1)
        return mask

    def tidy(self) -> Column:
        """The same, without the words that nobody uses any more, once they are far too many.

        A label that changes all the time would make its vocabulary grow for ever.
        """
        if len(self.vocabulary.values) <= 2 * len(self.codes) + _SPARE_WORDS:
            return self
        used, codes = np.unique(self.codes, return_inverse=True)
        words = Vocabulary()
        recoded = [words.code(self.vocabulary.values[code]) for code in used]
        return Column(np.array(recoded, dtype=np.int32)[codes], words)

    def missing(self) -> Mask:
        """The rows without a value."""
        mask: Mask = self.codes == ABSENT
        return mask
