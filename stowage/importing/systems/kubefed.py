"""KubeFed: federated objects with their placement and overrides, and what divides their replicas.

A federated object holds its template without a kind: the kind is that of its name, or of a
FederatedTypeConfig. With `placement.clusters`, be it empty, the selector counts for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from stowage.importing.clusters import (
    EVERY,
    NOWHERE,
    Clusters,
    Fleet,
    affinity,
    by_labels,
    by_names,
    stub,
)
from stowage.importing.differing import Body, Change, operated
from stowage.importing.fates import METADATA, Table, carried, lost, noted, whole
from stowage.importing.pieces import Piece
from stowage.importing.placing import Placement, Placer
from stowage.importing.reading import Source, dig
from stowage.importing.workloads import Conversion, System

Json = Mapping[str, Any]
TYPES, CORE, SCHEDULING = "types.kubefed.io", "core.kubefed.io", "scheduling.kubefed.io"
_KNOWN = {
    "ClusterRole": "rbac.authorization.k8s.io/v1",
    "ClusterRoleBinding": "rbac.authorization.k8s.io/v1",
    "ConfigMap": "v1",
    "CronJob": "batch/v1",
    "DaemonSet": "apps/v1",
    "Deployment": "apps/v1",
    "HorizontalPodAutoscaler": "autoscaling/v2",
    "Ingress": "networking.k8s.io/v1",
    "Job": "batch/v1",
    "Namespace": "v1",
    "PersistentVolumeClaim": "v1",
    "PodDisruptionBudget": "policy/v1",
    "ReplicaSet": "apps/v1",
    "Role": "rbac.authorization.k8s.io/v1",
    "RoleBinding": "rbac.authorization.k8s.io/v1",
    "Secret": "v1",
    "Service": "v1",
    "ServiceAccount": "v1",
    "StatefulSet": "apps/v1",
}
"""The version of kinds that are federated without a FederatedTypeConfig in the input."""
SHAPE = {
    "spec": {
        "template": "object",
        "placement": {
            "clusters": [{"name": "string"}],
            "clusterSelector": {
                "matchLabels": {"*": "string"},
                "matchExpressions": [{"key": "string", "operator": "string", "values": ["string"]}],
            },
        },
        "overrides": [
            {
                "clusterName": "string",
                "clusterOverrides": [{"op": "string", "path": "string", "value": "any"}],
            }
        ],
        "retainReplicas": "boolean",
    }
}
"""Of every federated kind: `kubefedctl enable` writes their definitions from it."""
_MOST_WEIGHT = 100

FEDERATED: Table = {
    **METADATA,
    "spec.template": carried("the Workload that is made"),
    "spec.placement.clusters": carried("clusterAffinity: stowage.dev/cluster"),
    "spec.placement.clusterSelector": carried("clusterAffinity; {} is every cluster"),
    "spec.overrides.clusterName": carried("clusterSelector of the override"),
    "spec.overrides.clusterOverrides": carried("jsonPatch; without op: replace"),
    "spec.retainReplicas": lost("the number of replicas on a member is the Workload's"),
}
TABLES: Mapping[tuple[str, str], Table] = {
    (CORE, "KubeFedCluster"): {
        **METADATA,
        "metadata.labels": carried("metadata.labels of the MemberCluster"),
        **{
            f"spec.{field}": noted(
                "is no credential to take over: `stowage join` makes an account of its own"
            )
            for field in (
                "apiEndpoint",
                "caBundle",
                "secretRef",
                "proxyURL",
                "disabledTLSValidations",
            )
        },
    },
    (SCHEDULING, "ReplicaSchedulingPreference"): {
        **METADATA,
        "spec.targetKind": carried("the Workload that is divided"),
        "spec.totalReplicas": carried("replicas"),
        "spec.clusters": carried("distributionWeights: weight, minReplicas, maxReplicas"),
        "spec.rebalance": noted(
            "what runs moves by `stowage rebalance`, or spec.movement.rebalanceAfter"
        ),
        "spec.intersectWithClusterSelector": carried("clusterAffinity"),
    },
    (CORE, "FederatedTypeConfig"): whole(
        noted("says which kind a federated kind is of; read and left out", quiet=True)
    ),
    (CORE, "KubeFedConfig"): whole(noted("installs KubeFed itself; left out", quiet=True)),
    (CORE, "PropagatedVersion"): whole(noted("is KubeFed's own record; left out", quiet=True)),
    (CORE, "ClusterPropagatedVersion"): whole(
        noted("is KubeFed's own record; left out", quiet=True)
    ),
    (CORE, "FederatedServiceStatus"): whole(
        noted("is what the members' Services have seen; left out", quiet=True)
    ),
}


def convert(into: Conversion) -> None:
    """Make MemberClusters and Workloads of KubeFed's objects."""
    fleet = Fleet()
    for source in into.bundle.of(CORE, "KubeFedCluster"):
        body = stub(source.name, source.labels, ())
        into.register(source, body, fleet)
    reader = _Reader(into, fleet)
    placer = Placer(into, fleet, lambda key: "kubefed.io/" in key)
    for group in reader.groups():
        placer.place(group)
    reader.unused()
    placer.done()


@dataclass(slots=True)
class _Federated:
    """A federated object as the object that it is on each cluster."""

    source: Source
    piece: Piece
    terms: tuple[Clusters, ...]
    preference: Source | None


class _Reader:
    def __init__(self, into: Conversion, fleet: Fleet) -> None:
        self._into, self._fleet = into, fleet
        self._used: set[int] = set()
        self._kinds = dict(self._configured())
        self._preferences = {
            (each.namespace, str(each.spec.get("targetKind")), each.name): each
            for each in into.bundle.of(SCHEDULING, "ReplicaSchedulingPreference")
        }

    def _configured(self) -> Iterator[tuple[str, tuple[str, str]]]:
        for each in self._into.bundle.of(CORE, "FederatedTypeConfig"):
            target, kind = each.spec.get("targetType"), dig(each.spec, "federatedType", "kind")
            group, version = dig(target, "group") or "", dig(target, "version") or ""
            api_version = f"{group}/{version}" if group else str(version)
            yield str(kind), (api_version, str(dig(target, "kind")))

    def groups(self) -> Iterator[Placement]:
        """Yield the placements: objects of one namespace that go to the same clusters together."""
        together: dict[tuple[Any, ...], list[_Federated]] = {}
        for source in self._into.bundle.sources:
            if source.group == TYPES and (found := self._federated(source)) is not None:
                alone = id(found.preference) if found.preference else 0
                together.setdefault((source.namespace, found.terms, alone), []).append(found)
        for listed in together.values():
            first = listed[0]
            by_piece = {id(each.piece): each for each in listed}
            pieces = [each.piece for each in listed]
            yield Placement(
                first.source,
                first.piece.name,
                first.source.namespace,
                self._rules(first),
                first.terms,
                pieces,
                partial(self._changes, by_piece),
                suffix=first.piece.kind.lower(),
            )

    def _federated(self, source: Source) -> _Federated | None:
        known = self._kinds.get(source.kind)
        plain = source.kind.removeprefix("Federated")
        if known is None and plain in _KNOWN:
            known = (_KNOWN[plain], plain)
        if known is None:
            text = f"which kind it holds is said by a FederatedTypeConfig of {source.kind}: add it"
            self._into.notes.lost(source.document, "", text)
            return None
        template = dict(source.spec.get("template") or {})
        metadata = dict(template.pop("metadata", None) or {})
        metadata["name"] = source.namespace if plain == "Namespace" and not metadata.get("name") \
            and source.namespace == source.name else source.name  # fmt: skip
        body = {"apiVersion": known[0], "kind": known[1], "metadata": metadata, **template}
        space = "" if known[1] in ("Namespace", "ClusterRole", "ClusterRoleBinding") \
            else source.namespace  # fmt: skip
        piece = Piece(source, body, "spec.template", space)
        return _Federated(source, piece, self._terms(source), self._preferences.get(
            (source.namespace, source.kind, source.name)))  # fmt: skip

    def _terms(self, source: Source) -> tuple[Clusters, ...]:
        own = _placed(source.spec.get("placement") or {})
        if text := self._fleet.unknown([own]):
            where = (source.document, "spec.placement.clusters")
            self._into.notes.note(*where, text, becomes="clusterAffinity")
        space = self._into.bundle.find(
            TYPES, "FederatedNamespace", source.namespace, source.namespace
        )
        if space is None or space is source:
            return (own,)
        both = own.both(_placed(space.spec.get("placement") or {}))
        return (NOWHERE if both is None else both,)

    def _rules(self, found: _Federated) -> dict[str, Any]:
        if found.preference is None:
            return {"distribution": "Duplicated", **affinity(found.terms)}
        self._used.add(id(found.preference))
        return self._divided(found, found.preference)

    def _divided(self, found: _Federated, source: Source) -> dict[str, Any]:
        spec = source.spec
        made: dict[str, Any] = {
            "distribution": "Divided",
            "replicas": spec.get("totalReplicas") or 0,
        }
        rules = spec.get("clusters") or {"*": {"weight": 1}}
        weights = []
        most = max((int(r.get("weight") or 0) for r in rules.values()), default=0)
        if most > _MOST_WEIGHT:
            text = f"weights above {_MOST_WEIGHT} are not known here: divide them"
            self._into.notes.lost(source.document, "spec.clusters", text)
        for name, rule in sorted(rules.items(), key=lambda each: (each[0] == "*", each[0])):
            weight, least = int(rule.get("weight") or 0), int(rule.get("minReplicas") or 0)
            largest = rule.get("maxReplicas")
            if not weight:
                largest = least if largest is None else min(least, largest)
            bounds = {"minReplicas": least or None, "maxReplicas": largest}
            clusters = EVERY if name == "*" else by_names([name])
            for selector in clusters.selectors():
                each = {"clusterSelector": selector, "weight": min(max(weight, 1), _MOST_WEIGHT)}
                weights.append(each | {k: v for k, v in bounds.items() if v is not None})
        made["distributionWeights"] = weights
        text = "shares differ by one from KubeFed's where weights leave replicas over"
        self._into.notes.note(source.document, "spec.clusters", text, becomes="distributionWeights")
        if spec.get("intersectWithClusterSelector"):
            return made | affinity(found.terms)
        self._into.notes.note(
            found.source.document,
            "spec.placement",
            "the ReplicaSchedulingPreference says the clusters",
        )
        return made

    def _changes(self, by_piece: Mapping[int, _Federated], piece: Piece) -> Sequence[Change]:
        found = by_piece[id(piece)]
        made = []
        for n, each in enumerate(found.source.spec.get("overrides") or ()):
            name = str(each.get("clusterName"))
            listed = [_operation(o) for o in each.get("clusterOverrides") or ()]
            if found.preference is not None:
                listed = [o for o in listed if o["path"] != "/spec/replicas"]
            make = partial(_overridden, listed)
            path = f"spec.overrides[{n}].clusterOverrides"
            change = Change((by_names([name]),), make, found.source.document, path, name)
            made.append(change)
        return made

    def unused(self) -> None:
        for each in self._preferences.values():
            if id(each) not in self._used:
                what = f"{each.spec.get('targetKind')} {each.name}"
                text = f"no {what} is in the input: add it"
                self._into.notes.lost(each.document, "spec.targetKind", text)


def _placed(said: Json) -> Clusters:
    names = said.get("clusters")
    if names is not None:
        return by_names(str(each.get("name")) for each in names) if names else NOWHERE
    selector = said.get("clusterSelector")
    return NOWHERE if selector is None else by_labels(selector)


def _operation(said: Json) -> dict[str, Any]:
    made = {"op": str(said.get("op") or "replace"), "path": str(said.get("path") or "")}
    return made if made["op"] == "remove" else {**made, "value": said.get("value")}


def _overridden(listed: Sequence[Json], body: Body) -> Body:
    return operated(body, listed)


@dataclass(frozen=True, slots=True)
class _KubeFed(System):
    """Every kind of one group has the table of federated kinds."""

    def table(self, source: Source) -> Table | None:
        if source.group == TYPES and source.kind.startswith("Federated"):
            return FEDERATED
        return System.table(self, source)

    def shape(self, source: Source) -> Any:
        return SHAPE if source.group == TYPES else System.shape(self, source)


SYSTEM = _KubeFed(
    "KubeFed", (TYPES, CORE, SCHEDULING), (), convert, tables=TABLES, shapes="kubefed"
)
