"""Values of an object by paths: names, quoted names, and each element of a list.

`spec.workers[*].replicas`, `metadata.annotations["a.b/c"]`. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final


class InvalidTemplate(ValueError):
    """A template is not of the form of its kind; the message begins with the path."""


class NoPath(ValueError):
    """A text is no path; the message begins with it."""


EACH: Final = "[*]"
_STEP = re.compile(r'(?:^|\.)([^.\[\]"]+)|\["([^"\]]+)"\]|(\[\*\])')


@lru_cache(maxsize=4096)
def parsed(path: str) -> tuple[str, ...]:
    """Return the steps of a path, EACH for the elements of a list. Raises NoPath."""
    found, at = [], 0
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            raise NoPath(f"{path}: not a path at character {at}")
        found.append(next(filter(None, step.groups())))
        at = step.end()
    return tuple(found)


@lru_cache(maxsize=4096)
def steps(path: str) -> tuple[str, ...]:
    """Return the steps of a path; a text that is none is one name, which no object has."""
    try:
        return parsed(path)
    except NoPath:
        return (path,)


def value_at(body: Any, path: str) -> Any:
    """Return the value at a path; None without one, and for an empty path."""
    names = steps(path)
    for name in names:
        body = body.get(name) if isinstance(body, Mapping) else None
    return body if names else None


def values_at(body: Any, path: str) -> list[Any]:
    """Return the values at a path that may lead through lists by EACH."""
    found = [body]
    for name in steps(path):
        if name == EACH:
            found = [each for listed in found if isinstance(listed, list) for each in listed]
        else:
            found = [each[name] for each in found if isinstance(each, Mapping) and name in each]
    return found if path else []


def set_at(body: dict[str, Any], path: str, value: Any, *, field: str = "spec.template") -> None:
    """Set the value at a path, and create missing mappings above it.

    Raises InvalidTemplate if a non-mapping is above it; `field` is the field of the Workload that
    holds the object.
    """
    names = steps(path)
    for at, name in enumerate(names[:-1], start=1):
        inner = body.setdefault(name, {})
        if not isinstance(inner, dict):
            where = ".".join((field, *names[:at]))
            raise InvalidTemplate(f"{where}: must be a mapping, as {names[at]} is set in it")
        body = inner
    body[names[-1]] = value


def without(body: Mapping[str, Any], names: Sequence[str]) -> Mapping[str, Any]:
    """Return the object without the value at a path; the same object if there is none."""
    first, *rest = names
    if first not in body:
        return body
    if not rest:
        return {key: value for key, value in body.items() if key != first}
    inner = body[first]
    return {**body, first: without(inner, rest)} if isinstance(inner, Mapping) else body


def stripped(body: Any, names: Sequence[str]) -> Any:
    """Return the object without the values at a path that may lead through lists by EACH."""
    first, *rest = names
    if first == EACH:
        return [stripped(each, rest) for each in body] if isinstance(body, list) and rest else body
    if not isinstance(body, Mapping) or first not in body:
        return body
    if not rest:
        return without(body, names)
    return {**body, first: stripped(body[first], rest)}
