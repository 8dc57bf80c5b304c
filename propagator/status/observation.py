"""The observed state of a Workload: its clusters, its state there, and outcomes of syncs.

Sessions are read without waiting, in slices.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeAlias

import msgspec

from crds.fields.shares import MOST_END_WORDS, MOST_KEPT, ShareState
from crds.workload import PropagatedReason
from machinery.api.resources import SERVICES, Resource
from machinery.clock import timestamp
from machinery.runtime.informer import Informer
from machinery.tasks import in_slices
from machinery.types.metadata import Key
from propagator.hub.registration import present_name, present_names
from propagator.hub.revisions import Revisions, revision_of_spec
from propagator.hub.workload_metadata import record_of
from propagator.members.cluster_identity import noted
from propagator.members.context import ControllerContext
from propagator.members.health import Contact
from propagator.members.inventory import (
    Owned,
    OwnedObjects,
    former_units,
    last_seen,
    main_object,
    owned,
    pods_left,
    seen_end,
)
from propagator.members.objects import ManagedObject
from propagator.members.pods import main_of
from propagator.members.pulled import PullSession
from propagator.members.session import MemberSession
from propagator.members.views import Told
from propagator.outcome import DesiredShare, Outcome
from propagator.removal.rule import NEVER, keep_of
from propagator.status.aggregation import OthersShare
from propagator.status.cluster_share import share_of
from propagator.status.failover import Patience
from propagator.status.observed_share import ObservedShare, missing_pods
from propagator.status.refusals import NOTHING_TOLD, ToldRefusal
from propagator.status.told_by_agent import ToldShare, told_by_agent
from propagator.types.workload import Workload

_SERVICE = (SERVICES.api_version, SERVICES.kind)
_RUNS = (ShareState.RUNNING.value, ShareState.COMPLETE.value)


LeftObjects: TypeAlias = Callable[[Workload, Sequence[Mapping[str, Any]]], list[dict[str, Any]]]
"""From status.kept to its entries that remain without an owner: see `LeftClaims.standing`."""
Refusals: TypeAlias = Callable[[Workload, str, ManagedObject | None, int], ToldRefusal]
"""From a share's main object and missing pods to what its Events tell: see `RefusalEvents.told`."""
STRANGERS = 8
"""Clusters without a MemberCluster that get an entry; the last includes the others."""


class Survey:
    def __init__(
        self,
        context: ControllerContext,
        *,
        inventory: OwnedObjects,
        revisions: Revisions,
        left: LeftObjects = lambda *_: [],
        refusals: Refusals = lambda *_: NOTHING_TOLD,
        tells: bool = False,
    ) -> None:
        """`tells`: another process goes by what is seen here, as of an agent."""
        self._tells = tells
        self._left = left
        self._refusals = refusals
        self._revisions = revisions
        self._registry = context.registry
        self._views = context.views
        self._clusters = context.clusters
        self._inventory = inventory
        self._clock = context.clock

    async def seen(
        self, workload: Workload, outcomes: Mapping[str, Outcome]
    ) -> AsyncIterator[ObservedShare]:
        """Yield every cluster to report, by name. `outcomes`: of the last syncs, by cluster."""
        strangers = []
        holders = self._inventory.holders(workload.uid)
        sent = record_of(workload).names(self._views.names)
        # Completions stay until the controller has counted them.
        works = {share.cluster for share in workload.status.leaving if share.completions}
        works |= workload.ends.keys() if workload.ends_whole else set()
        told = self._told(workload)
        names = {*workload.placements, *holders, *sent, *works, *told}
        # Shares of a renamed cluster stand as they are told until the controller names them anew.
        decided = workload.status.observed.controller is not None
        renamed = present_names(self._clusters, workload.placements) if decided else {}
        names -= renamed.values() - workload.placements.keys()
        if works:
            former = present_names(self._clusters, works - workload.placements.keys())
            names -= {old for old, now in former.items() if now in workload.placements}
        async for name in in_slices(sorted(names)):
            if self._views.told(name):
                continue
            if name not in works and self._only_kept(workload, name):
                continue
            known = name in workload.placements or name in holders
            spoken_of = known or name in works or name in told
            may_have = spoken_of or self._inventory.may_hold(workload, name)
            if not (may_have or pods_left(self._registry.get(name), workload)):
                continue
            strange = name not in renamed and self._is_stranger(name)
            if strange and name not in workload.ends:
                strangers.append(name)
            else:
                yield self.observe(workload, name, outcomes.get(name))
        for name, trouble in _strangers(strangers):
            yield self._away(workload, name, trouble)

    def _told(self, workload: Workload) -> set[str]:
        found = set()
        for name in (each["name"] for each in workload.status.clusters):
            session = self._registry.get(name)
            if session is not None and _connects(session, workload):
                found.add(name)
        return found

    async def told(
        self, workload: Workload, outcomes: Mapping[str, Outcome], *, said: int
    ) -> AsyncIterator[ToldShare]:
        """Yield the shares that other shards or agents report, by name.

        `said` is that of `share_of`.
        """
        stored = self.reported(workload)
        for name in sorted({*workload.placements, *stored, *self._inventory.holders(workload.uid)}):
            if not self._views.told(name):
                continue
            if (session := self._views.pulled(name)) is not None:
                outcome, before = outcomes.get(name), stored.get(name, {})
                patience = self._patience(workload, DesiredShare.of(workload, name), session)
                told = told_by_agent(session, workload, outcome, before, said, patience)
                if told is not None:
                    yield told
                continue
            entry = stored.get(name, {})
            if entry.get("state") == ShareState.LEAVING.value or "ended" in entry:
                yield ToldShare(entry, entry)
                continue
            leaving = name not in workload.placements
            desired = DesiredShare.of(workload, name)
            seen = ObservedShare(
                name=name, desired=desired, leaving=leaving, contact=Contact.CONNECTING
            )
            share = share_of(seen, workload.profile, entry, said=said)
            yield ToldShare(entry or share.entry, share.told)

    async def delivered_by_others(self, workload: Workload) -> AsyncIterator[OthersShare]:
        """Yield every cluster of the decision, by name."""
        main, key = main_of(workload), workload.metadata.key
        async for name in in_slices(sorted(workload.decided)):
            session = self._registry.get(name)
            contact = session.contact if session is not None else Contact.CONNECTING
            if session is None or contact is not Contact.SERVING:
                trouble = session.message if session and contact is Contact.AWAY else ""
                yield OthersShare(name, workload.decided[name], None, trouble)
            else:
                yield OthersShare(name, workload.decided[name], session.others_pods(main, key))

    async def runs(self, workload: Workload, outcomes: Mapping[str, Outcome]) -> bool:
        """Whether this process wrote each present share, and observes that it runs."""
        # The hub's status does not count: an earlier process or a backup may have written it.
        stands_in = 0
        async for name in in_slices(sorted(workload.placements)):
            view = self._views.of(workload, name)
            if self._views.pulled(name) is not None:
                outcome = outcomes.get(name)
                if not isinstance(view, Told) or outcome is None or outcome.reason is not None:
                    return False
            if isinstance(view, Told):
                if view.entry.get("state") not in _RUNS or view.entry.get("reason"):
                    return False
                stands_in += view.lasting
                continue
            seen = self.observe(workload, name, outcomes.get(name))
            reason = (
                seen.outcome.reason if seen.outcome is not None else PropagatedReason.PROPAGATING
            )
            if reason not in (None, PropagatedReason.SUSPENDED):
                return False
            share = share_of(seen, workload.profile, {}, said=0)
            if share.entry["state"] not in (
                ShareState.RUNNING,
                ShareState.COMPLETE,
                ShareState.SUSPENDED,
            ):
                return False
            if reason is not None and share.entry["ready"] < workload.placements[name]:
                return False  # what is suspended stands in as far as it is ready
            stands_in += share.lasting
        return stands_in > 0 or not any(workload.placements.values())

    def drift(self, workload: Workload) -> dict[str, list[dict[str, Any]]]:
        """Return the entries of status.drift that agents tell of, by cluster."""
        if not self._views.pulls:
            return {}
        found: dict[str, list[dict[str, Any]]] = {}
        for name in {*workload.clusters, *self._inventory.holders(workload.uid)}:
            session = self._views.pulled(name)
            if session is not None and session.assignments.trusted:
                held = session.assignment(workload.uid)
                told = held.status.drift if held is not None else ()
                found[name] = [{**msgspec.to_builtins(each), "cluster": name} for each in told]
        return found

    def kept(self, workload: Workload) -> list[dict[str, Any]]:
        """Return unwanted objects that stay, at most MOST_KEPT.

        The last report stays of a member that does not answer. `left` alone says whether what a
        share left stands.
        """
        found = []
        told = [self._by_present_name(each) for each in workload.status.kept]
        uids = {each["cluster"]: each.pop("clusterUID", "") for each in told}
        before = [e for e in told if not self._shown(workload, e["cluster"], e["kind"])]
        for name in sorted(self._inventory.holders(workload.uid)):
            session = self._registry.get(name)
            if (pulled := self._views.pulled(name)) is not None:
                if pulled.tells(workload):
                    found += _kept_by_agent(pulled, workload)
                    before = [
                        e for e in before if e["cluster"] != name or pulled.ignores(workload, e)
                    ]
            elif session is not None:
                wanted = workload if name in workload.placements else None
                found += [
                    {
                        "cluster": name,
                        "kind": each.kind,
                        "namespace": each.metadata.namespace,
                        "name": each.metadata.name,
                    }
                    for resource, each in owned(session, workload.uid)
                    if self._shown(workload, name, resource.kind)
                    and keep_of(each) != NEVER
                    and not _renders(wanted, resource, each)
                ]
        standing = self._left(workload, told)
        places = {_place(each): each for each in (*standing, *found, *before)}
        kept = [places[each] for each in sorted(places)][:MOST_KEPT]
        uids |= {each["cluster"]: self._uid_of(each["cluster"], uids) for each in kept}
        return [
            each | ({"clusterUID": uid} if (uid := uids[each["cluster"]]) else {}) for each in kept
        ]

    def _by_present_name(self, kept: Mapping[str, Any]) -> dict[str, Any]:
        name = present_name(self._clusters, kept["cluster"], kept.get("clusterUID", ""))
        return {**kept, "cluster": name}

    def _uid_of(self, name: str, told: Mapping[str, str]) -> str:
        cluster = self._clusters.get(("", name))
        return (noted(cluster).uid if cluster is not None else "") or told.get(name, "")

    def reported(self, workload: Workload) -> dict[str, Mapping[str, Any]]:
        """Return the stored entries by cluster.

        That of a cluster's former name is its own once the decision has its present name.
        """
        stored: dict[str, Mapping[str, Any]] = {e["name"]: e for e in workload.status.clusters}
        for former, name in present_names(
            self._clusters, stored.keys() - workload.placements.keys()
        ).items():
            decided = name in workload.placements or name in workload.causes
            if decided and name not in stored:
                stored[name] = {**stored.pop(former), "name": name}
        return stored

    def _shown(self, workload: Workload, name: str, kind: str = "") -> bool:
        session = self._registry.get(name)
        return session is not None and self._inventory.asked(session, workload, kind)

    def _only_kept(self, workload: Workload, name: str) -> bool:
        """Whether only kept objects remain on the member, which `status.kept` alone reports."""
        # The end of a Workload waits for the member too, and the status reports that.
        if name in workload.placements or workload.metadata.deleting:
            return False
        session = self._registry.get(name)
        if session is None or not self._shown(workload, name):
            return workload.only_kept(name)
        there = owned(session, workload.uid)
        return bool(there) and all(keep_of(each) != NEVER for _, each in there)

    def _is_stranger(self, name: str) -> bool:
        if self._registry.get(name) is not None or not self._clusters.synced:
            return False
        return self._clusters.get(("", name)) is None

    def observe(self, workload: Workload, name: str, outcome: Outcome | None) -> ObservedShare:
        session = self._registry.get(name)
        workload = self._revisions.known(workload, name)
        desired = DesiredShare.of(workload, name)
        current = outcome if outcome is not None and outcome.desired == desired else None
        seconds = workload.spec.movement.ready_seconds
        seen = ObservedShare(
            name=name,
            desired=desired,
            leaving=name not in workload.placements,
            contact=session.contact if session is not None else Contact.CONNECTING,
            ready_seconds=seconds,
            patience=self._patience(workload, desired, session),
        )
        counts = not seen.leaving or workload.ends_whole
        if counts and (end := self._end(workload, session, name)) is not None:
            contact = Contact.AWAY if session is None else seen.contact
            seen = replace(seen, leaving=False, contact=contact, outcome=current, end=end)
            if session is None or contact is not Contact.SERVING:
                return seen
            where = main_of(workload)
            objects = owned(session, workload.uid)
            main, fields = main_object(where, objects), told_fields(workload, objects)
            return replace(seen, main=main, fields=fields, pods=session.pod_counts(where))
        if session is None or seen.contact is Contact.CONNECTING:
            return seen
        if seen.contact is Contact.AWAY:
            return replace(seen, trouble=session.message)
        if not _listed(session, workload, *workload.outline.pair):
            if current is None:
                return replace(seen, contact=Contact.CONNECTING)
            if current.reason is PropagatedReason.CLUSTER_UNREACHABLE:
                # It answers, and not to a list: what is there is as unknown as on one that is away.
                return replace(seen, contact=Contact.AWAY, trouble=current.message)
        where, objects = main_of(workload), owned(session, workload.uid)
        main = main_object(where, objects)
        services = not any(_services(workload)) or _listed(session, workload, *_SERVICE)
        seen = replace(
            seen,
            elsewhere=bool(workload.placements),
            outcome=current,
            main=main,
            former=self._former(session, workload),
            to_take_over=main is None and self._to_take_over(session, workload),
            kept_pods=session.kept_pods(where, main.pods_templates) if main is not None else 0,
            pods=session.pod_counts(where),
            available=session.availability(where, seconds) if seconds else None,
            load_balancer=balancer(workload, objects) if services else None,
            fields=told_fields(workload, objects),
            last=last_seen(session, workload),
        )
        missing = missing_pods(seen) if not seen.leaving else 0
        return replace(seen, events=self._refusals(workload, name, main, missing))

    def _former(self, session: MemberSession, workload: Workload) -> int:
        if not (workload.at_most_once and (self._tells or self._views.divided(workload))):
            return 0
        return former_units(session, workload)

    def _to_take_over(self, session: MemberSession, workload: Workload) -> bool:
        if not (workload.at_most_once and self._views.divided(workload) and session.link):
            return False
        named = session.link.watches.named(workload.metadata.key)
        return main_object(main_of(workload), named, ending=True) is not None

    def _end(
        self, workload: Workload, session: MemberSession | None, name: str
    ) -> Mapping[str, Any] | None:
        """A new end gets the present time."""
        former = session.former if session is not None else ()
        if (known := workload.end_of(name, former)) is not None:
            return known
        seen = seen_end(session, workload) if session is not None else None
        if seen is None or seen.result is None:
            return None
        end = {"result": seen.result.value, "time": timestamp(self._clock.now())}
        said = {"message": seen.message[:MOST_END_WORDS]} if seen.message else {}
        return {**end, "object": workload.run, **said}

    def _away(self, workload: Workload, name: str, trouble: str) -> ObservedShare:
        desired = DesiredShare.of(workload, name)
        return ObservedShare(
            name=name,
            desired=desired,
            leaving=name not in workload.placements,
            contact=Contact.AWAY,
            trouble=trouble,
            ready_seconds=workload.spec.movement.ready_seconds,
            patience=self._patience(workload, desired, None),
        )

    def _patience(
        self, workload: Workload, desired: DesiredShare, session: MemberSession | None
    ) -> Patience | None:
        """As of the last answer of a member that is away."""
        seconds, now = workload.spec.movement.unhealthy_seconds, self._clock.now()
        if seconds is None:
            return None
        if session is not None and session.contact is Contact.AWAY and session.answered > -math.inf:
            now -= timedelta(seconds=self._clock.monotonic() - session.answered)
        return Patience(seconds, desired.revision or revision_of_spec(workload), now)


def _place(kept: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(kept.get(each, "")) for each in ("cluster", "kind", "namespace", "name"))


def _kept_by_agent(session: PullSession, workload: Workload) -> list[dict[str, Any]]:
    held = session.assignment(workload.uid)
    return [
        {"cluster": session.name, "kind": e.kind, "namespace": e.namespace, "name": e.name}
        for e in (held.status.kept if held is not None else ())
    ]


def _strangers(names: Sequence[str]) -> list[tuple[str, str]]:
    entries = [(name, f"{name}: there is no MemberCluster of this name") for name in names]
    more = len(names) - STRANGERS
    if more <= 0:
        return entries
    last = names[STRANGERS - 1]
    sentence = (
        f"{last} and {more} more: there are no MemberClusters of these names; take them out of "
        "status.placements, or register them"
    )
    return [*entries[: STRANGERS - 1], (last, sentence)]


def _listed(session: MemberSession, workload: Workload, api_version: str, kind: str) -> bool:
    informers = _informers(session, workload, api_version, kind)
    return bool(informers) and all(informer.trusted for informer in informers)


def _connects(session: MemberSession, workload: Workload) -> bool:
    if session.contact is not Contact.SERVING:
        return session.contact is Contact.CONNECTING
    informers = _informers(session, workload, *workload.outline.pair)
    return session.counting or not all(informer.trusted for informer in informers)


def _informers(
    session: MemberSession, workload: Workload, api_version: str, kind: str
) -> Sequence[Informer[Any]]:
    if session.link is None:
        return ()
    namespaces = workload.namespaces()
    return session.link.watches.concerning(api_version, kind, namespaces=namespaces)


def balancer(workload: Workload, objects: Owned) -> Mapping[str, Any]:
    rendered = set(_services(workload))  # any other Service may only claim to be the Workload's
    for resource, found in objects:
        ours = resource == SERVICES and found.metadata.key in rendered
        if ours and found.load_balancer:
            return found.load_balancer
    return {}


def told_fields(workload: Workload, objects: Owned) -> dict[str, str]:
    """Return the values that the Workload and its kind want told of one member, by name."""
    of_kind = {each.name for each in workload.profile.status_fields}
    names = {each.name for each in workload.spec.status_fields}
    if not (names or of_kind):
        return {}
    main, said = main_object(main_of(workload), objects, ending=True), dict[str, str]()
    for resource, found in objects:
        about = (resource.kind, found.metadata.name)
        told = {name for name, _ in workload.status_paths(*about, main=found is main)}
        told |= of_kind - names if found is main else set()  # the Workload's own go before
        said |= {name: value for name, value in found.fields if name in told}
    return dict(sorted(said.items()))


def _renders(workload: Workload | None, resource: Resource, found: ManagedObject) -> bool:
    if workload is None:
        return False
    return found.metadata.key in workload.names_of(resource.api_version, resource.kind)


def _services(workload: Workload) -> Iterator[Key]:
    yield from workload.names_of(*_SERVICE)
