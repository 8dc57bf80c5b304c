"""The nodes that a pod may use, by labels and taints, as kube-scheduler decides. Pure.

A member publishes few node labels and no node names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from machinery.types.selectors import LabelSelector, Requirement, parse_label_selector
from machinery.types.taints import Taint, Toleration

HARD = frozenset({"NoSchedule", "NoExecute"})
SOFT = frozenset({"PreferNoSchedule"})
HOST = "kubernetes.io/hostname"

NodeTerm: TypeAlias = tuple[Requirement, ...]
"""Requirements that hold together; empty if a term requires nothing that is published."""
EVERY_TAINT = (Toleration(operator="Exists"),)


class _Term(msgspec.Struct, rename="camel"):
    match_expressions: list[Requirement] | None = None
    match_fields: list[Requirement] | None = None


class _Terms(msgspec.Struct, rename="camel"):
    node_selector_terms: list[_Term] | None = None


class _NodeAffinity(msgspec.Struct):
    required: _Terms | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class _PodTerm(msgspec.Struct, rename="camel"):
    topology_key: str = ""
    label_selector: dict[str, Any] | None = None
    namespaces: list[str] | None = None
    namespace_selector: dict[str, Any] | None = None
    mismatch_label_keys: list[str] | None = None


class _PodAntiAffinity(msgspec.Struct):
    required: list[_PodTerm] | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(msgspec.Struct, rename="camel"):
    """Required node affinity, and required anti-affinity."""

    node_affinity: _NodeAffinity | None = None
    pod_anti_affinity: _PodAntiAffinity | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """The nodes for a pod: `labels` and one of `terms` must match; None means no node affinity.

    Args:
        labels: its nodeSelector.
        tolerations: of the nodes' taints.
        terms: its required node affinity, of which one must match. Without a term none does.
        parts: of a replica of several pods, these, which have their own places each.
    """

    labels: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    terms: tuple[NodeTerm, ...] | None = None
    parts: tuple[Part, ...] = ()

    @staticmethod
    def of(pod: Mapping[str, Any]) -> Place:
        tolerations = pod.get("tolerations") or []
        return Place(
            tuple(sorted((pod.get("nodeSelector") or {}).items())),
            tuple(msgspec.convert(tolerations, list[Toleration])) if tolerations else (),
            _terms(pod),
        )

    @property
    def anywhere(self) -> bool:
        """Whether labels of nodes do not matter."""
        return not self.labels and self.terms is None and all(p.place.anywhere for p in self.parts)

    def bears(self, taint: Taint) -> bool:
        return taint.effect not in HARD or any(each.tolerates(taint) for each in self.tolerations)

    def takes(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these published labels may hold the pod."""
        if any(labels.get(key, value) != value for key, value in self.labels):
            return False
        return self.terms is None or any(
            all(each.key not in labels or each.matches(labels) for each in term)
            for term in self.terms
        )


@dataclass(frozen=True, slots=True)
class Part:
    """Pods of one sort that a replica has."""

    name: str
    count: int
    request: tuple[tuple[str, int], ...]
    place: Place


def together(parts: Iterable[Part]) -> tuple[dict[str, int], Place]:
    """Return the request of all pods of a replica, and their place: the largest pods first."""
    known = [each for each in parts if each.count and each.request]
    total: dict[str, int] = {}
    for each in known:
        for resource, amount in each.request:
            total[resource] = total.get(resource, 0) + amount * each.count
    if len(known) == 1 and known[0].count == 1:
        return total, known[0].place

    def size(part: Part) -> float:
        return max(amount / total[resource] for resource, amount in part.request)

    return total, Place(parts=tuple(sorted(known, key=size, reverse=True)))


def _affinity(pod: Mapping[str, Any]) -> Affinity | None:
    given = pod.get("affinity")
    return msgspec.convert(given, Affinity) if given else None


def _terms(pod: Mapping[str, Any]) -> tuple[NodeTerm, ...] | None:
    affinity = _affinity(pod)
    if affinity is None or affinity.node_affinity is None:
        return None
    if (required := affinity.node_affinity.required) is None:
        return None
    asked = required.node_selector_terms or ()
    # A term without requirements matches no node.
    return tuple(
        tuple(each.match_expressions or ())
        for each in asked
        if each.match_expressions or each.match_fields
    )


def apart(pod: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    affinity = _affinity(pod)
    if affinity is None or affinity.pod_anti_affinity is None:
        return False
    return any(_against(each, labels) for each in affinity.pod_anti_affinity.required or ())


def _against(term: _PodTerm, labels: Mapping[str, str]) -> bool:
    if term.topology_key != HOST or term.label_selector is None:
        return False
    own = not term.namespaces and term.namespace_selector is None
    if not own and term.namespace_selector != {}:
        return False  # the namespaces are not known
    if any(key in labels for key in term.mismatch_label_keys or ()):
        return False
    try:
        selector: LabelSelector = parse_label_selector(term.label_selector)
    except ValueError:
        return False  # the member refuses the pod, and says why
    return selector.matches(labels)
