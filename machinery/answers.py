"""What the answers of API servers hold: one object, or a page of a list and where the next begins.

A server may be a member's, and answer whatever it likes: what is not of the shape that was asked
for is a TransportError here, at the edge, and no surprise in the middle of something else.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from machinery.errors import TransportError


class _ListMeta(msgspec.Struct):
    continue_: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)


_page = msgspec.json.Decoder(_Page)
_object = msgspec.json.Decoder(dict[str, Any])


def decode(answer: bytes, decoder: msgspec.json.Decoder[Any] = _object) -> Any:
    """The answer's JSON value, an object by default.

    Raises TransportError when it is none, or of another shape.
    """
    try:
        return decoder.decode(answer)
    except (ValueError, RecursionError) as e:  # what is no UTF-8, or nested without end, among them
        raise TransportError(f"the answer is not the JSON that was asked for: {e}") from e


def onward(page: bytes) -> str:
    """The token that the next page is asked for with; empty after the last. Raises TransportError.

    The objects of the page are passed over: it is for others to decode them, once.
    """
    token: str = decode(page, _page).metadata.continue_
    return token


async def joined(pages: AsyncIterator[bytes]) -> dict[str, Any]:
    """All pages as one list, with the metadata of the last. Raises TransportError."""
    whole: dict[str, Any] = {}
    items: list[Any] = []
    async for page in pages:
        whole = decode(page)
        items += _items(whole)
    whole["items"] = items
    return whole


def _items(page: Mapping[str, Any]) -> list[Any]:
    """The objects of a page; an empty list may come as null. Raises TransportError."""
    items = page.get("items") or []
    if isinstance(items, list) and all(isinstance(each, dict) for each in items):
        return items
    raise TransportError("the answer is not the JSON that was asked for: items are no objects")
