"""Whatever happens in whatever order, a rollout keeps its promises."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from controller.features.rollout.machine import RolloutStep
from crds.fields.rollout import BACK
from machinery.types.budget import amount
from machinery.types.workload_api import Rollout, RolloutApproval, RolloutStatus, RolloutWave
from tests.controller.features.rollout.road import BEGINNING, OLD, Road
from tests.examples import examples

NAMES = [f"m{n}" for n in range(7)]
REVISIONS = [digit * 16 for digit in "bcd"]
MIN_READY, DEADLINE = 5, 40
CLUSTER = st.sampled_from(NAMES)
WAVE = st.integers(0, 2)
MOST = st.sampled_from([1, 2, "50%", "100%"])


class Rollouts(RuleBasedStateMachine):
    """Two waves and the rest; `starts` counts the updates of each cluster in one rollout."""

    def __init__(self) -> None:
        super().__init__()
        self.road = Road(clusters=[])
        self.starts: Counter[str] = Counter()
        self.shown: dict[str, float] = {}
        """Since when each cluster is seen settled with the revision of the rollout."""
        self.done: set[str] = set()
        """Clusters that were seen so for long enough in this rollout."""

    @initialize(most=st.tuples(MOST, MOST), soak=st.sampled_from([0, 10]), approval=st.booleans())
    def begin(self, most: tuple[Any, Any], soak: int, approval: bool) -> None:
        waves = [
            RolloutWave("w0", max_concurrent=most[0], soak_seconds=soak),
            RolloutWave("w1", max_concurrent=most[1], approval=approval),
        ]
        clusters = [(name, n % 3) for n, name in enumerate(NAMES[:5])]
        pace = {"min_ready_seconds": MIN_READY, "progress_deadline_seconds": DEADLINE}
        self.road = Road(*waves, clusters=clusters, **pace)

    def _look(self) -> None:
        before, held = self.road.status, dict(self.road.exceptions)
        waves = {name: each.wave for name, each in self.road.clusters.items()}
        step = self._seen(before, held)
        assert self.road.status is not None
        had = (None, self.road.status.revision)  # what has it is not started
        started = {e.cluster for e in self.road.status.updates if held.get(e.cluster) not in had}
        started = {name for name in started if name not in self.road.exceptions}
        self._concurrency(waves, started)
        self._halts(started)
        self._back(step)
        for _ in range(2):  # at rest after one look more
            self._seen(self.road.status, dict(self.road.exceptions))
        rest = (self.road.status, dict(self.road.exceptions))
        again = self.road.look()
        assert (self.road.status, self.road.exceptions) == rest
        assert not again.events

    def _seen(self, before: RolloutStatus | None, held: dict[str, str]) -> RolloutStep:
        """One look, and what every one keeps to."""
        road = self.road
        self._watch()
        step = road.look()
        assert road.status is not None
        if any(event.reason == "RolloutStarted" for event in step.events):
            self.starts.clear()
            self.done.clear()
            self.shown.clear()
            self._watch()
        else:
            for name in held.keys() - road.exceptions.keys():
                if name in road.clusters and road.phase not in {"Complete", *BACK}:
                    self.starts[name] += 1
        assert all(number == 1 for number in self.starts.values()), "a cluster twice"
        self._healthy(before)
        self._left(held, before)
        self._waves(before)
        return step

    def _watch(self) -> None:
        road = self.road
        assert road.status is not None
        for name, each in road.clusters.items():
            good = each.reachable and each.settled and each.revision == road.status.revision
            if not (good and road.target(name) == road.status.revision):
                self.shown.pop(name, None)
            elif road.seconds - self.shown.setdefault(name, road.seconds) >= MIN_READY:
                self.done.add(name)

    def _healthy(self, before: RolloutStatus | None) -> None:
        """No cluster counts as healthy that was not seen so."""
        road = self.road
        assert road.status is not None
        if before is None or before.revision != road.status.revision or road.phase in BACK:
            return
        updated = {each.cluster for each in before.updates}
        after = {each.cluster for each in road.status.updates}
        for name in (updated - after) & road.clusters.keys():
            left = road.clusters[name].leaving or name in road.exceptions
            rests = "Complete" in {before.phase, road.phase}
            assert left or name in self.done or (rests and self._away_or_late(name)), name

    def _away_or_late(self, name: str) -> bool:
        return not self.road.clusters[name].reachable or name not in self.done

    def _left(self, held: dict[str, str], before: RolloutStatus | None) -> None:
        """What is leaving keeps its revision, but for a rollback."""
        road = self.road
        for name, each in road.clusters.items():
            if each.leaving and before is not None and road.phase not in BACK:
                assert road.target(name) == held.get(name, before.revision)

    def _waves(self, before: RolloutStatus | None) -> None:
        """A wave is left only once its clusters are healthy or away, and one of them is healthy."""
        road = self.road
        names = ["w0", "w1", "rest"]
        if before is None or before.phase in {"Complete", *BACK} or road.phase in BACK:
            return
        assert road.status is not None
        if road.status.revision != before.revision or not before.wave:
            return
        held = [each for each in road.clusters.values() if not each.leaving]
        assert held or road.phase != "Complete", "complete, and no cluster ever had it"
        last = 3 if road.phase == "Complete" else names.index(road.status.wave)
        assert last >= names.index(before.wave), "no way back"
        ended = {each.name for each in before.waves if each.end_time is not None}
        for wave in range(names.index(before.wave), last):
            members = [e for e in road.clusters.values() if e.wave == wave and not e.leaving]
            waits = [e.name for e in members if e.reachable and not self._is_healthy(e.name)]
            assert names[wave] in ended or not waits, "a wave that is not done was left"
            well = any(self._is_healthy(e.name) for e in members)
            assert names[wave] in ended or well or not members, "none of it became healthy"

    def _is_healthy(self, name: str) -> bool:
        assert self.road.status is not None
        waits = name in self.road.exceptions
        return not (waits or any(each.cluster == name for each in self.road.status.updates))

    def _concurrency(self, waves: dict[str, int], started: set[str]) -> None:
        """No start exceeds what its wave may have on its way."""
        road = self.road
        assert road.status is not None
        pace = [*road.spec.waves, RolloutWave("rest")]
        way = {e.cluster for e in road.status.updates if e.failed_time is None}
        way = {name for name in way if road.clusters[name].reachable}
        for wave in {waves[name] for name in started}:
            members = {e.name for e in road.clusters.values() if e.wave == wave and not e.leaving}
            most = max(amount(pace[wave].max_concurrent, len(members), up=True), 1)
            assert len(way & members) <= most, "too many at once"

    def _halts(self, started: set[str]) -> None:
        if self.road.phase in {"Failed", "Paused", *BACK}:
            assert not started, "it is held"

    def _back(self, step: RolloutStep) -> None:
        if self.road.phase in BACK:
            assert set(step.exceptions.values()) <= {step.status.stable}
            assert step.exceptions.keys() == self.road.clusters.keys()

    # What happens.

    @rule(digest=st.sampled_from([OLD, *REVISIONS]))
    def edit(self, digest: str) -> None:
        self.road.digest = digest
        self._look()

    @rule(seconds=st.sampled_from([1, 5, 10, 50]))
    def wait(self, seconds: int) -> None:
        self.road.seconds += seconds
        self._look()

    @rule(names=st.sets(CLUSTER), seconds=st.sampled_from([1, 5]))
    def obey(self, names: set[str], seconds: int) -> None:
        self.road.obey(*(names & self.road.clusters.keys()))
        self._look()
        self.road.seconds += seconds
        self._look()

    @rule(name=CLUSTER)
    def flap(self, name: str) -> None:
        if name in self.road.clusters:
            self.road.see(name, settled=False)
            self._look()

    @rule(name=CLUSTER)
    def road_is_cut(self, name: str) -> None:
        if name in self.road.clusters:
            self.road.see(name, reachable=not self.road.clusters[name].reachable)
            self._look()

    @rule(name=CLUSTER, wave=WAVE, decided=st.booleans())
    def join(self, name: str, wave: int, decided: bool) -> None:
        if name not in self.road.clusters:
            if decided:
                self.road.admit(name, wave)
            else:
                self.road.place(name, wave)
            self.starts.pop(name, None)
            self.done.discard(name)
            self._look()

    @rule(name=CLUSTER)
    def leave(self, name: str) -> None:
        if name in self.road.clusters:
            if self.road.clusters[name].leaving:
                del self.road.clusters[name]
                self.starts.pop(name, None)
            else:
                self.road.see(name, leaving=True)
            self._look()

    @rule(name=CLUSTER, wave=WAVE)
    def relabel(self, name: str, wave: int) -> None:
        if name in self.road.clusters:
            self.road.see(name, wave=wave)
            self._look()

    @rule(fields=st.sampled_from([{"paused": True}, {"paused": False}]))
    def pause(self, fields: dict[str, bool]) -> None:
        self.road.spec = _with(self.road, **fields)
        self._look()

    @rule(policy=st.sampled_from(["Pause", "Rollback"]))
    def decide(self, policy: str) -> None:
        self.road.spec = _with(self.road, on_failure=policy)
        self._look()

    @rule(back=st.booleans())
    def abort(self, back: bool) -> None:
        self.road.spec = _with(self.road, aborted=self.road.digest if back else "")
        self._look()

    @rule()
    def retry(self) -> None:
        now = BEGINNING + timedelta(seconds=self.road.seconds)
        self.road.spec = _with(self.road, retry_after=now)
        self._look()

    @rule()
    def approve(self) -> None:
        given = [RolloutApproval(self.road.digest, "w1")]
        self.road.spec = _with(self.road, approvals=given)
        self._look()

    @precondition(lambda self: self.road.clusters)
    @rule()
    def all_goes_well(self) -> None:
        """With nothing in its way every rollout ends."""
        road = self.road
        given = [RolloutApproval("e" * 16, "w1")]
        road.spec = _with(road, paused=False, aborted="", approvals=given)
        for name in road.clusters:
            road.see(name, reachable=True)
        road.digest = "e" * 16
        self._look()
        for _ in range(30):
            road.obey()
            road.seconds += MIN_READY
            self._look()
        held = [each for each in road.clusters.values() if not each.leaving]
        assert road.phase == "Complete" or not (held and road.status.stable)
        assert all(road.target(each.name) == road.digest for each in held)
        road.digest = OLD if road.digest != OLD else REVISIONS[0]
        self._look()


def _with(road: Road, **fields: Any) -> Rollout:
    return msgspec.structs.replace(road.spec, **fields)


TestRollouts = pytest.mark.proves("T1", "T2", "T8", "T12", "T14", "T18", "T21")(Rollouts.TestCase)
TestRollouts.settings = examples(250, stateful_step_count=30)
