"""A decision in full as JSON values. Made on demand, never stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from controller.explain.pending import obstacles, remedies, shortage_of
from controller.framework.calling import answers
from controller.framework.calling.guard import PluginError, ask, limited
from controller.framework.explains import Explainer, PassView, either, method_of
from controller.framework.profile import PLUGIN_TIMEOUT
from controller.scheduling.decision import FITS, Decision, HookChange
from machinery.clock import timestamp
from machinery.kinds.ordinals import in_words, with_new_ranges

MOST_TEXTS = 20
"""Sentences about one hook."""


def record(decision: Decision) -> dict[str, Any]:
    """Return the decision, ranked clusters first, then refused ones by name.

    Plugins have the default time limit.
    """
    with limited(PLUGIN_TIMEOUT):
        return _record(decision)


def _record(decision: Decision) -> dict[str, Any]:
    info, shortage = decision.workload, shortage_of(decision)
    return {
        "namespace": info.namespace,
        "name": info.name,
        "uid": info.uid,
        "hash": info.hash,
        "time": timestamp(decision.time),
        "desired": decision.desired,
        "assigned": decision.assigned,
        "pending": decision.pending,
        "state": decision.state.value,
        "reason": decision.reason.value,
        "message": decision.message,
        "placements": [
            {"cluster": c, "replicas": n, "reasons": _why(decision, c)}
            for c, n in decision.placements.items()
        ],
        **({"completions": parts} if (parts := completions(decision)) else {}),
        **({"ordinals": found} if (found := ordinals(decision)) else {}),
        **({"leaveLater": later} if (later := leave_later(decision)) else {}),
        "hooks": hooks(decision),
        "order": decision.assignment_order(),
        "clusters": [_cluster(decision, row) for row in _rows(decision)],
        "pendingReasons": [note.to_dict() for note in obstacles(decision, shortage)],
        "binding": [bound.to_dict() for bound in decision.binding()],
        "remedies": [note.to_dict() for note in remedies(decision, shortage)],
    }


def hooks(decision: Decision) -> list[dict[str, str]]:
    """Return the changes of hooks: plugin, phase and text."""
    return [
        {"plugin": change.plugin, "phase": change.phase, "text": text}
        for change in decision.changes
        for text in _texts(change, decision.plugins.get(change.plugin))
    ]


def _texts(change: HookChange, hook: Any) -> Sequence[str]:
    said: Sequence[str] = ()
    if changes := method_of(hook, Explainer.changes):
        try:
            said = ask(hook, "Changes", answers.texts, changes, change.before, change.after)
        except PluginError as e:
            said = (str(e),)
    found = list(said) or [*_changed(change.before, change.after)]
    rest = len(found) - MOST_TEXTS
    return found if rest <= 0 else [*found[:MOST_TEXTS], f"changed {rest} things more"]


def _changed(before: PassView, after: PassView) -> Iterator[str]:
    if after.workload is not before.workload:
        yield "changed the Workload"
    if after.snapshot is not before.snapshot:
        old, new = (
            dict(zip(view.snapshot.names, view.snapshot.clusters, strict=True))
            for view in (before, after)
        )
        names = sorted(name for name in {**old, **new} if old.get(name) is not new.get(name))
        yield f"changed {either(names, 'and') if names else 'the room of clusters'}"
    if before.feasible is not None and after.feasible is not None:
        gone = after.snapshot.names_of(before.feasible & ~after.feasible)
        if gone:
            yield f"took {either(gone, 'and')} out of the list"


def completions(decision: Decision) -> dict[str, int]:
    """Empty where the work is not divided."""
    work, shares = decision.workload.shared_work, decision.placements
    if work is None or work.total is None:
        return {}
    leaving = (work.parts.keys() | work.leaving.keys()) - shares.keys()
    return dict(sorted(work.after(shares, leaving, decision.pending).parts.items()))


def ordinals(decision: Decision) -> list[dict[str, Any]]:
    """Empty for kinds without ordinals."""
    info, shares = decision.workload, decision.placements
    if not info.profile.ordered:
        return []
    starts = with_new_ranges(info.ranges, sorted(shares), info.first_ordinal)
    name = info.template_name or info.name
    return [
        {"cluster": c, "start": starts[c], "pods": in_words(name, starts[c], n)}
        for c, n in sorted(shares.items())
        if n
    ]


def leave_later(decision: Decision) -> list[dict[str, Any]]:
    """Return the shares that leave their clusters at a known time, such as lost ones."""
    return [
        {
            "cluster": cluster,
            "replicas": decision.placements[cluster],
            "time": timestamp(eviction.due),
            "cause": eviction.cause,
            "name": eviction.name,
        }
        for cluster, eviction in sorted(decision.moving.evictions.items())
        if eviction.due is not None and eviction.due > decision.time
        if decision.placements.get(cluster) and not decision.workload.holds(cluster)
    ]


def _rows(decision: Decision) -> list[int]:
    verdicts, names = decision.verdicts, decision.snapshot.names
    refused = [row for row in range(len(verdicts)) if verdicts[row] != FITS]
    return [*map(int, decision.ranking), *sorted(refused, key=lambda row: names[row])]


def _cluster(decision: Decision, row: int) -> dict[str, Any]:
    name, verdict = decision.snapshot.names[row], int(decision.verdicts[row])
    fits = verdict == FITS
    refusal = None if fits else decision.refusals[verdict - 1]
    scores = decision.scores if fits else {}
    return {
        "name": name,
        "fits": fits,
        "plugin": refusal.plugin if refusal else "",
        "reason": refusal.text if refusal else "",
        "score": decision.rank_score(row) if fits else None,
        "total": int(decision.totals[row]) if fits else None,
        "scores": {plugin: int(column[row]) for plugin, column in scores.items()},
        "replicas": decision.placements.get(name, 0),
        "reasons": _why(decision, name) if name in decision.placements else [],
    }


def _why(decision: Decision, cluster: str) -> list[dict[str, Any]]:
    row = decision.snapshot.row.get(cluster)
    return [] if row is None else [reason.to_dict() for reason in decision.why(row)]
