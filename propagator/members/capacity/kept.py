"""The kept form of a Pod and of a Node: few fields, shared among equals."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

from crds.names import (
    PLACEHOLDER_CLASS,
    PLACEHOLDER_PODS_LABEL,
    PLACEHOLDER_PRIORITY,
    PLACEHOLDER_SUFFIX,
)
from machinery.clock import parse_timestamp, stored_time
from machinery.types import hostports, quantities
from machinery.types.bounds import NAME, TAINTS, WORD, clean
from machinery.types.metadata import Meta, Object, shared
from propagator.members.pods import PodClaim, claim_of, cost_of, deployment_of
from propagator.members.sanitize import check_texts, is_label_key, is_label_value, resources

LABELS_THAT_MATTER = (
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
)
"""The node labels of a node group. Fixed: with host names no two nodes would be alike."""

UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
"""The field selector of the pods watch: a pod that ended holds no room."""

POD_BYTES, NODE_BYTES = 800, 4000

PodLabels: TypeAlias = tuple[tuple[str, str], ...]
Amounts: TypeAlias = tuple[tuple[str, int], ...]
"""(resource, amount) in order of the resource; cpu in thousandths, anything else in units."""

_EFFECTS = frozenset({"NoSchedule", "NoExecute"})
_POD_LEVEL = ("cpu", "memory", "hugepages-")
_BEGINNING = ("", "ContainerCreating", "PodInitializing")
"""Reasons of starting containers; empty if it runs or has ended."""
_BACKING_OFF = {"ErrImagePull": "ImagePullBackOff"}
_AT_ONCE = timedelta(seconds=1)
"""Two times of whole seconds that were written together differ by no more."""
_REASON = re.compile("[A-Za-z]{1,63}")
_NUMBER = re.compile(r"^[0-9/]+ ")
_MOST_LABELS, _LONGEST_LABELS = 64, 8192
_NOTHING: dict[str, Any] = {}
_NOBODY: list[Any] = []


class Pod(Object, frozen=True):
    """A bound pod has `requests` and `ports`, codes of `machinery.types.hostports`.

    A pod that `gives_way` to every other pod holds none.
    """

    node: str = ""
    claim: PodClaim | None = None
    requests: Amounts = ()
    ports: tuple[int, ...] = ()
    gives_way: bool = False
    ready: bool = False
    unschedulable: datetime | None = None
    cost: int | None = None
    """The deletion cost that we set; None also if another manager changed it since."""
    marked: bool = False
    fell: bool = False
    """Whether it is in trouble, and was ready before, by its own times."""
    labels: PodLabels | None = ()
    """Those of a pod of ours; None for more than are kept."""
    trouble: str = ""
    """Why a pod of ours is not ready: `container main: ImagePullBackOff`, or `no node: Insufficient
    cpu`; empty while it starts.
    """

    @property
    def facts(self) -> tuple[Any, ...]:
        """All fields whose change matters."""
        held = (self.requests, self.ports, self.gives_way)
        return (self.node, self.claim, held, self.ready, self.unschedulable, self.trouble)


class Node(Object, frozen=True):
    """The kept form of a node. `taints` are (key, value, effect), without PreferNoSchedule."""

    provider_id: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[tuple[str, str, str], ...] = ()
    allocatable: Amounts = ()
    usable: bool = False


class _Resources(msgspec.Struct):
    requests: dict[str, str | int | float] = {}


class _Port(msgspec.Struct, rename="camel"):
    host_port: int = 0
    protocol: str = "TCP"


class _Container(msgspec.Struct, rename="camel"):
    name: str = ""
    resources: _Resources = msgspec.field(default_factory=_Resources)
    restart_policy: str = ""
    ports: list[_Port] = []


class _PodSpec(msgspec.Struct, rename="camel"):
    node_name: str = ""
    containers: list[_Container] = []
    init_containers: list[_Container] = []
    resources: _Resources | None = None
    priority: int = 0
    priority_class_name: str = ""
    overhead: dict[str, str | int | float] = {}


class _Condition(msgspec.Struct, rename="camel"):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class _Waiting(msgspec.Struct):
    reason: str = ""


class _ContainerState(msgspec.Struct):
    waiting: _Waiting | None = None


class _ContainerStatus(msgspec.Struct, rename="camel"):
    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: _ContainerState = msgspec.field(default_factory=_ContainerState)
    allocated_resources: dict[str, str | int | float] = {}


class _PodStatus(msgspec.Struct, rename="camel"):
    start_time: str | None = None
    conditions: list[_Condition] = []
    container_statuses: list[_ContainerStatus] = []
    init_container_statuses: list[_ContainerStatus] = []


class WirePod(Object, frozen=True):
    """The decoded form; `slim_pod` converts it at once."""

    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


class _Taint(msgspec.Struct):
    key: str
    effect: str
    value: str = ""


class _NodeSpec(msgspec.Struct, rename="camel"):
    provider_id: str = msgspec.field(default="", name="providerID")
    unschedulable: bool = False
    taints: list[_Taint] = []


class _NodeStatus(msgspec.Struct, rename="camel"):
    allocatable: dict[str, str | int | float] = {}
    conditions: list[_Condition] = []


class WireNode(Object, frozen=True):
    """The decoded form; `slim_node` converts it at once."""

    spec: _NodeSpec = msgspec.field(default_factory=_NodeSpec)
    status: _NodeStatus = msgspec.field(default_factory=_NodeStatus)


def slim_pod(pod: Object) -> Object:
    """Raises ValueError for a malformed quantity, TooMuch for a name that is too long."""
    assert isinstance(pod, WirePod)  # noqa: S101 - the informer decodes nothing else
    claim = claim_of(pod.metadata)
    ours = claim is not None and bool(claim.uid)
    check_texts(pod.spec.node_name, *(claim or ()))
    conditions = {each.type: each for each in pod.status.conditions}
    ready = _true(conditions.get("Ready")) and not pod.metadata.deleting
    cost, marked = cost_of(pod.metadata) if ours else (None, False)
    trouble = shared(_trouble(pod, conditions)) if ours and not ready else ""
    return Pod(
        metadata=_slim_meta(pod.metadata, moments=ours),
        node=shared(pod.spec.node_name),
        claim=claim,
        requests=_shared(_requests(pod)) if pod.spec.node_name else (),
        ports=_ports(pod) if pod.spec.node_name else (),
        gives_way=_gives_way(pod, claim),
        ready=ready,
        unschedulable=_waiting_since(pod, conditions.get("PodScheduled")),
        cost=cost,
        marked=marked,
        fell=bool(trouble) and _fell(pod, conditions.get("Ready")),
        labels=_kept_labels(pod.metadata.labels) if ours else (),
        trouble=trouble,
    )


def slim_node(node: Object) -> Object:
    """A node with impossible taints is not usable. Raises ValueError for a malformed quantity."""
    assert isinstance(node, WireNode)  # noqa: S101 - the informer decodes nothing else
    labels = node.metadata.labels
    ready = any(each.type == "Ready" and _true(each) for each in node.status.conditions)
    hard = {(t.key, t.value, t.effect) for t in node.spec.taints if t.effect != "PreferNoSchedule"}
    chosen = {key: labels[key] for key in LABELS_THAT_MATTER if key in labels}
    possible = len(hard) <= TAINTS and all(map(_possible, hard))
    return Node(
        metadata=_slim_meta(node.metadata),
        provider_id=node.spec.provider_id[:NAME],
        labels=tuple((key, value) for key, value in chosen.items() if is_label_value(value)),
        taints=tuple(sorted(hard)) if possible else (),
        allocatable=_amounts(node.status.allocatable),
        usable=ready and possible and not node.spec.unschedulable and not node.metadata.deleting,
    )


def _kept_labels(labels: Mapping[str, str]) -> PodLabels | None:
    if len(labels) > _MOST_LABELS or sum(map(len, (*labels, *labels.values()))) > _LONGEST_LABELS:
        return None
    return _shared_labels(tuple(sorted(labels.items())))


def _requests(pod: WirePod) -> Amounts:
    """Return the requests that the member's scheduler counts for a pod.

    The larger of all containers with restartable init containers, and an init container with the
    restartable ones before it; pod-level requests replace these; plus overhead. During a resize the
    larger of request and allocation counts.
    """
    held = _allocated(pod)
    total: Counter[str] = Counter()
    for container in pod.spec.containers:
        total.update(_counted(container, held))
    sidecars: Counter[str] = Counter()
    peak: Counter[str] = Counter()
    for init in pod.spec.init_containers:
        asked = _counted(init, held)
        if init.restart_policy == "Always":
            total.update(asked)
            sidecars.update(asked)
            asked = Counter()
        peak |= sidecars + asked
    total |= peak
    if pod.spec.resources is not None:
        whole = dict(_amounts(pod.spec.resources.requests))
        total.update({r: n - total[r] for r, n in whole.items() if r.startswith(_POD_LEVEL)})
    total.update(dict(_amounts(pod.spec.overhead)))
    return tuple(sorted((resource, n) for resource, n in total.items() if n > 0))


def _ports(pod: WirePod) -> tuple[int, ...]:
    # With host networking, the API server has set the container ports as host ports.
    beside = [each for each in pod.spec.init_containers if each.restart_policy == "Always"]
    ports = {
        (port.protocol, port.host_port)
        for container in (*pod.spec.containers, *beside)
        for port in container.ports
        if port.protocol in hostports.PROTOCOLS and 0 < port.host_port <= hostports.MOST_PORT
    }
    return tuple(sorted(hostports.code_of(*port) for port in ports)[: hostports.MOST_OF_ONE])


def _gives_way(pod: WirePod, claim: PodClaim | None) -> bool:
    # Any user of the member may name the class, and it may have any priority.
    return (
        claim is not None
        and bool(claim.uid)
        and PLACEHOLDER_PODS_LABEL in pod.metadata.labels
        and deployment_of(claim).endswith(PLACEHOLDER_SUFFIX)
        and pod.spec.priority_class_name == PLACEHOLDER_CLASS
        and pod.spec.priority <= PLACEHOLDER_PRIORITY
    )


def _counted(container: _Container, held: Mapping[str, Counter[str]]) -> Counter[str]:
    asked = Counter(dict(_amounts(container.resources.requests)))
    return asked | held.get(container.name, Counter())


def _allocated(pod: WirePod) -> dict[str, Counter[str]]:
    statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    return {each.name: Counter(dict(_amounts(each.allocated_resources))) for each in statuses}


def _trouble(pod: WirePod, conditions: Mapping[str, _Condition]) -> str:
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    found = ((each.name, _reason(each)) for each in statuses)
    told = (f"container {name}: {why}" for name, why in found if why and is_label_value(name))
    return next(told, "") or _without_node(conditions.get("PodScheduled"))


def _fell(pod: WirePod, ready: _Condition | None) -> bool:
    """Whether a pod became unready later than it was started: a kubelet writes both at once."""
    if ready is None or ready.status != "False":
        return False
    began = stored_time(pod.status.start_time or "")
    changed = stored_time(ready.last_transition_time or "")
    return began is not None and changed is not None and changed - began > _AT_ONCE


def _without_node(scheduled: _Condition | None) -> str:
    """Return the scheduler's words without numbers: each change of these would cause a write."""
    if scheduled is None or scheduled.status != "False":
        return ""
    if scheduled.reason != "Unschedulable":
        return f"no node: {scheduled.reason}" if _REASON.fullmatch(scheduled.reason) else ""
    words = clean(scheduled.message, NAME).partition("preemption:")[0]
    _, _, causes = words.partition("nodes are available: ")
    named = {_NUMBER.sub("", each.strip(" .")) for each in (causes or words).split(", ")}
    return f"no node: {', '.join(sorted(named - {''})) or scheduled.reason}"


def _reason(container: _ContainerStatus) -> str:
    waiting = container.state.waiting
    reason = waiting.reason if waiting is not None else ""
    if reason in _BACKING_OFF:
        return _BACKING_OFF[reason]
    if reason in _BEGINNING:
        return "CrashLoopBackOff" if container.restart_count and not container.ready else ""
    return reason if _REASON.fullmatch(reason) else ""


def _waiting_since(pod: WirePod, scheduled: _Condition | None) -> datetime | None:
    """None for a pod that does not wait."""
    if pod.spec.node_name or pod.metadata.deleting or scheduled is None:
        return None
    if scheduled.status != "False" or scheduled.reason != "Unschedulable":
        return None
    return parse_timestamp(scheduled.last_transition_time or pod.metadata.creation_timestamp)


def _true(condition: _Condition | None) -> bool:
    return condition is not None and condition.status == "True"


def _possible(taint: tuple[str, str, str]) -> bool:
    key, value, effect = taint
    return is_label_key(key) and is_label_value(value) and effect in _EFFECTS


def _amounts(said: Mapping[str, str | int | float]) -> Amounts:
    return tuple((res, quantities.bounded(res, said[res])) for res in resources(said))


def _slim_meta(meta: Meta, *, moments: bool = False) -> Meta:
    """`moments` keeps the creation time and whether the pod is terminating."""
    return Meta(
        # Shared: many pods are created in one second.
        creation_timestamp=shared(meta.creation_timestamp[:WORD]) if moments else "",
        deletion_timestamp="ends" if moments and meta.deleting else None,
        name=meta.name,
        namespace=shared(meta.namespace),
        uid=meta.uid,
        resource_version=meta.resource_version,
        labels=_NOTHING,
        annotations=_NOTHING,
        finalizers=_NOBODY,
        owner_references=_NOBODY,
    )


@lru_cache(maxsize=4096)
def _shared_labels(labels: PodLabels) -> PodLabels:
    return tuple((shared(key), shared(value)) for key, value in labels)


@lru_cache(maxsize=4096)
def _shared(requests: Amounts) -> Amounts:
    return requests
