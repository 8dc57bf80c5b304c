"""ClusterProfile (multicluster.x-k8s.io/v1alpha1) and its MemberCluster. Pure.

Spec and status come from another system: malformed parts count as absent.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from controller.model.objects import MemberCluster
from crds.membercluster import InventoryUnhealthyReason, MemberClusterCondition
from crds.names import (
    ANNOTATION_PROFILE,
    ANNOTATION_PROFILE_LABELS,
    API_VERSION,
    GROUP,
    ID_PROPERTY,
    LABEL_VERSION,
    PROPERTY_PREFIX,
    SET_PROPERTY,
)
from machinery.api.resources import CLUSTER_PROFILES, MEMBER_CLUSTERS
from machinery.config.address import check_server
from machinery.types.bounds import WORD, clean
from machinery.types.metadata import Key, Object
from machinery.types.selectors import label_value

MANAGER = "stowage"
"""spec.clusterManager.name of exported ClusterProfiles."""
LABEL_MANAGER = "x-k8s.io/cluster-manager"
HEALTHY = "ControlPlaneHealthy"
MOST_LABELS = 64
"""Labels of a ClusterProfile that a MemberCluster takes over."""
_LONGEST_NAME = 63
_CERTIFICATE_BYTES = 65536
_PROVIDERS = ("accessProviders", "credentialProviders")
"""Releases before v0.1 have only the second field."""


class ClusterProfile(Object, frozen=True):
    spec: Any = None
    status: Any = None

    @property
    def ours(self) -> bool:
        return bool(_mapping(_mapping(self.spec).get("clusterManager")).get("name") == MANAGER)

    @property
    def version(self) -> str:
        return _text(_mapping(_mapping(self.status).get("version")).get("kubernetes"))

    @property
    def properties(self) -> dict[str, str]:
        return {
            _text(each.get("name")): _text(each.get("value"))
            for each in _mappings(_mapping(self.status).get("properties"))
        }

    @property
    def endpoint(self) -> dict[str, str]:
        """The first usable address and its certificates."""
        for field in _PROVIDERS:
            for provider in _mappings(_mapping(self.status).get(field)):
                if found := _endpoint(_mapping(provider.get("cluster"))):
                    return found
        return {}

    @property
    def unhealthy(self) -> str:
        for each in _mappings(_mapping(self.status).get("conditions")):
            if each.get("type") == HEALTHY and each.get("status") == "False":
                reason = clean(_text(each.get("reason")), WORD)
                return f"{reason}: {clean(_text(each.get('message')), 512)}"
        return ""


def flaw(profile: ClusterProfile) -> str:
    meta = profile.metadata
    if len(meta.name) > _LONGEST_NAME:
        return f"its name is longer than {_LONGEST_NAME} characters"
    if len(meta.labels) > MOST_LABELS:
        return f"it has more than {MOST_LABELS} labels"
    return ""


def membercluster(
    profile: ClusterProfile, properties: tuple[str, ...] = (), name: str = ""
) -> dict[str, Any]:
    meta = profile.metadata
    labels = labels_of(profile, properties)
    endpoint = profile.endpoint
    annotations = {
        ANNOTATION_PROFILE: "/".join(meta.key),
        ANNOTATION_PROFILE_LABELS: ",".join(sorted(labels)),
    }
    version = label_value(profile.version)
    return {
        "apiVersion": API_VERSION,
        "kind": MEMBER_CLUSTERS.kind,
        "metadata": {
            "name": name or meta.name,
            "labels": labels | ({LABEL_VERSION: version} if version else {}),
            "annotations": annotations,
        },
        "spec": {"endpoint": endpoint} if endpoint else {},
    }


def labels_of(profile: ClusterProfile, properties: tuple[str, ...]) -> dict[str, str]:
    labels = {key: value for key, value in profile.metadata.labels.items() if not _reserved(key)}
    said = profile.properties
    named = {name: label_value(said[name]) for name in properties if name in said}
    return labels | {
        f"{PROPERTY_PREFIX}{name.replace('/', '_')}": value
        for name, value in named.items()
        if value
    }


def relabelled(
    cluster: MemberCluster, profile: ClusterProfile, properties: tuple[str, ...]
) -> dict[str, Any]:
    """Return the patch of metadata that updates the labels, or empty.

    Labels of other writers stay.
    """
    have, notes = cluster.metadata.labels, cluster.metadata.annotations
    taken = set(filter(None, notes.get(ANNOTATION_PROFILE_LABELS, "").split(",")))
    wanted = labels_of(profile, properties)
    kept = {key: value for key, value in wanted.items() if key in taken or key not in have}
    labels: dict[str, str | None] = dict.fromkeys((taken - kept.keys()) & have.keys())
    labels |= {key: value for key, value in kept.items() if have.get(key) != value}
    version = label_value(profile.version)
    if version and not cluster.spec.version and not cluster.status.version:
        labels |= {LABEL_VERSION: version} if have.get(LABEL_VERSION) != version else {}
    keys = ",".join(sorted(kept))
    noted = (
        {} if notes.get(ANNOTATION_PROFILE_LABELS) == keys else {ANNOTATION_PROFILE_LABELS: keys}
    )
    patch: dict[str, Any] = {"labels": labels} if labels else {}
    return patch | ({"annotations": noted} if noted else {})


def trouble(
    key: Key, profile: ClusterProfile | None
) -> tuple[InventoryUnhealthyReason, str] | None:
    name = "/".join(key)
    if profile is None or profile.metadata.deleting:
        return InventoryUnhealthyReason.PROFILE_NOT_FOUND, (
            f"the ClusterProfile {name} is gone, and what runs there is left alone: bring it back, "
            f"or remove the annotation {ANNOTATION_PROFILE} to go on without it"
        )
    if told := profile.unhealthy:
        return InventoryUnhealthyReason.CONTROL_PLANE_UNHEALTHY, (
            f"the ClusterProfile {name} says {HEALTHY}=False: {told}"
        )
    return None


def exported(cluster: MemberCluster) -> dict[str, Any]:
    name = cluster.metadata.name
    return {
        "apiVersion": CLUSTER_PROFILES.api_version,
        "kind": CLUSTER_PROFILES.kind,
        "metadata": {"name": name, "labels": {LABEL_MANAGER: MANAGER}},
        "spec": {"displayName": name, "clusterManager": {"name": MANAGER}},
    }


def exported_status(cluster: MemberCluster) -> dict[str, Any]:
    """It changes only with Ready."""
    ready = cluster.condition(MemberClusterCondition.READY.value)
    since = cluster.metadata.creation_timestamp
    condition = {"type": HEALTHY, "status": "Unknown", "reason": "NotSeen", "message": ""}
    if ready is not None:
        since = ready.last_transition_time or since
        told = {"status": ready.status, "reason": ready.reason, "message": ready.message}
        condition |= told
    status = cluster.status
    said = {ID_PROPERTY: status.cluster_id, SET_PROPERTY: status.cluster_set}
    return {
        "conditions": [condition | {"lastTransitionTime": since}],
        "version": {"kubernetes": cluster.version},
        "properties": [
            {"name": name, "value": value, "lastObservedTime": since}
            for name, value in said.items()
            if value
        ],
    }


def _endpoint(cluster: Mapping[str, Any]) -> dict[str, str]:
    server, ca = _text(cluster.get("server")), _text(cluster.get("certificate-authority-data"))
    try:
        check_server(server)
        base64.b64decode(ca, validate=True)
    except ValueError:
        return {}
    if len(ca) > _CERTIFICATE_BYTES:
        return {}
    return {"server": server} | ({"certificateAuthorityData": ca} if ca else {})


def _reserved(label: str) -> bool:
    domain, slash, _ = label.partition("/")
    return bool(slash) and (domain == GROUP or domain.endswith(f".{GROUP}"))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _mappings(value: Any) -> Iterator[Mapping[str, Any]]:
    return (
        (each for each in value if isinstance(each, dict)) if isinstance(value, list) else iter(())
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
