"""`stowage clean --hub UID`: what one hub's Workloads left on a member, without that hub.

Each object that Stowage wrote has the UID of its hub's kube-system (`ANNOTATION_HUB`); an object
with another one, or with none, is not looked at. The rules are those of the propagator: what may
hold others' objects is released and stays, and so is what its author keeps. What holds data stays
with its marks, so that the same command with `--claims` finds it later.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from crds.fields.labels import KEEPS
from crds.names import (
    ANNOTATION_HUB,
    ANNOTATION_KEEP,
    GROUP,
    LABEL_MANAGED,
    ORPHAN_PREFIX,
    OWNER_PREFIX,
)
from machinery.api.client import ApiClient
from machinery.api.resources import Resource
from machinery.errors import ConfigurationError, Conflict, NotFound, StowageError, TransportError
from machinery.kinds.table import profile_of
from machinery.kinds.templates import claims_in
from propagator.removal.left_claims import CLAIMS
from propagator.removal.remover import KEPT
from stowage.console.terminal import say
from stowage.setup.clean import served_by

_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TRIES = 5
"""Reads of an object that others write as well."""
_BUILT_IN = ("", "apps", "batch", "autoscaling", "policy")


class Fate(StrEnum):
    """What becomes of an object."""

    REMOVED = "removed"
    RELEASED = "released"
    """It stays without our marks."""
    KEPT = "kept"
    """It stays as it is: it holds data."""


@dataclass(frozen=True, slots=True)
class Trace:
    """An object of that hub on the member."""

    resource: Resource
    meta: Mapping[str, Any]
    fate: Fate
    retains: bool = False
    """Whether its claims would go with it, which `RETAIN` keeps."""

    @property
    def namespace(self) -> str | None:
        return self.meta.get("namespace")

    @property
    def key(self) -> str:
        where = f"{self.namespace}/" if self.namespace else ""
        return f"{where}{self.meta['name']}"

    def __str__(self) -> str:
        return f"{self.resource.kind} {self.key}"


RETAIN = {"spec": {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain"}}}


async def clean(
    member: ApiClient,
    home: str,
    hub: str,
    *,
    claims: bool,
    now: Callable[[], datetime],
    confirmed: Callable[[], bool],
) -> None:
    """Show what that hub left, and remove it once `confirmed` says so.

    Raises ConfigurationError for what is no UID, and while that hub serves the member; StowageError
    where some of it could not be removed.
    """
    if not _UID.fullmatch(hub):
        raise ConfigurationError(
            f"--hub {hub}: no UID; it is that of the hub's kube-system, and the annotation "
            f"{ANNOTATION_HUB} of each object that the hub wrote"
        )
    await served_by(member, home, now(), hub)
    found = [each async for each in _traces(member, hub, claims=claims)]
    kept = [each.key for each in found if each.fate is Fate.KEPT]
    going = [each for each in found if each.fate is not Fate.KEPT]
    if not found:
        say(f"no object of hub {hub} is there")
        return
    if going:
        lines = (f"  {each} ({each.fate})" for each in going)
        say("\n".join((f"Of hub {hub}:", *lines)))
    if kept:
        say("\n".join(("These hold data and stay; --claims removes them:", *kept)))
    if not going or not confirmed():
        say("nothing is removed")
        return
    await served_by(member, home, now(), hub)  # whoever was asked may have taken an hour
    refused = [why for each in going if (why := await _take(member, each))]
    if refused:
        raise StowageError("\n".join(("some could not be removed:", *refused)))
    say("done")


async def _traces(member: ApiClient, hub: str, *, claims: bool) -> Any:
    """Yield each object of that hub; what others wait for comes first."""
    sets: dict[str, list[re.Pattern[str]]] = {}
    found: list[tuple[Resource, dict[str, Any]]] = []
    for resource in await _kinds(member):
        try:
            listed = await member.list(resource, label_selector=f"{LABEL_MANAGED}=true")
        except (NotFound, TransportError) as e:
            say(f"warning: {resource.plural} could not be listed: {e}", err=True)
            continue
        found += [(resource, each) for each in listed["items"] if _of(each) == hub]
    for resource, each in sorted(found, key=lambda pair: pair[0].group in _BUILT_IN):
        fate = _fate(resource, each["metadata"], claims=claims)
        if fate is Fate.REMOVED:  # else its pods go on with them
            for pattern in _claim_names(resource, each):
                sets.setdefault(each["metadata"].get("namespace", ""), []).append(pattern)
        yield Trace(resource, each["metadata"], fate, retains=not claims and _takes_claims(each))
    for where, patterns in sets.items():
        for each in (await member.list(CLAIMS, namespace=where))["items"]:
            meta = each["metadata"]
            if _of(each) != hub and any(p.fullmatch(meta["name"]) for p in patterns):
                yield Trace(CLAIMS, meta, Fate.REMOVED if claims else Fate.KEPT)


async def _kinds(member: ApiClient) -> Sequence[Resource]:
    """Return the kinds that the member has, each once, without subresources."""
    found: dict[tuple[str, str], Resource] = {}
    for version in await member.api_versions():
        try:
            for each in await member.discover(version):
                if "/" not in each.plural:
                    found.setdefault((each.group, each.plural), each)
        except TransportError as e:
            say(f"warning: {version} could not be asked for: {e}", err=True)
    skipped = ("events", "endpoints", "endpointslices", "leases")
    return [each for each in found.values() if each.plural not in skipped]


def _of(found: Mapping[str, Any]) -> str:
    """Return the UID of the hub that wrote the object; empty for none."""
    meta = found.get("metadata") or {}
    return str((meta.get("annotations") or {}).get(ANNOTATION_HUB, ""))


def _fate(resource: Resource, meta: Mapping[str, Any], *, claims: bool) -> Fate:
    notes = meta.get("annotations") or {}
    left = any(key.startswith(ORPHAN_PREFIX) for key in notes)
    never, _, always = KEEPS
    keep = notes.get(ANNOTATION_KEEP, "")
    if keep == always or left or resource.kind in KEPT or not resource.namespaced:
        return Fate.RELEASED
    data = resource == CLAIMS or profile_of(resource.api_version, resource.kind).holds_data
    data = data and not _only_claims(resource)
    return Fate.KEPT if data and not claims and keep != never else Fate.REMOVED


def _only_claims(resource: Resource) -> bool:
    """Whether its data lies in claims, which stay when it goes."""
    profile = profile_of(resource.api_version, resource.kind)
    return resource != CLAIMS and bool(profile.data.claims)


def _takes_claims(found: Mapping[str, Any]) -> bool:
    policy = (found.get("spec") or {}).get("persistentVolumeClaimRetentionPolicy") or {}
    return bool(policy.get("whenDeleted") == "Delete")


def _claim_names(resource: Resource, found: Mapping[str, Any]) -> Iterator[re.Pattern[str]]:
    """Yield patterns of the claims that an object has made for its pods."""
    name = re.escape(found["metadata"]["name"])
    for claim in claims_in(profile_of(resource.api_version, resource.kind), found):
        yield re.compile(rf"{re.escape(claim)}-{name}-[0-9]+")


async def _take(member: ApiClient, trace: Trace) -> str:
    """Remove or release an object, if it is the one that was shown; return why it stays."""
    for _ in range(TRIES):
        try:
            if not await _taken(member, trace):
                break
        except NotFound:
            return ""
        except Conflict:
            continue  # its controller writes its status
        except TransportError as e:
            return f"{trace}: {e}"
        say(f"{trace} {trace.fate}")
        return ""
    return f"{trace}: it changed meanwhile; the same command looks again"


async def _taken(member: ApiClient, trace: Trace) -> bool:
    """Take an object as it is now; return whether its marks are those that were shown.

    Raises Conflict for a later version, and other TransportErrors.
    """
    res, name, where = trace.resource, trace.meta["name"], trace.namespace
    meta = (await member.get(res, name, namespace=where))["metadata"]
    if _marks(meta) != _marks(trace.meta):
        return False  # such as another hub has taken it over
    if trace.fate is Fate.RELEASED:
        await member.merge_patch(res, name, _release(meta), namespace=where)
        return True
    if trace.retains:
        patch = {**RETAIN, "metadata": _version(meta)}
        meta = (await member.merge_patch(res, name, patch, namespace=where))["metadata"]
    uid, version = meta["uid"], meta["resourceVersion"]
    await member.delete(res, name, namespace=where, uid=uid, resource_version=version)
    return True


def _marks(meta: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a fate stands on, whatever else of the object changes."""
    ours = {k: v for k, v in (meta.get("annotations") or {}).items() if GROUP in k}
    return {"uid": meta["uid"], "label": (meta.get("labels") or {}).get(LABEL_MANAGED), **ours}


def _version(meta: Mapping[str, Any]) -> dict[str, Any]:
    return {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}


def _release(meta: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the patch that takes our marks off the version that was read."""
    ours = [
        key
        for key in meta.get("annotations") or {}
        if key.startswith((OWNER_PREFIX, ORPHAN_PREFIX))
        or (key.startswith(f"{GROUP}/") and key != ANNOTATION_KEEP)
    ]
    return {
        "metadata": {
            **_version(meta),
            "labels": {LABEL_MANAGED: None},
            "annotations": dict.fromkeys(ours),
        }
    }
