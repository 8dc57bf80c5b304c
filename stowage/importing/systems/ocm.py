"""Open Cluster Management: ManifestWorks, and ManifestWorkReplicaSets with their Placements.

A ManifestWork is in the namespace of its cluster, and goes there; a ManifestWorkReplicaSet goes to
each cluster that its Placements choose. The objects are those that stand in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crds.names import LABEL_CLUSTER, TAINT_NOT_READY
from stowage.importing import waves
from stowage.importing.clusters import (
    EVERY,
    Clusters,
    Fleet,
    affinity,
    by_labels,
    stub,
)
from stowage.importing.durations import seconds
from stowage.importing.fates import METADATA, Row, Table, carried, lost, noted, whole
from stowage.importing.pieces import Piece
from stowage.importing.placing import Placement, Placer, Rules
from stowage.importing.reading import Source, dig
from stowage.importing.workloads import Conversion, System

Json = Mapping[str, Any]
CLUSTER, WORK = "cluster.open-cluster-management.io", "work.open-cluster-management.io"
ADDON, OPERATOR = "addon.open-cluster-management.io", "operator.open-cluster-management.io"
_SET = f"{CLUSTER}/clusterset"
_OWN_TAINTS = (f"{CLUSTER}/unavailable", f"{CLUSTER}/unreachable")
_MADE_BY = f"{WORK}/manifestworkreplicaset"
_EFFECTS = {
    "NoSelect": "NoSchedule",
    "NoSelectIfNew": "NoSchedule",
    "PreferNoSelect": "PreferNoSchedule",
}
_AT_ONCE = "here a wave waits until its clusters are healthy; there updates waited for creations"
_WAVES = f"{_AT_ONCE} alone (v1.0.0), or for a rule for Progressing (v1.2.0)"

# --- fields ---------------------------------------------------------------------------------------

_SELECTOR = "requiredClusterSelector"
_PLACEMENT: Table = {
    **METADATA,
    "spec.clusterSets": carried(f"clusterAffinity: the label {_SET}"),
    "spec.numberOfClusters": carried("spreadConstraints: maxDomains of stowage.dev/cluster"),
    f"spec.predicates.{_SELECTOR}.labelSelector": carried("clusterAffinity: a term each"),
    f"spec.predicates.{_SELECTOR}.claimSelector": noted(
        "claims are labels of MemberClusters: write them there", "clusterAffinity"
    ),
    f"spec.predicates.{_SELECTOR}.celSelector": lost("no expression chooses clusters: use labels"),
    "spec.prioritizerPolicy.mode": lost(
        "scores are weighed by the scheduler's profile", "Additive"
    ),
    "spec.prioritizerPolicy.configurations": lost(
        "names no label: scores are weighed by the scheduler's profile"
    ),
    "spec.spreadPolicy": lost("write spec.spreadConstraints: how many domains, not how even"),
    "spec.tolerations": carried("tolerations: NoSelect is NoSchedule"),
    "spec.decisionStrategy.groupStrategy.decisionGroups": carried("waves of a rollout"),
    "spec.decisionStrategy.groupStrategy.clustersPerDecisionGroup": lost(
        "a wave is chosen by labels, and takes all of these", "100%"
    ),
    "spec.scoreRateLimit": lost("a decision follows each change", ""),
    "spec.sortBy": lost("the scheduler's scores order the clusters", ""),
}
_RULES = "spec.manifestConfigs"


def _work(path: str) -> dict[str, Row]:
    config = f"{path}.manifestConfigs"
    rows = {
        "workload.manifests": carried("the Workloads that are made"),
        "deleteOption.propagationPolicy": carried("onDelete"),
        "deleteOption.selectivelyOrphans": lost(
            "annotate these objects with stowage.dev/keep: Always"
        ),
        "deleteOption.ttlSecondsAfterFinished": lost("nothing deletes a Workload by a clock"),
        "executor": noted("the propagator writes by the account that `stowage join` made"),
    }
    rules = {
        "resourceIdentifier": carried("the object that is meant"),
        "feedbackRules": lost("write spec.statusFields: paths of the status"),
        "feedbackScrapeType": lost("the propagator watches the objects", "Poll", "Watch"),
        "conditionRules": lost("write a WorkloadKind: when an object is ready"),
        "updateStrategy.type": carried("adoption, drift"),
        "updateStrategy.serverSideApply.force": noted(
            "every apply is server-side; `adoption` says what is taken over", "adoption"
        ),
        "updateStrategy.serverSideApply.fieldManager": noted("the manager is stowage", quiet=True),
        "updateStrategy.serverSideApply.ignoreFields": lost("write spec.ignoreFields"),
    }
    return {
        **{f"{path}.{key}": row for key, row in rows.items()},
        **{f"{config}.{key}": row for key, row in rules.items()},
    }


def _strategy(path: str) -> dict[str, Row]:
    rows: dict[str, Row] = {
        f"{path}.type": carried("rollout"),
        f"{path}.rolloutType": lost("is an old field, which no release reads: it is type now"),
    }
    for kind in ("all", "progressive", "progressivePerGroup"):
        rows |= {
            f"{path}.{kind}.minSuccessTime": carried("soakSeconds of the waves"),
            f"{path}.{kind}.progressDeadline": carried("rollout.progressDeadlineSeconds"),
            f"{path}.{kind}.maxFailures": lost("the first cluster that fails pauses a rollout"),
        }
    rows[f"{path}.progressive.maxConcurrency"] = carried("maxConcurrent of the waves")
    for kind in ("progressive", "progressivePerGroup"):
        rows[f"{path}.{kind}.mandatoryDecisionGroups"] = carried("the first waves")
    return rows


_REPLICA_SET: Table = {
    **METADATA,
    **_work("spec.manifestWorkTemplate"),
    "spec.placementRefs.name": carried("the rules of that Placement"),
    **_strategy("spec.placementRefs.rolloutStrategy"),
    "spec.cascadeDeletionPolicy": lost("onDelete says what becomes of the objects", "Background"),
}
_JOIN = "is no credential to take over: `stowage join` makes an account of its own"
_MANAGED: Table = {
    **METADATA,
    "metadata.labels": carried("metadata.labels of the MemberCluster"),
    "spec.hubAcceptsClient": noted("a member is registered by `stowage join`", quiet=True),
    "spec.leaseDurationSeconds": noted("the propagator finds out itself that a member is lost"),
    "spec.managedClusterClientConfigs": noted(_JOIN),
    "spec.taints": carried("spec.taints: NoSelect is NoSchedule"),
    "spec.taints.timeAdded": noted("is written by the server", quiet=True),
}
_CLUSTER_SET: Table = {
    **METADATA,
    "spec.clusterSelector": carried("clusterAffinity of what is placed in the set"),
    "spec.managedNamespaces": lost("`stowage tenant` gives a namespace to the propagator"),
}
TABLES: Mapping[tuple[str, str], Table] = {
    (CLUSTER, "Placement"): _PLACEMENT,
    (CLUSTER, "ManagedCluster"): _MANAGED,
    (CLUSTER, "ManagedClusterSet"): _CLUSTER_SET,
    (CLUSTER, "ManagedClusterSetBinding"): {
        **METADATA,
        "spec.clusterSet": carried("clusterAffinity of Placements that name no set"),
    },
    (CLUSTER, "PlacementDecision"): whole(
        noted("is what the hub that it comes from has decided; left out", quiet=True)
    ),
    (CLUSTER, "ClusterClaim"): whole(
        noted("is a claim of a member: write it as a label of the MemberCluster")
    ),
    (CLUSTER, "AddOnPlacementScore"): whole(lost("write a score plugin")),
    (WORK, "ManifestWork"): {**METADATA, **_work("spec")},
    (WORK, "ManifestWorkReplicaSet"): _REPLICA_SET,
    (WORK, "AppliedManifestWork"): whole(noted("is a member's own record; left out", quiet=True)),
    **{
        (ADDON, kind): whole(lost("there are no add-ons: render it and `stowage wrap`"))
        for kind in (
            "ClusterManagementAddOn",
            "ManagedClusterAddOn",
            "AddOnDeploymentConfig",
            "AddOnTemplate",
        )
    },
    **{
        (OPERATOR, kind): whole(noted("installs OCM itself; left out"))
        for kind in ("Klusterlet", "ClusterManager")
    },
}


# --- conversion -----------------------------------------------------------------------------------


def convert(into: Conversion) -> None:
    """Make MemberClusters and Workloads of OCM's objects."""
    fleet = Fleet()
    for source in into.bundle.of(CLUSTER, "ManagedCluster"):
        _cluster(into, source, fleet)
    rules = _Rules(into, fleet)
    placer = Placer(into, fleet, lambda key: "open-cluster-management.io/" in key)
    for source in into.bundle.of(WORK, "ManifestWorkReplicaSet"):
        placer.place(rules.of_set(source))
    for source in into.bundle.of(WORK, "ManifestWork"):
        if _MADE_BY in source.labels:
            text = "is made by a ManifestWorkReplicaSet; left out"
            into.notes.note(source.document, "", text, quiet=True)
        else:
            placer.place(rules.of_work(source))
    rules.told()
    placer.done()


def _cluster(into: Conversion, source: Source, fleet: Fleet) -> None:
    labels = dict(source.labels)
    claims = dig(source.document.body, "status", "clusterClaims") or ()
    for each in claims if isinstance(claims, list) else ():
        name, value = dig(each, "name"), dig(each, "value")
        if isinstance(value, str) and 0 < len(value) <= 63 and value.replace(".", "").isalnum():
            labels.setdefault(str(name), value)
    taints = []
    for n, each in enumerate(source.spec.get("taints") or ()):
        if each.get("key") in _OWN_TAINTS:
            text = "is OCM's own of a cluster that is lost: the propagator sees that itself"
            into.notes.note(source.document, f"spec.taints[{n}]", text)
        else:
            taints.append({**each, "effect": _EFFECTS.get(str(each.get("effect")), "NoSchedule")})
    body = stub(source.name, labels, taints)
    into.register(source, body, fleet)


class _Rules(Rules):
    """Reads works and Placements."""

    def told(self) -> None:
        """Note what nothing of the input goes by."""
        kinds = ("Placement", "ManagedClusterSet", "ManagedClusterSetBinding")
        of_kinds = self.into.bundle.of(CLUSTER, *kinds)
        self.into.unused(of_kinds, self.used, "nothing of the input is placed by it")

    # --- works --------------------------------------------------------------------------------

    def of_work(self, source: Source) -> Placement:
        target = {"targetCluster": {"name": source.namespace}} if source.namespace else {}
        text = "is the cluster of the work: spec.targetCluster"
        self.note(source, "metadata.namespace", text, "spec.targetCluster")
        rules = {"distribution": "Duplicated", **target, **self._said(source, "spec")}
        terms = (Clusters(names=(source.namespace,)),) if source.namespace else ()
        return self._placement(source, "spec", rules, terms, source.namespace)

    def of_set(self, source: Source) -> Placement:
        refs = source.spec.get("placementRefs") or ()
        terms: list[Clusters] = []
        rules: dict[str, Any] = {"distribution": "Duplicated"}
        for n, ref in enumerate(refs):
            path = f"spec.placementRefs[{n}]"
            found = self.into.bundle.find(
                CLUSTER, "Placement", source.namespace, str(ref.get("name"))
            )
            if found is None:
                text = f"no Placement {ref.get('name')} of its namespace is in the input: add it"
                self.lost(source, f"{path}.name", text)
                continue
            mine = self.terms(found)
            terms += mine
            said = self._placing(found, mine)
            said |= self._rollout(source, f"{path}.rolloutStrategy", ref, found, mine)
            if n and said != rules:
                for key in ("spreadConstraints", "rollout", "tolerations"):
                    if said.get(key) != rules.get(key):
                        text = f"{key} differ from those of the Placement before, which count"
                        self.lost(source, path, text)
            else:
                rules |= said
        rules |= affinity(terms)
        rules |= self._said(source, "spec.manifestWorkTemplate")
        return self._placement(source, "spec.manifestWorkTemplate", rules, terms, source.name)

    def _placement(
        self,
        source: Source,
        path: str,
        rules: dict[str, Any],
        terms: Sequence[Clusters],
        suffix: str,
    ) -> Placement:
        listed = dig(source.document.body, *path.split("."), "workload", "manifests") or ()
        pieces = []
        for n, body in enumerate(listed):
            if isinstance(body, dict) and isinstance(body.get("metadata"), dict):
                where = f"{path}.workload.manifests[{n}]"
                pieces.append(
                    Piece(source, body, where, str(body["metadata"].get("namespace") or ""))
                )
        spaces = {piece.namespace for piece in pieces if piece.namespace}
        namespace = spaces.pop() if len(spaces) == 1 else self.into.bundle.namespace
        return Placement(source, source.name, namespace, rules, terms, pieces, suffix=suffix)

    def _said(self, source: Source, path: str) -> dict[str, Any]:
        """Return what a work says of updates and of its deletion."""
        spec = dig(source.document.body, *path.split(".")) or {}
        made: dict[str, Any] = {}
        option = dig(spec, "deleteOption", "propagationPolicy")
        if option == "Orphan":
            made["onDelete"] = "Orphan"
        elif option == "SelectivelyOrphan":
            text = "keeps some objects: annotate these with stowage.dev/keep: Always"
            self.lost(source, f"{path}.deleteOption", text)
        kinds: dict[str, list[int]] = {}
        for n, each in enumerate(spec.get("manifestConfigs") or ()):
            kind = str(dig(each, "updateStrategy", "type") or "Update")
            kinds.setdefault(kind, []).append(n)
        for kind, places in kinds.items():
            at = [f"{path}.manifestConfigs[{n}].updateStrategy.type" for n in places]
            every = len(places) == len(spec.get("workload", {}).get("manifests") or ())
            for where in at:
                self._strategy_of(source, where, kind, made, every=every)
        return made

    def _strategy_of(
        self, source: Source, path: str, kind: str, made: dict[str, Any], *, every: bool
    ) -> None:
        if kind == "ServerSideApply":
            made["adoption"] = "IfUnowned"
            text = "takes over what is there and has no owner, of all objects of the work"
            self.note(source, path, text, "adoption: IfUnowned")
        elif kind == "CreateOnly" and every:
            made["drift"] = "Report"
            text = "what somebody changes on a member stays; an edit of the Workload goes there"
            self.note(source, path, text, "drift: Report")
        elif kind != "Update":
            text = "counts for all objects of a Workload or for none: write it into a work alone"
            if kind == "ReadOnly":
                text = "an object that is only read is none of a Workload"
            self.lost(source, path, f"{kind}: {text}")

    # --- Placements ---------------------------------------------------------------------------

    def terms(self, source: Source) -> list[Clusters]:
        """Return the clusters that a Placement may choose: its sets, and any of its predicates."""
        self.used.add(id(source))
        spec = source.spec
        sets = self._sets(source, spec)
        predicates = [
            _selector(dig(each, "requiredClusterSelector")) for each in spec.get("predicates") or ()
        ] or [EVERY]
        found = [one.both(other) for one in sets for other in predicates]
        return [each for each in found if each is not None]

    def _sets(self, source: Source, spec: Json) -> list[Clusters]:
        names = spec.get("clusterSets")
        if not names:
            bindings = [
                each
                for each in self.into.bundle.of(CLUSTER, "ManagedClusterSetBinding")
                if each.namespace == source.namespace
            ]
            self.used |= {id(each) for each in bindings}
            names = [str(each.spec.get("clusterSet")) for each in bindings]
            if not names:
                text = "names no cluster set, and no binding of its namespace is in the input: it"
                self.note(source, "spec", f"{text} may choose any cluster here")
                return [EVERY]
        plain = []
        made = []
        for name in names:
            found = self.into.bundle.find(CLUSTER, "ManagedClusterSet", "", str(name))
            self.used |= {id(found)} if found else set()
            selector = dig(found.spec, "clusterSelector") if found else None
            if name == "global" and found is None:
                return [EVERY]
            if dig(selector, "selectorType") == "LabelSelector":
                made.append(by_labels(dig(selector, "labelSelector")))
            else:
                plain.append(str(name))
        if plain:
            made.append(Clusters(expressions=((_SET, "In", tuple(plain)),)))
        return made

    def _placing(self, source: Source, terms: Sequence[Clusters]) -> dict[str, Any]:
        spec = source.spec
        made: dict[str, Any] = {}
        if number := spec.get("numberOfClusters"):
            made["spreadConstraints"] = [{"topologyKey": LABEL_CLUSTER, "maxDomains": number}]
        tolerations = []
        for n, each in enumerate(spec.get("tolerations") or ()):
            path = f"spec.tolerations[{n}]"
            said = {key: value for key, value in each.items() if value not in (None, "")}
            if said.pop("tolerationSeconds", None) is not None:
                self.lost(source, f"{path}.tolerationSeconds", "such a taint moves nothing here")
            if effect := said.get("effect"):
                said["effect"] = _EFFECTS.get(effect, effect)
            if said.get("key") in _OWN_TAINTS:
                said["key"] = TAINT_NOT_READY
                self.note(source, f"{path}.key", f"is {TAINT_NOT_READY} now", "tolerations")
                said.pop("effect", None)
            if said not in tolerations:
                tolerations.append(said)
        if tolerations:
            made["tolerations"] = tolerations
        return made

    # --- rollouts -----------------------------------------------------------------------------

    def _rollout(
        self, source: Source, path: str, ref: Json, placement: Source, terms: Sequence[Clusters]
    ) -> dict[str, Any]:
        strategy = ref.get("rolloutStrategy") or {}
        kind = str(strategy.get("type") or "All")
        name = kind[:1].lower() + kind[1:]
        said = strategy.get(name) or {}
        path = f"{path}.{name}"
        self._failures(source, f"{path}.maxFailures", said.get("maxFailures"), terms)
        success = said.get("minSuccessTime")
        soak = self._seconds(source, f"{path}.minSuccessTime", success, soak=True)
        deadline = self._seconds(source, f"{path}.progressDeadline", said.get("progressDeadline"))
        if kind == "All" and not soak and not deadline:
            return {}
        strategy = dig(placement.spec, "decisionStrategy", "groupStrategy")
        listed = dig(strategy, "decisionGroups") or ()
        groups = [
            (str(each.get("groupName") or n), _selector(dig(each, "groupClusterSelector")))
            for n, each in enumerate(listed)
        ]
        ordered = self._mandatory(source, path, said, groups)
        if kind == "ProgressivePerGroup":
            ordered += [each for each in groups if each not in ordered]
        made = [
            waves.wave(name, clusters, maxConcurrent="100%", soakSeconds=soak)
            for name, clusters in ordered
        ]
        if kind != "ProgressivePerGroup":
            say = lambda at, text: self.lost(source, at, text)  # noqa: E731 - short
            # No cluster at once means all of them there: findings/rollout-ocm.sh.
            most = said.get("maxConcurrency")
            most = "100%" if most in (None, 0, "0%") else most
            number = waves.concurrency(most, f"{path}.maxConcurrency", say)
            rest = waves.wave("others", EVERY, maxConcurrent=number, soakSeconds=soak)
            made.append(rest)
        if made:
            self.note(source, f"{path.rpartition('.')[0]}.type", _WAVES, "rollout")
        return waves.rollout(
            made or [waves.wave("all", EVERY, maxConcurrent="100%", soakSeconds=soak)],
            path,
            lambda at, text: self.lost(source, at, text),
            progressDeadlineSeconds=deadline,
        )

    def _mandatory(
        self, source: Source, path: str, said: Json, groups: Sequence[tuple[str, Clusters]]
    ) -> list[tuple[str, Clusters]]:
        ordered: list[tuple[str, Clusters]] = []
        for n, each in enumerate(said.get("mandatoryDecisionGroups") or ()):
            name, index = each.get("groupName"), each.get("groupIndex")
            found = next((g for g in groups if name and g[0] == name), None)
            if found is None and not name and isinstance(index, int) and index < len(groups):
                found = groups[index]
            if found is None:
                text = "is no decision group of the Placement that labels choose"
                self.lost(source, f"{path}.mandatoryDecisionGroups[{n}]", text)
            elif found not in ordered:
                ordered.append(found)
        return ordered

    def _seconds(self, source: Source, path: str, said: Any, *, soak: bool = False) -> int | None:
        if said in (None, "", "0", "0s") or (said == "None" and not soak):
            return None
        found = seconds(str(said))
        if found is None:
            self.lost(source, path, f"{said!r:.40} is no duration such as 5m")
            return None
        if found > waves.MOST_SECONDS:
            text = f"is {waves.MOST_SECONDS} seconds here, the longest"
            self.note(source, path, text, "soakSeconds" if soak else "progressDeadlineSeconds")
        return min(found, waves.MOST_SECONDS)

    def _failures(self, source: Source, path: str, said: Any, terms: Sequence[Clusters]) -> None:
        if said in (None, 0, "0", "0%"):
            return
        names = self.fleet.among(terms)
        number = int(said) if str(said).isdigit() else None
        if number is not None and names is not None and number > len(names):
            text = f"{number} of {len(names)} clusters counts as 0 there, and the first cluster"
            self.note(source, path, f"{text} that fails pauses a rollout here", "rollout.onFailure")


def _selector(said: Any) -> Clusters:
    """Return the clusters of a selector by labels and claims; claims are labels here."""
    labels, claims = by_labels(dig(said, "labelSelector")), by_labels(dig(said, "claimSelector"))
    return labels.both(claims) or EVERY


SYSTEM = System(
    "Open Cluster Management",
    (CLUSTER, WORK, ADDON, OPERATOR),
    (),
    convert,
    tables=TABLES,
    shapes="ocm",
)
