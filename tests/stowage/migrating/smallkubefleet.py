"""As much of KubeFleet (v0.1.2) as a migration stands on, over any API servers.

An agent applies a Work, or only compares.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping

from machinery.api.resources import Resource
from machinery.api.verbs import Verbs
from machinery.errors import NotFound
from stowage.importing.reading import dig
from stowage.migrating.peers.kubefleet import PARENT, PLACEMENTS, PLACING, WORKS
from tests.stowage.migrating.smallworks import Body, SmallWorks

APPLIED = Resource(PLACING, "v1beta1", "appliedworks", "AppliedWork", namespaced=False)
_USUAL = {"type": "ClientSideApply", "whenToTakeOver": "Always"}


class SmallKubeFleet(SmallWorks):
    works, record, made_by, space = WORKS, APPLIED, PARENT, "fleet-member-"

    def __init__(self, hub: Verbs, members: Mapping[str, Verbs]) -> None:
        super().__init__(hub, members)
        self.selected: list[Body] = []
        """The objects that every placement selects."""

    async def rules(self) -> list[tuple[str, str, Body]]:
        found = []
        for each in (await self.hub.list(PLACEMENTS))["items"]:
            name, strategy = each["metadata"]["name"], dig(each, "spec", "strategy")
            how = dig(strategy, "applyStrategy") or _USUAL
            found.append(
                (name, name, {"workload": {"manifests": self.selected}, "applyStrategy": how})
            )
        return found

    async def apply(self, work: Body, member: Verbs, owner: Body) -> tuple[str, Body]:
        strategy = work["spec"]["applyStrategy"]
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
            owned = owner in (live["metadata"].get("ownerReferences") or ())
            patch: Body = {} if reports else copy.deepcopy(manifest)
            if takes and not owned:
                patch["metadata"] = {**patch.get("metadata", {}), "ownerReferences": [owner]}
            if patch and (takes or owned):
                await member.merge_patch(resource, name, patch, namespace=where)
        return ("DiffReported" if reports else "Applied"), {}
