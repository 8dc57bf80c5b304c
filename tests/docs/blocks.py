"""The fenced blocks of README and docs, and what is done with each: the info string says it.

    {hub STATE}        `$` lines run in order against a hub, and what they print is compared; the objects there
                       are those of tests/docs/hub/STATE.yaml, without a name those of the page's
    {files}            the same without a hub
    {usage}            commands, options and files that lines name are there
    {said NAME…}       wording, columns and reasons are those of the code; the names are the example's
    {run}              Python, the blocks of a page as one module
    {config}           a SchedulerConfiguration, or a part of one
    {apply}            applied to a hub, as a dry run
    {fragment PATH}    fits the schema of a kind at that path, such as Workload.spec
    {skip: WHY}        nothing

In output `…` stands for anything, in a line of its own for any lines; ages and times of day are not compared,
nor are the widths of columns.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import click
import yaml
from pydantic.alias_generators import to_snake

from crds.definition import KINDS, definition
from stowage.cli import cli
from tests.docs.conftest import ROOT

FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)(?: \{(?P<todo>[^}]*)\})?$")
MODES = {
    "console": {"hub", "files", "usage", "said", "skip"},
    "text": {"said", "usage", "skip"},
    "json": {"said", "skip"},
    "yaml": {"apply", "fragment", "config", "skip"},
    "python": {"run", "skip"},
    "markdown": {"skip"},
}
PACKAGES = ("crds", "machinery", "controller", "propagator", "stowage")
PROGRAMS = {"cd", "docker", "git", "kind", "pip", "pytest", "curl", ".tools/bin/uv"}
VERBS = {
    "apply",
    "create",
    "delete",
    "describe",
    "get",
    "logs",
    "patch",
    "port-forward",
    "scale",
    "set",
    "wait",
}
ELIDED = "…"
EXAMPLES = tuple((ROOT / "examples").glob("*/README.md"))


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    """Of its fence."""
    language: str
    mode: str
    argument: str
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def at(self, offset: int) -> str:
        """Where a line of it stands."""
        return f"{self.page}:{self.line + 1 + offset}"


def blocks(page: str, text: str | None = None) -> list[Block]:
    """Raises ValueError, with file and line, for a block that does not say what to do."""
    found: list[Block] = []
    begun: re.Match[str] | None = None
    inside: list[str] = []
    for number, line in enumerate((text or (ROOT / page).read_text()).splitlines(), 1):
        if begun is None:
            begun, inside = FENCE.match(line), []
            if begun is None and line.lstrip().startswith("```"):
                raise ValueError(f"{page}:{number}: not a fence that is understood: {line}")
        elif line == f"{begun['indent']}```":
            mode, _, argument = (begun["todo"] or "").partition(" ")
            at = number - len(inside) - 1
            if mode.rstrip(":") not in MODES.get(begun["language"], ()):
                raise ValueError(f"{page}:{at}: {begun['language']!r} {{{mode}}} says nothing")
            depth = len(begun["indent"])
            made = tuple(each[depth:] for each in inside)
            found.append(Block(page, at, begun["language"], mode.rstrip(":"), argument, made))
            begun = None
        else:
            inside.append(line)
    return found


def pages() -> list[str]:
    found = [ROOT / "README.md", *EXAMPLES, *(ROOT / "docs").rglob("*.md")]
    return sorted(str(each.relative_to(ROOT)) for each in found)


@cache
def python_of(page: str) -> dict[str, Any]:
    """What the Python of a page defines, run as one module."""
    namespace: dict[str, Any] = {"__name__": "page"}
    for each in blocks(page):
        if each.mode == "run":
            text = "\n" * each.line + each.text  # so that a traceback names the line
            exec(compile(text, ROOT / page, "exec", dont_inherit=True), namespace)
    return namespace


# --- transcripts ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """A command, the lines that it shall print, and the offset of the first of them."""

    command: str
    offset: int
    expected: tuple[str, ...]


def steps(block: Block) -> Iterator[Step]:
    starts = [n for n, line in enumerate(block.lines) if line.startswith("$ ")]
    for start, end in zip(starts, [*starts[1:], len(block.lines)], strict=True):
        last = next(n for n in range(start, end) if not block.lines[n].endswith("\\"))
        command = "".join(line.removesuffix("\\") for line in block.lines[start : last + 1])
        yield Step(command.removeprefix("$ "), last + 1, block.lines[last + 1 : end])


_MASKS = (
    (re.compile(r"\b\d{4}-\d\d-\d\dT[\d:.]+Z"), "TIME"),
    (re.compile(r"\b(?:\d{4}-\d\d-\d\d )?\d\d:\d\d\b"), "TIME"),
    (re.compile(r"\b\d+(?:ms|[smhd])(?:\d+[smhd])?\b"), "AGE"),
    (re.compile(r" {2,}"), "  "),
)


def masked(line: str) -> str:
    for pattern, word in _MASKS:
        line = pattern.sub(word, line)
    return line.rstrip()


def difference(expected: tuple[str, ...], printed: str) -> tuple[int, str] | None:
    """The first expected line that was not printed, and what was; None where all were."""
    lines = [masked(each) for each in printed.strip("\n").splitlines()]
    wanted = [masked(each) for each in "\n".join(expected).strip("\n").splitlines()]
    at, anything = 0, False
    for number, line in enumerate(wanted):
        if line == ELIDED:
            anything = True
            continue
        pattern = re.compile(".*".join(map(re.escape, line.split(ELIDED))))
        while anything and at < len(lines) and not pattern.fullmatch(lines[at]):
            at += 1
        if at == len(lines) or not pattern.fullmatch(lines[at]):
            return number, lines[at] if at < len(lines) else "nothing more"
        at, anything = at + 1, False
    return None if anything or at == len(lines) else (len(wanted), lines[at])


# --- usage ----------------------------------------------------------------------------------------


def misused(line: str) -> Iterator[str]:
    """What a line of a shell names that is not there."""
    line = re.split(r"\s+#\s", line.removeprefix("$ "))[0].strip()
    for part in re.split(r"\s(?:&&|\|)\s", line):
        words = [word.strip("[],;") for word in shlex.split(part, comments=True)]
        words = [word for word in words if word and word not in "&>"]
        if not words:
            continue
        yield from _misused(words)
        for word in words:
            if re.match(r"(?:deploy|examples|docs)/\S+\.", word) and not (ROOT / word).exists():
                yield f"there is no {word}"


def _misused(words: list[str]) -> Iterator[str]:
    program = words[0]
    if program == "stowage":
        yield from _options(words[1:])
    elif program == "kubectl":
        if not VERBS & set(words):
            yield f"kubectl does not {' '.join(words[1:])}"
    elif program in ("uv", "pipx", "helm"):
        pass  # how the command is installed
    elif program == "make":
        targets = re.findall(r"^([a-z./-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        unknown = [each for each in words[1:] if "=" not in each and each not in targets]
        yield from (f"make has no target {each}" for each in unknown)
    elif program not in PROGRAMS and not program.startswith("export"):
        yield f"{program} is no program that is known here"


def _options(words: list[str]) -> Iterator[str]:
    command: click.Command = cli
    rest = list(words)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        name = rest.pop(0)
        if name not in command.commands:
            if not name.isupper():  # COMMAND of a usage line
                yield f"there is no command {name}"
            return
        command = command.commands[name]
    known = {"--help", "--version"}
    known |= {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    for word in rest:
        name = word.partition("=")[0]
        joined = name[:2] in known and not name.startswith("--")  # as -fFILE
        if re.match(r"--?[a-zA-Z]", name) and name not in known and not joined:
            yield f"{command.name} has no option {name}"


# --- wording --------------------------------------------------------------------------------------


@cache
def sources() -> str:
    return "\n".join(path.read_text() for each in PACKAGES for path in (ROOT / each).rglob("*.py"))


@cache
def strings() -> tuple[str, ...]:
    """Each string of the code; what is put into one is left out."""
    trees = (
        ast.parse(path.read_text())
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
    )
    return tuple(text for tree in trees for node in ast.walk(tree) for text in _strings(node))


@cache
def wording() -> frozenset[tuple[str, ...]]:
    """Each three words that stand one after the other in a string of the code."""
    runs = (run for text in strings() for run in _runs(text, frozenset()))
    return frozenset(three for run in runs for three in zip(run, run[1:], run[2:], strict=False))


@cache
def titles() -> frozenset[str]:
    """What the heading of a column may be: a string of its own, whatever its case."""
    return frozenset(text.upper() for text in strings())


def _strings(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        parts = (p.value if isinstance(p, ast.Constant) else " \0 " for p in node.values)
        yield "".join(map(str, parts))


def _runs(text: str, names: frozenset[str]) -> Iterator[list[str]]:
    """The words that follow each other in a sentence, as far as they are no names."""
    run: list[str] = []
    for word in re.findall(r" {2,}|[^\s]+", text):
        plain = word.strip("\"'`([{,.:;)]}")
        good = re.fullmatch(r"[a-z']+", plain) and plain not in names
        if not good or word[0] in "([{\"'`":
            yield run
            run = []
        if good:
            run.append(plain)
            if word[-1] in ",.:;)]}\"'`":
                yield run
                run = []
    yield run


def unsaid(line: str, names: frozenset[str]) -> Iterator[str]:
    """The words of a line that the code does not say."""
    for run in _runs(line, names):
        for three in zip(run, run[1:], run[2:], strict=False):
            if three not in wording():
                yield f"no message says {' '.join(three)!r}"
    columns = re.split(r" {2,}", line.strip())
    heads = columns if len(columns) > 1 and all(each.isupper() for each in columns) else []
    yield from (f"no table has the column {head!r}" for head in heads if head not in titles())
    for word in re.findall(r"\b(?:[A-Z][a-z]+){2,}\b|\b[a-z]+[A-Z]\w+\b", line):
        spellings = rf"\b(?:{word}|{to_snake(word)})\b"  # a field of a model, as files have it
        if word not in names and not re.search(spellings, sources()):
            yield f"the code has no {word!r}"


# --- fragments ------------------------------------------------------------------------------------


def fragments(block: Block) -> Iterator[tuple[Any, str]]:
    """The documents of a block, each with the path of the schema that it shall fit."""
    for document in yaml.safe_load_all(block.text):
        yield document, document.get("kind", block.argument)


@cache
def schema_at(path: str) -> Mapping[str, Any]:
    kind, *fields = path.split(".")
    found = next(definition(each) for each in KINDS if each.__name__ == kind)
    schema: Any = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for field in fields:
        schema = schema["properties"][field]
    return dict(schema)


_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
}


def misfits(value: Any, schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """What of a value a structural schema does not take; `…` stands for anything."""
    if value == ELIDED or schema.get("x-kubernetes-int-or-string"):
        return
    expected = _TYPES[schema["type"]] if "type" in schema else object
    if not isinstance(value, expected):
        yield f"{path}: {value!r} is no {schema['type']}"
    elif "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value!r} is none of {', '.join(schema['enum'])}"
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from misfits(each, schema.get("items", {}), f"{path}[{number}]")
    elif isinstance(value, dict):
        known = schema.get("properties", {})
        others = schema.get("additionalProperties", {})
        loose = schema.get("x-kubernetes-preserve-unknown-fields") or others or not known
        for name, each in value.items():
            if name not in known and name != ELIDED and not loose:
                yield f"{path}.{name}: there is no such field"
            else:
                yield from misfits(each, known.get(name, others), f"{path}.{name}")
