"""Copies what the pods of a Workload name, if its `spec.dependencies` is Follow.

An object that the hub lacks blocks nothing: the member may have its own, and an earlier copy stays.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crds.fields.dependencies import MOST_DEPENDENCIES, DependencyState
from crds.names import OWNER_PREFIX
from crds.workload import EventReason, PropagatedReason
from machinery.errors import Forbidden, TransportError
from machinery.kinds.readiness import counts_of
from machinery.types.metadata import Key
from machinery.types.pod_references import SERVICE_ACCOUNT, Reference, once, pull_secrets
from propagator.apply.apply_records import ObjectPlace
from propagator.apply.render import ANNOTATION_HASH, MemberFacts, Piece, copied
from propagator.dependencies.copies import (
    FOLLOWED,
    IDENTITIES_ALLOWED,
    body_of,
    refusal,
    refusal_by_labels,
    refusal_of_name,
)
from propagator.dependencies.named import named_by_pods, named_in
from propagator.errors import HubFault, Refused
from propagator.hub.events import tell_of
from propagator.hub.named_objects import NamedObjects, NoTenant
from propagator.hub.workloads import HubWorkloads
from propagator.members.context import ControllerContext
from propagator.members.inventory import id_on_member, main_object, owned
from propagator.members.objects import ManagedObject, owners
from propagator.members.pods import main_of
from propagator.members.pulled import PullSession
from propagator.members.session import MemberSession
from propagator.members.watches import Found
from propagator.types.hub_objects import HubObject, HubServiceAccount
from propagator.types.workload import ObjectId, Workload

_WORST = [*DependencyState]
_MISSING, _REFUSED = DependencyState.MISSING, DependencyState.REFUSED

Name = tuple[str, str]
"""(kind, name) of an object in the Workload's namespace, here and on the members."""


@dataclass(frozen=True, slots=True)
class _Entry:
    state: DependencyState
    message: str = ""
    optional: bool = False

    @property
    def needed_in_vain(self) -> bool:
        return self.state is _MISSING and not self.optional


_SYNCED = _Entry(DependencyState.SYNCED)


@dataclass(slots=True)
class _Share:
    key: Key = ("", "")
    """The Workload's."""
    names: frozenset[Name] = frozenset()
    """The objects of the hub that wake the share."""
    wanted: Mapping[Name, _Entry | str] = field(default_factory=dict)
    """By name, in template order: the digest of a copy, or why there is none."""
    entries: Mapping[Name, _Entry] = field(default_factory=dict)
    """Their state after the last apply."""
    synced: Mapping[Name, str] = field(default_factory=dict)
    """The digests of the copies that an agent has told to be there."""
    named: int = 0

    def of(self, state: DependencyState) -> set[Name]:
        return {name for name, entry in self.entries.items() if entry.state is state}


@dataclass(frozen=True, slots=True)
class Held:
    names: frozenset[Name] = frozenset()
    namespace: str = ""
    waiting: Mapping[ObjectPlace, str] = field(default_factory=dict)
    """Those that are removed later, and why not yet."""

    def lets_go(self, found: ManagedObject) -> bool:
        held = found.metadata.namespace == self.namespace and found.api_version == "v1"
        return not (held and (found.kind, found.metadata.name) in self.names)


class Follower:
    """`report` is called with the key of a Workload whose `reported` changed."""

    def __init__(
        self,
        context: ControllerContext,
        *,
        workloads: HubWorkloads,
        watches: Mapping[str, NamedObjects[Any]],
        report: Callable[[Key], None],
    ) -> None:
        self._recorder = context.recorder
        self._workloads = workloads
        self._watches = watches
        self._report = report
        self._shares = context.shares.column(_Share, ended=self._end)
        self._told = context.shares.column(set[Name])  # of the Workload: reported as missing

    def users(self, kind: str, key: Key) -> list[tuple[Key, str]]:
        """Return (Workload's key, member) of shares that name an object of the hub."""
        users = self._watches[kind].users(key)
        return [
            (share.key, user[1])
            for user in users
            if isinstance(user, tuple) and (share := self._shares.get(*user)) is not None
        ]

    async def follow(
        self,
        session: MemberSession,
        workload: Workload,
        rendered: Sequence[Piece],
        member: MemberFacts,
    ) -> list[Piece]:
        """Return the copies for a member, without objects that the Workload contains itself.

        Raises Refused, HubFault.
        """
        if not workload.follows:
            self._shares.pop(workload.uid, session.name)
            return []
        own = _own(workload, rendered)
        named = named_in(workload, rendered)
        named = await self._with_pull_secrets(session, workload, named)
        every = [each for each in once(named) if each[:2] not in own]
        some = every[:MOST_DEPENDENCIES]
        if not self._use(session, workload, {each[:2] for each in some}):
            return []  # the Workload was deleted
        wanted: dict[Name, _Entry | str] = {}
        pieces = []
        identities = IDENTITIES_ALLOWED in session.allowed_kinds
        for each in some:
            found, why = await self._read(workload, each)
            why = why or self._carrier(session, workload, each)
            if found is None or why:
                state = _REFUSED if why else _MISSING
                wanted[each[:2]] = _Entry(state, why, each.optional)
                continue
            body = body_of(found, identities=identities)
            pieces += copied(workload, [body], member)
            wanted[each[:2]] = pieces[-1].digest
        share = self._shares.get(workload.uid, session.name)
        if share is None:
            return []  # the Workload, or the member, was deleted
        share.wanted, share.named = wanted, len(every)
        return pieces

    def applied(self, session: MemberSession, workload: Workload) -> None:
        share = self._shares.get(workload.uid, session.name)
        if share is None:
            return
        there = {
            (found.kind, found.metadata.name): found.metadata.annotations
            for _, found in _copies(session, workload)
        }
        entries: dict[Name, _Entry] = {}
        for name, wanted in share.wanted.items():
            if isinstance(wanted, _Entry):
                entries[name] = wanted
                continue
            marks = there.get(name, {})
            ours = OWNER_PREFIX + workload.uid in marks
            stands = ours and marks.get(ANNOTATION_HASH) == wanted
            not_taken = f"{session.name} does not take it: see the condition Propagated"
            entries[name] = _SYNCED if stands else _Entry(_REFUSED, not_taken)
        self._put(workload, share, entries)

    def absent(self, session: MemberSession, workload: Workload) -> dict[Name, DependencyState]:
        """Return what the pods there name, and does not go along."""
        share = self._shares.get(workload.uid, session.name)
        wanted = share.wanted.items() if share is not None and workload.follows else ()
        return {name: each.state for name, each in wanted if isinstance(each, _Entry)}

    def ordered(
        self, session: MemberSession, workload: Workload, absent: Mapping[Name, DependencyState]
    ) -> None:
        """Take what does not go along from the order of the hub, which an agent may not ask."""
        if absent:
            share = self._shares.at(workload.uid, session.name)
            # Whether it is optional is told on the hub.
            share.wanted = {name: _Entry(state, optional=True) for name, state in absent.items()}
        else:
            self._shares.pop(workload.uid, session.name)

    def sent(self, session: PullSession, workload: Workload, *, written: bool) -> None:
        """As `applied`, by what the agent tells of the order: whether all of it is written.

        Of a copy that it may not have yet nothing is reported.
        """
        share = self._shares.get(workload.uid, session.name)
        if share is None or not workload.follows:
            return
        if written:
            copies = share.wanted.items()
            share.synced = {name: each for name, each in copies if isinstance(each, str)}
        entries = {
            name: _SYNCED if isinstance(each, str) else each
            for name, each in share.wanted.items()
            if isinstance(each, _Entry) or share.synced.get(name) == each
        }
        self._put(workload, share, entries)

    def _put(self, workload: Workload, share: _Share, entries: Mapping[Name, _Entry]) -> None:
        if entries == share.entries:
            return
        share.entries = entries
        self._tell(workload, share)
        self._report(workload.metadata.key)

    def withdrawn(self, session: MemberSession, workload: Workload) -> set[ObjectId]:
        """Return the copies on the member that should never travel."""
        share = self._shares.get(workload.uid, session.name)
        wanted = share.wanted if share is not None else {}
        refused = {
            name
            for name, each in wanted.items()
            if isinstance(each, _Entry) and each.state is _REFUSED
        }
        if not refused:
            return set()
        return {
            id_on_member(found, workload.namespace)
            for _, found in _copies(session, workload)
            if (found.kind, found.metadata.name) in refused
        }

    async def held(
        self, session: MemberSession, workload: Workload, rendered: Sequence[Piece] = ()
    ) -> Held:
        """Return what stays without being `rendered`; nothing when the Workload ends.

        An object that the hub lacks stays while it is named. Raises TransportError.
        """
        if workload.metadata.deleting or not (workload.follows or rendered):
            return Held()
        share = self._shares.get(workload.uid, session.name) if rendered else None
        missing, refused = (
            (share.of(_MISSING), share.of(_REFUSED)) if share is not None else (set(), set())
        )
        own = _own(workload, rendered)
        if not rendered:
            own = {(kind, name) for kind in FOLLOWED for name in _carried(workload, kind)}
        left = {
            (resource.kind, found.metadata.name): ObjectPlace.at(
                session.name, resource, found.metadata.key
            )
            for resource, found in _copies(session, workload)
        }
        stays = left.keys() & missing
        unnamed = left.keys() - own - missing - refused
        if unnamed:
            unnamed &= await self._needed(session, workload, unnamed, stays=bool(rendered))
        waits = {left[name]: _sentence(session.name, left[name]) for name in sorted(unnamed)}
        return Held(frozenset({*stays, *unnamed}), workload.namespace, waits)

    def reported(self, workload: Workload) -> list[dict[str, Any]]:
        """Return `status.dependencies`: each object in its worst state on any share.

        Shares that this process has not written yet keep their last report.
        """
        if not workload.follows or not workload.placements:
            return []
        shares = self._shares.of(workload.uid)
        placed = [shares[name] for name in sorted(shares) if name in workload.placements]
        merged: dict[Name, dict[str, Any]] = {}
        for name, entry in itertools.chain(*(share.entries.items() for share in placed)):
            said = {"kind": name[0], "name": name[1], "state": entry.state.value}
            said |= {"message": entry.message} if entry.message else {}
            before = merged.get(name)
            if before is None or _badness(said) > _badness(before):
                merged[name] = said
        if len(placed) < len(workload.placements):
            for said in workload.status.dependencies:
                merged.setdefault((said["kind"], said["name"]), said)
        return [*merged.values()][:MOST_DEPENDENCIES]

    def remark(self, workload: Workload) -> str:
        """Return an addition to the message of Propagated, or ""."""
        shares = self._shares.of(workload.uid).values()
        most = max((share.named for share in shares), default=0)
        if not workload.follows or most <= MOST_DEPENDENCIES:
            return ""
        return (
            f"only the first {MOST_DEPENDENCIES} of {most} objects that the pods name go along, in "
            "the order of the template: put the others into spec.manifests"
        )

    async def _with_pull_secrets(
        self, session: MemberSession, workload: Workload, named: list[Reference]
    ) -> list[Reference]:
        account = next((each for each in named if each.kind == SERVICE_ACCOUNT), None)
        if account is None:
            return named
        before = self._shares.get(workload.uid, session.name)
        names = {*(before.names if before is not None else ()), account[:2]}
        if not self._use(session, workload, names):
            return named
        found, why = await self._read(workload, account)
        if why or not isinstance(found, HubServiceAccount):
            return named
        behind = named.index(account) + 1
        its = pull_secrets({"imagePullSecrets": found.image_pull_secrets})
        return [*named[:behind], *its, *named[behind:]]

    async def _read(self, workload: Workload, reference: Reference) -> tuple[HubObject | None, str]:
        """Return an object of the hub or None, and why it never travels, or "".

        Raises Refused, HubFault.
        """
        namespace = workload.metadata.namespace
        if why := refusal_of_name(reference, namespace):
            return None, why
        key = (namespace, reference.name)
        try:
            found: HubObject | None = await self._watches[reference.kind].get(
                key, unless=lambda known: bool(refusal_by_labels(known))
            )
        except NoTenant as fault:
            raise Refused(PropagatedReason.DEPENDENCY_UNREADABLE, str(fault)) from fault
        except TransportError as fault:
            what = f"{reference.kind} {'/'.join(key)} could not be read"
            raise HubFault(what, fault) from fault
        return found, refusal(found) if found is not None else ""

    def _carrier(self, session: MemberSession, workload: Workload, reference: Reference) -> str:
        if isinstance(session, PullSession):
            return ""  # the member's agent refuses an object of another owner
        resource, _ = FOLLOWED[reference.kind]
        place = (workload.namespace, reference.name)
        live = session.track(resource, workload.namespace).get(place)
        others = owners(live.metadata) if live is not None else {}
        if len(others) != 1 or workload.uid in others:
            return ""
        other = self._workloads.by_uid(next(iter(others)))
        if other is None or place not in other.carried("v1", reference.kind):
            return ""
        return f"Workload {other.owner} brings it along itself"

    async def _needed(
        self, session: MemberSession, workload: Workload, names: set[Name], *, stays: bool
    ) -> set[Name]:
        main = main_object(main_of(workload), owned(session, workload.uid))
        if main is not None and not main.judged.observed:
            return names  # pods of the old template may still be made
        try:
            return await named_by_pods(session, workload, unmarked=stays)
        except Forbidden:  # the member may forbid to list pods
            outdated = main is not None and counts_of(main.judged, main.replicas or 1).outdated
            return names if stays and outdated else set()

    def _use(self, session: MemberSession, workload: Workload, names: set[Name]) -> bool:
        """Subscribe to these objects; return whether the Workload still exists."""
        if self._workloads.by_uid(workload.uid) is None:
            return False
        share = self._shares.at(workload.uid, session.name)
        share.key = workload.metadata.key
        namespace, at = workload.metadata.namespace, (workload.uid, session.name)
        wanted = frozenset(name for name in names if name[0] in FOLLOWED)
        for kind, name in wanted - share.names:
            self._watches[kind].need((namespace, name), at)
        for kind, name in share.names - wanted:
            self._watches[kind].drop((namespace, name), at)
        share.names = wanted
        return True

    def _end(self, uid: str, member: str, share: _Share) -> None:
        for kind, name in share.names:
            self._watches[kind].drop((share.key[0], name), (uid, member))

    def _tell(self, workload: Workload, share: _Share) -> None:
        if (told := self._told.get(workload.uid)) is None:
            told = self._told.at(workload.uid)
            told |= {
                (said["kind"], said["name"])
                for said in workload.status.dependencies
                if said.get("state") == _MISSING.value
            }
        told -= share.entries.keys() - share.of(_MISSING)
        missing = [name for name, entry in share.entries.items() if entry.needed_in_vain]
        new = [name for name in missing if name not in told]
        told.update(new)
        if not new:
            return
        named = ", ".join(f"{kind} {name}" for kind, name in new)
        note = f"not on the hub: {named}; pods wait for these, unless their cluster has its own"
        tell_of(self._recorder, workload, EventReason.DEPENDENCY_MISSING, note, warns=True)


def _own(workload: Workload, rendered: Sequence[Piece]) -> set[Name]:
    here = (each for each in rendered if each.namespace == workload.namespace)
    return {(each.kind, each.name) for each in here if each.api_version == "v1"}


def _copies(session: MemberSession, workload: Workload) -> list[Found]:
    return [
        (resource, found)
        for resource, found in owned(session, workload.uid)
        if found.metadata.namespace == workload.namespace
        and resource == FOLLOWED.get(resource.kind, (None,))[0]
    ]


def _carried(workload: Workload, kind: str) -> list[str]:
    names = workload.names_of("v1", kind)
    return [name for namespace, name in names if namespace == workload.namespace]


def _badness(said: Mapping[str, Any]) -> int:
    return _WORST.index(DependencyState(said["state"]))


def _sentence(member: str, place: ObjectPlace) -> str:
    return f"{member}: {place} stays until no pod names it"
