"""Applies one object on one member by server-side apply, never over an object of another owner.

The first apply has the precondition that no object exists. An existing one is read, then claimed or
refused (`ownership`). `IfNoDiff` compares by a dry run, and applies on that version only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, cast

from crds.fields.drift import Drift
from crds.names import ANNOTATION_DRIFT, LABEL_MANAGED, OWNER_PREFIX
from crds.workload import Adoption, EventReason, PropagatedReason
from machinery.api.resources import NAMESPACES, Resource
from machinery.api.verbs import Verbs
from machinery.errors import (
    ApiError,
    Conflict,
    Forbidden,
    NotFound,
    ServerError,
    TransportError,
    fresh,
)
from machinery.kinds.fieldpaths import Steps
from machinery.kinds.paths import steps
from machinery.runtime.backoff import steady
from machinery.runtime.informer import Informer
from propagator.access.carried_objects import not_taken, takes
from propagator.access.namespaces import Namespaces
from propagator.apply.apply_records import (
    ApplyRecords,
    Backoff,
    ObjectPlace,
    UnconfirmedWrites,
    marked,
)
from propagator.apply.ownership import (
    claim,
    new,
    other_owners,
    owned_by_all,
    taking_over,
)
from propagator.apply.refusals import (
    Unchangeable,
    differs,
    rejected,
    unmade,
    unowned,
    younger,
)
from propagator.apply.render import ANNOTATION_HASH, Piece, as_made, beside, with_added, with_others
from propagator.drift.fields import (
    MISSING,
    FieldDrift,
    differences,
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
from propagator.hub.events import tell_of
from propagator.hub.workloads import HubWorkloads
from propagator.members.context import ControllerContext
from propagator.members.inventory import has_ended, listed
from propagator.members.kinds import resource_of
from propagator.members.noted_kinds import writable_kinds
from propagator.members.objects import ManagedObject, hub_of, managed, owners
from propagator.members.session import MemberSession
from propagator.telemetry import sending
from propagator.types.workload import Workload

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
"""Seconds until a refused object is retried: quota or admission there may have changed."""
MOST_LEFT = 100
"""Drifted fields of one object that are kept; any more are written back."""


@dataclass(frozen=True, slots=True)
class Site:
    """A piece with its place on a member, and the informer of that place."""

    session: MemberSession
    piece: Piece
    place: ObjectPlace
    informer: Informer[ManagedObject]

    @property
    def resource(self) -> Resource:
        return self.place.resource

    @property
    def client(self) -> Verbs:
        """Raises Unreachable without a usable kubeconfig."""
        return self.session.client_for(self.place.namespace)

    @property
    def seen(self) -> ManagedObject | None:
        return self.informer.get(self.place.key)

    def beside(self, live: ManagedObject) -> Site:
        return replace(self, piece=beside(self.piece, live))


class PieceWriter:
    """One worker at a time writes in each place."""

    def __init__(
        self,
        context: ControllerContext,
        records: ApplyRecords,
        *,
        unconfirmed: UnconfirmedWrites,
        workloads: HubWorkloads,
        namespaces: Namespaces,
        drift: DriftRecords,
    ) -> None:
        self._recorder = context.recorder
        self._records = records
        self._unconfirmed = unconfirmed
        self._workloads = workloads
        self._identity = context.identity
        self._restored = context.restored
        self._namespaces = namespaces
        self._drift = drift
        self._clock = context.clock
        self._refusals = context.shares.backoff(
            tuple[str, ...], clock=context.clock, base=FIRST_PAUSE, cap=LONGEST_PAUSE, jitter=steady
        )

    async def write(
        self, session: MemberSession, workload: Workload, piece: Piece
    ) -> Backoff | None:
        """Apply a piece unless it is up to date; return the backoff that it must keep, if any.

        Raises Refused, again without a request during a back-off; TransportError if a retry may
        help.
        """
        wanted = (workload.uid, session.name, *piece.id)
        asked = (piece.digest, workload.spec.adoption, workload.restored)
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
        places = ((*each.id, where) for each in pieces for where in (each.namespace, ""))
        there = {Drifted(member, kind, at, name, group) for group, kind, _, name, at in places}
        self._drift.rendered(workload, member, there)

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
                site, found = await self._as_found(site, workload, live)
                if workload.spec.drift == Drift.REPORT:
                    site = await self._leaving(site, workload, live)
                if found and site.piece.ignored and _differs_in_theirs(site, workload, live, found):
                    self._records.accept(site.place, site.piece, live, workload.uid)
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

    async def _as_found(
        self, site: Site, workload: Workload, live: ManagedObject
    ) -> tuple[Site, Mapping[str, Any]]:
        """Return the piece with what the existing object keeps, and that object if it was read."""
        keeps = site.piece.fixed or site.piece.joined or site.piece.ignored
        reports = workload.spec.drift == Drift.REPORT
        if not keeps or not (reports or not self._stands(site, workload, live)):
            return site, {}
        found = await _get(site)
        piece = with_added(as_made(site.piece, live, found), found)
        return replace(site, piece=with_others(piece, live, found)), found

    def _stands(self, site: Site, workload: Workload, live: ManagedObject) -> bool:
        return self._records.stands(site.place, site.piece, live, workload.uid)

    def _contended(self, site: Site, workload: Workload, backoff: Backoff) -> Backoff:
        if not backoff.sentence:
            return backoff
        paths = self._drift.contended(workload, _drifted(site))
        return replace(backoff, sentence=f"{backoff.sentence} ({paths})") if paths else backoff

    async def _changed(
        self, site: Site, workload: Workload, live: ManagedObject | None
    ) -> list[FieldDrift]:
        if live is None or workload.spec.drift == Drift.REPORT:
            return []
        if not _written_for(site, workload, live):
            return await self._zeroed(site, workload, live)
        return await self._look(site)

    async def _zeroed(
        self, site: Site, workload: Workload, live: ManagedObject
    ) -> list[FieldDrift]:
        """Return the replicas field if another client set it to 0.

        A 0 written through the scale subresource is in no entry of managedFields (Kubernetes
        1.36.3): it causes no conflict, and our entry lacks it.
        """
        at = steps(workload.profile.replicas_path)
        wanted = value_at(site.piece.body, at) if site.piece.main and live.replicas == 0 else 0
        if wanted in (0, MISSING):
            return []
        return [each for each in await self._look(site) if each.steps == at and each.found == 0]

    async def _look(self, site: Site) -> list[FieldDrift]:
        namespace, name = site.place.key
        with suppress(NotFound):
            found = await site.client.get(site.resource, name, namespace=namespace)
            # A field without a manager may be one that this server never keeps, unless we saw it
            # there.
            known = self._records.wrote(site.place, site.piece)
            fields = drifted(site.piece.body, found)
            return [each for each in fields if known or each.manager or each.found is not MISSING]
        return []

    async def _leaving(self, site: Site, workload: Workload, live: ManagedObject) -> Site:
        """Leave out of the piece the fields that changed on the member.

        A field is applied again once the Workload changes its own value.
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
        live = site.seen
        if live is None and site.piece.main and has_ended(site.session, workload):
            return  # it has run, and was deleted since the worker looked
        if live is None:
            live = await self._make(site, workload)
        if live is None:
            return
        site = site.beside(live)
        if self._records.stands(site.place, site.piece, live, workload.uid):
            return  # an earlier write, whose answer was lost, has made it
        hub = await self._identity.uid()
        by = await self._writer_of(workload, live, hub)
        gone = await self._absent(workload, live, by, former=by != hub)
        others = claim(workload, site.piece, live, hub=by, gone=gone)
        _wait_for_end(site, live)
        restored = await self._restored.of(workload, site.session.went_back_to)
        spared = restored.younger(live, workload.uid)
        if spared:
            live = await self._spare(site, workload, others, gone)
        version = workload.metadata.resource_version
        adopts = not owners(live.metadata)
        try:
            if adopts and workload.spec.adoption == Adoption.IF_NO_DIFF:
                site, live = await self._compared(site, workload, hub)
            # What is adopted may get an owner at any moment: then the apply fails.
            body = owned_by_all(
                site.piece,
                others,
                site.resource,
                live,
                version=version,
                unchanged=adopts or spared,
            )
            with self._unconfirmed.sending(site.place, workload.uid):
                answer = await self._send(site, workload, body, force=True)
        except Unchangeable as refusal:
            if not adopts:
                raise
            raise unowned(site.session.name, site.piece) from refusal.__cause__
        self._take_in(site, workload, answer)
        if adopts and site.piece.main:
            self._announce(site, workload)

    def _announce(self, site: Site, workload: Workload) -> None:
        member, words = site.session.name, workload.profile.lets_go
        later = f"; let go and made anew it is not as before: {words}" if words else ""
        note = f"{member}: {site.place} is taken over as it runs{later}"
        tell_of(self._recorder, workload, EventReason.ADOPTED, note, clusters=[member])

    async def _writer_of(self, workload: Workload, live: ManagedObject, hub: str) -> str:
        """Return this hub, or the one that it was restored from if that wrote the object."""
        by = hub_of(live)
        if by in ("", hub) or workload.metadata.key not in owners(live.metadata).values():
            return hub
        try:
            return by if by == await self._restored.former() else hub
        except TransportError as fault:
            raise HubFault("it could not be asked who owns an object", fault) from fault

    async def _spare(
        self, site: Site, workload: Workload, others: Mapping[str, str], gone: Collection[str]
    ) -> ManagedObject:
        """Return the present object, which is younger than the hub, if an apply keeps it as it is.

        Raises Refused if the apply would change more than marks; the object is marked as the
        Workload's.
        """
        raw = await _get(site)
        live, version = managed(site.resource, raw), workload.metadata.resource_version
        body = owned_by_all(
            site.piece, others, site.resource, live, version=version, unchanged=True
        )
        applied = await self._send(site, workload, body, force=True, dry_run=True)
        found = differences(raw, applied)
        if not found:
            return live
        if workload.uid not in owners(live.metadata):
            patch, (namespace, name) = taking_over(live, workload, gone), site.place.key
            with self._unconfirmed.sending(site.place, workload.uid):
                answer = await site.client.merge_patch(
                    site.resource, name, patch, namespace=namespace
                )
            site.informer.upsert(managed(site.resource, answer))
        raise younger(site.session.name, workload, site.piece, found)

    async def _compared(
        self, site: Site, workload: Workload, hub: str
    ) -> tuple[Site, ManagedObject]:
        """Return the present ownerless object, if an apply would change nothing.

        Raises Refused if it would, and Conflict if it has an owner now.
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
        """Create the object, or return an existing one untouched.

        Raises Conflict if that disappears before it is read.
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
        """Update the informer ahead of the watch."""
        found = managed(site.resource, answer)
        self._records.remember(site.place, site.piece, found, workload.uid)
        site.informer.upsert(found)
        link = site.session.link
        server = f"its API server {link.probe.version}" if link is not None else ""
        self._drift.dropped(workload, _drifted(site), dropped(site.piece.body, answer, server))
        if not self._records.stands(site.place, site.piece, found, workload.uid):
            site.session.queue.add(workload.metadata.key)  # admission there changed it

    async def _absent(
        self, workload: Workload, live: ManagedObject | None, by: str, *, former: bool
    ) -> set[str]:
        """Return other owners (UIDs) that this hub has no Workload of any more.

        `by` is the hub whose object it is. Of a `former` hub only the owner of the Workload's name
        counts.
        """
        if live is None or not by or hub_of(live) != by:
            return set()
        others = other_owners(live, workload.uid)
        if former:
            others = {uid: key for uid, key in others.items() if key == workload.metadata.key}
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
        """Creates a missing namespace first."""
        try:
            return await _apply(site, body, force=force, dry_run=dry_run)
        except NotFound as e:
            if not await self._made_namespace(site, e):
                raise rejected(site.session.name, site.piece, e) from e
        except Refused as refusal:
            failed = force and not dry_run and isinstance(refusal.__cause__, ServerError)
            if not (failed and await self._mended(site, workload)):
                raise
        try:
            return await _apply(site, body, force=force, dry_run=dry_run)
        except NotFound as e:
            raise rejected(site.session.name, site.piece, e) from e

    async def _made_namespace(self, site: Site, missing: NotFound) -> bool:
        """Raises Refused, TransportError."""
        try:
            return await self._namespaces.make(site.session, site.place.namespace)
        except ApiError as e:
            if not says_no(e):
                raise
            if missing.details.get("kind") != NAMESPACES.plural:
                return False  # it may be there: what is missing is the kind
            raise unmade(site.session.name, site.place.namespace, e) from e

    async def _mended(self, site: Site, workload: Workload) -> bool:
        """Drop managers whose version is no longer served, in one write.

        They make the server answer each apply with 500. A patch without managers would empty the
        list, and all managers would lose their fields.
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
    """Whether the object can be read in that version; True for another group."""
    group, _, version = api_version.rpartition("/")
    if group != site.resource.group or version == site.resource.version:
        return True
    namespace, name = site.place.key
    with suppress(NotFound):
        await site.client.get(replace(site.resource, version=version), name, namespace=namespace)
        return True
    return False


def leaving(piece: Piece, left: Collection[Steps]) -> Piece:
    if not left:
        return piece
    body = without(piece.body, left)
    meta = body["metadata"]
    annotations = {**meta["annotations"], ANNOTATION_DRIFT: note_of(piece.body, left)}
    return replace(piece, body={**body, "metadata": {**meta, "annotations": annotations}})


def _drifted(site: Site) -> Drifted:
    place = site.place
    return Drifted(place.member, place.kind, place.namespace, place.name, place.group)


def _written_for(site: Site, workload: Workload, live: ManagedObject) -> bool:
    said = live.metadata.annotations
    owned = OWNER_PREFIX + workload.uid in said
    return owned and said.get(ANNOTATION_HASH) == site.piece.digest


def _differs_in_theirs(
    site: Site, workload: Workload, live: ManagedObject, found: Mapping[str, Any]
) -> bool:
    as_told = _written_for(site, workload, live) and marked(site.piece, live)
    return as_told and live.applied is not None and not drifted(site.piece.body, found)


def _wait_for_end(site: Site, live: ManagedObject) -> None:
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
    """Raises Refused, NotFound and Conflict."""
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
    found = managed(site.resource, await _get(site))
    if LABEL_MANAGED in found.metadata.labels:
        site.informer.upsert(found)
    return found


async def _get(site: Site) -> dict[str, Any]:
    namespace, name = site.place.key
    try:
        return await site.client.get(site.resource, name, namespace=namespace)
    except NotFound as e:
        raise Conflict(code=409, reason="Conflict", message=f"{site.place} went meanwhile") from e
    except Forbidden as e:
        raise rejected(site.session.name, site.piece, e) from e
