"""What a person may do about a rollout: each verb as the edit of spec.rollout that it makes. Pure.

An edit is made of the Workload as it was read, and says what it does and what comes next. A verb
that was carried out already edits nothing, so that calling it twice does no harm; one that would do
nothing at all is refused with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from crds.fields.rollout import MOST_APPROVALS, RolloutPhase
from crds.names import short_revision
from machinery.clock import timestamp
from stowage.console.words import time
from stowage.report.rollout import UNSEEN, RolloutProgress
from stowage.simulation.waves import needs_approval


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
    """Start no further cluster."""
    after = "no further cluster begins until `stowage rollout resume`; those that have begun end"
    if at.asked.get("paused"):
        return RolloutEdit(f"{'/'.join(at.key)}: paused already; {after}")
    return RolloutEdit(f"{'/'.join(at.key)}: paused; {after}", {"paused": True})


def resume(at: RolloutProgress) -> RolloutEdit:
    """Go on after a pause."""
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
