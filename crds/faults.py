"""What a model finds wrong, in the words of the API server and of kubectl.

pydantic's own sentences name its inputs, and link to its site. People who apply objects know the
API server's: `Invalid value`, `Unsupported value`, `unknown field`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

_QUOTED = 40
"""The characters of a wrong value that a fault quotes."""
_WORDS: Sequence[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = (
    (re.compile(r"^Input should "), "must "),
    (re.compile(r"^(String|List|Dictionary|Value|Set) should "), "must "),
    (re.compile(r" after validation, not \d+$"), ""),
    (re.compile(r"^must be a valid (\w+).*"), lambda m: f"must be of type {_type(m[1])}"),
    (re.compile(r"^Value error, "), ""),
)


def suggestion(given: str, known: Iterable[str]) -> str:
    """Return `, did you mean "replicas"?` for the name that is closest; empty for none."""
    found = get_close_matches(given, sorted(known), n=1)
    return f', did you mean "{found[0]}"?' if found else ""


def worded(error: ValidationError, model: type[BaseModel]) -> list[tuple[Sequence[Any], str]]:
    """Return place and words of each fault that validating as `model` found."""
    return [(fault_place(each), _said(each, model)) for each in error.errors(include_url=False)]


def fault_place(fault: Any) -> Sequence[Any]:
    """Return where a fault lies; a rule of ours names the field itself."""
    loc: tuple[Any, ...] = fault["loc"]
    return (*loc, fault["ctx"]["field"]) if fault["type"] == "rule" else loc


def _said(fault: Any, model: type[BaseModel]) -> str:
    kind, text = fault["type"], fault["msg"]
    if kind == "rule":
        return str(fault["ctx"]["text"])
    if kind == "missing":
        return "Required value"
    if kind == "extra_forbidden":
        return f"unknown field{suggestion(str(fault['loc'][-1]), _fields(model, fault['loc']))}"
    value = _shown(fault["input"])
    if kind in ("enum", "literal_error"):
        values = ", ".join(f'"{each}"' for each in re.findall(r"'([^']*)'", text))
        return f"Unsupported value: {value}: supported values: {values}"
    said = "must be of type object" if kind in ("model_type", "dict_type") else text
    for pattern, words in _WORDS:
        said = pattern.sub(words, said)
    # A text that does not begin as pydantic's do is a rule of ours, which says what to do.
    return f"Invalid value: {value}: {said}" if said != text else text


def _type(word: str) -> str:
    return {"list": "array", "dictionary": "object", "tuple": "array"}.get(word, word)


def _shown(value: Any) -> str:
    """Return a value as the API server quotes it: what is no plain value by its type."""
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "null"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, str):
        text = value if len(value) <= _QUOTED else f"{value[:_QUOTED]}…"
        return '"' + "".join(c if c.isprintable() else "?" for c in text) + '"'
    return '"array"' if isinstance(value, list | tuple) else '"object"'


def _fields(model: type[BaseModel], loc: Sequence[Any]) -> list[str]:
    """Return the names of the fields beside the last part of a place; empty if it is no model's."""
    at: type[BaseModel] | None = model
    for part in loc[:-1]:
        if at is None:
            return []
        if isinstance(part, int):
            continue
        fields = {field.alias or name: field for name, field in at.model_fields.items()}
        at = _model_in(fields[part].annotation) if part in fields else None
    return [field.alias or name for name, field in at.model_fields.items()] if at else []


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model of a field, also of the elements of a list, a map or an optional one."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)
