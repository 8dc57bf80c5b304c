"""Karmada, as Workloads are migrated from it.

Karmada keeps a ResourceBinding for each object, with its clusters and replicas, and a Work for each
object and cluster. It neither updates nor remakes what a suspended Work holds, but it carries the
deletion of one out. It deletes nothing that lacks the label `karmada.io/managed`, and updates such
an object under the conflict resolution Overwrite alone. So a release suspends the policy, has
conflicts abort, and takes the label off on members. The Works of dependencies and of Namespaces are
not suspended: of these the members prove it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from machinery.api.resources import Resource
from machinery.types import conditions
from stowage.importing.pieces import Piece, Placed
from stowage.importing.reading import dig
from stowage.importing.systems.karmada.policies import claim_of
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
from stowage.migrating.peers.works import of_group

_POLICY, _WORK = "policy.karmada.io", "work.karmada.io"
CLUSTERS = Resource("cluster.karmada.io", "v1alpha1", "clusters", "Cluster", namespaced=False)
POLICIES = Resource(_POLICY, "v1alpha1", "propagationpolicies", "PropagationPolicy")
CLUSTER_POLICIES = Resource(
    _POLICY, "v1alpha1", "clusterpropagationpolicies", "ClusterPropagationPolicy", namespaced=False
)
BINDINGS = Resource(_WORK, "v1alpha2", "resourcebindings", "ResourceBinding")
CLUSTER_BINDINGS = Resource(
    _WORK, "v1alpha2", "clusterresourcebindings", "ClusterResourceBinding", namespaced=False
)
WORKS = Resource(_WORK, "v1alpha1", "works", "Work")
MANAGED = "karmada.io/managed"
OVERWRITE = "work.karmada.io/conflict-resolution"
_SPACE = "karmada-es-"
_DISPATCHING = ("spec", "suspension", "dispatching")
_RESOLUTION = ("spec", "conflictResolution")
_PRESERVE = ("spec", "preserveResourcesOnDeletion")
_ON_CLUSTERS = ("spec", "suspension", "dispatchingOnClusters")


class KarmadaView(PeerView):
    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._bindings: dict[Key, Json] = {}
        self._by_rule: dict[tuple[str, str, str], list[Key]] = {}
        self._attached: dict[tuple[str, str], list[Key]] = {}
        for binding in (*objects.of(BINDINGS), *objects.of(CLUSTER_BINDINGS)):
            key = _resource(binding).key
            self._bindings[key] = binding
            if (claim := claim_of(binding["metadata"])) is not None:
                self._by_rule.setdefault(claim, []).append(key)
            for name in _needed_by(binding):
                self._attached.setdefault(name, []).append(key)
        self._works: dict[tuple[str, Key], Json] = {}
        for work in objects.of(WORKS):
            cluster = str(work["metadata"]["namespace"]).removeprefix(_SPACE)
            for manifest in dig(work, "spec", "workload", "manifests") or ():
                self._works[cluster, Ref.of(manifest).key] = work

    def clusters(self) -> list[PeerCluster]:
        listed = self._objects.of(CLUSTERS)
        return [PeerCluster(c["metadata"]["name"], str(dig(c, "spec", "id") or "")) for c in listed]

    # --- what it says of a Workload -----------------------------------------------------------

    def standing(self, placed: Placed, named: Collection[Key]) -> Standing:
        ways: list[str] = []
        held: list[HeldObject] = []
        shares: Mapping[str, int] | None = None
        for piece in placed.objects:
            mine = self._placed(piece, ways)
            if shares is None:
                shares = mine
            elif mine.keys() != shares.keys():
                where = ", ".join(sorted(mine)) or "no cluster"
                ways.append(f"{_ref(piece)} is on {where}, and not where the Workload is")
            needed = self._needed(piece, named, ways)
            held.append(HeldObject(_ref(piece), tuple(sorted({*mine, *needed}))))
        shares = shares or {}
        held += self._dependencies(placed, named, ways)
        spaces = dict.fromkeys(each.ref.namespace for each in held if each.ref.namespace)
        of_clusters = tuple(sorted({name for each in held for name in each.clusters}))
        held += [HeldObject(Ref("v1", "Namespace", "", name), of_clusters) for name in spaces]
        rules = self._rules(placed, named, ways)
        changes = [change for rule in rules for change in self._changes(rule)]
        for piece in placed.objects:
            said = dig(piece.body, "metadata", "annotations", OVERWRITE)
            if said == "overwrite":  # the object's own word counts before the policy's
                changes.append(Change(_ref(piece), ("metadata", "annotations", OVERWRITE), "abort"))
        templates = [_ref(piece) for piece in placed.objects]
        return Standing(shares, held, changes, templates, rules, tuple(dict.fromkeys(ways)))

    def _placed(self, piece: Piece, ways: list[str]) -> Mapping[str, int]:
        """Return the replicas of one object by cluster; 1 of what has no replicas."""
        ref, binding = _ref(piece), self._bindings.get(piece.key)
        if dig(piece.body, "metadata", "deletionTimestamp"):
            ways.append(f"{ref} is being deleted")
        if binding is None:
            ways.append(f"{ref} has no {BINDINGS.kind}: Karmada has not placed it")
            return {}
        what = Ref.of(binding)
        if dig(binding, "metadata", "deletionTimestamp"):
            ways.append(f"{what} is being deleted")
        tasks = dig(binding, "spec", "gracefulEvictionTasks") or ()
        ways += [f"{what} evicts from {t.get('fromCluster')}: wait until it has" for t in tasks]
        listed = dig(binding, "spec", "clusters") or ()
        if not listed:
            ways.append(f"{what} names no cluster: {ref} runs nowhere")
        for each in listed:
            ways += self._unapplied(each["name"], piece.key)
        return {each["name"]: int(each.get("replicas") or 1) for each in listed}

    def _needed(self, piece: Piece, named: Collection[Key], ways: list[str]) -> list[str]:
        """Return the clusters that need an object for others; who is not named would lose it."""
        binding = self._bindings.get(piece.key)
        said = _needed_by(binding) if binding is not None else {}
        others = [name for name in said if self._of(name) not in named]
        if others:
            text = f"{_ref(piece)} is needed by {BINDINGS.kind} {'/'.join(others[0])} too"
            ways.append(f"{text}: name what it binds as well")
        return [cluster for clusters in said.values() for cluster in clusters]

    def _unapplied(self, cluster: str, key: Key) -> Iterator[str]:
        work = self._works.get((cluster, key))
        if work is None:
            yield f"{cluster}: there is no Work of {key[1]} {key[3]} yet"
        elif dig(work, "metadata", "deletionTimestamp"):
            yield f"{Ref.of(work)} is being deleted"

    def _dependencies(
        self, placed: Placed, named: Collection[Key], ways: list[str]
    ) -> Iterator[HeldObject]:
        """Yield what goes along by propagateDeps: Karmada binds it for the clusters of each."""
        own = {piece.key for piece in placed.objects}
        for piece in placed.objects:
            binding = self._bindings.get(piece.key)
            name = _name(binding) if binding is not None else ("", "")
            for key in self._attached.get(name, ()):
                if key in own:
                    continue
                attached = self._bindings[key]
                said = _needed_by(attached)
                others = [each for each in said if self._of(each) not in named]
                ref = _resource(attached)
                if others and dig(attached, *_RESOLUTION) == "Overwrite":
                    more = "/".join(others[0])
                    ways.append(f"{ref} is needed by {BINDINGS.kind} {more} too, with Overwrite")
                yield HeldObject(ref, tuple(sorted(said[name])))

    def _of(self, name: tuple[str, str]) -> Key | None:
        binding = self._objects.find((_WORK, BINDINGS.kind, *name))
        return _resource(binding).key if binding is not None else None

    def _rules(self, placed: Placed, named: Collection[Key], ways: list[str]) -> list[Ref]:
        found: dict[Ref, None] = {}
        for piece in placed.objects:
            claim = claim_of(piece.body.get("metadata") or {})
            if claim is None:
                ways.append(f"{_ref(piece)} carries no claim of a policy: Karmada does not hold it")
            else:
                found[Ref(f"{_POLICY}/v1alpha1", *claim)] = None
        for rule in found:
            ways += self._unready(rule, named)
        return [*found]

    def _unready(self, rule: Ref, named: Collection[Key]) -> Iterator[str]:
        """Yield what of a policy is in the way of its release."""
        policy = self._objects.find(rule.key)
        if policy is None:
            yield f"{rule} is gone: what it placed is bound, and nothing suspends it"
            return
        if dig(policy, "metadata", "deletionTimestamp"):
            yield f"{rule} is being deleted"
        if dig(policy, "spec", "activationPreference") == "Lazy":
            yield f"{rule}: spec.activationPreference: Lazy: a suspension would not arrive"
        if dig(policy, *_ON_CLUSTERS):
            yield f"{rule}: spec.suspension.dispatchingOnClusters: cannot stand beside a suspension"
        others = [key for key in self._claimed(rule) if key not in named]
        if others:
            _, kind, space, name = min(others)
            more = f" and {len(others) - 1} more" if len(others) > 1 else ""
            where = "/".join(filter(None, (space, name)))
            yield f"{rule} places {kind} {where}{more} too: name them as well"

    def _claimed(self, rule: Ref) -> list[Key]:
        return self._by_rule.get((rule.kind, rule.namespace, rule.name), [])

    def _changes(self, rule: Ref) -> Iterator[Change]:
        yield Change(rule, _DISPATCHING, True)
        yield Change(rule, _RESOLUTION, "Abort")
        policy = self._objects.find(rule.key)
        if policy is not None and dig(policy, *_PRESERVE):
            # of an object without the label, such an end is tried for ever
            yield Change(rule, _PRESERVE, False)

    # --- what its objects prove ---------------------------------------------------------------

    def runs_on(self, standing: Standing) -> Collection[str]:
        binding = self._bindings.get(standing.templates[0].key) if standing.templates else None
        return _all_clusters(binding) if binding is not None else ()

    def unreleased(self, standing: Standing) -> Iterator[str]:
        for ref in standing.templates:
            binding = self._bindings.get(ref.key)
            for cluster in _all_clusters(binding) if binding is not None else ():
                work = self._works.get((cluster, ref.key))
                if work is None:
                    yield f"{cluster}: there is no Work of {ref} yet"
                elif not _suspended(work):
                    yield f"{Ref.of(work)} of {ref} is not suspended: Dispatching is not False"
            for key in self._attached.get(_name(binding), ()) if binding is not None else ():
                attached = self._bindings[key]
                if dig(attached, *_RESOLUTION) == "Overwrite":
                    yield f"{Ref.of(attached)} overwrites still"

    def silent(self, standing: Standing) -> Iterator[str]:
        for ref in standing.templates:
            binding = self._bindings.get(ref.key)
            if binding is None:
                yield f"{ref} has no {BINDINGS.kind}"
                continue
            suspends = dig(binding, "spec", "suspension", "dispatching")
            for cluster in _all_clusters(binding) if not suspends else ():
                work = self._works.get((cluster, ref.key))
                said = (work or {}).get("status") or {}
                if not (
                    conditions.holds(said, "Dispatching") and conditions.holds(said, "Applied")
                ):
                    yield f"{cluster}: the Work of {ref} is not dispatched and applied again"
            wanted = self._suspends(standing)
            if bool(suspends) != wanted:
                yield f"{Ref.of(binding)} is {'suspended' if suspends else 'not suspended'} still"

    def _suspends(self, standing: Standing) -> bool:
        """Whether a policy of these suspends by its own word."""
        found = (self._objects.find(rule.key) for rule in standing.rules)
        return any(dig(policy, *_DISPATCHING) for policy in found if policy is not None)


def _ref(piece: Piece) -> Ref:
    return Ref.of(piece.body, piece.namespace)


def _resource(binding: Json) -> Ref:
    said = dig(binding, "spec", "resource") or {}
    fields = ("apiVersion", "kind", "namespace", "name")
    return Ref(*(str(said.get(field) or "") for field in fields))


def _name(binding: Json) -> tuple[str, str]:
    metadata = binding["metadata"]
    return str(metadata.get("namespace") or ""), str(metadata["name"])


def _needed_by(binding: Json) -> dict[tuple[str, str], list[str]]:
    """Return the clusters for which other bindings need it, by their namespace and name."""
    return {
        (str(each.get("namespace") or ""), str(each.get("name"))): [
            str(cluster["name"]) for cluster in each.get("clusters") or ()
        ]
        for each in dig(binding, "spec", "requiredBy") or ()
    }


def _all_clusters(binding: Json) -> list[str]:
    """Return every cluster that has a Work of a binding: chosen, needed, or being left."""
    spec = binding.get("spec") or {}
    names = [str(each["name"]) for each in spec.get("clusters") or ()]
    names += [name for clusters in _needed_by(binding).values() for name in clusters]
    names += [str(each.get("fromCluster")) for each in spec.get("gracefulEvictionTasks") or ()]
    return list(dict.fromkeys(names))


def _suspended(work: Json) -> bool:
    said = conditions.find(work.get("status") or {}, "Dispatching")
    return bool(dig(work, "spec", "suspendDispatching")) and said.get("status") == "False"


def _held_by(body: Json) -> Mapping[str, Any]:
    label = dig(body, "metadata", "labels", MANAGED)
    return {"labels": {MANAGED: label}} if label is not None else {}


PEER = Peer(
    "karmada",
    "Karmada",
    (CLUSTERS, POLICIES, CLUSTER_POLICIES, BINDINGS, CLUSTER_BINDINGS, WORKS),
    KarmadaView,
    _held_by,
    of_group("karmada.io"),
)
