"""The part of every Kubernetes object that all our code reads, as msgspec structs.

Build every `msgspec.json.Decoder` at import time: concurrent first decodes of nested types crash.
Never write an object back from a struct: writes are patches.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

Key: TypeAlias = tuple[str, str]
"""(namespace, name); the namespace is empty for a cluster-scoped object."""


class OwnerReference(msgspec.Struct, rename="camel", frozen=True, gc=False):
    kind: str
    name: str
    uid: str
    api_version: str = ""
    controller: bool = False


class Meta(msgspec.Struct, rename="camel", frozen=True):
    """Times stay text."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: list[str] = []
    owner_references: list[OwnerReference] = []

    @property
    def key(self) -> Key:
        return (self.namespace, self.name)

    @property
    def deleting(self) -> bool:
        return self.deletion_timestamp is not None

    def controller_ref(self, api_version: str, kind: str) -> dict[str, Any]:
        """Return the controller reference for an object that is garbage-collected with this one."""
        return {
            "apiVersion": api_version,
            "kind": kind,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
        }


class Object(msgspec.Struct, rename="camel", frozen=True):
    metadata: Meta = msgspec.field(default_factory=Meta)
    kind: str = ""
    api_version: str = ""


MOST_SHARED = 32_768
"""Beyond, the least recently used is dropped."""


@lru_cache(maxsize=MOST_SHARED)
def shared(text: str) -> str:
    """Return the first copy of the text."""
    return text
