"""A value of a profile: a path of names, or an expression in CEL, by one text.

Names are read in Python, and so is the comparison of one with a literal: most kinds need no more.
Anything else is compiled once. A missing field is no value, not a fault. Pure.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any, Final, TypeAlias

import msgspec

from machinery.clock import worktime
from machinery.kinds.paths import steps
from machinery.types.bounds import MESSAGE, clean

VARIABLES: Final = ("object", "spec", "status", "metadata", "item", "key", "conditions")
LONGEST: Final = 1024
"""Characters of an expression."""
LARGEST: Final = 256 * 1024
"""Bytes, as JSON, of an object that an expression is asked about."""
MOST_VALUES: Final = 16 * 1024
MOST_SUMS: Final = 16
"""Additions of an expression."""
WORK_SECONDS: Final = 0.05
"""Processor time for all expressions about one object. The last iteration may exceed it."""

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_PATH = rf"{_NAME}(?:\.{_NAME}|\[\"[^\"\\\]]+\"\])*"
_IS_PATH = re.compile(_PATH)
_IS_COMPARISON = re.compile(rf"({_PATH}) (==|!=) ('[^'\\]*'|true|false|[0-9]{{1,18}})")
_LITERALS = re.compile(
    r"\b[bB]?[rR][bB]?(?:\"\"\".*?\"\"\"|'''.*?'''|\"[^\"]*\"|'[^']*')"
    r"|\"\"\"(?:[^\\]|\\.)*?\"\"\"|'''(?:[^\\]|\\.)*?'''"
    r"|\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'",
    re.DOTALL,
)
_LOOP = re.compile(rf"\.\s*(?:all|exists|exists_one|existsOne|filter)\s*\(\s*{_NAME}\s*,")
_WITHIN = "stowageWithin"
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
    """The message says how."""


class TooCostly(EvaluationError):
    """An object is too large to ask an expression about, or the answer takes too long."""


class Missing(EvaluationError):
    """A field that an expression reads is missing."""


class _Work(threading.local):
    until = 0.0
    over = False

    def within(self) -> bool:
        """Raises ValueError once its time is over."""
        self.over = worktime() > self.until
        if self.over:
            raise ValueError("takes too long")
        return True


_WORK = _Work()


class Scope:
    """One object with the variables of its expressions, and what these may cost."""

    __slots__ = ("_inside", "misfit", "spent", "values")

    def __init__(
        self, body: Mapping[str, Any], *, inside: Scope | None = None, **more: Any
    ) -> None:
        self.values: Mapping[str, Any] = {**body, **more}
        self._inside = inside
        self.misfit: str | None = None
        """Empty if it is asked about, None while that is unknown."""
        self.spent = 0.0
        """Seconds of processor time."""

    def within(self, item: Any, key: Any) -> Scope:
        """Return the scope of one element of a list or map."""
        return Scope(self.values, inside=self, item=item, key=key)

    def check(self) -> None:
        """Raises TooCostly."""
        whole = self._inside or self
        if whole.misfit is None:
            known = {name: whole.values[name] for name in VARIABLES if name in whole.values}
            whole.misfit = _misfit(msgspec.json.encode(known))
        if whole.misfit:
            raise TooCostly(whole.misfit)
        if whole.spent > WORK_SECONDS:
            raise TooCostly(_TOO_LONG)

    def ask(self, compiled: Any, asked: Mapping[str, Any]) -> Any:
        """Return the library's answer. Raises TooCostly."""
        self.check()
        whole, began = self._inside or self, worktime()
        _WORK.until, _WORK.over = began + WORK_SECONDS - whole.spent, False
        try:
            return compiled.eval(data=asked)
        finally:
            whole.spent += worktime() - began
            if _WORK.over:
                raise TooCostly(_TOO_LONG)


_TOO_LONG = (
    f"the expressions of its kind take more than {WORK_SECONDS * 1000:.0f} ms for the object"
)


def _misfit(encoded: bytes) -> str:
    """Return why an object is not asked about."""
    if len(encoded) > LARGEST:
        return f"the object has more than {LARGEST // 1024} KiB"
    more = encoded.count(b",") >= MOST_VALUES
    return f"the object has more than {MOST_VALUES} values" if more else ""


class Path(msgspec.Struct, frozen=True, eq=False):
    names: tuple[str, ...]

    def read(self, scope: Scope) -> Any:
        """Return the value; None without one."""
        return _at(scope.values, self.names)


class Comparison(msgspec.Struct, frozen=True, eq=False):
    """A path and a literal. As in CEL a missing value makes it false, and 1 is not true."""

    text: str
    names: tuple[str, ...]
    literal: str | int | bool
    equal: bool = True

    def read(self, scope: Scope) -> bool:
        """Raises Missing."""
        found = _at(scope.values, self.names)
        if found is None:
            raise Missing(f"{self.text.split(' ', 1)[0]} is missing")
        same = type(found) is type(self.literal) and bool(found == self.literal)
        return same is self.equal


class Program(msgspec.Struct, frozen=True, eq=False):
    text: str
    compiled: Any
    fault: Any
    """The library's type of a fault."""
    mentioned: tuple[str, ...]

    def read(self, scope: Scope) -> Any:
        """Return the value in the types of JSON. Raises EvaluationError."""
        asked = {name: self._value(scope, name) for name in self.mentioned}
        try:
            found = scope.ask(self.compiled, asked)
            kind, value = found.type(), found.plain_value()
        except TooCostly:
            raise
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
        return Comparison(text, _names(found[1]), _literal(found[3]), found[2] == "==")
    bare = _LITERALS.sub(lambda each: "'" * len(each[0]), text)
    if _MAPPING.search(bare):
        raise InvalidExpression("the macro map is not allowed")
    if bare.count("+") > MOST_SUMS:
        raise InvalidExpression(f"has more than {MOST_SUMS} additions")
    environment, fault = _environment()
    try:
        compiled = environment.compile(text)
    except (RuntimeError, TypeError) as e:
        raise InvalidExpression(_words(str(e))) from e
    if (bounded := _bounded(text, bare)) != text:
        try:
            compiled = environment.compile(bounded)
        except (RuntimeError, TypeError) as e:
            raise InvalidExpression("a macro in it is not understood: leave comments out") from e
    return Program(text, compiled, fault, tuple(dict.fromkeys(_MENTIONED.findall(bare))))


def _bounded(text: str, bare: str) -> str:
    """Return an expression of which each iteration of a macro ends with the time.

    `bare` is the text without what its literals say.
    """
    parts: dict[int, str] = {}
    for loop in _LOOP.finditer(bare):
        end = _closing(bare, loop.end())
        parts[loop.end()] = f" {_WITHIN}() ? ("
        parts[end] = ") : false" + parts.get(end, "")
    at, found = 0, ""
    for where in sorted(parts):
        found += text[at:where] + parts[where]
        at = where
    return found + text[at:]


def _closing(bare: str, at: int) -> int:
    depth = 0
    for where in range(at, len(bare)):
        depth += (bare[where] == "(") - (bare[where] == ")")
        if depth < 0:
            return where
    return len(bare)


def read(text: str, scope: Scope) -> Any:
    """Return a value; None for a missing one. Raises EvaluationError for another fault."""
    try:
        return value(text).read(scope)
    except Missing:
        return None


def why_not(text: str, scope: Scope) -> str:
    """Return why a condition does not hold; empty if it does. Raises TooCostly."""
    try:
        found = value(text).read(scope)
    except TooCostly:
        raise
    except EvaluationError as e:
        return str(e)
    return "" if found is True else f"{text} is not true"


def holds(text: str, body: Mapping[str, Any]) -> bool:
    """Whether a condition holds for an object; an empty one does not."""
    try:
        return bool(text) and not why_not(text, Scope(body))
    except TooCostly:
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
    within = cel.Overload(_WITHIN, return_type=cel.Type.BOOL, parameters=[], impl=_WORK.within)
    environment = cel.NewEnv(
        variables=dict.fromkeys(VARIABLES, cel.Type.DYN),
        extensions=[ext_math.ExtMath(), ext_optional.ExtOptional()],
        functions=[
            cel.FunctionDecl("javaMemory", [amount]),
            cel.FunctionDecl(_WITHIN, [within]),
        ],
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
