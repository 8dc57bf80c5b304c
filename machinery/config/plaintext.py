"""YAML or JSON as texts, lists and mappings, bounded while it is parsed.

A value is its text (`123`, `yes`), or None for a null.
"""

from __future__ import annotations

from typing import Any

import msgspec
import yaml

from machinery.types import bounds
from machinery.types.bounds import TooMuch

_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # linear, where libyaml is there
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})

_json = msgspec.json.Decoder(float_hook=str)


def parse(data: bytes) -> Any:
    """Return the one document. Raises ValueError if malformed, TooMuch beyond a bound."""
    if len(data) > bounds.SECRET_BYTES:
        raise TooMuch(f"is larger than {bounds.SECRET_BYTES // bounds.KIB} KiB")
    if data.lstrip()[:1] == b"{":
        bounds.check_json(data, depth=bounds.SECRET_DEPTH)
        try:
            return _texts(_json.decode(data))
        except (ValueError, RecursionError):
            pass  # YAML may begin with a brace as well
    try:
        return _Builder().build(data)
    except (yaml.YAMLError, UnicodeError, RecursionError) as e:
        raise ValueError("is not YAML") from e


def _texts(value: Any) -> Any:
    match value:
        case dict():
            return {key: _texts(each) for key, each in value.items()}
        case list():
            return [_texts(each) for each in value]
        case None | str():
            return value or None
    return msgspec.json.encode(value).decode()


class _Builder:
    def __init__(self) -> None:
        self._open: list[tuple[Any, list[str]]] = []  # each with its key that waits for a value
        self._whole: Any = None

    def build(self, data: bytes) -> Any:
        documents = 0
        for number, event in enumerate(yaml.parse(data, Loader=_LOADER)):
            if number > bounds.SECRET_NODES:
                raise TooMuch(f"has more than {bounds.SECRET_NODES} values")
            documents += isinstance(event, yaml.DocumentStartEvent)
            if documents > 1:
                raise ValueError("holds more than one document")
            self._take(event)
        return self._whole

    def _take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise ValueError("uses YAML aliases; write the values out")
        if getattr(event, "tag", None) not in (None, "tag:yaml.org,2002:str"):
            raise ValueError("uses YAML tags; write plain values")
        match event:
            case yaml.ScalarEvent(value=text):
                plain = not event.style and not event.tag  # quoted and block scalars have a style
                self._put(None if not text or (plain and text in _NULLS) else text, text)
            case yaml.MappingStartEvent():
                self._begin({})
            case yaml.SequenceStartEvent():
                self._begin([])
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._open.pop()

    def _begin(self, container: Any) -> None:
        self._put(container, None)
        self._open.append((container, []))
        if len(self._open) > bounds.SECRET_DEPTH:
            raise TooMuch(f"is nested deeper than {bounds.SECRET_DEPTH} levels")

    def _put(self, value: Any, text: str | None) -> None:
        if not self._open:
            self._whole = value
            return
        container, key = self._open[-1]
        if isinstance(container, list):
            container.append(value)
        elif key:
            container[key.pop()] = value
        elif text is None:
            raise ValueError("has a key that is no text")
        elif text in container:
            raise ValueError(f"has the key {bounds.clean(text, bounds.WORD)} twice")
        else:
            key.append(text)
