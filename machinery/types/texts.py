"""One copy of each text that many objects share."""

from __future__ import annotations

from functools import lru_cache

MOST_SHARED = 32_768
"""Shared texts; beyond, the least recently used is dropped."""


@lru_cache(maxsize=MOST_SHARED)
def shared(text: str) -> str:
    """Return the first copy of the text.

    `sys.intern` keeps every text for the life of the process from Python 3.12 on.
    """
    return text
