"""Pages of what users write: the kinds, from their CRDs, and the controller's configuration."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel
from pydantic.alias_generators import to_camel

from controller import catalogue
from controller.config import ConfigurationFile
from crds.definition import KINDS, definition
from crds.names import GROUP, VERSION
from website.markdown import code, page, sentence, table

Schema = Mapping[str, Any]
_META = {"apiVersion", "kind", "metadata"}
"""Fields of every object, which Kubernetes describes."""
_BOUNDS = (
    ("minimum", "maximum", ""),
    ("minLength", "maxLength", " characters"),
    ("minItems", "maxItems", " items"),
    ("minProperties", "maxProperties", " keys"),
)
_WIDEST = 2**31 - 1
"""The bound of every number that has none of its own."""


class Entry(NamedTuple):
    """A field: its path, such as `spec.subsets[].name`, and the schema at it."""

    path: str
    schema: Schema
    required: bool


def kinds() -> dict[str, str]:
    """Return the page of each kind, by file name."""
    return {f"kinds/{kind.__name__.lower()}.md": _kind(definition(kind)) for kind in KINDS}


def configuration() -> str:
    """Return the page of the SchedulerConfiguration."""
    schema = ConfigurationFile.model_json_schema(by_alias=True)
    registry = catalogue.registry()
    models = {name: registry.model(name) for name in registry.names}
    taken = {name: model for name, model in models.items() if model and model.model_fields}
    return page(
        "SchedulerConfiguration",
        "The file of `stowage controller --config`, from the models that read it. A field that is"
        " not here is refused, with file and line. `stowage plugins --config FILE` shows what it"
        " comes to.",
        [
            _fields(entries(schema, schema)),
            "## Arguments of plugins",
            "`profiles[].pluginConfig[].args` of the plugins that take any.",
            *(_arguments(name, model) for name, model in taken.items()),
        ],
    )


def entries(schema: Schema, root: Schema, path: str = "") -> Iterator[Entry]:
    """Yield each field below a schema, those of items and of values of a map included."""
    schema = _resolved(schema, root)
    required = schema.get("required", ())
    for name, value in schema.get("properties", {}).items():
        below = f"{path}.{name}" if path else name
        yield Entry(below, _resolved(value, root), name in required)
        yield from entries(value, root, below)
    for key, mark in (("items", "[]"), ("additionalProperties", ".*")):
        if isinstance(schema.get(key), Mapping):
            yield from entries(schema[key], root, path + mark)


def _kind(crd: Schema) -> str:
    spec = crd["spec"]
    names, version = spec["names"], spec["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]
    found = [each for each in entries(schema, schema) if each.path.split(".")[0] not in _META]
    parts = {
        part: [each for each in found if re.match(rf"{part}\b", each.path)]
        for part in schema["properties"]
        if part not in _META
    }
    subresources = ", ".join(code(each) for each in version["subresources"])
    columns = [
        [each["name"], code(each["jsonPath"]), "wide" if each.get("priority") else ""]
        for each in version["additionalPrinterColumns"]
    ]
    return page(
        names["kind"],
        f"{schema['description']}\n\n`{GROUP}/{VERSION}`, {spec['scope'].lower()}, short name "
        f"`{names['shortNames'][0]}`, subresources {subresources}.",
        [
            *(
                f"## {part}\n\n{schema['properties'][part].get('description', '')}\n\n"
                f"{_fields(each for each in listed if each.path != part)}"
                for part, listed in parts.items()
            ),
            f"## Columns of kubectl get\n\n{table(('column', 'field', '-o wide'), columns)}",
        ],
    )


def _arguments(name: str, model: type[BaseModel]) -> str:
    schema = model.model_json_schema(by_alias=True)
    words = re.sub(r"`(\w+)`", lambda found: code(to_camel(found[1])), sentence_of(model))
    return f"### {name}\n\n{words}\n\n{_fields(entries(schema, schema))}"


def sentence_of(model: type[BaseModel]) -> str:
    """Return a model's docstring in one line, its paragraphs together."""
    return " ".join(sentence(part) for part in (model.__doc__ or "").split("\n\n"))


def _fields(found: Any) -> str:
    rows = [
        [code(each.path), _type(each.schema), _must(each), each.schema.get("description", "")]
        for each in found
    ]
    return table(("field", "type", "must, default", "tells"), rows)


def _type(schema: Schema) -> str:
    if "enum" in schema or "const" in schema:
        return ", ".join(code(each) for each in schema.get("enum", [schema.get("const")]))
    if "anyOf" in schema and "type" not in schema:
        return " or ".join(_type(each) for each in schema["anyOf"])
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or string"
    kind = schema.get("type", "object" if "$ref" in schema else "any")
    inside = schema.get("items") or schema.get("additionalProperties")
    if kind == "array" and inside:
        return f"list of {_type(inside)}"
    if kind == "object" and isinstance(inside, Mapping):
        return f"map of {_type(inside)}"
    return str(kind)


def _must(entry: Entry) -> str:
    schema = entry.schema
    said = ["required"] if entry.required else []
    said += filter(None, (_bound(schema, *each) for each in _BOUNDS))
    default = schema.get("default")
    if isinstance(default, bool | int | str):
        shown = str(default).lower() if isinstance(default, bool) else default
        said.append(f"default {code(shown)}")
    return "; ".join(said)


def _bound(schema: Schema, low: str, high: str, unit: str) -> str:
    least = schema.get(low) if schema.get(low, -_WIDEST) > -_WIDEST else None
    most = schema.get(high) if schema.get(high, _WIDEST) < _WIDEST else None
    if most is None:
        return f"from {least}{unit} on" if least is not None else ""
    return f"at most {most}{unit}" if least is None else f"{least} to {most}{unit}"


def _resolved(schema: Schema, root: Schema) -> Schema:
    """Return the schema that is meant: the one referred to, and of alternatives the object."""
    chosen = [each for each in (schema, *schema.get("anyOf", ())) if "$ref" in each]
    if len(chosen) != 1:
        return schema
    target = root["$defs"][chosen[0]["$ref"].rpartition("/")[2]]
    own = {key: value for key, value in schema.items() if key not in ("$ref", "anyOf")}
    return {**_resolved(target, root), **own}
