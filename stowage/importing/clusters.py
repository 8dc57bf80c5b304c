"""Which clusters a rule of another system means, and the registration stubs of its clusters.

`Clusters` is a conjunction: labels, expressions and names all hold. It becomes terms of a
clusterAffinity, or selectors; names are values of the label `stowage.dev/cluster`, at most 64 of
them in one requirement. Where the input has the clusters themselves, `Fleet` says which ones match.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crds.names import API_VERSION, LABEL_CLUSTER, LABEL_PROVIDER
from machinery.types.selectors import label_value, parse_label_selector

Json = Mapping[str, Any]
MOST_VALUES = 64
REGION, ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True)
class Clusters:
    """A conjunction over the labels of clusters; without a part it is every cluster."""

    labels: tuple[tuple[str, str], ...] = ()
    expressions: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    names: tuple[str, ...] | None = None
    """None: any name."""
    excluded: tuple[str, ...] = ()

    @property
    def every(self) -> bool:
        return not (self.labels or self.expressions or self.excluded) and self.names is None

    @property
    def by_name(self) -> bool:
        return self.names is not None and not (self.labels or self.expressions)

    def both(self, other: Clusters) -> Clusters | None:
        """Return the clusters of both; None where there can be none."""
        labels = dict(self.labels)
        for key, value in other.labels:
            if labels.setdefault(key, value) != value:
                return None
        names: tuple[str, ...] | None = self.names if other.names is None else other.names
        if self.names is not None and other.names is not None:
            names = tuple(each for each in self.names if each in other.names)
        excluded = tuple(dict.fromkeys((*self.excluded, *other.excluded)))
        if names is not None and not set(names) - set(excluded):
            return None
        expressions = tuple(dict.fromkeys((*self.expressions, *other.expressions)))
        return Clusters(tuple(labels.items()), expressions, names, excluded)

    def selectors(self) -> list[dict[str, Any]]:
        """Return ClusterSelectors that together mean these clusters; `{}` is every one."""
        parts: list[dict[str, Any]] = []
        left = None if self.names is None else [n for n in self.names if n not in self.excluded]
        chunks = [None] if left is None else _chunks(left)
        for chunk in chunks:
            rules = [_requirement(*each) for each in self.expressions]
            if chunk is not None:
                rules.append(_requirement(LABEL_CLUSTER, "In", chunk))
            elif self.excluded:
                rules += [
                    _requirement(LABEL_CLUSTER, "NotIn", each) for each in _chunks(self.excluded)
                ]
            made: dict[str, Any] = {"matchLabels": dict(self.labels)} if self.labels else {}
            parts.append(made | ({"matchExpressions": rules} if rules else {}))
        return parts

    def matches(self, name: str, labels: Json | None) -> bool | None:
        """Whether a cluster is one of these; None where its labels are not known, but count."""
        if name in self.excluded or (self.names is not None and name not in self.names):
            return False
        if labels is None:
            return None if self.labels or self.expressions else True
        wanted = {"matchLabels": dict(self.labels)}
        rules = [_requirement(*each) for each in self.expressions]
        return parse_label_selector({**wanted, "matchExpressions": rules}).matches(
            {**labels, LABEL_CLUSTER: name}
        )


EVERY = Clusters()


def by_names(names: Iterable[str]) -> Clusters:
    return Clusters(names=tuple(dict.fromkeys(names)))


def by_labels(selector: Json | None, *, alias: Mapping[str, str] | None = None) -> Clusters:
    """Return the clusters of a LabelSelector; `alias` renames keys."""
    found, called = selector or {}, alias or {}
    labels = tuple((called.get(k, k), str(v)) for k, v in (found.get("matchLabels") or {}).items())
    rules = tuple(
        (
            called.get(each.get("key", ""), each.get("key", "")),
            str(each.get("operator") or "In"),
            tuple(str(value) for value in each.get("values") or ()),
        )
        for each in found.get("matchExpressions") or ()
    )
    return Clusters(labels, rules)


def _requirement(key: str, operator: str, values: Sequence[str]) -> dict[str, Any]:
    listed = {"values": list(values)} if values else {}
    return {"key": key, "operator": operator, **listed}


def _chunks(names: Sequence[str]) -> list[Sequence[str]]:
    return [names[at : at + MOST_VALUES] for at in range(0, len(names), MOST_VALUES)]


def affinity(terms: Sequence[Clusters]) -> dict[str, Any]:
    """Return a required clusterAffinity of ORed terms, as part of a spec; none for every one."""
    if not terms or any(each.every for each in terms):
        return {}
    made = [selector for each in terms for selector in each.selectors()]
    rule = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"clusterAffinity": {rule: {"clusterSelectorTerms": made}}}


NOWHERE = Clusters(expressions=((LABEL_CLUSTER, "DoesNotExist", ()),))
"""No cluster at all: each one has the label."""


# --- the clusters of the input --------------------------------------------------------------------


@dataclass(slots=True)
class Fleet:
    """The clusters that the input has, by name, with their labels as our rules read them."""

    labels: dict[str, dict[str, str]] = field(default_factory=dict)

    def among(self, terms: Sequence[Clusters]) -> list[str] | None:
        """Return the names of the clusters that any of the terms means; None if not known."""
        if all(each.by_name for each in terms) and terms:
            named = [name for each in terms for name in each.names or ()]
            return [n for n in dict.fromkeys(named) if any(t.matches(n, None) for t in terms)]
        if not self.labels:
            return None
        return [
            name
            for name, labels in sorted(self.labels.items())
            if not terms or any(each.matches(name, labels) for each in terms)
        ]

    def matches(self, clusters: Clusters, name: str) -> bool | None:
        return clusters.matches(name, self.labels.get(name))

    def unknown(self, terms: Iterable[Clusters]) -> str:
        """Return what to say of the names that no cluster of the input has; empty for none."""
        named = (name for each in terms for name in (*(each.names or ()), *each.excluded))
        missing = [name for name in dict.fromkeys(named) if name not in self.labels]
        listed = ", ".join(missing[:5]) + (" and others" if len(missing) > 5 else "")
        said = f"no cluster of the input is {listed}: the hub needs MemberClusters of that name"
        return said if missing else ""


def stub(name: str, labels: Json, taints: Sequence[Json], *, provider: str = "") -> dict[str, Any]:
    """Return a MemberCluster with labels and taints, and without a credential."""
    spec: dict[str, Any] = {}
    kept = [
        {k: each[k] for k in ("key", "value", "effect") if each.get(k) not in (None, "")}
        for each in taints
        if each.get("effect") in _EFFECTS and each.get("key")
    ]
    if kept:
        spec["taints"] = kept
    if provider:
        spec["provider"] = label_value(provider.lower())
    metadata: dict[str, Any] = {"name": name}
    if labels:
        metadata["labels"] = dict(sorted(labels.items()))
    return {
        "apiVersion": API_VERSION,
        "kind": "MemberCluster",
        "metadata": metadata,
        "spec": spec,
    }


def facts(body: Json) -> dict[str, str]:
    """Return the labels of a stub as rules read them."""
    labels = dict(body["metadata"].get("labels", {}))
    if provider := body["spec"].get("provider"):
        labels[LABEL_PROVIDER] = provider
    return labels
