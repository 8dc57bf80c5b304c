"""Reads the spec of a kind as stored: it may be older than the rules, or written past them.

The first fault is a text in `fault`.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from crds.admission.validation import fault_of

T = TypeVar("T", bound=msgspec.Struct)


def read_spec(stored: Any, form: type[T]) -> tuple[T, str]:
    """Decode a spec; return an empty one and the fault if a field is of another type."""
    try:
        return msgspec.convert(stored, form), ""
    except msgspec.ValidationError as e:
        text, _, path = str(e).partition(" - at `$")
        return form(), f"spec{path.removesuffix('`')}: {text}"


def checked_spec(kind: str, stored: Any, form: type[T]) -> tuple[T | None, str]:
    """Decode a spec, None if a field is of another type; return its first fault as well."""
    fault = fault_of(kind, stored)
    try:
        return msgspec.convert(stored, form), fault
    except msgspec.ValidationError as e:
        return None, fault or f"spec: {e}"
