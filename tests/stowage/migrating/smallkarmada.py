"""As much of Karmada (v1.18.1) as a migration stands on, over any API servers.

`sync` is one pass of all its controllers. What it does is a fact of Karmada's code each, and
`test_smallkarmada` has a test of each. It schedules nothing: `where` says where an object runs.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from machinery.api.resources import CONFIG_MAPS, Resource
from machinery.api.verbs import Verbs
from machinery.errors import ApiError, NotFound
from stowage.importing.reading import dig
from stowage.migrating.peers.karmada import (
    BINDINGS,
    CLUSTERS,
    MANAGED,
    OVERWRITE,
    POLICIES,
    WORKS,
)

Body = dict[str, Any]
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
_OWN = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")


class SmallKarmada:
    """`hub` is its own API server, `members` those of its clusters by their names."""

    def __init__(self, hub: Verbs, members: Mapping[str, Verbs]) -> None:
        self.hub, self.members = hub, members
        self.where: dict[tuple[str, str], dict[str, int]] = {}
        """The replicas of an object by cluster, by its kind and name; 1 of what has none."""

    async def sync(self) -> None:
        await self._detect()
        await self._bind()
        await self._namespaces()
        for work in await _all(self.hub, WORKS):
            await self._execute(work)

    # --- policies claim templates, and bindings are made ------------------------------------------

    async def _detect(self) -> None:
        found = {}
        for policy in await _all(self.hub, POLICIES):
            space = policy["metadata"]["namespace"]
            for each in policy["spec"]["resourceSelectors"]:
                resource = await self.hub.resource(each["apiVersion"], each["kind"])
                for template in await _all(self.hub, resource, namespace=space):
                    name = template["metadata"]["name"]
                    if each.get("name") in (None, name):
                        found[each["kind"], space, name] = (resource, template, policy)
        for resource, template, policy in found.values():
            await self._claim(resource, template, policy)
        for binding in await _all(self.hub, BINDINGS):
            ref = binding["spec"]["resource"]
            if (ref["kind"], ref["namespace"], ref["name"]) not in found and not binding[
                "spec"
            ].get("requiredBy"):
                await self._unbind(binding)

    async def _unbind(self, binding: Body) -> None:
        """A binding outlives its policy, and goes with its template."""
        ref = binding["spec"]["resource"]
        resource = await self.hub.resource(ref["apiVersion"], ref["kind"])
        try:
            await self.hub.get(resource, ref["name"], namespace=ref["namespace"])
        except NotFound:
            await _gone(self.hub, BINDINGS, binding)

    async def _claim(self, resource: Resource, template: Body, policy: Body) -> None:
        meta = template["metadata"]
        claim = {
            "propagationpolicy.karmada.io/namespace": policy["metadata"]["namespace"],
            "propagationpolicy.karmada.io/name": policy["metadata"]["name"],
        }
        if not claim.items() <= (meta.get("annotations") or {}).items():
            patch = {"metadata": {"annotations": claim, "labels": {_PERMANENT: "1"}}}
            template = await self.hub.merge_patch(
                resource, meta["name"], patch, namespace=meta["namespace"]
            )
        clusters = self.where.get((resource.kind, meta["name"]), {})
        spec = {
            "resource": {
                "apiVersion": resource.api_version,
                "kind": resource.kind,
                "namespace": meta["namespace"],
                "name": meta["name"],
            },
            "clusters": [
                {"name": name} | ({"replicas": n} if "replicas" in template.get("spec", {}) else {})
                for name, n in clusters.items()
            ],
            "conflictResolution": policy["spec"].get("conflictResolution", "Abort"),
            "suspension": {"dispatching": bool(dig(policy, "spec", "suspension", "dispatching"))},
        }
        name = f"{meta['name']}-{resource.kind.lower()}"
        await _put(self.hub, BINDINGS, name, meta["namespace"], spec, annotations=claim)
        if policy["spec"].get("propagateDeps"):
            await self._attach(template, name, spec)

    async def _attach(self, template: Body, name: str, spec: Body) -> None:
        """A ConfigMap that pods name is bound for their clusters; its Work is not suspended."""
        space = template["metadata"]["namespace"]
        for volume in dig(template, "spec", "template", "spec", "volumes") or ():
            wanted = dig(volume, "configMap", "name")
            if await self.hub.find(CONFIG_MAPS, wanted, namespace=space) is None:
                continue  # it is bound once it is there
            ref = {"apiVersion": "v1", "kind": "ConfigMap", "namespace": space, "name": wanted}
            need = {"namespace": space, "name": name, "clusters": spec["clusters"]}
            attached = f"{wanted}-configmap"
            try:
                there = await self.hub.get(BINDINGS, attached, namespace=space)
                others = [e for e in there["spec"]["requiredBy"] if e["name"] != name]
            except NotFound:
                others = []
            made = {
                "resource": ref,
                "requiredBy": [*others, need],
                "conflictResolution": spec["conflictResolution"],
            }
            await _put(self.hub, BINDINGS, attached, space, made)

    # --- Works ------------------------------------------------------------------------------------

    async def _bind(self) -> None:
        wanted = set()
        for binding in await _all(self.hub, BINDINGS):
            spec, ref = binding["spec"], binding["spec"]["resource"]
            resource = await self.hub.resource(ref["apiVersion"], ref["kind"])
            template = await self.hub.get(resource, ref["name"], namespace=ref["namespace"])
            clusters = [*(spec.get("clusters") or ())]
            clusters += [c for each in spec.get("requiredBy") or () for c in each["clusters"]]
            for each in clusters:
                manifest = _manifest(template, ref, each)
                name = f"{ref['name']}-{ref['kind'].lower()}"
                overwrites = spec["conflictResolution"] == "Overwrite"
                said = dig(template, "metadata", "annotations", OVERWRITE)
                if said == "overwrite" or (overwrites and said != "abort"):
                    manifest["metadata"]["annotations"][OVERWRITE] = "overwrite"
                suspended = bool(dig(spec, "suspension", "dispatching"))
                await self._work(each["name"], name, manifest, suspended=suspended)
                wanted.add((f"karmada-es-{each['name']}", name))
        for work in await _all(self.hub, WORKS):
            meta = work["metadata"]
            of_namespace = meta["name"].endswith("-namespace")
            if not of_namespace and (meta["namespace"], meta["name"]) not in wanted:
                await self._end(work)

    async def _work(self, cluster: str, name: str, manifest: Body, *, suspended: bool) -> None:
        spec: Body = {"workload": {"manifests": [manifest]}}
        spec["suspendDispatching"] = suspended
        await _put(self.hub, WORKS, name, f"karmada-es-{cluster}", spec)

    async def _namespaces(self) -> None:
        """Each namespace goes to each cluster; its Work is not suspended."""
        names = {
            each["metadata"]["name"]
            for each in await _all(self.hub, NAMESPACES)
            if each["metadata"]["name"] != "default"
            and not each["metadata"]["name"].startswith(("kube-", "karmada-"))
        }
        for cluster in self.members:
            for name in names:
                manifest = _manifest(
                    {"metadata": {"name": name}}, {"apiVersion": "v1", "kind": "Namespace"}, {}
                )
                await self._work(cluster, f"{name}-namespace", manifest, suspended=False)
        for work in await _all(self.hub, WORKS):
            name = work["metadata"]["name"]
            if name.endswith("-namespace") and name.removesuffix("-namespace") not in names:
                await self._end(work)

    # --- execution --------------------------------------------------------------------------------

    async def _execute(self, work: Body) -> None:
        meta = work["metadata"]
        suspended = work["spec"]["suspendDispatching"]
        said = {"Dispatching": "False" if suspended else "True"}
        if not suspended:
            cluster = meta["namespace"].removeprefix("karmada-es-")
            manifest = work["spec"]["workload"]["manifests"][0]
            try:
                said["Applied"] = str(await self._apply(self.members[cluster], manifest))
            except ApiError:  # such as a namespace that another Work is to make
                said["Applied"] = "False"
        else:
            before = {c["type"]: c["status"] for c in dig(work, "status", "conditions") or ()}
            said = {**before, **said}
        listed = [{"type": key, "status": value} for key, value in sorted(said.items())]
        if dig(work, "status", "conditions") != listed:
            await self.hub.merge_patch(
                WORKS,
                meta["name"],
                {"status": {"conditions": listed}},
                namespace=meta["namespace"],
                subresource="status",
            )

    async def _apply(self, member: Verbs, manifest: Body) -> bool:
        """Of an object without the label nothing is written, but under Overwrite."""
        resource = await member.resource(manifest["apiVersion"], manifest["kind"])
        meta = manifest["metadata"]
        try:
            live = await member.get(resource, meta["name"], namespace=meta.get("namespace"))
        except NotFound:
            await member.create(resource, manifest, namespace=meta.get("namespace"))
            return True
        overwrites = meta["annotations"].get(OVERWRITE) == "overwrite"
        if (dig(live, "metadata", "labels") or {}).get(MANAGED) != "true" and not overwrites:
            return False
        if _merged(live, manifest) != live:
            await member.merge_patch(
                resource, meta["name"], manifest, namespace=meta.get("namespace")
            )
        return True

    async def _end(self, work: Body) -> None:
        """The deletion of a Work is carried out, suspended or not: of what has the label."""
        member = self.members[work["metadata"]["namespace"].removeprefix("karmada-es-")]
        manifest = work["spec"]["workload"]["manifests"][0]
        resource = await member.resource(manifest["apiVersion"], manifest["kind"])
        meta = manifest["metadata"]
        try:
            live = await member.get(resource, meta["name"], namespace=meta.get("namespace"))
            if (dig(live, "metadata", "labels") or {}).get(MANAGED) == "true":
                await member.delete(resource, meta["name"], namespace=meta.get("namespace"))
        except NotFound:
            pass
        await _gone(self.hub, WORKS, work)


_PERMANENT = "propagationpolicy.karmada.io/permanent-id"


def _manifest(template: Body, ref: Mapping[str, Any], cluster: Mapping[str, Any]) -> Body:
    """An object as Karmada writes it: with its label and its notes."""
    body = copy.deepcopy({k: v for k, v in template.items() if k != "status"})
    meta = {k: v for k, v in body["metadata"].items() if k not in _OWN}
    meta["labels"] = {**(meta.get("labels") or {}), MANAGED: "true"}
    meta["annotations"] = {
        **(meta.get("annotations") or {}),
        "work.karmada.io/name": "w",
        "resourcetemplate.karmada.io/uid": "u",
    }
    body |= {"apiVersion": ref["apiVersion"], "kind": ref["kind"], "metadata": meta}
    if "replicas" in cluster and "spec" in body:
        body["spec"] = {**body["spec"], "replicas": cluster["replicas"]}
    return body


async def _all(hub: Verbs, resource: Resource, **chosen: Any) -> list[Body]:
    listed: list[Body] = (await hub.list(resource, **chosen))["items"]
    return listed


async def _put(
    hub: Verbs, resource: Resource, name: str, namespace: str, spec: Body, **metadata: Any
) -> None:
    """Create an object, or give it that spec."""
    body: Body = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "spec": spec,
    }
    try:
        there = await hub.get(resource, name, namespace=namespace)
    except NotFound:
        await hub.create(resource, body, namespace=namespace)
        return
    if _merged(there["spec"], spec) != there["spec"]:
        await hub.merge_patch(resource, name, {"spec": spec}, namespace=namespace)


async def _gone(hub: Verbs, resource: Resource, body: Body) -> None:
    meta = body["metadata"]
    await hub.delete(resource, meta["name"], namespace=meta["namespace"])


def _merged(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    made = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        made[key] = _merged(made.get(key), value)
    return made


__all__ = ["CLUSTERS", "Body", "SmallKarmada"]
