"""One copy of texts that many objects have, without keeping those that no object has any more."""

from __future__ import annotations

from functools import lru_cache

MOST_SHARED = 32_768
"""Texts of which one copy is known; beyond, the one that was asked for longest ago is forgotten."""


@lru_cache(maxsize=MOST_SHARED)
def shared(text: str) -> str:
    """Return the copy of the text that was seen first.

    `sys.intern` does it too, and from Python 3.12 on keeps every text for as long as the process
    runs: it is for words of a fixed number.
    """
    return text
