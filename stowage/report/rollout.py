"""`stowage rollout`: how far a rollout has come, the edits that a person may make, and the wait.

Progress is read from the Workload alone. The controller's status counts only for the revision that
it names: after an edit the rollout is neither complete nor failed until the controller has seen it.
An edit is made of the Workload as it was read. A verb that was carried out already edits nothing;
one that would do nothing at all is refused with the reason. The rollout goes on without the
command.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import click

from crds.fields.rollout import BACK, MOST_APPROVALS, MOST_NAMES, RolledOutReason, RolloutPhase
from crds.names import short_revision
from crds.workload import WorkloadCondition
from machinery.api.client import ApiClient
from machinery.api.resources import WORKLOADS
from machinery.clock import Clock, SystemClock, timestamp
from machinery.config.kubeconfig import Connection
from machinery.errors import (
    ConfigurationError,
    NotFound,
    ServerError,
    TooManyRequests,
    Unreachable,
)
from machinery.kinds.revisions import digest_of, revision_data
from machinery.types import conditions
from machinery.types.metadata import Key
from stowage.console import output
from stowage.console.terminal import say
from stowage.console.words import seconds, time, transition
from stowage.hub import edit, reader
from stowage.kinds import Reference
from stowage.report.history import stored
from stowage.simulation.waves import at_once, needs_approval, soak

Json = Mapping[str, Any]
COLUMNS = ("wave", "clusters", "healthy", "updating", "failed", "deferred", "state")
NAMED = 3
"""Clusters that a cell names."""
UNSEEN = "the controller has not seen the last edit yet"
_IN_A_WAVE = frozenset(
    {
        RolloutPhase.PROGRESSING,
        RolloutPhase.SOAKING,
        RolloutPhase.AWAITING_APPROVAL,
        RolloutPhase.PAUSED,
        RolloutPhase.FAILED,
    }
)
_STOPPED = frozenset({RolloutPhase.PAUSED, RolloutPhase.FAILED, RolloutPhase.ROLLED_BACK})
_NEXT = {
    RolloutPhase.AWAITING_APPROVAL: "`stowage rollout approve` lets it go on",
    RolloutPhase.PAUSED: "`stowage rollout resume` lets it go on",
    RolloutPhase.FAILED: "`stowage rollout retry` tries once more, `stowage rollout abort` goes "
    "back to the stable revision, an edit of the template begins anew",
    RolloutPhase.ROLLED_BACK: "an edit of the template begins a new rollout",
}


@dataclass(frozen=True, slots=True)
class RolloutProgress:
    """The rollout of one Workload.

    Args:
        key: the Workload.
        generation: that of its spec.
        revision: the digest of its spec.
        asked: spec.rollout.
        told: status.rollout, of whichever revision.
        said: the condition RolledOut.
        now: the hub's time.
    """

    key: Key
    generation: int
    revision: str
    asked: Json
    told: Json
    said: Json
    now: datetime

    @classmethod
    def of(cls, body: Json, now: datetime) -> RolloutProgress:
        """Return that of a Workload as stored. Raises ConfigurationError without spec.rollout."""
        meta, spec, status = body["metadata"], body["spec"], body.get("status") or {}
        key = (meta["namespace"], meta["name"])
        if not spec.get("rollout"):
            raise ConfigurationError(
                f"{'/'.join(key)} has no spec.rollout: each edit goes to all clusters at once"
            )
        said = conditions.find(status, WorkloadCondition.ROLLED_OUT.value)
        revision = digest_of(revision_data(spec))
        told, generation = status.get("rollout") or {}, int(meta.get("generation", 0))
        return cls(key, generation, revision, spec["rollout"], told, said, now)

    @property
    def seen(self) -> bool:
        """Whether the status tells of the spec's revision."""
        return bool(self.told.get("revision") == self.revision)

    @property
    def phase(self) -> str:
        """The phase; empty where the controller has not seen the revision."""
        return str(self.told.get("phase", "")) if self.seen else ""

    @property
    def stable(self) -> str:
        return str(self.told.get("stable") or "")

    @property
    def wave(self) -> str:
        """The wave that is updated, soaks or awaits its approval; empty for none."""
        return str(self.told.get("wave") or "")

    @property
    def waves(self) -> Sequence[Json]:
        return self.told.get("waves") or () if self.seen else ()

    @property
    def failures(self) -> list[str]:
        updates = self.told.get("updates") or () if self.seen else ()
        return [each["failedTime"] for each in updates if each.get("failedTime")]

    @property
    def complete(self) -> bool:
        return self.phase == RolloutPhase.COMPLETE and not self._lost

    @property
    def stopped(self) -> bool:
        """Whether it goes no further without a person."""
        return self.phase in _STOPPED or self._lost

    @property
    def well(self) -> bool:
        """Whether it is complete, or on its way there."""
        return not self.stopped and self.phase != RolloutPhase.ROLLING_BACK

    @property
    def observed(self) -> int:
        return int(self.said.get("observedGeneration") or 0)

    @property
    def _lost(self) -> bool:
        # A revision that cannot be stored is told by the condition alone.
        told = self.seen or self.observed >= self.generation
        return told and self.said.get("reason") == RolledOutReason.REVISION_LOST

    @property
    def headline(self) -> str:
        """`Progressing, wave 2 of 3`."""
        if not self.seen:
            return RolledOutReason.REVISION_LOST.value if self._lost else UNSEEN
        place = self._place
        if self.phase in _IN_A_WAVE and place is not None:
            return f"{self.phase}, wave {place + 1} of {len(self.waves)}"
        return self.phase

    @property
    def names(self) -> list[str]:
        """The waves' names, as far as the status tells them, else as the spec has them."""
        found = self.waves or self.asked["waves"]
        return [str(each["name"]) for each in found]

    def spec_of(self, wave: str) -> Json:
        """Return the wave in the spec; without fields for the rest, and for one that is gone."""
        found = (each for each in self.asked["waves"] if each["name"] == wave)
        return next(found, {})

    def approved(self, wave: str) -> bool:
        wanted = {"revision": self.revision, "wave": wave}
        return wanted in (self.asked.get("approvals") or ())

    def to_dict(self) -> dict[str, Any]:
        states = (self._state(at) for at in range(len(self.waves)))
        return {
            "namespace": self.key[0],
            "name": self.key[1],
            "revision": self.revision,
            "stable": self.stable or None,
            "phase": self.phase or None,
            "reason": self.said.get("reason") if self.seen or self._lost else None,
            "wave": self.wave or None if self.seen else None,
            "waves": [{**w, "state": s} for w, s in zip(self.waves, states, strict=True)],
            "message": self.message,
            "complete": self.complete,
        }

    @property
    def message(self) -> str:
        """What it waits for, in the controller's words."""
        if self._lost:
            return str(self.said.get("message") or "")
        return str(self.told.get("message") or "") if self.seen else UNSEEN

    def table(self) -> str:
        """Return the head, a row for each wave, what it waits for, and what a person may do."""
        revisions = transition(self.stable, self.revision)
        parts = [f"{'/'.join(self.key)}  {revisions}  {self.headline}"]
        if self.waves:
            parts.append(output.table([self._row(at) for at in range(len(self.waves))], COLUMNS))
        parts += [self.message] if self.message and (self.seen or self._lost) else []
        parts += [self.advice] if self.advice else []
        return "\n".join(parts)

    @property
    def advice(self) -> str:
        """What a person may do; empty where it goes on by itself."""
        return _NEXT[RolloutPhase(self.phase)] if self.phase in _NEXT else ""

    @property
    def _place(self) -> int | None:
        names = [each["name"] for each in self.waves]
        return names.index(self.wave) if self.wave in names else None

    def _row(self, at: int) -> dict[str, Any]:
        wave = self.waves[at]
        away = [f"{name} (away)" for name in wave.get("deferred") or ()]
        return {
            "wave": wave["name"],
            "clusters": wave.get("clusters", 0),
            "healthy": wave.get("healthy", 0),
            "updating": _named(wave.get("updating") or ()),
            "failed": _named(wave.get("failed") or ()),
            "deferred": _named(away),
            "state": self._state(at),
        }

    def _state(self, at: int) -> str:
        wave, place = self.waves[at], self._place
        if not wave.get("clusters"):
            spec = self.spec_of(wave["name"])
            holds = at == place and (needs_approval(spec) or soak(spec))
            return "no clusters, the next wave waits" if holds else "no clusters"
        if self.phase in BACK:
            return "given up" if wave.get("startTime") else "not begun"
        if place is not None and at > place:
            return self._waits(at)
        if wave.get("updating"):
            return self._updating(wave)
        if at == place:
            return self._at_work(wave)
        return self._over(wave)

    def _waits(self, at: int) -> str:
        """Return what a wave waits for that has not begun."""
        before = str(self.waves[at - 1]["name"])
        if not needs_approval(self.spec_of(before)) or self.approved(before):
            return f"waits for {before}"
        now = self.phase == RolloutPhase.AWAITING_APPROVAL and at - 1 == self._place
        return "waits for an approval" if now else f"waits for {before}, then for an approval"

    def _updating(self, wave: Json) -> str:
        most = at_once(self.spec_of(wave["name"]), wave.get("clusters", 0))
        return f"{self._on_their_way(wave)} of at most {most} at once{self._ready_for_now(wave)}"

    def _ready_for_now(self, wave: Json) -> str:
        """Return how many updated clusters are ready, but not for minReadySeconds yet."""
        least, named = self.asked.get("minReadySeconds") or 0, wave.get("updating") or ()
        updates = [each for each in self.told.get("updates") or () if each["cluster"] in named]
        since = [at for each in updates if (at := time(str(each.get("readyTime") or "")))]
        if not least or not since:
            return ""
        left = max(least - (self.now - min(since)).total_seconds(), 0)
        return f", {len(since)} ready, {seconds(left)} of minReadySeconds left"

    def _at_work(self, wave: Json) -> str:
        """Return the state of the present wave, of which no cluster is on its way."""
        match self.phase:
            case RolloutPhase.PAUSED | RolloutPhase.FAILED:
                return self.phase.lower()
            case RolloutPhase.SOAKING:
                return f"soaks {seconds(soak(self.spec_of(wave['name'])))}, {self._left(wave)} left"
            case RolloutPhase.AWAITING_APPROVAL:
                return self._over(wave)
        return self._updating(wave)

    def _over(self, wave: Json) -> str:
        soaked = soak(self.spec_of(wave["name"]))
        return f"complete, soaked {seconds(soaked)}" if soaked else "complete"

    def _left(self, wave: Json) -> str:
        end = time(str(wave.get("endTime") or "")) or self.now
        return seconds(soak(self.spec_of(wave["name"])) - (self.now - end).total_seconds())

    def _on_their_way(self, wave: Json) -> int:
        """Return how many clusters are on their way; a wave names a few of them only."""
        named = len(wave.get("updating") or ())
        if named < MOST_NAMES:
            return named
        updates = self.told.get("updates") or ()
        return max(named, sum(not each.get("failedTime") for each in updates))

    def refused(self, why: str) -> ConfigurationError:
        return ConfigurationError(f"{'/'.join(self.key)}: {why}")

    def about(self, text: str) -> str:
        return f"{'/'.join(self.key)}: {short_revision(self.revision)} {text}"


def _named(names: Sequence[str]) -> str:
    more = f", … {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more if names else "-"


@dataclass(frozen=True, slots=True)
class RolloutEdit:
    """What it says, and the merge patch of spec.rollout; empty where nothing is to be written."""

    said: str
    changes: Mapping[str, Any] = field(default_factory=dict)


MakeEdit = Callable[[RolloutProgress], RolloutEdit]


def approve(wave: str) -> MakeEdit:
    """Return the edit that approves the wave of that name, or the one that waits if it is empty.

    Its progress raises ConfigurationError where nothing waits, and for a wave that asks for none.
    """

    def edit(at: RolloutProgress) -> RolloutEdit:
        _look_first(at)
        waiting = at.wave if at.phase == RolloutPhase.AWAITING_APPROVAL else ""
        named = wave or waiting
        if at.complete or not named:
            ahead = "" if at.complete else "; --wave approves one ahead"
            raise at.refused(f"nothing waits for an approval: {at.headline}{ahead}")
        _asks_for_one(at, named)
        goes_on = _after(at, named, waits=named == waiting)
        if at.approved(named):
            return RolloutEdit(at.about(f"is approved already after {named}; {goes_on}"))
        approvals = at.asked.get("approvals") or ()
        # Those of other revisions count nothing, and go first where there is no more room.
        kept = sorted(approvals, key=lambda each: bool(each["revision"] == at.revision))
        kept.append({"revision": at.revision, "wave": named})
        changes = {"approvals": kept[-MOST_APPROVALS:]}
        return RolloutEdit(at.about(f"is approved after {named}; {goes_on}"), changes)

    return edit


def pause(at: RolloutProgress) -> RolloutEdit:
    after = "no further cluster begins until `stowage rollout resume`; those that have begun end"
    if at.asked.get("paused"):
        return RolloutEdit(f"{'/'.join(at.key)}: paused already; {after}")
    return RolloutEdit(f"{'/'.join(at.key)}: paused; {after}", {"paused": True})


def resume(at: RolloutProgress) -> RolloutEdit:
    if not at.asked.get("paused"):
        return RolloutEdit(f"{'/'.join(at.key)}: not paused; {at.headline}")
    said = f"{'/'.join(at.key)}: resumed; it goes on where it stood"
    return RolloutEdit(said, {"paused": False})


def abort(at: RolloutProgress) -> RolloutEdit:
    """Go back to the stable revision.

    Raises ConfigurationError where nothing is rolled out, and without a stable revision.
    """
    _look_first(at)
    if at.complete:
        raise at.refused(
            f"nothing is rolled out: {short_revision(at.revision)} is on all clusters; apply the "
            "template of before to go back"
        )
    if not at.stable:
        raise at.refused("no revision was on all clusters yet, so there is none to go back to")
    back = f"every cluster goes back to {short_revision(at.stable)}"
    if at.asked.get("aborted") == at.revision:
        return RolloutEdit(at.about(f"is given up already; {back}"))
    if at.phase in (RolloutPhase.ROLLING_BACK, RolloutPhase.ROLLED_BACK):
        return RolloutEdit(at.about(f"is rolled back already; {back}"))
    after = "`stowage rollout retry` tries it again, an edit of the template begins anew"
    return RolloutEdit(at.about(f"is given up; {back}. {after}"), {"aborted": at.revision})


def retry(at: RolloutProgress) -> RolloutEdit:
    """Try clusters again that failed, or the whole revision where it was given up by an abort.

    Raises ConfigurationError where neither is so.
    """
    _look_first(at)
    if at.asked.get("aborted") == at.revision:
        changes = {"aborted": None, "retryAfter": _moment(at)}
        return RolloutEdit(at.about("is tried again, from the first wave on"), changes)
    if at.phase in (RolloutPhase.ROLLING_BACK, RolloutPhase.ROLLED_BACK):
        raise at.refused(
            f"{short_revision(at.revision)} was rolled back by onFailure, which tries no revision "
            "twice; edit the template"
        )
    if not (at.failures or at.phase == RolloutPhase.FAILED):
        raise at.refused(f"nothing has failed: {at.headline}")
    again = "the clusters that failed begin anew, each with its whole deadline"
    if _asked_already(at):
        return RolloutEdit(at.about(f"is tried again already; {again}"))
    return RolloutEdit(at.about(f"is tried again; {again}"), {"retryAfter": _moment(at)})


VERBS: Mapping[str, MakeEdit] = {"pause": pause, "resume": resume, "abort": abort, "retry": retry}
ENDS: Mapping[str, str] = {"pause": RolloutPhase.PAUSED, "abort": RolloutPhase.ROLLED_BACK}
"""The phase beside Complete in which what a verb asked for has ended well."""


def _look_first(at: RolloutProgress) -> None:
    """Refuse what would be about a revision that nobody has seen the rollout of."""
    if not at.seen:
        raise at.refused(f"{UNSEEN}; look at `stowage rollout status` again in a moment")


def _asks_for_one(at: RolloutProgress, wave: str) -> None:
    if not at.spec_of(wave):
        asking = [each["name"] for each in at.asked["waves"] if needs_approval(each)]
        named = ", ".join(asking) or "none does"
        raise at.refused(f"no wave {wave} asks for an approval; these do: {named}")
    if not needs_approval(at.spec_of(wave)):
        raise at.refused(f"wave {wave} asks for no approval (approval: true)")


def _after(at: RolloutProgress, wave: str, *, waits: bool) -> str:
    names = at.names
    later = names[names.index(wave) + 1 :] if wave in names else []
    if not later:
        return "no wave follows it"
    return f"{later[0]} begins {'now' if waits else f'when {wave} is over'}"


def _moment(at: RolloutProgress) -> str:
    """Return a moment behind each failure, though the failure was noted by another clock."""
    failed = [known + timedelta(seconds=1) for each in at.failures if (known := time(each))]
    return timestamp(max([at.now, *failed]))


def _asked_already(at: RolloutProgress) -> bool:
    asked = time(str(at.asked.get("retryAfter") or ""))
    failed = [time(each) for each in at.failures]
    return asked is not None and bool(failed) and all(f is None or f < asked for f in failed)


LOOK_SECONDS = 1.0
_PASSING = (Unreachable, ServerError, TooManyRequests)
"""Faults of a hub that may answer at the next look."""


@dataclass(frozen=True, slots=True)
class WrittenEdit:
    """An edit that was made, and status.rollout from before it.

    A status that is still the same tells nothing of the edit, until its condition names the
    generation.
    """

    generation: int
    before: Mapping[str, Any]

    def unanswered(self, at: RolloutProgress) -> bool:
        return at.told == self.before and at.observed < self.generation


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutWait:
    """A wait for the end of a rollout.

    Args:
        seconds: for how long.
        wanted: a phase in which it is over as well, and well, beside Complete; empty for none.
        edit: the edit that the wait is for.
    """

    seconds: float
    wanted: str = ""
    edit: WrittenEdit | None = None

    def well(self, at: RolloutProgress) -> bool:
        return at.complete or (bool(self.wanted) and at.phase == self.wanted)

    def over(self, at: RolloutProgress) -> bool:
        old = self.edit is not None and self.edit.unanswered(at)
        return at.complete or (not old and at.stopped)


def show(hub: Connection, key: Key, form: str) -> bool:
    """Print how far it has come; return whether it is complete, or on its way there.

    Raises ConfigurationError for no such Workload and without spec.rollout, TransportError.
    """
    with reader(hub) as api:
        body = stored(api, key[0], Reference(WORKLOADS, key[1]))
    at = RolloutProgress.of(body, SystemClock().now())
    output.show(at.to_dict(), form, text=at.table())
    return at.well


async def wait(
    hub: ApiClient, key: Key, form: str, asked: RolloutWait, *, clock: Clock | None = None
) -> bool:
    """Show how it goes until it is over; return whether it ended well, and in time.

    A hub that does not answer is asked again until the time is over. Raises as `show` does.
    """
    clock = clock or SystemClock()
    end, shown = clock.monotonic() + asked.seconds, ""
    while True:
        late = clock.monotonic() >= end
        try:
            body = await hub.get(WORKLOADS, key[1], namespace=key[0])
        except NotFound as e:
            raise _missing(key) from e
        except _PASSING:
            if late:
                raise
        else:
            at = RolloutProgress.of(body, clock.now())
            if late or asked.over(at):
                output.show(at.to_dict(), form, text=_last(at, asked))
                return asked.over(at) and asked.well(at)
            if form == "table" and at.headline != shown:
                shown = at.headline
                _show(at)
        await clock.sleep(LOOK_SECONDS)


def _show(at: RolloutProgress) -> None:
    """Print it anew on a terminal, elsewhere one line: a log has each step once."""
    if sys.stdout.isatty():
        click.clear()
        say(f"{at.table()}\nCtrl-C leaves the rollout going on")
    else:
        say(at.about(at.headline))


def _last(at: RolloutProgress, asked: RolloutWait) -> str:
    if asked.over(at):
        return at.table()
    return f"{at.table()}\nnot complete within {asked.seconds:g} s; it goes on"


async def write(
    hub: ApiClient, key: Key, make: MakeEdit, *, clock: Clock | None = None
) -> WrittenEdit:
    """Make an edit of the Workload as stored, and say what it did.

    Raises ConfigurationError for no such Workload, without spec.rollout, and where the edit is
    refused; TransportError.
    """
    clock = clock or SystemClock()
    said = ""
    before: Mapping[str, Any] = {}

    def patch_of(stored: dict[str, Any]) -> dict[str, Any]:
        nonlocal said, before
        # The controller compares times of an edit with its own, so the hub's clock counts.
        now = clock.now() - timedelta(seconds=hub.server_time.ahead())
        at = RolloutProgress.of(stored, now)
        made = make(at)
        said, before = made.said, at.told
        return {"spec": {"rollout": made.changes}} if made.changes else {}

    try:
        found = await edit(hub, WORKLOADS, key[1], patch_of, namespace=key[0])
    except NotFound as e:
        raise _missing(key) from e
    say(said)
    return WrittenEdit(int(found["metadata"].get("generation", 0)), before)


def _missing(key: Key) -> ConfigurationError:
    return ConfigurationError(Reference(WORKLOADS, key[1]).missing(key[0]))
