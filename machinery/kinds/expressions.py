"""A value of a profile: a path of names, or an expression in CEL, by one text.

Names are read in Python, and so is the comparison of one with a literal: most kinds need no more.
Anything else is compiled once. A missing field is no value, not a fault. An expression may be asked
about any object that a member sends, so its text, its work and the objects are bounded here. This
module alone knows the library. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any, Final, TypeAlias

import msgspec

from machinery.kinds.paths import steps
from machinery.types.bounds import MESSAGE, clean

VARIABLES: Final = ("object", "spec", "status", "metadata", "item", "key", "conditions")
LONGEST: Final = 1024
"""Characters of an expression. The library bounds its depth (32) and its iterations (10,000)."""
LARGEST: Final = 256 * 1024
"""Bytes, as JSON, of an object that an expression is asked about."""

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_PATH = rf"{_NAME}(?:\.{_NAME}|\[\"[^\"\\\]]+\"\])*"
_IS_PATH = re.compile(_PATH)
_IS_COMPARISON = re.compile(rf"({_PATH}) == ('[^'\\]*'|true|false|[0-9]{{1,18}})")
_LITERALS = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_MENTIONED = re.compile(rf"(?<![\w.])({'|'.join(VARIABLES)})\b")
_MAPPING = re.compile(r"\.\s*map\s*\(")
_MISSING_KEY = re.compile(r'Key not found in map : "(.*)"', re.DOTALL)
_MEMORY = re.compile(r"([0-9]{1,15})\s*([kmgt]?)i?b?", re.IGNORECASE)
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


class InvalidExpression(ValueError):
    """A text is neither a path nor an expression that compiles."""


class InvalidPath(InvalidExpression):
    """A path begins with a name that is no variable."""


class EvaluationError(ValueError):
    """An expression fails on one object; the message says how."""


class TooLarge(EvaluationError):
    """An object is too large to ask an expression about."""


class Missing(EvaluationError):
    """A field that an expression reads is missing."""


class Scope:
    """One object with the variables of its expressions, and whether it is small enough for them."""

    __slots__ = ("_fits", "values")

    def __init__(self, body: Mapping[str, Any], **more: Any) -> None:
        self.values: Mapping[str, Any] = {**body, **more}
        self._fits: bool | None = None

    def within(self, item: Any, key: Any) -> Scope:
        """Return the scope of one element of a list or map."""
        inner = Scope(self.values, item=item, key=key)
        inner._fits = self.fits
        return inner

    @property
    def fits(self) -> bool:
        if self._fits is None:
            known = {name: self.values[name] for name in VARIABLES if name in self.values}
            self._fits = len(msgspec.json.encode(known)) <= LARGEST
        return self._fits


class Path(msgspec.Struct, frozen=True, eq=False):
    names: tuple[str, ...]

    def read(self, scope: Scope) -> Any:
        """Return the value; None without one."""
        return _at(scope.values, self.names)


class Comparison(msgspec.Struct, frozen=True, eq=False):
    """A path and a literal. As in CEL a missing value equals nothing, and 1 is not true."""

    text: str
    names: tuple[str, ...]
    literal: str | int | bool

    def read(self, scope: Scope) -> bool:
        """Raises Missing."""
        found = _at(scope.values, self.names)
        if found is None:
            raise Missing(f"{self.text.partition(' == ')[0]} is missing")
        return type(found) is type(self.literal) and bool(found == self.literal)


class Program(msgspec.Struct, frozen=True, eq=False):
    text: str
    compiled: Any
    fault: Any
    """The library's type of a fault."""
    mentioned: tuple[str, ...]

    def read(self, scope: Scope) -> Any:
        """Return the value in the types of JSON. Raises EvaluationError."""
        if not scope.fits:
            raise TooLarge(f"the object has more than {LARGEST // 1024} KiB")
        asked = {name: self._value(scope, name) for name in self.mentioned}
        try:
            found = self.compiled.eval(data=asked)
            kind, value = found.type(), found.plain_value()
        except Exception as e:  # the library's faults have no type of their own
            raise EvaluationError(clean(f"{self.text}: {e}", MESSAGE)) from e
        if kind != self.fault:
            return value
        if missing := _MISSING_KEY.search(value):
            raise Missing(f"{self._named(missing[1])} is missing")
        raise EvaluationError(clean(f"{self.text}: {value.partition(': ')[2] or value}", MESSAGE))

    def _value(self, scope: Scope, name: str) -> Any:
        if name == "object":
            return {each: scope.values.get(each) for each in ("metadata", "spec", "status")}
        found = scope.values.get(name)
        return {} if found is None else found

    def _named(self, key: str) -> str:
        """Return the path in the text that ends with a name, or the name."""
        found = re.search(rf"(?:{_NAME}\.)+{re.escape(key)}\b", self.text)
        return clean(found[0] if found else key, MESSAGE)


Value: TypeAlias = Path | Comparison | Program


def is_path(text: str) -> bool:
    return _IS_PATH.fullmatch(text) is not None


@lru_cache(maxsize=4096)
def value(text: str) -> Value:
    """Return what a text stands for. Raises InvalidExpression."""
    if len(text) > LONGEST:
        raise InvalidExpression(f"has more than {LONGEST} characters")
    if is_path(text) and text not in ("true", "false", "null"):
        return Path(_names(text))
    if found := _IS_COMPARISON.fullmatch(text):
        return Comparison(text, _names(found[1]), _literal(found[2]))
    bare = _LITERALS.sub("''", text)
    if _MAPPING.search(bare):
        raise InvalidExpression("the macro map is not allowed")
    environment, fault = _environment()
    try:
        compiled = environment.compile(text)
    except (RuntimeError, TypeError) as e:
        raise InvalidExpression(_words(str(e))) from e
    return Program(text, compiled, fault, tuple(dict.fromkeys(_MENTIONED.findall(bare))))


def read(text: str, scope: Scope) -> Any:
    """Return a value; None for a missing one. Raises EvaluationError for another fault."""
    try:
        return value(text).read(scope)
    except Missing:
        return None


def why_not(text: str, scope: Scope) -> str:
    """Return why a condition does not hold; empty if it does. Raises TooLarge."""
    try:
        found = value(text).read(scope)
    except TooLarge:
        raise
    except EvaluationError as e:
        return str(e)
    return "" if found is True else f"{text} is not true"


def holds(text: str, body: Mapping[str, Any]) -> bool:
    """Whether a condition holds for an object; an empty one does not."""
    try:
        return bool(text) and not why_not(text, Scope(body))
    except TooLarge:
        return False


def java_memory(text: Any) -> int:
    """Return the bytes of `2048m` or `4g`, as Java's tools read them. Raises ValueError."""
    found = _MEMORY.fullmatch(text.strip()) if isinstance(text, str) else None
    if found is None:
        raise ValueError("is no amount of memory")
    return min(int(found[1]) << _UNITS[found[2].lower()], 2**63 - 1)


@cache
def _environment() -> tuple[Any, Any]:
    # The library takes longer to load than the rest of a command, and few kinds need it.
    from cel_expr_python import cel  # noqa: PLC0415
    from cel_expr_python.ext import ext_math, ext_optional  # noqa: PLC0415

    amount = cel.Overload(
        "javaMemory_string",
        return_type=cel.Type.INT,
        parameters=[cel.Type.STRING],
        impl=java_memory,
    )
    environment = cel.NewEnv(
        variables=dict.fromkeys(VARIABLES, cel.Type.DYN),
        extensions=[ext_math.ExtMath(), ext_optional.ExtOptional()],
        functions=[cel.FunctionDecl("javaMemory", [amount])],
    )
    return environment, cel.Type.ERROR


def _names(path: str) -> tuple[str, ...]:
    """Raises InvalidPath."""
    names = steps(path)
    if names[0] not in VARIABLES:
        raise InvalidPath(f"{clean(path, MESSAGE)} begins with none of {', '.join(VARIABLES)}")
    return names[1:] if names[0] == "object" and len(names) > 1 else names


def _at(body: Any, names: tuple[str, ...]) -> Any:
    for name in names:
        body = body.get(name) if isinstance(body, Mapping) else None
    return body


def _literal(text: str) -> str | int | bool:
    if text.startswith("'"):
        return text[1:-1]
    return text == "true" if text in ("true", "false") else int(text)


def _words(said: str) -> str:
    """Return what a compiler says without its drawing: `1:4: Syntax error: …`."""
    first = said.partition("\n")[0]
    _, _, short = first.partition("<input>:")
    return clean((short or first).removesuffix(" [INVALID_ARGUMENT]"), MESSAGE)
