"""Pages of lists and events of watches; their objects stay undecoded, for an informer to decode."""

from __future__ import annotations

import functools
from typing import Any

import msgspec
import msgspec.inspect

from machinery.api.responses import ListMeta, PageHead, decode
from machinery.types import bounds
from machinery.types.bounds import TooMuch
from machinery.types.metadata import Meta, Object


class Page(PageHead):
    items: list[msgspec.Raw] | None = None


class _LonePage(msgspec.Struct):
    metadata: ListMeta
    items: tuple[msgspec.Raw]


class WatchEvent(msgspec.Struct):
    type: str
    object: msgspec.Raw


_page = msgspec.json.Decoder(Page)
_lone_page = msgspec.json.Decoder(_LonePage)
_event = msgspec.json.Decoder(WatchEvent)
_identity = msgspec.json.Decoder(Object)


@functools.cache
def decoder_of(type_: type[Any]) -> msgspec.json.Decoder[Any]:
    """Return the one decoder of each type: hundreds of informers share it."""
    return msgspec.json.Decoder(type_)


@functools.cache
def free_form(type_: type[Any]) -> bool:
    """Whether the type keeps JSON of any form, whose depth and size nothing else bounds."""
    seen: set[type[Any]] = set()

    def free(info: msgspec.inspect.Type) -> bool:
        match info:
            case msgspec.inspect.AnyType() | msgspec.inspect.RawType():
                return True
            case msgspec.inspect.StructType(cls=cls, fields=fields):
                new = cls not in seen
                seen.add(cls)
                return new and any(free(field.type) for field in fields)
            case msgspec.inspect.DictType(value_type=inner):
                return free(inner)
            case (
                msgspec.inspect.ListType(item_type=inner)
                | msgspec.inspect.VarTupleType(item_type=inner)
            ):
                return free(inner)
            case msgspec.inspect.UnionType(types=types):
                return any(map(free, types))
        return False

    return free(msgspec.inspect.type_info(type_))


def taken_apart(answer: bytes) -> Page:
    """Return the objects of a page, undecoded. Raises Unreadable.

    A page with too many parts is accepted only if it holds a single object.
    """
    try:
        bounds.check_page(answer)
    except TooMuch:
        alone: _LonePage = decode(answer, _lone_page)
        return Page(alone.metadata, list(alone.items))
    page: Page = decode(answer, _page)
    return page


def event_of(line: bytes) -> WatchEvent:
    """Return the event of a watch's line. Raises Unreadable."""
    event: WatchEvent = decode(line, _event)
    return event


def identity_of(raw: msgspec.Raw) -> Object:
    """Return the metadata and kind of an object. Raises Unreadable."""
    identity: Object = decode(raw, _identity)
    return identity


def check_names(meta: Meta) -> None:
    """Raise TooMuch for names longer than Kubernetes allows: caches keep many copies of them."""
    if max(len(meta.name), len(meta.namespace)) > bounds.NAME:
        raise TooMuch(f"a name is longer than {bounds.NAME} characters")
    if max(len(meta.uid), len(meta.resource_version)) > bounds.UID:
        raise TooMuch(f"a uid or resourceVersion is longer than {bounds.UID} characters")
