"""Reads the spec of a kind as it is stored: an older schema may have let in a value of any type."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)


def read_spec(stored: Any, form: type[T]) -> tuple[T, str]:
    """Decode a spec; return an empty one and the fault where a field is of another type."""
    try:
        return msgspec.convert(stored, form), ""
    except msgspec.ValidationError as e:
        text, _, path = str(e).partition(" - at `$")
        return form(), f"spec{path.removesuffix('`')}: {text}"
