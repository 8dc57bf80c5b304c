"""The request of one pod of a template, and what the ResourceQuotas of its namespace charge for it.

Amounts are thousandths of cpu and whole units of other resources. A host port is a resource of
which each node has one (`machinery.types.hostports`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from controller.model.place import Part, Place, apart
from crds.admission.placeholder import CLASS_TEXT
from crds.names import PLACEHOLDER_CLASS
from machinery.kinds.profile import Profile
from machinery.kinds.templates import PodSet, pods_in
from machinery.types import hostports, podquotas, quantities
from machinery.types.api import QuotaLeft
from machinery.types.bounds import MOST_AMOUNT, RESOURCES, quoted

NONE: Mapping[str, str] = {}


def request_of(
    pod: Mapping[str, Any], labels: Mapping[str, str] = NONE, *, placeholder: bool = False
) -> dict[str, int]:
    """Return the request of one pod, as kube-scheduler computes it, with one of "pods".

    Containers and sidecars add up; an init container adds to the sidecars before it. Added are one
    of each host port (the first `hostports.MOST_OF_ONE`), and a node's place if the pod refuses
    others with its `labels`.

    Raises ValueError, naming the field, for an invalid quantity or port, and for more than any node
    offers.
    """
    if pod.get("priorityClassName") == PLACEHOLDER_CLASS:
        if placeholder:
            return {}
        raise ValueError(f"spec.template.spec.priorityClassName: {CLASS_TEXT}")
    if not pod.get("containers"):
        return {}
    running = _together(pod, _container)
    running |= _whole(pod, running)
    _add(running, _amounts(pod.get("overhead") or {}, "overhead"))
    if len(running) >= RESOURCES:
        text = f"its containers ask for {len(running)} resources; {RESOURCES - 1} at most"
        raise ValueError(f"spec.template.spec.containers: {text}")
    for resource, n in running.items():
        _refuse_beyond(resource, n, "all containers together")
    running = {resource: _amount(resource, n) for resource, n in running.items() if n > 0}
    own = {hostports.apart(labels): 1} if apart(pod, labels) else {}
    return {**running, **_host_ports(pod), **own, "pods": 1}


def _together(
    pod: Mapping[str, Any], of: Callable[[Mapping[str, Any], str], dict[str, int]]
) -> dict[str, int]:
    """Return the greatest sum of what containers take at the same time, each by its field."""
    running: dict[str, int] = {}
    peak: dict[str, int] = {}
    for index, container in enumerate(pod.get("initContainers") or []):
        wants = of(container, f"initContainers[{index}].")
        if container.get("restartPolicy") == "Always":
            _add(running, wants)
            _most(peak, running)
        else:
            _most(peak, {r: n + running.get(r, 0) for r, n in wants.items()})
    for index, container in enumerate(pod.get("containers") or []):
        _add(running, of(container, f"containers[{index}]."))
    _most(running, peak)
    return running


def limits_of(pod: Mapping[str, Any]) -> dict[str, int]:
    """Return the limits of one pod that `request_of` takes, as quotas count them."""

    def limits(part: Mapping[str, Any], where: str = "") -> dict[str, int]:
        return _amounts((part.get("resources") or {}).get("limits") or {}, f"{where}resources")

    running = _together(pod, limits)
    running |= {resource: n for resource, n in limits(pod).items() if _for_pods(resource)}
    overhead = _amounts(pod.get("overhead") or {}, "overhead")
    _add(running, {resource: n for resource, n in overhead.items() if resource in running})
    return {resource: _amount(resource, n) for resource, n in running.items() if n > 0}


def parts_of(profile: Profile, body: Mapping[str, Any]) -> list[Part]:
    """Return the sorts of pods of one replica, or of a whole object, that request anything.

    Raises ValueError, naming the field.
    """
    found = []
    for each in pods_in(profile, body):
        spec, meta = each.template.get("spec") or {}, each.template.get("metadata") or {}
        try:
            request = request_of(spec, meta.get("labels") or {})
        except ValueError as e:
            raise ValueError(_elsewhere(each, str(e))) from e
        if request and each.count:
            asked = tuple(sorted(request.items()))
            found.append(Part(each.name, each.count, asked, Place.of(spec)))
    return found


def _elsewhere(pods: PodSet, fault: str) -> str:
    """Return what `request_of` says, with the place of these pods in the object."""
    where, _, text = fault.partition(": ")
    if pods.made:
        return f"spec.template: {pods.path}.requests of its kind: {text}"
    return f"spec.template.{pods.path}.{where.removeprefix('spec.template.')}: {text}"


def _host_ports(pod: Mapping[str, Any]) -> dict[str, int]:
    shares_network = pod.get("hostNetwork") is True
    taken: set[int] = set()
    for where, container in _running(pod):
        for index, each in enumerate(container.get("ports") or []):
            field, port = "hostPort", each.get("hostPort")
            if not port and shares_network:  # as the API server defaults it
                field, port = "containerPort", each.get("containerPort")
            if port:
                text = f"spec.template.spec.{where}.ports[{index}]"
                taken.add(_port(each.get("protocol") or "TCP", port, text, field))
    return {hostports.named(port): 1 for port in sorted(taken)[: hostports.MOST_OF_ONE]}


def _running(pod: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the containers that run as long as the pod does, each with its field."""
    for index, container in enumerate(pod.get("initContainers") or []):
        if container.get("restartPolicy") == "Always":
            yield f"initContainers[{index}]", container
    for index, container in enumerate(pod["containers"]):
        yield f"containers[{index}]", container


def _port(protocol: str, port: int, where: str, field: str) -> int:
    """Raises ValueError, naming the field."""
    if protocol not in hostports.PROTOCOLS:
        known = ", ".join(hostports.PROTOCOLS)
        raise ValueError(f"{where}.protocol: {quoted(protocol)} is none of {known}")
    if not 1 <= port <= hostports.MOST_PORT:
        text = f"{quoted(port)} is no port; write a number from 1 to {hostports.MOST_PORT}"
        raise ValueError(f"{where}.{field}: {text}")
    return hostports.code_of(protocol, port)


def _whole(pod: Mapping[str, Any], containers: Mapping[str, int]) -> dict[str, int]:
    resources = pod.get("resources") or {}
    limits = _amounts(resources.get("limits") or {}, "resources")
    asked = _amounts(resources.get("requests") or {}, "resources")
    free = {resource: n for resource, n in limits.items() if resource not in containers}
    return {resource: n for resource, n in {**free, **asked}.items() if _for_pods(resource)}


def _for_pods(resource: str) -> bool:
    return resource in ("cpu", "memory") or resource.startswith("hugepages-")


def _container(container: Mapping[str, Any], where: str) -> dict[str, int]:
    resources = container.get("resources") or {}
    limits = resources.get("limits") or {}
    # A limit without a request is the request, as the API server defaults it.
    return _amounts({**limits, **(resources.get("requests") or {})}, f"{where}resources")


def _amounts(texts: Mapping[str, Any], where: str) -> dict[str, int]:
    """Return thousandths, each rounded up, as admission does it in templates too (1.36.3)."""
    amounts = {}
    for resource, text in texts.items():
        if resource.startswith(hostports.PREFIX):
            message = f"{quoted(resource)} is no resource; name a port as the container's hostPort"
            raise ValueError(f"spec.template.spec.{where}: {message}")
        try:
            amounts[resource] = quantities.milli(text)
        except ValueError as e:
            raise ValueError(f"spec.template.spec.{where}: {e}") from e
        _refuse_beyond(resource, amounts[resource], where)
    return amounts


def _amount(resource: str, thousandths: int) -> int:
    return thousandths if resource == "cpu" else -(-thousandths // 1000)


def _refuse_beyond(resource: str, thousandths: int, where: str) -> None:
    """Raise ValueError for a negative amount, and for more than any node can offer."""
    amount = _amount(resource, thousandths)
    what = f"spec.template.spec.{where}: {quoted(resource)}"
    if amount < 0:
        raise ValueError(f"{what} is negative; ask for nothing or more")
    if amount > MOST_AMOUNT:
        most = quantities.render(resource, MOST_AMOUNT)
        raise ValueError(f"{what} is more than any node offers ({most}); ask for less")


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for resource, n in more.items():
        total[resource] = total.get(resource, 0) + n


def _most(total: dict[str, int], other: Mapping[str, int]) -> None:
    for resource, n in other.items():
        total[resource] = max(total.get(resource, 0), n)


class Charge(NamedTuple):
    """Replicas that are alike to quotas: their namespace on the member, and their pods."""

    namespace: str
    pod: bytes
    """As `controller.model.unit.WorkloadInfo.pod`; empty if quotas charge nothing."""

    @property
    def amounts(self) -> Mapping[str, int]:
        return charges(self.pod)


@lru_cache(maxsize=1024)
def charges(pod: bytes) -> Mapping[str, int]:
    """Return what one pod takes, by `requests.cpu`, `limits.memory`, `pods` and the like."""
    if not pod:
        return {}
    template = msgspec.json.decode(pod)
    spec, labels = template.get("spec") or {}, template["metadata"].get("labels") or {}
    asked = request_of(spec, labels, placeholder=True)
    found = {
        name if name == podquotas.PODS else podquotas.REQUESTS + name: n
        for name, n in asked.items()
        if not name.startswith(hostports.PREFIX)
    }
    # A pod without a limit is refused, or gets one there, which nobody here knows.
    with suppress(ValueError):  # the member refuses a limit that is none, and says why
        found |= {podquotas.LIMITS + name: n for name, n in limits_of(spec).items()}
    return found


def left_by(quotas: Iterable[QuotaLeft]) -> dict[str, dict[str, int]]:
    """Return by namespace the least that its quotas leave, by the names of `charges`."""
    found: dict[str, dict[str, int]] = {}
    for quota in quotas:
        there = found.setdefault(quota.namespace, {})
        for name, n in amounts_left(quota).items():
            charged = podquotas.charged(name)
            there[charged] = min(n, there.get(charged, n))
    return found


def leave_more(before: Iterable[QuotaLeft], after: Iterable[QuotaLeft]) -> bool:
    """Whether the quotas of a namespace leave more of something than before."""
    was, now = left_by(before), left_by(after)
    return any(
        now.get(namespace, {}).get(name, n + 1) > n
        for namespace, amounts in was.items()
        for name, n in amounts.items()
    )


def amounts_left(quota: QuotaLeft) -> dict[str, int]:
    """Return what it leaves, by its own names; what is no quantity leaves nothing."""
    found = {}
    for name, text in quota.free.items():
        if podquotas.bounds(name):
            try:
                found[name] = podquotas.amount(name, text)
            except ValueError:
                found[name] = 0
    return found
