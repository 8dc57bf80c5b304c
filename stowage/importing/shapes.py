"""The shapes of other systems' kinds: which fields they have, and of which type.

`stowage/importing/peers/` holds them as data, with the module and the version that they are of. A
document of a known kind is checked by its shape before anything is made of it, so that converters
may rely on types. A field that the shape lacks is no fault here: it is lost, and named.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from stowage.fleet.manifests import Document
from stowage.importing.fates import at

FOLDER = Path(__file__).with_name("peers")
Shape = Any
"""An object for an object, a list of one for a list, `*` for any key, a type for a leaf."""
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "int-or-string": (int, str),
    "object": (dict,),
}
_WORDS = {"object": "an object", "integer": "a whole number", "int-or-string": "a number or a text"}


_METADATA = {"name": "string", "namespace": "string", "labels": {"*": "string"}}


@cache
def shapes(system: str) -> dict[str, Shape]:
    """Return the shapes of a system's kinds by `<group>/<kind>`; none of a system without data."""
    file = FOLDER / f"{system}.json"
    return dict(json.loads(file.read_text())["kinds"]) if file.exists() else {}


def origin(system: str) -> str:
    """Return the Go module and version that the shapes are of."""
    found = json.loads((FOLDER / f"{system}.json").read_text())
    return f"{found['module']} {found['version']}"


def check(document: Document, shape: Shape) -> None:
    """Raise ConfigurationError for a value of another type, and for a template of a chart."""
    for field, text in _faults(document.body, {**shape, "metadata": _METADATA}):
        raise document.error(f"{field}: {text}")


def _faults(body: Any, shape: Shape) -> Iterator[tuple[str, str]]:
    todo: list[tuple[Any, Shape, str, bool]] = [(body, shape, "", False)]
    while todo:
        value, known, path, entry = todo.pop()
        if isinstance(value, str) and "{{" in value and isinstance(known, str) and known in _TYPES:
            yield path, "is a template of a chart: render it first, as by `helm template`"
        if value is None and entry:  # elsewhere it counts as absent
            yield path, "is empty: write a value, or leave it out"
        if value is None or known is None:
            continue
        if text := _mistyped(value, known):
            yield path, text
        elif isinstance(value, str) and len(value.split()) > 1 and _named(path):
            yield path, f"{value!r:.60} has a blank: write one name a line, with a dash before it"
        if isinstance(value, dict):
            fields = known if isinstance(known, dict) else {}
            other = fields.get("*")
            todo += [
                (v, fields.get(k, other), at(path, k), k not in fields and isinstance(other, dict))
                for k, v in value.items()
            ]
        elif isinstance(value, list):
            each = known[0] if isinstance(known, list) else None
            todo += [(v, each, f"{path}[{n}]", each is not None) for n, v in enumerate(value)]


_NAMES = ("name", "clusterName", "clusterNames", "exclude", "clusterSets", "namespace")


def _named(path: str) -> bool:
    """Whether a field holds names of objects."""
    return path.rpartition(".")[2].partition("[")[0] in _NAMES


def _mistyped(value: Any, known: Shape) -> str:
    if isinstance(known, dict):
        return "" if isinstance(value, dict) else _told("an object", value)
    if isinstance(known, list):
        hint = "; write one `- value` a line" if isinstance(value, str) else ""
        return "" if isinstance(value, list) else _told("a list", value) + hint
    types = _TYPES.get(known)
    flag = isinstance(value, bool)
    fits = types is None or (isinstance(value, types) and flag is (bool in types))
    return "" if fits else _told(_WORDS.get(known, f"a {known}"), value)


_FOUND = {dict: "an object", list: "a list", str: "a text", bool: "a flag", int: "a number"}


def _told(expected: str, value: Any) -> str:
    return f"{expected}, not {_FOUND.get(type(value), type(value).__name__)}"


def leaves(shape: Shape, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield each leaf of a shape with its type, as `spec.taints[].key`."""
    if isinstance(shape, dict):
        for key, inner in shape.items():
            yield from leaves(inner, f"{path}.{key}" if path else key)
    elif isinstance(shape, list):
        yield from leaves(shape[0], f"{path}[]")
    else:
        yield path, shape
