"""Reserve and Permit of decisions: right after the pass, without an await, for a whole set at once.

A set is reserved and permitted as one: where a plugin refuses one of its decisions, none is
written; where one must wait, all wait. A waiting set stays assumed in the cache and reserved with
the plugins until it is allowed; it is given back when it is rejected, when its time is over, when
one of the set is edited or deleted, and when the term of leadership ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from controller.framework.profile import Profile
from controller.framework.runtime import framework as runtime
from controller.framework.status import SUCCESS, Code, Status
from controller.framework.waiting import (
    PermitAnswer,
    UsesWaitingWorkloads,
    WaitingWorkload,
    WaitingWorkloads,
)
from controller.model.objects import Workload
from controller.scheduling.decision import Decision
from crds.workload import ScheduledReason
from machinery import logs
from machinery.types.metadata import Key

LOG = logs.get(__name__)
NOBODY: Mapping[str, Status] = MappingProxyType({})


@dataclass(slots=True)
class Held:
    """Decisions that wait together, by key; `waits` are those that a plugin holds back.

    `open` says that members lack something: the next decision may place more of them.
    """

    decisions: dict[Key, Decision]
    waits: dict[Key, WaitingWorkload]
    open: bool = False
    since: float = 0.0
    late: str = ""
    """The message when its time is over, where a plugin has words for that."""

    def answer(self, now: float) -> PermitAnswer:
        """Return the worst answer of any member."""
        answers = {waiting.answer(now) for waiting in self.waits.values()}
        for worst in (PermitAnswer.REJECTED, PermitAnswer.TIMED_OUT, PermitAnswer.WAITING):
            if worst in answers:
                return worst
        return PermitAnswer.ALLOWED

    @property
    def deadline(self) -> float:
        """When the first plugin must have answered, on the room's monotonic clock."""
        return min((w.deadline for w in self.waits.values() if w.plugins), default=0.0)

    def refusal(self, now: float) -> Status:
        """Return why the set is not written: it was rejected, or its time is over."""
        for key, waiting in self.waits.items():
            about = f" of {'/'.join(key)}" if len(self.decisions) > 1 else ""
            if waiting.rejected:
                text = f"{waiting.objector} rejected the decision{about}: {waiting.objection}"
                return Status(Code.UNSCHEDULABLE, (text,), waiting.objector)
            late = [name for name, at in waiting.plugins.items() if now >= at]
            if late and self.late:
                reason = ScheduledReason.SCHEDULE_TIMEOUT
                return Status(Code.UNSCHEDULABLE, (self.late,), late[0], reason)
            if late:
                spent = round(min(waiting.plugins.values()) - waiting.since)
                text = f"{', '.join(late)} did not permit the decision{about} within {spent} s"
                reason = ScheduledReason.SCHEDULE_TIMEOUT
                return Status(Code.UNSCHEDULABLE, (text,), late[0], reason)
        return SUCCESS


class Permits:
    """The decisions that may be written, and those that wait, for one term of leadership."""

    def __init__(self, profiles: Mapping[str, Profile], room: WaitingWorkloads) -> None:
        self._profiles = profiles
        self._room = room
        self._held: dict[Key, Held] = {}
        for plugin in _users(profiles):
            try:
                plugin.use_waiting_room(room)
            except Exception:  # what waits for the plugin times out
                LOG.exception("plugin %s did not take the waiting room", plugin.name)

    def ask(
        self,
        decisions: Sequence[Decision],
        waits: Mapping[str, Status] = NOBODY,
        *,
        late: str = "",
    ) -> tuple[Status, Held | None]:
        """Reserve and permit these decisions as one.

        `waits` are plugins that hold back all of them anyway; `late` is the message of a set whose
        time is over.

        SUCCESS without a set: write them. SUCCESS with a set: it waits. A refusal: everything that
        was reserved is given back.
        """
        moving = [decision for decision in decisions if decision.moves]
        asked: dict[Key, Mapping[str, Status]] = {}
        reserved: list[Decision] = []
        for decision in moving:
            status = runtime.reserve(*self._about(decision))
            if status.ok:
                reserved.append(decision)
                status, asked[decision.unit.key] = runtime.permit(*self._about(decision))
            if not status.ok:
                self._give_back(reserved)
                return status, None
        held = {key: found for key, each in asked.items() if (found := {**each, **waits})}
        if not held:
            return SUCCESS, None
        return SUCCESS, self._hold(decisions, held, open_=bool(waits), late=late)

    def hold_again(self, held: Held) -> bool:
        """Reserve what was released, and wait on to the old deadline; False if a plugin refuses."""
        reserved: list[Decision] = []
        for decision in (each for each in held.decisions.values() if each.moves):
            if not runtime.reserve(*self._about(decision)).ok:
                self._give_back(reserved)
                return False
            reserved.append(decision)
        for waiting in held.waits.values():
            self._room.put(waiting)
        self._held.update(dict.fromkeys(held.decisions, held))
        return True

    def held(self, key: Key) -> Held | None:
        return self._held.get(key)

    def follow(self, workload: Workload) -> Decision | None:
        """Move a waiting decision to the version that its own status write made; return it."""
        held = self._held.get(workload.metadata.key)
        if held is None:
            return None
        before = held.decisions[workload.metadata.key]
        unit = replace(before.unit, version=workload.unit.version)
        held.decisions[unit.key] = after = replace(before, unit=unit)
        return after

    def release(self, held: Held, *, written: bool) -> list[Decision]:
        """Stop waiting for the set; unless it is to be `written`, give back what it reserved."""
        for key in held.decisions:
            self._held.pop(key, None)
            self._room.remove(key)
        decisions = list(held.decisions.values())
        if not written:
            self._give_back([decision for decision in decisions if decision.moves])
        return decisions

    def release_all(self) -> list[Decision]:
        """End the term of leadership: give back all waiting sets; return their decisions."""
        found: list[Decision] = []
        while self._held:
            found += self.release(next(iter(self._held.values())), written=False)
        return found

    def _hold(
        self,
        decisions: Sequence[Decision],
        asked: Mapping[Key, Mapping[str, Status]],
        *,
        open_: bool,
        late: str,
    ) -> Held:
        by_key = {decision.unit.key: decision for decision in decisions}
        waits = {
            key: self._room.add(d.unit, d.placements, d.cycle_state, asked[key])
            for key, d in by_key.items()
            if key in asked
        }
        since = min((waiting.since for waiting in waits.values()), default=0.0)
        held = Held(by_key, waits, open_, since, late)
        self._held.update(dict.fromkeys(by_key, held))
        return held

    def _give_back(self, reserved: Sequence[Decision]) -> None:
        for decision in reversed(reserved):
            runtime.unreserve(*self._about(decision))

    def _about(self, decision: Decision) -> runtime.About:
        profile = self._profiles[decision.unit.scheduler_name]
        return profile, decision.cycle_state, decision.unit, decision.placements


def waiting_status(held: Held, key: Key) -> Status:
    """Return the condition of a member of a waiting set; the same for as long as the set waits.

    Plugins that give the condition's reason also have all of its message.
    """
    own = [(w.reason, each) for w in held.waits.values() if w.reason for each in w.said]
    if own:
        return Status(Code.WAIT, tuple(dict.fromkeys(t for _, t in own)), reason=own[0][0])
    names = sorted({name for waiting in held.waits.values() for name in waiting.plugins})
    spans = [at - w.since for w in held.waits.values() for at in w.plugins.values()]
    said = [reason for waiting in held.waits.values() for reason in waiting.said]
    others = [k for k in held.waits if k != key]
    about = f" with {', '.join('/'.join(k) for k in others)}" if others else ""
    text = f"waits{about} for {', '.join(names)}, {max(spans, default=0.0):.0f} s at most"
    reasons = ("; ".join([text, *said]),)
    return Status(Code.WAIT, reasons, reason=ScheduledReason.WAITING_ON_PERMIT)


def _users(profiles: Mapping[str, Profile]) -> list[UsesWaitingWorkloads]:
    plugins = {
        id(plugin): plugin for profile in profiles.values() for plugin in profile.every_plugin()
    }
    return [plugin for plugin in plugins.values() if isinstance(plugin, UsesWaitingWorkloads)]
