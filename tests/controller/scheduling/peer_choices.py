"""Questions to other schedulers about clusters: which will do, and which is the best.

Taints and labels, the scores of OCM's plugins as an order of clusters, KubeFleet's skew. Their
clusters, placements and tolerations become ours in the plainest way there is; the answer is looked
up in a whole decision.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from controller.scheduling.decision import Decision
from crds.admission.validation import violations
from tests.controller.make import required_terms
from tests.controller.planner.peers import load
from tests.controller.scheduling.peer_cases import (
    AMPLE,
    REGION,
    Case,
    asking,
    chosen,
    member,
    preferring,
)

Doc = dict[str, Any]

OCM_EFFECTS = {
    "NoSelect": "NoExecute",
    "NoSelectIfNew": "NoSchedule",
    "PreferNoSelect": "PreferNoSchedule",
}
"""OCM's words for what Kubernetes' taints do to pods that run, to new ones, and by the way."""


def _taint(taint: Doc, effects: Mapping[str, str]) -> Doc:
    """As ours says it; we know no time at which it was set."""
    told = {key: value for key, value in taint.items() if key in {"key", "value"}}
    told["effect"] = effects.get(taint["effect"], taint["effect"])
    return told


def _toleration(toleration: Doc, effects: Mapping[str, str]) -> Doc:
    """As ours says it."""
    told = {key: value for key, value in toleration.items() if key in {"key", "value", "operator"}}
    if "effect" in toleration:
        told["effect"] = effects.get(toleration["effect"], toleration["effect"])
    return told


def refused(tolerations: list[Doc]) -> list[str]:
    """The refusal of admission for a Workload with them; it never comes to a decision then."""
    pods = {"metadata": {"labels": {"app": "demo"}}, "spec": {"containers": []}}
    deployment = {
        "selector": {"matchLabels": {"app": "demo"}},
        "template": pods,
    }
    template = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": deployment}
    return violations(
        {
            "apiVersion": "stowage.dev/v1alpha1",
            "kind": "Workload",
            "metadata": {"name": "demo", "namespace": "shop"},
            "spec": {"template": template, "tolerations": tolerations},
        }
    )


def _tainted(
    key: str, clusters: list[Doc], tolerations: list[Doc], held: list[str], answer: list[str]
) -> Case:
    """A copy on every cluster that is tolerated, and where one is already."""
    of = asking(1, "Duplicated", tolerations=tolerations, present=dict.fromkeys(held, 1))
    members = [member(c["name"], AMPLE, taints=c["taints"]) for c in clusters]

    def seen(decision: Decision) -> frozenset[str]:
        return frozenset() if refused(tolerations) else chosen(decision)

    return Case(key, members, of, seen, [frozenset(answer)])


def _skewed(case: Doc) -> Case:
    """One unit more, over domains of equal weight. The peer accepts each that keeps the skew.

    It is asked about one of them, and its answer checks how we read the rule.
    """
    counts, most = case["counts"], case["max_skew"]

    def after(domain: str) -> int:
        then = {**counts, domain: counts[domain] + 1}
        return max(then.values()) - min(then.values())

    asked, before = case["domain"], max(counts.values()) - min(counts.values())
    read = {"violated": after(asked) > most, "skew_change": after(asked) - before}
    assert read == case["expected"], case["id"]
    rule = [{"clusterSelector": {}, "weight": 1}]
    present = dict(counts)
    of = asking(sum(counts.values()) + 1, "Divided", present=present, distributionWeights=rule)
    members = [member(name, AMPLE, labels={REGION: name}) for name in counts]

    def seen(decision: Decision) -> frozenset[str]:
        return frozenset(
            name for name, units in decision.placements.items() if units > counts[name]
        )

    answers = [frozenset({name}) for name in counts if after(name) <= most]
    return Case(case["id"], members, of, seen, answers)


def kubefleet() -> Iterator[Case]:
    """Taints, and skews that a fleet can have."""
    for case in load("kubefleet_scheduling")["cases"]:
        if case["algorithm"] == "kubefleet.taints":
            clusters = [{"name": "member", "taints": case["taints"]}]
            answer = ["member"] if case["expected"] else []
            yield _tainted(case["id"], clusters, case["tolerations"], [], answer)
        elif "error" not in case["expected"]:
            yield _skewed(case)


def order(decision: Decision) -> dict[str, int]:
    """The place of each cluster that would do; equals share one."""
    totals = {decision.snapshot.names[row]: int(decision.totals[row]) for row in decision.ranking}
    return _places(totals)


def _places(scores: Mapping[str, int]) -> dict[str, int]:
    line = sorted({*scores.values()}, reverse=True)
    return {name: line.index(score) for name, score in scores.items()}


def _used(name: str, units: int) -> Any:
    """A cluster of 8 cpu that runs so many units."""
    sums = {"allocatable": {"cpu": "8", "memory": "32Gi"}, "requested": {"cpu": str(units)}}
    return member(name, 8 - units, status={"capacity": {"nodes": 1, **sums}})


def _balance(case: Doc) -> Case:
    """Every placement of the peer is a unit that runs on its clusters; room tells us of it."""
    runs = [name for decision in case["decisions"] for name in decision["clusters"]]
    mine = [d["clusters"] for d in case["decisions"] if d["placement"] == case["placement"]]
    present = {name: 1 for clusters in mine for name in clusters}
    members = [_used(name, runs.count(name)) for name in case["clusters"]]
    of = asking(1, "Single", present=present)
    return Case(case["id"], members, of, order, [_places(case["expected"])])


def _steady(case: Doc) -> Case:
    """Clusters that were chosen stay so, though the others have far more room."""
    held = [name for decision in case["decisions"] for name in decision["clusters"]]
    of = asking(max(len(held), 1), "Divided", present=dict.fromkeys(held, 1))
    members = [member(n, 1 if n in held else AMPLE) for n in case["clusters"]]
    if not held:
        return Case(case["id"], members, of, order, [_places(case["expected"])])
    answer = frozenset(name for name, score in case["expected"].items() if score == 100)
    return Case(case["id"], members, of, chosen, [answer])


def _allocatable(case: Doc) -> Case:
    """All of it is free. A unit asks for one cpu, or for one cpu and 5Gi."""
    resource, members = case["resource"], []
    request = {"cpu": "1", **({"memory": "5Gi"} if resource == "memory" else {})}
    for each in case["clusters"]:
        total = {"cpu": "8", "memory": "32Gi", "pods": "110"}
        del total[resource]
        if each["allocatable"] is not None:
            total[resource] = f"{each['allocatable']}{'Gi' if resource == 'memory' else ''}"
        capacity = {"nodes": 1, "allocatable": total, "requested": {}}
        groups = {"nodeGroups": [{"count": 1, "free": total}], "capacity": capacity}
        members.append(member(each["name"], 0, status=groups))
    pod = {"containers": [{"name": "main", "resources": {"requests": request}}]}
    return Case(
        case["id"], members, asking(1, "Single", pod=pod), order, [_places(case["expected"])]
    )


def _addon(case: Doc) -> Case:
    """A score that somebody publishes for a cluster is a label that the Workload prefers."""
    scores = dict.fromkeys(case["clusters"], 0)
    scores |= {each["cluster"]: each["value"] for each in case["scores"]}
    members = [member(name, AMPLE, score=score) for name, score in scores.items()]
    of = asking(1, "Single", clusterAffinity=preferring(scores.values()))
    return Case(case["id"], members, of, order, [_places(case["expected"])])


def _predicates(case: Doc) -> Case:
    """A predicate is a required term; what a cluster claims of itself is a label like any other."""
    terms = [
        [{"key": t["key"], "operator": t["op"], "values": t["values"]} for t in predicate["terms"]]
        for predicate in case["predicates"]
    ]
    members = [
        member(c["name"], AMPLE, labels={**c.get("labels", {}), **c.get("claims", {})})
        for c in case["clusters"]
    ]
    of = asking(1, "Duplicated", clusterAffinity=required_terms(*terms))
    return Case(case["id"], members, of, chosen, [frozenset(case["expected"])])


def _ocm_taints(case: Doc) -> Case:
    clusters = [
        {"name": c["name"], "taints": [_taint(taint, OCM_EFFECTS) for taint in c["taints"]]}
        for c in case["clusters"]
    ]
    tolerations = [_toleration(each, OCM_EFFECTS) for each in case["tolerations"]]
    answer = case["expected"]["clusters"]
    return _tainted(case["id"], clusters, tolerations, case["already_chosen"], answer)


OCM = {
    "ocm.taints": _ocm_taints,
    "ocm.balance": _balance,
    "ocm.steady": _steady,
    "ocm.allocatable": _allocatable,
    "ocm.addon": _addon,
    "ocm.predicates": _predicates,
}


def ocm() -> Iterator[Case]:
    """Everything that asks for neither CEL, nor scores with a date, nor seconds of toleration."""
    for case in load("ocm_scheduling")["cases"]:
        dated = any("valid_until_s" in score for score in case.get("scores", []))
        timed = any("seconds" in each for each in case.get("tolerations", []))
        if not (case.get("needs_cel") or dated or timed):
            yield OCM[case["algorithm"]](case)
