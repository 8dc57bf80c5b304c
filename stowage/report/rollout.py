"""How far the rollout of a Workload has come, from the Workload alone: a head, a row a wave. Pure.

The controller's status counts only for the revision that it names. A spec that was edited since has
another digest, and its rollout is then one that the controller has not seen: neither complete nor
failed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from crds.fields.rollout import BACK, MOST_NAMES, RolledOutReason, RolloutPhase
from crds.names import short_revision
from crds.workload import WorkloadCondition
from machinery.errors import ConfigurationError
from machinery.kinds.revisions import digest_of, revision_data
from machinery.types import conditions
from machinery.types.metadata import Key
from stowage.console import output
from stowage.console.words import seconds, time, transition
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
        """When clusters failed to become healthy in time."""
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
        """The generation that the condition tells of."""
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
        parts += [_NEXT[RolloutPhase(self.phase)]] if self.phase in _NEXT else []
        return "\n".join(parts)

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
        if needs_approval(self.spec_of(before)) and not self.approved(before):
            return "waits for an approval"
        return f"waits for {before}"

    def _updating(self, wave: Json) -> str:
        most = at_once(self.spec_of(wave["name"]), wave.get("clusters", 0))
        return f"{self._on_their_way(wave)} of at most {most} at once"

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
        """Return the refusal of what a person asked for."""
        return ConfigurationError(f"{'/'.join(self.key)}: {why}")

    def about(self, text: str) -> str:
        """Return a sentence about the Workload and its revision."""
        return f"{'/'.join(self.key)}: {short_revision(self.revision)} {text}"


def _named(names: Sequence[str]) -> str:
    more = f", … {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more if names else "-"
