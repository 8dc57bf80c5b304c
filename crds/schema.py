"""From a pydantic model to the structural OpenAPI v3 schema that a CRD may hold.

pydantic speaks JSON Schema with references, titles and null alternatives; an API server takes a
schema in one piece, where every node has one type, nothing is nullable unless it says so, and a
default is a value that will be stored. Everything else (list kinds, CEL, formats) is put into the
JSON Schema by the models themselves and passes through.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

Schema = dict[str, Any]

_DROPPED = frozenset(
    {"title", "$defs", "default", "additionalProperties", "const", "$ref", "anyOf"}
)
"""Keywords that are read and replaced, or that a structural schema does not know."""


def structural(model: type[BaseModel]) -> Schema:
    """The schema of a model: references inlined, camelCase names, ready for a CRD."""
    whole = model.model_json_schema(by_alias=True)
    return _clean(whole, whole.get("$defs", {}))


def _clean(node: Schema, definitions: dict[str, Schema]) -> Schema:
    node = _resolved(node, definitions)
    schema = {key: value for key, value in node.items() if key not in _DROPPED}
    if "const" in node:
        schema["enum"] = [node["const"]]
    if node.get("default") is not None:
        schema["default"] = _default(node["default"])
    if "x-kubernetes-int-or-string" in node:
        return schema | {"anyOf": node["anyOf"]}
    if "properties" in node:
        schema["properties"] = {
            name: _clean(child, definitions) for name, child in node["properties"].items()
        }
    if "items" in node:
        schema["items"] = _clean(node["items"], definitions)
    return schema | _open(node, definitions)


def _default(value: Any) -> Any:
    """An object starts empty: the API server fills in the defaults of its fields itself."""
    return {} if isinstance(value, dict) else value


def _resolved(node: Schema, definitions: dict[str, Schema]) -> Schema:
    """The node with its reference and its null alternative gone; what it says itself wins."""
    if "x-kubernetes-int-or-string" in node:
        return node
    if "$ref" in node:
        target = _resolved(definitions[node["$ref"].rpartition("/")[2]], definitions)
        return target | {key: value for key, value in node.items() if key != "$ref"}
    if "anyOf" in node:
        [only] = [choice for choice in node["anyOf"] if choice.get("type") != "null"]
        own = {key: value for key, value in node.items() if key != "anyOf"}
        return _resolved(only, definitions) | own
    return node


def _open(node: Schema, definitions: dict[str, Schema]) -> Schema:
    """How an object says what else it may hold."""
    if node.get("type") != "object" or "properties" in node:
        return {}
    values = node.get("additionalProperties")
    if isinstance(values, dict) and values:
        return {"additionalProperties": _clean(values, definitions)}
    return {"x-kubernetes-preserve-unknown-fields": True}
