"""Fields of an object, also of elements of its lists, and what is told of them.

Elements of a list are told apart by their `name` or `groupName`; one without is no field of its
own. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from crds.fields.shares import LONGEST_FIELD
from machinery.kinds.paths import EACH, parsed, value_at
from machinery.types.bounds import clean

Step: TypeAlias = str | Mapping[str, Any]
"""A key of a mapping, or what identifies an element of a list, such as `{"name": "main"}`."""
Steps: TypeAlias = tuple[Step, ...]

_KEYS = ("name", "groupName")


def fields_at(body: Any, path: str) -> Iterator[Steps]:
    """Yield the fields of an object that a path means, also where the object lacks the last name.

    Raises NoPath.
    """
    yield from _fields(body, parsed(path), ())


def _fields(body: Any, left: tuple[str, ...], at: Steps) -> Iterator[Steps]:
    if not left:
        yield at
    elif left[0] == EACH:
        for each in body if isinstance(body, list) else ():
            if (known := _known_by(each)) is not None:
                yield from _fields(each, left[1:], (*at, known))
    elif isinstance(body, Mapping) and (left[0] in body or len(left) == 1):
        yield from _fields(body.get(left[0]), left[1:], (*at, left[0]))


def _known_by(element: Any) -> Mapping[str, Any] | None:
    if isinstance(element, Mapping):
        for key in _KEYS:
            if isinstance(element.get(key), str):
                return {key: element[key]}
    return None


def told(body: Any, path: str) -> str:
    """Return a value of a member's object as text; empty without one, and for a list or mapping."""
    return as_text(value_at(body, path))


def as_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        value = str(value)
    return clean(value, LONGEST_FIELD) if isinstance(value, str) else ""


def placed(body: Any, at: Steps, value: Any) -> Any:
    """Return the object with another value of a field; all above it must exist."""
    if not at:
        return value
    first, rest = at[0], at[1:]
    if isinstance(first, str):
        return {**body, first: placed(body.get(first), rest, value)}
    return [
        placed(each, rest, value)
        if isinstance(each, Mapping) and first.items() <= each.items()
        else each
        for each in body
    ]
