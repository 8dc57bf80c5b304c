"""The orders of Assignments as Shares, and ShareReports as their status. Pure.

The Assignment has all that the member side knows of a Workload, so the same code carries out an
order here and in the propagator.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from crds.assignment import AssignmentOrder, AssignmentState
from crds.fields.dependencies import Dependencies
from crds.fields.shares import ShareState
from crds.names import ANNOTATION_HUB, ANNOTATION_KINDS
from crds.workload import OnDelete, PropagatedReason
from machinery.api.resources import group_of
from machinery.kinds.profile import kind_name
from propagator.members.objects import ANNOTATION_TOLD, Mark, version_number
from propagator.orders import Share, ShareReport
from propagator.outcome import DesiredShare
from propagator.pull.bundle import Bundle, Unreadable, described_by, pieces_of, unpacked
from propagator.status.cluster_share import MESSAGE_LIMIT, ReportedShare
from propagator.types.assignment import Assignment
from propagator.types.workload import Workload, WorkTold, workload_of

_LONG_AGO = "2000-01-01T00:00:00Z"
_PLACED = (AssignmentOrder.APPLY, AssignmentOrder.KEEP, AssignmentOrder.OBSERVE)


class Assigned:
    """One Assignment, unpacked. Raises Unreadable."""

    def __init__(self, found: Assignment, member: str) -> None:
        self.found = found
        self.member = member
        self.order = AssignmentOrder(found.spec.order)
        self._bundle = unpacked(found.spec.bundle) if found.spec.bundle else Bundle()
        self.described = described_by(self._bundle)
        self.workload = _workload(found, self._bundle, self.order, member)

    @property
    def kinds(self) -> list[str]:
        """The names that WorkloadKinds of its kinds have."""
        pairs = (each.rpartition("/") for each in self._bundle.kinds)
        return [kind_name(group_of(version), kind) for version, _, kind in pairs]

    @property
    def mark(self) -> Mark:
        """The MemberCluster on the hub, and the cluster that the order is for."""
        return Mark.of(self.found.metadata)

    @property
    def allowed_kinds(self) -> frozenset[str]:
        return frozenset(self.found.spec.share_rules.allowed_kinds)

    @property
    def desired(self) -> DesiredShare:
        return DesiredShare.of(self.workload, self.member)

    def share(self, contents: Mapping[str, bytes], *, hub: str) -> Share:
        """Return the order; `contents` are the Secrets that go along, by name.

        Raises Unreadable, also for objects of another hub than `hub`.
        """
        spec, rules = self.found.spec, self.found.spec.share_rules
        pieces = pieces_of(self._bundle, contents) if self.order is AssignmentOrder.APPLY else []
        for piece in pieces:
            said = piece.body["metadata"].get("annotations", {}).get(ANNOTATION_HUB, hub)
            if said != hub:
                raise Unreadable(f"{piece.kind} {piece.name} is of another hub ({said})")
        decided = version_number(spec.decided)
        return Share(
            order=self.order,
            workload=self.workload,
            desired=self.desired,
            replicas=spec.replicas,
            pieces=tuple(pieces),
            absent={(kind, name): state for kind, name, state in self._bundle.absent},
            decided=math.inf if decided is None else decided,
            orphan=None if rules.forgotten else rules.on_delete == OnDelete.ORPHAN,
            left=rules.left,
            told=WorkTold(rules.done, rules.part, rules.awaits_end, self.workload.run),
            forced=rules.forced,
            accepted=rules.accepted,
        )


def _workload(found: Assignment, bundle: Bundle, order: AssignmentOrder, member: str) -> Workload:
    spec, rules, of = found.spec, found.spec.share_rules, found.spec.workload
    metadata: dict[str, Any] = {
        "namespace": of.namespace,
        "name": of.name,
        "uid": of.uid,
        "generation": of.generation,
        "resourceVersion": spec.decided,
        "annotations": {ANNOTATION_KINDS: ",".join(bundle.kinds)},
    }
    if rules.deleted:
        metadata["deletionTimestamp"] = _LONG_AGO
    main = next((each.body for each in bundle.objects if each.main), None)
    body: dict[str, Any] = {
        "targetNamespace": spec.target_namespace,
        "adoption": rules.adoption,
        "drift": rules.drift,
        "onDelete": rules.on_delete,
        "movement": msgspec.to_builtins(rules.budgets) if rules.budgets is not None else {},
        "manifests": [each.body for each in bundle.objects if not each.main],
        "statusFields": _fields(bundle),
        "replicasPath": bundle.replicas_path,
    }
    if bundle.follows:
        body["dependencies"] = Dependencies.FOLLOW.value
    if main is not None:
        body["template"] = main
    drift = [{**msgspec.to_builtins(each), "cluster": member} for each in found.status.drift]
    status: dict[str, Any] = {"kept": kept_of(found, member), "drift": drift}
    asks = order is AssignmentOrder.OBSERVE and bool(rules.kept)  # for what a share has left
    if order in _PLACED and not asks:
        placed: dict[str, Any] = {"cluster": member, "replicas": spec.replicas}
        if rules.part is not None:
            placed["completions"] = rules.part
        status["placements"] = [placed]
    if rules.ended is not None:
        ended = msgspec.to_builtins(rules.ended)
        status["clusters"] = [{"name": member, "state": "Complete", "ended": ended}]
    if rules.deletion_costs:
        of_member = {"name": member, "deletionCosts": msgspec.to_builtins(rules.deletion_costs)}
        status["overrides"] = [{"clusters": [of_member]}]
    if rules.revision:
        body["rollout"] = {"strategy": "Staged"}
        status["rollout"] = {"revision": rules.revision}
    return workload_of({"metadata": metadata, "spec": body, "status": status})


def kept_of(found: Assignment, member: str) -> list[dict[str, Any]]:
    """Return what the hub knows as kept, under the present name of the member."""
    both = [*found.status.kept, *found.spec.share_rules.kept]
    known = {(each.kind, each.namespace, each.name) for each in both}
    return [
        {"cluster": member, "kind": kind, "namespace": namespace, "name": name}
        for kind, namespace, name in sorted(known)
    ]


def _fields(bundle: Bundle) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for each in bundle.objects:
        meta = each.body["metadata"]
        about = {"kind": each.body["kind"], "name": meta["name"]}
        target = {} if each.main else {"target": about}
        if noted := meta.get("annotations", {}).get(ANNOTATION_TOLD, ""):
            said = msgspec.json.decode(noted, type=dict[str, str])
            found |= {name: {"name": name, "path": path, **target} for name, path in said.items()}
    return [*found.values()]


_COUNTS = (
    "scheduled",
    "current",
    "finished",
    "completed",
    "succeeded",
    "failed",
    "available",
    "unschedulable",
    "unschedulableSince",
    "refused",
    "updated",
    "outdated",
)
_SAME = ("health", "ended", "blocked", "holds", "start", "fields", "loadBalancer")


def status_of(
    assigned: Assigned,
    share: ReportedShare,
    report: ShareReport,
    *,
    kept: Sequence[Mapping[str, Any]],
    drift: Sequence[Mapping[str, Any]],
    reported: int | None,
) -> dict[str, Any]:
    """Return the status without its time.

    `report` is that of the present order, and `reported` the version of the MemberReport that
    counts the pods.
    """
    spec, entry = assigned.found.spec, share.entry
    asked = int(share.shared({}, None).get("asked", spec.replicas))
    counts = {name: entry[name] for name in _COUNTS if entry.get(name) is not None}
    counts |= {"asked": asked, "ready": min(int(entry["ready"]), asked)}
    if "available" in counts:
        counts["available"] = min(counts["available"], counts["ready"])
    status: dict[str, Any] = {
        "digest": spec.digest,
        "decided": spec.decided,
        "state": entry["state"],
        "reason": entry.get("reason"),
        "message": entry["message"],
        "counts": counts,
        "kept": list(kept),
        "looked": bool(assigned.found.spec.share_rules.kept) or None,
        "drift": list(drift),
        "reported": str(reported) if reported is not None else None,
    }
    status |= {name: entry.get(name) for name in _SAME}
    if assigned.order is AssignmentOrder.REMOVE:
        status |= _removal(report, kept)
    elif assigned.order is AssignmentOrder.LOWER:
        said = report.outcome
        status |= {"state": ShareState.LEAVING.value, "message": said.message, "reason": None}
        if said.blocked is not None:
            blocked = said.blocked
            status["blocked"] = {"reason": blocked.reason.value, "message": blocked.message}
    return {name: value for name, value in status.items() if value not in (None, [], "")}


def unreadable(found: Assignment, why: str) -> dict[str, Any]:
    return {
        "digest": found.spec.digest,
        "decided": found.spec.decided,
        "state": ShareState.PENDING.value,
        "reason": PropagatedReason.PROPAGATING.value,
        "message": f"its agent cannot read the order: {why}"[:MESSAGE_LIMIT],
    }


def _removal(report: ShareReport, kept: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    why = report.obstacle
    if why is None:
        state = AssignmentState.KEPT if report.stays and kept else AssignmentState.REMOVED
        return {"state": state.value, "reason": None, "message": ""}
    if why.reason is PropagatedReason.PROPAGATING:
        return {"state": AssignmentState.LEAVING.value, "reason": None, "message": str(why)}
    return {
        "state": AssignmentState.KEPT.value,
        "reason": why.reason.value,
        "message": str(why),
    }
