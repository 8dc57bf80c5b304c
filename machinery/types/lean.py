"""Decoded objects as a cache keeps them: equal texts once, and one object for all that is empty."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from machinery.types.metadata import Meta, shared

T = TypeVar("T")

LONGEST_SHARED = 256
"""Characters of a shared text."""


def lean(value: T) -> T:
    """Return an equal value, of structs, lists, dicts and plain values, that takes less memory."""
    return _lean(value)  # type: ignore[no-any-return] # it has the type that it is given


def _lean(value: Any) -> Any:
    kind = type(value)
    if kind is str:
        return shared(value) if len(value) <= LONGEST_SHARED else value
    if kind is list:
        return [_lean(each) for each in value] if value else _NO_LIST
    if kind is dict:
        return {_lean(key): _lean(each) for key, each in value.items()} if value else _NO_DICT
    if isinstance(value, msgspec.Struct):
        return _lean_struct(value)
    return value


def _lean_struct(value: msgspec.Struct) -> msgspec.Struct:
    kind = type(value)
    if isinstance(value, Meta):
        return _lean_meta(value)
    made = kind(*[_lean(getattr(value, name)) for name in kind.__struct_fields__])
    return default if (default := _default(kind)) is not None and made == default else made


def _lean_meta(meta: Meta) -> Meta:
    return msgspec.structs.replace(
        meta,
        namespace=shared(meta.namespace),
        labels=_lean(meta.labels),
        annotations=_lean(meta.annotations),
        finalizers=_lean(meta.finalizers),
        owner_references=_lean(meta.owner_references),
    )


@lru_cache(maxsize=1024)
def _default(kind: type[msgspec.Struct]) -> msgspec.Struct | None:
    required = len(kind.__struct_fields__) - len(kind.__struct_defaults__)
    return kind() if not required else None


_NO_LIST: list[Any] = []
_NO_DICT: dict[Any, Any] = {}
