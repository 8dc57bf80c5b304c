"""The objects that a rule of another system places, and the Workloads that they become."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from stowage.fleet.manifests import Document
from stowage.importing.reading import Source, dig

AUTOSCALERS = ("HorizontalPodAutoscaler", "ScaledObject")


@dataclass(eq=False, slots=True)
class Piece:
    """An object that is placed: a document of the input, or a part of one."""

    source: Source
    body: dict[str, Any]
    path: str = ""
    """Where it stands in the document; empty for the document itself."""
    namespace: str = ""
    key_in: str = ""
    """Its key in the envelope that holds it, if one does."""

    @property
    def group(self) -> str:
        return str(self.body.get("apiVersion") or "").rpartition("/")[0]

    @property
    def kind(self) -> str:
        return str(self.body.get("kind") or "")

    @property
    def name(self) -> str:
        return str(dig(self.body, "metadata", "name") or "")

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.group, self.kind, self.namespace, self.name

    def at(self, field: str) -> str:
        return f"{self.path}.{field}" if self.path and field else self.path or field

    @property
    def pod(self) -> dict[str, Any]:
        found = dig(self.body, "spec", "template")
        return found if isinstance(found, dict) else {}


def piece_of(source: Source) -> Piece:
    return Piece(source, source.document.body, "", source.namespace)


@dataclass(eq=False, slots=True)
class Placed:
    """A Workload that was made, and the piece in it that runs replicas, if there is one."""

    source: Source
    body: dict[str, Any]
    main: Piece | None
    suffix: str
    rule: Source
    """The rule that places it."""
    documents: list[Document]
    """All that says something about it: the rule, its objects, and what changes them."""
    pieces: list[Piece] = field(default_factory=list)
    secrets: list[Piece] = field(default_factory=list)
    """The Secrets that go along with it from the hub."""

    @property
    def objects(self) -> list[Piece]:
        """All that it brings to a cluster, what runs replicas first."""
        return [*([self.main] if self.main else []), *self.pieces, *self.secrets]
