"""Open Cluster Management, as Workloads are migrated from it.

A ManifestWork brings its manifests to the cluster of its namespace, and its agent there gives each
object an owner, the AppliedManifestWork: with that the object goes. `Orphan` has the agent take the
owner off at its next sync, but not of what is ReadOnly, so a release sets Orphan with CreateOnly,
and ReadOnly once no owner is left. CreateOnly would make a missing object again.

Where a ManifestWorkReplicaSet makes the works, it alone is changed: it writes them over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from machinery.api.resources import Resource
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

GROUP, WORK = "open-cluster-management.io", "work.open-cluster-management.io"
CLUSTERS = Resource(f"cluster.{GROUP}", "v1", "managedclusters", "ManagedCluster", namespaced=False)
WORKS = Resource(WORK, "v1", "manifestworks", "ManifestWork")
SETS = Resource(WORK, "v1alpha1", "manifestworkreplicasets", "ManifestWorkReplicaSet")
MADE_BY = f"{WORK}/manifestworkreplicaset"
CLAIM = "id.k8s.io"
_ORPHAN, _CREATE, _READ = "Orphan", "CreateOnly", "ReadOnly"


class OcmView(PeerView):
    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._works: dict[Key, list[Json]] = {}
        self._holding: dict[tuple[str, Key], list[Json]] = {}
        for work in objects.of(WORKS):
            self._works.setdefault(_rule_of(work).key, []).append(work)
            for manifest in manifests_in(work.get("spec")):
                place = str(work["metadata"]["namespace"]), Ref.of(manifest).key
                self._holding.setdefault(place, []).append(work)

    def clusters(self) -> list[PeerCluster]:
        found = []
        for each in self._objects.of(CLUSTERS):
            claims = dig(each, "status", "clusterClaims") or ()
            uid = next((str(c.get("value")) for c in claims if c.get("name") == CLAIM), "")
            found.append(PeerCluster(each["metadata"]["name"], uid))
        return found

    # --- what it says of a Workload -----------------------------------------------------------

    def standing(self, placed: Placed, named: Collection[Key]) -> Standing:
        body = placed.rule.document.body
        rule, works = Ref.of(body), self._works.get(Ref.of(body).key, [])
        clusters = tuple(sorted(str(work["metadata"]["namespace"]) for work in works))
        manifests = [Ref.of(each) for each in manifests_in(_template(body))]
        ways = [*self._ways(body, rule, works, named)]
        number = replicas_of(placed, placed.main.body) if placed.main is not None else 1
        return Standing(
            dict.fromkeys(clusters, number),
            [HeldObject(ref, clusters) for ref in manifests],
            self._changes(rule, body, works, _CREATE, ways),
            (),
            (rule,),
            tuple(dict.fromkeys(ways)),
            seals=self._changes(rule, body, works, _READ, ways)[1:],
        )

    def _ways(
        self, body: Json, rule: Ref, works: list[Json], named: Collection[Key]
    ) -> Iterator[str]:
        if dig(body, "metadata", "deletionTimestamp"):
            yield f"{rule} is being deleted"
        if not works:
            yield f"{rule} has no {WORKS.kind}: it runs nowhere"
        summary = dig(body, "status", "summary") or {}
        if summary.get("total", len(works)) != len(works) or summary.get("Progressing"):
            yield f"{rule} is being rolled out: wait until it has"
        for work in works:
            yield from self._of_work(work)
        for manifest in manifests_in(_template(body)):
            if Ref.of(manifest).key not in named:
                yield f"{rule} places {Ref.of(manifest)} too: name it as well"

    def _of_work(self, work: Json) -> Iterator[str]:
        what = Ref.of(work)
        if dig(work, "metadata", "deletionTimestamp"):
            yield f"{what} is being deleted"
        if not done(work, "Applied"):
            yield f"{what} is not applied as it is"
        for manifest in manifests_in(work.get("spec")):
            ref = Ref.of(manifest)
            for other in self._holding[what.namespace, ref.key]:
                if other is not work:
                    yield f"{ref} is in {Ref.of(other)} too, which would take it along"

    def _changes(
        self, rule: Ref, body: Json, works: list[Json], strategy: str, ways: list[str]
    ) -> list[Change]:
        """Return what makes the objects orphans, with that strategy for every manifest."""
        base = ("spec",) if rule.kind == WORKS.kind else ("spec", "manifestWorkTemplate")
        plurals = {each: plural for work in works for each, plural in _plurals(work)}
        before = {_identified(c): c for c in dig(body, *base, "manifestConfigs") or ()}
        configs = []
        for manifest in manifests_in(_template(body)):
            ref = Ref.of(manifest)
            if ref.key not in plurals:
                ways.append(f"{ref} is not in the status of its {WORKS.kind}: wait until it is")
                continue
            resource = {"group": ref.key[0], "resource": plurals[ref.key], "name": ref.name}
            if ref.namespace:
                resource["namespace"] = ref.namespace
            said = {"resourceIdentifier": resource, "updateStrategy": {"type": strategy}}
            configs.append({**before.get(_identified(said), {}), **said})
        return [
            Change(rule, (*base, "deleteOption", "propagationPolicy"), _ORPHAN),
            Change(rule, (*base, "manifestConfigs"), configs),
        ]

    # --- what its objects prove ---------------------------------------------------------------

    def runs_on(self, standing: Standing) -> Collection[str]:
        return {str(work["metadata"]["namespace"]) for work in self._all(standing)}

    def unreleased(self, standing: Standing) -> Iterator[str]:
        for work in self._all(standing):
            spec, what = work.get("spec") or {}, Ref.of(work)
            kinds = [dig(c, "updateStrategy", "type") for c in spec.get("manifestConfigs") or ()]
            if dig(spec, "deleteOption", "propagationPolicy") != _ORPHAN:
                yield f"{what} does not orphan what it brings"
            elif len(kinds) < len([*manifests_in(work.get("spec"))]) or {*kinds} - {_CREATE, _READ}:
                yield f"{what} updates what it brings"
            elif not done(work, "Applied"):
                yield f"the agent of {what.namespace} has not written since {what} was changed"

    def silent(self, standing: Standing) -> Iterator[str]:
        for work in self._all(standing):
            kinds = {dig(c, "updateStrategy", "type") for c in _configs(work)}
            rule = self._objects.find(_rule_of(work).key) or work
            if kinds != {dig(c, "updateStrategy", "type") for c in _configs(rule)}:
                yield f"{Ref.of(work)} is not as its {rule['kind']} says"
            elif not done(work, "Applied"):
                yield f"the agent of {Ref.of(work).namespace} has not written again"

    def _all(self, standing: Standing) -> Iterator[Json]:
        for rule in standing.rules:
            yield from self._works.get(rule.key, ())


def _rule_of(work: Json) -> Ref:
    """Return what is to be changed: the set that makes a work, or the work itself."""
    maker = (dig(work, "metadata", "labels") or {}).get(MADE_BY)
    if not maker:
        return Ref.of(work)
    namespace, _, name = str(maker).partition(".")
    return Ref(SETS.api_version, SETS.kind, namespace, name)


def _template(body: Json) -> Any:
    spec = body.get("spec") or {}
    return spec.get("manifestWorkTemplate") if body.get("kind") == SETS.kind else spec


def _configs(body: Json) -> list[Json]:
    return list(dig(_template(body), "manifestConfigs") or ())


def _identified(config: Json) -> tuple[str, ...]:
    said = config.get("resourceIdentifier") or {}
    return tuple(str(said.get(key) or "") for key in ("group", "resource", "namespace", "name"))


def _plurals(work: Json) -> Iterator[tuple[Key, str]]:
    for each in dig(work, "status", "resourceStatus", "manifests") or ():
        meta = each.get("resourceMeta") or {}
        key = tuple(str(meta.get(name) or "") for name in ("group", "kind", "namespace", "name"))
        yield (key[0], key[1], key[2], key[3]), str(meta.get("resource") or "")


PEER = Peer(
    "ocm",
    "Open Cluster Management",
    (CLUSTERS, WORKS, SETS),
    OcmView,
    owned_by("AppliedManifestWork"),
    of_group(GROUP, also=("operator.openshift.io/spec-hash",)),
    frees=False,
    anywhere=True,
)
