"""Rules in a pod template that change their meaning once its units run on several clusters.

The template is carried whole. On a member its rules see that member's nodes and pods alone, so a
rule about all nodes or pods is weaker now, or stricter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stowage.importing.fields import DocumentPart, FieldConverter, gone, inside, lost, walk

HOSTNAME = "kubernetes.io/hostname"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NODES = (
    "chooses among the nodes inside of each member now, which must carry these labels; clusters are"
    " chosen by spec.clusterSelector, or by the subsets of a WorkloadSpread"
)
_ALONE = "sees only the pods of its own member now, and no longer those of the other clusters"

PARTITION = lost("counts ordinals, and each cluster has a range of ordinals of its own")
_EACH = "counts in each cluster for itself now"
_ANYWHERE: Mapping[str, Mapping[str, FieldConverter]] = {
    "StatefulSet": {
        "volumeClaimTemplates": gone("is filled anew in each cluster: no volume is copied there"),
    },
}
"""Fields of a built-in kind's spec that a move to another cluster changes."""
_COUNTS: Mapping[str, Mapping[str, FieldConverter]] = {
    "Deployment": {"strategy": gone(_EACH)},
    "StatefulSet": {
        "updateStrategy": inside({"rollingUpdate": inside({"partition": PARTITION})}),
    },
    "Job": {
        "backoffLimit": gone(_EACH),
        "podFailurePolicy": gone(_EACH),
    },
}
"""Fields of a built-in kind's spec about all its pods, which hold for each share instead."""

_REFERENCES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "configMap": ("ConfigMap", ("name",)),
    "configMapKeyRef": ("ConfigMap", ("name",)),
    "configMapRef": ("ConfigMap", ("name",)),
    "secret": ("Secret", ("secretName", "name")),
    "secretKeyRef": ("Secret", ("name",)),
    "secretRef": ("Secret", ("name",)),
    "imagePullSecrets": ("Secret", ("name",)),
    "persistentVolumeClaim": ("PersistentVolumeClaim", ("claimName",)),
}
"""Fields of a pod that refer to another object: (its kind, the fields that may hold its name)."""


def look_at_counts(spec: DocumentPart, kind: str, *, divided: bool) -> None:
    """Note fields about all pods that do not hold for all of them together any more.

    Units that are not `divided` are all on one cluster, where these fields hold.
    """
    walk(spec, _ANYWHERE.get(kind, {}))
    if divided:
        walk(spec, _COUNTS.get(kind, {}))
        if kind == "Job" and spec.any("completionMode") == "Indexed":
            spec.lost(
                "completionMode", "an Indexed Job is not divided: it runs whole on one cluster"
            )


def look_at(template: DocumentPart) -> None:
    """Note fields of a pod template that mean something else, or are lost."""
    spec = template.part("spec")
    affinity = spec.part("affinity")
    if "nodeSelector" in spec:
        spec.note("nodeSelector", _NODES)
    if "nodeAffinity" in affinity:
        affinity.note("nodeAffinity", _NODES)
    for key in ("podAffinity", "podAntiAffinity"):
        _pod_rules(affinity.part(key))
    for each in spec.parts("topologySpreadConstraints"):
        say = each.lost if each.get("whenUnsatisfiable", str) != "ScheduleAnyway" else each.note
        say("topologyKey", f"{_ALONE}; over clusters, spec.spreadConstraints spread")


def _pod_rules(rules: DocumentPart) -> None:
    for term in rules.parts(_REQUIRED):
        if term.get("topologyKey", str) != HOSTNAME:
            term.lost("topologyKey", f"{_ALONE}; {_BETWEEN}")
    for preferred in rules.parts(_PREFERRED):
        term = preferred.part("podAffinityTerm")
        if term.get("topologyKey", str) != HOSTNAME:
            term.note("topologyKey", f"{_ALONE}; {_BETWEEN}")


_BETWEEN = "between clusters, spec.workloadAffinity and workloadAntiAffinity decide"


def templates(body: Any) -> Iterator[dict[str, Any]]:
    """Yield the pod templates in an object, at any place; the object itself if it is a pod.

    A template is found by its containers: a Job of Volcano has templates in its tasks.
    """
    for value in maps(body):
        spec = value.get("spec")
        if isinstance(spec, dict) and isinstance(spec.get("containers"), list):
            yield value


def references(spec: Any) -> set[tuple[str, str]]:
    """Return (kind, name) of the ConfigMaps, Secrets and so on that a pod's spec names."""
    return {name for value in maps(spec) for name in _named(value)}


def maps(body: Any) -> Iterator[dict[str, Any]]:
    """Yield every mapping in it, itself included, at any depth; in no order."""
    rest = [body]
    while rest:
        value = rest.pop()
        if isinstance(value, list):
            rest += value
        elif isinstance(value, dict):
            rest += value.values()
            yield value


def _named(value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    account = value.get("serviceAccountName")
    if isinstance(account, str) and account not in ("", "default"):
        yield "ServiceAccount", account
    for key, (kind, fields) in _REFERENCES.items():
        inner = value.get(key)
        for each in inner if isinstance(inner, list) else [inner]:
            names = [each.get(field) for field in fields] if isinstance(each, dict) else []
            yield from ((kind, name) for name in names if isinstance(name, str) and name)
