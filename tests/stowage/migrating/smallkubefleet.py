"""As much of KubeFleet (v0.1.2) as a migration stands on, over any API servers.

`sync` is one pass: the hub makes a Work of each placement and cluster, and the agent of each
cluster applies it, or only compares. `where` are the clusters of a placement by its name.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from machinery.api.resources import Resource
from machinery.api.verbs import Verbs
from machinery.errors import NotFound
from stowage.importing.reading import dig
from stowage.migrating.peers.kubefleet import PARENT, PLACEMENTS, PLACING, WORKS

Body = dict[str, Any]
APPLIED = Resource(PLACING, "v1beta1", "appliedworks", "AppliedWork", namespaced=False)


class SmallKubeFleet:
    """`hub` is its own API server, `members` those of its clusters by their names."""

    def __init__(self, hub: Verbs, members: Mapping[str, Verbs]) -> None:
        self.hub, self.members = hub, members
        self.where: dict[str, list[str]] = {}
        self.selected: list[Body] = []
        """The objects that every placement selects."""
        self._applied: dict[tuple[str, str], list[Body]] = {}
        """What was ever applied for a Work."""

    async def sync(self) -> None:
        names = set()
        for each in (await self.hub.list(PLACEMENTS))["items"]:
            name = each["metadata"]["name"]
            names.add(name)
            for cluster in self.where.get(name, ()):
                await self._work(name, cluster, dig(each, "spec", "strategy", "applyStrategy"))
        for work in (await self.hub.list(WORKS))["items"]:
            meta = work["metadata"]
            name, cluster = meta["labels"][PARENT], meta["namespace"].removeprefix("fleet-member-")
            if name not in names or cluster not in self.where.get(name, ()):
                await self.hub.delete(WORKS, meta["name"], namespace=meta["namespace"])
        await self._agents()

    async def _work(self, name: str, cluster: str, strategy: Any) -> None:
        space = f"fleet-member-{cluster}"
        spec = {
            "workload": {"manifests": copy.deepcopy(self.selected)},
            "applyStrategy": strategy or {"type": "ClientSideApply", "whenToTakeOver": "Always"},
        }
        try:
            there = await self.hub.get(WORKS, f"{name}-work", namespace=space)
        except NotFound:
            body = {
                "apiVersion": WORKS.api_version,
                "kind": WORKS.kind,
                "metadata": {
                    "name": f"{name}-work",
                    "namespace": space,
                    "labels": {PARENT: name},
                },
                "spec": spec,
            }
            await self.hub.create(WORKS, body, namespace=space)
            return
        if there["spec"] != spec:
            await self.hub.merge_patch(WORKS, f"{name}-work", {"spec": spec}, namespace=space)

    async def _agents(self) -> None:
        found = set()
        for work in (await self.hub.list(WORKS))["items"]:
            found.add((work["metadata"]["namespace"], work["metadata"]["name"]))
            await self._apply(work)
        for cluster, name in [*self._applied]:
            member = self.members[cluster.removeprefix("fleet-member-")]
            if (cluster, name) not in found:
                with suppress(NotFound):
                    await member.delete(APPLIED, name)
            await self._collect(member, self._applied[cluster, name])

    async def _apply(self, work: Body) -> None:
        meta, strategy = work["metadata"], work["spec"]["applyStrategy"]
        member = self.members[meta["namespace"].removeprefix("fleet-member-")]
        reports = strategy.get("type") == "ReportDiff"
        owner = await self._record(member, meta["name"])
        for manifest in work["spec"]["workload"]["manifests"]:
            resource = await member.resource(manifest["apiVersion"], manifest["kind"])
            where, name = manifest["metadata"].get("namespace"), manifest["metadata"]["name"]
            try:
                live = await member.get(resource, name, namespace=where)
            except NotFound:
                if reports:
                    continue
                live = await member.create(resource, copy.deepcopy(manifest), namespace=where)
            takes = strategy.get("whenToTakeOver") != "Never"
            owned = owner in (live["metadata"].get("ownerReferences") or ())
            patch: Body = {} if reports else copy.deepcopy(manifest)
            if takes and not owned:
                patch["metadata"] = {**patch.get("metadata", {}), "ownerReferences": [owner]}
            if patch and (takes or owned):
                await member.merge_patch(resource, name, patch, namespace=where)
        self._applied[meta["namespace"], meta["name"]] = work["spec"]["workload"]["manifests"]
        kind = "DiffReported" if reports else "Applied"
        said = {
            "conditions": [
                {"type": kind, "status": "True", "observedGeneration": meta["generation"]}
            ]
        }
        if work.get("status") != said:
            await self.hub.merge_patch(
                WORKS,
                meta["name"],
                {"status": said},
                namespace=meta["namespace"],
                subresource="status",
            )

    async def _record(self, member: Verbs, name: str) -> Body:
        """Return the owner of what a Work brings: the AppliedWork, made where there is none."""
        body = {"apiVersion": APPLIED.api_version, "kind": APPLIED.kind, "metadata": {"name": name}}
        try:
            found = await member.get(APPLIED, name)
        except NotFound:
            found = await member.create(APPLIED, copy.deepcopy(body))
        head = {"apiVersion": APPLIED.api_version, "kind": APPLIED.kind}
        return {**head, "name": name, "uid": found["metadata"]["uid"]}

    async def _collect(self, member: Verbs, manifests: list[Body]) -> None:
        """As the garbage collector of the member: what has an owner that is gone goes."""
        alive = {each["metadata"]["uid"] for each in (await member.list(APPLIED))["items"]}
        for manifest in manifests:
            resource = await member.resource(manifest["apiVersion"], manifest["kind"])
            where, name = manifest["metadata"].get("namespace"), manifest["metadata"]["name"]
            with suppress(NotFound):
                live = await member.get(resource, name, namespace=where)
                owners = live["metadata"].get("ownerReferences") or ()
                if owners and not alive & {each["uid"] for each in owners}:
                    await member.delete(resource, name, namespace=where)
