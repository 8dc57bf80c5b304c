"""As much of KubeFleet (v0.1.2) as a migration stands on, over any API servers.

`sync` is one pass: the hub makes a Work of each placement and cluster, and the agent of each
cluster applies it, or only compares. `where` are the clusters of a placement by its name.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from machinery.api.verbs import Verbs
from machinery.errors import NotFound
from stowage.importing.reading import dig
from stowage.migrating.peers.kubefleet import PARENT, PLACEMENTS, PLACING, WORKS

Body = dict[str, Any]
OWNER = {"apiVersion": f"{PLACING}/v1beta1", "kind": "AppliedWork", "uid": "o"}


class SmallKubeFleet:
    """`hub` is its own API server, `members` those of its clusters by their names."""

    def __init__(self, hub: Verbs, members: Mapping[str, Verbs]) -> None:
        self.hub, self.members = hub, members
        self.where: dict[str, list[str]] = {}
        self.selected: list[Body] = []
        """The objects that every placement selects."""
        self._applied: dict[tuple[str, str], list[Body]] = {}

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
        for place in [*self._applied]:
            if place not in found:
                await self._collect(place)

    async def _apply(self, work: Body) -> None:
        meta, strategy = work["metadata"], work["spec"]["applyStrategy"]
        member = self.members[meta["namespace"].removeprefix("fleet-member-")]
        reports = strategy.get("type") == "ReportDiff"
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
            owner = {**OWNER, "name": meta["name"]}
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

    async def _collect(self, place: tuple[str, str]) -> None:
        """What has the owner goes with the Work."""
        member = self.members[place[0].removeprefix("fleet-member-")]
        for manifest in self._applied.pop(place):
            resource = await member.resource(manifest["apiVersion"], manifest["kind"])
            where, name = manifest["metadata"].get("namespace"), manifest["metadata"]["name"]
            try:
                live = await member.get(resource, name, namespace=where)
                if live["metadata"].get("ownerReferences"):
                    await member.delete(resource, name, namespace=where)
            except NotFound:
                continue
