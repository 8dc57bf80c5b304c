"""KubeFleet, as Workloads are migrated from it.

A placement has Works in the namespace of each chosen cluster, and on the member each object gets an
owner, the AppliedWork: with that it is garbage collected, the Namespace too. `ReportDiff` with
`whenToTakeOver: Never` writes nothing on members; `ReportDiff` alone takes ownership. So a release
writes both in one patch, and then takes the owners off, of Namespaces first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from machinery.api.resources import Resource
from machinery.types import conditions
from stowage.importing.pieces import Placed
from stowage.importing.reading import dig
from stowage.migrating.peer import (
    Change,
    HeldObject,
    Json,
    Key,
    Objects,
    Peer,
    PeerCluster,
    PeerView,
    Ref,
    Standing,
)
from stowage.migrating.peers.works import done, manifests_in, of_group, owned_by, replicas_of

GROUP, PLACING = "kubernetes-fleet.io", "placement.kubernetes-fleet.io"
VERSION = "v1beta1"
CLUSTERS = Resource(
    f"cluster.{GROUP}", VERSION, "memberclusters", "MemberCluster", namespaced=False
)
PLACEMENTS = Resource(
    PLACING,
    VERSION,
    "clusterresourceplacements",
    "ClusterResourcePlacement",
    namespaced=False,
)
OF_NAMESPACE = Resource(PLACING, VERSION, "resourceplacements", "ResourcePlacement")
WORKS = Resource(PLACING, VERSION, "works", "Work")
RUNS = Resource(
    PLACING, VERSION, "clusterstagedupdateruns", "ClusterStagedUpdateRun", namespaced=False
)
RUNS_OF_NAMESPACE = Resource(PLACING, VERSION, "stagedupdateruns", "StagedUpdateRun")
PARENT, PARENT_SPACE = f"{GROUP}/parent-CRP", f"{GROUP}/parent-namespace"
_SPACE = "fleet-member-"
_STRATEGY = ("spec", "strategy", "applyStrategy")
_RELEASED = {"type": "ReportDiff", "whenToTakeOver": "Never"}
_SERVER_SIDE = "serverSideApplyConfig"


class KubeFleetView(PeerView):
    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._works: dict[Key, list[Json]] = {}
        for work in objects.of(WORKS):
            self._works.setdefault(_rule_of(work), []).append(work)

    def clusters(self) -> list[PeerCluster]:
        return [PeerCluster(each["metadata"]["name"]) for each in self._objects.of(CLUSTERS)]

    # --- what it says of a Workload -----------------------------------------------------------

    def standing(self, placed: Placed, named: Collection[Key]) -> Standing:
        body = placed.rule.document.body
        rule = Ref(f"{PLACING}/{VERSION}", *Ref.of(body).key[1:])
        works = self._works.get(rule.key, [])
        found: dict[Ref, dict[str, Json]] = {}
        for work in works:
            for manifest in manifests_in(work.get("spec")):
                found.setdefault(Ref.of(manifest), {})[_cluster(work)] = manifest
        ways = [*self._ways(body, rule, works), *_unnamed(rule, found, named)]
        objects = [Ref.of(piece.body, piece.namespace) for piece in placed.objects]
        mine = found.get(objects[0], {}) if objects else {}
        if not mine:
            ways.append(f"{rule} has no Work of {objects[0] if objects else 'it'}: it runs nowhere")
        elsewhere = [ref for ref in objects if found.get(ref, {}).keys() != mine.keys()]
        ways += [f"{ref} is not on the clusters of the Workload" for ref in elsewhere]
        held = [HeldObject(ref, tuple(sorted(at))) for ref, at in found.items()]
        held.sort(key=lambda each: each.ref.kind != "Namespace")
        return Standing(
            {cluster: replicas_of(placed, manifest) for cluster, manifest in sorted(mine.items())},
            held,
            [*_changes(rule, body)],
            (),
            (rule,),
            tuple(dict.fromkeys(ways)),
        )

    def _ways(self, body: Json, rule: Ref, works: list[Json]) -> Iterator[str]:
        if dig(body, "metadata", "deletionTimestamp"):
            yield f"{rule} is being deleted"
        for run in (*self._objects.of(RUNS), *self._objects.of(RUNS_OF_NAMESPACE)):
            mine = dig(run, "spec", "placementName") == rule.name
            where = str(run["metadata"].get("namespace") or "")
            ended = conditions.find(run.get("status") or {}, "Succeeded").get("status")
            if mine and where == rule.namespace and ended not in ("True", "False"):
                yield f"{Ref.of(run)} is under way: wait until it has ended"
        for work in works:
            if dig(work, "metadata", "deletionTimestamp"):
                yield f"{Ref.of(work)} is being deleted"
            elif not done(work, "Applied") and not done(work, "DiffReported"):
                yield f"{Ref.of(work)} is not applied as it is"

    # --- what its objects prove ---------------------------------------------------------------

    def runs_on(self, standing: Standing) -> Collection[str]:
        return {_cluster(work) for work in self._all(standing)}

    def unreleased(self, standing: Standing) -> Iterator[str]:
        for work in self._all(standing):
            strategy = dig(work, "spec", "applyStrategy") or {}
            if {key: strategy.get(key) for key in _RELEASED} != _RELEASED:
                yield f"{Ref.of(work)} is applied still"
            elif not done(work, "DiffReported"):
                yield f"the agent of {_cluster(work)} has not reported on {Ref.of(work)} since then"

    def silent(self, standing: Standing) -> Iterator[str]:
        for work in self._all(standing):
            rule = self._objects.find(_rule_of(work))
            wanted = dig(rule, *_STRATEGY, "type") if rule is not None else None
            reports = dig(work, "spec", "applyStrategy", "type") == "ReportDiff"
            if reports != (wanted == "ReportDiff"):
                yield f"{Ref.of(work)} is not as its placement says"
            elif not done(work, "DiffReported" if reports else "Applied"):
                yield f"the agent of {_cluster(work)} has not written again"

    def _all(self, standing: Standing) -> Iterator[Json]:
        for rule in standing.rules:
            yield from self._works.get(rule.key, ())


def _changes(rule: Ref, body: Json) -> Iterator[Change]:
    for key, value in _RELEASED.items():
        yield Change(rule, (*_STRATEGY, key), value)
    if dig(body, *_STRATEGY, _SERVER_SIDE) is not None:
        yield Change(rule, (*_STRATEGY, _SERVER_SIDE), None)  # its webhook refuses it otherwise


def _rule_of(work: Json) -> Key:
    labels = work["metadata"].get("labels") or {}
    space = str(labels.get(PARENT_SPACE) or "")
    kind = OF_NAMESPACE.kind if space else PLACEMENTS.kind
    return PLACING, kind, space, str(labels.get(PARENT) or "")


def _cluster(work: Json) -> str:
    return str(work["metadata"]["namespace"]).removeprefix(_SPACE)


def _unnamed(rule: Ref, found: Collection[Ref], named: Collection[Key]) -> Iterator[str]:
    for ref in found:
        if ref.key not in named and ref.kind != "Namespace":
            yield f"{rule} places {ref} too: name it as well"


PEER = Peer(
    "kubefleet",
    "KubeFleet",
    (CLUSTERS, PLACEMENTS, OF_NAMESPACE, WORKS, RUNS, RUNS_OF_NAMESPACE),
    KubeFleetView,
    owned_by("AppliedWork"),
    of_group(GROUP),
)
