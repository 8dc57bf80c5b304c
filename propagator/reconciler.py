"""Reconciles one Workload with one member: decides what to apply and what to remove.

A share that left the placements is removed once all present shares are ready; a shrinking share is
scaled down as far as others are ready (`removal.guard`). Everything is removed if the Workload is
deleted or wants no replicas. A Workload that is placed nowhere keeps its objects. The gate of a
group comes before placements, and `removal.rule` decides on each deletion.
"""

from __future__ import annotations

import asyncio
from typing import Any

from crds.fields.shares import ShareState
from machinery.discovery.enforcement import InForce
from machinery.types.metadata import Key
from propagator.groups.gates import Gates
from propagator.groups.rule import GateAnswer, GateVerdict
from propagator.hub.revisions import Revisions
from propagator.hub.workloads import HubWorkloads, touches
from propagator.members.context import ControllerContext
from propagator.members.inventory import OwnedObjects, main_object, owned, uids_of
from propagator.members.pods import main_of
from propagator.members.pulled import PullSession
from propagator.members.session import MemberSession
from propagator.members.views import Live, Told
from propagator.pull.assignments import Leftovers
from propagator.removal.at_most_once import AtMostOnce
from propagator.removal.guard import Guard
from propagator.removal.left_claims import LeftClaims
from propagator.removal.orphans import Orphans
from propagator.removal.rule import taken_up
from propagator.share_writer import FIRST_PAUSE, LONGEST_PAUSE, ShareWriter
from propagator.status.cluster_share import UNPLACED
from propagator.status.controller import Reporter
from propagator.types.workload import Workload

STALE_SECONDS = 0.5
"""Seconds between two checks whether the view of the hub is up to date."""


class WorkloadReconciler:
    def __init__(
        self,
        context: ControllerContext,
        *,
        workloads: HubWorkloads,
        judged: InForce,
        gates: Gates,
        revisions: Revisions,
        inventory: OwnedObjects,
        shares: ShareWriter,
        guard: Guard,
        once: AtMostOnce,
        orphans: Orphans,
        leftovers: Leftovers,
        claims: LeftClaims,
        reporter: Reporter,
    ) -> None:
        self._clock = context.clock
        self._views = context.views
        self._fresh = context.fresh
        self._workloads = workloads
        self._judged = judged
        self._gates = gates
        self._revisions = revisions
        self._inventory = inventory
        self._shares = shares
        self._guard = guard
        self._once = once
        self._orphans = orphans
        self._leftovers = leftovers
        self._claims = claims
        self._reporter = reporter
        self._stale = asyncio.Lock()
        pauses: Any = {"clock": context.clock, "base": FIRST_PAUSE, "cap": LONGEST_PAUSE}
        # A swept object has no Workload: its key stands for the UID.
        self._sweeps = context.shares.backoff(tuple[Key, str], **pauses)
        self._moves = context.shares.backoff(tuple[str, str], **pauses)

    async def reconcile(self, session: MemberSession, key: Key) -> float | None:
        """Return seconds until requeue, or None."""
        await self._until_fresh()  # nothing is applied or removed on a stale view of the hub
        workload = await self._workloads.whole(key, lambda: uids_of(session, key))
        requeue_after = None
        if workload is not None and workload.incomplete:
            pass  # its status is restored first; what lies there is judged all the same
        elif workload is not None and workload.suspended(session.facts.labels):
            await self._shares.suspended(session, workload)
        elif workload is not None:
            requeue_after = await self._reconcile(session, workload)
            if session.name in workload.placements:
                self._moves.reset((workload.uid, session.name))  # nothing leaves
        if isinstance(session, PullSession):
            await self._leftovers.order(session, key)
            return requeue_after
        if not await self._orphans.sweep(session, key):
            self._sweeps.reset((key, session.name))
            return requeue_after
        next_sweep = self._sweeps.failed((key, session.name))
        return next_sweep if requeue_after is None else min(requeue_after, next_sweep)

    async def _until_fresh(self) -> None:
        # One of all waiting workers polls: thousands of keys need no check each.
        if self._may_act():
            return
        async with self._stale:
            while not self._may_act():
                await self._clock.sleep(STALE_SECONDS)

    def _may_act(self) -> bool:
        return self._fresh() and bool(self._judged.known or self._judged.obstacle)

    async def _reconcile(self, session: MemberSession, workload: Workload) -> float | None:
        workload = self._revisions.known(workload, session.name)
        # Remove the share if the Workload is deleted, scaled to zero, or in a starting gang without
        # placements: until its quorum has run, a gang runs whole or not at all.
        starting = self._gates.starting(workload)
        starting = starting and not self._gates.retains(workload, session.name)
        withdrawn = starting and not workload.placements
        if not (workload.delivered or self._may_own(session, workload)):
            return None
        asks = isinstance(session, PullSession) and session.assignment(workload.uid) is None
        if isinstance(session, PullSession) and asks and workload.claims_left(session.name):
            await self._shares.ask(session, workload)  # nobody else sees them go
        ends = workload.ended or not workload.wants_replicas
        if withdrawn and not ends and not await self._gates.confirms(workload):
            return FIRST_PAUSE
        if ends or withdrawn:
            return await self._shares.remove(session, workload)

        if isinstance(session, PullSession) and not session.tells(workload):
            # Nothing is lowered or moved before it is known what is there.
            await self._shares.ask(session, workload)
            return None

        return await self._deliver(session, workload, starting=starting)

    async def _deliver(
        self, session: MemberSession, workload: Workload, *, starting: bool
    ) -> float | None:
        # The gate of its group comes before its placements.
        verdict = self._gates.verdict(workload)
        closed = verdict.answer is GateAnswer.REMOVE and session.name not in verdict.keeps
        if closed or self._gates.removal_pending(workload, session.name):
            return await self._give_back(session, workload, verdict)
        if verdict.answer is not GateAnswer.APPLY:
            self._shares.keep(session, workload, verdict)
            return None

        # This member should have a share.
        if session.name in workload.placements:
            if self._once.overdue(session.name) is not None:
                return FIRST_PAUSE  # what runs twice goes first
            return await self._shares.apply(session, workload)

        # It should have one by the name that it had: the controller is to name it anew.
        former = workload.placements.keys() & set(self._workloads.formerly(session.name))
        if former:
            why = f"kept, as it is placed by its former name {min(former)}"
            self._shares.stays(session, workload, why)
            return None

        # This member should have none.
        if starting:
            # The share is left of a withdrawn attempt. No healthy copy exists before the quorum has
            # run, except what ran before the gang did.
            return await self._shares.remove(session, workload)
        if not workload.placements:
            await self._inventory.wait_listed(session, workload)
            if self._inventory.holds(session, workload):
                self._shares.stays(session, workload)
            else:
                self._reporter.queue.add(workload.metadata.key)
            return None
        return await self._remove_replaced(session, workload)

    def _may_own(self, session: MemberSession, workload: Workload) -> bool:
        return touches(workload, session.name) or self._inventory.holds(session, workload)

    async def _give_back(
        self, session: MemberSession, workload: Workload, verdict: GateVerdict
    ) -> float | None:
        requeue_after = await self._shares.remove(session, workload, verdict)
        if requeue_after is None:
            self._gates.note_clean(workload, session.name)
        return requeue_after

    async def _remove_replaced(self, session: MemberSession, workload: Workload) -> float | None:
        move = (workload.uid, session.name)
        await self._inventory.wait_listed(session, workload)
        there = [found for _, found in owned(session, workload.uid)]
        holds = self._inventory.holds(session, workload)
        # Objects of an earlier registration may be all that runs.
        earlier = not workload.groups and any(taken_up(found, session.mark) for found in there)
        leaves = session.name in workload.leaving
        runs = running(workload)
        unplaced = earlier and not _complete(workload)
        # Units that run at most once stop before their successors start: do not wait for these.
        first = self._once.left(workload, session.name) is not None
        first = not unplaced and (first or workload.gives_first(session.name))
        if holds and not first and (leaves or unplaced or not runs):
            self._moves.reset(move)
            self._guard.note(workload, session.name)
            if (has := self._to_turn_back(session, workload)) is not None:
                return await self._shares.turn_back(session, workload, has)
            self._shares.stays(session, workload, UNPLACED if runs and unplaced else "")
            return None
        if holds and not (
            first
            or (
                all(self._answers(workload, name) for name in workload.placements)
                and await self._reporter.runs(workload)
            )
        ):
            # The stored status already says ready, so no event will requeue this key. Poll with
            # back-off.
            self._reporter.queue.add(workload.metadata.key)
            return self._moves.failed(move)
        if holds and not await self._claims.note(session, workload, workload.status.kept):
            self._reporter.queue.add(workload.metadata.key)  # first the status says what is left
            return self._moves.failed(move)
        kept = await self._guard.kept(workload, session.name) if holds else None
        self._moves.reset(move)
        if kept is not None:
            return await self._shares.lower(session, workload, kept)
        return await self._shares.remove(session, workload)

    def _to_turn_back(self, session: MemberSession, workload: Workload) -> int | None:
        """Return its replicas if a leaving share gets another revision, such as at a rollback."""
        share = next((s for s in workload.status.clusters if s["name"] == session.name), {})
        has, gets = share.get("revision"), workload.revision_of(session.name)
        if not has or not gets or has == gets:
            return None
        if isinstance(view := self._views.of(workload, session.name), Told):
            return view.asked
        main = main_object(main_of(workload), owned(session, workload.uid))
        return main.replicas if main is not None else None

    def _answers(self, workload: Workload, name: str) -> bool:
        view = self._views.of(workload, name)
        return isinstance(view, Told) or (isinstance(view, Live) and view.session.ready)


def _complete(workload: Workload) -> bool:
    return sum(workload.placements.values()) >= (workload.status.desired or 0)


_WELL = (ShareState.RUNNING.value, ShareState.COMPLETE.value)
_SUSPENDED = ShareState.SUSPENDED.value


def running(workload: Workload) -> bool:
    """Whether the status reports all present shares as ready."""
    shares = {share["name"]: share for share in workload.status.clusters}
    return all(
        name in shares
        and (
            shares[name].get("state") in _WELL
            # It takes and gives nothing, so what is ready there goes on standing in.
            or (shares[name].get("state") == _SUSPENDED and shares[name]["ready"] >= replicas)
        )
        and shares[name].get("replicas") == replicas
        for name, replicas in workload.shares.items()
    )
