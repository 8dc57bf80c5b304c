"""As much of Open Cluster Management (v1.3) as a migration stands on, over any API servers.

`sync` is one pass: the hub makes the works of each set, and the agent of each cluster applies them.
`where` are the clusters of a set by its name, as its Placement would choose them.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from machinery.api.verbs import Verbs
from machinery.errors import NotFound
from stowage.importing.reading import dig
from stowage.migrating.peers.ocm import MADE_BY, SETS, WORK, WORKS

Body = dict[str, Any]
OWNER = {"apiVersion": f"{WORK}/v1", "kind": "AppliedManifestWork", "uid": "o"}


class SmallOcm:
    """`hub` is its own API server, `members` those of its clusters by their names."""

    def __init__(self, hub: Verbs, members: Mapping[str, Verbs]) -> None:
        self.hub, self.members = hub, members
        self.where: dict[str, list[str]] = {}
        self.asleep: set[str] = set()
        """The clusters whose agents do nothing."""
        self._applied: dict[tuple[str, str], list[Body]] = {}

    async def sync(self) -> None:
        sets = (await self.hub.list(SETS))["items"]
        works = (await self.hub.list(WORKS))["items"]
        for each in sets:
            for cluster in self.where.get(each["metadata"]["name"], ()):
                await self._work(each, cluster)
        names = {f"{e['metadata']['namespace']}.{e['metadata']['name']}" for e in sets}
        for work in works:
            meta = work["metadata"]
            if (maker := (meta.get("labels") or {}).get(MADE_BY)) and (
                maker not in names
                or meta["namespace"] not in self.where.get(maker.partition(".")[2], ())
            ):
                await self.hub.delete(WORKS, meta["name"], namespace=meta["namespace"])
        await self._agents()

    async def _work(self, of: Body, cluster: str) -> None:
        """The set's template is the work's spec, whatever somebody wrote there."""
        meta, spec = of["metadata"], of["spec"]["manifestWorkTemplate"]
        name = meta["name"]
        try:
            there = await self.hub.get(WORKS, name, namespace=cluster)
        except NotFound:
            body = {
                "apiVersion": WORKS.api_version,
                "kind": WORKS.kind,
                "metadata": {
                    "name": name,
                    "namespace": cluster,
                    "labels": {MADE_BY: f"{meta['namespace']}.{name}"},
                },
                "spec": copy.deepcopy(spec),
            }
            await self.hub.create(WORKS, body, namespace=cluster)
            return
        if there["spec"] != spec:
            gone = dict.fromkeys(there["spec"].keys() - spec.keys())
            patch = {"spec": {**gone, **spec}}
            if not dig(spec, "deleteOption"):
                patch["spec"]["deleteOption"] = None
            await self.hub.merge_patch(WORKS, name, patch, namespace=cluster)

    async def _agents(self) -> None:
        found = {}
        for work in (await self.hub.list(WORKS))["items"]:
            place = (work["metadata"]["namespace"], work["metadata"]["name"])
            found[place] = work
            if place[0] not in self.asleep:
                await self._apply(work)
        for place in [*self._applied]:
            if place not in found and place[0] not in self.asleep:
                await self._collect(place)

    async def _apply(self, work: Body) -> None:
        """Write each manifest as its strategy says, with an owner unless it is an orphan."""
        meta = work["metadata"]
        member, status = self.members[meta["namespace"]], []
        orphan = dig(work, "spec", "deleteOption", "propagationPolicy") == "Orphan"
        configs = work["spec"].get("manifestConfigs") or ()
        kinds = {
            (c["resourceIdentifier"]["resource"], c["resourceIdentifier"]["name"]): c[
                "updateStrategy"
            ]["type"]
            for c in configs
        }
        for manifest in work["spec"]["workload"]["manifests"]:
            resource = await member.resource(manifest["apiVersion"], manifest["kind"])
            where, name = manifest["metadata"].get("namespace"), manifest["metadata"]["name"]
            kind = kinds.get((resource.plural, name), "Update")
            status.append({"resourceMeta": {
                "group": resource.group, "version": resource.version, "kind": resource.kind,
                "resource": resource.plural, "namespace": where or "", "name": name,
            }})  # fmt: skip
            if kind == "ReadOnly":
                continue
            try:
                live = await member.get(resource, name, namespace=where)
            except NotFound:
                live = await member.create(resource, copy.deepcopy(manifest), namespace=where)
            owners = [] if orphan else [{**OWNER, "name": meta["name"]}]
            patch: Body = {} if kind == "CreateOnly" else copy.deepcopy(manifest)
            patch["metadata"] = {**patch.get("metadata", {}), "ownerReferences": owners}
            if (live["metadata"].get("ownerReferences") or []) != owners or kind != "CreateOnly":
                await member.merge_patch(resource, name, patch, namespace=where)
        self._applied[meta["namespace"], meta["name"]] = work["spec"]["workload"]["manifests"]
        applied = {"type": "Applied", "status": "True", "observedGeneration": meta["generation"]}
        said = {"conditions": [applied], "resourceStatus": {"manifests": status}}
        if work.get("status") != said:
            await self.hub.merge_patch(
                WORKS,
                meta["name"],
                {"status": said},
                namespace=meta["namespace"],
                subresource="status",
            )

    async def _collect(self, place: tuple[str, str]) -> None:
        """What has an owner goes with the work."""
        member = self.members[place[0]]
        for manifest in self._applied.pop(place):
            resource = await member.resource(manifest["apiVersion"], manifest["kind"])
            where, name = manifest["metadata"].get("namespace"), manifest["metadata"]["name"]
            try:
                live = await member.get(resource, name, namespace=where)
                if live["metadata"].get("ownerReferences"):
                    await member.delete(resource, name, namespace=where)
            except NotFound:
                continue
