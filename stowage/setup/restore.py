"""`stowage restore`: makes the objects of a backup on a hub, and sets nothing on members back.

What is there already stays as it is. First the ConfigMap `stowage-restored` notes the former hub:
from then on nothing is swept. Then each object is made with a mark that keeps both processes off
it, its status is written, and when all are there the marks say that they are whole. So a restore
that ends halfway has changed nothing that runs, and the same command goes on from there.

`accept` ends what a restore began: for one Workload, or for all.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crds.membercluster import MemberClusterCondition, SweepHeldReason
from crds.names import (
    ANNOTATION_COUNTED,
    ANNOTATION_RESTORED,
    ANNOTATION_SWEEP,
    ANNOTATION_UNJOIN,
    GIVEN_UP,
    GROUP,
    LABEL_MIGRATION,
    PLACEHOLDER_SCHEDULER,
    RESTORED,
)
from crds.restored import RestoredMark
from crds.workload import PropagatedReason, WorkloadCondition
from machinery.api.client import ApiClient
from machinery.api.resources import (
    CLUSTER_DECISIONS,
    CONFIG_MAPS,
    CONTROLLER_REVISIONS,
    MEMBER_CLUSTERS,
    NAMESPACES,
    ROLE_BINDINGS,
    SECRETS,
    SERVICES,
    WORKLOAD_KINDS,
    WORKLOADS,
    Resource,
)
from machinery.errors import (
    AlreadyExists,
    ApiError,
    ConfigurationError,
    Conflict,
    NotFound,
    StowageError,
)
from machinery.kinds.profile import with_article
from machinery.kinds.stripped import unbind
from machinery.release import parsed
from machinery.types import conditions
from stowage.console import output
from stowage.hub import SERVER_METADATA, edit
from stowage.setup import backup_file, tenants, upgrade
from stowage.setup.backup import NAMED, RULES
from stowage.setup.backup_file import Manifest, Origin

Say = Callable[[str], object]
Json = Mapping[str, Any]

RESOURCES: Mapping[str, Resource] = {
    each.kind: each
    for each in (
        WORKLOAD_KINDS,
        NAMESPACES,
        ROLE_BINDINGS,
        tenants.CLUSTER_ROLE_BINDINGS,
        MEMBER_CLUSTERS,
        WORKLOADS,
        CONTROLLER_REVISIONS,
        *RULES,
        *NAMED.values(),
    )
}
"""The kinds of a backup."""
AT_ONCE = 16
"""Objects of one kind that are made side by side."""
TRIES = 5
"""Writes of a status that others write as well."""
_UID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_OF_SERVER = (*SERVER_METADATA, "ownerReferences")
_OF_THE_MOMENT = (ANNOTATION_COUNTED, ANNOTATION_SWEEP, ANNOTATION_RESTORED)
"""Annotations that hold for the hub of the backup, or for its former objects."""
_TOKEN = "kubernetes.io/service-account-token"  # noqa: S105 - a type
_STATE, _UNDER_WAY, _DONE = "state", "restoring", "restored"


@dataclass(frozen=True, slots=True)
class Content:
    """What a file holds, by one look at all of it."""

    path: Path
    origin: Origin
    digest: str
    counts: Mapping[str, int]

    def items(self) -> Iterator[Manifest]:
        """Yield the objects, without the last one."""
        last: Manifest | None = None
        for item in backup_file.read(self.path):
            if last is not None:
                yield last
            last = item


def content(path: Path) -> Content:
    """Read a file to its end. Raises ConfigurationError for one that is no whole backup."""
    counts, last = Counter[str](), dict[str, Any]()
    for last in backup_file.read(path):
        counts[last["kind"]] += 1
    counts["ConfigMap"] -= 1
    for kind in counts:
        if kind not in RESOURCES:
            what = with_article(kind)
            raise ConfigurationError(f"{path}: it holds {what}, which is no part of a backup")
    origin = backup_file.origin(last.get("data"), str(path))
    told = json.dumps(origin.data(), sort_keys=True).encode()
    return Content(path, origin, hashlib.sha256(told).hexdigest()[:12], +counts)


async def check(hub: ApiClient, found: Content, *, ours: str, home: str) -> None:
    """Raise StowageError for a backup of a newer release than this, or than the hub's."""
    theirs = found.origin.release
    running = await upgrade.releases(hub, home)
    for release, what in (
        (ours, "this is"),
        *((each, "the hub runs") for each in running.values()),
    ):
        if parsed(theirs) > parsed(release):
            raise StowageError(
                f"{found.path}: the backup was written by {theirs}, and {what} "
                f"{release or 'no release'}: `stowage upgrade` first"
            )
    try:
        served = {each.kind for each in await hub.discover(WORKLOADS.api_version)}
    except NotFound:
        served = set()
    lacking = sorted({k for k in found.counts if RESOURCES[k].group == GROUP} - served)
    if lacking:
        raise StowageError(f"the hub has no {', '.join(lacking)}: `stowage install` first")


async def show(hub: ApiClient, found: Content, *, say: Say) -> None:
    """Say what a restore would make. Raises TransportError."""
    new, there = Counter[str](), Counter[str]()
    for kind, group in itertools.groupby(found.items(), key=lambda each: each["kind"]):
        for some in _batches(group):
            known = await asyncio.gather(*(_stored(hub, RESOURCES[kind], each) for each in some))
            there[kind] += sum(each is not None for each in known)
            new[kind] += sum(each is None for each in known)
    rows = [{"kind": k, "new": new[k], "there": there[k]} for k in found.counts]
    say(_title(found.origin))
    say(output.table(rows, ("kind", "new", "there")))
    say("Nothing was changed. What is there stays as it is.")


def _title(origin: Origin) -> str:
    return (
        f"backup of {origin.taken}, of the hub {origin.hub}, release {origin.release or 'unknown'}"
    )


@dataclass(slots=True)
class _Made:
    """An object that is not whole yet."""

    res: Resource
    namespace: str | None
    name: str
    generation: int


@dataclass(slots=True)
class Restore:
    """One restore under way. `home` is where Stowage lives."""

    hub: ApiClient
    content: Content
    home: str
    say: Say
    name: str = ""
    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    _uids: dict[str, str] = field(default_factory=dict)
    """The new UIDs by those of the backup."""
    _made: list[_Made] = field(default_factory=list)
    _inside: list[tuple[_Made, list[Any]]] = field(default_factory=list)
    """Workloads with their `status.reservations`."""

    async def run(self) -> None:
        """Raises StowageError if something could not be restored; run it again then."""
        await self._note()
        for kind, group in itertools.groupby(self.content.items(), key=lambda each: each["kind"]):
            for some in _batches(group):
                await asyncio.gather(*(self._restore(RESOURCES[kind], each) for each in some))
        if self.faults:
            raise StowageError(
                "\n".join(self.faults)
                + f"\n{len(self.faults)} objects could not be restored, and neither process acts "
                "on the others yet: mend what is named, and run the same command again"
            )
        for some in _batches(self._inside):
            await asyncio.gather(*(self._name_reservations(*each) for each in some))
        for made in _batches(self._made):
            await asyncio.gather(*map(self._complete, made))
        await self._change({_STATE: _DONE})

    async def _note(self) -> None:
        """Note the restore before anything else, or go on with one of the same file."""
        noted = await note(self.hub, self.home)
        if noted.get("restore"):
            if noted.get("backup") != self.content.digest:
                raise StowageError(
                    f"the hub was restored from another backup, of {noted.get('taken')}, and that "
                    "is not over: see `stowage restore --status`, then `stowage restore --accept "
                    "--all`"
                )
            self.name = noted["restore"]
            if noted.get(_STATE) == _DONE:  # what is gone since then is made again
                await self._change({_STATE: _UNDER_WAY})
            return
        self.name = uuid.uuid4().hex[:8]
        told = {"restore": self.name, "backup": self.content.digest, _STATE: _UNDER_WAY}
        await self._change({**self.content.origin.data(), **told})

    async def _change(self, data: Mapping[str, str]) -> None:
        meta = {"name": RESTORED, "namespace": self.home}
        kind = {"apiVersion": "v1", "kind": CONFIG_MAPS.kind}
        try:
            await self.hub.create(CONFIG_MAPS, {**kind, "metadata": meta, "data": dict(data)})
        except AlreadyExists:
            await self.hub.merge_patch(
                CONFIG_MAPS, RESTORED, {"data": dict(data)}, namespace=self.home
            )

    async def _restore(self, res: Resource, item: Manifest) -> None:
        meta = item["metadata"]
        where = f"{res.kind} {'/'.join(filter(None, (meta.get('namespace'), meta['name'])))}"
        if why := _left_to_others(res, item, secrets=self.content.origin.secrets):
            self.say(f"{where}: {why}")
            self.counts["left out"] += 1
            return
        if LABEL_MIGRATION in (meta.get("labels") or {}):  # it has its Workload's UID in its name
            item = {**item, "metadata": {**meta, "name": self._with_new_uids(meta["name"])}}
        try:
            await self._one(res, item)
        except ApiError as e:
            self.faults.append(f"{where}: {e}")

    async def _one(self, res: Resource, item: Manifest) -> None:
        ours, made = res.group == GROUP, True
        mark = RestoredMark.restoring(self.name)
        try:
            stored = await self.hub.create(res, self._body(item, mark if ours else None))
        except AlreadyExists:
            known = await _stored(self.hub, res, item)
            if known is None:
                raise
            stored, made = known, False
        meta = stored["metadata"]
        if uid := item["metadata"].get("uid"):
            self._uids[uid] = meta["uid"]
        said = RestoredMark.of(meta.get("annotations") or {})
        made = made or said.restore == self.name
        self.counts["restored" if made else "there"] += 1
        if said != mark:  # it is no object of ours, is whole already, or was there before
            return
        if status := item.get("status"):
            await self._status(res, stored, self._as_here(status, item, meta["generation"]))
        one = _Made(res, meta.get("namespace"), meta["name"], meta["generation"])
        self._made.append(one)
        if inside := (item.get("status") or {}).get("reservations"):
            self._inside.append((one, inside))

    async def _name_reservations(self, made: _Made, inside: list[Any]) -> None:
        """Write the new UIDs of Reservations, which are made after the Workloads inside of them."""
        patch = {"status": {"reservations": self._with_new_uids(inside)}}
        where: dict[str, Any] = {"namespace": made.namespace, "subresource": "status"}
        await self.hub.merge_patch(made.res, made.name, patch, **where)

    def _body(self, item: Json, mark: RestoredMark | None) -> dict[str, Any]:
        """Return the object as it is made: what a server writes is left out."""
        meta = {k: v for k, v in item["metadata"].items() if k not in _OF_SERVER}
        notes = {
            k: v for k, v in (meta.get("annotations") or {}).items() if k not in _OF_THE_MOMENT
        }
        if mark is not None:
            notes[ANNOTATION_RESTORED] = str(mark)
        meta["annotations"] = notes
        body = {k: v for k, v in item.items() if k != "status"}
        if item["kind"] == CONTROLLER_REVISIONS.kind:
            owned = {**meta, "ownerReferences": item["metadata"].get("ownerReferences") or []}
            meta = self._with_new_uids(owned)
        elif item["kind"] in {each.kind for each in RULES}:
            body["spec"] = self._with_new_uids(body.get("spec"))
        elif item["kind"] == SERVICES.kind:
            body = json.loads(json.dumps(body))
            unbind(body)
        return {**body, "metadata": meta}

    def _with_new_uids(self, value: Any) -> Any:
        text = json.dumps(value)
        return json.loads(_UID.sub(lambda found: self._uids.get(found[0], found[0]), text))

    def _as_here(self, status: Json, item: Json, generation: int) -> dict[str, Any]:
        """Return a status with the UIDs and the generation of this hub's object."""
        before = item["metadata"].get("generation")
        fresh: dict[str, Any] = _renumbered(self._with_new_uids(status), before, generation)
        if isinstance(observed := fresh.get("observed"), dict):
            fresh["observed"] = {
                who: _here(seen, before, generation) for who, seen in observed.items()
            }
        return fresh

    async def _status(self, res: Resource, stored: Json, status: Json) -> None:
        """Write the whole status, whatever a process has written meanwhile."""
        meta = stored["metadata"]
        where: dict[str, Any] = {"namespace": meta.get("namespace")}
        for left in reversed(range(TRIES)):
            gone = dict.fromkeys((stored.get("status") or {}).keys() - status.keys())
            version = {"resourceVersion": stored["metadata"]["resourceVersion"]}
            patch = {"metadata": version, "status": {**gone, **status}}
            try:
                await self.hub.merge_patch(res, meta["name"], patch, subresource="status", **where)
            except Conflict:
                if not left:
                    raise
                stored = await self.hub.get(res, meta["name"], **where)
            else:
                return

    async def _complete(self, made: _Made) -> None:
        """Let both processes act on an object: its Workload as it was restored, others as ever."""
        mark = str(RestoredMark.whole(self.name, made.generation))
        notes = {ANNOTATION_RESTORED: mark if made.res == WORKLOADS else None}
        patch = {"metadata": {"annotations": notes}}
        await self.hub.merge_patch(made.res, made.name, patch, namespace=made.namespace)


def _left_to_others(res: Resource, item: Json, *, secrets: bool) -> str:
    """Return why an object is not restored; empty if it is."""
    if item["metadata"].get("deletionTimestamp"):
        return "it was being deleted, and is not restored"
    if res == CLUSTER_DECISIONS:
        return "the controller makes it again"
    if res == WORKLOADS and (item.get("spec") or {}).get("schedulerName") == PLACEHOLDER_SCHEDULER:
        return "the controller makes it again of its Reservation"
    if res == SECRETS and item.get("type") == _TOKEN:
        return "it is a token of the hub's own: make it again"
    if res == SECRETS and not secrets:
        return "the backup has no values of Secrets: apply it again, or `stowage join` its cluster"
    return ""


def _renumbered(value: Any, before: Any, now: int) -> Any:
    """Return a status in which generations are those of the restored object.

    The versions of a cluster's numbers are left out: they are the former hub's.
    """
    if isinstance(value, dict):
        return {
            key: _here(each, before, now)
            if key in ("observedGeneration", "generation")
            else _renumbered(each, before, now)
            for key, each in value.items()
            if key != "capacityVersion"
        }
    return [_renumbered(each, before, now) for each in value] if isinstance(value, list) else value


def _here(seen: Any, before: Any, now: int) -> Any:
    return now if seen == before else 0


def _batches(items: Iterable[Any]) -> Iterator[list[Any]]:
    left = iter(items)
    while some := list(itertools.islice(left, AT_ONCE)):
        yield some


async def _stored(hub: ApiClient, res: Resource, item: Json) -> dict[str, Any] | None:
    meta = item["metadata"]
    return await hub.find(res, meta["name"], namespace=meta.get("namespace"))


async def note(hub: ApiClient, home: str) -> dict[str, str]:
    """Return what the hub says of a restore; empty if it was not restored, or that is over."""
    found = await hub.find(CONFIG_MAPS, RESTORED, namespace=home) or {}
    return dict(found.get("data") or {})


# --- what is left of a restore --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Left:
    """What waits for a person after a restore."""

    noted: Mapping[str, str]
    workloads: Sequence[Json]
    """Those of which a member has something younger."""
    clusters: Sequence[Json]
    """Those that hold something of Workloads that the hub does not know."""
    away: Sequence[Json]
    """Those of which it is not known what they hold."""


async def left(hub: ApiClient, home: str) -> Left:
    """Raises TransportError."""
    found = (await hub.list(WORKLOADS))["items"]
    clusters = (await hub.list(MEMBER_CLUSTERS))["items"]
    return Left(
        noted=await note(hub, home),
        workloads=[each for each in found if _said(each)],
        clusters=[each for each in clusters if _held(each)],
        away=[each for each in clusters if _away(each)],
    )


def _said(workload: Json) -> str:
    """Return what Propagated says of a Workload of which a member has something younger."""
    said = conditions.find(workload.get("status") or {}, WorkloadCondition.PROPAGATED)
    younger = said.get("reason") == PropagatedReason.HUB_RESTORED
    return str(said.get("message", "")) if younger else ""


def _held(cluster: Json) -> str:
    said = conditions.find(cluster.get("status") or {}, MemberClusterCondition.SWEEP_HELD)
    reasons = (SweepHeldReason.HUB_RESTORED, SweepHeldReason.HUB_WENT_BACK)
    return str(said.get("message", "")) if said.get("reason") in reasons else ""


def _away(cluster: Json) -> bool:
    """Whether a cluster that was connected once may hold what nobody has counted."""
    status, notes = cluster.get("status") or {}, cluster["metadata"].get("annotations") or {}
    if notes.get(ANNOTATION_UNJOIN) == GIVEN_UP or not status.get("clusterID"):
        return False
    return not conditions.holds(status, MemberClusterCondition.READY)


async def show_left(hub: ApiClient, home: str, *, say: Say) -> None:
    """Say what of a restore waits for a person. Raises TransportError."""
    found = await left(hub, home)
    if found.noted.get("restore"):
        say(f"restored from the {_title(backup_file.origin(found.noted, RESTORED))}")
        if found.noted.get(_STATE) != _DONE:
            say("it is not complete: run the same `stowage restore FILE` again")
    else:
        say("no restore is noted")
    for title, listed, told in (
        ("workload", found.workloads, _said),
        ("cluster", found.clusters, _held),
    ):
        rows = [{title: _name(each), "message": told(each)} for each in listed]
        if rows:
            say("\n" + output.table(rows, (title, "message")))
    if found.noted.get("restore") and found.away:
        say(f"it is not known what these hold, as they are not Ready: {_names(found.away)}")
    if not (found.workloads or found.clusters):
        say("no member says that it has something younger than the hub")


def _name(found: Json) -> str:
    meta = found["metadata"]
    return "/".join(filter(None, (meta.get("namespace"), meta["name"])))


def _names(found: Iterable[Json]) -> str:
    return ", ".join(map(_name, found))


async def accept(hub: ApiClient, names: Sequence[str], namespace: str, *, say: Say) -> None:
    """Let the hub's version of these Workloads win. Raises ConfigurationError, TransportError."""
    for name in names:
        try:
            stored = await hub.get(WORKLOADS, name, namespace=namespace)
        except NotFound as e:
            raise ConfigurationError(f"the hub has no Workload {namespace}/{name}") from e
        mark = RestoredMark.of(stored["metadata"].get("annotations") or {})
        if mark.incomplete:
            raise ConfigurationError(
                f"{namespace}/{name} is not complete: run the same `stowage restore FILE` again "
                "first"
            )
        if not mark.restore:
            say(f"{namespace}/{name}: it was not restored: members get the hub's version already")
            continue
        await _accept(hub, stored)
        say(f"{namespace}/{name}: members get the hub's version")


async def accept_all(hub: ApiClient, home: str, *, say: Say) -> None:
    """Let the hub's version of all Workloads win, and end the restore unless members hold more."""
    noted = await note(hub, home)
    if noted.get("restore") and noted.get(_STATE) != _DONE:
        raise ConfigurationError(
            "the restore is not complete: run the same `stowage restore FILE` again first"
        )
    accepted = 0
    for each in (await hub.list(WORKLOADS))["items"]:
        mark = RestoredMark.of(each["metadata"].get("annotations") or {})
        if mark.restore and not mark.incomplete and mark != RestoredMark.accepted(mark.restore):
            await _accept(hub, each)
            accepted += 1
    say(f"{accepted} Workloads accepted: members get the hub's version")
    if not noted.get("restore"):
        return
    found = await left(hub, home)
    if found.clusters:
        say(
            f"the restore is not over: {_names(found.clusters)} hold what the hub does not know: "
            "`stowage sweep CLUSTER`, then the same command again"
        )
        return
    if found.away:
        say(
            "the restore is not over, as it is not known what these hold: "
            f"{_names(found.away)}. Run the same command again once they are Ready, or given up by "
            "`stowage unjoin`"
        )
        return
    gone = {"data": dict.fromkeys(noted)}
    await hub.merge_patch(CONFIG_MAPS, RESTORED, gone, namespace=home)
    say("the restore is over")


async def _accept(hub: ApiClient, stored: Json) -> None:
    def patch(found: Json) -> Json:
        mark = RestoredMark.of(found["metadata"].get("annotations") or {})
        if not mark.restore or mark.incomplete:
            return {}
        notes = {ANNOTATION_RESTORED: str(RestoredMark.accepted(mark.restore))}
        return {"metadata": {"annotations": notes, "uid": found["metadata"]["uid"]}}

    meta = stored["metadata"]
    try:
        await edit(hub, WORKLOADS, meta["name"], patch, namespace=meta["namespace"])
    except NotFound:
        return  # it was deleted meanwhile
