"""Paths of fields: names, quoted names, and each element of a list.

`spec.workers[*].replicas`, `metadata.annotations["a.b/c"]`. Elements of a list are told apart by
their `name` or `groupName`; one without is no field of its own. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias

from crds.fields.shares import LONGEST_FIELD
from machinery.types.bounds import clean

Step: TypeAlias = str | Mapping[str, Any]
"""A key of a mapping, or what an element of a list is known by, such as `{"name": "main"}`."""
Steps: TypeAlias = tuple[Step, ...]

EACH: Final = "[*]"
_KEYS = ("name", "groupName")
_STEP = re.compile(r'(?:^|\.)([A-Za-z0-9_-]+)|\["([^"\]]+)"\]|(\[\*\])')


@lru_cache(maxsize=1024)
def parsed(path: str) -> tuple[str, ...]:
    """Return the steps of a path, EACH for the elements of a list. Raises ValueError."""
    found, at = [], 0
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            raise ValueError(f"{path}: not a path at character {at}")
        found.append(next(filter(None, step.groups())))
        at = step.end()
    return tuple(found)


def fields_at(body: Any, path: str) -> Iterator[Steps]:
    """Yield the fields of an object that a path means, also where the object lacks the last name.

    Raises ValueError.
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
    try:
        names = parsed(path)
    except ValueError:
        return ""
    for name in names:
        body = body.get(name) if isinstance(body, Mapping) else None
    if isinstance(body, bool):
        return str(body).lower()
    if isinstance(body, int | float):
        body = str(body)
    return clean(body, LONGEST_FIELD) if isinstance(body, str) else ""


def placed(body: Any, steps: Steps, value: Any) -> Any:
    """Return the object with another value of a field; all above it must exist."""
    if not steps:
        return value
    first, rest = steps[0], steps[1:]
    if isinstance(first, str):
        return {**body, first: placed(body.get(first), rest, value)}
    return [
        placed(each, rest, value)
        if isinstance(each, Mapping) and first.items() <= each.items()
        else each
        for each in body
    ]
