"""The wave machine: which clusters have the new revision, and which get it next. Pure.

A cluster is in one of these states:

    waits      an exception of the status gives it another revision
    on its way it was given the revision, and `updates` has since when
    failed     as before, and `updates` has when its deadline passed
    healthy    it was given the revision, and is in neither of both
    deferred   it waits or is on its way, and is unreachable: its wave does not wait for it
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from controller.framework.statuswriter import StatusEvent
from crds.fields.rollout import BACK, MOST_NAMES, REST, RolloutFailure, RolloutPhase
from crds.names import short_revision
from crds.workload import EventReason
from machinery.types.budget import amount
from machinery.types.workload_api import (
    ClusterUpdate,
    Rollout,
    RolloutStatus,
    RolloutWave,
    WaveStatus,
)


@dataclass(frozen=True, slots=True)
class RolloutCluster:
    """A cluster with a share of the Workload, or that its last replicas leave.

    Args:
        wave: the index of its wave; the number of waves for the rest.
        leaving: it has no share any more.
        revision: the last one written there completely; empty if unknown.
        settled: all replicas of its share are updated and ready.
        ready: replicas that are updated and ready.
        note: the propagator's message.
        runs: some replicas run, of any revision.
        suspended: spec.suspend selects it, so nothing is written there.
    """

    name: str
    wave: int = 0
    reachable: bool = True
    leaving: bool = False
    revision: str = ""
    settled: bool = False
    units: int = 0
    ready: int = 0
    note: str = ""
    runs: bool = False
    suspended: bool = False


@dataclass(frozen=True, slots=True)
class RolloutView:
    """The input of one look at a rollout.

    Args:
        stored: status.rollout; None before the first look.
        exceptions: the revisions of clusters that differ from that of `stored`.
        clusters: those that hold something, by name.
        now: None in a decision, which reads no clock.
        lost: why the stable revision is unavailable, or empty.
        open_waves: the waves with a cluster that may get a share.
    """

    spec: Rollout
    stored: RolloutStatus | None
    exceptions: Mapping[str, str]
    clusters: Sequence[RolloutCluster]
    now: datetime | None = None
    lost: str = ""
    open_waves: frozenset[int] = frozenset()

    @property
    def unknown(self) -> bool:
        return self.stored is None and any(
            each.runs and not each.revision for each in self.clusters if each.reachable
        )


@dataclass(frozen=True, slots=True)
class RolloutStep:
    """`wait` are the seconds until time alone changes the status."""

    status: RolloutStatus
    exceptions: Mapping[str, str]
    events: Sequence[StatusEvent]
    wait: float | None
    failed: Sequence[RolloutCluster] = ()
    """The clusters that missed the deadline."""
    updating: Sequence[RolloutCluster] = ()
    lost: str = ""
    """Why a due rollback is impossible, or empty."""
    away: Sequence[RolloutCluster] = ()
    """The clusters that do not answer, and get the revision when they do."""


@dataclass(slots=True)
class _Times:
    started: datetime | None = None
    ended: datetime | None = None


@dataclass(slots=True)
class Machine:
    """One look at a rollout. Call `step` or `admit`, once."""

    view: RolloutView
    digest: str
    """The revision of the spec."""
    phase: str = RolloutPhase.PROGRESSING
    revision: str = ""
    stable: str = ""
    wave: int = 0
    exceptions: dict[str, str] = field(default_factory=dict)
    updates: dict[str, ClusterUpdate] = field(default_factory=dict)
    _times: dict[str, _Times] = field(default_factory=dict)
    _events: list[StatusEvent] = field(default_factory=list)
    _soaked: datetime | None = None
    """The end of the wave's soak, if in the future."""
    _lost: str = ""
    _waves: list[RolloutWave] = field(default_factory=list)
    _members: list[list[RolloutCluster]] = field(default_factory=list)
    _deferred: set[str] = field(default_factory=set)
    """The clusters that the status lists as deferred."""

    def __post_init__(self) -> None:
        stored = self.view.stored or RolloutStatus(RolloutPhase.PROGRESSING, self.digest)
        here = {each.name for each in self.view.clusters}
        held = {each.name for each in self.view.clusters if not each.leaving}
        self.phase, self.revision, self.stable = stored.phase, stored.revision, stored.stable
        self.exceptions = {c: r for c, r in self.view.exceptions.items() if c in here}
        # A failed cluster halts the rollout even after its units left.
        self.updates = {
            each.cluster: each
            for each in stored.updates
            if each.cluster in held or each.failed_time is not None
        }
        self._waves = [*self.view.spec.waves, RolloutWave(REST)]
        self._members = [[] for _ in self._waves]
        for each in self._held():
            self._members[min(each.wave, len(self._waves) - 1)].append(each)
        names = [each.name for each in self._waves]
        self.wave = names.index(stored.wave) if stored.wave in names else 0
        if self.phase == RolloutPhase.COMPLETE:
            self.wave = len(self._waves) - 1
        self._times = {w.name: _Times(w.start_time, w.end_time) for w in stored.waves}
        self._deferred = {name for each in stored.waves for name in each.deferred}

    # Entry points.

    def step(self) -> RolloutStep:
        if not self.stable:
            self._find_stable()
        self._take()
        if self.phase not in BACK:
            self._try_again()
            self._progress()
        if self._rolls_back():
            self._roll_back()
        elif not self.stable:
            self._first()
        else:
            self._advance()
        return self._outcome()

    def admit(self, newcomers: Iterable[str]) -> RolloutStep:
        """Return the status with clusters that a decision adds.

        A cluster of a reached wave gets the revision, any other the stable one. The next `step`
        starts the former's time.
        """
        coming = frozenset(newcomers)
        if self.phase in BACK:
            self.exceptions |= dict.fromkeys(coming, self.stable)
        elif self.stable and self.phase != RolloutPhase.COMPLETE:
            for each in self._held():
                if each.name in coming and each.name not in self.exceptions:
                    self._admit(each)
        return self._outcome()

    # The revision.

    def _find_stable(self) -> None:
        found = Counter(
            each.revision
            for each in self._held()
            if each.runs and each.revision not in ("", self.digest)
        )
        if not found:
            return
        self.stable = min(found, key=lambda each: (-found[each], each))
        self.exceptions = {e.name: e.revision or self.stable for e in self.view.clusters}
        self.revision = ""  # nothing was staged, so list every cluster

    def _take(self) -> None:
        again = (
            self.phase in BACK and not self._halted() and self.view.spec.aborted != self.revision
        )
        if self.digest == self.revision and not again:
            return
        if self.digest != self.stable and not self._held():
            self.stable = ""  # no cluster runs it: a first placement
        if not self.stable or self.digest == self.stable:
            self._everywhere()
        else:
            self._begin()

    def _everywhere(self) -> None:
        leaving = {c.name: self.target(c.name) for c in self.view.clusters if c.leaving}
        self.exceptions = {c: r for c, r in leaving.items() if r != self.digest}
        self._restart(self.digest)
        if self.stable:
            self.phase = RolloutPhase.COMPLETE
            self._tell(
                EventReason.ROLLOUT_COMPLETE,
                f"{short_revision(self.digest)} is the stable revision",
            )

    def _begin(self) -> None:
        targets = {each.name: self.target(each.name) for each in self.view.clusters}
        self.exceptions = {c: r for c, r in targets.items() if r != self.digest}
        self._restart(self.digest)
        for each in self._held():
            ready = each.revision == self.digest and each.settled
            if each.name not in self.exceptions and not ready:  # it was on its way before
                self.updates[each.name] = ClusterUpdate(each.name, self.view.now)
        text = (
            f"{short_revision(self.stable)} → {short_revision(self.digest)}, {self._named_waves()}"
        )
        self._tell(EventReason.ROLLOUT_STARTED, text)

    def _restart(self, revision: str) -> None:
        self.revision, self.phase, self.wave = revision, RolloutPhase.PROGRESSING, 0
        self.updates, self._times, self._deferred = {}, {}, set()

    def _first(self) -> None:
        self.exceptions = {c: r for c, r in self.exceptions.items() if c in self._leaving()}
        there = [each for each in self._held() if each.reachable]
        if there and all(each.revision == self.revision and each.settled for each in there):
            self._complete()

    def _complete(self) -> None:
        self.stable, self.phase = self.revision, RolloutPhase.COMPLETE
        self.updates, self._times = {}, {}
        have = len(self._held()) - len(self._away())
        text = f"{_have(have)} {short_revision(self.revision)}"
        self._tell(EventReason.ROLLOUT_COMPLETE, text)

    # Rollback.

    def _rolls_back(self) -> bool:
        if self.phase in BACK:
            return True
        if not self.stable or self.stable == self.revision:
            return False
        fails = self.view.spec.on_failure == RolloutFailure.ROLLBACK and self._halted()
        return fails or self._aborted()

    def _aborted(self) -> bool:
        return self.view.spec.aborted == self.revision

    def _roll_back(self) -> None:
        if self.phase not in BACK:
            self._tell_failure()
            if self.view.lost:
                self.phase, self._lost = RolloutPhase.FAILED, self.view.lost
                return
            # Failures stay in the status, which tells this rollback from one for an abort.
            kept = {} if self._aborted() else {each.name: each for each in self._failed()}
            self.updates = {c: u for c, u in self.updates.items() if c in kept}
            self.phase = RolloutPhase.ROLLING_BACK
            text = f"all clusters get {short_revision(self.stable)} again"
            self._tell(EventReason.ROLLING_BACK, text, warning=True)
        elif self.phase == RolloutPhase.ROLLING_BACK and self._is_back():
            self.phase = RolloutPhase.ROLLED_BACK
            text = f"all clusters have {short_revision(self.stable)}; edit the Workload to go on"
            self._tell(EventReason.ROLLED_BACK, text)
        self.exceptions = {each.name: self.stable for each in self.view.clusters}

    def _is_back(self) -> bool:
        there = (each for each in self._held() if each.reachable)
        return all(each.revision == self.stable and each.settled for each in there)

    # Waves.

    def _advance(self) -> None:
        if self.phase == RolloutPhase.COMPLETE:
            self._start()  # clusters that were away return
            return
        for each in self._unknown():
            self._admit(each)
        self._start()
        while (gate := self._gate()) is None:
            self.wave += 1
            self._start()
        if gate == RolloutPhase.COMPLETE:
            self._complete()
            return
        self._settle(gate)

    def _settle(self, gate: str) -> None:
        self._tell_failure()
        before, self.phase = self.phase, self._phase(gate)
        stored = self.view.stored
        asked = before == self.phase and stored is not None and stored.wave == self._name()
        if self.phase == RolloutPhase.AWAITING_APPROVAL and not asked:
            done = "is complete" if self._members[self.wave] else "has no cluster"
            text = f"wave {self._name()} {done}; the next one waits for an approval"
            self._tell(EventReason.APPROVAL_NEEDED, text)

    def _phase(self, gate: str) -> str:
        if self._halted():
            return RolloutPhase.FAILED
        return RolloutPhase.PAUSED if self.view.spec.paused else gate

    def _gate(self) -> str | None:
        """Return the phase that the wave stays in, or Complete; None to advance."""
        if self._halted() or not self._held():  # an empty rollout proves nothing
            return RolloutPhase.PROGRESSING
        members, wave = self._members[self.wave], self._waves[self.wave]
        if not self._is_followed() and not members:
            return self._end()
        if not members:
            return self._gate_of_none(wave)
        if not self._wave_is_done(members):
            return RolloutPhase.PROGRESSING
        ended = self._end_of(wave)
        if not self._is_followed():
            return self._end()
        if (soaked := ended + timedelta(seconds=wave.soak_seconds)) > self._now():
            self._soaked = soaked
            return RolloutPhase.SOAKING
        if wave.approval:
            return None if self._approved(wave) else RolloutPhase.AWAITING_APPROVAL
        # Without approval, an unobserved end of a soak proves nothing.
        seen = not wave.soak_seconds or any(map(self._shows_health, members))
        return None if seen else RolloutPhase.PROGRESSING

    def _is_followed(self) -> bool:
        later = any(self._members[self.wave + 1 :])
        return later or any(wave > self.wave for wave in self.view.open_waves)

    def _gate_of_none(self, wave: RolloutWave) -> str | None:
        times, stored = self._times.get(wave.name, _Times()), self.view.stored
        was = (stored.phase, stored.wave) if stored is not None else None
        # The status has this phase only if a look saw the end of the soak.
        soaked = times.ended and was == (RolloutPhase.AWAITING_APPROVAL, wave.name)
        if wave.soak_seconds and not soaked:
            times.ended = None  # nothing soaks: a newcomer starts over
            return RolloutPhase.PROGRESSING
        return None if self._approved(wave) else RolloutPhase.AWAITING_APPROVAL

    def _shows_health(self, cluster: RolloutCluster) -> bool:
        return cluster.reachable and self.healthy(cluster.name)

    def _end(self) -> str:
        done = all(map(self._is_done, self._held()))
        return RolloutPhase.COMPLETE if done else RolloutPhase.PROGRESSING

    def _wave_is_done(self, members: Sequence[RolloutCluster]) -> bool:
        ended = self._times.get(self._name(), _Times()).ended is not None
        # A newcomer to a wave that has ended does not reopen it.
        return ended or (
            all(map(self._is_done, members)) and any(self.healthy(each.name) for each in members)
        )

    def _is_done(self, cluster: RolloutCluster) -> bool:
        return self.healthy(cluster.name) or not cluster.reachable

    def _end_of(self, wave: RolloutWave) -> datetime:
        times = self._times.setdefault(wave.name, _Times())
        if times.ended is None:
            times.ended = self._now()
            have = _have(len(self._members[self.wave]))
            text = f"wave {wave.name}: {have} {short_revision(self.revision)}"
            self._tell(EventReason.WAVE_COMPLETE, text)
        return times.ended

    def _approved(self, wave: RolloutWave) -> bool:
        given = ((each.revision, each.wave) for each in self.view.spec.approvals)
        return not wave.approval or (self.revision, wave.name) in given

    # Clusters on their way.

    def _try_again(self) -> None:
        after = self.view.spec.retry_after
        given = {each.name for each in self._held()} - self.exceptions.keys()
        for name, each in list(self.updates.items()):
            if after is None or each.failed_time is None or each.failed_time >= after:
                continue
            del self.updates[name]
            if name in given:  # else its units have left it
                self.updates[name] = ClusterUpdate(name, self.view.now)

    def _progress(self) -> None:
        clusters = {each.name: each for each in self.view.clusters}
        for name, update in list(self.updates.items()):
            if update.failed_time is None:
                after = self._progressed(clusters[name], update)
                self.updates.pop(name) if after is None else self.updates.update({name: after})

    def _progressed(self, cluster: RolloutCluster, update: ClusterUpdate) -> ClusterUpdate | None:
        has = cluster.settled and cluster.revision == self.revision
        if not cluster.reachable or (cluster.suspended and not has):
            return ClusterUpdate(cluster.name)  # its time begins when it is written there
        now = self._now()
        start = update.start_time or now
        ready = None
        if has:
            ready = update.ready_time or now
            if ready + self._ready_after() <= now:
                return None
        if start + self._deadline() <= now:
            # Outside of a rollout nothing fails: the cluster counts as healthy.
            rests = self.phase == RolloutPhase.COMPLETE
            return None if rests else ClusterUpdate(cluster.name, start, ready, now)
        return ClusterUpdate(cluster.name, start, ready)

    def _unknown(self) -> Iterator[RolloutCluster]:
        for each in self._held():
            known = each.name in self.exceptions or each.name in self.updates
            if not known and each.revision != self.revision:
                yield each

    def _admit(self, cluster: RolloutCluster) -> None:
        # Anything written there before had the revision, which is not taken back.
        free = self._opens() and self._may_start(cluster) and self._free(cluster.wave) > 0
        if cluster.revision or free:
            self.updates[cluster.name] = ClusterUpdate(cluster.name, self.view.now)
        else:
            self.exceptions[cluster.name] = self.stable

    def _start(self) -> None:
        reached = self._members[: self.wave + 1] if self._opens() else []
        for wave, members in enumerate(reached):
            waiting = [e for e in members if e.name in self.exceptions and self._may_start(e)]
            waiting.sort(key=self._turn)
            for each in waiting[: max(self._free(wave), 0)]:
                del self.exceptions[each.name]
                self.updates[each.name] = ClusterUpdate(each.name, self.view.now)
            if self.phase != RolloutPhase.COMPLETE and any(map(self._on_its_way, members)):
                self._started(wave)

    def _started(self, wave: int) -> None:
        times = self._times.setdefault(self._waves[wave].name, _Times())
        if times.started is None:
            times.started = self.view.now
            text = f"wave {self._waves[wave].name} of {self._count(wave)}"
            self._tell(EventReason.WAVE_STARTED, text)

    def _turn(self, cluster: RolloutCluster) -> tuple[bool, bool, str]:
        there = self.exceptions[cluster.name] == self.stable
        return cluster.name not in self._deferred, there, cluster.name

    def _opens(self) -> bool:
        return not self.view.spec.paused and not self._halted()

    def _halted(self) -> bool:
        return any(each.failed_time is not None for each in self.updates.values())

    def _may_start(self, cluster: RolloutCluster) -> bool:
        return cluster.wave <= self.wave and cluster.reachable

    def _free(self, wave: int) -> int:
        members = self._members[min(wave, len(self._waves) - 1)]
        most = max(amount(self._waves[wave].max_concurrent, len(members), up=True), 1)
        return most - sum(self._on_its_way(each) for each in members)

    def _on_its_way(self, cluster: RolloutCluster) -> bool:
        update = self.updates.get(cluster.name)
        return update is not None and update.failed_time is None and cluster.reachable

    def _failed(self) -> list[RolloutCluster]:
        failed = sorted(c for c, each in self.updates.items() if each.failed_time is not None)
        there = {each.name: each for each in self.view.clusters} if failed else {}
        return [there.get(name, RolloutCluster(name)) for name in failed]

    def healthy(self, name: str) -> bool:
        return name not in self.exceptions and name not in self.updates

    def target(self, name: str) -> str:
        return self.exceptions.get(name, self.revision)

    # Output.

    def _outcome(self) -> RolloutStep:
        moves = self.stable and self.phase not in {*BACK, RolloutPhase.COMPLETE}
        status = RolloutStatus(
            phase=str(self.phase),
            revision=self.revision,
            stable=self.stable,
            wave=self._name() if moves else "",
            waves=[self._wave_status(at) for at in self._told_waves()] if moves else [],
            updates=[self.updates[name] for name in sorted(self.updates)],
        )
        updating = [each for each in self._held() if self._on_its_way(each)]
        return RolloutStep(
            status,
            self.exceptions,
            self._events,
            self._wait(),
            self._failed(),
            updating,
            self._lost,
            self._away(),
        )

    def _away(self) -> list[RolloutCluster]:
        return [c for c in self._held() if not (c.reachable or self.healthy(c.name))]

    def _wait(self) -> float | None:
        due = [] if self._soaked is None else [self._soaked]
        for each in self.updates.values():
            if each.start_time is not None and each.failed_time is None:
                due.append(each.start_time + self._deadline())
            if each.ready_time is not None and each.failed_time is None:
                due.append(each.ready_time + self._ready_after())
        now = self.view.now
        return (min(due) - now).total_seconds() if due and now is not None else None

    def _deadline(self) -> timedelta:
        return timedelta(seconds=self.view.spec.progress_deadline_seconds)

    def _ready_after(self) -> timedelta:
        return timedelta(seconds=self.view.spec.min_ready_seconds)

    def _told_waves(self) -> list[int]:
        return [at for at, w in enumerate(self._waves) if w.name != REST or self._members[at]]

    def _wave_status(self, at: int) -> WaveStatus:
        name, members = self._waves[at].name, self._members[at]
        times, failed = self._times.get(name, _Times()), {each.name for each in self._failed()}
        away = [c for c in members if c.name not in failed and self._is_deferred(c)]
        return WaveStatus(
            name,
            clusters=len(members),
            healthy=sum(self.healthy(each.name) for each in members),
            updating=_some(c for c in members if self._on_its_way(c)),
            failed=_some(c for c in members if c.name in failed),
            deferred=_some(away),
            start_time=times.started,
            end_time=times.ended,
        )

    def _is_deferred(self, cluster: RolloutCluster) -> bool:
        # A returned cluster stays deferred until its turn, which is the next one.
        back = cluster.name in self._deferred and cluster.name in self.exceptions
        return back or not (cluster.reachable or self.healthy(cluster.name))

    def _tell(self, reason: EventReason, note: str, *, warning: bool = False) -> None:
        self._events.append(StatusEvent(reason, note, warning=warning))

    def _tell_failure(self) -> None:
        failed = self._failed()
        if failed and self.phase != RolloutPhase.FAILED:
            note, names = failure(failed, self.view.spec), tuple(each.name for each in failed)
            self._events.append(StatusEvent(EventReason.ROLLOUT_FAILED, note, True, names))

    def _held(self) -> list[RolloutCluster]:
        return [each for each in self.view.clusters if not each.leaving]

    def _leaving(self) -> set[str]:
        return {each.name for each in self.view.clusters if each.leaving}

    def _name(self) -> str:
        return self._waves[self.wave].name

    def _count(self, wave: int) -> str:
        return _clusters(len(self._members[wave]))

    def _named_waves(self) -> str:
        counts = (f"{self._waves[at].name} ({self._count(at)})" for at in self._told_waves())
        return "waves " + ", ".join(counts)

    def _now(self) -> datetime:
        assert self.view.now is not None  # noqa: S101 - `step` alone asks, and is given one
        return self.view.now


def _clusters(number: int) -> str:
    return f"{number} {'cluster' if number == 1 else 'clusters'}"


def _have(number: int) -> str:
    return f"{_clusters(number)} {'has' if number == 1 else 'have'}"


def failure(failed: Sequence[RolloutCluster], spec: Rollout) -> str:
    first, more = failed[0], len(failed) - 1
    text = f"{first.name} was not healthy within {spec.progress_deadline_seconds}s"
    text += f": {first.note}" if first.note else ""
    return text + (f"; and {more} more" if more else "")


def _some(clusters: Iterable[RolloutCluster]) -> list[str]:
    return [each.name for each in clusters][:MOST_NAMES]
