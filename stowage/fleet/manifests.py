"""Objects from files: YAML or JSON, many in one file, folders, standard input.

Each object remembers its file and its number there, so that an error names the place. The elements
of lists count as objects, both of `kind: List` and of a plain array.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, ClassVar, TypeVar

import msgspec
import yaml

from machinery.errors import ConfigurationError

STANDARD_INPUT = "-"
MOST_ALIASED = 4 * 2**20
"""Characters and nodes that the aliases of one document may stand for."""
SUFFIXES = (".yaml", ".yml", ".json")
MOST_BYTES = 64 * 2**20
"""The limit of one file."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Document:
    """One object, its file, its number in the file, and its line there, both from 1 on."""

    source: str
    number: int
    body: dict[str, Any]
    line: int = 1

    @property
    def kind(self) -> str:
        return str(self.body.get("kind") or "")

    @property
    def name(self) -> str:
        metadata = self.body.get("metadata")
        return str(metadata.get("name") or "") if isinstance(metadata, dict) else ""

    @property
    def place(self) -> str:
        return f"{self.source}, document {self.number}"

    @property
    def at(self) -> str:
        """The file and the line, as a compiler prints them."""
        return f"{self.source}:{self.line}"

    def of(self, group: str, *kinds: str) -> bool:
        """Whether it is one of these kinds of an API group, or has no version."""
        version = str(self.body.get("apiVersion") or group)
        return self.kind in kinds and version.partition("/")[0] == group

    def decoded(self, body: Mapping[str, Any], kind: type[T]) -> T:
        """Return `body`, made from its own, as a struct. Raises ConfigurationError.

        Nulls in the metadata count as absent.
        """
        metadata = {key: value for key, value in body["metadata"].items() if value is not None}
        try:
            return msgspec.convert({**body, "metadata": metadata}, kind)
        except msgspec.ValidationError as e:
            what, _, where = str(e).partition(" - at `$.")
            raise self.error(f"{where.rstrip('`')}: {what}" if where else what) from e

    def error(self, faults: str | Sequence[str]) -> ConfigurationError:
        """Return an error with place and name; each fault is `field: what to do`."""
        what = " ".join(filter(None, (self.kind, self.name)))
        text = faults if isinstance(faults, str) else "; ".join(faults)
        return ConfigurationError(": ".join(filter(None, (self.place, what, text))))


def read(names: Sequence[str]) -> list[Document]:
    """Return the objects of files, of folders (their own files, by name) and of `-`, in order.

    Raises ConfigurationError for a file that cannot be read.
    """
    return [document for name in names for document in _of(name)]


def _of(name: str) -> Iterator[Document]:
    path = Path(name)
    if name != STANDARD_INPUT and path.is_dir():
        files = sorted(each for each in path.iterdir() if each.suffix in SUFFIXES)
        if not files:
            raise ConfigurationError(f"{name}: no {', '.join(SUFFIXES)} file in this folder")
        for file in files:
            yield from parse(str(file), _text(file))
    else:
        yield from parse(*text_of(name))


def text_of(name: str) -> tuple[str, str]:
    """Return what a file or `-` is called, and its text. Raises ConfigurationError."""
    if name == STANDARD_INPUT:
        return "standard input", _decoded("standard input", sys.stdin.buffer)
    return name, _text(Path(name))


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return _decoded(str(path), file)
    except OSError as e:
        raise ConfigurationError(f"{path}: {e.strerror}") from e


def _decoded(source: str, file: IO[bytes]) -> str:
    # a device or a pipe may have no end
    found = file.read(MOST_BYTES + 1)
    if len(found) > MOST_BYTES:
        raise ConfigurationError(f"{source}: more than {MOST_BYTES // 2**20} MiB")
    try:
        return found.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        raise ConfigurationError(f"{source}: not a text in UTF-8") from e


def parse(source: str, text: str) -> Iterator[Document]:
    """Yield the objects of one text. Raises ConfigurationError."""
    found = [each for value in _values(source, text) for each in _elements(*value)]
    for number, (body, line) in enumerate(found, start=1):
        document = Document(source, number, body if isinstance(body, dict) else {}, line)
        if document.body is not body:
            raise document.error(f"an object is expected here, found {type(body).__name__}")
        yield document


def values(source: str, text: str) -> list[Any]:
    """Return what each document of a text holds, lists as they are. Raises ConfigurationError."""
    return [value for value, _ in _values(source, text) if value is not None]


def _values(source: str, text: str) -> Iterator[tuple[Any, Any]]:
    """Yield the value of each document with its node. Raises ConfigurationError."""
    try:
        yield from _loaded(text)
    except yaml.YAMLError as e:
        raise _no_yaml(source, e) from e
    except (ValueError, RecursionError) as e:  # a number or a nesting that Python does not take
        raise ConfigurationError(f"{source}: not YAML that can be read: {e}") from e


def _no_yaml(source: str, fault: yaml.YAMLError) -> ConfigurationError:
    """Return the fault with file and line, as a compiler prints them."""
    if not isinstance(fault, yaml.MarkedYAMLError) or fault.problem_mark is None:
        return ConfigurationError(f"{source}: not YAML: {' '.join(str(fault).split())}")
    what = ", ".join(filter(None, (fault.context, fault.problem)))
    return ConfigurationError(f"{source}:{fault.problem_mark.line + 1}: not YAML: {what}")


def _loaded(text: str) -> Iterator[tuple[Any, Any]]:
    """Yield the value of each document with its node, which knows lines. Raises YAMLError."""
    loader = _LOADER(text)
    # without both signs nothing can stand for anything else, and its size is that of the text
    loader.may_alias = "&" in text and "*" in text
    try:
        while loader.check_node():
            node = loader.get_node()
            yield loader.construct_document(node), node
    finally:
        loader.dispose()


def _elements(value: Any, node: Any) -> Iterator[tuple[Any, int]]:
    """Yield the objects of a document, each with its line."""
    if value is None:
        return
    if isinstance(value, dict) and str(value.get("kind", "")).endswith("List"):
        inside = (inner for key, inner in node.value if key.value == "items")
        value, node = value.get("items") or [], next(inside, node)
        value = value if isinstance(value, list) else [value]
    if not isinstance(value, list):
        yield value, _line(node)
        return
    nodes = node.value if isinstance(node, yaml.SequenceNode) else [node] * len(value)
    for each, its in zip(value, nodes, strict=False):
        yield each, _line(its)


def _line(node: Any) -> int:
    return int(node.start_mark.line) + 1


_NOT_READ = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value")
"""What YAML 1.1 reads and kubectl takes for text. PyYAML fails on the second."""


class _LOADER(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc] # found at run time
    """Reads YAML as kubectl does, with the C parser where there is one.

    Timestamps, numbers with a colon and a bare `=` stay texts. A key that stands twice in a mapping
    is an error, and so is an alias that makes a document much larger than it is written.
    """

    may_alias: bool = True
    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {
        first: [
            (tag, re.compile(f"(?!.*:){regexp.pattern}", re.VERBOSE))
            for tag, regexp in resolvers
            if tag not in _NOT_READ
        ]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_document(self, node: Any) -> Any:
        if (
            self.may_alias
            and _expanded(node, {}) > sum(map(_own_size, _nodes(node))) + MOST_ALIASED
        ):
            told = f"its aliases stand for more than {MOST_ALIASED // 2**20} MiB"
            raise yaml.constructor.ConstructorError(None, None, told, node.start_mark)
        return super().construct_document(node)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        once: set[str] = set()
        for key, _ in node.value:
            named = key.value if isinstance(key, yaml.ScalarNode) else ""
            if named in once:
                where = key.start_mark
                raise yaml.constructor.ConstructorError(None, None, f"{named!r} twice", where)
            once |= {named} - {"", "<<"}
        return super().construct_mapping(node, deep=deep)


def _inner(node: Any) -> list[Any]:
    if isinstance(node, yaml.MappingNode):
        return [each for pair in node.value for each in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _own_size(node: Any) -> int:
    return 1 + (len(node.value) if isinstance(node, yaml.ScalarNode) else 0)


def _nodes(node: Any) -> Iterator[Any]:
    """Yield each node of a document once, however many aliases stand for it."""
    seen, left = {id(node)}, [node]
    while left:
        each = left.pop()
        yield each
        more = [inner for inner in _inner(each) if id(inner) not in seen]
        seen.update(map(id, more))
        left += {id(inner): inner for inner in more}.values()


def _expanded(node: Any, known: dict[int, int]) -> int:
    """Return the size of a node with all aliases in full; past MOST_ALIASED for one in itself."""
    if id(node) not in known:
        known[id(node)] = 2 * MOST_ALIASED + MOST_BYTES  # met again: it is part of itself
        known[id(node)] = _own_size(node) + sum(_expanded(each, known) for each in _inner(node))
    return known[id(node)]
