"""`stowage upgrade`: a hub goes from the release that it runs to the one of this command.

What would change is asked of the hub itself, by dry runs of the very applies, so an upgrade writes
what its check names and nothing else. The steps go in an order in which each can be the last: the
kinds have the fields before a process writes them, and a process has its rights before it runs.
Each looks anew, so an upgrade that was interrupted is run again, and goes on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from crds.names import ANNOTATION_RELEASE, GROUP, VERSION
from machinery.api.client import ApiClient
from machinery.api.resources import (
    CONFIG_MAPS,
    CRDS,
    DEPLOYMENTS,
    LEASES,
    ROLE_BINDINGS,
    Resource,
)
from machinery.errors import ConfigurationError, NotFound, StowageError
from machinery.release import parsed
from stowage.console import output
from stowage.console.progress import Progress
from stowage.setup import helm_release, install, lacking_rights, shards, tenants
from stowage.setup.images import Image
from stowage.setup.told_changes import told

Manifest = dict[str, Any]
Say = Callable[[str], object]

NAMED = 3
"""The most rights of a member that are named."""
_LEASES = ("stowage-controller", "stowage-propagator")
_PAGE = "stowage-ui"
_OF_SERVER = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "uid")
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


class Step(StrEnum):
    """The steps, in their order."""

    KINDS = "kinds"
    POLICIES = "policies"
    RIGHTS = "rights"
    PROCESSES = "processes"
    STORAGE = "storage"
    MEMBERS = "members"
    """Named alone: the rights there come from `stowage join`, by an administrator of the member."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """One object that an upgrade changes, in words."""

    step: Step
    object: str
    change: str


def _step(manifest: Mapping[str, Any]) -> Step:
    kind = manifest["kind"]
    if kind == CRDS.kind:
        return Step.KINDS
    if install.is_policy(manifest, [install.VALIDATING, install.MUTATING]):
        return Step.POLICIES
    return Step.PROCESSES if kind == DEPLOYMENTS.kind else Step.RIGHTS


# --- releases -------------------------------------------------------------------------------------


async def releases(hub: ApiClient, home: str) -> dict[str, str]:
    """Return the release of each process that has led, by its name."""
    found = {}
    for name in _LEASES:
        lease = await hub.find(LEASES, name, namespace=home) or {"metadata": {}}
        if release := (lease["metadata"].get("annotations") or {}).get(ANNOTATION_RELEASE):
            found[name.removeprefix("stowage-")] = release
    return found


def refuse(ours: str, running: Iterable[str]) -> None:
    """Raise StowageError where one of these releases is newer, or older by more than one minor.

    A release that is not `X.Y.Z` is not judged.
    """
    mine = parsed(ours)
    for theirs in sorted({each for each in running if parsed(each)}, key=parsed):
        other = parsed(theirs)
        if not mine or other > mine:
            raise StowageError(
                f"the hub was written by {theirs}, and this is {ours or 'no release'}"
            )
        if mine[0] == other[0] and mine[1] - other[1] > 1:
            ahead = mine[1] - other[1]
            number = _NUMBERS[ahead] if ahead < len(_NUMBERS) else ahead
            raise StowageError(
                f"{ours} is {number} minor versions ahead of {theirs}, which runs: upgrade to "
                f"{other[0]}.{other[1] + 1}.0 first"
            )
        if mine[0] > other[0] and mine[:2] != (other[0] + 1, 0):
            raise StowageError(
                f"{ours} is ahead of {theirs}, which runs: upgrade to {other[0] + 1}.0.0 first"
            )


# --- what is wanted -------------------------------------------------------------------------------


async def wanted(
    hub: ApiClient, *, home: str, image: str | None, ours: str, running: Iterable[str]
) -> list[Manifest]:
    """Return what this hub has of Stowage, as this release has it, in the order of the steps.

    Options of the installation are read off the hub: the web page, the tenants, the shards, Argo
    CD's namespace. Raises ConfigurationError where there is nothing, or where the image cannot be
    told.
    """
    if await hub.find(CRDS, f"workloads.{GROUP}") is None:
        raise ConfigurationError("this hub has no Stowage: `stowage install`")
    deployment = await hub.find(DEPLOYMENTS, install.CONTROLLER, namespace=home)
    argocd = await _namespaces(hub, CONFIG_MAPS, install.DECISIONS)
    new = _image(image, deployment, ours, running) if deployment else ""
    objects = install.manifests(
        namespace=home,
        image=new,
        crds_only=deployment is None,
        argocd=next(iter(argocd), None),
        number=await shards.number(hub, home),
    )
    if deployment:
        if await hub.find(DEPLOYMENTS, _PAGE, namespace=home) is not None:
            objects += install.page_manifests(namespace=home, image=new)
        objects += await _bindings(hub, home)
    absent = await install.unserved_policies(hub)
    return sorted(
        (each for each in objects if not install.is_policy(each, absent)),
        key=lambda each: list(Step).index(_step(each)),
    )


def _image(asked: str | None, deployment: Manifest, ours: str, running: Iterable[str]) -> str:
    """Return the image of this release: that of the hub with another tag, unless one is named."""
    (container,) = deployment["spec"]["template"]["spec"]["containers"][:1]
    present: str = container["image"]
    parts = Image.of(present)
    # Its leaders note a release only once they run: an upgrade may have been interrupted before.
    if asked or set(running) == {ours} or (parts.tag == ours and not parts.digest):
        return asked or present
    if parts.digest or not parts.tag or parts.tag not in running:
        raise ConfigurationError(
            f"the hub runs {present}, and its tag does not tell the release: "
            "name the new image with --image"
        )
    return f"{parts.repository}:{ours}"


async def _bindings(hub: ApiClient, home: str) -> list[Manifest]:
    """Return the bindings that this hub needs, or has by its tenants."""
    completes = await install.fills_in_defaults(hub)
    wide = [
        each
        for each in install.wide(home)
        if (
            not completes
            if each["metadata"]["name"] == install.DEFAULTS
            else await hub.find(tenants.CLUSTER_ROLE_BINDINGS, each["metadata"]["name"]) is not None
        )
    ]
    some = await _namespaces(hub, ROLE_BINDINGS, tenants.SECRETS_ROLE)
    return [*wide, *(each for name in some for each in tenants.bindings(name, home=home))]


async def _namespaces(hub: ApiClient, resource: Resource, name: str) -> list[str]:
    """Return the namespaces that have an object of that name."""
    listed = await hub.list(resource, field_selector=f"metadata.name={name}")
    return sorted(each["metadata"]["namespace"] for each in listed["items"])


# --- what changes ---------------------------------------------------------------------------------


async def changes(
    hub: ApiClient, objects: Iterable[Manifest]
) -> AsyncIterator[tuple[Manifest, Change]]:
    """Yield each object that an apply would change, and how. Writes nothing."""
    for each in objects:
        if told := await _change(hub, each):
            what = each["metadata"]["name"]
            if each["kind"] != CRDS.kind:
                what = f"{each['kind']} {what}"
            yield each, Change(step=_step(each), object=what, change=told)


async def _change(hub: ApiClient, manifest: Manifest) -> str:
    """Return what an apply would change, in words; empty for nothing."""
    resource = await hub.resource(manifest["apiVersion"], manifest["kind"])
    meta = manifest["metadata"]
    live = await hub.find(resource, meta["name"], namespace=meta.get("namespace"))
    if live is None:
        return "new"
    then = await hub.apply(
        resource,
        manifest,
        name=meta["name"],
        namespace=meta.get("namespace"),
        field_manager=install.MANAGER,
        force=True,
        dry_run=True,
    )
    before, after = _own(live), _own(then)
    return "" if before == after else told(before, after)


def _own(found: Mapping[str, Any]) -> Manifest:
    """Return the object without what the server counts, and what processes write."""
    meta = {key: value for key, value in found["metadata"].items() if key not in _OF_SERVER}
    rest = {key: value for key, value in found.items() if key not in ("metadata", "status")}
    return {**rest, "metadata": meta}


# --- storage --------------------------------------------------------------------------------------


async def stored(hub: ApiClient) -> AsyncIterator[tuple[str, Change]]:
    """Yield each kind of ours that may have objects in an older version, and how many it has."""
    for definition in (await hub.list(CRDS))["items"]:
        older = [v for v in definition.get("status", {}).get("storedVersions", ()) if v != VERSION]
        if definition["spec"]["group"] == GROUP and older:
            kind = definition["spec"]["names"]["kind"]
            resource = await hub.resource(f"{GROUP}/{VERSION}", kind)
            number = len((await hub.list(resource, metadata_only=True))["items"])
            name = definition["metadata"]["name"]
            text = f"{number} objects stored as {', '.join(older)}"
            yield kind, Change(step=Step.STORAGE, object=name, change=text)


async def store(hub: ApiClient, kind: str, name: str) -> None:
    """Have each object of that kind written in our version, and only then forget the older ones.

    An empty patch changes nothing, but the server writes what it had stored in another version.
    """
    resource = await hub.resource(f"{GROUP}/{VERSION}", kind)
    for each in (await hub.list(resource, metadata_only=True))["items"]:
        meta = each["metadata"]
        with suppress(NotFound):
            await hub.merge_patch(resource, meta["name"], {}, namespace=meta.get("namespace"))
    await hub.merge_patch(
        CRDS, name, {"status": {"storedVersions": [VERSION]}}, subresource="status"
    )


# --- the command ----------------------------------------------------------------------------------


async def planned(hub: ApiClient, objects: Sequence[Manifest], home: str, say: Say) -> list[Change]:
    """Return all that an upgrade changes, and what is left to administrators of members."""
    rows = [change async for _, change in changes(hub, objects)]
    rows += [change async for _, change in stored(hub)]
    for name, lacks in (await lacking_rights.of_members(hub, home)).items():
        if isinstance(lacks, StowageError):
            say(f"{name}: what its account may do is not known: {lacks}")
        elif lacks.rights:
            text = f"{lacks.join}    # + {output.named(lacks.rights, NAMED)}"
            rows.append(Change(step=Step.MEMBERS, object=name, change=text))
    return rows


async def run(
    hub: ApiClient,
    objects: Sequence[Manifest],
    *,
    say: Say,
    progress: Progress,
    seconds: float,
    release: helm_release.Release | None = None,
) -> None:
    """Carry all steps out. Raises StowageError where a step fails; run again, it goes on."""
    for step in Step:
        of_step = [each for each in objects if _step(each) is step]
        changed = [each async for each, _ in changes(hub, of_step)]
        if changed:
            await install.apply(hub, changed, say=say)
        if release is not None:
            # Also what an interrupted run has applied: Helm would not take it, nor remove it.
            await helm_release.adopt(hub, of_step, release, lambda _: None)
        if step is Step.PROCESSES:
            await install.until_running(hub, of_step, progress=progress, seconds=seconds)
        if step is Step.STORAGE:
            async for kind, change in stored(hub):
                await store(hub, kind, change.object)
                say(f"{change.object}: {change.change}, all written anew")
