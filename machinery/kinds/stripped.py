"""What a cluster's own server and controllers wrote into an object that was printed there. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from machinery.kinds.paths import value_at

_OF_A_RUN = (
    "controller-uid",
    "batch.kubernetes.io/controller-uid",
    "job-name",
    "batch.kubernetes.io/job-name",
)
"""Labels that the server gives a Job and its pods."""
_BOUND = "pv.kubernetes.io/bind-completed"
ANNOTATIONS: Final = (
    "deployment.kubernetes.io/revision",
    "deployment.kubernetes.io/desired-replicas",
    "deployment.kubernetes.io/max-replicas",
    "deprecated.daemonset.template.generation",
    "kopf.zalando.org/last-handled-configuration",
    "kubectl.kubernetes.io/last-applied-configuration",
    _BOUND,
    "pv.kubernetes.io/bound-by-controller",
    "volume.kubernetes.io/selected-node",
    "volume.kubernetes.io/storage-provisioner",
    "volume.beta.kubernetes.io/storage-provisioner",
)
"""Annotations that clients and controllers of its own cluster write."""


def unbind(body: dict[str, Any]) -> None:
    group, _, _ = str(body.get("apiVersion")).rpartition("/")
    if (own := _OWN.get((group, str(body.get("kind"))))) is not None:
        own(body)
    meta = body.get("metadata")
    if isinstance(meta, dict):
        _without(meta, "annotations", ANNOTATIONS)


def _job(body: dict[str, Any]) -> None:
    spec = body.get("spec")
    if not isinstance(spec, dict) or spec.get("manualSelector") is True:
        return
    spec.pop("selector", None)
    for meta in (body.get("metadata"), value_at(spec, "template.metadata")):
        if isinstance(meta, dict):
            _without(meta, "labels", _OF_A_RUN)


def _service(body: dict[str, Any]) -> None:
    spec = body.get("spec")
    if isinstance(spec, dict) and spec.get("clusterIP") != "None":  # a headless one stays so
        spec.pop("clusterIP", None)
        spec.pop("clusterIPs", None)


def _account(body: dict[str, Any]) -> None:
    body.pop("secrets", None)


def _claim(body: dict[str, Any]) -> None:
    # Without that mark the author binds it by hand, to a volume of that name on each cluster.
    said, spec = value_at(body, "metadata.annotations"), body.get("spec")
    if isinstance(said, Mapping) and _BOUND in said and isinstance(spec, dict):
        spec.pop("volumeName", None)


def _without(meta: dict[str, Any], field: str, keys: tuple[str, ...]) -> None:
    if isinstance(said := meta.get(field), dict) and any(key in said for key in keys):
        meta[field] = {key: text for key, text in said.items() if key not in keys}


_OWN: Final[Mapping[tuple[str, str], Callable[[dict[str, Any]], None]]] = {
    ("batch", "Job"): _job,
    ("", "Service"): _service,
    ("", "ServiceAccount"): _account,
    ("", "PersistentVolumeClaim"): _claim,
}
