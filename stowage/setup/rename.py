"""Another name for a cluster: everything there goes on, and nothing on it is written for it.

The hub's objects are exchanged one by one, and the command may end before and after each step:

1. create a MemberCluster of the new name, with the spec of the old one and the old name in
   `spec.formerNames`, and note the identity of the cluster on it;
2. create a Secret of the new name with the same data. Two MemberClusters lead to one cluster now,
   and the propagator serves the older one (`propagator.members.cluster_identity`);
3. delete the old Secret, which would register the old name again;
4. mark the old MemberCluster as renamed, and delete it. From here on the new one is served, and the
   controller reads every share of the old name as one of the new name (`controller.cache.asread`),
   and writes it so;
5. have the label of the namespace of a member in mode Pull say the new name, which is served by
   then.

The same command continues an interrupted one; the reverse command undoes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from crds.membercluster import MemberCluster
from crds.names import (
    ANNOTATION_UNJOIN,
    GROUP,
    LABEL_CLUSTER,
    LABEL_MEMBER_NAMESPACE,
    LABEL_REGISTER,
    RENAMED,
)
from machinery.api.client import ApiClient
from machinery.api.resources import (
    MEMBER_CLUSTERS,
    NAMESPACES,
    SECRETS,
    Resource,
)
from machinery.clock import SystemClock
from machinery.errors import AlreadyExists, ConfigurationError, Conflict, NotFound, StowageError
from machinery.overrides.variables import names_cluster
from machinery.tasks import patiently
from machinery.types import conditions
from stowage.console.output import show, table
from stowage.console.words import some
from stowage.following import Stored, following
from stowage.hub import unknown_cluster
from stowage.kinds import KINDS
from stowage.naming import clusters_named
from stowage.setup import member_namespace
from stowage.setup.holders import Standing, standing
from stowage.setup.member_side import Say

Json = Mapping[str, Any]
RENAMED_SECONDS = 120.0
MOST_FORMER = 16
"""The schema's bound of `spec.formerNames`."""
_RACES = 5
_NOT_CARRIED = (
    f"{GROUP}/registered",  # a digest by the UID of the Secret
    ANNOTATION_UNJOIN,
    f"{GROUP}/counted",  # the new MemberCluster is searched once more
    "kubectl.kubernetes.io/last-applied-configuration",
)
_IDENTITY = ("clusterID", "clusterUID", "clusterSet")


@dataclass(frozen=True, kw_only=True)
class Rename:
    """The arguments of `rename`; with `force`, also where a spec names or fills in the old one."""

    old: str
    new: str
    namespace: str
    force: bool = False


@dataclass(frozen=True)
class Holder:
    """An object that has something on the cluster, or names it in its spec.

    `name` is `namespace/name`, `where` the field with the cluster's name, `fills` the override that
    gives it to pods by a variable; empty without one.
    """

    kind: str
    name: str
    has: Standing
    where: str = ""
    fills: str = ""

    @property
    def units(self) -> int:
        return self.has.replicas + self.has.ended


@dataclass
class RenameState:
    """The MemberClusters of the old and the new name before the next step; None if missing."""

    before: Json | None
    after: Json | None
    holders: list[Holder] = field(default_factory=list)


async def rename(hub: ApiClient, plan: Rename, *, say: Say) -> None:
    """Rename, and wait until no object has a share under the old name.

    Raises StowageError with what to do.
    """
    found = await look(hub, plan)
    if found.before is not None:
        _refuse(found, plan)
        await _exchange(hub, plan, found.before, found.after, say)
    # Not before: the agent of a member is served by one MemberCluster at a time.
    pulled = member_namespace.named(found.before) or member_namespace.named(found.after)
    for name in await member_namespace.members(hub, plan.old) if pulled else ():
        label = {"metadata": {"labels": {LABEL_MEMBER_NAMESPACE: plan.new}}}
        await hub.merge_patch(NAMESPACES, name, label)
        say(f"hub: Namespace {name} is that of {plan.new}")
    await _renamed(hub, plan, say)


async def dry_run(hub: ApiClient, plan: Rename, output: str) -> None:
    """Print the objects of a rename. Raises ConfigurationError where it would be refused."""
    found = await look(hub, plan)
    show(_data(plan, found), output, text=_told(plan, found))
    if found.before is not None:
        _refuse(found, plan)


async def look(hub: ApiClient, plan: Rename) -> RenameState:
    """Return the state of a rename. Raises ConfigurationError where it may not be done."""
    _check_name(plan)
    listed = (await hub.list(MEMBER_CLUSTERS))["items"]
    clusters = {each["metadata"]["name"]: each for each in listed}
    before, after = clusters.get(plan.old), clusters.get(plan.new)
    begun = after is not None and plan.old in _former(after)
    if before is None and not begun:
        raise unknown_cluster(plan.old, clusters)
    if after is not None and not begun:
        raise ConfigurationError(f"{plan.new} is the name of another cluster: choose another name")
    if before is not None:
        _check(plan, before, clusters)
        await _check_secrets(hub, plan, before, begun=begun)
    return RenameState(before, after, await _holders(hub, plan.old))


# --- what is refused ------------------------------------------------------------------------------


def _check_name(plan: Rename) -> None:
    if plan.old == plan.new:
        raise ConfigurationError(f"{plan.old} has that name already")
    try:
        MemberCluster.model_validate(
            {"metadata": {"name": plan.new}, "spec": {"formerNames": [plan.new]}}
        )
    except ValueError as e:
        raise ConfigurationError(f"{plan.new} can be no cluster's name: {e}") from e


def _check(plan: Rename, before: Json, clusters: Mapping[str, Json]) -> None:
    """Raise ConfigurationError where two registrations could not be told apart."""
    old, new = plan.old, plan.new
    if not before.get("status", {}).get("clusterID"):
        raise ConfigurationError(
            f"{old} does not say which cluster it is: run `stowage join {old}` again, which gives "
            "its account the right to get the namespace kube-system there; it must be Ready once"
        )
    for name, other in clusters.items():
        if old not in _former(other):
            continue
        under_way = _made(other) >= _made(before)
        if under_way and name != new:
            raise ConfigurationError(
                f"{old} is being renamed: run `stowage rename {old} {name}` to its end first"
            )
        if not under_way and name == new:
            raise ConfigurationError(
                f"{new} had the name {old} before this cluster {old} was made, and is another one: "
                "choose another name"
            )


async def _check_secrets(hub: ApiClient, plan: Rename, before: Json, *, begun: bool) -> None:
    own = _own_secret(plan, before)
    name = plan.new if own else plan.old
    with suppress(NotFound):
        found = await hub.get(SECRETS, name, namespace=plan.namespace)
        if own and not begun:
            raise ConfigurationError(
                f"there is a Secret {plan.namespace}/{name}: choose another name, or delete it"
            )
        if not own and LABEL_REGISTER in found["metadata"].get("labels", {}):
            raise ConfigurationError(
                f"the Secret {plan.namespace}/{name} registers that name, too, and spec.secretRef "
                "of the MemberCluster names another one: delete the one that is not used"
            )


def _refuse(found: RenameState, plan: Rename) -> None:
    """Raise ConfigurationError where only --force renames the cluster."""
    if plan.force:
        return
    if says := _some((h, h.where) for h in found.holders):
        raise ConfigurationError(
            f"specs name {plan.old}: {says}. Units that run stay, but these get no further ones "
            f"on {plan.new} until they name it, and the patch of a WorkloadSpread ends, which "
            "restarts its replicas. What spec.publish tells carries the new name, for which other "
            "tools may delete what they made for the old one. Say --force to rename all the same, "
            "and edit them then"
        )
    if fills := _some((h, h.fills) for h in found.holders):
        raise ConfigurationError(
            f"overrides give the name {plan.old} to pods: {fills}. With another name the pods that "
            f"run there are other ones, and their cluster restarts them. Say --force to rename all "
            "the same"
        )


def _some(holders: Iterable[tuple[Holder, str]]) -> str:
    says = [f"{each.kind} {each.name} ({where})" for each, where in holders if where]
    return some(says)


# --- the steps ------------------------------------------------------------------------------------


async def _exchange(
    hub: ApiClient, plan: Rename, before: Json, after: Json | None, say: Say
) -> None:
    """Take the steps of the module's docstring that are left."""
    if after is None:
        await hub.create(MEMBER_CLUSTERS, _successor(before, plan))
        say(f"hub: MemberCluster {plan.new} is there")
    note = {"status": {k: v for k, v in before["status"].items() if k in _IDENTITY}}
    await hub.merge_patch(MEMBER_CLUSTERS, plan.new, note, subresource="status")
    if _own_secret(plan, before):
        await _carry_secret(hub, plan, say)
    mark = {"metadata": {"annotations": {ANNOTATION_UNJOIN: RENAMED}}}
    with suppress(NotFound):
        newest = await hub.merge_patch(MEMBER_CLUSTERS, plan.old, mark)
        await _carry_edits(hub, plan, newest)
    await _end(hub, MEMBER_CLUSTERS, before, say)


async def _carry_edits(hub: ApiClient, plan: Rename, newest: Json) -> None:
    """Have the new MemberCluster say what the old one, which was served, says by now.

    It may have been drained, cordoned or revoked since it was copied.
    """
    after = await hub.get(MEMBER_CLUSTERS, plan.new)
    wanted, meta = _successor(newest, plan), after["metadata"]
    had = dict.fromkeys(meta.get("annotations", {}).keys() - {*_NOT_CARRIED})
    metadata = {
        "uid": meta["uid"],
        "labels": dict.fromkeys(meta.get("labels", {})) | wanted["metadata"]["labels"],
        "annotations": had | wanted["metadata"]["annotations"],
    }
    spec = dict.fromkeys(after["spec"]) | wanted["spec"]
    await hub.merge_patch(MEMBER_CLUSTERS, plan.new, {"metadata": metadata, "spec": spec})


async def _carry_secret(hub: ApiClient, plan: Rename, say: Say) -> None:
    for _ in range(_RACES):
        secret = await hub.find(SECRETS, plan.old, namespace=plan.namespace)
        if secret is None:
            return  # an interrupted command has carried it
        carried = {**secret, "metadata": _carried(secret, plan.new)}
        try:
            await hub.create(SECRETS, carried, namespace=plan.namespace)
            say(f"hub: Secret {plan.namespace}/{plan.new} is there")
        except AlreadyExists:
            newest = {"data": secret.get("data")}
            await hub.merge_patch(SECRETS, plan.new, newest, namespace=plan.namespace)
        # the propagator may renew the token at any moment: the old Secret goes only if its data is
        # the data carried; else once more
        with suppress(Conflict):
            await _end(hub, SECRETS, secret, say, version=secret["metadata"]["resourceVersion"])
            return
    raise StowageError(f"the Secret {plan.namespace}/{plan.old} is written all the time: try again")


async def _end(
    hub: ApiClient, resource: Resource, found: Json, say: Say, *, version: str | None = None
) -> None:
    """Delete that very object, and no other of the name."""
    meta = found["metadata"]
    name, where = meta["name"], meta.get("namespace")
    with suppress(NotFound):
        await hub.delete(resource, name, namespace=where, uid=meta["uid"], resource_version=version)
    say(f"hub: {resource.kind} {'/'.join(filter(None, (where, name)))} is gone")


def _successor(before: Json, plan: Rename) -> dict[str, Any]:
    former = [plan.old, *(name for name in _former(before) if name not in (plan.old, plan.new))]
    spec = {**before["spec"], "formerNames": former[:MOST_FORMER]}
    if _own_secret(plan, before):
        spec["secretRef"] = {"namespace": plan.namespace, "name": plan.new}
    meta = _carried(before, plan.new)
    meta["labels"][LABEL_CLUSTER] = plan.new
    return {
        "apiVersion": MEMBER_CLUSTERS.api_version,
        "kind": MEMBER_CLUSTERS.kind,
        "metadata": meta,
        "spec": spec,
    }


def _carried(found: Json, name: str) -> dict[str, Any]:
    meta = found["metadata"]
    # annotations about the old object alone are left out
    notes = {k: v for k, v in meta.get("annotations", {}).items() if k not in _NOT_CARRIED}
    carried = {"name": name, "labels": dict(meta.get("labels", {})), "annotations": notes}
    return carried | ({"namespace": meta["namespace"]} if "namespace" in meta else {})


def _own_secret(plan: Rename, cluster: Json) -> bool:
    reference = cluster["spec"].get("secretRef") or {}
    return (reference.get("namespace"), reference.get("name")) == (plan.namespace, plan.old)


def _former(cluster: Json) -> list[str]:
    return list(cluster["spec"].get("formerNames") or [])


def _made(cluster: Json) -> str:
    return str(cluster["metadata"]["creationTimestamp"])


async def _renamed(hub: ApiClient, plan: Rename, say: Say) -> None:
    """Return when the cluster is Ready by its new name, and no object has a share by the old."""
    kinds = [(kind.resource, Stored) for kind in KINDS if kind.selects]
    async with following(hub, (MEMBER_CLUSTERS, Stored), *kinds) as (clusters, *caches):

        async def missing() -> str:
            cluster = clusters.get(("", plan.new))
            status = {} if cluster is None else cluster.status
            if not conditions.holds(status, "Ready"):
                ready = conditions.find(status, "Ready")
                said = f"{ready['reason']}: {ready['message']}" if ready else ""
                return f"{plan.new} is not Ready: {said or 'no propagator has looked'}"
            left = [
                f"{cache.resource.kind} {'/'.join(each.metadata.key)}"
                for cache in caches
                for each in cache.values()
                if standing(msgspec.to_builtins(each), plan.old).shared
            ]
            says = f"shares say {plan.old}: {some(left)}: does their scheduler run?"
            return says if left else ""

        clock = SystemClock()
        last = await patiently(missing, seconds=RENAMED_SECONDS, every=0.5, clock=clock)
    if last:
        raise StowageError(
            f"not done after {RENAMED_SECONDS:.0f} s, and goes on by itself: {last} The same "
            "command waits again"
        )
    say(f"{plan.old} is {plan.new} now")


# --- who would be renamed -------------------------------------------------------------------------


async def _holders(hub: ApiClient, name: str) -> list[Holder]:
    """Return all objects that have something on the cluster, or name it in their spec."""
    found = []
    for resource in (kind.resource for kind in KINDS if kind.selects):
        for each in (await hub.list(resource))["items"]:
            has = standing(each, name)
            where = next(naming(each.get("spec", {}), name), "") or _published(each, has)
            fills = _filled(each) if has else ""
            if has or where:
                full = f"{each['metadata']['namespace']}/{each['metadata']['name']}"
                found.append(Holder(resource.kind, full, has, where, fills))
    return found


def _published(found: Json, has: Standing) -> str:
    """Return the field by which other tools are told of the cluster's name; empty without."""
    publish = found.get("spec", {}).get("publish") or {}
    tells = publish.get("clusterDecision") or publish.get("placementDecision")
    return "spec.publish" if tells and has.shared else ""


def _filled(body: Json) -> str:
    """Return the first override whose variable is the name of the cluster; empty for none."""
    overrides = enumerate(body.get("spec", {}).get("overrides") or ())
    return next((f"spec.overrides[{at}]" for at, o in overrides if names_cluster(o)), "")


def naming(spec: Any, name: str) -> Iterator[str]:
    """Yield the fields of a spec that hold the name of a cluster."""
    return (field for field, named in clusters_named(spec) if named == name)


def _told(plan: Rename, found: RenameState) -> str:
    if found.before is None:
        return f"{plan.old} is {plan.new} already"
    restarts = any(each.fills for each in found.holders)
    kept = "nothing is moved, and what its name is given to restarts" if restarts else ""
    head = f"{plan.old} would be {plan.new}; {kept or 'nothing is moved or restarted'}"
    rows = [
        {"kind": h.kind, "name": h.name, "units": h.units, "note": _note(h, plan)}
        for h in found.holders
    ]
    return f"{head}\n\n{table(rows, ('kind', 'name', 'units', 'note'))}" if rows else head


def _note(holder: Holder, plan: Rename) -> str:
    if not holder.where:
        restarts = f"{holder.fills} gives the name to its pods: they restart"
        return "; ".join(filter(None, (holder.has.words, restarts if holder.fills else "")))
    stays = "keeps its replicas, and " if holder.units else ""
    return f"{holder.where} names {plan.old}: {stays}gets none on {plan.new} until it names that"


def _data(plan: Rename, found: RenameState) -> dict[str, Any]:
    rows = [
        {
            "kind": h.kind,
            "name": h.name,
            "units": h.units,
            **({"beside": h.has.words} if h.has.words else {}),
            **({"names": h.where} if h.where else {}),
            **({"fills": h.fills} if h.fills else {}),
        }
        for h in found.holders
    ]
    return {"old": plan.old, "new": plan.new, "holders": rows}
