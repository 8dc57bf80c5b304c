"""Which policy of Karmada takes an object, and what it says as the fields of a Workload's spec."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from crds.names import LABEL_CLUSTER, LABEL_PROVIDER, TAINT_NOT_READY
from machinery.types.selectors import parse_label_selector
from stowage.importing.clusters import (
    EVERY,
    NOWHERE,
    REGION,
    ZONE,
    Clusters,
    Fleet,
    affinity,
    by_labels,
)
from stowage.importing.fields import Notes
from stowage.importing.reading import Bundle, Source, dig

GROUP = "policy.karmada.io"
Json = Mapping[str, Any]
FIELDS = {"provider": LABEL_PROVIDER, "region": REGION, "zone": ZONE, "cluster": LABEL_CLUSTER}
_MOST_WEIGHT = 100
_LOST_TAINTS = ("cluster.karmada.io/not-ready", "cluster.karmada.io/unreachable")
_BY_NAME, _BY_LABEL, _BY_KIND = 3, 2, 1
_CLAIMS = (
    ("PropagationPolicy", "propagationpolicy.karmada.io"),
    ("ClusterPropagationPolicy", "clusterpropagationpolicy.karmada.io"),
)


# --- which policy ---------------------------------------------------------------------------------


def claimed(source: Source) -> tuple[str, str, str] | None:
    """Return kind, namespace and name of the policy that an object says it is claimed by."""
    return claim_of(source.document.body.get("metadata"))


def claim_of(metadata: Any) -> tuple[str, str, str] | None:
    """Return the same of an object's metadata; a binding carries the claim of its object."""
    for field in ("annotations", "labels"):
        said = dig(metadata, field)
        for kind, prefix in _CLAIMS if isinstance(said, dict) else ():
            if name := said.get(f"{prefix}/name"):
                return kind, str(said.get(f"{prefix}/namespace") or ""), str(name)
    return None


def priority(source: Source, selectors: Sequence[Json]) -> int:
    """Return how narrowly the selectors match an object: 3 by name to 1 by kind, 0 not at all."""
    return max((_matches(source, each) for each in selectors), default=0)


def _matches(source: Source, selector: Json) -> int:
    body = source.document.body
    same = (body.get("apiVersion"), body.get("kind")) == (
        selector.get("apiVersion"),
        selector.get("kind"),
    )
    namespace = selector.get("namespace")
    if not same or (namespace and namespace != source.namespace):
        return 0
    if name := selector.get("name"):
        return _BY_NAME if name == source.name else 0
    if (labels := selector.get("labelSelector")) is None:
        return _BY_KIND
    try:
        matches = parse_label_selector(labels).matches(source.labels)
    except ValueError:
        return 0
    return _BY_LABEL if matches else 0


class Policies:
    """The PropagationPolicies of the input, by namespace, and the kinds and names they select."""

    def __init__(self, bundle: Bundle) -> None:
        self._selecting: dict[tuple[str, ...], dict[int, Source]] = {}
        self.all = list(bundle.of(GROUP, "PropagationPolicy", "ClusterPropagationPolicy"))
        self._by_name = {(p.kind, _space(p), p.name): p for p in self.all}
        for policy in self.all:
            if dig(policy.document.body, "metadata", "deletionTimestamp"):
                continue
            for each in policy.spec.get("resourceSelectors") or ():
                kind = (str(each.get("apiVersion")), str(each.get("kind")))
                key = (policy.kind, _space(policy), *kind, str(each.get("name") or ""))
                self._selecting.setdefault(key, {})[id(policy)] = policy

    def of(self, source: Source) -> Source | tuple[str, str, str] | None:
        """Return the policy that takes an object; its claim where that policy is not there."""
        if (claim := claimed(source)) is not None:
            return self._by_name.get(claim, claim)
        body = source.document.body
        kind = (str(body.get("apiVersion")), str(body.get("kind")))
        scopes = [("PropagationPolicy", source.namespace), ("ClusterPropagationPolicy", "")]
        for scope in scopes[1:] if source.cluster_scoped else scopes:
            found = [
                (-int(p.spec.get("priority") or 0), -how, p.name, p)
                for name in (source.name, "")
                for p in self._selecting.get((*scope, *kind, name), {}).values()
                if (how := priority(source, p.spec.get("resourceSelectors") or ()))
            ]
            if found:
                return min(found, key=lambda each: each[:3])[3]
        return None


def _space(policy: Source) -> str:
    return policy.namespace if policy.kind == "PropagationPolicy" else ""


# --- which clusters -------------------------------------------------------------------------------


def clusters_of(said: Json | None) -> Clusters:
    """Return the clusters of a ClusterAffinity of Karmada: all of it holds."""
    if not said:
        return EVERY
    of_labels = by_labels(said.get("labelSelector"))
    of_fields = by_labels(said.get("fieldSelector"), alias=FIELDS)
    names = said.get("clusterNames") or None
    found = Clusters(
        of_labels.labels,
        of_labels.expressions + of_fields.expressions,
        None if names is None else tuple(dict.fromkeys(names)),
        tuple(said.get("exclude") or ()),
    )
    return found if not (found.names and not set(found.names) - set(found.excluded)) else NOWHERE


_Weight = tuple[int, Clusters]


def _static_weights(scheduling: Json) -> list[_Weight]:
    """Return the rules of static weights; none where the free room of clusters weighs."""
    preference = scheduling.get("weightPreference") or {}
    listed = () if preference.get("dynamicWeight") else preference.get("staticWeightList") or ()
    return [(int(e.get("weight") or 0), clusters_of(e.get("targetCluster"))) for e in listed]


def _by_static_weights(scheduling: Json) -> bool:
    preference = scheduling.get("weightPreference")
    weighted = scheduling.get("replicaDivisionPreference") == "Weighted"
    divided = scheduling.get("replicaSchedulingType", "Divided") == "Divided"
    return divided and weighted and (not preference or bool(_static_weights(scheduling)))


@dataclass(slots=True)
class PolicyReader:
    """Reads one policy; notes what becomes something else, or is lost by its value."""

    source: Source
    notes: Notes
    fleet: Fleet
    priorities: Mapping[str, int]

    def note(self, path: str, text: str, becomes: str = "") -> None:
        self.notes.note(self.source.document, path, text, becomes=becomes)

    def lost(self, path: str, text: str) -> None:
        self.notes.lost(self.source.document, path, text)

    def terms(self) -> list[Clusters]:
        placement = self.source.spec.get("placement") or {}
        found = clusters_of(placement.get("clusterAffinity"))
        path = "spec.placement.clusterAffinity"
        if placement.get("clusterAffinities"):
            found = clusters_of(placement["clusterAffinities"][0])
            path = "spec.placement.clusterAffinities[0]"
        self._unknown(path, [found])
        return [found]

    def _unknown(self, path: str, terms: Sequence[Clusters]) -> None:
        if text := self.fleet.unknown(terms):
            self.note(f"{path}.clusterNames", text, "spec.clusterAffinity")

    def rules(self) -> dict[str, Any]:
        """Return the fields of a Workload's spec that the policy comes to."""
        spec = self.source.spec
        placement = spec.get("placement") or {}
        terms = self.terms()
        made: dict[str, Any] = {"distribution": "Duplicated", **affinity(terms)}
        if len(placement.get("clusterAffinities") or ()) > 1:
            for n in range(1, len(placement["clusterAffinities"])):
                text = "is tried where the one before fits nothing; here one affinity counts"
                self.lost(f"spec.placement.clusterAffinities[{n}]", text)
        made |= self._spread(placement)
        made |= self._division(placement.get("replicaScheduling") or {}, terms)
        if tolerations := list(self._tolerations(placement)):
            made["tolerations"] = tolerations
        made |= self._priority(spec)
        if spec.get("propagateDeps"):
            made["dependencies"] = "Follow"
        if spec.get("conflictResolution") == "Overwrite":
            made["adoption"] = "IfUnowned"
        if spec.get("preserveResourcesOnDeletion"):
            made["onDelete"] = "Orphan"
        if dig(spec, "suspension", "dispatching"):
            made["delivery"] = "None"
        if dig(spec, "failover", "cluster", "purgeMode") in ("Directly", "Immediately"):
            made["movement"] = {"maxSurge": 0}
        return made

    def _spread(self, placement: Json) -> dict[str, Any]:
        """Return the constraints that count: none beside static weights, which Karmada goes by."""
        made: dict[str, Any] = {}
        listed = placement.get("spreadConstraints") or ()
        if listed and _by_static_weights(placement.get("replicaScheduling") or {}):
            text = "have no effect beside static weights there, and are left out"
            self.note("spec.placement.spreadConstraints", text)
            return {}
        for n, each in enumerate(listed):
            path = f"spec.placement.spreadConstraints[{n}]"
            by_field = each.get("spreadByField") or ("" if each.get("spreadByLabel") else "cluster")
            key = each.get("spreadByLabel") or FIELDS.get(by_field)
            bounds = {"minDomains": each.get("minGroups"), "maxDomains": each.get("maxGroups")}
            bounds = {key: value for key, value in bounds.items() if value}
            if key is None:
                self.lost(path, f"{by_field} is no field of a cluster")
            elif key in made:
                self.lost(path, f"another one counts {key} already")
            elif bounds:
                made[key] = {"topologyKey": key, **bounds}
                if by_field not in ("cluster", "region"):
                    text = "counts here; there clusters and regions alone are counted (v1.18.1)"
                    self.note(path, text, "spec.spreadConstraints")
        return {"spreadConstraints": list(made.values())} if made else {}

    # --- replicas -----------------------------------------------------------------------------

    def _division(self, said: Json, terms: Sequence[Clusters]) -> dict[str, Any]:
        if not said or said.get("replicaSchedulingType", "Divided") != "Divided":
            return {}
        path = "spec.placement.replicaScheduling"
        if said.get("replicaDivisionPreference") == "Aggregated":
            text = "is packing: Fewest now: the fullest clusters in use first, then the roomiest"
            self.note(f"{path}.replicaDivisionPreference", text, "spec.packing")
            return {"distribution": "Divided", "packing": "Fewest"}
        preference = said.get("weightPreference")
        if preference and preference.get("dynamicWeight"):
            text = "clusters are weighed by their free room, as members publish it"
            self.note(f"{path}.weightPreference.dynamicWeight", text, "spec.distribution: Divided")
            return {"distribution": "Divided"}
        rules = _static_weights(said)
        return {"distribution": "Divided", "distributionWeights": self._weights(rules, terms)}

    def _weights(self, rules: Sequence[_Weight], terms: Sequence[Clusters]) -> list[dict[str, Any]]:
        path = "spec.placement.replicaScheduling.weightPreference.staticWeightList"
        equal = [{"clusterSelector": {}, "weight": 1}]
        if not rules:
            text = "no weights are given: all clusters weigh the same, as there"
            self.note("spec.placement.replicaScheduling", text, "spec.distributionWeights")
            return equal
        for n, (_, clusters) in enumerate(rules):
            self._unknown(f"{path}[{n}].targetCluster", [clusters])
        names = self.fleet.among(terms) if self.fleet.labels else None
        if names is not None and not any(
            self.fleet.matches(clusters, name) for _, clusters in rules for name in names
        ):
            text = "match no cluster of the input: all weigh the same then, as there"
            self.note(path, text, "spec.distributionWeights")
            return equal
        common = reduce(math.gcd, (weight for weight, _ in rules)) or 1
        if max(weight for weight, _ in rules) // common > _MOST_WEIGHT:
            self.lost(path, f"weights above {_MOST_WEIGHT} that no number divides")
            return equal
        text = "the greatest rule of a cluster comes first; of a few replicas that weights leave"
        more = "over, another cluster may get one"
        self.note(path, f"{text} {more}", "spec.distributionWeights")
        ordered = sorted(rules, key=lambda rule: -rule[0])
        return [
            {"clusterSelector": selector, "weight": weight // common}
            for weight, clusters in ordered
            if weight
            for selector in clusters.selectors()
        ]

    def divided(self, replicas: int) -> dict[str, int] | None:
        """Return the shares of so many replicas by static weights, if none is left over."""
        placement = self.source.spec.get("placement") or {}
        said = placement.get("replicaScheduling") or {}
        names, rules = self.fleet.among(self.terms()), _static_weights(said)
        if said.get("replicaDivisionPreference") != "Weighted" or names is None:
            return None
        weights = dict.fromkeys(names, 0)
        for weight, clusters in rules:
            for name in names:
                there = self.fleet.matches(clusters, name)
                if there is None:
                    return None
                weights[name] = max(weights[name], weight if there else 0)
        total = sum(weights.values())
        if not total or any(replicas * weight % total for weight in weights.values()):
            return None
        return {name: replicas * weight // total for name, weight in weights.items()}

    # --- the rest -----------------------------------------------------------------------------

    def _tolerations(self, placement: Json) -> Iterator[dict[str, Any]]:
        known: dict[tuple[Any, ...], dict[str, Any]] = {}
        for n, each in enumerate(placement.get("clusterTolerations") or ()):
            path = f"spec.placement.clusterTolerations[{n}]"
            made = {key: value for key, value in each.items() if value not in (None, "")}
            if made.get("key") in _LOST_TAINTS:
                made["key"] = TAINT_NOT_READY
                text = f"is {TAINT_NOT_READY} now, the taint of a lost cluster"
                self.note(f"{path}.key", text, "spec.tolerations")
            key = tuple(made.get(field) for field in ("key", "operator", "value", "effect"))
            if key in known:
                times = [t.get("tolerationSeconds") for t in (made, known[key])]
                told = [time for time in times if time is not None]
                if len(set(times)) > 1:
                    text = "the shorter one of two tolerations counts"
                    self.note(f"{path}.tolerationSeconds", text, "spec.tolerations")
                if told:
                    known[key]["tolerationSeconds"] = min(told)
            else:
                known[key] = made
        yield from known.values()

    def _priority(self, spec: Json) -> dict[str, Any]:
        said = spec.get("schedulePriority") or {}
        name = said.get("priorityClassName")
        path = "spec.schedulePriority"
        if not said:
            return {}
        if said.get("priorityClassSource") not in (None, "KubePriorityClass"):
            self.lost(path, f"{said['priorityClassSource']} is no PriorityClass of Kubernetes")
            return {}
        value = self.priorities.get(str(name))
        if value is None:
            self.lost(path, f"no PriorityClass {name} is in the input: add it")
            return {}
        text = f"is the number of the PriorityClass {name} now"
        self.note(path, text, "spec.priority")
        return {"priority": value}
