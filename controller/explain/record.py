"""A decision in full as JSON values. Made on demand, never stored."""

from __future__ import annotations

from typing import Any

from controller.explain import hooks
from controller.explain.pending import obstacles, shortage_of
from controller.explain.remedies import remedies
from controller.framework.calling.deadline import limited
from controller.framework.profile import PLUGIN_TIMEOUT
from controller.scheduling.decision import FITS, Decision
from machinery.clock import timestamp
from machinery.kinds.ordinals import in_words, with_new_ranges


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
        "hooks": hooks.told(decision),
        "order": decision.assignment_order(),
        "clusters": [_cluster(decision, row) for row in _rows(decision)],
        "pendingReasons": [note.to_dict() for note in obstacles(decision, shortage)],
        "binding": [bound.to_dict() for bound in decision.binding()],
        "remedies": [note.to_dict() for note in remedies(decision, shortage)],
    }


def completions(decision: Decision) -> dict[str, int]:
    """Return the part of each cluster; empty where the work is not divided."""
    work, shares = decision.workload.shared_work, decision.placements
    if work is None or work.total is None:
        return {}
    leaving = (work.parts.keys() | work.leaving.keys()) - shares.keys()
    return dict(sorted(work.after(shares, leaving, decision.pending).parts.items()))


def ordinals(decision: Decision) -> list[dict[str, Any]]:
    """Return the range of each cluster; empty for kinds without ordinals."""
    info, shares = decision.workload, decision.placements
    if not info.profile.ordered:
        return []
    starts = with_new_ranges(info.ranges, sorted(shares), info.first_ordinal)
    name = info.template_name or info.name
    return [
        {"cluster": c, "start": starts[c], "pods": in_words(name, starts[c], n)}
        for c, n in sorted(shares.items())
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
