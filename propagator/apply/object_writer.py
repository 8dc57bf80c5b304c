"""Applies one object on one member by server-side apply, and never over an object of another owner.

Where no object of ours is known, the first request is the apply itself, on condition that no such
object exists yet: the server ensures that. Only when the server says that one exists is it read,
and claimed or left alone (`ownership`). One that may be taken over only as it is goes through a dry
run first, and is then applied on condition that it is still the one that was compared. An object
that stands as it was written costs no request, and a contested one waits (`apply_records`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, cast

from crds.fields.drift import Drift
from crds.names import ANNOTATION_DRIFT, LABEL_MANAGED, OWNER_PREFIX
from crds.workload import Adoption, PropagatedReason
from machinery.api.resources import Resource
from machinery.api.verbs import Verbs
from machinery.clock import Clock
from machinery.errors import (
    ApiError,
    Conflict,
    Forbidden,
    NotFound,
    ServerError,
    TransportError,
    fresh,
)
from machinery.kinds.paths import steps
from machinery.runtime.backoff import steady
from machinery.runtime.informer import Informer
from propagator.access.carried_objects import not_taken, takes
from propagator.access.namespaces import Namespaces
from propagator.apply.apply_records import ApplyRecords, Backoff, ObjectPlace
from propagator.apply.differences import differences
from propagator.apply.ownership import (
    claim,
    new,
    other_owners,
    owned_by_all,
)
from propagator.apply.refusals import differs, rejected
from propagator.apply.render import ANNOTATION_HASH, Piece, as_made, beside
from propagator.apply.unconfirmed_writes import UnconfirmedWrites
from propagator.decision_spans import sending
from propagator.drift.fields import (
    MISSING,
    FieldDrift,
    Steps,
    digest_of,
    drifted,
    dropped,
    note_of,
    noted_in,
    value_at,
    without,
)
from propagator.drift.records import Drifted, DriftRecords
from propagator.errors import HubFault, Refused, says_no
from propagator.hub.workloads import HubWorkloads
from propagator.members.context import HubIdentity
from propagator.members.inventory import listed
from propagator.members.kinds import resource_of
from propagator.members.noted_kinds import writable_kinds
from propagator.members.objects import ManagedObject, hub_of, managed, owners
from propagator.members.session import MemberSession
from propagator.shares import ShareTable
from propagator.types.workload import Workload

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
"""Seconds until a refused object is tried again: quota or admission there may have changed."""
MOST_LEFT = 100
"""Fields of one object that are left as somebody changed them; any more are written back."""


@dataclass(frozen=True, slots=True)
class Site:
    """A piece with its place on a member; the informer shows which object of ours is there."""

    session: MemberSession
    piece: Piece
    place: ObjectPlace
    informer: Informer[ManagedObject]

    @property
    def resource(self) -> Resource:
        return self.place.resource

    @property
    def client(self) -> Verbs:
        """Return the client for the place. Raises Unreachable without a usable kubeconfig."""
        return self.session.client_for(self.place.namespace)

    @property
    def seen(self) -> ManagedObject | None:
        """Our object in that place, as far as the informer shows it."""
        return self.informer.get(self.place.key)

    def beside(self, live: ManagedObject) -> Site:
        """Return the site with the piece as it may be laid over the object that is there."""
        return replace(self, piece=beside(self.piece, live))


class PieceWriter:
    """Writes pieces on members, one worker at a time in each place."""

    def __init__(
        self,
        shares: ShareTable,
        records: ApplyRecords,
        *,
        unconfirmed: UnconfirmedWrites,
        workloads: HubWorkloads,
        identity: HubIdentity,
        namespaces: Namespaces,
        drift: DriftRecords,
        clock: Clock,
    ) -> None:
        self._records = records
        self._unconfirmed = unconfirmed
        self._workloads = workloads
        self._identity = identity
        self._namespaces = namespaces
        self._drift = drift
        self._clock = clock
        self._refusals = shares.backoff(
            tuple[str, ...], clock=clock, base=FIRST_PAUSE, cap=LONGEST_PAUSE, jitter=steady
        )

    async def write(
        self, session: MemberSession, workload: Workload, piece: Piece
    ) -> Backoff | None:
        """Apply a piece unless it stands; return the backoff that it has to keep, if any.

        Raises Refused, and TransportError when a retry may help. A refused piece is left alone for
        a while, and the same refusal is raised meanwhile, whatever wakes the Workload.
        """
        what = (piece.api_version, piece.kind, piece.namespace, piece.name)
        wanted = (workload.uid, session.name, *what)
        asked = (piece.digest, workload.spec.adoption)
        if self._refusals.remaining(wanted, asked):
            raise fresh(cast("Refused", self._refusals.reason(wanted)))
        try:
            backoff = await self._write(session, workload, piece)
        except Refused as refusal:
            if (
                refusal.reason is not PropagatedReason.PROPAGATING
            ):  # a deletion there ends by itself
                self._refusals.failed(wanted, asked, reason=fresh(refusal))
            raise
        self._refusals.reset(wanted)
        return backoff

    def rendered(self, member: str, workload: Workload, pieces: Collection[Piece]) -> None:
        """Drop what is told of objects on the member that the Workload has no more."""
        names = ((each.kind, where, each.name) for each in pieces for where in (each.namespace, ""))
        self._drift.rendered(workload, member, {Drifted(member, *name) for name in names})

    async def _write(
        self, session: MemberSession, workload: Workload, piece: Piece
    ) -> Backoff | None:
        site = await self._site(session, piece)
        if (piece.api_version, piece.kind) not in writable_kinds(workload):
            message = f"{piece.kind} was not shown by {session.name} before, and is not noted yet"
            raise Conflict(code=409, reason="Conflict", message=message)
        async with self._records.lock(site.place):
            live = site.seen
            if live is not None:
                _wait_for_end(site, live)
                site = site.beside(live)
                reports = workload.spec.drift == Drift.REPORT
                if site.piece.fixed and (reports or not self._stands(site, workload, live)):
                    found = await _get(site)
                    site = replace(site, piece=as_made(site.piece, live, found))
                if reports:
                    site = await self._leaving(site, workload, live)
            if live is None or not self._stands(site, workload, live):
                backoff = self._records.backoff(site.place, site.piece, live)
                if backoff is not None:
                    return self._contended(site, workload, backoff)
                fields = await self._changed(site, workload, live)
                await self._put(site, workload)
                self._drift.repaired(workload, _drifted(site), fields)
            contest = self._records.contest(site.place, site.piece)
            if contest is not None:
                return self._contended(site, workload, contest)
            if workload.spec.drift != Drift.REPORT:
                self._drift.over(workload, _drifted(site))
            return None

    def _stands(self, site: Site, workload: Workload, live: ManagedObject) -> bool:
        return self._records.stands(site.place, site.piece, live, workload.uid)

    def _contended(self, site: Site, workload: Workload, backoff: Backoff) -> Backoff:
        """Return the backoff, whose sentence names the fields where somebody changes them back."""
        if not backoff.sentence:
            return backoff
        paths = self._drift.contended(workload, _drifted(site))
        return replace(backoff, sentence=f"{backoff.sentence} ({paths})") if paths else backoff

    async def _changed(
        self, site: Site, workload: Workload, live: ManagedObject | None
    ) -> list[FieldDrift]:
        """Return the fields that somebody has changed since they were written, before a repair."""
        if live is None or workload.spec.drift == Drift.REPORT:
            return []
        if not _written_for(site, workload, live):
            return await self._zeroed(site, workload, live)
        return await self._look(site)

    async def _zeroed(
        self, site: Site, workload: Workload, live: ManagedObject
    ) -> list[FieldDrift]:
        """Return the number of replicas where somebody has made it 0, beside an edit of ours.

        A 0 that is written through the scale subresource is in no entry of managedFields (1.36.3),
        so that no conflict tells of it; but it is not in ours either.
        """
        at = steps(workload.profile.replicas_path)
        wanted = value_at(site.piece.body, at) if site.piece.main and live.replicas == 0 else 0
        if wanted in (0, MISSING):
            return []
        return [each for each in await self._look(site) if each.steps == at and each.found == 0]

    async def _look(self, site: Site) -> list[FieldDrift]:
        """Read the whole object, as it is now, and compare it with what is wanted."""
        namespace, name = site.place.key
        with suppress(NotFound):
            found = await site.client.get(site.resource, name, namespace=namespace)
            # What nobody has may be a field that this server never keeps, unless we saw it there.
            known = self._records.wrote(site.place, site.piece)
            fields = drifted(site.piece.body, found)
            return [each for each in fields if known or each.manager or each.found is not MISSING]
        return []

    async def _leaving(self, site: Site, workload: Workload, live: ManagedObject) -> Site:
        """Return the site with a piece that leaves out what somebody has changed on the member.

        A field is applied again once the Workload's own value of it is another one.
        """
        body, of = site.piece.body, _drifted(site)
        noted = noted_in(live.metadata.annotations.get(ANNOTATION_DRIFT, ""))
        kept = [path for path, digest in noted if digest == digest_of(value_at(body, path))]
        if not noted and not _written_for(site, workload, live):
            kept += [each.steps for each in await self._zeroed(site, workload, live)]
        left = replace(site, piece=leaving(site.piece, kept))
        written = _written_for(site, workload, live)
        taken = written and not self._stands(left, workload, live)
        meta = live.metadata
        stamp = (meta.uid, meta.generation or meta.resource_version, site.piece.digest)
        if taken or (written and kept and not self._drift.looked_at(workload, of, stamp)):
            fields = (await self._look(site))[:MOST_LEFT]
            left = replace(site, piece=leaving(site.piece, [each.steps for each in fields]))
            told = [each for each in fields if not each.scaled]
            if fields:
                self._drift.reported(workload, of, told, stamp=stamp)
            else:
                self._drift.over(workload, of)
        elif not kept:
            self._drift.over(workload, of)
        return left

    async def _site(self, session: MemberSession, piece: Piece) -> Site:
        resource = await resource_of(session, piece.api_version, piece.kind)
        if not takes(session, resource):  # the review did not know its scope: the kind is new there
            raise not_taken(session, resource)
        place = ObjectPlace.of(session.name, resource, piece)
        try:
            informer = await listed(session, resource, place.namespace, clock=self._clock)
        except ApiError as e:
            if not says_no(e):
                raise
            raise rejected(session.name, piece, e) from e
        return Site(session, piece, place, informer)

    async def _put(self, site: Site, workload: Workload) -> None:
        """Create the object, or bring an existing one to what is wanted, if that is allowed."""
        live = site.seen
        if live is None:
            live = await self._make(site, workload)
        if live is None:
            return
        site = site.beside(live)
        if self._records.stands(site.place, site.piece, live, workload.uid):
            return  # an earlier write, whose answer was lost, has made it
        hub = await self._identity.uid()
        gone = await self._gone(workload, live, hub)
        others = claim(workload, site.piece, live, hub=hub, gone=gone)
        _wait_for_end(site, live)
        version = workload.metadata.resource_version
        unchanged = not owners(live.metadata) and workload.spec.adoption == Adoption.IF_NO_DIFF
        if unchanged:
            site, live = await self._compared(site, workload, hub)
        body = owned_by_all(
            site.piece, others, site.resource, live, version=version, unchanged=unchanged
        )
        with self._unconfirmed.sending(site.place, workload.uid):
            answer = await self._send(site, workload, body, force=True)
        self._take_in(site, workload, answer)

    async def _compared(
        self, site: Site, workload: Workload, hub: str
    ) -> tuple[Site, ManagedObject]:
        """Return the object without an owner as it is now, where an apply would change nothing.

        Raises Refused where it would, and Conflict where the object has an owner by now.
        """
        raw = await _get(site)
        live = managed(site.resource, raw)
        if owners(live.metadata):
            raise Conflict(code=409, reason="Conflict", message=f"{site.place} was taken meanwhile")
        claim(workload, site.piece, live, hub=hub)
        _wait_for_end(site, live)
        site, version = site.beside(live), workload.metadata.resource_version
        body = owned_by_all(site.piece, {}, site.resource, live, version=version, unchanged=True)
        applied = await self._send(site, workload, body, force=True, dry_run=True)
        managed(site.resource, applied)  # an answer of another form is a fault of the member
        if found := differences(raw, applied):
            raise differs(site.piece, found)
        return site, live

    async def _make(self, site: Site, workload: Workload) -> ManagedObject | None:
        """Create the object unless one of that name exists, which is then returned untouched.

        Raises Conflict when that object went before it could be read.
        """
        with self._unconfirmed.sending(site.place, workload.uid):
            try:
                version = workload.metadata.resource_version
                body = new(site.piece, site.resource, version=version)
                answer = await self._send(site, workload, body, force=False)
            except Conflict:
                return await _read(site)
        self._take_in(site, workload, answer)
        return None

    def _take_in(self, site: Site, workload: Workload, answer: Mapping[str, Any]) -> None:
        """Record the write, and show its result in the informer before the watch does."""
        found = managed(site.resource, answer)
        self._records.remember(site.place, site.piece, found, workload.uid)
        site.informer.upsert(found)
        link = site.session.link
        server = f"its API server {link.probe.version}" if link is not None else ""
        self._drift.dropped(workload, _drifted(site), dropped(site.piece.body, answer, server))
        if not self._records.stands(site.place, site.piece, found, workload.uid):
            site.session.queue.add(workload.metadata.key)  # admission there changed it

    async def _gone(self, workload: Workload, live: ManagedObject | None, hub: str) -> set[str]:
        """Return the UIDs of other owners that this hub has no Workload of any more."""
        if live is None or not hub or hub_of(live) != hub:
            return set()
        others = other_owners(live, workload.uid)
        try:
            return {uid for uid, key in others.items() if await self._workloads.vanished(uid, key)}
        except TransportError as fault:
            raise HubFault("it could not be asked who owns an object", fault) from fault

    async def _send(
        self,
        site: Site,
        workload: Workload,
        body: Mapping[str, Any],
        *,
        force: bool,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Apply, creating a missing namespace first. Raises Refused and Conflict."""
        try:
            return await _apply(site, body, force=force, dry_run=dry_run)
        except NotFound as e:
            if not await self._namespaces.make(site.session, site.place.namespace):
                raise rejected(site.session.name, site.piece, e) from e
        except Refused as refusal:
            failed = force and not dry_run and isinstance(refusal.__cause__, ServerError)
            if not (failed and await self._mended(site, workload)):
                raise
        try:
            return await _apply(site, body, force=force, dry_run=dry_run)
        except NotFound as e:
            raise rejected(site.session.name, site.piece, e) from e

    async def _mended(self, site: Site, workload: Workload) -> bool:
        """Take from an object of ours the managers whose version is served no more, in one write.

        Since a version of a custom kind is not served, each apply to an object that somebody wrote
        in it fails with 500, whoever applies. A patch without managers would mend that too, and
        empty the list: all others would lose their fields.
        """
        namespace, name = site.place.key
        found = await _get(site)
        metadata = found["metadata"]
        managers = [each for each in metadata.get("managedFields") or [] if isinstance(each, dict)]
        gone = [
            version
            for version in sorted({str(each.get("apiVersion")) for each in managers})
            if not await _serves(site, version)
        ]
        if not gone:
            return False
        left = [each for each in managers if each.get("apiVersion") not in gone]
        told = {key: metadata[key] for key in ("uid", "resourceVersion")}
        patch = {"metadata": {**told, "managedFields": left}}
        try:
            with self._unconfirmed.sending(site.place, workload.uid):
                await site.client.merge_patch(site.resource, name, patch, namespace=namespace)
        except (Forbidden, ServerError):
            return False
        self._drift.mended(workload, _drifted(site), gone)
        return True


async def _serves(site: Site, api_version: str) -> bool:
    """Whether the object can be read in that version of its group; True for another group."""
    group, _, version = api_version.rpartition("/")
    if group != site.resource.group or version == site.resource.version:
        return True
    namespace, name = site.place.key
    with suppress(NotFound):
        await site.client.get(replace(site.resource, version=version), name, namespace=namespace)
        return True
    return False


def leaving(piece: Piece, left: Collection[Steps]) -> Piece:
    """Return the piece without these fields, and with a note of them."""
    if not left:
        return piece
    body = without(piece.body, left)
    meta = body["metadata"]
    annotations = {**meta["annotations"], ANNOTATION_DRIFT: note_of(piece.body, left)}
    return replace(piece, body={**body, "metadata": {**meta, "annotations": annotations}})


def _drifted(site: Site) -> Drifted:
    namespace, name = site.place.key
    return Drifted(site.session.name, site.piece.kind, namespace, name)


def _written_for(site: Site, workload: Workload, live: ManagedObject) -> bool:
    """Whether what is wanted now was written: what differs is then somebody else's change."""
    said = live.metadata.annotations
    owned = OWNER_PREFIX + workload.uid in said
    return owned and said.get(ANNOTATION_HASH) == site.piece.digest


def _wait_for_end(site: Site, live: ManagedObject) -> None:
    """Raise Refused for an object that is being deleted: an apply would not keep it."""
    if live.metadata.deleting:
        finalizers = ", ".join(live.metadata.finalizers[:5]) or "its member's own controllers"
        raise Refused(
            PropagatedReason.PROPAGATING,
            f"{site.session.name}: {site.place} is being deleted, and waits for {finalizers}: it "
            "is made again when it is gone",
        )


async def _apply(
    site: Site, body: Mapping[str, Any], *, force: bool, dry_run: bool
) -> dict[str, Any]:
    """Apply a body in the piece's place. Raises Refused, but NotFound and Conflict as they are."""
    namespace, name = site.place.key
    try:
        with sending(f"{site.piece.kind} {namespace}/{name}"):
            return await site.client.apply(
                site.resource, body, name=name, namespace=namespace, force=force, dry_run=dry_run
            )
    except ApiError as e:
        if isinstance(e, NotFound) or not says_no(e):
            raise
        raise rejected(site.session.name, site.piece, e) from e


async def _read(site: Site) -> ManagedObject:
    """Return what is in the piece's place, and show it in the informer if it is ours."""
    found = managed(site.resource, await _get(site))
    if LABEL_MANAGED in found.metadata.labels:
        site.informer.upsert(found)
    return found


async def _get(site: Site) -> dict[str, Any]:
    """Return what is in the piece's place. Raises Refused, and Conflict where it went."""
    namespace, name = site.place.key
    try:
        return await site.client.get(site.resource, name, namespace=namespace)
    except NotFound as e:
        raise Conflict(code=409, reason="Conflict", message=f"{site.place} went meanwhile") from e
    except Forbidden as e:
        raise rejected(site.session.name, site.piece, e) from e
