"""KubeFleet: placements, what overrides they have, and their staged update runs.

A ClusterResourcePlacement selects objects without a namespace, and a Namespace stands for all that
is in it; a ResourcePlacement selects in its own namespace. An envelope stands for its content, and
an override of it reaches an object inside by its path. A cluster-wide override is applied first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from crds.names import LABEL_CLUSTER, TAINT_NOT_READY
from machinery.types.selectors import parse_label_selector
from stowage.importing import waves
from stowage.importing.clusters import (
    EVERY,
    Clusters,
    Fleet,
    affinity,
    by_labels,
    by_names,
    stub,
)
from stowage.importing.differing import CLUSTER_NAME, Body, Change, Misfit, label_of, operated
from stowage.importing.durations import seconds
from stowage.importing.fates import METADATA, Table, carried, lost, noted, whole
from stowage.importing.pieces import Piece, piece_of
from stowage.importing.placing import Placement, Placer, Rules
from stowage.importing.reading import Source, dig
from stowage.importing.workloads import Conversion, System

Json = Mapping[str, Any]
GROUP, CLUSTER, LATER = (
    "placement.kubernetes-fleet.io",
    "cluster.kubernetes-fleet.io",
    "placement.kubefleet.dev",
)
PLACEMENTS = ("ClusterResourcePlacement", "ResourcePlacement")
OVERRIDES = ("ClusterResourceOverride", "ResourceOverride")
ENVELOPES = ("ClusterResourceEnvelope", "ResourceEnvelope")
_LABEL_VARIABLE = re.compile(r"\$\{MEMBER-CLUSTER-LABEL-KEY-([^}]*)\}")
_NAME_VARIABLE = "${MEMBER-CLUSTER-NAME}"
_NO_PROPERTY = "properties of clusters are scored by a plugin, and choose none"

# --- fields ---------------------------------------------------------------------------------------

_REQUIRED = "spec.policy.affinity.clusterAffinity.requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "spec.policy.affinity.clusterAffinity.preferredDuringSchedulingIgnoredDuringExecution"
_PLACEMENT: Table = {
    **METADATA,
    "spec.resourceSelectors": carried("the Workloads that are made"),
    "spec.policy.placementType": carried("distribution: Duplicated"),
    "spec.policy.clusterNames": carried("clusterAffinity: stowage.dev/cluster"),
    "spec.policy.numberOfClusters": carried("spreadConstraints: maxDomains of stowage.dev/cluster"),
    f"{_REQUIRED}.clusterSelectorTerms.labelSelector": carried("clusterAffinity, required terms"),
    f"{_REQUIRED}.clusterSelectorTerms.propertySelector": lost(_NO_PROPERTY),
    f"{_REQUIRED}.clusterSelectorTerms.propertySorter": lost(_NO_PROPERTY),
    f"{_PREFERRED}.weight": carried("clusterAffinity, preferred terms"),
    f"{_PREFERRED}.preference.labelSelector": carried("clusterAffinity, preferred terms"),
    f"{_PREFERRED}.preference.propertySelector": lost(_NO_PROPERTY),
    f"{_PREFERRED}.preference.propertySorter": lost(_NO_PROPERTY),
    "spec.policy.tolerations": carried("tolerations"),
    "spec.policy.topologySpreadConstraints": carried("spreadConstraints: minDomains"),
    "spec.strategy.type": carried("rollout"),
    "spec.strategy.rollingUpdate.maxUnavailable": carried("rollout: maxConcurrent of one wave"),
    "spec.strategy.rollingUpdate.maxSurge": lost(
        "a cluster that a Workload moves to is chosen at once", "25%"
    ),
    "spec.strategy.rollingUpdate.unavailablePeriodSeconds": lost(
        "a wave waits until its clusters are healthy: write minReadySeconds", 60
    ),
    "spec.strategy.applyStrategy.type": carried("delivery: None of ReportDiff"),
    "spec.strategy.applyStrategy.whenToApply": carried("drift"),
    "spec.strategy.applyStrategy.whenToTakeOver": carried("adoption"),
    "spec.strategy.applyStrategy.comparisonOption": noted(
        "fields that the template lacks are the member's", quiet=True
    ),
    "spec.strategy.applyStrategy.allowCoOwnership": lost(
        "an object with another owner is not taken over"
    ),
    "spec.strategy.applyStrategy.serverSideApplyConfig": noted("every apply is server-side"),
    "spec.strategy.deleteStrategy.propagationPolicy": noted(
        "no release of KubeFleet reads Abandon: to let objects stay, write onDelete: Orphan"
    ),
    "spec.strategy.reportBackStrategy": lost(
        "the status of each cluster stands in the Workload's: write statusFields", "Disabled"
    ),
    "spec.revisionHistoryLimit": noted("revisions are kept as rollouts need them", quiet=True),
    "spec.statusReportingScope": noted("the status stands in the Workload", quiet=True),
}
_RULE = "spec.policy.overrideRules"
_OVERRIDE: Table = {
    **METADATA,
    "spec.placement.name": carried("the Workloads of that placement alone"),
    "spec.placement.scope": carried("the Workloads of that placement alone"),
    f"{_RULE}.clusterSelector.clusterSelectorTerms.labelSelector": carried(
        "clusterSelector of the override"
    ),
    f"{_RULE}.clusterSelector.clusterSelectorTerms.propertySelector": lost(_NO_PROPERTY),
    f"{_RULE}.clusterSelector.clusterSelectorTerms.propertySorter": lost(_NO_PROPERTY),
    f"{_RULE}.jsonPatchOverrides": carried("jsonPatch; ${MEMBER-CLUSTER-NAME}: $(stowage.cluster)"),
    f"{_RULE}.overrideType": lost(
        "Delete: an override leaves no object out; place it by a rule of its own", "JSONPatch"
    ),
}
_STRATEGY: Table = {
    **METADATA,
    "spec.stages.name": carried("waves: name"),
    "spec.stages.labelSelector": carried("waves: clusterSelector"),
    "spec.stages.sortingLabelKey": lost("no label orders the clusters of a wave"),
    "spec.stages.maxConcurrency": carried("waves: maxConcurrent"),
    "spec.stages.afterStageTasks": carried("waves: soakSeconds of TimedWait, approval"),
    "spec.stages.beforeStageTasks": carried("waves: approval of the wave before"),
}
_RUN: Table = {
    **METADATA,
    "spec.placementName": carried("which placement has the waves"),
    "spec.stagedRolloutStrategyName": carried("which waves a placement has"),
    "spec.resourceSnapshotIndex": noted("the newest template is rolled out"),
    "spec.state": noted("`stowage rollout` pauses and goes on", quiet=True),
}
_MEMBER: Table = {
    **METADATA,
    "metadata.labels": carried("metadata.labels of the MemberCluster"),
    "spec.taints": carried("spec.taints"),
    "spec.identity": noted("is no credential to take over: `stowage join` makes its own"),
    "spec.heartbeatPeriodSeconds": noted("the propagator finds out itself that a member is lost"),
    "spec.deleteOptions": noted("`stowage unjoin` says what becomes of what runs there"),
}
_RECORD = whole(noted("is what KubeFleet's controllers make; left out", quiet=True))
TABLES: Mapping[tuple[str, str], Table] = {
    **{(GROUP, kind): _PLACEMENT for kind in PLACEMENTS},
    (GROUP, "ClusterResourceOverride"): {
        **_OVERRIDE, "spec.clusterResourceSelectors": carried("the object that is overridden")
    },
    (GROUP, "ResourceOverride"): {
        **_OVERRIDE, "spec.resourceSelectors": carried("the object that is overridden")
    },
    **{(GROUP, kind): {**METADATA, "data": carried("the Workloads that are made")}
       for kind in ENVELOPES},
    (GROUP, "ClusterStagedUpdateStrategy"): _STRATEGY,
    (GROUP, "StagedUpdateStrategy"): _STRATEGY,
    **{(GROUP, kind): _RUN for kind in ("ClusterStagedUpdateRun", "StagedUpdateRun")},
    **{(GROUP, kind): _RECORD for kind in (
        "AppliedWork", "ClusterResourceBinding", "ResourceBinding", "ClusterResourceSnapshot",
        "ResourceSnapshot", "ClusterSchedulingPolicySnapshot", "SchedulingPolicySnapshot",
        "ClusterResourceOverrideSnapshot", "ResourceOverrideSnapshot", "Work",
        "ClusterResourcePlacementStatus", "ApprovalRequest", "ClusterApprovalRequest",
    )},
    (GROUP, "ClusterResourcePlacementDisruptionBudget"): whole(
        lost("spec.movement.maxUnavailable bounds what a move takes away")
    ),
    (GROUP, "ClusterResourcePlacementEviction"): whole(lost("is one order: `stowage drain`")),
    (CLUSTER, "MemberCluster"): _MEMBER,
    (CLUSTER, "InternalMemberCluster"): _RECORD,
    ("multicluster.x-k8s.io", "ClusterProfile"): whole(
        noted("the feature ClusterProfile makes a MemberCluster of it; left out", quiet=True)
    ),
}  # fmt: skip


def convert(into: Conversion) -> None:
    """Make MemberClusters and Workloads of KubeFleet's objects."""
    fleet = Fleet()
    for source in into.bundle.of(CLUSTER, "MemberCluster"):
        body = stub(source.name, source.labels, source.spec.get("taints") or ())
        into.register(source, body, fleet)
    placer = Placer(into, fleet, _mark)
    overrides = _Overrides(into)
    rules = _Rules(into, fleet)
    selected = _Selected(into)
    for source in into.bundle.of(GROUP, *PLACEMENTS):
        pieces = selected.of(source)
        terms = rules.terms(source)
        spaces = {piece.namespace for piece in pieces if piece.namespace}
        space = source.namespace or (spaces.pop() if len(spaces) == 1 else into.bundle.namespace)
        changes = partial(overrides.of, source)
        placer.place(
            Placement(source, source.name, space, rules.of(source, terms), terms, pieces, changes)
        )
        if not pieces:
            text = "selects no object of the input: nothing is made of it"
            into.notes.unused(source.document, text)
    overrides.told()
    selected.told()
    rules.told()
    placer.done()


def _mark(key: str) -> bool:
    return key.partition("/")[0].endswith("kubernetes-fleet.io")


# --- what is selected -----------------------------------------------------------------------------


class _Selected:
    """The objects of the input that placements select, with the content of envelopes."""

    def __init__(self, into: Conversion) -> None:
        self._into = into
        self._all = [
            each
            for each in into.bundle.sources
            if not each.taken and (each.group, each.kind) not in TABLES
            and each.group not in (GROUP, CLUSTER, LATER)
        ]  # fmt: skip
        self._envelopes = list(into.bundle.of(GROUP, *ENVELOPES))
        self._used: set[int] = set()

    def of(self, placement: Source) -> list[Piece]:
        found: dict[int, list[Piece]] = {}
        for n, each in enumerate(placement.spec.get("resourceSelectors") or ()):
            chosen = list(self._chosen(placement, each))
            if not chosen:
                what = " ".join(filter(None, (each.get("kind"), each.get("name"))))
                text = f"selects no object of the input: {what}"
                path = f"spec.resourceSelectors[{n}]"
                self._into.notes.note(placement.document, path, text)
            for source in chosen:
                found.setdefault(id(source), self._pieces(source))
        return [piece for listed in found.values() for piece in listed]

    def _chosen(self, placement: Source, selector: Json) -> Iterator[Source]:
        for source in (*self._all, *self._envelopes):
            if placement.kind == "ResourcePlacement" and source.namespace != placement.namespace:
                continue
            if _selects(selector, source) or (
                placement.kind == "ClusterResourcePlacement"
                and (selector.get("group") or "", selector.get("kind")) == ("", "Namespace")
                and selector.get("selectionScope") != "NamespaceOnly"
                and source.namespace
                and self._space(selector, source.namespace)
            ):
                yield source

    def _space(self, selector: Json, namespace: str) -> bool:
        """Whether a selector of Namespaces means this one, which may not be in the input."""
        if name := selector.get("name"):
            return bool(name == namespace)
        found = self._into.bundle.find("", "Namespace", "", namespace)
        return found is not None and _selects(selector, found)

    def told(self) -> None:
        for each in self._envelopes:
            if id(each) not in self._used:
                self._into.notes.unused(each.document, "no placement of the input selects it")

    def _pieces(self, source: Source) -> list[Piece]:
        self._used.add(id(source))
        if source.group != GROUP:
            return [piece_of(source)]
        data = source.document.body.get("data")
        made = []
        for key, body in sorted((data if isinstance(data, dict) else {}).items()):
            path = f'data["{key}"]'
            if isinstance(body, dict) and isinstance(body.get("metadata"), dict):
                space = str(body["metadata"].get("namespace") or source.namespace)
                made.append(Piece(source, body, path, space, key))
            else:
                text = "is no object with a name"
                self._into.notes.lost(source.document, path, text)
        return made


def _selects(selector: Json, source: Source) -> bool:
    version = str(source.document.body.get("apiVersion")).rpartition("/")[2]
    asked = (selector.get("group") or "", selector.get("version") or version, selector.get("kind"))
    if asked != (source.group, version, source.kind):
        return False
    if name := selector.get("name"):
        return bool(name == source.name)
    try:
        return parse_label_selector(selector.get("labelSelector") or {}).matches(source.labels)
    except ValueError:
        return False


# --- rules ----------------------------------------------------------------------------------------


class _Rules(Rules):
    def told(self) -> None:
        """Note the staged strategies and runs that no placement of the input has."""
        for kind in ("StagedUpdateStrategy", "StagedUpdateRun"):
            of_kind = self.into.bundle.of(GROUP, kind, f"Cluster{kind}")
            self.into.unused(of_kind, self.used, "no placement of the input goes by it")

    def terms(self, source: Source) -> list[Clusters]:
        policy = source.spec.get("policy") or {}
        if policy.get("placementType") == "PickFixed":
            found = [by_names(policy.get("clusterNames") or ())]
        else:
            listed = dig(
                policy,
                "affinity",
                "clusterAffinity",
                "requiredDuringSchedulingIgnoredDuringExecution",
                "clusterSelectorTerms",
            )
            found = [by_labels(each.get("labelSelector")) for each in listed or ()]
        if text := self.fleet.unknown(found):
            self.note(source, "spec.policy.clusterNames", text, "clusterAffinity")
        return found

    def of(self, source: Source, terms: Sequence[Clusters]) -> dict[str, Any]:
        """Return the fields of a Workload's spec that a placement comes to."""
        spec = source.spec
        policy = spec.get("policy") or {}
        made: dict[str, Any] = {"distribution": "Duplicated", **affinity(terms)}
        if preferred := list(self._preferred(source, policy)):
            rules = made.setdefault("clusterAffinity", {})
            rules["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
        made |= self._domains(source, policy, terms)
        if tolerations := list(self._tolerations(policy)):
            made["tolerations"] = tolerations
        made |= self._applied(source, spec)
        rollout = self._rollout(source, spec)
        if rollout and made.get("delivery") == "None":
            self.lost(source, "spec.strategy.type", "nothing is rolled out with delivery: None")
            return made
        return made | rollout

    def _preferred(self, source: Source, policy: Json) -> Iterator[dict[str, Any]]:
        rule = "preferredDuringSchedulingIgnoredDuringExecution"
        for n, each in enumerate(dig(policy, "affinity", "clusterAffinity", rule) or ()):
            path = f"spec.policy.affinity.clusterAffinity.{rule}[{n}]"
            weight, said = (
                each.get("weight") or 0,
                by_labels(dig(each, "preference", "labelSelector")),
            )
            if weight < 0:
                self.lost(source, f"{path}.weight", "no term makes a cluster worse: turn it round")
            elif weight and not said.every:
                yield {"weight": min(weight, 100), "preference": said.selectors()[0]}

    def _domains(self, source: Source, policy: Json, terms: Sequence[Clusters]) -> dict[str, Any]:
        made = []
        number = policy.get("numberOfClusters") if policy.get("placementType") == "PickN" else None
        for n, each in enumerate(policy.get("topologySpreadConstraints") or ()):
            path = f"spec.policy.topologySpreadConstraints[{n}]"
            key, skew = str(each.get("topologyKey")), each.get("maxSkew") or 1
            names = self.fleet.among(terms) or ()
            labels = [
                self.fleet.labels[name].get(key) for name in names if name in self.fleet.labels
            ]
            domains = len({label for label in labels if label})
            if skew != 1 or each.get("whenUnsatisfiable") == "ScheduleAnyway":
                self.lost(source, path, "only an even spread that must hold can be asked for")
            elif not domains or not number:
                text = "how many domains there are is known by the clusters alone: add them to the"
                self.lost(source, path, f"{text} input")
            else:
                made.append({"topologyKey": key, "minDomains": min(domains, number)})
                text = "is the least number of domains now, as the clusters of the input have them"
                self.note(source, path, text, "spreadConstraints")
        if number:
            made.append({"topologyKey": LABEL_CLUSTER, "maxDomains": number})
        return {"spreadConstraints": made} if made else {}

    def _tolerations(self, policy: Json) -> Iterator[dict[str, Any]]:
        for each in policy.get("tolerations") or ():
            said = {key: value for key, value in each.items() if value not in (None, "")}
            if _mark(str(said.get("key") or "")):
                said = {"key": TAINT_NOT_READY, "operator": "Exists"}
            yield said

    def _applied(self, source: Source, spec: Json) -> dict[str, Any]:
        said = dig(spec, "strategy", "applyStrategy") or {}
        path = "spec.strategy.applyStrategy"
        made: dict[str, Any] = {}
        if said.get("type") == "ReportDiff":
            text = "nothing is sent while spec.delivery is None, and nothing is compared"
            self.note(source, f"{path}.type", text, "delivery: None")
            made["delivery"] = "None"
        if said.get("whenToApply") == "IfNotDrifted":
            made["drift"] = "Report"
        if (take := said.get("whenToTakeOver")) in ("Always", "IfNoDiff"):
            made["adoption"] = "IfUnowned" if take == "Always" else "IfNoDiff"
            text = "takes over objects that have no owner; others stay"
            self.note(source, f"{path}.whenToTakeOver", text, f"adoption: {made['adoption']}")
        return made

    # --- waves --------------------------------------------------------------------------------

    def _rollout(self, source: Source, spec: Json) -> dict[str, Any]:
        strategy = spec.get("strategy") or {}
        if strategy.get("type") == "External":
            return self._staged(source)
        most = dig(strategy, "rollingUpdate", "maxUnavailable")
        if most is None:
            return {}
        path = "spec.strategy.rollingUpdate.maxUnavailable"
        say = partial(self.lost, source)
        text = "so many clusters are updated at once; there a cluster that is not available counts"
        self.note(source, path, f"{text} as none", "rollout")
        number = waves.concurrency(most, path, say)
        return waves.rollout([waves.wave("all", EVERY, maxConcurrent=number)], path, say)

    def _staged(self, source: Source) -> dict[str, Any]:
        """Return the waves of the strategy that the last run of a placement names."""
        prefix = "Cluster" if source.kind == "ClusterResourcePlacement" else ""
        runs = [
            run
            for run in self.into.bundle.of(GROUP, f"{prefix}StagedUpdateRun")
            if run.spec.get("placementName") == source.name and run.namespace == source.namespace
        ]
        runs.sort(key=lambda run: (str(_made(run)), run.name))
        self.used |= {id(run) for run in runs[-1:]}
        names = [str(run.spec.get("stagedRolloutStrategyName")) for run in runs[-1:]]
        kind = f"{prefix}StagedUpdateStrategy"
        if not names:
            listed = [
                s for s in self.into.bundle.of(GROUP, kind) if s.namespace == source.namespace
            ]
            names = [each.name for each in listed] if len(listed) == 1 else []
        found = [self.into.bundle.find(GROUP, kind, source.namespace, name) for name in names]
        if not found or found[0] is None:
            text = "External: the input has no run of it, and no strategy that it could only mean"
            self.lost(source, "spec.strategy.type", text)
            return {}
        return self._waves(found[0])

    def _waves(self, strategy: Source) -> dict[str, Any]:
        self.used.add(id(strategy))
        say = partial(self.lost, strategy)
        made: list[dict[str, Any]] = []
        for n, stage in enumerate(strategy.spec.get("stages") or ()):
            path = f"spec.stages[{n}]"
            soak, approval = 0, False
            for m, task in enumerate(stage.get("afterStageTasks") or ()):
                at = f"{path}.afterStageTasks[{m}]"
                approval = approval or task.get("type") == "Approval"
                if task.get("type") == "TimedWait":
                    soak = max(soak, self._wait(strategy, f"{at}.waitTime", task.get("waitTime")))
            before = stage.get("beforeStageTasks") or ()
            if before and made:
                made[-1]["approval"] = True
            elif before:
                text = "nothing comes before the first wave: write rollout.paused"
                say(f"{path}.beforeStageTasks", text)
            most = stage.get("maxConcurrency")
            number = waves.concurrency(most, f"{path}.maxConcurrency", say)
            if isinstance(number, str) and number != "100%":
                text = "is rounded up; there down, to 1 at least"
                self.note(strategy, f"{path}.maxConcurrency", text, "maxConcurrent")
            if stage.get("labelSelector") is None:
                say(f"{path}.labelSelector", "is not there: such a stage takes no cluster")
                continue
            clusters = by_labels(stage["labelSelector"])
            name = str(stage.get("name") or n)
            made.append(
                waves.wave(
                    name, clusters, maxConcurrent=number, soakSeconds=soak, approval=approval
                )
            )
        return waves.rollout(made, "spec.stages", say) if made else {}

    def _wait(self, strategy: Source, path: str, said: Any) -> int:
        found = seconds(str(said or "0"))
        if found is None:
            self.lost(strategy, path, f"{said!r:.40} is no duration such as 1h")
            return 0
        if found > waves.MOST_SECONDS:
            text = f"is {waves.MOST_SECONDS} seconds here, the longest"
            self.note(strategy, path, text, "soakSeconds")
        return min(found, waves.MOST_SECONDS)


def _made(source: Source) -> Any:
    return dig(source.document.body, "metadata", "creationTimestamp") or ""


# --- overrides ------------------------------------------------------------------------------------


class _Overrides:
    def __init__(self, into: Conversion) -> None:
        self._into = into
        self._all = sorted(
            into.bundle.of(GROUP, *OVERRIDES),
            key=lambda s: (s.kind != "ClusterResourceOverride", s.name),
        )
        self._used: set[int] = set()

    def of(self, placement: Source, piece: Piece) -> list[Change]:
        return [
            change
            for override in self._all
            if self._reaches(override, placement) and self._meant(override, piece)
            for change in self._changes(override, piece)
        ]

    def _reaches(self, override: Source, placement: Source) -> bool:
        said = override.spec.get("placement") or {}
        scope = PLACEMENTS[said.get("scope") == "Namespaced"]
        return not said.get("name") or (said["name"], scope) == (placement.name, placement.kind)

    def _meant(self, override: Source, piece: Piece) -> bool:
        """Whether an override names an object, its namespace, or the envelope that holds it."""
        source = piece.source
        cluster_wide = override.kind == "ClusterResourceOverride"
        field = "clusterResourceSelectors" if cluster_wide else "resourceSelectors"
        for each in override.spec.get(field) or ():
            key = (each.get("group") or "", each.get("kind"), each.get("name"))
            if cluster_wide and source.namespace:
                found = key == ("", "Namespace", source.namespace)
            else:
                found = key == (source.group, source.kind, source.name) and (
                    cluster_wide or source.namespace == override.namespace
                )
            if found:
                self._used.add(id(override))
                return True
        return False

    def _changes(self, override: Source, piece: Piece) -> Iterator[Change]:
        for n, rule in enumerate(dig(override.spec, "policy", "overrideRules") or ()):
            path = f"spec.policy.overrideRules[{n}]"
            selector = rule.get("clusterSelector")
            if selector is None:
                text = "selects no cluster, as there: without a clusterSelector it is for none"
                self._into.notes.note(override.document, path, text)
                continue
            terms = [
                by_labels(t.get("labelSelector"))
                for t in selector.get("clusterSelectorTerms") or ()
            ]
            clusters = () if not terms or any(t.every for t in terms) else tuple(terms)
            if rule.get("overrideType") == "Delete":
                text = "an override leaves no object out; place it by a rule of its own"
                self._into.notes.lost(override.document, f"{path}.overrideType", text)
                continue
            listed = [_operation(each) for each in rule.get("jsonPatchOverrides") or ()]
            if piece.key_in:
                listed = list(_inside(listed, piece.key_in))
            make = partial(_overridden, listed)
            where = f"{path}.jsonPatchOverrides"
            yield Change(clusters, make, override.document, where, override.name)

    def told(self) -> None:
        self._into.unused(self._all, self._used, "names no object that is placed")


def _operation(said: Json) -> dict[str, Any]:
    made = {"op": str(said.get("op") or ""), "path": str(said.get("path") or "")}
    if "value" in said and made["op"] != "remove":
        made["value"] = _filled(said["value"])
    return made


def _filled(value: Any) -> Any:
    if isinstance(value, str):
        named = value.replace(_NAME_VARIABLE, CLUSTER_NAME)
        return _LABEL_VARIABLE.sub(lambda found: label_of(found[1]), named)
    if isinstance(value, dict):
        return {key: _filled(each) for key, each in value.items()}
    return [_filled(each) for each in value] if isinstance(value, list) else value


def _inside(listed: Sequence[Json], key: str) -> Iterator[dict[str, Any]]:
    """Yield the operations on one object of an envelope, as operations of that object."""
    prefix = f"/data/{key.replace('~', '~0').replace('/', '~1')}"
    for each in listed:
        if each["path"].startswith(f"{prefix}/"):
            yield {**each, "path": each["path"].removeprefix(prefix)}


def _overridden(listed: Sequence[Json], body: Body) -> Body:
    if not listed:
        return body
    if any(each["op"] not in ("add", "remove", "replace") for each in listed):
        raise Misfit("add, remove and replace are known alone")
    return operated(body, listed)


SYSTEM = System(
    "KubeFleet", (GROUP, CLUSTER, LATER), (), convert, tables=TABLES, shapes="kubefleet"
)
