"""Kosmos: a WorkloadPolicy and the workloads bound to it.

kosmos-scheduler reads the label of a policy from the pods, and compares the labels of nodes, where
a leaf node stands for a member. Here the label is the Workload's, and the domains are those of
MemberClusters. Kosmos keeps the units of a Preferred policy on the listed domains; our Preferred
lets other clusters help, so the Workload gets an affinity to the listed ones.
"""

from __future__ import annotations

from typing import Any

from crds.names import LABEL_POLICY, POLICY_ALIASES
from stowage.importing import workloads
from stowage.importing.conversion import Conversion, System
from stowage.importing.fields import DocumentPart, keep, walk
from stowage.importing.reading import Source
from stowage.importing.systems import kosmos_pods
from stowage.importing.workloads import Made, drop_status, metadata_of, ours

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
        text = f"no WorkloadPolicy {name} is among the files: bring it, or the units wait for it"
        into.notes.note(source.document, "", text)
    elif policy["spec"].get("allocationType", "Preferred") == "Preferred":
        _stay_on_listed(into, made, policy)
    kosmos_pods.look_at(into.notes, made)


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
        "the policy is Preferred: spec.clusterAffinity keeps the units on the domains that it lists"
        ", as Kosmos does; remove that where others may help"
    )
    into.notes.note(made.source.document, "", text)


SYSTEM = System("Kosmos", (GROUP,), ("v1alpha1",), convert)
