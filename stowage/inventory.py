"""From files or a hub to what the scheduler reads, with admission's defaults and its refusals.

An object from a file is treated as the API server would treat it: its labels are brought into their
one form, its scheduler is defaulted, and whatever admission would refuse is an error here, with
file, document and field. An object of a hub has been through that already and is only read.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import msgspec
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from controller.model import MemberCluster, Workload
from controller.world import known
from crds import membercluster
from crds.admission import LAST_APPLIED
from crds.base import NAME
from crds.names import API_VERSION, GROUP
from crds.validation import foreign_namespaces, normalised, violations
from machinery import quantities
from machinery.clock import microtime
from machinery.errors import ConfigurationError, NotFound
from machinery.objects import Key, Meta
from machinery.resources import MEMBER_CLUSTERS, WORKLOADS
from machinery.transport import ApiClient
from stowage.documents import Document

Json = Mapping[str, Any]
PLACED = ("Workload",)
"""The kinds of ours that files of Workloads may hold; others are noted and ignored."""


_USERS = ("name", "namespace", "labels", "annotations")
"""What a file may say of an object's metadata; the rest is the hub's."""


@dataclass(slots=True)
class Inventory:
    """The clusters and Workloads that are there, and what speaks for a word on the side.

    `stored` are the Workloads as JSON, by key, so that an edit in a file can be laid over them.
    """

    clusters: list[MemberCluster] = field(default_factory=list)
    workloads: dict[Key, Workload] = field(default_factory=dict)
    stored: dict[Key, Json] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, workload: Workload, stored: Json) -> None:
        """Take a Workload that is there."""
        self.workloads[workload.metadata.key] = workload
        self.stored[workload.metadata.key] = stored


async def of_hub(client: ApiClient) -> Inventory:
    """What the hub holds; only read. ConfigurationError where it does not know our kinds."""
    found = Inventory()
    try:
        clusters = (await client.list(MEMBER_CLUSTERS))["items"]
        workloads = (await client.list(WORKLOADS))["items"]
    except NotFound as e:
        raise ConfigurationError(
            f"the hub does not know the kinds of {GROUP}: run stowage install first"
        ) from e
    found.clusters = [msgspec.convert(each, MemberCluster) for each in clusters]
    for each in workloads:
        found.add(known(msgspec.convert(each, Workload)), each)
    return found


def of_fleet(documents: Sequence[Document], *, namespace: str) -> Inventory:
    """What files say is there: MemberClusters, Workloads with their status.

    Raises ConfigurationError for a wrong object, and when there is no cluster at all.
    """
    found, names = Inventory(), dict[str, str]()
    others = []
    for document in documents:
        if _ours(document, "Workload"):
            body = admitted(document, namespace=namespace)
            given = document.body["metadata"]
            body["metadata"] |= {key: given[key] for key in given if key not in _USERS}
            body["status"] = document.body.get("status") or {}
            found.add(_workload(document, body), body)
        elif _ours(document, "MemberCluster") or not document.kind:
            cluster = _cluster(document)
            name = cluster.metadata.name
            if name in names:
                raise document.error(f"metadata.name: {name} is in {names[name]} already")
            names[name] = document.place
            found.clusters.append(cluster)
        else:
            others.append(document)
    found.notes += ignored(others)
    if not found.clusters:
        raise ConfigurationError("no MemberCluster in the files of --fleet")
    return found


def to_apply(
    documents: Sequence[Document], present: Inventory, *, namespace: str, now: datetime
) -> dict[Key, Workload]:
    """The Workloads of the files, in their order, laid over those that are there.

    New ones are the youngest of all, each younger than the one before it, as the queue asks for
    age. What a file says of the status does not count, as nobody could apply it.
    Raises ConfigurationError for a wrong one, and for one that stands there twice.
    """
    places: dict[Key, str] = {}
    found: dict[Key, Workload] = {}
    for document in documents:
        if not _ours(document, "Workload"):
            continue
        created = microtime(now + timedelta(microseconds=len(found)))
        body = admitted(document, namespace=namespace, stored=present.stored, created=created)
        workload = _workload(document, body)
        key = workload.metadata.key
        if key in places:
            raise document.error(f"metadata.name: {'/'.join(key)} is in {places[key]} already")
        places[key], found[key] = document.place, workload
        for foreign, where in foreign_namespaces(body).items():
            right = f"the right to use namespace {foreign} ({where})"
            present.notes.append(f"{'/'.join(key)}: {right} is not looked at")
    present.notes += ignored([each for each in documents if not _ours(each, *PLACED)])
    return found


def ignored(documents: Sequence[Document]) -> list[str]:
    """A line about objects that are none of ours; no line without any."""
    if not documents:
        return []
    named = ", ".join(
        f"{each.kind or 'something without a kind'} {each.name}" for each in documents
    )
    return [f"ignored, as it is no Workload: {named}"]


def admitted(
    document: Document,
    *,
    namespace: str,
    stored: Mapping[Key, Json] | None = None,
    created: str = "",
) -> dict[str, Any]:
    """The Workload as the hub would store it. Raises ConfigurationError with what it would refuse.

    Over a stored one: its identity, its labels and its status stay, and so does a number of
    replicas that was set by somebody else than the file (kubectl scale, an autoscaler).
    """
    body = copy.deepcopy({key: value for key, value in document.body.items() if key != "status"})
    metadata = body.setdefault("metadata", {})
    if not isinstance(metadata, dict) or not isinstance(body.setdefault("spec", {}), dict):
        raise document.error("metadata and spec are objects")
    if not re.fullmatch(rf"{NAME}(\.{NAME})*", document.name):
        raise document.error("metadata.name: lower-case letters, digits, - and . make a name")
    if not body.get("apiVersion"):
        raise document.error(f"apiVersion: write {API_VERSION}")
    own = {key: metadata[key] for key in _USERS if metadata.get(key)}
    metadata = {"namespace": namespace, "creationTimestamp": created, **own}
    try:
        msgspec.convert(metadata, Meta)
    except msgspec.ValidationError as e:
        raise document.error(f"metadata.{_readable(e)}") from e
    body["metadata"] = metadata
    before = (stored or {}).get((str(metadata["namespace"]), document.name))
    if before is not None:
        _lay_over(body, before)
    wrong = violations(body)
    if wrong:
        raise document.error(wrong)
    _patch(body, normalised(body))
    return body


def _lay_over(body: dict[str, Any], before: Json) -> None:
    meta, old = body["metadata"], before["metadata"]
    labels = {**(old.get("labels") or {}), **(meta.get("labels") or {})}
    annotations = {**(old.get("annotations") or {}), **(meta.get("annotations") or {})}
    body["metadata"] = {**old, "labels": labels, "annotations": annotations}
    body["status"] = before.get("status") or {}
    scaled = before["spec"].get("replicas")
    if scaled is not None and "replicas" not in body["spec"] and not _applied(old, "replicas"):
        body["spec"]["replicas"] = scaled


def _applied(metadata: Json, name: str) -> bool:
    """Whether the last kubectl apply set that field of the spec, so that this one removes it."""
    text: str = (metadata.get("annotations") or {}).get(LAST_APPLIED, "{}")
    return name in json.loads(text).get("spec", {})


def _patch(body: dict[str, Any], patch: Json) -> None:
    """A JSON merge patch, in place."""
    for key, value in patch.items():
        if value is None:
            body.pop(key, None)
        elif isinstance(value, Mapping):
            _patch(body.setdefault(key, {}), value)
        else:
            body[key] = value


def _workload(document: Document, body: Json) -> Workload:
    try:
        workload = known(msgspec.convert(_told(body), Workload))
    except msgspec.ValidationError as e:
        raise document.error(_readable(e)) from e
    if workload.fault:
        raise document.error(workload.fault)
    return workload


def _told(body: Json) -> dict[str, Any]:
    """The object without fields of its metadata that are null, as some clients print them."""
    told = {key: value for key, value in body["metadata"].items() if value is not None}
    return {**body, "metadata": told}


def _readable(fault: msgspec.ValidationError) -> str:
    """`status.placements[...]: what` of msgspec's `what - at $.path`."""
    what, _, where = str(fault).partition(" - at `$.")
    return f"{where.rstrip('`')}: {what}" if where else what


def _ours(document: Document, *kinds: str) -> bool:
    version = str(document.body.get("apiVersion") or API_VERSION)
    return document.kind in kinds and version.partition("/")[0] == GROUP


def _cluster(document: Document) -> MemberCluster:
    """A MemberCluster, or the row of one. Raises ConfigurationError."""
    try:
        if document.kind:
            body = dict(document.body)
            membercluster.MemberCluster.model_validate(body)
        else:
            body = _row(document).manifest()
        if not document.name and document.kind:
            raise document.error("metadata.name: a MemberCluster needs a name")
        return msgspec.convert(_told(_in_texts(body)), MemberCluster)
    except ValidationError as e:
        raise document.error([_described(fault) for fault in e.errors(include_url=False)]) from e
    except msgspec.ValidationError as e:
        raise document.error(_readable(e)) from e


def _row(document: Document) -> _Row:
    if "name" not in document.body:
        raise document.error("kind: an object needs one; a row of an inventory needs a name")
    return _Row.model_validate(document.body)


def _described(fault: Any) -> str:
    path = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in fault["loc"])
    return ": ".join(filter(None, (path.removeprefix("."), fault["msg"])))


def _in_texts(body: dict[str, Any]) -> dict[str, Any]:
    """The object with amounts as texts, which people also write as numbers."""
    status = dict(body.get("status") or {})
    if capacity := status.get("capacity"):
        sums = {key: _texts(capacity.get(key)) for key in ("allocatable", "requested")}
        status["capacity"] = {**capacity, **sums}
    groups = status.get("nodeGroups") or ()
    status["nodeGroups"] = [{**group, "free": _texts(group.get("free"))} for group in groups]
    return {**body, "status": status}


def _texts(amounts: Json | None) -> dict[str, str]:
    return {resource: str(amount) for resource, amount in (amounts or {}).items()}


class _Amounts(BaseModel):
    """Sums over the nodes of a cluster, in plain numbers."""

    model_config = ConfigDict(extra="ignore")

    cpu_milli: int = Field(default=0, ge=0)
    memory_bytes: int = Field(default=0, ge=0)
    pods: int = Field(default=0, ge=0)

    def quantities(self) -> dict[str, str]:
        numbers = {"cpu": self.cpu_milli, "memory": self.memory_bytes, "pods": self.pods}
        return {r: quantities.render(r, n) for r, n in numbers.items()}

    def less(self, other: _Amounts, nodes: int) -> dict[str, str]:
        """What is free on each node, if all are used alike."""
        return _Amounts(
            cpu_milli=max(self.cpu_milli - other.cpu_milli, 0) // nodes,
            memory_bytes=max(self.memory_bytes - other.memory_bytes, 0) // nodes,
            pods=max(self.pods - other.pods, 0) // nodes,
        ).quantities()


class _Row(BaseModel):
    """A cluster in one line, as inventories export it: an object without a kind."""

    model_config = ConfigDict(extra="ignore")

    name: str = Field(min_length=1, max_length=63)
    labels: dict[str, str] = {}
    taints: list[dict[str, Any]] = []
    ready: bool = True
    provider: str = ""
    nodes: int = Field(ge=0)
    allocatable: _Amounts
    allocated: _Amounts = _Amounts()

    def manifest(self) -> dict[str, Any]:
        """The MemberCluster that the propagator would publish."""
        free = self.allocatable.less(self.allocated, max(self.nodes, 1))
        return {
            "metadata": {"name": self.name, "labels": self.labels},
            "spec": {"taints": self.taints},
            "status": {
                "conditions": [{"type": "Ready", "status": "True" if self.ready else "False"}],
                "provider": self.provider,
                "nodeGroups": [{"count": self.nodes, "free": free}],
                "capacity": {
                    "nodes": self.nodes,
                    "allocatable": self.allocatable.quantities(),
                    "requested": self.allocated.quantities(),
                },
            },
        }
