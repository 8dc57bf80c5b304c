"""The file of a backup: a List as kubectl knows it, an object a line, so that it streams.

The last object is the ConfigMap that `stowage restore` makes first. It names the hub and the
resourceVersions of the backup, and a file without it was cut off.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import msgspec
import yaml

from crds import LOADER
from crds.names import RESTORED
from machinery.errors import ConfigurationError
from machinery.types.bounds import clean

Manifest = dict[str, Any]

_HEAD = b'{"apiVersion":"v1","kind":"List","metadata":{},"items":[\n'
_TAIL = b"\n]}\n"
_NO_BACKUP = "it is no backup: `stowage backup -o FILE` makes one"


@dataclass(frozen=True, slots=True)
class Origin:
    """Of which hub, and when."""

    hub: str
    """The UID of its kube-system."""
    versions: Mapping[str, str]
    """The resourceVersion of the list of each kind, by `<plural>.<group>`."""
    release: str
    taken: str
    """RFC 3339."""
    secrets: bool
    """Whether Secrets have their values."""

    @property
    def version(self) -> str:
        """The resourceVersion of the Workloads."""
        return self.versions.get("workloads.stowage.dev", "")

    def data(self) -> dict[str, str]:
        """Return it as the data of a ConfigMap."""
        return {
            "hub": self.hub,
            "resourceVersion": self.version,
            "resourceVersions": msgspec.json.encode(self.versions, order="sorted").decode(),
            "release": self.release,
            "taken": self.taken,
            "secrets": "with" if self.secrets else "without",
        }

    @classmethod
    def of(cls, data: Mapping[str, str]) -> Origin:
        """Raises ValueError."""
        versions = msgspec.json.decode(data.get("resourceVersions", "{}"), type=dict[str, str])
        found = cls(
            hub=data.get("hub", ""),
            versions=versions,
            release=data.get("release", ""),
            taken=data.get("taken", ""),
            secrets=data.get("secrets") != "without",
        )
        if not (found.hub and found.version.isdigit()):
            raise ValueError("it does not say which hub it is of, or of which version")
        return found


class Writer:
    """Writes objects to a file that is open for bytes."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._file.write(_HEAD)
        self._first = True

    def add(self, item: Mapping[str, Any]) -> None:
        self._file.write(b"" if self._first else b",\n")
        self._file.write(msgspec.json.encode(item))
        self._first = False

    def end(self, origin: Origin, *, namespace: str) -> None:
        meta = {"name": RESTORED, "namespace": namespace}
        kind = {"apiVersion": "v1", "kind": "ConfigMap"}
        self.add({**kind, "metadata": meta, "data": origin.data()})
        self._file.write(_TAIL)
        self._file.flush()


@contextmanager
def private(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that its owner alone may read; it takes its name when all is written."""
    part = path.with_name(path.name + ".part")
    with suppress(FileNotFoundError):
        part.unlink()
    number = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        with os.fdopen(number, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        with suppress(FileNotFoundError):
            part.unlink()
        raise


def read(path: Path) -> Iterator[Manifest]:
    """Yield the objects of a backup in their order, the ConfigMap last.

    A file that somebody formatted otherwise, also as YAML, is read whole. Raises
    ConfigurationError.
    """
    last: Manifest = {}
    for item in _items(path):
        if last:
            yield last
        last = item
    meta = last.get("metadata") or {}
    if (last.get("kind"), meta.get("name")) != ("ConfigMap", RESTORED):
        raise ConfigurationError(f"{path}: it is cut off: its end is missing")
    yield last


def origin(data: Any, where: str) -> Origin:
    """Return what the data of the ConfigMap says. Raises ConfigurationError."""
    try:
        return Origin.of(msgspec.convert(data, dict[str, str]))
    except ValueError as e:
        raise ConfigurationError(f"{where}: {e}") from e


def _items(path: Path) -> Iterator[Manifest]:
    with path.open("rb") as file:
        if file.readline(len(_HEAD)) != _HEAD:
            yield from _whole(path)
            return
        for number, line in enumerate(file, start=2):
            text = line.rstrip(b"\n,")
            if text == b"]}":
                return
            try:
                found = msgspec.json.decode(text)
            except msgspec.DecodeError as e:
                raise ConfigurationError(f"{path}, line {number}: it is cut off or damaged") from e
            yield _manifest(path, number - 1, found)


def _whole(path: Path) -> Iterator[Manifest]:
    text = path.read_bytes()
    try:
        try:
            found = msgspec.json.decode(text)
        except msgspec.DecodeError:
            found = yaml.load(text, Loader=LOADER)  # noqa: S506 - a safe loader
    except (yaml.YAMLError, UnicodeDecodeError) as e:
        raise ConfigurationError(f"{path}: {_NO_BACKUP} ({clean(str(e))})") from e
    items = found.get("items") if isinstance(found, dict) else None
    if not isinstance(items, list) or found.get("kind") != "List":
        raise ConfigurationError(f"{path}: {_NO_BACKUP}")
    for number, each in enumerate(items, start=1):
        yield _manifest(path, number, each)


def _manifest(path: Path, number: int, found: Any) -> Manifest:
    meta = found.get("metadata") if isinstance(found, dict) else None
    named = isinstance(meta, dict) and isinstance(meta.get("name"), str) and meta["name"]
    if not named or not isinstance(found.get("kind"), str):
        raise ConfigurationError(f"{path}: item {number} is no object: it has no kind or no name")
    return dict(found)
