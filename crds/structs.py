"""From the models to msgspec structs: how the processes read what is stored, declared once.

A struct has the fields of its model, by the same names, and checks types alone: unknown fields are
ignored, an enumeration is text, and text that may be missing is empty. A selector and a time may be
missing, too: without one all is selected, and nothing is known of the time. A condition stays as it
is stored, since its list is written back whole. Left out are the kinds, of which each process reads
its own part, and what may hold fields of any name: a struct would drop them. A struct that has
methods is written by hand, in the module that `WRITTEN` names; the tests compare its fields with
those that would be generated. A model that adds rules alone is read as the one that it extends.
"""

from __future__ import annotations

import json
import types
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from crds.base import Condition, Kind, Model
from crds.definition import KINDS
from crds.workload import Workload

WRITTEN = {
    "ClusterSelector": "machinery.types.selectors",
    "LabelSelector": "machinery.types.selectors",
    "Requirement": "machinery.types.selectors",
    "SelectorTerm": "machinery.types.selectors",
    "Taint": "machinery.types.taints",
    "Toleration": "machinery.types.taints",
}
"""Structs with methods, by their names, and the modules that declare them. A ClusterSelector is a
mapping there, as it may be labels alone.
"""
_READ_AS_PROFILES = "WorkloadKindSpec"
"""Of which `machinery.kinds.profile` is the struct: the built-in profiles say more."""
_LONG = "_during_scheduling_ignored_during_execution"
_TEXT = "str | None"
_EMPTY = {"LabelSelector": "LabelSelector()", "ClusterSelector": "{}"}
"""Selectors without which all is selected, though they are required."""
_SCALARS = frozenset({"str", "int", "bool", "None"})

PARTS = "machinery.types.api"
WORKLOAD_PARTS = "machinery.types.workload_api"
HEADER = '''# Generated from the models in `crds`; `make crds` writes it.
"""The parts of {about} as they are stored."""

from __future__ import annotations

'''
BASE = """class Part(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    pass"""
_WIDTH = 100


def modules() -> dict[str, str]:
    """Return the text of each module, by its name: each struct below those that it consists of."""
    shared = dict.fromkeys(m for kind in KINDS if kind is not Workload for m in _parts(kind))
    own = dict.fromkeys(model for model in _parts(Workload) if model not in shared)
    where = dict.fromkeys((each.__name__ for each in shared), PARTS) | WRITTEN
    return {
        PARTS: _module(shared, "all kinds, without those of a Workload alone", where),
        WORKLOAD_PARTS: _module(own, "a Workload alone", where),
    }


def _module(models: Collection[type[Model]], about: str, where: Mapping[str, str]) -> str:
    generated = [model for model in models if _generated(model)]
    declared = {model.__name__: _struct(model) for model in generated}
    base = [] if PARTS in {where.get(name) for name in declared} else ["Part"]
    used = {part.__name__ for model in generated for part in _consists_of(model)}
    named = {*base, *(used & where.keys() - declared.keys())}
    where = {"Part": PARTS, **where}
    body = "\n\n\n".join([*([] if base else [BASE]), *declared.values()])
    library = [
        *(["from datetime import datetime"] if "datetime" in body else []),
        *(["from typing import Any"] if "Any" in body else []),
    ]
    vendor = ["import msgspec"] if "msgspec." in body else []
    ours = [
        _import(source, sorted(name for name in named if where[name] == source))
        for source in sorted({where[name] for name in named})
    ]
    imports = "\n\n".join("\n".join(block) for block in (library, vendor, ours) if block)
    return f"{HEADER.format(about=about)}{imports}\n\n\n{body}\n"


def _import(source: str, names: list[str]) -> str:
    line = f"from {source} import {', '.join(names)}"
    if len(line) <= _WIDTH:
        return line
    return f"from {source} import (\n" + "".join(f"    {name},\n" for name in names) + ")"


def _generated(model: type[Model]) -> bool:
    return model.__name__ not in WRITTEN


@dataclass(frozen=True, slots=True)
class StructField:
    """A field of a struct: its type and its default as source text; required without a default."""

    name: str
    kind: str
    default: str
    stored: str
    """Its name in JSON, where that is not the name in camel case; else empty."""

    def __str__(self) -> str:
        default = self.default
        if self.stored:
            given = {"": "", "[]": "default_factory=list, "}.get(default, f"default={default}, ")
            default = f'msgspec.field({given}name="{self.stored}")'
        line = f"    {self.name}: {self.kind}{default and f' = {default}'}"
        call, _, inner = line.partition("(")
        fits = len(line) <= _WIDTH  # the formatter's
        return line if fits else f"{call}(\n        {inner.removesuffix(')')}\n    )"


def fields(model: type[Model]) -> list[StructField]:
    """Return the fields of a model's struct; the required ones come first."""
    found = (_field(name, field) for name, field in model.model_fields.items())
    return sorted(found, key=lambda each: bool(each.default))


def _parts(model: type[Model]) -> Iterator[type[Model]]:
    """Yield the models that have a struct: those that one consists of, and then itself."""
    if model.__name__ == _READ_AS_PROFILES:
        return
    if _generated(model):
        for part in _consists_of(model):
            yield from _parts(part)
    if model is not Condition and not issubclass(model, Kind) and not _open(model):
        yield model


def _open(model: type[Model]) -> bool:
    """Whether it may hold fields of any name, at any depth."""
    allowed = model.model_config.get("extra") == "allow"
    return allowed or any(map(_open, _consists_of(model)))


def _consists_of(model: type[Model]) -> Iterator[type[Model]]:
    for field in model.model_fields.values():
        yield from _models(field.annotation)


def _models(annotation: Any) -> Iterator[type[Model]]:
    if isinstance(annotation, type) and issubclass(annotation, Model):
        yield _read_as(annotation)
    for part in get_args(annotation):
        yield from _models(part)


def _struct(model: type[Model]) -> str:
    told = fields(model)
    scalar = all(set(each.kind.split(" | ")) <= _SCALARS for each in told)
    head = f"class {model.__name__}(Part, frozen=True{', gc=False' if scalar else ''}):"
    return "\n".join([head, *map(str, told)])


def _field(name: str, field: FieldInfo) -> StructField:
    kind = "datetime" if datetime in field.metadata else _type(field.annotation)
    short = name.removesuffix(_LONG)
    stored = field.alias or ""
    return StructField(
        short,
        "str" if kind == _TEXT else kind,
        _default(field, kind),
        "" if stored == _camel(short) else stored,
    )


def _camel(name: str) -> str:
    """Return the name by which msgspec encodes a field."""
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others)) + "_" * name.endswith("_")


def _type(annotation: Any) -> str:
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return "datetime" if datetime in args[1:] else _type(args[0])
    if origin in (Union, types.UnionType):
        return " | ".join(dict.fromkeys(map(_type, args)))
    if origin in (list, dict):
        return f"{origin.__name__}[{', '.join(map(_type, args))}]"
    if annotation is Condition:
        return "dict[str, Any]"
    if origin is Literal or (isinstance(annotation, type) and issubclass(annotation, Enum)):
        return "str"
    if annotation is Any or annotation is type(None):
        return "Any" if annotation is Any else "None"
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return _read_as(annotation).__name__
    return str(annotation.__name__)


def _read_as(model: type[Model]) -> type[Model]:
    base = model.__base__
    if model.__name__ in WRITTEN or base is None or not issubclass(base, Model):
        return model
    return _read_as(base) if model.model_fields.keys() == base.model_fields.keys() else model


def _default(field: FieldInfo, kind: str) -> str:
    if field.is_required():
        is_time = (field.json_schema_extra or {}) == {"format": "date-time"} and kind == "str"
        return '""' if is_time else _EMPTY.get(kind, "")
    value = field.get_default(call_default_factory=True)
    if value is None:
        return '""' if kind == _TEXT else "None"
    if isinstance(value, Model):
        return f"{type(value).__name__}()"
    if isinstance(value, list) and value:
        return f"msgspec.field(default_factory=lambda: {json.dumps(value)})"
    return json.dumps(value) if isinstance(value, str) else repr(value)
