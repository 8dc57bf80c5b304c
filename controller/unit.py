"""What a decision knows of a Workload: one unit of it, how many are wanted, and its rules.

Compiled once for each generation. Templates of every kind are read here and nowhere else: how many
units they ask for, what one unit requests, which labels it carries. A kind without replicas
(DaemonSet, CronJob) counts one for each chosen cluster.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from controller import podform
from controller.apportion.settle import Limit
from controller.limits import Shown, shown, stored
from controller.model import (
    ClusterAffinity,
    DistributionWeight,
    SpreadConstraint,
    TargetCluster,
    Template,
    Toleration,
    Workload,
    WorkloadAffinity,
    WorkloadSpec,
)
from crds.names import LABEL_POLICY, POLICY_ALIASES
from crds.workload import Distribution
from machinery import quantities
from machinery.objects import Key

REPLICA_PATHS = {
    "Deployment": "spec.replicas",
    "StatefulSet": "spec.replicas",
    "ReplicaSet": "spec.replicas",
    "Job": "spec.parallelism",
}
_PLACED_BY = (
    "affinity",
    "hostNetwork",
    "nodeSelector",
    "priorityClassName",
    "runtimeClassName",
    "schedulerName",
    "tolerations",
    "topologySpreadConstraints",
    "volumes",
)
"""What a member's scheduler reads of a pod beside its requests; ports of the host left aside."""

MOST_UNITS = 2**31 - 1
"""What Kubernetes counts replicas with; the status could not tell of more."""

_NOTHING: Mapping[str, Any] = {}
_BINDING = (LABEL_POLICY, *POLICY_ALIASES)
WITHOUT_REPLICAS = frozenset({"DaemonSet", "CronJob"})


@dataclass(frozen=True, slots=True)
class Unit:
    """One Workload, ready to be placed.

    `replicas` are the units wanted (on each cluster, where it is duplicated), `request` what one of
    them asks for (thousandths of cpu, whole units of the rest), `present` the shares as they are.
    `unit_labels` are those of its pods (a custom kind has no pods that we know: its own), and
    `policies` the names of the policies that bind it: more than one is a mistake of the user's.
    `constraints`, `demand` and `shape` are hashes of what placement reads, the last one of what the
    members' own schedulers read; `decided` are those that the present placements were decided on.
    Where clusters bound a divided Workload by what they ran of it, `limits` are the bounds, and
    `shown` is what they report. `version` is that of the object that all of this was read from.
    """

    namespace: str
    name: str
    uid: str
    created: str
    scheduler_name: str
    priority: int
    labels: Mapping[str, str]
    unit_labels: Mapping[str, str]
    policies: tuple[str, ...]
    kind: str
    replicas: int
    counted: bool
    request: Mapping[str, int]
    node_selector: Mapping[str, str]
    pod_tolerations: tuple[Toleration, ...]
    pod_selector: str
    target_namespace: str
    target_cluster: TargetCluster | None
    cluster_selector: Mapping[str, str]
    cluster_affinity: ClusterAffinity
    affinity: WorkloadAffinity
    anti_affinity: WorkloadAffinity
    tolerations: tuple[Toleration, ...]
    distribution: str
    weights: tuple[DistributionWeight, ...]
    packing: str
    spread: tuple[SpreadConstraint, ...]
    present: Mapping[str, int]
    constraints: str
    demand: str
    shape: str
    decided: tuple[str, str, str]
    limits: Mapping[str, Limit]
    shown: Mapping[str, Shown]
    version: str

    @property
    def key(self) -> Key:
        """(namespace, name)."""
        return (self.namespace, self.name)

    @property
    def hash(self) -> str:
        """What goes into status.decision.hash."""
        return f"{self.constraints}-{self.demand}-{self.shape}"

    @property
    def edited(self) -> bool:
        """True when the rules (not only the number) changed since the present placements."""
        return bool(self.present) and self.decided[0] != self.constraints

    @property
    def policy(self) -> Key | None:
        """The one policy that bounds its shares; None without, and for kinds without replicas."""
        return (
            (self.namespace, self.policies[0]) if self.bound and len(self.policies) == 1 else None
        )

    @property
    def bound(self) -> bool:
        """True when a policy has a say: then it is divided, whatever its distribution."""
        return bool(self.policies) and self.counted

    @property
    def everywhere(self) -> bool:
        """True when every matching cluster runs it in full."""
        return self.kind == "DaemonSet" or (self.distribution == "Duplicated" and not self.bound)

    @property
    def whole(self) -> bool:
        """True when all units go to one cluster."""
        return self.distribution == "Single" and not self.everywhere and not self.bound

    def with_present(self, present: Mapping[str, int]) -> Unit:
        """The same with other present shares."""
        return replace(self, present=present)


def compile_unit(workload: Workload) -> Unit:
    """The unit of a Workload.

    Raises ValueError, naming the field, for what the schema could not refuse, such as a quantity.
    """
    spec, meta = workload.spec, workload.metadata
    template = spec.target_deployment or spec.template or Template()
    pods = template.kind in REPLICA_PATHS or template.kind in WITHOUT_REPLICAS
    podform.check(template, pods=pods)
    pod_meta, pod = _pod_template(template)
    counted = template.kind not in WITHOUT_REPLICAS
    labels = pod_meta.get("labels") or {}
    request, policies = _request(pod), _policies(meta.labels, podform.labels_of(template), labels)
    shape = _hash([request, {field: pod[field] for field in _PLACED_BY if field in pod}])
    decided = _parts(workload.status.decision.hash)
    divided = spec.distribution == Distribution.DIVIDED and counted and not policies
    return Unit(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        created=meta.creation_timestamp,
        scheduler_name=spec.scheduler_name,
        priority=spec.priority,
        labels={**labels, **meta.labels},
        unit_labels=labels if pod_meta or pod else meta.labels,
        policies=policies,
        kind=template.kind,
        replicas=_replicas(spec, template) if counted else 1,
        counted=counted,
        request=request,
        node_selector=pod.get("nodeSelector") or {},
        pod_tolerations=tuple(msgspec.convert(pod.get("tolerations") or [], list[Toleration])),
        pod_selector=_selector(template),
        target_namespace=spec.target_namespace or meta.namespace,
        target_cluster=spec.target_cluster,
        cluster_selector=spec.cluster_selector,
        cluster_affinity=spec.cluster_affinity,
        affinity=spec.workload_affinity,
        anti_affinity=spec.workload_anti_affinity,
        tolerations=tuple(spec.tolerations),
        distribution=spec.distribution,
        weights=tuple(spec.distribution_weights),
        packing=spec.packing,
        spread=tuple(spec.spread_constraints),
        present=workload.placements,
        constraints=_hash(_rules(spec, meta.namespace)),
        demand=_hash([_replicas(spec, template) if counted else 1, request]),
        shape=shape,
        decided=decided,
        limits=stored(workload.status) if divided and decided[-1] == shape else _NOTHING,
        shown=shown(workload) if divided else _NOTHING,
        version=meta.resource_version,
    )


def _parts(text: str) -> tuple[str, str, str]:
    """The three parts of a hash; empty those that an older release did not write."""
    first, second, third = (*text.split("-", 2), "", "")[:3]
    return first, second, third


def _policies(*places: Mapping[str, str]) -> tuple[str, ...]:
    """The policies that the labels name, each once; aliases count like the label itself."""
    named = [labels[key] for labels in places for key in _BINDING if labels.get(key)]
    return tuple(sorted(set(named)))


def compact(workload: Workload) -> Workload:
    """The same without the template's body: what a cache keeps once the unit is compiled."""
    slim = msgspec.structs.replace(workload.spec, target_deployment=None, template=None)
    return msgspec.structs.replace(workload, spec=slim)


def _rules(spec: WorkloadSpec, namespace: str) -> dict[str, Any]:
    """What placement reads of the spec beside numbers, by names that never change."""
    return {
        "distribution": spec.distribution,
        "weights": spec.distribution_weights,
        "packing": spec.packing,
        **({"spread": spec.spread_constraints} if spec.spread_constraints else {}),
        "namespace": spec.target_namespace or namespace,
        "cluster": spec.target_cluster,
        "selector": spec.cluster_selector,
        "clusterAffinity": spec.cluster_affinity,
        "affinity": spec.workload_affinity,
        "antiAffinity": spec.workload_anti_affinity,
        "tolerations": spec.tolerations,
        "scheduler": spec.scheduler_name,
    }


def _hash(value: Any) -> str:
    """Stable over restarts and releases, of Python and of ours: canonical JSON, sorted keys.

    The structs leave out what has its default, so a field that a later release adds to them changes
    the hash of no Workload that does not use it.
    """
    encoded = msgspec.json.encode(value, order="deterministic")
    return hashlib.blake2b(encoded, digest_size=8).hexdigest()


def _pod_template(template: Template) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The pods' metadata and spec; empty for a custom kind, which has no unit template."""
    body: Mapping[str, Any] = template.spec
    if template.kind == "CronJob":
        body = (body.get("jobTemplate") or {}).get("spec") or {}
    if template.kind not in REPLICA_PATHS and template.kind not in WITHOUT_REPLICAS:
        return {}, {}
    pods = body.get("template") or {}
    return pods.get("metadata") or {}, pods.get("spec") or {}


def _replicas(spec: WorkloadSpec, template: Template) -> int:
    if spec.replicas is not None:
        return spec.replicas
    path = spec.replicas_path or REPLICA_PATHS.get(template.kind, "spec.replicas")
    value: Any = {"spec": template.spec}
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        return 1
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"spec.template.{path}: {value!r} is not a number of replicas")
    if value > MOST_UNITS:
        raise ValueError(f"spec.template.{path}: {value} is more than {MOST_UNITS} replicas")
    return value


def _selector(template: Template) -> str:
    """The pods' selector as text, for the scale subresource; a custom kind's may be of any form."""
    selector = template.spec.get("selector")
    pairs = selector.get("matchLabels") if isinstance(selector, dict) else None
    if not pairs or not isinstance(pairs, dict):
        pairs = _pod_template(template)[0].get("labels") or {}
    return ",".join(f"{key}={value}" for key, value in sorted(pairs.items()))


def _request(pod: Mapping[str, Any]) -> dict[str, int]:
    """What one pod asks for, as kube-scheduler computes it; always one of the pods' places.

    Containers and sidecars add up; an init container needs its own beside the sidecars started
    before it; the greater counts, or what the pod asks for as a whole, plus the overhead.
    """
    if not pod.get("containers"):
        return {}
    running: dict[str, int] = {}
    peak: dict[str, int] = {}
    for index, container in enumerate(pod.get("initContainers") or []):
        wants = _container(container, f"initContainers[{index}].")
        if container.get("restartPolicy") == "Always":
            _add(running, wants)
            _most(peak, running)
        else:
            _most(peak, {r: n + running.get(r, 0) for r, n in wants.items()})
    for index, container in enumerate(pod["containers"]):
        _add(running, _container(container, f"containers[{index}]."))
    _most(running, peak)
    whole = _container(pod, "")
    running |= {resource: n for resource, n in whole.items() if _for_pods(resource)}
    _add(running, _amounts(pod.get("overhead") or {}, "overhead"))
    running = {resource: n for resource, n in running.items() if n > 0}
    return {**running, "pods": 1}


def _for_pods(resource: str) -> bool:
    """The resources that a pod may ask for as a whole, whatever its containers say."""
    return resource in ("cpu", "memory") or resource.startswith("hugepages-")


def _container(container: Mapping[str, Any], where: str) -> dict[str, int]:
    resources = container.get("resources") or {}
    limits = resources.get("limits") or {}
    # A limit without a request is the request, as the API server defaults it.
    return _amounts({**limits, **(resources.get("requests") or {})}, f"{where}resources")


def _amounts(texts: Mapping[str, Any], where: str) -> dict[str, int]:
    try:
        return {resource: quantities.amount(resource, text) for resource, text in texts.items()}
    except (ValueError, TypeError) as e:
        raise ValueError(f"spec.template.spec.{where}: {e}") from e


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for resource, n in more.items():
        total[resource] = total.get(resource, 0) + n


def _most(total: dict[str, int], other: Mapping[str, int]) -> None:
    for resource, n in other.items():
        total[resource] = max(total.get(resource, 0), n)
