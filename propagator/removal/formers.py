"""Former main objects: what a Workload ran before its template got another name, kind or namespace.

They are lowered as the replicas of the present main object become ready. If replicas run at most
once, the former ones go first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from crds.fields.shares import ShareHealth
from machinery.api.resources import group_of
from machinery.kinds.profile import Naming
from machinery.kinds.readiness import counts_of
from machinery.kinds.table import profile_of
from propagator.errors import Refused
from propagator.members.inventory import formers, main_object, owned
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
        # Somebody may run a pod of a kind that begins some by the clock: that is none of a former.
        made_by = main.profile.made_by
        clocked = made_by is not None and made_by.named is Naming.NUMBER
        if not clocked and (pods := session.former_pods(main)):
            return f"{session.name}: {main.kind} {main.name} waits until {pods} pods are gone"
        return ""

    async def lower(self, session: MemberSession, workload: Workload, *, decided: float) -> str:
        """Lower former main objects as far as the present one replaces them; return what stays."""
        main, waits = main_of(workload), ""
        for found in _leaving(session, workload):
            keeps = self._keeps(workload, session, found[1])
            if not keeps:
                continue  # it is pruned as anything that is rendered no more
            if found[1].replicas is not None and keeps < found[1].replicas:
                await self._pruner.lower(session, workload, found, keeps, decided=decided)
            waits = (
                f"{session.name}: {found[0].kind} {found[1].metadata.name} stays until "
                f"{main.kind} {main.name} is ready"
            )
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


def _main(workload: Workload, found: Found) -> Main:
    resource, live = found
    namespace, name = live.metadata.key
    return Main(workload.uid, namespace, group_of(resource.api_version), resource.kind, name)
