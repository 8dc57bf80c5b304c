"""Karmada: its policies place the objects of the input, its overrides and clusters go with them.

An object belongs to the policy that Karmada takes for it, by its claim on a live hub. What Karmada
sends to each cluster that a policy chooses goes there here too, what it divides is divided.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from crds.names import API_VERSION
from stowage.importing.clusters import REGION, ZONE, Fleet, stub
from stowage.importing.differing import Body, Change
from stowage.importing.pieces import Piece, Placed, piece_of
from stowage.importing.placing import Placement, Placer
from stowage.importing.reading import Source, dig
from stowage.importing.systems.karmada import fields, interpreters, overriders
from stowage.importing.systems.karmada.policies import (
    Policies,
    PolicyReader,
    clusters_of,
    priority,
)
from stowage.importing.workloads import Conversion, System, ours

_OVERWRITE = "work.karmada.io/conflict-resolution"


def _mark(key: str) -> bool:
    """Whether a label or annotation is written by Karmada."""
    prefix = key.partition("/")[0]
    return prefix == "karmada.io" or prefix.endswith(".karmada.io")


def convert(into: Conversion) -> None:
    """Make MemberClusters, WorkloadKinds, Workloads and autoscalers of Karmada's objects."""
    fleet = Fleet()
    for source in into.bundle.of(fields.CLUSTER, "Cluster"):
        _cluster(into, source, fleet)
    paths = dict(_kinds(into))
    policies = Policies(into.bundle)
    placer = Placer(into, fleet, _mark, paths)
    chosen = _chosen(into, policies)
    priorities = _priorities(into, policies)
    overrides = _Overrides(into)
    for policy in policies.all:
        policy.taken = True
        reader = PolicyReader(policy, into.notes, fleet, priorities)
        placement = Placement(
            policy,
            policy.name,
            policy.namespace or into.bundle.namespace,
            reader.rules(),
            reader.terms(),
            chosen.get(id(policy), []),
            overrides.of,
            suffix=policy.kind.lower(),
            divided=reader.divided,
        )
        placer.place(placement)
        _told(into, policy, placement)
    overrides.told()
    made = placer.done()
    for placed in made:
        _taken_over(placed)
    _overflow(into, made, policies, chosen)
    for source in into.bundle.of(fields.AUTOSCALING, "FederatedHPA"):
        _autoscaler(into, source, made)
    for group in fields.GROUPS:
        for source in into.bundle.sources:
            if source.group == group or (source.group, source.kind) in fields.TABLES:
                source.taken = True


# --- policies and their objects -------------------------------------------------------------------


def _chosen(into: Conversion, policies: Policies) -> dict[int, list[Piece]]:
    """Return the objects of each policy, by the policy's id."""
    found: dict[int, list[Piece]] = {}
    for source in into.bundle.sources:
        if source.taken or (source.group, source.kind) in fields.TABLES:
            continue
        policy = policies.of(source)
        if isinstance(policy, tuple):
            kind, _, name = policy
            text = f"is claimed by the {kind} {name}, which is not in the input: add it"
            into.notes.lost(source.document, "", text)
            source.taken = True
        elif policy is not None:
            found.setdefault(id(policy), []).append(piece_of(source))
    return found


def _taken_over(placed: Placed) -> None:
    """Read the annotation by which an object says for itself that it takes over what is there."""
    said = dig(placed.main.body, "metadata", "annotations") if placed.main else None
    if isinstance(said, dict) and said.get(_OVERWRITE) == "overwrite":
        placed.body["spec"].setdefault("adoption", "IfUnowned")


def _told(into: Conversion, policy: Source, placement: Placement) -> None:
    """Note selectors that select nothing."""
    if not placement.pieces:
        into.notes.unused(policy.document, "takes no object of the input: nothing is made of it")
    listed = policy.spec.get("resourceSelectors") or ()
    for n, each in enumerate(listed):
        path = f"spec.resourceSelectors[{n}]"
        name = each.get("name")
        if not any(priority(piece.source, [each]) for piece in placement.pieces):
            what = " ".join(filter(None, (each.get("kind"), name)))
            text = f"takes no object of the input: {what or 'it names no kind'}"
            into.notes.note(policy.document, path, text)


def _priorities(into: Conversion, policies: Policies) -> dict[str, int]:
    """Return the values of the PriorityClasses that policies name, and take these."""
    wanted = {dig(p.spec, "schedulePriority", "priorityClassName") for p in policies.all}
    found: dict[str, int] = {}
    for source in into.bundle.of("scheduling.k8s.io", "PriorityClass"):
        value = source.document.body.get("value")
        if source.name in wanted and isinstance(value, int):
            found[source.name] = value
            if not source.taken:
                source.taken = True
                text = "its value is spec.priority of the Workloads"
                into.notes.note(source.document, "", text)
    return found


def _overflow(
    into: Conversion,
    made: Sequence[Placed],
    policies: Policies,
    chosen: Mapping[int, Sequence[Piece]],
) -> None:
    """Make an Adaptive WorkloadSpread of groups that are taken in turn."""
    for policy in policies.all:
        listed = (policy.spec.get("placement") or {}).get("clusterAffinities") or ()
        groups = [listed[0], *(listed[0].get("overflowAffinities") or ())] if listed else []
        pieces = chosen.get(id(policy), ())
        if len(groups) < 2:
            continue
        for placed in made:
            if placed.main in pieces:
                _spread(into, policy, placed, groups)


def _spread(
    into: Conversion, policy: Source, placed: Placed, groups: Sequence[Mapping[str, Any]]
) -> None:
    spec = placed.body["spec"]
    path = "spec.placement.clusterAffinities[0].overflowAffinities"
    terms = [clusters_of(each) for each in groups]
    if spec.get("distribution") != "Divided" or any(len(t.selectors()) > 1 for t in terms):
        text = "only divided replicas go from group to group, and a group has 64 names at most"
        into.notes.lost(policy.document, path, text)
        return
    for key in ("distributionWeights", "clusterAffinity", "packing", "distribution"):
        spec.pop(key, None)
    subsets = [
        {"name": str(group.get("affinityName") or f"group-{n}")}
        | ({} if term.every else {"requiredNodeSelectorTerm": term.selectors()[0]})
        for n, (group, term) in enumerate(zip(groups, terms, strict=True))
    ]
    name = placed.body["metadata"]["name"]
    body = ours(
        "WorkloadSpread",
        placed.source,
        {"name": name},
        {
            "targetRef": {"apiVersion": API_VERSION, "kind": "Workload", "name": name},
            "scheduleStrategy": {"type": "Adaptive"},
            "subsets": subsets,
        },
    )
    into.add(placed.source, body)


# --- overrides ------------------------------------------------------------------------------------


class _Overrides:
    """The override policies of the input, and the changes that they make of an object."""

    def __init__(self, into: Conversion) -> None:
        self._into = into
        self._all = list(into.bundle.of(fields.POLICY, "ClusterOverridePolicy", "OverridePolicy"))
        self._used: set[int] = set()
        for each in self._all:
            each.taken = True

    def of(self, piece: Piece) -> list[Change]:
        """Return the changes of an object: cluster policies first, wider ones before narrower."""
        return [
            change
            for cluster_wide in (True, False)
            for policy in self._matching(piece, cluster_wide=cluster_wide)
            for change in self._changes(policy)
        ]

    def _matching(self, piece: Piece, *, cluster_wide: bool) -> list[Source]:
        found = []
        for policy in self._all:
            if (policy.kind == "ClusterOverridePolicy") is not cluster_wide:
                continue
            if not cluster_wide and policy.namespace != piece.namespace:
                continue
            selectors = policy.spec.get("resourceSelectors") or ()
            how = priority(piece.source, selectors) if selectors else 1
            if how:
                found.append((how, policy.name, policy))
        self._used |= {id(each[2]) for each in found}
        return [each[2] for each in sorted(found, key=lambda each: each[:2])]

    def _changes(self, policy: Source) -> Iterator[Change]:
        spec = policy.spec
        rules = spec.get("overrideRules") or ()
        listed = [(f"spec.overrideRules[{n}]", each) for n, each in enumerate(rules)]
        for path, rule in listed or [("spec", spec)]:
            where = clusters_of(rule.get("targetCluster"))
            said = partial(self._note, policy, path)
            make = partial(_overridden, rule.get("overriders") or {}, said)
            clusters = () if where.every else (where,)
            yield Change(clusters, make, policy.document, f"{path}.overriders", policy.name)

    def _note(self, policy: Source, path: str, field: str, text: str) -> None:
        self._into.notes.note(policy.document, f"{path}.overriders.{field}", text)

    def told(self) -> None:
        self._into.unused(self._all, self._used, "takes no object that is placed")


def _overridden(rule: Mapping[str, Any], said: Any, body: Body) -> Body:
    return overriders.applied(body, rule, said)


# --- clusters, kinds, autoscalers -----------------------------------------------------------------


def _cluster(into: Conversion, source: Source, fleet: Fleet) -> None:
    spec = source.spec
    labels = dict(source.labels)
    zones = list(spec.get("zones") or ()) or ([spec["zone"]] if spec.get("zone") else [])
    if spec.get("region"):
        labels.setdefault(REGION, spec["region"])
    if len(zones) == 1:
        labels.setdefault(ZONE, zones[0])
    elif zones:
        text = "a cluster of several zones has none as label: its nodes say theirs"
        into.notes.note(source.document, "spec.zones", text)
    for n, taint in enumerate(spec.get("taints") or ()):
        key = str(taint.get("key") or "")
        if key.startswith("cluster.karmada.io/"):
            text = "is Karmada's own of a cluster that is lost: the propagator sees that itself"
            into.notes.note(source.document, f"spec.taints[{n}]", text)
    taints = [
        t
        for t in spec.get("taints") or ()
        if not str(t.get("key") or "").startswith("cluster.karmada.io/")
    ]
    kept = {key: value for key, value in labels.items() if not _mark(key)}
    body = stub(source.name, kept, taints, provider=str(spec.get("provider") or ""))
    into.register(source, body, fleet)


def _kinds(into: Conversion) -> Iterator[tuple[tuple[str, str], str]]:
    """Make the WorkloadKinds. Yield where each kind has its number of replicas."""
    taken: dict[str, Source] = {}
    for source in into.bundle.of(fields.CONFIG, "ResourceInterpreterCustomization"):
        body, used = interpreters.kind_of(source.spec)
        for name, becomes in used.items():
            path = f"spec.customizations.{name}.luaScript"
            into.notes.note(source.document, path, "reads paths alone", becomes=becomes)
        if body is None or body["metadata"]["name"] in taken:
            text = "its scripts say nothing that a WorkloadKind could without running them"
            into.notes.lost(source.document, "spec.target", text)
            continue
        taken[body["metadata"]["name"]] = source
        text = "takes the place of the whole profile that Stowage has of the kind, if it has one"
        into.notes.note(source.document, "spec.target", text, becomes="a WorkloadKind")
        into.add(source, body)
        spec = body["spec"]
        yield (spec["group"], spec["kind"]), spec["replicas"]["path"]


def _autoscaler(into: Conversion, source: Source, made: Sequence[Placed]) -> None:
    ref = dig(source.spec, "scaleTargetRef") or {}
    for placed in made:
        main = placed.main
        if main and (main.namespace, main.kind, main.name) == (
            source.namespace,
            ref.get("kind"),
            ref.get("name"),
        ):
            break
    else:
        text = f"{ref.get('kind')} {ref.get('name')} is no Workload of the output; left out"
        into.notes.lost(source.document, "spec.scaleTargetRef", text)
        return
    spec = placed.body["spec"]
    name = placed.body["metadata"]["name"]
    metadata = {"name": source.name}
    if source.namespace:
        metadata["namespace"] = source.namespace
    target = {"apiVersion": API_VERSION, "kind": "Workload", "name": name}
    body = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": metadata | _kept(source),
        "spec": {**source.spec, "scaleTargetRef": target},
    }
    if "replicas" not in spec:
        text = "an autoscaler needs spec.replicas of the Workload: write it"
        into.notes.note(source.document, "spec.scaleTargetRef", text, becomes="scaleTargetRef")
    into.add(source, body)


def _kept(source: Source) -> dict[str, Any]:
    metadata = source.document.body["metadata"]
    kept = {}
    for field in ("labels", "annotations"):
        said = {k: v for k, v in (metadata.get(field) or {}).items() if not _mark(k)}
        if said:
            kept[field] = said
    return kept


SYSTEM = System("Karmada", fields.GROUPS, (), convert, tables=fields.TABLES, shapes="karmada")
