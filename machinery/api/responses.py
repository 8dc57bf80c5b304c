"""The content of an API server's answers: one object, or a page of a list and its continuation.

An answer of another shape is Unreadable here, at the edge.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, TypeVar

import msgspec

from machinery.errors import TransportError
from machinery.types.bounds import check_json, clean, shallow

T = TypeVar("T")


class Unreadable(TransportError):
    """The answer is not that of an API server."""


class ListMeta(msgspec.Struct):
    resource_version: str = msgspec.field(default="", name="resourceVersion")
    continue_: str = msgspec.field(default="", name="continue")


class PageHead(msgspec.Struct):
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)


_head = msgspec.json.Decoder(PageHead)
_object = msgspec.json.Decoder(dict[str, Any])


def decode(answer: bytes | msgspec.Raw, decoder: msgspec.json.Decoder[Any] = _object) -> Any:
    """Return the answer's JSON value, an object by default.

    Raises Unreadable for malformed JSON or another shape, and TooMuch for an object of a size or a
    depth that no object has.
    """
    if decoder is _object:
        check_json(answer)
    try:
        try:
            return decoder.decode(answer)
        except RecursionError:
            return decoder.decode(shallow(bytes(answer)))
    except (ValueError, RecursionError) as e:  # including invalid UTF-8
        cause = clean(str(e), 256)
        raise Unreadable(f"the answer is not the JSON that was asked for: {cause}") from e


def shaped(answer: Mapping[str, Any], type_: type[T]) -> T:
    """Return a decoded answer as the type. Raises Unreadable for another shape."""
    try:
        return msgspec.convert(answer, type_)
    except msgspec.ValidationError as e:
        raise Unreadable(f"the answer is not what was asked for: {clean(str(e), 256)}") from e


def version_of(page: bytes) -> str:
    """Return the resourceVersion of a page's list. Raises Unreadable."""
    return str(decode(page, _head).metadata.resource_version)


def onward(page: bytes) -> str:
    """Return the continue token; empty after the last page. Raises Unreadable."""
    token: str = decode(page, _head).metadata.continue_
    return token


async def joined(pages: AsyncIterator[bytes]) -> dict[str, Any]:
    """Return all pages as one list, with the metadata of the last. Raises Unreadable."""
    whole: dict[str, Any] = {}
    items: list[Any] = []
    async for page in pages:
        whole = decode(page)
        items += _items(whole)
    whole["items"] = items
    return whole


def _items(page: Mapping[str, Any]) -> list[Any]:
    items = page.get("items") or []
    if isinstance(items, list) and all(isinstance(each, dict) for each in items):
        return items
    raise Unreadable("the answer is not the JSON that was asked for: items are no objects")
