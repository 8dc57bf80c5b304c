"""OpenKruise: a WorkloadSpread and its target, and its workloads as built-in ones.

There a subset is a set of nodes of one cluster, and pods are changed as they are made. Here it is a
set of MemberClusters: terms select their labels, tolerations are for their taints, and the patch is
that of the pod template on them. OpenKruise leaves pods beyond all caps to the scheduler; here a
last subset without a cap takes them. A CloneSet becomes a Deployment, which replaces all pods: a
field that asks for anything else is a loss. Where members run OpenKruise, a CloneSet may stay one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from crds.names import API_VERSION
from machinery.kinds.profile import with_article
from machinery.kinds.table import profile_of
from machinery.types import strategic_merge
from stowage.importing.fields import (
    DocumentPart,
    FieldConverter,
    gone,
    inside,
    keep,
    keep_any,
    lost,
    nothing,
    put,
    walk,
)
from stowage.importing.pods import PARTITION
from stowage.importing.reading import Source, dig
from stowage.importing.workloads import (
    Conversion,
    Form,
    Made,
    System,
    drop_status,
    metadata_of,
    ours,
)

_OTHER_NAMES = {
    "requiredNodeSelector": "requiredNodeSelectorTerm",
    "preferredNodeSelector": "preferredNodeSelectorTerms",
}
"""The names of two fields in v1beta1, and in v1alpha1."""
_BEYOND = "beyond"
_PERCENT = r"[0-9]{1,6}%"


def convert(into: Conversion) -> None:
    """Convert the spreads with their targets."""
    spread: dict[Source, Source] = {}
    for source in into.bundle.of(GROUP, "WorkloadSpread"):
        source.taken = True
        part = DocumentPart(source.document, into.notes, source.document.body)
        part.skip("apiVersion", "kind")
        metadata = metadata_of(part)
        part.demand("spec")
        made = _target(into, part.part("spec"), source)
        if made.source in spread:
            other = spread[made.source].document.place
            raise source.document.error(f"spec.targetRef: the spread in {other} has this one")
        spread[made.source] = source
        into.add(source, ours("WorkloadSpread", source, metadata, _spec(part.part("spec"), made)))
        drop_status(part)
        part.account()
        _foreign(into, made)


# --- the target -----------------------------------------------------------------------------------


def _target(into: Conversion, spec: DocumentPart, source: Source) -> Made:
    spec.demand("targetRef")
    ref = spec.part("targetRef")
    group, slash, _ = ref.need("apiVersion", str).partition("/")
    kind, name = ref.need("kind", str), ref.need("name", str)
    found = into.bundle.find(group if slash else "", kind, source.namespace, name)
    if found is None:
        where = f" in namespace {source.namespace}" if source.namespace else ""
        text = f"no {kind} {name} of {group}{where} is among the files: add the file that holds it"
        raise source.document.error(f"spec.targetRef: {text}")
    custom = (found.group, found.kind) not in into.workloads.forms
    profile = profile_of(ref.need("apiVersion", str), kind)
    path = None
    if custom and profile.known and profile.whole:
        spec.skip("targetFilter")
        text = f"{with_article(kind)} runs whole on one cluster: the subsets choose which one"
        spec.lost("targetRef", text)
    else:
        paths = _filtered(spec.part("targetFilter"), found)
        if custom:
            path = paths[0] if paths else "spec.replicas"
            spec.note("targetRef", f"its replicas are counted at {path} of the {kind}")
    made = into.workloads.of(found, path)
    spec.note("targetRef", f"is the Workload {name} now, which holds the {made.template['kind']}")
    if made.template["kind"] == "StatefulSet":
        text = (
            "each cluster has a range of ordinals, and the last subset shrinks first, by clusters"
        )
        spec.note("targetRef", text)
    return made


def _filtered(chosen: DocumentPart, target: Source) -> list[str]:
    """Return the paths of the target's number of units, of which a Workload has only one."""
    paths = chosen.get("replicasPathList", list) or []
    if len(paths) > 1 or not all(isinstance(path, str) for path in paths):
        chosen.lost(
            "replicasPathList", "a Workload has one number of replicas: only the first counts"
        )
    elif paths:
        chosen.note("replicasPathList", "is where the Workload finds its number of replicas")
    selector = chosen.part("selector")
    labels = dig(target.document.body, "spec", "template", "metadata", "labels")
    wanted = selector.get("matchLabels", dict) or {}
    selector.skip("matchExpressions")
    if wanted and "matchExpressions" not in selector and _holds(wanted, labels):
        chosen.note("selector", "selects all pods of the Workload; it is left out")
    elif "selector" in chosen:
        chosen.lost("selector", "a spread counts all replicas of its Workload, not some of them")
    return [path for path in paths if isinstance(path, str)]


def _holds(wanted: Mapping[str, Any], labels: Any) -> bool:
    return isinstance(labels, dict) and wanted.items() <= labels.items()


def _foreign(into: Conversion, made: Made) -> None:
    """Note labels and annotations that only OpenKruise reads."""
    for field in ("labels", "annotations"):
        given = dig(made.pod, "metadata", field)
        keys = given if isinstance(given, dict) else {}
        read = [key for key in keys if ".kruise.io/" in f".{key}"]
        if read:
            text = f"{', '.join(read)}: has an effect only on members where OpenKruise runs"
            into.notes.note(made.source.document, f"spec.template.metadata.{field}", text)


# --- the subsets ----------------------------------------------------------------------------------


def _spec(spec: DocumentPart, made: Made) -> dict[str, Any]:
    spec.demand("subsets")
    subsets = [_subset(each, made) for each in spec.parts("subsets")]
    _say_labels(spec, subsets)
    _one_type(spec, subsets, made)
    _open_end(spec, subsets)
    found = {
        "targetRef": {"apiVersion": API_VERSION, "kind": "Workload", "name": made.source.name},
        "subsets": subsets,
    }
    if strategy := _strategy(spec):
        found["scheduleStrategy"] = strategy
    return found


def _subset(part: DocumentPart, made: Made) -> dict[str, Any]:
    found: dict[str, Any] = {"name": part.need("name", str)}
    for beta, alpha in _OTHER_NAMES.items():
        key = beta if beta in part else alpha
        if key not in part:
            continue
        if key == beta:
            part.note(key, f"is {alpha} now, as v1alpha1 has it")
        value = _term(part.part(key)) if alpha.startswith("required") else _preferred(part, key)
        if value:
            found[alpha] = value
    if tolerations := _tolerations(part):
        found["tolerations"] = tolerations
    if "maxReplicas" in part:
        found["maxReplicas"] = _cap(part)
    if patch := _patch(part, made):
        found["patch"] = patch
    return found


def _preferred(part: DocumentPart, key: str) -> list[dict[str, Any]]:
    return [
        {"weight": each.need("weight", int), "preference": preference}
        for each in part.parts(key)
        if (preference := _term(each.part("preference")))
    ]


def _term(term: DocumentPart) -> dict[str, Any]:
    found: list[dict[str, Any]] = []
    for each in term.parts("matchExpressions"):
        wanted = {"key": each.need("key", str), "operator": each.need("operator", str)}
        found.append({**wanted, **walk(each, {"values": _texts})})
    if "matchFields" in term:
        term.lost("matchFields", "names nodes, and a subset is made of clusters; it is left out")
    return {"matchExpressions": found} if found else {}


def _say_labels(spec: DocumentPart, subsets: list[dict[str, Any]]) -> None:
    named: dict[str, dict[str, None]] = {}
    for subset in subsets:
        liked = [each["preference"] for each in subset.get("preferredNodeSelectorTerms", ())]
        for term in filter(None, [subset.get("requiredNodeSelectorTerm"), *liked]):
            for rule in term["matchExpressions"]:
                named.setdefault(rule["key"], {}).update(dict.fromkeys(rule.get("values", ())))
    if named:
        text = "the terms choose MemberClusters now, and no nodes: give the clusters these labels:"
        labels = [f"{key} ({', '.join(map(str, vs))})" if vs else key for key, vs in named.items()]
        spec.note("subsets", f"{text} {', '.join(labels)}")


def _texts(part: DocumentPart, key: str, made: dict[str, Any]) -> None:
    made[key] = part.get(key, list)
    if not all(isinstance(each, str) for each in made[key]):
        raise part.document.error(f"{part.at(key)}: values are texts: write them in quotes")


_TOLERATION = {key: keep(str) for key in ("key", "operator", "value", "effect")}


def _tolerations(part: DocumentPart) -> list[dict[str, Any]]:
    found = []
    for each in part.parts("tolerations"):
        found.append(walk(each, _TOLERATION))
        if "tolerationSeconds" in each:
            text = "holds for nodes, by the patch; a cluster's taint is tolerated without an end"
            each.note("tolerationSeconds", text)
    if found:
        part.note("tolerations", "are for the taints of MemberClusters, and by the patch of nodes")
    return found


def _cap(part: DocumentPart) -> int | str:
    cap = part.any("maxReplicas")
    if isinstance(cap, str) and re.fullmatch(_PERCENT, cap):
        return f"{int(cap[:-1])}%"
    if isinstance(cap, int) and not isinstance(cap, bool) and cap >= 0:
        return cap
    where = part.at("maxReplicas")
    raise part.document.error(
        f"{where}: {cap!r:.40} is neither a number of pods nor whole percents"
    )


def _patch(part: DocumentPart, made: Made) -> dict[str, Any]:
    """Return the patch, with the tolerations that the pods of the subset had."""
    given = part.part("patch")
    metadata = given.part("metadata")
    found: dict[str, Any] = {}
    if kept := walk(metadata, {"labels": keep(dict), "annotations": keep(dict)}):
        found["metadata"] = kept
    if "spec" in given:
        found["spec"] = given.get("spec", dict)
    own = [each.all() for each in part.parts("tolerations")]
    if own and made.pod and "tolerations" not in found.get("spec", {}):
        put(found, "spec.tolerations", [*(dig(made.pod, "spec", "tolerations") or []), *own])
    if found and made.pod:
        _fits(part, made, found)
    return found


def _fits(part: DocumentPart, made: Made, patch: Mapping[str, Any]) -> None:
    """Raise ConfigurationError for a patch that cannot be merged into the pod template."""
    try:
        strategic_merge.merge(made.pod, patch)
    except ValueError as e:
        raise part.document.error(f"{part.at('patch')}: {e}") from e


def _one_type(spec: DocumentPart, subsets: list[dict[str, Any]], made: Made) -> None:
    """Turn percents beside numbers into numbers: our caps of one spread are of one type."""
    caps = [each["maxReplicas"] for each in subsets if "maxReplicas" in each]
    if len({type(cap) for cap in caps}) < 2:
        return
    units = made.spec.get("replicas", 1)
    for at, each in enumerate(subsets):
        cap = each.get("maxReplicas")
        if isinstance(cap, str):
            each["maxReplicas"] = -(-int(cap[:-1]) * units // 100)
            text = (
                f"{cap} beside numbers is not possible: {each['maxReplicas']}, of {units} replicas"
            )
            spec.notes.lost(spec.document, f"spec.subsets[{at}].maxReplicas", text)


def _open_end(spec: DocumentPart, subsets: list[dict[str, Any]]) -> None:
    caps = [each.get("maxReplicas") for each in subsets]
    percents = [int(cap[:-1]) for cap in caps if isinstance(cap, str)]
    if caps[-1] is None or sum(percents) >= 100:
        return
    name, taken = _BEYOND, {each["name"] for each in subsets}
    while name in taken:
        name += "-all"
    subsets.append({"name": name})
    text = f"a subset {name} without a cap is added: pods beyond all caps ran anywhere, and would"
    spec.note("subsets", f"{text} wait here; remove it where they shall wait")


# --- the strategy ---------------------------------------------------------------------------------


def _strategy(spec: DocumentPart) -> dict[str, Any]:
    part = spec.part("scheduleStrategy")
    found: dict[str, Any] = {}
    if kind := part.get("type", str):
        found["type"] = kind
    adaptive = part.part("adaptive")
    kept = walk(
        adaptive, {"rescheduleCriticalSeconds": keep(int), "disableSimulationSchedule": keep_any}
    )
    if "adaptive" in part:
        found["adaptive"] = kept
    if kind == "Adaptive" and not kept.get("rescheduleCriticalSeconds"):
        kept.pop("rescheduleCriticalSeconds", None)
        text = "without seconds OpenKruise moves no waiting pod; here it goes on after 30 s"
        part.lost("adaptive.rescheduleCriticalSeconds", text)
    return found


# --- its workloads as built-in ones ---------------------------------------------------------------

GROUP = "apps.kruise.io"
_GATES = ("InPlaceUpdateReady", "KruisePodReady")
_ORDER = "a Deployment replaces pods in no order that one could choose"
_RECREATED = "pods are replaced, new for old: nothing is updated in place"
_DEFAULT_UNAVAILABLE = "20%"


def deployment(spec: DocumentPart) -> dict[str, Any]:
    """Return the spec of a Deployment that does what the CloneSet did."""
    made = walk(spec, _CLONE_SET)
    strategy = made.setdefault("strategy", {"type": "RollingUpdate"})
    rolling = strategy.setdefault("rollingUpdate", {})
    rolling.setdefault("maxUnavailable", _DEFAULT_UNAVAILABLE)
    rolling.setdefault("maxSurge", 0)
    if nothing(rolling["maxUnavailable"]) and nothing(rolling["maxSurge"]):
        rolling["maxUnavailable"] = 1
        spec.lost("updateStrategy.maxUnavailable", "nothing could be updated with 0; it is 1 now")
    text = f"maxUnavailable {rolling['maxUnavailable']} and maxSurge {rolling['maxSurge']}"
    each = "in each cluster for itself, where percents are rounded down and not up"
    spec.note("updateStrategy", f"is a RollingUpdate with {text}, {each}")
    _claims(spec, made)
    _gates(spec, made)
    return made


def stateful_set(spec: DocumentPart) -> dict[str, Any]:
    """Return the spec of a StatefulSet of apps/v1."""
    made = walk(spec, _STATEFUL_SET)
    _gates(spec, made)
    return made


def _clone_update(part: DocumentPart, key: str, made: dict[str, Any]) -> None:
    update = walk(part.part(key), _CLONE_UPDATE)
    if update.pop("paused", False):
        made["paused"] = True
    made["strategy"] = {"type": "RollingUpdate", "rollingUpdate": update}


def _update_type(part: DocumentPart, key: str, made: dict[str, Any]) -> None:
    del made
    kind = part.get(key, str)
    if kind == "InPlaceOnly":
        part.lost(key, _RECREATED)
    elif kind == "InPlaceIfPossible":
        part.note(key, _RECREATED)
    elif kind not in ("ReCreate", ""):
        raise part.document.error(f"{part.at(key)}: {kind} is none of OpenKruise's ways to update")


def _claims(spec: DocumentPart, made: dict[str, Any]) -> None:
    """Convert claims into generic ephemeral volumes, which come and go with their pod as well."""
    claims = spec.parts("volumeClaimTemplates")
    if not claims:
        return
    volumes = {each["name"]: each for each in _volumes(spec, made)}
    for claim in claims:
        name = claim.part("metadata").need("name", str)
        volumes[name] = {"name": name, "ephemeral": {"volumeClaimTemplate": _claim(claim)}}
    made["template"]["spec"]["volumes"] = list(volumes.values())
    said = "are ephemeral volumes of the pods now: each pod has a claim, which goes with it"
    if _reused(spec):
        spec.lost("volumeClaimTemplates", f"{said}; a CloneSet gives it to the pod that follows")
    else:
        spec.note("volumeClaimTemplates", said)


def _volumes(spec: DocumentPart, made: dict[str, Any]) -> list[dict[str, Any]]:
    template = spec.part("template").part("spec")
    made.setdefault("template", {}).setdefault("spec", {})
    return [{"name": each.need("name", str), **each.all()} for each in template.parts("volumes")]


def _claim(claim: DocumentPart) -> dict[str, Any]:
    metadata = claim.part("metadata")
    kept = walk(metadata, {"labels": keep(dict), "annotations": keep(dict)})
    metadata.skip("creationTimestamp", "namespace")
    claim.skip("apiVersion", "kind", "status")
    return {**({"metadata": kept} if kept else {}), "spec": claim.need("spec", dict)}


def _reused(spec: DocumentPart) -> bool:
    """Return whether the CloneSet reuses claims: v1alpha1 by default, v1beta1 if asked to."""
    disabled = spec.part("scaleStrategy").get("disablePVCReuse", bool)
    beta = str(spec.document.body["apiVersion"]).endswith("/v1beta1")
    return not (beta if disabled is None else disabled)


def _gates(spec: DocumentPart, made: dict[str, Any]) -> None:
    """Remove OpenKruise's readiness gates, which no other controller would open."""
    inner = spec.part("template").part("spec")
    gates = inner.get("readinessGates", list) or []
    kept = [g for g in gates if not (isinstance(g, dict) and g.get("conditionType") in _GATES)]
    if len(kept) < len(gates):
        pod = made["template"]["spec"]
        pod["readinessGates"] = kept
        if not kept:
            del pod["readinessGates"]
        inner.note("readinessGates", f"{' and '.join(_GATES)} are opened by OpenKruise; taken off")


_TEMPLATE: dict[str, FieldConverter] = {
    "replicas": keep(int),
    "selector": keep(dict),
    "template": keep(dict),
    "revisionHistoryLimit": keep(int),
}
_LIFECYCLE = lost("no hook holds back a pod of a Deployment or StatefulSet of apps/v1")

_CLONE_UPDATE: dict[str, FieldConverter] = {
    "type": _update_type,
    "maxUnavailable": keep_any,
    "maxSurge": keep_any,
    "paused": keep(bool, "is spec.paused of the Deployment now"),
    "partition": lost("a Deployment has no partition: all pods get the new template"),
    "priorityStrategy": lost(_ORDER),
    "scatterStrategy": lost(_ORDER),
    "inPlaceUpdateStrategy": gone(_RECREATED),
}
_CLONE_SET: dict[str, FieldConverter] = {
    **_TEMPLATE,
    "minReadySeconds": keep(int),
    "updateStrategy": _clone_update,
    "scaleStrategy": inside(
        {
            "podsToDelete": gone("names pods of the cluster that it comes from"),
            "maxUnavailable": lost("a Deployment makes all missing pods at once"),
            "disablePVCReuse": lambda part, key, _: part.skip(key),
            "excludePreparingDelete": gone("is about hooks, which a Deployment has none of"),
        }
    ),
    "lifecycle": _LIFECYCLE,
}

_ROLLING: dict[str, FieldConverter] = {
    "partition": PARTITION,
    "maxUnavailable": keep_any,
    "podUpdatePolicy": _update_type,
    "paused": lost("a StatefulSet of apps/v1 cannot be paused"),
    "unorderedUpdate": lost("a StatefulSet of apps/v1 updates from the last ordinal to the first"),
    "inPlaceUpdateStrategy": gone(_RECREATED),
    "minReadySeconds": lambda part, key, _: part.skip(key),
}


def _stateful_update(part: DocumentPart, key: str, made: dict[str, Any]) -> None:
    update = part.part(key)
    made[key] = walk(update, {"type": keep(str), "rollingUpdate": inside(_ROLLING)})
    rolling = update.part("rollingUpdate")
    if "minReadySeconds" in rolling:
        put(made, "minReadySeconds", rolling.get("minReadySeconds", int))
        rolling.note("minReadySeconds", "is spec.minReadySeconds of the StatefulSet now")


_STATEFUL_SET: dict[str, FieldConverter] = {
    **_TEMPLATE,
    "serviceName": keep(str),
    "podManagementPolicy": keep(str),
    "volumeClaimTemplates": keep(list),
    "persistentVolumeClaimRetentionPolicy": keep(dict),
    "ordinals": keep(dict, "each cluster after the first gets a range of its own"),
    "updateStrategy": _stateful_update,
    "scaleStrategy": lost("a StatefulSet of apps/v1 has no bound for scaling"),
    "reserveOrdinals": lost("a StatefulSet of apps/v1 leaves no ordinal out"),
    "volumeClaimUpdateStrategy": lost("a StatefulSet of apps/v1 never changes a claim"),
    "lifecycle": _LIFECYCLE,
}

FORMS = {
    (GROUP, "CloneSet"): Form("apps/v1", "Deployment", deployment),
    (GROUP, "StatefulSet"): Form("apps/v1", "StatefulSet", stateful_set),
}


SYSTEM = System("OpenKruise", (GROUP,), ("v1alpha1", "v1beta1"), convert, FORMS)
