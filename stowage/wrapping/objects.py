"""The objects that are wrapped: where each one is, what it is, and what belongs to its tools.

Helm, kustomize and kpt note places of files on objects while these pass through functions. Such a
note stays on an object that passes through, and is on none that a Workload holds.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from crds.admission.carried import GUARDED_KINDS, kind_name
from crds.names import GROUP
from machinery.kinds.profile import Profile
from machinery.kinds.table import profile_of
from stowage.fleet.manifests import Document

HELM_FILE = "postrenderer.helm.sh/postrender-filename"
"""By which Helm 4 puts an object back into its file."""
_PASSING = (
    HELM_FILE,
    "config.kubernetes.io/",
    "config.k8s.io/",
    "internal.config.kubernetes.io/",
    "kustomize.config.k8s.io/",
)
_FORMER_NAMES = "internal.config.kubernetes.io/previousNames"
_HASHED = "internal.config.kubernetes.io/needsHashSuffix"
_DELIVERING = ("helm.sh/", "argocd.argoproj.io/", "kustomize.toolkit.fluxcd.io/")
"""Annotations by which a tool delivers an object: it sees the Workload instead."""
_HOOKS = ("helm.sh/hook", "argocd.argoproj.io/hook")
_USERS = ("name", "namespace", "labels", "annotations")
_CLUSTER_KINDS = ("APIService", "CustomResourceDefinition", "RuntimeClass")
_INSTANCE = "app.kubernetes.io/instance"

_INSTALLED = (
    "PriorityClass", "Namespace", "NetworkPolicy", "ResourceQuota", "LimitRange",
    "PodSecurityPolicy", "PodDisruptionBudget", "ServiceAccount", "Secret", "SecretList",
    "ConfigMap", "StorageClass", "PersistentVolume", "PersistentVolumeClaim",
    "CustomResourceDefinition", "ClusterRole", "ClusterRoleList", "ClusterRoleBinding",
    "ClusterRoleBindingList", "Role", "RoleList", "RoleBinding", "RoleBindingList", "Service",
    "DaemonSet", "Pod", "ReplicationController", "ReplicaSet", "Deployment",
    "HorizontalPodAutoscaler", "StatefulSet", "Job", "CronJob", "IngressClass", "Ingress",
    "APIService", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration",
)  # fmt: skip
"""The order in which Helm 3 and 4 install; it has further kinds after these, by their names."""
_PLACE = {kind: place for place, kind in enumerate(_INSTALLED)}


@dataclass(eq=False, slots=True)
class Item:
    """An object of the input."""

    document: Document

    @property
    def body(self) -> dict[str, Any]:
        return self.document.body

    @property
    def api_version(self) -> str:
        return str(self.body["apiVersion"])

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]

    @property
    def kind(self) -> str:
        return self.document.kind

    @property
    def name(self) -> str:
        return self.document.name

    @property
    def named(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def namespace(self) -> str:
        """Its own; empty where it names none, and for an object of the whole cluster."""
        return "" if self.of_cluster else str(self.body["metadata"].get("namespace") or "")

    @property
    def labels(self) -> dict[str, str]:
        return texts(self.body["metadata"].get("labels"))

    @property
    def annotations(self) -> dict[str, str]:
        return texts(self.body["metadata"].get("annotations"))

    @property
    def profile(self) -> Profile:
        return profile_of(self.api_version, self.kind)

    @property
    def runs(self) -> bool:
        """Whether it runs pods, as far as its kind is known: a Workload can have it as template."""
        found = self.profile
        return found.known and bool(found.pods or found.ended)

    @property
    def hook(self) -> str:
        """When a tool runs it, such as `pre-install`; empty for no hook."""
        return next((self.annotations[each] for each in _HOOKS if each in self.annotations), "")

    @property
    def named_later(self) -> bool:
        """Whether kustomize is still to change its name, or what names it, after its functions."""
        former = self.annotations.get(_FORMER_NAMES, self.name)
        return _HASHED in self.annotations or any(each != self.name for each in former.split(","))

    @property
    def ours(self) -> bool:
        return self.group == GROUP

    @property
    def of_cluster(self) -> bool:
        """Whether its kind has no namespace, as far as that is known by its name."""
        return (
            kind_name(self.api_version, self.kind) in GUARDED_KINDS
            or self.kind in _CLUSTER_KINDS
            or (self.group == "rbac.authorization.k8s.io" and self.kind.startswith("Cluster"))
            or self.group == "admissionregistration.k8s.io"
        )

    def carried(self, namespace: str) -> dict[str, Any]:
        """Return a copy for a Workload of that namespace: without what tools and servers wrote."""
        meta = {key: self.body["metadata"].get(key) for key in _USERS}
        if isinstance(meta["annotations"], dict):
            kept = meta["annotations"].items()
            meta["annotations"] = {k: v for k, v in kept if not str(k).startswith(_PASSING)}
        if self.of_cluster or meta["namespace"] == namespace:
            meta["namespace"] = None
        rest = {k: v for k, v in self.body.items() if k not in ("metadata", "status")}
        head = {"apiVersion": rest.pop("apiVersion"), "kind": rest.pop("kind")}
        body = {**head, "metadata": {key: value for key, value in meta.items() if value}, **rest}
        return copy.deepcopy(body)

    def delivered(self) -> dict[str, str]:
        """Return its annotations that the Workload has too, by which a tool delivers it."""
        return {
            key: value
            for key, value in self.annotations.items()
            if key.startswith(_DELIVERING) or key == HELM_FILE
        }


def texts(value: Any) -> dict[str, str]:
    """Return labels or annotations, without values that a server would refuse."""
    found = value if isinstance(value, dict) else {}
    return {key: text for key, text in found.items() if isinstance(text, str)}


def in_order(items: Iterable[Item]) -> list[Item]:
    """Return the objects in the order in which Helm installs them; of one kind as they came.

    Helm 3 hands them over so, Helm 4 by the names of their files.
    """
    return sorted(items, key=lambda item: (_PLACE.get(item.kind, len(_PLACE)), _later(item.kind)))


def _later(kind: str) -> str:
    return "" if kind in _PLACE else kind


def release_of(items: Iterable[Item]) -> str:
    """Return the release that all objects with the label of one belong to; empty for several."""
    named = {each.labels[_INSTANCE] for each in items if each.labels.get(_INSTANCE)}
    return named.pop() if len(named) == 1 else ""


def release_label(release: str) -> Mapping[str, str]:
    return {_INSTANCE: release} if release else {}
