"""Former objects: what a Workload ran before one of them got another name, kind or namespace.

A former main object is lowered as the replicas of the present one become ready. What is no main
object, such as a Deployment of `spec.manifests`, is lowered as those become ready that run beside
the main object now. If replicas run at most once, the former ones go first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from crds.fields.shares import ShareHealth
from machinery.api.resources import group_of
from machinery.kinds.profile import Profile
from machinery.kinds.readiness import counts_of
from machinery.kinds.table import known_kind, profile_of
from propagator.errors import Refused
from propagator.members.inventory import (
    former_pods,
    formers,
    id_on_member,
    main_object,
    owned,
)
from propagator.members.objects import ManagedObject
from propagator.members.pods import Main, main_of
from propagator.members.session import MemberSession
from propagator.members.watches import Found
from propagator.removal.guard import least
from propagator.removal.prune import Pruner
from propagator.removal.rule import NEVER, keep_of
from propagator.types.workload import Workload

StandingIn: TypeAlias = Callable[[Workload, str], int]
"""`Guard.standing_in`."""


class Formers:
    def __init__(self, pruner: Pruner, standing_in: StandingIn) -> None:
        self._pruner = pruner
        self._standing_in = standing_in

    async def give_way(self, session: MemberSession, workload: Workload, *, decided: float) -> str:
        """Remove former main objects of what runs at most once; return what is still there.

        Raises Refused.
        """
        main, waits = main_of(workload), ""
        for found in _leaving(session, workload):
            live = found[1]
            where = _main(workload, found)
            counts = session.pod_counts(where)
            name = f"{where.kind} {where.name}"
            waits = f"{session.name}: {main.kind} {main.name} waits until {name} is gone"
            if live.replicas:
                await self._pruner.lower(session, workload, found, 0, decided=decided)
            elif live.replicas is None or (counts is not None and not counts.current):
                await self._remove(session, workload, found, decided)
        if waits or main_object(main, owned(session, main.uid)) is not None:
            return waits
        if session.counting and not main.clocked:
            return f"{session.name}: {main.kind} {main.name} waits until the pods there are listed"
        if pods := former_pods(session, main):
            return f"{session.name}: {main.kind} {main.name} waits until {pods} pods are gone"
        return ""

    async def lower(self, session: MemberSession, workload: Workload, *, decided: float) -> str:
        """Lower former objects as far as present ones replace them; return what stays."""
        main, waits = main_of(workload), ""
        for found in _leaving(session, workload):
            beside = _keeps_beside(workload, session, found[1])
            # An adopted main object looks like one of spec.manifests.
            keeps = max(beside or 0, self._keeps(workload, session, found[1]))
            if workload.alone and beside is not None:
                keeps = beside
            if not keeps:
                continue  # it is pruned as anything that is rendered no more
            if found[1].replicas is not None and keeps < found[1].replicas:
                await self._pruner.lower(session, workload, found, keeps, decided=decided)
            until = "what spec.manifests runs" if beside else f"{main.kind} {main.name}"
            name = f"{found[0].kind} {found[1].metadata.name}"
            waits = f"{session.name}: {name} stays until {until} is ready"
        return waits

    def _keeps(self, workload: Workload, session: MemberSession, former: ManagedObject) -> int:
        has = 1 if former.replicas is None else former.replicas
        said = counts_of(former.judged, has)
        ready = has if said.health is ShareHealth.UNKNOWN else said.ready
        target = workload.shares.get(session.name, 0)
        return least(
            target=0,
            present=has,
            ready=ready,
            elsewhere=self._standing_in(workload, session.name),
            goal=target - (workload.unavailable if former.replicas is not None else 0),
            ordered=profile_of(former.api_version, former.kind).ordered,
        )

    async def _remove(
        self, session: MemberSession, workload: Workload, found: Found, decided: float
    ) -> None:
        uid = found[1].metadata.uid
        left = await self._pruner.prune(
            session, workload.uid, decided=decided, only=lambda each: each.metadata.uid == uid
        )
        if left.refused:
            raise Refused.of([*left.refused.values()])


def _leaving(session: MemberSession, workload: Workload) -> list[Found]:
    return [each for each in formers(session, workload) if keep_of(each[1]) == NEVER]


def _keeps_beside(workload: Workload, session: MemberSession, former: ManagedObject) -> int | None:
    """Return its ready replicas, at most as many as the present objects of spec.manifests lack.

    None if it was a main object, whose pods have our label unless it was adopted.
    """
    profile = profile_of(former.api_version, former.kind)
    if not _runs_on(profile) or former.pods_uid == workload.uid:
        return None
    has, lacks = 1 if former.replicas is None else former.replicas, 0.0
    there = {
        id_on_member(found, workload.namespace): found
        for _, found in owned(session, workload.uid)
        if not found.metadata.deleting
    }
    for part in workload.carried_ids():
        if _runs_on(known_kind(part[0], part[1])):
            found = there.get(part)
            lacks += _lack(found) if found is not None else math.inf
    return int(min(counts_of(former.judged, has).ready, lacks))


def _runs_on(profile: Profile) -> bool:
    return bool(profile.pods) and profile.ended is None and not profile.once


def _lack(found: ManagedObject) -> int:
    asked = 1 if found.replicas is None else found.replicas
    return max(asked - counts_of(found.judged, asked).ready, 0)


def _main(workload: Workload, found: Found) -> Main:
    resource, live = found
    namespace, name = live.metadata.key
    return Main(workload.uid, namespace, group_of(resource.api_version), resource.kind, name)
