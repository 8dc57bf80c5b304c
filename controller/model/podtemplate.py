"""Checks the form of a template, as far as placement reads it.

The hub stores templates unchecked: only a member knows its kinds in full.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from controller.model.objects import Template
from controller.model.place import Affinity
from machinery.kinds import templates
from machinery.kinds.profile import Profile
from machinery.types.taints import Toleration

_OF_POD = (
    "affinity",
    "hostNetwork",
    "nodeSelector",
    "overhead",
    "priorityClassName",
    "resources",
    "tolerations",
)
_OF_CONTAINER = ("name", "resources", "restartPolicy")
_OF_PORT = ("containerPort", "hostPort", "protocol")


class _Resources(msgspec.Struct):
    requests: dict[str, Any] | None = None
    limits: dict[str, Any] | None = None


class _Port(msgspec.Struct, rename="camel"):
    container_port: int | None = None
    host_port: int | None = None
    protocol: str | None = None


class _Container(msgspec.Struct, rename="camel"):
    resources: _Resources | None = None
    restart_policy: Any = None
    ports: list[_Port] | None = None


class _PodSpec(msgspec.Struct, rename="camel"):
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    resources: _Resources | None = None
    overhead: dict[str, Any] | None = None
    host_network: bool | None = None
    node_selector: dict[str, str] | None = None
    tolerations: list[Toleration] | None = None
    affinity: Affinity | None = None


class _PodMeta(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Pods(msgspec.Struct):
    metadata: _PodMeta | None = None
    spec: _PodSpec | None = None


def labels_of(template: Template) -> dict[str, str]:
    """Return the template's own labels. Raises ValueError, naming the field."""
    given = template.metadata.labels if template.metadata else None
    return _read(given, dict[str, str] | None, "spec.template.metadata.labels") or {}


def name_of(template: Template) -> str:
    given = template.metadata.name if template.metadata else None
    return given if isinstance(given, str) else ""


def check(template: Template, profile: Profile) -> None:
    """Raise ValueError, naming the field, if the spec does not have its kind's form."""
    body = {"spec": template.spec}
    templates.check(profile, body)
    for each in templates.pods_in(profile, body):
        check_pods(each.template, f"spec.template.{each.path}")


def check_pods(pods: Any, field: str = "") -> None:
    """Raise ValueError, naming the field, for a malformed pod template."""
    _read(pods, _Pods, field)


def skeleton(metadata: Mapping[str, Any], pod: Mapping[str, Any]) -> bytes:
    """Return the kept part of a checked pod template, a few hundred bytes; empty without pods."""
    if not pod.get("containers"):
        return b""
    kept: dict[str, Any] = {field: pod[field] for field in _OF_POD if pod.get(field)}
    for field in ("containers", "initContainers"):
        if found := pod.get(field):
            kept[field] = [_container(each) for each in found]
    if named := _names(pod.get("volumes")):
        kept["volumes"] = named
    found = {"labels": metadata.get("labels") or {}}
    return msgspec.json.encode({"metadata": found, "spec": kept})


def _container(container: Mapping[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {f: container[f] for f in _OF_CONTAINER if container.get(f)}
    if ports := container.get("ports"):
        kept["ports"] = [{f: each[f] for f in _OF_PORT if each.get(f)} for each in ports]
    return kept


def _names(volumes: Any) -> list[dict[str, Any]]:
    listed = volumes if isinstance(volumes, list) else ()
    return [{"name": each["name"]} for each in listed if isinstance(each, dict) and "name" in each]


def _read(value: Any, form: Any, field: str) -> Any:
    try:
        return msgspec.convert(value, form)
    except msgspec.ValidationError as e:
        text, _, path = str(e).partition(" - at `$")
        where = f"{field}{path.removesuffix('`')}".removeprefix(".")
        raise ValueError(f"{where}: {text}") from e
