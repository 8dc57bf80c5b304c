"""As much of Open Cluster Management (v1.3) as a migration stands on, over any API servers."""

from __future__ import annotations

import copy

from machinery.api.resources import Resource
from machinery.api.verbs import Verbs
from machinery.errors import NotFound
from stowage.importing.reading import dig
from stowage.migrating.peers.ocm import MADE_BY, SETS, WORK, WORKS
from tests.stowage.migrating.smallworks import Body, SmallWorks

APPLIED = Resource(WORK, "v1", "appliedmanifestworks", "AppliedManifestWork", namespaced=False)


class SmallOcm(SmallWorks):
    works, record, made_by = WORKS, APPLIED, MADE_BY

    async def rules(self) -> list[tuple[str, str, Body]]:
        return [
            (
                meta["name"],
                f"{meta['namespace']}.{meta['name']}",
                each["spec"]["manifestWorkTemplate"],
            )
            for each in (await self.hub.list(SETS))["items"]
            for meta in [each["metadata"]]
        ]

    async def apply(self, work: Body, member: Verbs, owner: Body) -> tuple[str, Body]:
        """Write each manifest as its strategy says, with an owner unless it is an orphan."""
        status = []
        orphan = dig(work, "spec", "deleteOption", "propagationPolicy") == "Orphan"
        owners = [] if orphan else [owner]
        kinds = {
            (c["resourceIdentifier"]["resource"], c["resourceIdentifier"]["name"]): c[
                "updateStrategy"
            ]["type"]
            for c in work["spec"].get("manifestConfigs") or ()
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
            patch: Body = {} if kind == "CreateOnly" else copy.deepcopy(manifest)
            patch["metadata"] = {**patch.get("metadata", {}), "ownerReferences": owners}
            if (live["metadata"].get("ownerReferences") or []) != owners or kind != "CreateOnly":
                await member.merge_patch(resource, name, patch, namespace=where)
        return "Applied", {"resourceStatus": {"manifests": status}}
