"""`hold: Member`: pods that keep the room of a Reservation on its members.

Such a reservation has a Workload `NAME-hold`, whose pods ask for one unit and give way to every
other pod. Its shares are the whole units that no owner has taken.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from controller.features.reservation.compiled import Reservation, Reserved
from controller.features.reservation.ledger import ReservationLedger
from controller.framework.objectwriter import ObjectWriter
from controller.framework.runtime.feature import Term
from controller.framework.statuswriter import for_good
from controller.model.objects import Workload
from crds.names import (
    API_VERSION,
    LABEL_RESERVATION,
    PLACEHOLDER_CLASS,
    PLACEHOLDER_PODS_LABEL,
    PLACEHOLDER_SCHEDULER,
    PLACEHOLDER_SUFFIX,
    forbidden_namespace,
)
from crds.reservation import Hold
from machinery import logs
from machinery.api.resources import DEPLOYMENTS, RESERVATIONS, WORKLOADS
from machinery.errors import Conflict, Forbidden, NotFound, TransportError
from machinery.runtime.informer import Informer
from machinery.runtime.workqueue import WorkQueue, work
from machinery.tasks import in_slices
from machinery.types import hostports, quantities
from machinery.types.bounds import clean
from machinery.types.metadata import Key, OwnerReference

LOG = logs.get(__name__)
IMAGE = "registry.k8s.io/pause:3.10"
WORKERS = 4
CALM_SECONDS = 1.0
"""Seconds between an event and its check, so that many events are one write."""
SETTLED_SECONDS = 5.0
"""Seconds after a write until the ledger is read again: a decision in it may have come to nothing.
"""
AGAIN_SECONDS = 60.0
"""Seconds until a refused Workload is tried again."""
_LABEL = 63
_DIGEST = 10
_LIMITED = ("cpu", "memory", "ephemeral-storage")
"""Resources that may go without a limit; for every other one a container asks for its limit."""


class Placeholders:
    """`told` is called with a reservation whose `problem` has changed."""

    def __init__(
        self, term: Term, ledger: ReservationLedger, told: Callable[[Key], None] = lambda _: None
    ) -> None:
        self._client = term.client
        self._reservations: Informer[Reservation] = term.informer(RESERVATIONS)
        self._workloads: Informer[Workload] = term.informer(WORKLOADS)
        self._objects = ObjectWriter(term, WORKLOADS, Workload, stored=self._workloads)
        self._ledger = ledger
        self._told = told
        self._problems: dict[Key, str] = {}
        self._queue: WorkQueue[Key] = WorkQueue(
            name="placeholders", clock=term.clock, flow=lambda key: key[0], seats=WORKERS
        )

    def look(self, key: Key) -> None:
        self._queue.add_after(key, CALM_SECONDS)

    def saw(self, workload: Workload) -> None:
        if (key := _reservation_of(workload)) is not None:
            self.look(key)

    def problem(self, key: Key) -> str:
        """Return why no pods keep the room, or empty."""
        return self._problems.get(key, "")

    async def run(self) -> None:
        try:
            async for stored in in_slices(list(self._reservations.values())):
                self.look(stored.metadata.key)
            async for workload in in_slices(list(self._workloads.values())):
                if LABEL_RESERVATION in workload.metadata.labels:
                    self.saw(workload)
            await work(self._queue, self.sync, workers=WORKERS, log=LOG)
        finally:
            self._queue.shut_down()

    async def sync(self, key: Key) -> float | None:
        """Sync one placeholder; return the seconds until the next check, or None.

        Raises LeaseLost, or TransportError if a retry may help.
        """
        try:
            problem, again = await self._bring(key)
        except Conflict:
            return CALM_SECONDS
        except NotFound:
            return SETTLED_SECONDS  # the Workload went meanwhile; the watch will report it
        except TransportError as e:
            if not (for_good(e) or isinstance(e, Forbidden)):
                raise
            problem = f"the hub refuses the Workload {_placeholder(key)[1]}: {clean(str(e))}"
            if isinstance(e, Forbidden):
                problem += f"; in a namespace that is no tenant: `stowage tenant add {key[0]}`"
            again = AGAIN_SECONDS
        self._say(key, f"no pods keep it: {problem}" if problem else "")
        return again

    async def _bring(self, key: Key) -> tuple[str, float | None]:
        held, reserved = self._workloads.get(_placeholder(key)), self._wanted(key)
        if reserved is None:
            if held is not None and _ours(held, key) and await self._over(key, held):
                await self._objects.delete(held)
            return "", None
        replicas = self._replicas(reserved)
        if forbidden_namespace(key[0]):
            return f"members take nothing into the namespace {key[0]}", None
        if held is None:
            if not replicas:
                return "", None
            stored = self._reservations.get(key)
            assert stored is not None  # noqa: S101 - `_wanted` has seen it, and nothing was awaited
            held = await self._objects.create(placeholder(stored, reserved), key[0])
        elif not _ours(held, key):
            return f"the Workload {held.metadata.name} is somebody else's", None
        elif _owner(held, key) != reserved.uid or held.metadata.deleting:
            # It is the placeholder of an earlier reservation of that name.
            await self._objects.delete(held)
            return "", SETTLED_SECONDS
        return "", SETTLED_SECONDS if await self._place(held, replicas) else None

    def _wanted(self, key: Key) -> Reserved | None:
        reserved, stored = self._ledger.get(key), self._reservations.get(key)
        if reserved is None or stored is None or stored.metadata.uid != reserved.uid:
            return None
        return reserved if reserved.open and reserved.hold == Hold.MEMBER.value else None

    def _replicas(self, reserved: Reserved) -> dict[str, int]:
        found = self._ledger.inside(reserved.request, [reserved])[reserved.key]
        return {cluster: replicas for cluster, replicas in sorted(found.items()) if replicas > 0}

    async def _over(self, key: Key, held: Workload) -> bool:
        if self._ledger.get(key) is not None:
            return True
        try:
            # An incomplete ledger must not free the room of a reservation, so the hub decides.
            found = await self._client.get(RESERVATIONS, key[1], namespace=key[0])
        except NotFound:
            return True
        return bool(found["metadata"]["uid"] != _owner(held, key))

    async def _place(self, held: Workload, replicas: Mapping[str, int]) -> bool:
        total = sum(replicas.values())
        if held.placements == replicas and held.status.desired == total:
            return False
        shares = [{"cluster": cluster, "replicas": n} for cluster, n in replicas.items()]
        numbers = {"desired": total, "assigned": total, "pending": 0}
        looked = {"controller": held.metadata.generation}
        status = {"placements": shares, "observed": looked, **numbers}
        await self._objects.patch(held, {"status": status}, status=True)
        return True

    def _say(self, key: Key, problem: str) -> None:
        if self.problem(key) == problem:
            return
        self._problems.pop(key, None)
        if problem:
            self._problems[key] = problem
        self._told(key)


def placeholder(stored: Reservation, reserved: Reserved) -> dict[str, Any]:
    meta, name = stored.metadata, f"{stored.metadata.name}{PLACEHOLDER_SUFFIX}"
    labels = {PLACEHOLDER_PODS_LABEL: label_of(meta.name)}
    owner = meta.controller_ref(API_VERSION, RESERVATIONS.kind)
    deployment = {
        "apiVersion": DEPLOYMENTS.api_version,
        "kind": DEPLOYMENTS.kind,
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": _pods(stored, reserved)},
        },
    }
    return {
        "metadata": {
            "name": name,
            "labels": {LABEL_RESERVATION: label_of(meta.name)},
            "ownerReferences": [owner],
        },
        "spec": {"schedulerName": PLACEHOLDER_SCHEDULER, "targetDeployment": deployment},
    }


def _pods(stored: Reservation, reserved: Reserved) -> dict[str, Any]:
    """Return a pod that fits wherever a unit of the reservation does."""
    given = stored.spec["template"]["spec"]
    place = {field: given[field] for field in ("nodeSelector", "tolerations") if given.get(field)}
    affinity = given.get("affinity")
    if isinstance(affinity, dict) and affinity.get("nodeAffinity"):
        place["affinity"] = {"nodeAffinity": affinity["nodeAffinity"]}
    amounts = {r: n for r, n in reserved.request.items() if r != "pods"}
    ones = [r for r in amounts if hostports.code(r) is not None]
    ports = [each for each in ones if not hostports.is_apart(each)]
    requests = {r: quantities.render(r, n) for r, n in amounts.items() if r not in ones}
    limits = {r: text for r, text in requests.items() if r not in _LIMITED}
    container: dict[str, Any] = {
        "name": "hold",
        "image": IMAGE,
        "resources": {"requests": requests, **({"limits": limits} if limits else {})},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "runAsUser": 65535,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    if ports:
        container["ports"] = [_port(*hostports.place(each).split("/")) for each in ports]
    return {
        "priorityClassName": PLACEHOLDER_CLASS,
        "terminationGracePeriodSeconds": 0,  # an owner's pods do not wait for these to end
        "automountServiceAccountToken": False,
        "containers": [container],
        **place,
    }


def _port(number: str, protocol: str) -> dict[str, Any]:
    return {"containerPort": int(number), "hostPort": int(number), "protocol": protocol}


def label_of(name: str) -> str:
    if len(name) <= _LABEL:
        return name
    digest = hashlib.blake2b(name.encode(), digest_size=_DIGEST // 2).hexdigest()
    return f"{name[: _LABEL - _DIGEST - 1]}-{digest}"


def _placeholder(key: Key) -> Key:
    return (key[0], f"{key[1]}{PLACEHOLDER_SUFFIX}")


def _reservation_of(workload: Workload) -> Key | None:
    namespace, name = workload.metadata.key
    of = name.removesuffix(PLACEHOLDER_SUFFIX)
    return (namespace, of) if of != name else None


def _ours(workload: Workload, key: Key) -> bool:
    # Any author can write the label, the name and an owner reference; a Workload of another
    # scheduler is not ours to place or to delete.
    named = workload.metadata.labels.get(LABEL_RESERVATION) == label_of(key[1])
    ours = workload.spec.scheduler_name == PLACEHOLDER_SCHEDULER
    return named and ours and _owner(workload, key) != ""


def _owner(workload: Workload, key: Key) -> str:
    return next((o.uid for o in workload.metadata.owner_references if _controls(o, key)), "")


def _controls(owner: OwnerReference, key: Key) -> bool:
    about = (owner.api_version, owner.kind, owner.name)
    return owner.controller and about == (API_VERSION, RESERVATIONS.kind, key[1])
