"""How many pods a voluntary move may take from a member at once, by its disruption budgets.

A share is lowered in one step by no more than every PodDisruptionBudget over its pods allows.
Workloads under one budget share what it allows. An unknown budget allows nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple
from weakref import WeakKeyDictionary

from machinery.errors import Forbidden, NotFound
from machinery.types.metadata import Key
from propagator.members.capacity.kept import PodLabels
from propagator.members.context import ControllerContext
from propagator.members.disruption_budgets import BUDGETS, DisruptionBudget, DisruptionBudgets
from propagator.members.pods import Main
from propagator.members.session import MemberSession
from propagator.shares import Column
from propagator.types.workload import Workload

SETTLE_SECONDS = 5.0
"""Seconds after which a change of a budget since the step is believed to count the pods that went:
two watches keep no order, and its change may have been seen before their end.
"""


class Allowed(NamedTuple):
    """The replicas that a share keeps by the budgets, and the text of the one that decides."""

    keeps: int
    why: str = ""


@dataclass(slots=True)
class _Step:
    main: Main
    keeps: int
    units: int
    """How many go."""
    versions: dict[Key, str]
    """The budgets over them, as they were."""
    ready: int
    """The pods of the share that were ready before."""
    ending: float | None = None
    """When the pods became unready. From then on a budget's status does not count them."""
    gone: float | None = None
    """When they were seen to be gone."""
    raised: float | None = None
    """When the share was given replicas back, so that they may never be seen to be gone."""


@dataclass(slots=True)
class _Member:
    """Of one session: a step counts until its pods are gone, whatever becomes of its Workload."""

    steps: dict[Key, _Step] = field(default_factory=dict)
    waiting: dict[Key, str] = field(default_factory=dict)
    """Workloads that wait for budgets, and the namespaces of these."""


class Disruptions:
    def __init__(self, context: ControllerContext) -> None:
        self._registry = context.registry
        self._clock = context.clock
        self._members: WeakKeyDictionary[MemberSession, _Member] = WeakKeyDictionary()
        self._waits: Column[Key] = context.shares.column(ended=self._wait_ended)

    def allowed(
        self,
        session: MemberSession,
        workload: Workload,
        main: Main,
        *,
        present: int,
        keeps: int,
        carried: bool,
        labels: PodLabels,
    ) -> Allowed:
        """Return what a share of `present` replicas keeps that may otherwise go down to `keeps`.

        `labels`: those of its pod template on the member. `carried`: budgets that the Workload
        itself carries count as well. Replicas that go count until they are gone.
        """
        member, key = self._members.setdefault(session, _Member()), workload.metadata.key
        answer = self._ask(
            member, session, workload, main, present, keeps, carried=carried, labels=labels
        )
        if answer.why:
            member.waiting[key] = main.namespace
            self._waits.put(workload.uid, session.name, key)
        else:
            self._waits.pop(workload.uid, session.name)
        return answer

    def keeps_nothing(self, workload: Workload, member: str) -> None:
        """The share waits no more; its last step still counts."""
        self._waits.pop(workload.uid, member)

    def raised(self, member: str, key: Key, replicas: int) -> None:
        """Record that the share is to have so many: the end of its last step may never be seen."""
        known = self._of(member)
        step = known.steps.get(key) if known is not None else None
        if step is not None and step.raised is None and replicas > step.keeps:
            step.raised = self._clock.monotonic()

    def wake(self, member: str, namespace: str | None = None) -> None:
        """Wake the Workloads that wait for budgets there, of that namespace or of any."""
        known = self._of(member)
        for key, where in list(known.waiting.items()) if known is not None else ():
            if namespace in (None, where):
                self._registry.wake(member, key)

    def look(self, name: str, key: Key) -> None:
        """Record whether the pods of a step are gone; called when those of a Workload changed."""
        session, known = self._registry.get(name), self._of(name)
        step = known.steps.get(key) if known is not None else None
        if session is None or known is None or step is None or step.gone is not None:
            return
        if self._count(step, session) and key in known.waiting:
            self._registry.wake(name, key)

    def _ask(
        self,
        member: _Member,
        session: MemberSession,
        workload: Workload,
        main: Main,
        present: int,
        keeps: int,
        *,
        carried: bool,
        labels: PodLabels,
    ) -> Allowed:
        key = workload.metadata.key
        pods = {each for each in (labels, *session.pod_labels(main)) if each != ()}
        if session.link is None or not pods or keeps >= present:
            return Allowed(keeps)
        budgets = session.link.budgets
        budgets.listen(partial(self.wake, session.name))
        if not budgets.known and not isinstance(budgets.obstacle, NotFound):
            return Allowed(present, _unknown(session.name, budgets))
        own = set() if carried else {*workload.names_of(BUDGETS.api_version, BUDGETS.kind)}
        over = [b for b in budgets.over(main.namespace, pods) if b.metadata.key not in own]
        for each, last in list(member.steps.items()):
            if self._settled(last, session, budgets):
                del member.steps[each]
        step = member.steps.get(key)
        if step is not None:
            stays = step.keeps if step.raised is None else present
            how = "gone" if step.raised is None else "back"
            why = f"{step.units} replicas of the last step are not {how}, or not counted"
            return Allowed(max(keeps, stays), why if keeps < stays else "")
        if not over:
            return Allowed(keeps)
        least, allowed = _tightest(over, member.steps.values())
        units = min(present - keeps, allowed)
        if units:
            versions = {b.metadata.key: b.metadata.resource_version for b in over}
            counts = session.pod_counts(main)
            ready = present if counts is None else counts.ready
            member.steps[key] = _Step(main, present - units, units, versions, ready)
        short = units < present - keeps
        return Allowed(present - units, _sentence(least, allowed) if short else "")

    def _settled(self, step: _Step, session: MemberSession, budgets: DisruptionBudgets) -> bool:
        self._count(step, session)
        ended = step.gone if step.raised is None else step.raised
        if ended is None:
            return False
        settled = self._clock.monotonic() - ended >= SETTLE_SECONDS
        if step.raised is not None:
            if not settled:
                return False
            counts = session.pod_counts(step.main)
            if counts is not None and counts.ready >= step.ready:
                return True  # it took nothing, or that is back
        for key, version in step.versions.items():
            budget = budgets.get(key)
            if budget is None:
                continue
            changed = budget.metadata.resource_version != version
            counted = step.ending is not None and budgets.heard(key) >= step.ending
            if not (changed and (settled or counted)):
                return False
        return True

    def _count(self, step: _Step, session: MemberSession) -> bool:
        counts, now = session.pod_counts(step.main), self._clock.monotonic()
        if counts is None:
            return False
        if step.ending is None and counts.ready <= step.keeps:
            step.ending = now
        if step.gone is None and counts.current <= step.keeps:
            step.gone = now
        return step.gone is not None

    def _wait_ended(self, _uid: str, member: str, key: Key) -> None:
        if (known := self._of(member)) is not None:
            known.waiting.pop(key, None)

    def _of(self, member: str) -> _Member | None:
        session = self._registry.get(member)
        return self._members.get(session) if session is not None else None


def _tightest(
    over: Iterable[DisruptionBudget], steps: Iterable[_Step]
) -> tuple[DisruptionBudget, int]:
    taken = list(steps)
    found = [
        (budget, allows(budget, [s.units for s in taken if budget.metadata.key in s.versions]))
        for budget in over
    ]
    return min(found, key=lambda each: each[1])


def allows(budget: DisruptionBudget, under_way: Iterable[int]) -> int:
    return max(budget.allowed - sum(under_way), 0) if budget.current else 0


def _sentence(budget: DisruptionBudget, allowed: int) -> str:
    name = "/".join(budget.metadata.key)
    why = budget.fault or ("" if budget.current else "its status is not of its present spec")
    return f"disruption budget {name} allows {allowed}{why and f', as {why}'}"


def _unknown(member: str, budgets: DisruptionBudgets) -> str:
    match budgets.obstacle:
        case None:
            return f"the disruption budgets of {member} have not been listed yet"
        case Forbidden():
            return (
                f"the propagator may not list {BUDGETS.plural} of {BUDGETS.group} on {member}: "
                "`stowage join` with its name again grants it"
            )
        case fault:
            return f"the disruption budgets of {member} cannot be listed: {fault}"
