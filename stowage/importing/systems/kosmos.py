"""Kosmos: a WorkloadPolicy and the workloads bound to it.

kosmos-scheduler reads the label of a policy from the pods, and compares the labels of nodes, where
a leaf node stands for a member or for one of its nodes. Here the label is the Workload's, and the
domains are those of MemberClusters. Kosmos keeps the units of a Preferred policy on the listed
domains; our Preferred lets other clusters help, so the Workload gets an affinity to the listed
ones. A rule of a pod that only asks for a leaf node is removed; every other rule is a loss, because
the YAML does not say what a leaf node is.
"""

from __future__ import annotations

from typing import Any

from crds.names import LABEL_POLICY, POLICY_ALIASES
from stowage.importing import pods, workloads
from stowage.importing.fields import DocumentPart, Notes, keep, walk
from stowage.importing.reading import Source, dig
from stowage.importing.workloads import Conversion, Made, System, drop_status, metadata_of, ours

GROUP = "kosmos.io"
SCHEDULER = "kosmos-scheduler"
_BOUND = (("apps", "Deployment"), ("apps", "StatefulSet"), ("apps", "ReplicaSet"), ("batch", "Job"))
_TYPES = {"required": "Required", "require": "Required", "preferred": "Preferred"}
_METHODS = {"fill": "Fill", "balance": "Balance"}
_TOPOLOGY = "is a label of MemberClusters now: give it to each of them, with its domain"
_MOST_VALUES = 64
"""The values of one requirement; longer lists become several terms, which are alternatives."""
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def convert(into: Conversion) -> None:
    """Convert the policies, and the workloads that name one of them."""
    policies = {}
    for source in into.bundle.of(GROUP, "WorkloadPolicy"):
        source.taken = True
        policies[source.namespace, source.name] = into.add(source, _policy(into, source))
    for source in into.bundle.sources:
        if (source.group, source.kind) in _BOUND and (
            name := workloads.named(source, POLICY_ALIASES, "policies")
        ):
            policy = policies.get((source.namespace, name))
            _bind(into, source, name, policy)


# --- the policy -----------------------------------------------------------------------------------


def _policy(into: Conversion, source: Source) -> dict[str, Any]:
    part = DocumentPart(source.document, into.notes, source.document.body)
    part.skip("apiVersion", "kind")
    metadata = metadata_of(part)
    given = part.part("spec")
    spec = {
        "topologyKey": given.need("topologyKey", str),
        "labelSelector": _selector(given),
        "allocationPolicy": _domains(given),
        **walk(given, _CHOICES),
    }
    values = ", ".join(domain["name"] for domain in spec["allocationPolicy"])
    given.note("topologyKey", f"{_TOPOLOGY} ({values})")
    drop_status(part)
    part.account()
    return ours("WorkloadPolicy", source, metadata, spec)


def _selector(given: DocumentPart) -> dict[str, Any]:
    if "labelSelector" not in given:
        raise given.document.error("spec.labelSelector: is missing; Kosmos places no pod without")
    selector = given.part("labelSelector")
    made = walk(selector, {"matchLabels": keep(dict), "matchExpressions": keep(list)})
    if made.get("matchExpressions"):
        selector.note("matchExpressions", "count here; kosmos-scheduler reads matchLabels alone")
    return made


def _domains(given: DocumentPart) -> list[dict[str, Any]]:
    given.demand("allocationPolicy")
    found: dict[str, int] = {}
    for each in given.parts("allocationPolicy"):
        name, number = each.need("name", str), each.get("replicas", int)
        if name in found:
            each.note("name", f"{name} stands there twice: the last one counts, as in Kosmos")
        # the last entry of a name counts, as in Kosmos
        found[name] = number or 0
    return [{"name": name, "replicas": number} for name, number in found.items()]


def _word(words: dict[str, str], to: str) -> Any:
    """Return a fate for one of a few words, in any case, which is stored as field `to`."""

    def fate(part: DocumentPart, key: str, made: dict[str, Any]) -> None:
        text = part.get(key, str) or ""
        word = words.get(text.lower())
        if text and word is None:
            raise part.document.error(f"{part.at(key)}: {text} is none of {_listed(words)}")
        if word is None:
            return
        if made.get(to, word) != word:
            raise part.document.error(f"{part.at(key)}: says {word}, and {to} says {made[to]}")
        made[to] = word
        if (key, text) != (to, word):
            part.note(key, f"{text} is {to}: {word} now")

    return fate


def _listed(words: dict[str, str]) -> str:
    return ", ".join(dict.fromkeys(words.values()))


_CHOICES = {
    "allocationType": _word(_TYPES, "allocationType"),
    "allocationMethod": _word(_METHODS, "allocationMethod"),
    "scheduleStrategy": _word(_METHODS, "allocationMethod"),
}


# --- what is bound to it --------------------------------------------------------------------------


def _bind(into: Conversion, source: Source, name: str, policy: dict[str, Any] | None) -> None:
    made = into.workloads.of(source)
    _take_labels(into, made, name, policy)
    _take_scheduler(into, made)
    if policy is None:
        text = f"no WorkloadPolicy {name} is among the files: bring it, or the replicas wait for it"
        into.notes.note(source.document, "", text)
    elif policy["spec"].get("allocationType", "Preferred") == "Preferred":
        _stay_on_listed(into, made, policy)
    _look_at(into.notes, made)


def _take_labels(into: Conversion, made: Made, name: str, policy: dict[str, Any] | None) -> None:
    """Move the label to the Workload; it stays on the pods where a selector uses it."""
    selectors = (made.template["spec"].get("selector"), policy and policy["spec"]["labelSelector"])
    workloads.bind(into.notes, made, LABEL_POLICY, name, POLICY_ALIASES, selectors)
    on_pods = workloads.labels_of(made.source, "spec", "template")
    if not any(key in on_pods for key in POLICY_ALIASES):
        text = "binds the Workload; kosmos-scheduler reads this label from pods alone"
        into.notes.note(made.source.document, "metadata.labels", text)


def _take_scheduler(into: Conversion, made: Made) -> None:
    name = workloads.take_scheduler(into.notes, made, (SCHEDULER,))
    if name != SCHEDULER:
        text = (
            f"{name or 'the default scheduler'} does not read the policy in Kosmos; here it holds"
        )
        into.notes.note(made.source.document, workloads.POD_SCHEDULER, text)


def _stay_on_listed(into: Conversion, made: Made, policy: dict[str, Any]) -> None:
    spec = policy["spec"]
    listed = [domain["name"] for domain in spec["allocationPolicy"]]
    key, size = spec["topologyKey"], _MOST_VALUES
    parts = [listed[at : at + size] for at in range(0, len(listed), size)]
    # Kosmos' filter refuses every node whose domain is not listed, under Preferred too
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": v}]} for v in parts]
    made.spec["clusterAffinity"] = {_REQUIRED: {"clusterSelectorTerms": terms}}
    text = (
        "the policy is Preferred: spec.clusterAffinity keeps the replicas on the domains that it "
        "lists, as Kosmos does; remove that where others may help"
    )
    into.notes.note(made.source.document, "", text)


# --- rules of pods --------------------------------------------------------------------------------

LEAF = "kosmos.io/node"
"""A label and a taint of every leaf node."""
INSIDE = "kosmos.io/cluster-selector"
_OWN = ("kosmos.io/", "kosmos-io/")
_SPEC = "spec.template.spec"
_TAKEN_OFF = f"{LEAF} says no more than a member of the fleet: it is taken off"
_CHOSE = (
    "chose leaf nodes, and Kosmos takes it off pods on them; it stays: for whole clusters, write it"
    " into spec.clusterSelector or clusterAffinity of the Workload, and take it off the pods"
)


def _look_at(notes: Notes, made: Made) -> None:
    """Remove rules that ask for a leaf node, and note rules that choose among leaf nodes."""
    document, pod = made.source.document, made.pod
    spec = dig(pod, "spec")
    if isinstance(spec, dict):
        for change in (_pod_selector, _affinity, _tolerations):
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


def _pod_selector(spec: dict[str, Any]) -> Said:
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


SYSTEM = System("Kosmos", (GROUP,), ("v1alpha1",), convert)
