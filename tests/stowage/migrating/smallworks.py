"""What the small Open Cluster Management and the small KubeFleet have alike, over any API servers.

The hub makes a work of each rule and cluster. The agent of each cluster applies it, and keeps a
record of it there: what has that as owner, and no other owner that lives, is collected with it.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from machinery.api.resources import Resource
from machinery.api.verbs import Verbs
from machinery.errors import NotFound

Body = dict[str, Any]


class SmallWorks(ABC):
    """`hub` is its own API server, `members` those of its clusters by their names."""

    works: Resource
    record: Resource
    made_by: str
    """The label of a work that a rule makes."""
    space = ""
    """What the namespace of a cluster begins with."""

    def __init__(self, hub: Verbs, members: Mapping[str, Verbs]) -> None:
        self.hub, self.members = hub, members
        self.where: dict[str, list[str]] = {}
        """The clusters of a rule by its name."""
        self.asleep: set[str] = set()
        """The clusters whose agents do nothing."""
        self._applied: dict[tuple[str, str], list[Body]] = {}
        """What was ever applied for a work, by its cluster and name."""

    @abstractmethod
    async def rules(self) -> list[tuple[str, str, Body]]:
        """Return of each rule its name, the label of its works, and their spec."""

    @abstractmethod
    async def apply(self, work: Body, member: Verbs, owner: Body) -> tuple[str, Body]:
        """Do what an agent does with a work; return the condition, and what else its status has."""

    async def sync(self) -> None:
        """One pass of the hub, and one of each agent that is awake."""
        wanted = {
            (f"{self.space}{cluster}", name): (label, spec)
            for name, label, spec in await self.rules()
            for cluster in self.where.get(name, ())
        }
        for place, (label, spec) in wanted.items():
            await self._put(*place, label, spec)
        there = set()
        for work in (await self.hub.list(self.works))["items"]:
            meta = work["metadata"]
            place = (meta["namespace"], meta["name"])
            if self.made_by in (meta.get("labels") or {}) and place not in wanted:
                await self.hub.delete(self.works, meta["name"], namespace=meta["namespace"])
                continue
            cluster = meta["namespace"].removeprefix(self.space)
            there.add((cluster, meta["name"]))
            if cluster not in self.asleep:
                await self._agent(work, cluster)
        for (cluster, name), manifests in self._applied.items():
            if cluster in self.asleep:
                continue
            if (cluster, name) not in there:
                with suppress(NotFound):
                    await self.members[cluster].delete(self.record, name)
            await self._collect(self.members[cluster], manifests)

    async def _put(self, space: str, name: str, label: str, spec: Body) -> None:
        """The spec is the rule's, whatever somebody wrote there."""
        body = {
            "apiVersion": self.works.api_version,
            "kind": self.works.kind,
            "metadata": {"name": name, "namespace": space, "labels": {self.made_by: label}},
            "spec": copy.deepcopy(spec),
        }
        try:
            there = await self.hub.get(self.works, name, namespace=space)
        except NotFound:
            await self.hub.create(self.works, body, namespace=space)
            return
        if there["spec"] != spec:
            patch = {"spec": {**dict.fromkeys(there["spec"].keys() - spec.keys()), **spec}}
            await self.hub.merge_patch(self.works, name, patch, namespace=space)

    async def _agent(self, work: Body, cluster: str) -> None:
        meta, member = work["metadata"], self.members[cluster]
        owner = await self._owner(member, meta["name"])
        kind, more = await self.apply(work, member, owner)
        self._applied[cluster, meta["name"]] = work["spec"]["workload"]["manifests"]
        condition = {"type": kind, "status": "True", "observedGeneration": meta["generation"]}
        said = {"conditions": [condition], **more}
        if work.get("status") != said:
            await self.hub.merge_patch(
                self.works,
                meta["name"],
                {"status": said},
                namespace=meta["namespace"],
                subresource="status",
            )

    async def _owner(self, member: Verbs, name: str) -> Body:
        """Return the record of a work as an owner; it is made where there is none."""
        head = {"apiVersion": self.record.api_version, "kind": self.record.kind}
        try:
            found = await member.get(self.record, name)
        except NotFound:
            found = await member.create(self.record, {**head, "metadata": {"name": name}})
        return {**head, "name": name, "uid": found["metadata"]["uid"]}

    async def _collect(self, member: Verbs, manifests: list[Body]) -> None:
        """As the garbage collector of the member: what has an owner that is gone goes."""
        alive = {each["metadata"]["uid"] for each in (await member.list(self.record))["items"]}
        for manifest in manifests:
            resource = await member.resource(manifest["apiVersion"], manifest["kind"])
            where, name = manifest["metadata"].get("namespace"), manifest["metadata"]["name"]
            with suppress(NotFound):
                live = await member.get(resource, name, namespace=where)
                owners = live["metadata"].get("ownerReferences") or ()
                if owners and not alive & {each["uid"] for each in owners}:
                    await member.delete(resource, name, namespace=where)
