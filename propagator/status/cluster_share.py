"""One entry of a Workload's status.clusters: the state of one share. Pure.

If this process has not observed the share yet, the last reported entry stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from crds.fields.shares import BlockedReason, ShareState
from crds.workload import PropagatedReason
from machinery.kinds.profile import Profile
from machinery.kinds.readiness import (
    Judged,
    Readiness,
    Result,
    counts_of,
    done_of,
)
from propagator.members.health import Contact
from propagator.members.objects import ManagedObject
from propagator.outcome import Outcome
from propagator.status.failover import of_seen, of_silent, over_in
from propagator.status.observed_share import (
    MARK,
    ObservedShare,
    available_of,
    current_of,
    facts_of,
    judged_of,
    readiness_of,
    refused_of,
)

MESSAGE_LIMIT = 4096
LEAVING = "kept until the other clusters are ready"
UNPLACED = "kept, as it ran here before this registration, until every replica has a cluster"
STAYING = "kept, as the Workload wants replicas and is placed nowhere now"
LASTING = frozenset(
    {
        PropagatedReason.ALREADY_EXISTS,
        PropagatedReason.NAMESPACE_NOT_ALLOWED,
        PropagatedReason.INVALID_WORKLOAD,
        PropagatedReason.INVALID_OVERRIDE,
        PropagatedReason.KIND_NOT_ALLOWED,
        PropagatedReason.TOO_LARGE,
        PropagatedReason.REJECTED,
    }
)
"""Reasons that make a share, and its Workload, Failed; the others may resolve by themselves."""

_FACTS = (
    "scheduled",
    MARK,
    "current",
    "finished",
    "succeeded",
    "completed",
    "failed",
    "ready",
    "available",
    "blocked",
    "unschedulable",
    "unschedulableSince",
    "refused",
    "updated",
    "outdated",
    "health",
    "holds",
    "start",
    "observedGeneration",
    "revision",
    "loadBalancer",
    "fields",
)
"""Fields that keep their last reported value until the cluster reports another."""
_SHARED = ("asked", "decision")
_COUNTS = ("scheduled", "current", "ready", "unschedulable", "updated", "finished")
_ENDED = ("ready", "updated", "finished", "succeeded", "completed", "failed", "available")
"""Counts that outlive the object of an ended share."""
_WAITS = (ShareState.PENDING.value, ShareState.FAILED.value, ShareState.SUSPENDED.value)
_BEGUN = (ShareState.CREATING.value, ShareState.RUNNING.value)


class Word(Enum):
    KNOWN = "known"
    """The desired share has been reconciled, and its outcome is known."""
    STANDS = "stands"
    """The last report stays: nothing newer is known."""
    ON_ITS_WAY = "on its way"
    """The desired share has not been reconciled yet."""
    AWAY = "away"


@dataclass(frozen=True, slots=True)
class ReportedShare:
    seen: ObservedShare
    word: Word
    entry: Mapping[str, Any]
    lasting: int = 0
    """Replicas that replace others; 0 if the cluster does not serve."""
    look_in: float | None = None
    """Seconds until time alone changes it; None for never."""

    @property
    def told(self) -> Mapping[str, Any]:
        """The entry with all that the aggregation reads: `entry` may lack its outcome's words."""
        reason, message = self._problem()
        if reason is None or (reason.value, message) == (
            self.entry.get("reason"),
            self.entry["message"],
        ):
            return self.entry
        return {**self.entry, "reason": reason.value, "message": message[:MESSAGE_LIMIT]}

    def shared(self, before: Mapping[str, Any], decision: str | None) -> Mapping[str, Any]:
        """Return the entry with all that tellers go by who do not see the cluster.

        `before` is the stored entry, `decision` the one that the share was last reconciled with in
        this term. Until then the stored one stands as well, also of a share that leaves or ended.
        """
        over = self.seen.leaving or self.seen.end is not None
        if self.word is Word.STANDS or (over and self.seen.outcome is None):
            decision = decision or before.get("decision")
        entry = {key: value for key, value in self.told.items() if key not in _SHARED}
        if (asked := self._asked(before)) is not None:
            entry["asked"] = asked
        if decision is not None:
            entry["decision"] = decision
        return unless_only_mark_changed(entry, before)

    def _asked(self, before: Mapping[str, Any]) -> int | None:
        """Return the replicas that the objects there ask for; None where that is `replicas`.

        Where nothing is there it is always told, as the sign that somebody has looked: only then
        do others make ordinals of their own.
        """
        if self.seen.contact is not Contact.SERVING or self.seen.end is not None:
            return before.get("asked")
        if self.seen.to_take_over:
            return None  # its ordinals, and not the share's zero, are what runs there
        main = self.seen.main
        asked = 0 if main is None else main.replicas
        if asked is None:
            asked = 1 if self.seen.leaving else self.seen.desired.replicas
        asked += self.seen.former
        return asked if main is None or asked != self.seen.desired.replicas else None

    def _problem(self) -> tuple[PropagatedReason | None, str]:
        """Return why the share does not go on, where this process knows; None leaves the entry."""
        outcome = self.seen.outcome
        if self.word is Word.ON_ITS_WAY:
            return PropagatedReason.PROPAGATING, ""
        if self.word is not Word.KNOWN or outcome is None or outcome.reason is None:
            return None, ""
        blocked, reason = outcome.blocked, outcome.reason
        budget = blocked is not None and blocked.reason is BlockedReason.DISRUPTION_BUDGET
        if self.seen.leaving and reason is PropagatedReason.PROPAGATING and not budget:
            return None, ""
        return reason, outcome.message


def share_of(
    seen: ObservedShare,
    profile: Profile,
    before: Mapping[str, Any],
    *,
    said: int,
) -> ReportedShare:
    """`before` is the present entry, `profile` that of the main object.

    `said` is the generation that Propagated is about.
    """
    if seen.end is not None and not seen.leaving:
        return _of_ended(seen, seen.end, before)
    word = _word(seen, before, said)
    readiness = None
    facts: dict[str, Any] = {}
    if not profile.ordered:
        facts["start"] = None
    if seen.contact is Contact.SERVING:
        readiness = readiness_of(seen, profile, before)
        facts = facts_of(seen, readiness, known=word is Word.KNOWN)
        facts["available"] = available_of(seen, profile, readiness, before)
        facts["start"] = seen.main.start if seen.main is not None else None
    elif not seen.ready_seconds:
        facts["available"] = None
    state, message = _state(seen, word, readiness, before)
    facts["failover"] = _failover(seen, word, readiness, facts, state, before)
    entry = {
        "name": seen.name,
        "replicas": seen.desired.replicas,
        # The schema's defaults, which the hub adds: without them each report would differ from it.
        **dict.fromkeys(_COUNTS, 0),
        **{fact: before[fact] for fact in _FACTS if fact in before},
        **facts,
        "state": state.value,
        "message": message[:MESSAGE_LIMIT],
        "reason": _reason(seen, word, before),
    }
    if seen.contact is Contact.SERVING:
        pods = seen.pods.current if seen.pods is not None else 0
        if seen.pods is not None:
            entry["current"] = current_of(seen.pods, entry)
        if seen.leaving and seen.main is not None and not profile.scales and not profile.whole:
            # Its object may still start pods: it leaves with that.
            entry["current"] = max(entry["current"], pods, 1)
    told = {key: value for key, value in entry.items() if value is not None}
    lasting = readiness.lasting if readiness is not None else 0
    kept = unless_only_mark_changed(told, before)
    return ReportedShare(seen, word, kept, lasting, _look_in(seen, kept))


def _failover(
    seen: ObservedShare,
    word: Word,
    readiness: Readiness | None,
    facts: Mapping[str, Any],
    state: ShareState,
    before: Mapping[str, Any],
) -> Mapping[str, Any] | None:
    if seen.patience is None or seen.leaving:
        return None
    stored = before.get("failover")
    if seen.contact is Contact.AWAY:
        return of_silent(seen.patience, stored)
    if readiness is None:
        return stored
    return of_seen(
        seen.patience,
        stored,
        readiness,
        asked=seen.desired.replicas,
        available=facts["available"],
        state=state,
        written=word is Word.KNOWN and seen.outcome is not None and seen.outcome.reason is None,
    )


def _look_in(seen: ObservedShare, entry: Mapping[str, Any]) -> float | None:
    moments = [seen.available.more_in if seen.available is not None else None]
    moments += [seen.pods.crashing_in if seen.pods is not None else None]
    if seen.patience is not None:
        moments.append(over_in(seen.patience, entry.get("failover")))
    return min((each for each in moments if each is not None), default=None)


def _of_ended(
    seen: ObservedShare, end: Mapping[str, Any], before: Mapping[str, Any]
) -> ReportedShare:
    asked, well = seen.desired.replicas, end["result"] == Result.SUCCEEDED
    judged, counts = judged_of(seen), dict[str, Any]()
    if judged is None or judged.result is None:
        counts = {name: before[name] for name in _ENDED if name in before and "ended" in before}
        judged = Judged(result=Result(end["result"]))
    readiness = counts_of(judged, asked)
    pods = seen.pods
    entry = {
        "name": seen.name,
        "replicas": asked,
        **dict.fromkeys(_COUNTS, 0),
        "ready": readiness.ready,
        "updated": readiness.updated,
        "finished": readiness.finished,
        "succeeded": readiness.succeeded or None,
        "failed": readiness.failed or None,
        "completed": done_of(judged, seen.desired.completions) or None,
        "available": readiness.ready if seen.ready_seconds else None,
        **counts,
        "scheduled": (pods.scheduled or 0) if pods is not None else 0,
        MARK: pods.capacity_version if pods is not None else before.get(MARK),
        "current": pods.current if pods is not None else 0,
        "health": readiness.health.value if seen.main is not None else None,
        "observedGeneration": seen.desired.generation,
        "revision": before.get("revision"),
        "fields": seen.fields or before.get("fields"),
        "ended": dict(end),
        "state": (ShareState.COMPLETE if well else ShareState.FAILED).value,
        "message": "" if well else str(end.get("message", ""))[:MESSAGE_LIMIT],
    }
    if pods is not None:
        entry["current"] = current_of(pods, entry)
    told = {key: value for key, value in entry.items() if value is not None}
    return ReportedShare(seen, Word.KNOWN, unless_only_mark_changed(told, before))


def unless_only_mark_changed(entry: dict[str, Any], before: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return `before` if only the mark would change, which is not worth a write."""
    if entry.get(MARK) == before.get(MARK):
        return entry
    one, other = ({k: v for k, v in e.items() if k != MARK} for e in (entry, before))
    return before if one == other else entry


def _word(seen: ObservedShare, before: Mapping[str, Any], said: int) -> Word:
    if seen.contact is Contact.AWAY:
        return Word.AWAY
    connecting = seen.contact is Contact.CONNECTING
    state = before.get("state")
    # What was told before it was to leave, or of what leaves, does not tell what of it is gone.
    old = seen.leaving and state is not None
    if connecting and (old or state == ShareState.UNREACHABLE.value):
        return Word.STANDS
    if seen.leaving or (not connecting and seen.outcome is not None):
        return Word.KNOWN
    if before.get("replicas") != seen.desired.replicas:
        return Word.ON_ITS_WAY
    if state in _WAITS and said == seen.desired.generation:
        return Word.STANDS
    written = before.get("observedGeneration") == seen.desired.generation
    there = connecting or seen.main is not None
    return Word.STANDS if written and there and state in _BEGUN else Word.ON_ITS_WAY


def _state(
    seen: ObservedShare, word: Word, readiness: Readiness | None, before: Mapping[str, Any]
) -> tuple[ShareState, str]:
    if word is Word.AWAY:
        return ShareState.UNREACHABLE, seen.trouble
    reported = str(before.get("state", ""))
    if word is Word.STANDS and (readiness is None or reported in _WAITS):
        return ShareState(reported), str(before.get("message", ""))
    if seen.leaving and (readiness is not None or reported):
        return ShareState.LEAVING, why_there(seen.outcome, elsewhere=seen.elsewhere)
    if readiness is None:
        begun = ShareState.CREATING if reported in _BEGUN else ShareState.PENDING
        return begun, f"the propagator is connecting to {seen.name}"
    if seen.main is not None and _held(seen):
        return _standing(seen, readiness, before), ""
    if seen.main is not None and seen.outcome is not None and seen.outcome.moves:
        return _standing(seen, readiness, before), seen.outcome.message
    if seen.outcome is not None and seen.outcome.reason is not None:
        return without(seen.outcome.reason), seen.outcome.message
    if seen.main is None:
        return ShareState.PENDING, ""
    whole = word is not Word.ON_ITS_WAY and readiness.observed
    runs = whole and readiness.ready >= seen.desired.replicas
    if runs and not readiness.outdated:
        return ShareState.RUNNING, _kept(seen.main, seen.kept_pods)
    message = _trouble(seen, seen.main, before) or _kept(seen.main, seen.kept_pods)
    return (ShareState.RUNNING if runs else ShareState.CREATING), message


def _kept(main: ManagedObject, number: int) -> str:
    if not number:
        return ""
    pods = "1 pod keeps" if number == 1 else f"{number} pods keep"
    return f"{main.kind} {main.metadata.name}: template not rolled out, {pods} that of before"


def _trouble(seen: ObservedShare, main: ManagedObject, before: Mapping[str, Any]) -> str:
    if seen.events.unread:
        return str(before.get("message", ""))
    if (refused := refused_of(seen)) is not None:
        return f"pods are refused: {refused.words}"
    trouble = seen.pods.trouble if seen.pods is not None else ""
    return f"pods are not ready: {trouble}" if trouble else main.judged.message


def without(reason: PropagatedReason) -> ShareState:
    if reason is PropagatedReason.SUSPENDED:
        return ShareState.SUSPENDED
    return ShareState.FAILED if reason in LASTING else ShareState.PENDING


def _reason(seen: ObservedShare, word: Word, before: Mapping[str, Any]) -> str | None:
    """None if unknown."""
    if word is Word.AWAY:
        return PropagatedReason.CLUSTER_UNREACHABLE.value
    if word is Word.STANDS:
        return before.get("reason")
    if seen.leaving and seen.outcome is None:  # not looked at in this term, or about to go
        stays = PropagatedReason.PROPAGATING.value
        return stays if before.get("reason") == stays else None
    reason = seen.outcome.reason if word is Word.KNOWN and seen.outcome is not None else None
    return None if reason is None else reason.value


def why_there(outcome: Outcome | None, *, elsewhere: bool) -> str:
    """Return why a share stands that is placed nowhere or elsewhere.

    A removal in flight needs no reason.
    """
    if outcome is not None and outcome.reason is not None and outcome.message and not outcome.moves:
        return outcome.message
    kept = LEAVING if elsewhere else STAYING
    if outcome is None or outcome.blocked is None:
        return kept
    why = outcome.blocked.message
    return f"{kept}: {why}" if outcome.blocked.reason is BlockedReason.NOT_READY_ELSEWHERE else why


def _held(seen: ObservedShare) -> bool:
    outcome = seen.outcome
    return outcome is not None and outcome.reason is PropagatedReason.WAITING_FOR_GROUP


def _standing(seen: ObservedShare, readiness: Readiness, before: Mapping[str, Any]) -> ShareState:
    written = before.get("observedGeneration") == seen.desired.generation
    runs = written and readiness.observed and readiness.ready >= seen.desired.replicas
    return ShareState.RUNNING if runs else ShareState.CREATING
