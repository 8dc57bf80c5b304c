"""An object that we wrote on a member, as an informer of that member keeps it.

The apply side compares it with what it would write, the status side reads its `status`, and the
session reads its owners, to know whose turn it is when it changes. One generic struct for every
kind, because the kinds of `spec.manifests` are not known in advance.
"""

from __future__ import annotations

from typing import Any

import msgspec

from crds.names import OWNER_PREFIX
from machinery.objects import Key, Meta, Object

OWNER_INDEX = "owner"
"""The name of the index of a member's informers: our objects by the UIDs of their owners."""


class ManagedObject(Object, frozen=True):
    """A member's object with the label `stowage.dev/managed`; fields outside these are not kept."""

    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    status: dict[str, Any] = msgspec.field(default_factory=dict)


def owners(metadata: Meta) -> dict[str, Key]:
    """The owning Workloads by UID: {uid: (namespace, name)}.

    An annotation whose value is not `namespace/name` was not written by us and is skipped.
    """
    found: dict[str, Key] = {}
    for annotation, value in metadata.annotations.items():
        namespace, slash, name = value.partition("/")
        if annotation.startswith(OWNER_PREFIX) and slash and namespace and name:
            found[annotation.removeprefix(OWNER_PREFIX)] = (namespace, name)
    return found
