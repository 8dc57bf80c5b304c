"""One entry of a Workload's status.clusters: the state of one share. Pure.

If this process has not observed the share yet, the last reported entry stays: a restart must not
change the status.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from crds.fields.shares import BlockedReason, ShareHealth, ShareState
from crds.workload import PropagatedReason
from machinery.clock import timestamp
from machinery.kinds.profile import Profile
from machinery.kinds.readiness import (
    Judged,
    Readiness,
    Result,
    available_in,
    counts_of,
    crashed,
    done_of,
)
from propagator.members.health import Contact
from propagator.members.objects import ManagedObject, Refused
from propagator.members.pod_index import Availability, PodCounts
from propagator.outcome import DesiredShare, Outcome
from propagator.status.failover import Patience, of_seen, of_silent, over_in
from propagator.status.refusals import NOTHING_TOLD, ToldRefusal

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

_MARK = "capacityVersion"
_FACTS = (
    "scheduled",
    _MARK,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedShare:
    """One cluster's present observation of one Workload. Unknown values are None."""

    name: str
    desired: DesiredShare
    leaving: bool
    elsewhere: bool = True
    """Whether the Workload is placed on any cluster."""
    contact: Contact
    trouble: str = ""
    outcome: Outcome | None = None
    """The outcome of this very desired share."""
    main: ManagedObject | None = None
    """The main object. None means that none exists, while the cluster serves."""
    pods: PodCounts | None = None
    former: int = 0
    """Replicas of objects there that the Workload names no more, which run units of it."""
    events: ToldRefusal = NOTHING_TOLD
    """What the Events of the main object tell of a refusal to make its pods."""
    kept_pods: int = 0
    """Pods that an edit left with the template of before."""
    ready_seconds: int = 0
    """How long a replica must have been ready to replace another one."""
    available: Availability | None = None
    """The pods with that; None if it is 0 or they are not observed."""
    last: Judged | None = None
    """The last state of a deleted object that did some of its work."""
    end: Mapping[str, Any] | None = None
    """The stored end of the share, or the one to store."""
    load_balancer: Mapping[str, Any] | None = None
    """The Service's status.loadBalancer; empty without one."""
    fields: Mapping[str, str] | None = None
    """The values of spec.statusFields; None if they are not observed."""
    patience: Patience | None = None
    """Of spec.movement.unhealthySeconds; None without it."""


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
        """The entry with all that the aggregation reads.

        An entry alone does not tell that its share is on its way while its numbers are those of the
        last decision, nor an outcome whose words are not the entry's own.
        """
        reason, message = self._problem()
        if reason is None or (reason.value, message) == (
            self.entry.get("reason"),
            self.entry["message"],
        ):
            return self.entry
        return {**self.entry, "reason": reason.value, "message": message[:MESSAGE_LIMIT]}

    def shared(self, before: Mapping[str, Any], decision: str | None) -> Mapping[str, Any]:
        """Return the entry with all that tellers go by who do not see the cluster.

        `before` is the stored entry, `decision` the one that the share was last reconciled with.
        """
        entry = {key: value for key, value in self.told.items() if key not in _SHARED}
        if (asked := self._asked(before)) is not None:
            entry["asked"] = asked
        if decision is not None:
            entry["decision"] = decision
        return _unless_only_mark_changed(entry, before)

    def _asked(self, before: Mapping[str, Any]) -> int | None:
        """Return the replicas that the objects there ask for; None where that is `replicas`."""
        if self.seen.contact is not Contact.SERVING or self.seen.end is not None:
            return before.get("asked")
        main = self.seen.main
        asked = 0 if main is None else main.replicas
        if asked is None:
            asked = 1 if self.seen.leaving else self.seen.desired.replicas
        asked += self.seen.former
        return asked if asked != self.seen.desired.replicas else None

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
        readiness = _counts(seen, profile, before)
        facts = _facts(seen, word, readiness)
        facts["available"] = _available(seen, profile, readiness, before)
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
            entry["current"] = _current(seen.pods, entry)
        if seen.leaving and seen.main is not None and not profile.scales and not profile.whole:
            # Its object may still start pods: it leaves with that.
            entry["current"] = max(entry["current"], pods, 1)
    told = {key: value for key, value in entry.items() if value is not None}
    lasting = readiness.lasting if readiness is not None else 0
    kept = _unless_only_mark_changed(told, before)
    return ReportedShare(seen, word, kept, lasting, _look_in(seen, kept))


def _counts(seen: ObservedShare, profile: Profile, before: Mapping[str, Any]) -> Readiness:
    readiness, pods = counts_of(_judged(seen), seen.desired.replicas), seen.pods
    if pods is None or seen.main is None or (not pods.crashing and pods.crashing_in is None):
        return readiness
    # Another process has seen for how long they wait.
    known = before.get("health") == ShareHealth.DEGRADED
    return crashed(profile, readiness) if pods.crashing or known else readiness


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
    """Return an ended share: its numbers stay, whatever happens to object and cluster."""
    asked, well = seen.desired.replicas, end["result"] == Result.SUCCEEDED
    judged, counts = _judged(seen), dict[str, Any]()
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
        _MARK: pods.capacity_version if pods is not None else before.get(_MARK),
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
        entry["current"] = _current(pods, entry)
    told = {key: value for key, value in entry.items() if value is not None}
    return ReportedShare(seen, Word.KNOWN, _unless_only_mark_changed(told, before))


def _judged(seen: ObservedShare) -> Judged | None:
    return seen.main.judged if seen.main is not None else None


def _unless_only_mark_changed(
    entry: dict[str, Any], before: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return `before` if only the mark would change, which is not worth a write."""
    if entry.get(_MARK) == before.get(_MARK):
        return entry
    one, other = ({k: v for k, v in e.items() if k != _MARK} for e in (entry, before))
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


def _facts(seen: ObservedShare, word: Word, readiness: Readiness) -> dict[str, Any]:
    """Return the facts of a serving cluster; None removes a fact."""
    facts: dict[str, Any] = {"ready": readiness.ready, "updated": readiness.updated}
    facts["outdated"] = readiness.outdated or None
    facts["health"] = readiness.health.value if seen.main is not None else None
    facts["holds"] = (seen.main is not None and seen.main.judged.holds) or None
    facts["finished"] = readiness.finished
    # Unset instead of 0: most kinds never end, and a status has thousands of shares.
    facts["succeeded"] = readiness.succeeded or None
    facts["failed"] = readiness.failed or None
    if seen.main is not None or seen.last is not None:
        facts["completed"] = _completed(seen)
    if seen.pods is not None:
        facts |= _waiting(seen, seen.pods)
        if seen.pods.scheduled is not None:
            facts["scheduled"] = seen.pods.scheduled
            facts[_MARK] = seen.pods.capacity_version
    if seen.load_balancer is not None:
        facts["loadBalancer"] = dict(seen.load_balancer) or None
    facts |= {} if seen.fields is None else {"fields": dict(seen.fields) or None}
    outcome = seen.outcome
    if outcome is not None:
        blocked = outcome.blocked
        facts["blocked"] = blocked and {"reason": blocked.reason.value, "message": blocked.message}
    if word is Word.KNOWN and outcome and outcome.reason is None and seen.main is not None:
        facts["observedGeneration"] = outcome.desired.generation
    if not seen.desired.revision:
        facts["revision"] = (outcome is not None and outcome.found) or None
    elif outcome is not None and outcome.written and seen.main is not None:
        facts["revision"] = outcome.desired.revision
    return facts


def _waiting(seen: ObservedShare, pods: PodCounts) -> dict[str, Any]:
    """Return the facts of pods without a node, and of pods that the member does not make."""
    facts: dict[str, Any] = {"unschedulable": pods.unschedulable}
    if seen.events.unread:
        return facts
    since, refused = pods.oldest_unschedulable, _refused(seen)
    if refused is not None:
        since = min(filter(None, (since, refused.since)))
    facts["refused"] = missing_pods(seen) if refused is not None else None
    facts["unschedulableSince"] = timestamp(since) if since else None
    return facts


def missing_pods(seen: ObservedShare) -> int:
    """Return the replicas that lack pods; 0 while that is unknown."""
    if seen.pods is None or seen.main is None:
        return 0
    lacking = seen.desired.replicas - seen.pods.current + seen.pods.in_part
    if lacking <= 0:  # as mostly
        return 0
    return max(lacking - counts_of(seen.main.judged, seen.desired.replicas).finished, 0)


def _refused(seen: ObservedShare) -> Refused | None:
    """Return why the member makes no pods, while some are missing."""
    told = seen.main.refused if seen.main is not None else None
    told = told or seen.events.refused
    return told if told is not None and missing_pods(seen) else None


def _completed(seen: ObservedShare) -> int | None:
    """Also of a deleted object."""
    judged = seen.main.judged if seen.main is not None else seen.last
    return (done_of(judged, seen.desired.completions) or None) if judged is not None else None


def _available(
    seen: ObservedShare, profile: Profile, readiness: Readiness, before: Mapping[str, Any]
) -> int | None:
    """Return the replicas that have been ready for long enough; None if all count."""
    if not seen.ready_seconds:
        return None
    told = int(before.get("available") or 0)
    if seen.available is None:
        return min(told, readiness.ready)
    pods, all_pods = seen.available.pods, seen.pods.current if seen.pods is not None else 0
    proven = available_in(profile, _judged(seen), readiness, pods=pods, seen=all_pods)
    pods += seen.available.unproven
    most = available_in(profile, _judged(seen), readiness, pods=pods, seen=all_pods)
    return max(proven, min(told, most))


def _current(pods: PodCounts, entry: Mapping[str, Any]) -> int:
    """0 if the other counts add up to it: a status has thousands of entries."""
    counted = entry["scheduled"] + entry["unschedulable"]
    return 0 if pods.current <= counted else pods.current


def _state(
    seen: ObservedShare, word: Word, readiness: Readiness | None, before: Mapping[str, Any]
) -> tuple[ShareState, str]:
    if word is Word.AWAY:
        return ShareState.UNREACHABLE, seen.trouble
    reported = str(before.get("state", ""))
    if word is Word.STANDS and (readiness is None or reported in _WAITS):
        return ShareState(reported), str(before.get("message", ""))
    if seen.leaving and (readiness is not None or reported):
        return ShareState.LEAVING, _why_there(seen)
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
        return ShareState.RUNNING, ""
    return (ShareState.RUNNING if runs else ShareState.CREATING), _trouble(seen, seen.main, before)


def _trouble(seen: ObservedShare, main: ManagedObject, before: Mapping[str, Any]) -> str:
    """Return why replicas are not ready, as far as the member says it."""
    if seen.events.unread:
        return str(before.get("message", ""))
    if (refused := _refused(seen)) is not None:
        return f"pods are refused: {refused.words}"
    trouble = seen.pods.trouble if seen.pods is not None else ""
    return f"pods are not ready: {trouble}" if trouble else main.judged.message


def without(reason: PropagatedReason) -> ShareState:
    """Return the state of a share that is not written, for that reason."""
    if reason is PropagatedReason.SUSPENDED:
        return ShareState.SUSPENDED
    return ShareState.FAILED if reason in LASTING else ShareState.PENDING


def _reason(seen: ObservedShare, word: Word, before: Mapping[str, Any]) -> str | None:
    """None if unknown."""
    if word is Word.AWAY:
        return PropagatedReason.CLUSTER_UNREACHABLE.value
    if word is Word.STANDS:
        return before.get("reason")
    reason = seen.outcome.reason if word is Word.KNOWN and seen.outcome is not None else None
    return None if reason is None else reason.value


def _why_there(seen: ObservedShare) -> str:
    """A removal in flight needs no reason."""
    outcome = seen.outcome
    if outcome is not None and outcome.reason is not None and outcome.message and not outcome.moves:
        return outcome.message
    kept = LEAVING if seen.elsewhere else STAYING
    if outcome is None or outcome.blocked is None:
        return kept
    why = outcome.blocked.message
    return f"{kept}: {why}" if outcome.blocked.reason is BlockedReason.NOT_READY_ELSEWHERE else why


def _held(seen: ObservedShare) -> bool:
    outcome = seen.outcome
    return outcome is not None and outcome.reason is PropagatedReason.WAITING_FOR_GROUP


def _standing(seen: ObservedShare, readiness: Readiness, before: Mapping[str, Any]) -> ShareState:
    """RUNNING only if the objects of the earlier write are desired now."""
    written = before.get("observedGeneration") == seen.desired.generation
    runs = written and readiness.observed and readiness.ready >= seen.desired.replicas
    return ShareState.RUNNING if runs else ShareState.CREATING
