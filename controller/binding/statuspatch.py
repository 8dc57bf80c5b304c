"""From a decision to its one write: a merge patch of the controller's status fields."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import msgspec

from controller.binding import moving
from controller.binding.moving import leaving_of
from controller.cache.asread import current_names
from controller.explain.history import MOST_SHARES, Occasion, ShareDifference, carried, lengthened
from controller.framework.calling import answers
from controller.framework.calling.guard import PluginError, ask
from controller.framework.explains import Explainer, method_of
from controller.framework.runtime.framework import OWN
from controller.model.objects import Workload
from controller.model.observedlimits import ObservedLimit, from_status, to_status
from controller.model.why import kept
from controller.model.work import Work, ordinals_of
from controller.planner.reasons import Reasons, RuleKind
from controller.scheduling.decision import Decision
from controller.snapshot.snapshot import Snapshot
from crds.fields.why import ChangeCause
from crds.names import ANNOTATION_CLUSTERS, API_VERSION
from crds.workload import ScheduledReason, WorkloadCondition, WorkloadState
from machinery import logs
from machinery.clock import timestamp
from machinery.types import conditions
from machinery.types.api import PlacementReasons, PlacementRule
from machinery.types.bounds import MOST_UNITS
from machinery.types.merge_patch import merging
from machinery.types.workload_api import LeavingShare, OrdinalRange
from machinery.types.written_clusters import MemberRecord

LOG = logs.get(__name__)
SUMMARY_LIMIT = 4096
MESSAGE_LIMIT = 4096
SELECTOR_LIMIT = 4096
HASH_LIMIT = 128
CONDITIONS_LIMIT = 32
NAME_LIMIT = 317
"""The limit of a rule's name. Contradictory bounds have longer ones, which are cut."""
CAUSE_LIMIT, CAUSE_ABOUT_LIMIT = 64, 317
"""The schema's limits on a plugin's cause and its object."""
Kept: TypeAlias = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Returns the fields that an object stores: placed kinds may lack some."""
_OURS = frozenset({WorkloadCondition.SCHEDULED.value, WorkloadCondition.FAILED.value})
_KNOWN = frozenset(condition.value for condition in WorkloadCondition)


def decision_id(workload: Workload) -> str:
    """Return the id of the decision that is written on this version.

    The hub takes one write per version, so the id is unique, and a repeated write keeps it.
    """
    version = f"{workload.metadata.uid}/{workload.metadata.resource_version}"
    return hashlib.blake2b(version.encode(), digest_size=8).hexdigest()


def patch_of(
    decision: Decision, workload: Workload, *, always: bool = False, kept: Kept = dict
) -> dict[str, Any] | None:
    """Return the merge patch of the status subresource; None if it would change nothing.

    With `always` its time makes a new version of the object.
    """
    status = status_of(decision, workload)
    if dict(decision.placements) != workload.placements:
        status |= _why(decision, workload)
        status["decision"]["id"] = decision_id(workload)
    if not always and _stored(status, decision.fields, workload, kept(status).keys()):
        return None
    return {"metadata": {"resourceVersion": workload.metadata.resource_version}, "status": status}


def short_patch(
    decision: Decision, workload: Workload, *, kept: Kept = dict
) -> dict[str, Any] | None:
    """Return a patch without shares, for a hub that refused the full one; None if no change."""
    status: dict[str, Any] = {
        "observed": {"controller": workload.metadata.generation},
        "conditions": _conditions(decision, workload, workload.status.leaving),
    }
    old = workload.status
    if not workload.standing:
        status["state"] = decision.state.value
    if (
        status["observed"]["controller"] == old.observed.controller
        and status["conditions"] == old.conditions
        and ("state" not in kept(status) or status.get("state", old.state) == old.state)
    ):
        return None
    return {"metadata": {"resourceVersion": workload.metadata.resource_version}, "status": status}


def is_news(patch: Mapping[str, Any], workload: Workload, *, message: bool = True) -> bool:
    """Whether the patch changes shares or the verdict; with `message`, its text too."""
    before = {c["type"]: c for c in workload.status.conditions}
    after = patch["status"]["conditions"]
    parts = ("status", "reason", "message") if message else ("status", "reason")
    moved = "placements" in patch["status"] and _shares(patch["status"]) != workload.standing
    return moved or any(
        before.get(c["type"], {}).get(part) != c[part]
        for c in after
        if c["type"] in _OURS
        for part in parts
    )


def summary(placements: Mapping[str, int]) -> str:
    """Return the CLUSTERS column, cut at the limit."""
    text = ",".join(f"{cluster}={replicas}" for cluster, replicas in placements.items())
    return text if len(text) <= SUMMARY_LIMIT else text[: SUMMARY_LIMIT - 1] + "…"


def status_of(decision: Decision, workload: Workload) -> dict[str, Any]:
    """Without reasons and history."""
    # Ended replicas keep their clusters: the propagator creates them nowhere again.
    placements = {**decision.workload.ended, **decision.placements}
    leaving = _leaving(decision, workload)
    work = _work(decision, placements, leaving)
    if work is not None:
        leaving = [_with_part(each, work) for each in leaving]
    status: dict[str, Any] = {
        "observed": {"controller": workload.metadata.generation},
        **_numbers(decision),
        "selector": _selector(decision),
        "placements": [{"cluster": c, "replicas": n} for c, n in placements.items()],
        "clusterSummary": summary(placements),
        "clusterRef": _reference(placements),
        **_by_plugins(decision, workload),
        "decision": {"hash": _hash(decision, workload), "time": timestamp(decision.time)},
        "conditions": _conditions(decision, workload, leaving),
    }
    status |= _moves(decision, workload, leaving)
    if ordinals := _ordinals(decision, workload):
        status["ordinals"] = msgspec.to_builtins(ordinals)
    status |= _of_work(work, decision, workload, status["placements"])
    if decision.workload.delivered:
        status |= _footprint(placements, workload)
    if decision.workload.limits or workload.status.limits:
        status["limits"] = to_status(decision.workload.limits)
    if not placements or not workload.standing:
        # The propagator owns the state from the first placement on.
        status["state"] = decision.state.value
    return status


def _by_plugins(decision: Decision, workload: Workload) -> dict[str, Any]:
    nothing = [name for name, value in decision.fields.items() if value is None]
    absent = {name for name in nothing if workload.status.says({name: None})}
    fields = {name: value for name, value in decision.fields.items() if name not in absent}
    if OWN in fields:
        fields[OWN] = merging(workload.status.plugins, fields[OWN])
    return {name: value for name, value in fields.items() if name != OWN or value}


def _work(
    decision: Decision, placements: Mapping[str, int], leaving: Sequence[LeavingShare]
) -> Work | None:
    work = decision.workload.shared_work
    if work is None or work.total is None:
        return None
    return work.after(placements, [each.cluster for each in leaving], decision.pending)


def _of_work(
    work: Work | None, decision: Decision, workload: Workload, placements: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Return the fields of the work, and add its parts to the placements."""
    if work is None:
        return {"run": None} if workload.status.run else {}
    for each in placements:
        if (part := work.parts.get(each["cluster"])) is not None:
            each["completions"] = part
    known = work.completed or workload.status.completed
    done = {"completed": work.completed} if known else {}
    return {"run": decision.workload.run, **done}


def _with_part(share: LeavingShare, work: Work) -> LeavingShare:
    return msgspec.structs.replace(share, completions=work.leaving.get(share.cluster, 0))


def _leaving(decision: Decision, workload: Workload) -> list[LeavingShare]:
    return leaving_of(
        workload,
        decision.workload,
        decision.placements,
        moves=decision.moving,
        snapshot=decision.snapshot,
        occasion=partial(_occasion, decision, workload),
    )


def _moves(
    decision: Decision, workload: Workload, leaving: Sequence[LeavingShare]
) -> dict[str, Any]:
    status, old = dict[str, Any](), workload.status
    carried = moving.carried_of(decision, workload, leaving)
    if carried != old.carried:
        status["carried"] = {**dict.fromkeys(old.carried), **carried}
    displaced = moving.displaced_of(decision, workload)
    if leaving or old.leaving:
        status["leaving"] = msgspec.to_builtins(leaving)
    if displaced or old.displaced:
        status["displaced"] = msgspec.to_builtins(displaced)
    if decision.moving.rebalanced:
        status["rebalanced"] = decision.moving.rebalanced
    return status


def _ordinals(decision: Decision, workload: Workload) -> list[OrdinalRange]:
    info, snapshot = decision.workload, decision.snapshot
    if not info.profile.ordered:
        return workload.status.ordinals
    known = info.ranges
    if not all(cluster in snapshot.row for cluster in known):
        now = current_names(snapshot.clusters, snapshot.row)
        known = {now.get(cluster, cluster): start for cluster, start in known.items()}
    return ordinals_of(workload, decision.placements, known, info.first_ordinal)


def _footprint(placements: Mapping[str, int], workload: Workload) -> dict[str, Any]:
    # In the same write as the shares: the clusters are recorded before the first apply, whichever
    # process crashes, and the propagator needs no additional write.
    before = MemberRecord.read(workload.status.footprint.clusters)
    noted = MemberRecord.read(workload.metadata.annotations.get(ANNOTATION_CLUSTERS, ""))
    new = [name for name in placements if name not in before and name not in noted]
    return {"footprint": {"clusters": before.adding(new).text()}} if new else {}


def _why(decision: Decision, workload: Workload) -> dict[str, Any]:
    before = kept(workload.status)
    at, names = _occasion(decision, workload), decision.snapshot.names
    ranking = [names[row] for row in decision.ranking[: 2 * MOST_SHARES].tolist()]
    shares = ShareDifference(workload.placements, decision.placements, ranking)
    rules = partial(_rules, decision.snapshot.row, decision.why)
    known, named = _named(before.reasons, shares, decision.snapshot)
    reasons, counts = carried(known, before.reason_counts, named, at, rules)
    changes = lengthened(before.history, shares, at, rules, decision.desired)
    fields: dict[str, Any] = {
        "reasons": msgspec.to_builtins(reasons),
        "history": msgspec.to_builtins(changes),
    }
    if counts or before.reason_counts:
        fields["reasonCounts"] = msgspec.to_builtins(counts)
    return fields


def _named(
    known: list[PlacementReasons], shares: ShareDifference, snapshot: Snapshot
) -> tuple[list[PlacementReasons], ShareDifference]:
    """Renamed shares keep their steps."""
    if all(name in snapshot.row for name in shares.before):
        return known, shares
    now = current_names(snapshot.clusters, snapshot.row)
    renamed = [
        msgspec.structs.replace(each, cluster=now.get(each.cluster, each.cluster)) for each in known
    ]
    before = {now.get(name, name): replicas for name, replicas in shares.before.items()}
    return renamed, replace(shares, before=before)


# The cause of a change of placement. The queue merges events, so the last event is not the cause.
# The first part of the decision's stored inputs that differs is the cause. If none differs, the
# replicas got what they waited for.

_WAITED_FOR = {
    ScheduledReason.REPLICAS_REACHED.value: ChangeCause.QUOTA_GROWN,
    ScheduledReason.INSUFFICIENT_CAPACITY.value: ChangeCause.ROOM_GAINED,
}


def _occasion(decision: Decision, workload: Workload) -> Occasion:
    cause, name = _cause(decision, workload)
    return Occasion(timestamp(decision.time), str(cause), name, decision_id(workload))


def _cause(decision: Decision, workload: Workload) -> tuple[str, str]:
    info, snapshot = decision.workload, decision.snapshot
    present = workload.placements
    if not present:
        return ChangeCause.PLACED, ""
    if renamed := [c for c in present if c not in snapshot.row and c not in info.present]:
        return ChangeCause.CLUSTER_RENAMED, renamed[0]
    gone = [c for c in present if c not in snapshot.row or snapshot.deleting[snapshot.row[c]]]
    if gone and not decision.placements.keys() >= set(gone):
        return ChangeCause.CLUSTER_GONE, gone[0]
    constraints, demand, shape = info.decided
    if (cause := moving.cause_of(decision, present)) is not None:
        return cause
    if constraints and (constraints, shape) != (info.constraints, info.shape):
        return ChangeCause.EDITED, ""
    if demand and demand != info.demand:
        scaled = workload.status.desired != _numbers(decision)["desired"]
        return (ChangeCause.SCALED if scaled else ChangeCause.EDITED), ""
    added = [c for c in decision.placements if c not in present]
    if info.everywhere and added:
        return ChangeCause.CLUSTER_ADDED, added[0]
    if (cause := _plugin_cause(decision, present)) is not None:
        return cause
    return _learnt_limit(from_status(workload.status), info.limits) or (_waited_for(workload), "")


def _plugin_cause(decision: Decision, present: Mapping[str, int]) -> tuple[str, str] | None:
    for plugin in decision.plugins.values():
        if (method := method_of(plugin, Explainer.cause)) is None:
            continue
        try:
            shown = (present, decision.placements, decision.cycle_state)
            cause = ask(plugin, "Cause", answers.a_cause, method, *shown)
            if cause is not None:
                return cause[0][:CAUSE_LIMIT], cause[1][:CAUSE_ABOUT_LIMIT]
        except PluginError as e:
            about = {"object": "/".join(decision.workload.key)}
            LOG.error("%s", e, extra=about)  # noqa: TRY400 - the message has the place
    return None


def _learnt_limit(
    before: Mapping[str, ObservedLimit], after: Mapping[str, ObservedLimit]
) -> tuple[ChangeCause, str] | None:
    for cluster, limit in sorted(after.items()):
        if cluster not in before or limit.replicas < before[cluster].replicas:
            return ChangeCause.LIMIT_LEARNT, cluster
    for cluster, limit in sorted(before.items()):
        if cluster not in after or after[cluster].replicas > limit.replicas:
            return ChangeCause.LIMIT_LIFTED, cluster
    return None


def _waited_for(workload: Workload) -> ChangeCause:
    for condition in workload.status.conditions:
        if condition["type"] == WorkloadCondition.SCHEDULED.value:
            reason = condition.get("reason", "")
            return _WAITED_FOR.get(reason, ChangeCause.FLEET_CHANGED)
    return ChangeCause.FLEET_CHANGED


_LEAST_TELLING = (RuleKind.TIE, RuleKind.REMAINDER)


def _rules(row: Mapping[str, int], why: Reasons, cluster: str) -> list[PlacementRule]:
    if cluster not in row:
        return []
    found = [reason for reason in why(row[cluster]) if reason.kind is not RuleKind.KEPT]
    found.sort(key=lambda reason: reason.kind in _LEAST_TELLING)
    kept_rules = (msgspec.convert(reason.to_rule(), PlacementRule) for reason in found)
    return [msgspec.structs.replace(each, name=_cut(each.name)) for each in kept_rules]


def _cut(name: str) -> str:
    return name if len(name) <= NAME_LIMIT else name[: NAME_LIMIT - 1] + "…"


def _numbers(decision: Decision) -> dict[str, int]:
    # Capped so that the sum holds and pending replicas stay visible.
    desired = decision.desired + sum(decision.workload.ended.values())
    desired, pending = (min(n, MOST_UNITS) for n in (desired, decision.pending))
    return {"desired": desired, "assigned": desired - pending, "pending": pending}


def _selector(decision: Decision) -> str:
    text = decision.workload.pod_selector
    return text if len(text) <= SELECTOR_LIMIT else ""


def _message(decision: Decision) -> str:
    long = len(decision.workload.pod_selector)
    note = (
        f"; status.selector is left out: the labels of the replicas make {long} characters, "
        f"{SELECTOR_LIMIT} at most, so a HorizontalPodAutoscaler cannot find its pods"
        if long > SELECTOR_LIMIT
        else ""
    )
    return decision.message[: MESSAGE_LIMIT - len(note)] + note


def _stored(
    status: Mapping[str, Any],
    fields: Mapping[str, Any],
    workload: Workload,
    kept: Collection[str],
) -> bool:
    """Whether the status has all of it, times apart.

    Optional fields count if the object has `kept` them.
    """
    old = workload.status
    optional = {
        "selector": status["selector"] == old.selector,
        "clusterSummary": status["clusterSummary"] == old.cluster_summary,
        "limits": status.get("limits", []) == to_status(from_status(old)),
        "leaving": status.get("leaving", []) == msgspec.to_builtins(old.leaving),
        "ordinals": status.get("ordinals", []) == msgspec.to_builtins(old.ordinals),
        "displaced": status.get("displaced", []) == msgspec.to_builtins(old.displaced),
        "rebalanced": status.get("rebalanced", old.rebalanced) == old.rebalanced,
        "state": status.get("state", old.state) == old.state,
        "carried": "carried" not in status,
        "run": status.get("run", old.run) == old.run,
    }
    return (
        status["observed"]["controller"] == old.observed.controller
        and (status["desired"], status["assigned"], status["pending"])
        == (old.desired, old.assigned, old.pending)
        and _shares(status) == workload.standing
        and _parts(status["placements"]) == _parts(msgspec.to_builtins(old.placements))
        and status.get("completed", old.completed) == old.completed
        and old.says({name: value for name, value in fields.items() if name in kept})
        and status["decision"]["hash"] == old.decision.hash
        and status["conditions"] == old.conditions
        and all(same for name, same in optional.items() if name in kept)
    )


def _parts(placements: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    found = ((each["cluster"], each.get("completions")) for each in placements)
    return {cluster: part for cluster, part in found if part is not None}


def _shares(status: Mapping[str, Any]) -> dict[str, int]:
    return {share["cluster"]: share["replicas"] for share in status["placements"]}


def _hash(decision: Decision, workload: Workload) -> str:
    kept = bool(decision.placements) and dict(decision.placements) == workload.placements
    info = decision.workload
    if info.over:  # the next run under another name follows the rules of then
        return workload.status.decision.hash
    # Replicas that cannot leave yet leave once they can.
    if info.edited and decision.moving.keeps_rules_of_before:
        return "-".join((info.decided[0], info.demand, info.shape))[-HASH_LIMIT:]
    # Shares that a refusal left in place belong to the old decision. The refused edit stays an
    # edit.
    if kept and not decision.scheduled and workload.status.decision.hash:
        # The new shape: the limits next to the hash belong to it.
        return "-".join((*info.decided[:-1], info.shape))[-HASH_LIMIT:]
    return info.hash


def _reference(placements: Mapping[str, int]) -> dict[str, Any] | None:
    if len(placements) != 1:
        return None
    (cluster,) = placements
    return {"apiVersion": API_VERSION, "kind": "MemberCluster", "name": cluster}


def _conditions(
    decision: Decision, workload: Workload, leaving: Sequence[LeavingShare]
) -> list[dict[str, Any]]:
    after = {condition["type"]: condition for condition in workload.status.conditions}
    failed = after.pop(WorkloadCondition.FAILED.value, {})
    scheduled = after.get(WorkloadCondition.SCHEDULED.value, {})
    now = workload.metadata.generation
    ours = [_condition(WorkloadCondition.SCHEDULED, decision.scheduled, scheduled, decision, now)]
    if decision.state is WorkloadState.FAILED:
        ours.append(_condition(WorkloadCondition.FAILED, True, failed, decision, now))
    if (moves := moving.moving_of(decision, workload, leaving)) is not None:
        ours.append(_moving(moves, after.get(WorkloadCondition.MOVING.value, {}), decision, now))
    for condition in ours:
        after[condition["type"]] = condition
    strangers = [kind for kind in after if kind not in _KNOWN]
    for kind in strangers[CONDITIONS_LIMIT - len(_KNOWN) :]:
        del after[kind]
    return list(after.values())


def _moving(
    moves: moving.MovingCondition, old: Mapping[str, Any], decision: Decision, generation: int
) -> dict[str, Any]:
    """Each reason of False has its own time."""
    return conditions.renewed(
        old if old.get("reason") == moves.reason.value else {},
        type_=WorkloadCondition.MOVING.value,
        true=moves.true,
        reason=moves.reason.value,
        message=moves.message[:MESSAGE_LIMIT],
        now=decision.time,
        generation=generation,
    )


def _condition(
    kind: WorkloadCondition,
    holds: bool,
    old: Mapping[str, Any],
    decision: Decision,
    generation: int,
) -> dict[str, Any]:
    return conditions.renewed(
        old,
        type_=kind.value,
        true=holds,
        reason=decision.reason.value,
        message=_message(decision),
        now=decision.time,
        generation=generation,
    )
