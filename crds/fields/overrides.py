"""What differs on some clusters: an author's overrides of a Workload, a cluster's own images.

`machinery.overrides` lays them over objects.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import Field

from crds.base import ATOMIC, PRESERVE, DnsLabel, DnsName, Model, Rule
from crds.fields.labels import ClusterSelector
from crds.names import GROUP

MOST_OVERRIDES = 32
MOST_OPERATIONS = 64
MOST_BYTES = 64 * 1024
"""Of all overrides of a Workload, as JSON."""

KEPT: Final = (
    ("apiVersion",),
    ("kind",),
    ("metadata", "name"),
    ("metadata", "namespace"),
    ("spec", "selector"),
    ("spec", "ordinals"),
    ("spec", "serviceName"),
)
"""Fields that no override may touch, beside the number of replicas."""
KEPT_TEXT = "is the same on every cluster: an override may not touch it"
MOST_IMAGES = 64
OURS_TEXT = f"labels and annotations of {GROUP} are Stowage's own; leave them out"

_KEPT_PATHS = tuple(f"/{'/'.join(path)}" for path in KEPT)
_OURS = f"{GROUP}~1"
"""How a JSON pointer writes the prefix of our labels and annotations."""


class PatchOperation(StrEnum):
    """The operations of a JSON patch that an override may have."""

    ADD = "add"
    REMOVE = "remove"
    REPLACE = "replace"
    TEST = "test"


def touches(path: str, kept: Iterable[str]) -> bool:
    """Return whether a JSON pointer is one of these, or above or below one."""
    return any(
        path == each or path.startswith(f"{each}/") or each.startswith(f"{path}/") for each in kept
    )


def cel_touches(path: str, kept: str) -> str:
    """Return the same in CEL, of two expressions: a pointer, and a list of pointers."""
    return (
        f"{kept}.exists(k, {path} == k || {path}.startsWith(k + '/') || k.startsWith({path} + '/'))"
    )


class OverrideTarget(Model):
    """The object of the spec that is patched."""

    kind: Annotated[str, Field(min_length=1, max_length=63)]
    """Its kind: Service, or that of one of spec.manifests."""
    name: DnsName
    """Its name."""


class JsonPatchOperation(Model):
    """One operation of RFC 6902."""

    rules = (
        Rule(
            field="path",
            text=KEPT_TEXT,
            cel=f"self.op == 'test' || !{cel_touches('self.path', str(list(_KEPT_PATHS)))}",
            holds=lambda o: o.op is PatchOperation.TEST or not touches(o.path, _KEPT_PATHS),
        ),
        Rule(
            field="path",
            text=OURS_TEXT,
            cel=f"!self.path.contains('{_OURS}')",
            holds=lambda o: _OURS not in o.path,
        ),
    )

    op: PatchOperation
    """add, remove, replace or test."""
    path: Annotated[str, Field(min_length=1, max_length=512, pattern="^/")]
    """A JSON pointer, such as /spec/template/spec/containers/0/image."""
    value: Annotated[Any, Field(json_schema_extra={PRESERVE: True})] = None
    """The value; not needed to remove something."""


class ClusterOverride(Model):
    """A patch of one object of the Workload on the clusters that a selector matches."""

    rules = (
        Rule(
            field="patch",
            text="give exactly one of patch and jsonPatch",
            cel="has(self.patch) != has(self.jsonPatch)",
            holds=lambda o: (o.patch is None) != (o.json_patch is None),
        ),
    )

    name: DnsLabel
    """Its name, by which messages call it."""
    cluster_selector: ClusterSelector
    """The MemberClusters, by their labels; an empty one is every cluster."""
    target: OverrideTarget | None = None
    """The Service or one of the manifests; the template or targetDeployment when unset."""
    patch: Annotated[dict[str, Any], Field(max_length=64)] | None = None
    """A strategic merge patch of a built-in kind, an RFC 7386 merge patch of any other.

    In its strings $(stowage.cluster) is the cluster's name, $(stowage.label:KEY) one of its labels,
    $(stowage.carried:NAME) a value of movement.carry, without which the override is left out.
    """
    json_patch: (
        Annotated[
            list[JsonPatchOperation],
            Field(
                min_length=1,
                max_length=MOST_OPERATIONS,
                json_schema_extra=ATOMIC,
            ),
        ]
        | None
    ) = None
    """A JSON patch; its values may have the same variables."""


Reference = Annotated[
    str, Field(min_length=1, max_length=255, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/-]*[A-Za-z0-9]$")
]
"""A registry and a part of a path, such as docker.io/library."""


class ImageRule(Model):
    """Another place for some images."""

    from_: Annotated[Reference, Field(alias="from")]
    """Whole parts of the normalised reference, the registry first; `nginx` is on docker.io/library.
    """
    to: Reference
    """What stands in place of it."""
