"""What is there, and what would be applied: from files or from a hub to what the scheduler reads.

Objects of a hub have been through admission already and are only read; those of files go through
`stowage.planning.admission` first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import msgspec

from controller.cache.cache import known
from controller.features.workloadpolicy.objects import WorkloadPolicy
from controller.model.objects import MemberCluster, Workload
from crds.admission.validation import rights_needed
from crds.names import GROUP
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOAD_POLICIES, WORKLOADS
from machinery.clock import microtime
from machinery.errors import ConfigurationError, NotFound
from machinery.types.metadata import Key
from stowage.hub.reader import Reader
from stowage.planning import admission, cluster_files
from stowage.planning.manifests import Document

Json = Mapping[str, Any]


@dataclass(slots=True)
class Inventory:
    """Clusters, Workloads and policies, and notes for whoever asked.

    `stored` are the Workloads as JSON, by key, so that an edit in a file can be laid over them.
    """

    clusters: list[MemberCluster] = field(default_factory=list)
    workloads: dict[Key, Workload] = field(default_factory=dict)
    policies: dict[Key, WorkloadPolicy] = field(default_factory=dict)
    stored: dict[Key, Json] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, workload: Workload, stored: Json) -> None:
        """Take a Workload that is there."""
        self.workloads[workload.metadata.key] = workload
        self.stored[workload.metadata.key] = stored


def of_hub(api: Reader) -> Inventory:
    """What the hub holds; only read. ConfigurationError where it does not know our kinds."""
    found = Inventory()
    kinds = (MEMBER_CLUSTERS, WORKLOADS, WORKLOAD_POLICIES)
    try:
        clusters, workloads, policies = [[*api.each(kind, dict[str, Any])] for kind in kinds]
    except NotFound as e:
        raise ConfigurationError(
            f"the hub does not know the kinds of {GROUP}: run stowage install first"
        ) from e
    found.clusters = [msgspec.convert(each, MemberCluster) for each in clusters]
    for each in workloads:
        found.add(known(msgspec.convert(each, Workload)), each)
    for each in policies:
        policy = msgspec.convert(each, WorkloadPolicy)
        found.policies[policy.metadata.key] = policy
    return found


def of_fleet(documents: Sequence[Document], *, namespace: str) -> Inventory:
    """What files say is there: MemberClusters, Workloads with their status, policies.

    Raises ConfigurationError for a wrong object, and when there is no cluster at all.
    """
    found, once, others = Inventory(), _Once(), []
    for document in documents:
        if document.of(GROUP, "Workload"):
            body = admission.admitted(document, namespace=namespace)
            given = document.body["metadata"]
            body["metadata"] |= {k: given[k] for k in given if k not in admission.USERS}
            body["status"] = document.body.get("status") or {}
            found.add(admission.workload(document, body), body)
        elif document.of(GROUP, "WorkloadPolicy"):
            _add_policy(found, document, namespace, status=document.body.get("status") or {})
        elif document.of(GROUP, "MemberCluster") or not document.kind:
            found.clusters.append(cluster_files.member(document))
        else:
            others.append(document)
            continue
        once.see(document, namespace)
    found.notes += ignored(others)
    if not found.clusters:
        raise ConfigurationError("no MemberCluster in the files of --fleet")
    return found


def to_apply(
    documents: Sequence[Document], present: Inventory, *, namespace: str, now: datetime
) -> dict[Key, Workload]:
    """The Workloads of the files, in their order, laid over those that are there.

    Policies of the files take the place of those that are there. New Workloads are the youngest of
    all, each younger than the one before it, as the queue asks for age. What a file says of the
    status does not count, as nobody could apply it. Raises ConfigurationError for a wrong object,
    and for one that stands there twice.
    """
    found: dict[Key, Workload] = {}
    once, others = _Once(), []
    for document in documents:
        if document.of(GROUP, "Workload"):
            workload = _laid_over(document, present, namespace, now)
            found[workload.metadata.key] = workload
            now += timedelta(microseconds=1)
        elif document.of(GROUP, "WorkloadPolicy"):
            before = present.policies.get(admission.key_of(document, namespace))
            status = msgspec.to_builtins(before.status) if before else {}
            _add_policy(present, document, namespace, status=status)
        else:
            others.append(document)
            continue
        once.see(document, namespace)
    present.notes += ignored(others)
    return found


def ignored(documents: Sequence[Document]) -> list[str]:
    """A line about objects that have no say here; no line without any."""
    if not documents:
        return []
    named = ", ".join(
        f"{each.kind or 'an object without a kind'} {each.name}" for each in documents
    )
    return [f"ignored, as it has no say in this: {named}"]


class _Once:
    """Refuses what stands in the files twice."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, Key], str] = {}

    def see(self, document: Document, namespace: str) -> None:
        key = admission.key_of(document, namespace)
        kind = document.kind or "MemberCluster"
        if kind == "MemberCluster":
            key = ("", str(document.name or document.body.get("name")))
        before = self._places.setdefault((kind, key), document.place)
        if before != document.place:
            name = "/".join(filter(None, key))
            raise document.error(f"metadata.name: {name} is in {before} already")


def _laid_over(document: Document, present: Inventory, namespace: str, now: datetime) -> Workload:
    key = admission.key_of(document, namespace)
    before, created = present.stored.get(key), microtime(now)
    body = admission.admitted(document, namespace=namespace, created=created, before=before)
    for right in rights_needed(body):
        said = f"the right to {right} ({right.field})"
        present.notes.append(f"{'/'.join(key)}: {said} is not looked at")
    return admission.workload(document, body)


def _add_policy(
    found: Inventory, document: Document, namespace: str, *, status: Mapping[str, Any]
) -> None:
    body = admission.admitted(document, namespace=namespace)
    body["status"] = status
    found.policies[admission.key_of(document, namespace)] = admission.policy(document, body)
