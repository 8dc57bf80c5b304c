"""OpenKruise's workloads as built-in ones: CloneSet as Deployment, StatefulSet as apps/v1's.

Their further fields say how pods are replaced: in place, in which order, up to which partition. A
Deployment replaces all of them, so a field that asks for anything else is a loss. Where members run
OpenKruise, a CloneSet may stay one, in a Workload with replicasPath: spec.replicas.
"""

from __future__ import annotations

from typing import Any

from stowage.importing.fields import (
    DocumentPart,
    Fate,
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
from stowage.importing.workloads import Form

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


_TEMPLATE: dict[str, Fate] = {
    "replicas": keep(int),
    "selector": keep(dict),
    "template": keep(dict),
    "revisionHistoryLimit": keep(int),
}
_LIFECYCLE = lost("no hook holds back a pod of a Deployment or StatefulSet of apps/v1")

_CLONE_UPDATE: dict[str, Fate] = {
    "type": _update_type,
    "maxUnavailable": keep_any,
    "maxSurge": keep_any,
    "paused": keep(bool, "is spec.paused of the Deployment now"),
    "partition": lost("a Deployment has no partition: all pods get the new template"),
    "priorityStrategy": lost(_ORDER),
    "scatterStrategy": lost(_ORDER),
    "inPlaceUpdateStrategy": gone(_RECREATED),
}
_CLONE_SET: dict[str, Fate] = {
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

_ROLLING: dict[str, Fate] = {
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


_STATEFUL_SET: dict[str, Fate] = {
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
