"""The objects of the input: read as `stowage plan` reads them, bounded, and indexed by name.

A file may be built to do harm: aliases that unfold to gigabytes, nesting without end, values that
JSON does not have. This module refuses these, so its callers need no such checks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from crds.names import GROUP
from machinery.errors import ConfigurationError
from machinery.types.selectors import LabelSelector, parse_label_selector
from stowage.fleet.manifests import Document

MOST_DEPTH = 64
MOST_VALUES = 200_000
MOST_CHARACTERS = 8 * 2**20
"""The bounds of one document, with its aliases unfolded; an API server accepts less."""
MOST_DOCUMENTS = 10_000


@dataclass(eq=False, slots=True)
class Source:
    """An object of the input; `taken` once something was made of it."""

    document: Document
    namespace: str
    """Its own, or the one of the command line."""
    taken: bool = False
    group: str = field(init=False)
    """The API group; empty for the core group."""

    def __post_init__(self) -> None:
        group, slash, _ = str(self.document.body.get("apiVersion") or "").partition("/")
        self.group = group if slash else ""

    @property
    def kind(self) -> str:
        return self.document.kind

    @property
    def name(self) -> str:
        return self.document.name

    @property
    def spec(self) -> dict[str, Any]:
        return self._mapping("spec")

    @property
    def labels(self) -> dict[str, Any]:
        return self._mapping("metadata", "labels")

    def _mapping(self, *path: str) -> dict[str, Any]:
        found = dig(self.document.body, *path)
        return found if isinstance(found, dict) else {}

    @property
    def cluster_scoped(self) -> bool:
        """Whether its kind has no namespace, as far as that is known."""
        return _cluster_scoped(self.group, self.kind)

    def of(self, group: str, *kinds: str) -> bool:
        return self.group == group and self.kind in kinds


class Bundle:
    """All objects of the input, by kind, namespace and name, in whatever order they came.

    Raises ConfigurationError for an object that the input holds twice.
    """

    def __init__(self, documents: Sequence[Document], namespace: str) -> None:
        self.namespace = namespace
        found = [Source(each, _namespace(each, namespace)) for each in documents]
        self.sources = sorted(found, key=_key)
        self._by_name: dict[tuple[str, str, str, str], Source] = {}
        for each in self.sources:
            before = self._by_name.setdefault(_key(each), each)
            if before is not each:
                raise each.document.error(f"metadata.name: is in {before.document.place} already")

    def of(self, group: str, *kinds: str) -> Iterator[Source]:
        return (each for each in self.sources if each.of(group, *kinds))

    def find(self, group: str, kind: str, namespace: str, name: str) -> Source | None:
        return self._by_name.get((group, kind, namespace, name))

    def rest(self) -> Iterator[Source]:
        """Yield the objects that are not taken so far."""
        return (each for each in self.sources if not each.taken)


_SET = re.compile(r"\s*([^\s!=,()]+)\s+(in|notin)\s*\(([^()]*)\)\s*(?:,|$)")
_PLAIN = re.compile(r"\s*(!?)\s*([^\s!=,()]+)\s*(?:(==|=|!=)\s*([^\s!=,()]*))?\s*(?:,|$)")
_SET_OPERATORS = {"in": "In", "notin": "NotIn"}


def text_selector(text: str) -> LabelSelector:
    """Return a label selector as kubectl takes it: `a=b,c!=d,e in (f,g),!h`. Raises ValueError."""
    rules, rest = [], text
    while rest:
        if found := _SET.match(rest):
            values = [each.strip() for each in found[3].split(",")]
            rules.append({"key": found[1], "operator": _SET_OPERATORS[found[2]], "values": values})
        elif (found := _PLAIN.match(rest)) and not (found[1] and found[3]):
            rules.append(_plain(*found.groups()))
        else:
            raise ValueError(f"{rest!r:.60} is no label selector such as a=b,c in (d,e)")
        rest = rest[found.end() :]
    return parse_label_selector({"matchExpressions": rules})


def _plain(absent: str, key: str, sign: str | None, value: str | None) -> dict[str, Any]:
    if sign is None:
        return {"key": key, "operator": "DoesNotExist" if absent else "Exists"}
    return {"key": key, "operator": "NotIn" if sign == "!=" else "In", "values": [value or ""]}


def dig(value: Any, *path: str) -> Any:
    """Return the value at a path of nested objects; None where the path leads nowhere."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def bundled(documents: Sequence[Document], namespace: str) -> Bundle:
    """Return the objects. Raises ConfigurationError for one that is too large, or has no form."""
    if not documents:
        raise ConfigurationError("there is no object in the input")
    if len(documents) > MOST_DOCUMENTS:
        raise ConfigurationError(f"more than {MOST_DOCUMENTS} objects: import them in parts")
    for each in documents:
        bounded(each)
        formed(each)
    return Bundle(documents, namespace)


def formed(document: Document) -> None:
    """Raise ConfigurationError for a document without apiVersion, kind or name."""
    body = document.body
    for key in ("apiVersion", "kind"):
        if not isinstance(body.get(key), str) or not body[key]:
            raise document.error(f"{key}: is missing")
    metadata = body.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        raise document.error("metadata.name: is missing")
    if not isinstance(metadata.get("namespace") or "", str):
        raise document.error("metadata.namespace: must be a text")


def bounded(document: Document) -> None:
    """Raise ConfigurationError for a document that is too deep, too large unfolded, or no JSON."""
    values = characters = 0
    rest: list[tuple[Any, int]] = [(document.body, 1)]
    while rest:
        value, depth = rest.pop()
        values += 1
        if isinstance(value, dict):
            characters += sum(_key_length(document, key) for key in value)
            rest += [(each, depth + 1) for each in value.values()]
        elif isinstance(value, list):
            rest += [(each, depth + 1) for each in value]
        elif isinstance(value, str):
            characters += len(value)
        elif not _json(value):
            raise document.error(f"{type(value).__name__} {value!r:.40}: JSON has no such value")
        if depth > MOST_DEPTH:
            raise document.error(f"nested more than {MOST_DEPTH} levels deep")
        if values + len(rest) > MOST_VALUES or characters > MOST_CHARACTERS:
            raise document.error("too large, once its aliases are unfolded")


def _key_length(document: Document, key: Any) -> int:
    if not isinstance(key, str):
        raise document.error(f"the key {key!r:.40} must be a text: write it in quotes")
    return len(key)


def _json(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or (isinstance(value, int) and abs(value) < 2**63)


def _namespace(document: Document, default: str) -> str:
    group, slash, _ = str(document.body["apiVersion"]).partition("/")
    if _cluster_scoped(group if slash else "", document.kind):
        return ""
    return str(document.body["metadata"].get("namespace") or default)


CLUSTER_SCOPED = frozenset(
    {
        "APIService",
        "CSIDriver",
        "CSINode",
        "ClusterRole",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
        "DeviceClass",
        "FlowSchema",
        "IngressClass",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "MutatingWebhookConfiguration",
        "Namespace",
        "Node",
        "PersistentVolume",
        "PriorityClass",
        "PriorityLevelConfiguration",
        "RuntimeClass",
        "StorageClass",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
        "VolumeAttachment",
    }
)
"""Kinds of Kubernetes that have no namespace."""
_OF_PEERS = {
    "cluster.karmada.io": ("Cluster",),
    "config.karmada.io": (
        "ResourceInterpreterCustomization",
        "ResourceInterpreterWebhookConfiguration",
    ),
    "policy.karmada.io": (
        "ClusterPropagationPolicy",
        "ClusterOverridePolicy",
        "ClusterTaintPolicy",
    ),
    "cluster.open-cluster-management.io": ("ManagedCluster", "ManagedClusterSet"),
    "cluster.kubernetes-fleet.io": ("MemberCluster",),
    "placement.kubernetes-fleet.io": (
        "ClusterResourcePlacement",
        "ClusterResourceOverride",
        "ClusterResourceEnvelope",
        "ClusterStagedUpdateStrategy",
        "ClusterStagedUpdateRun",
    ),
    GROUP: ("MemberCluster", "WorkloadKind"),
}
"""Kinds without a namespace that rules or clusters of the systems that can be imported are."""


def _cluster_scoped(group: str, kind: str) -> bool:
    builtin = "." not in group or group.endswith(".k8s.io")
    return (builtin and kind in CLUSTER_SCOPED) or kind in _OF_PEERS.get(group, ())


def _key(source: Source) -> tuple[str, str, str, str]:
    return (source.group, source.kind, source.namespace, source.name)
