"""Rules of a pod for Kosmos, which choose leaf nodes: these stand for clusters or their nodes.

A rule that only asks for a leaf node is removed, because every unit goes to a member. The YAML does
not say whether a leaf node is a cluster or one of its nodes, so every other rule is a loss. Kosmos
has rules for inside of a member in an annotation.
"""

from __future__ import annotations

from typing import Any

from stowage.importing import pods
from stowage.importing.fields import Notes
from stowage.importing.reading import dig
from stowage.importing.workloads import Made

LEAF = "kosmos.io/node"
"""A label and a taint of every leaf node."""
INSIDE = "kosmos.io/cluster-selector"
_OWN = ("kosmos.io/", "kosmos-io/")
_SPEC = "spec.template.spec"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_TAKEN_OFF = f"{LEAF} says no more than a member of the fleet: it is taken off"
_CHOSE = (
    "chose leaf nodes, and Kosmos takes it off pods on them; it stays: for whole clusters, write it"
    " into spec.clusterSelector or clusterAffinity of the Workload, and take it off the pods"
)


def look_at(notes: Notes, made: Made) -> None:
    """Remove rules that ask for a leaf node, and note rules that choose among leaf nodes."""
    document, pod = made.source.document, made.pod
    spec = dig(pod, "spec")
    if isinstance(spec, dict):
        for change in (_selector, _affinity, _tolerations):
            for where, loss, text in change(spec):
                (notes.lost if loss else notes.note)(document, f"{_SPEC}.{where}", text)
    if pods.HOSTNAME in str(dig(spec, "affinity", "podAntiAffinity")):
        text = (
            "keeps pods on different nodes of each member now; where a leaf node of Kosmos stood"
            " for a whole cluster, it was one pod for each cluster"
        )
        notes.note(document, f"{_SPEC}.affinity.podAntiAffinity", text)
    _metadata(notes, made)


Said = list[tuple[str, bool, str]]
"""(the field, whether it is a loss, the text)."""


def _selector(spec: dict[str, Any]) -> Said:
    said: Said = []
    selector = spec.get("nodeSelector")
    if isinstance(selector, dict) and selector.get(LEAF) == "true":
        del selector[LEAF]
        said.append(("nodeSelector", False, _TAKEN_OFF))
    if selector:
        said.append(("nodeSelector", True, _CHOSE))
    elif selector is not None:
        del spec["nodeSelector"]
    return said


def _affinity(spec: dict[str, Any]) -> Said:
    field = "affinity.nodeAffinity"
    nodes = dig(spec, "affinity", "nodeAffinity")
    terms = dig(nodes, _REQUIRED, "nodeSelectorTerms")
    if not isinstance(terms, list) or not terms:
        return []
    said: Said = []
    before = str(terms)
    for term in terms:
        rules = dig(term, "matchExpressions")
        if isinstance(rules, list):
            term["matchExpressions"] = [rule for rule in rules if not _leaf(rule)]
    if str(terms) != before:
        said.append((field, False, _TAKEN_OFF))
        if any(term == {"matchExpressions": []} for term in terms):  # any leaf node would do
            _without(spec)
            return said
    return [*said, (field, True, _CHOSE)]


def _without(spec: dict[str, Any]) -> None:
    """Remove the required node affinity, and the mappings that are empty without it."""
    del spec["affinity"]["nodeAffinity"][_REQUIRED]
    if not spec["affinity"]["nodeAffinity"]:
        del spec["affinity"]["nodeAffinity"]
    if not spec["affinity"]:
        del spec["affinity"]


def _leaf(rule: Any) -> bool:
    if dig(rule, "key") != LEAF:
        return False
    operator = dig(rule, "operator")
    return operator == "Exists" or [operator, dig(rule, "values")] == ["In", ["true"]]


def _tolerations(spec: dict[str, Any]) -> Said:
    given = spec.get("tolerations")
    if not isinstance(given, list) or not given:
        return []
    said: Said = []
    kept = [each for each in given if dig(each, "key") != LEAF]
    if len(kept) < len(given):
        said.append(("tolerations", False, _TAKEN_OFF))
        spec["tolerations"] = kept
    if kept:
        text = "are for nodes inside of each member now; those of spec.tolerations of the Workload"
        said.append(("tolerations", False, f"{text} are for the taints of MemberClusters"))
    else:
        del spec["tolerations"]
    return said


def _metadata(notes: Notes, made: Made) -> None:
    document = made.source.document
    for field in ("labels", "annotations"):
        given = dig(made.pod, "metadata", field)
        where = f"spec.template.metadata.{field}"
        for key in given if isinstance(given, dict) else ():
            if not key.startswith(_OWN):
                continue
            if key == INSIDE:
                text = f"{key} holds inside of a member: write what it says into the pod's spec"
                notes.lost(document, where, text)
            else:
                notes.note(document, where, f"{key}: only Kosmos reads it; it stays")
