"""Gangs in a world that never rests: nothing of a gang is written before all of its quorum is found.

Workloads come, change and go, clusters grow and shrink, time passes, what is held is completed,
interrupted or given back. What is decided is written at once, as the books see it either way.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import event
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)

from controller.framework.gathering import TrialResult
from controller.framework.waiting import PermitAnswer
from crds.workload import ScheduledReason
from machinery.types.metadata import Key
from tests.controller.features.workloadgroup.ganging import NS, Yard, group, member, room
from tests.examples import examples

SMALL, LARGE = (NS, "small"), (NS, "large")
MINIMUM = {SMALL: 3, LARGE: 10}
SECONDS = 10
NAMES = [f"{of}-{i}" for of in ("small", "large") for i in range(3)]
names = st.sampled_from(NAMES)


class Gangs(RuleBasedStateMachine):
    """Two gangs on three clusters; one of them may be held, as a tenth of its quorum is a unit."""

    def __init__(self) -> None:
        super().__init__()
        self.cpu = dict.fromkeys("abc", 4)
        self.yard = Yard(*(room(name, str(cpu)) for name, cpu in self.cpu.items()))
        for key, minimum in MINIMUM.items():
            self.yard.group(group(key[1], minimum, scheduleTimeoutSeconds=SECONDS))
        self.since: dict[Key, Any] = {}

    @initialize(estimating=st.booleans())
    def fill(self, estimating: bool) -> None:
        """Both gangs are complete; where nothing is estimated the attempts alone decide."""
        for name in NAMES:
            self.edit(name, 4 if name.startswith("large") else 1)
        if not estimating:
            self.yard.plugin._lacks = lambda *_: None  # type: ignore[method-assign] # see above

    def stored(self, name: str) -> Any:
        return self.yard.workloads.get((NS, name))

    def group_of(self, name: str) -> Key:
        return (NS, name.partition("-")[0])

    @rule(
        happens=st.lists(
            st.one_of(
                st.tuples(st.just("edit"), names, st.integers(0, 5)),
                st.tuples(st.just("delete"), names, st.just(0)),
                st.tuples(st.just("resize"), st.sampled_from("abc"), st.integers(1, 6)),
                st.tuples(st.just("later"), st.just(""), st.integers(1, 15)),
            ),
            max_size=2,
        ),
        turns=st.lists(names, min_size=1, max_size=4),
    )
    def goes_on(self, happens: list[tuple[str, str, int]], turns: list[str]) -> None:
        """Something happens, and then several Workloads have their turn."""
        for what, name, number in happens:
            getattr(self, what)(name, number)
        for name in turns:
            if self.stored(name) is not None:
                self.turn(name)

    def edit(self, name: str, replicas: int) -> None:
        """A Workload is there, with the shares that are written; one that is held is given back."""
        self.give_back(name)
        before = self.stored(name)
        present = {} if before is None else before.placements
        of = self.group_of(name)[1]
        made = member(name, replicas, of=of, cpu="1", present=present, decided="x-y-z")
        self.yard.store(made)

    def delete(self, name: str, _: int) -> None:
        if self.stored(name) is not None:
            self.give_back(name)
            self.yard.delete(name)

    def resize(self, name: str, cpu: int) -> None:
        old = room(name, str(self.cpu[name]))
        self.cpu[name] = cpu
        self.yard.world.cluster_changed(old, room(name, str(cpu)))
        self.yard.plugin.memory.cluster_changed()

    def later(self, _: str, seconds: int) -> None:
        self.yard.later(seconds)

    def turn(self, name: str) -> None:
        """What is held is carried on, given back, or decided anew."""
        waiting = self.yard.room.get((NS, name))
        if waiting is not None:
            answer = waiting.answer(self.yard.time.monotonic())
            if answer is PermitAnswer.ALLOWED:
                self.write_held(name)
                return
            self.give_back(name)
            if answer is not PermitAnswer.WAITING:
                return
        batch = self.yard.batch(name)
        event(str(batch.conclusion and batch.conclusion.verdict.outcome.value))
        found = self.yard.decide(name)
        assert all(each.message for each in found.values())
        self.judge(self.group_of(name), batch.conclusion)
        if not batch.held:
            for each in found.values():
                self.written(each.workload, each.placements)

    def judge(self, key: Key, conclusion: Any) -> None:
        """What is concluded keeps to the rules of the quorum."""
        if conclusion is None:
            return
        assigned, minimum = self.yard.groups.assigned(key), MINIMUM[key]
        outcome, status = conclusion.verdict.outcome, conclusion.verdict.status
        if outcome is TrialResult.PLACE:
            assert assigned >= minimum
        elif outcome is TrialResult.WAIT:
            assert 0 < minimum - assigned <= minimum // 10
            self.since.setdefault(key, self.yard.time.at)
            assert self.yard.time.at + timedelta(seconds=status.seconds) <= (
                self.since[key] + timedelta(seconds=SECONDS)
            )
        elif status.reason is not ScheduledReason.WAITING_FOR_GROUP and conclusion.tried:
            waiting = [self.yard.room.get(k) for k in self.yard.groups.members(key)]
            assert all(each is None or each.rejected for each in waiting)

    def written(self, info: Any, placements: Any) -> None:
        """More of a member is written only beside its quorum."""
        key = self.group_of(info.name)
        if sum(placements.values()) > sum(info.present.values()):
            assert self.yard.groups.assigned(key) >= MINIMUM[key]
            self.since.pop(key, None)
        before = self.stored(info.name)
        after = member(
            info.name,
            info.replicas,
            of=key[1],
            cpu="1",
            present={c: n for c, n in placements.items() if n},
            decided=before.info.hash,
        )
        self.yard.store(after)

    def held_with(self, name: str) -> list[str]:
        """The members of its gang that are held, if it is one of them."""
        if self.yard.room.get((NS, name)) is None:
            return []
        own = [n for n in NAMES if self.group_of(n) == self.group_of(name)]
        return [n for n in own if self.yard.room.get((NS, n)) is not None]

    def write_held(self, name: str) -> None:
        waiting = self.yard.room.remove((NS, name))
        assert waiting is not None
        self.written(waiting.workload, waiting.placements)

    def give_back(self, name: str) -> None:
        for each in self.held_with(name):
            if self.yard.room.get((NS, each)).answer(0) is not PermitAnswer.ALLOWED:
                self.yard.give_back(each)
        self.since.pop(self.group_of(name), None)

    @invariant()
    def nothing_is_held_without_most_of_a_quorum(self) -> None:
        for key, minimum in MINIMUM.items():
            members = self.yard.groups.members(key)
            if any(self.yard.room.get(k) for k in members if not self.answered(k)):
                assert self.yard.groups.assigned(key) >= minimum - minimum // 10

    def answered(self, key: Key) -> bool:
        waiting = self.yard.room.get(key)
        return waiting is None or waiting.answer(0) in (PermitAnswer.ALLOWED, PermitAnswer.REJECTED)


TestGangs = pytest.mark.proves("G5", "G16")(Gangs.TestCase)
TestGangs.settings = examples(120, stateful_step_count=20)
