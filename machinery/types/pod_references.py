"""The objects that a pod's spec names, without which a pod cannot start.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from crds.base import NAME

CONFIG_MAP, SECRET, SERVICE_ACCOUNT = "ConfigMap", "Secret", "ServiceAccount"
SERVICE, CLAIM = "Service", "PersistentVolumeClaim"
_NAME = re.compile(rf"{NAME}(\.{NAME})*")
_LONGEST = 253
CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_ENV = {"configMapKeyRef": CONFIG_MAP, "secretKeyRef": SECRET}
_ENV_FROM = {"configMapRef": CONFIG_MAP, "secretRef": SECRET}
_VOLUMES = (
    ("configMap", "name", CONFIG_MAP),
    ("secret", "secretName", SECRET),
    ("persistentVolumeClaim", "claimName", CLAIM),
    ("azureFile", "secretName", SECRET),
)
_PROJECTED = {"configMap": CONFIG_MAP, "secret": SECRET}
_SECRET_REFS = (
    ("cephfs", "secretRef"),
    ("cinder", "secretRef"),
    ("csi", "nodePublishSecretRef"),
    ("flexVolume", "secretRef"),
    ("iscsi", "secretRef"),
    ("rbd", "secretRef"),
    ("scaleIO", "secretRef"),
    ("storageos", "secretRef"),
)


class Reference(NamedTuple):
    """An object in the pod's namespace. `optional`: a pod starts without it."""

    kind: str
    name: str
    optional: bool = False


def references(pod: Any) -> list[Reference]:
    """Return the objects of a pod's spec, each once, at the place of its first mention.

    The account comes first, then pull Secrets, volumes, and containers in order.
    """
    return once(_named(pod)) if isinstance(pod, Mapping) else []


def once(found: Iterable[Reference]) -> list[Reference]:
    """Return each object once; it is optional if each mention is."""
    merged: dict[tuple[str, str], Reference] = {}
    for each in found:
        before = merged.get(each[:2], each)
        merged[each[:2]] = each._replace(optional=each.optional and before.optional)
    return list(merged.values())


def pull_secrets(body: Mapping[str, Any]) -> Iterator[Reference]:
    for each in _maps(body.get("imagePullSecrets")):
        yield from _reference(SECRET, each)


def governing_service(name: Any) -> Iterator[Reference]:
    """Yield the governing Service of a StatefulSet; nothing without a valid name."""
    yield from _reference(SERVICE, {"name": name})


def _named(pod: Mapping[str, Any]) -> Iterator[Reference]:
    account = pod.get("serviceAccountName") or pod.get("serviceAccount")
    yield from _reference(SERVICE_ACCOUNT, {"name": account})
    yield from pull_secrets(pod)
    for volume in _maps(pod.get("volumes")):
        yield from _of_volume(volume)
    for field in CONTAINERS:
        for container in _maps(pod.get(field)):
            yield from _of_container(container)


def _of_volume(volume: Mapping[str, Any]) -> Iterator[Reference]:
    for type_, name, kind in _VOLUMES:
        yield from _reference(kind, _map(volume.get(type_)), name)
    for source in _maps(_map(volume.get("projected")).get("sources")):
        for type_, kind in _PROJECTED.items():
            yield from _reference(kind, _map(source.get(type_)))
    for type_, field in _SECRET_REFS:
        yield from _reference(SECRET, _map(_map(volume.get(type_)).get(field)))


def _of_container(container: Mapping[str, Any]) -> Iterator[Reference]:
    for source in _maps(container.get("envFrom")):
        for field, kind in _ENV_FROM.items():
            yield from _reference(kind, _map(source.get(field)))
    for variable in _maps(container.get("env")):
        value = _map(variable.get("valueFrom"))
        for field, kind in _ENV.items():
            yield from _reference(kind, _map(value.get(field)))


def _reference(kind: str, body: Mapping[str, Any], field: str = "name") -> Iterator[Reference]:
    name = body.get(field)
    if isinstance(name, str) and len(name) <= _LONGEST and _NAME.fullmatch(name):
        yield Reference(kind, name, optional=body.get("optional") is True)


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _maps(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, list):
        yield from (each for each in value if isinstance(each, Mapping))
