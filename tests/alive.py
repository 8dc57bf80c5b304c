"""Names of which a test can tell whether somebody still keeps them, without a look into anybody."""

from __future__ import annotations

import weakref


class Name(str):  # noqa: SLOT000 - a weak reference needs a place
    """A text that can be referred to weakly."""


class Names:
    """Names that were handed out."""

    def __init__(self) -> None:
        self._given: list[weakref.ref[Name]] = []

    def give(self, text: str) -> Name:
        """Another object each time, also of the same text."""
        name = Name(text)
        self._given.append(weakref.ref(name))
        return name

    def kept(self) -> int:
        """How many of them are referred to."""
        return sum(each() is not None for each in self._given)
