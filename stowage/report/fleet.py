"""The report of `stowage status` on clusters, Workloads and the leases of both processes.

Of ten thousand Workloads the report keeps counts, and a finding for each that has a problem.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from controller.model.objects import Condition, MemberCluster
from crds.names import (
    ANNOTATION_RELEASE,
    ANNOTATION_SHARDS,
    DEFAULT_SCHEDULER,
    PROPAGATOR_CONFIG,
    PROPAGATOR_LEASE,
    SYSTEM_NAMESPACE,
    TAINT_DRAIN,
)
from machinery.api.resources import CONFIG_MAPS, LEASES
from machinery.errors import NotFound, TransportError
from machinery.release import neighbours, parsed
from machinery.types import quantities
from machinery.types.api import Capacity, Placement
from machinery.types.metadata import Meta
from machinery.types.shards import config_fault, lease_name, shards_of
from stowage.console import output
from stowage.console.words import count, time
from stowage.report import advice, groups
from stowage.report.features import GROUPS
from stowage.report.findings import (
    PATIENCE_SECONDS,
    Finding,
    ProcessSummary,
    Report,
    Summary,
    condition,
    overdue,
    tally,
    undecided,
    unplaced,
    unready,
)

if TYPE_CHECKING:
    from machinery.api.client import ApiClient
    from stowage.hub import ObjectReader

REMOVAL_SECONDS = 300.0
"""Seconds that a removal may take: pods end in their own time."""
NAMED = 3
"""Clusters that one row names."""
SERVING = ("Ready", "Cordoned", "Draining", "Drained")
"""States of clusters that answer, whether or not replicas may go there."""
PROCESSES = ("stowage-controller", "stowage-propagator")
_UNLED = {"propagator": "nothing will move"}


class Share(msgspec.Struct, rename="camel"):
    """The propagator's report on one cluster, from the status of a Workload."""

    name: str
    replicas: int = 0
    scheduled: int = 0
    unschedulable: int = 0
    unschedulable_since: str = ""
    state: str = ""
    message: str = ""
    ended: dict[str, str] | None = None


_NONE = msgspec.Raw(b"null")


class WorkloadSummarySpec(msgspec.Struct, rename="camel"):
    scheduler_name: str = DEFAULT_SCHEDULER
    template: msgspec.Raw = _NONE
    target_deployment: msgspec.Raw = _NONE


class WorkloadSummaryStatus(msgspec.Struct):
    state: str = ""
    desired: int = 0
    assigned: int = 0
    pending: int = 0
    ready: int = 0
    placements: list[Placement] = []
    clusters: list[Share] = []
    conditions: list[Condition] = []


class WorkloadSummary(Summary):
    spec: WorkloadSummarySpec = msgspec.field(default_factory=WorkloadSummarySpec)
    status: WorkloadSummaryStatus = msgspec.field(default_factory=WorkloadSummaryStatus)

    def condition(self, kind: str) -> Condition | None:
        return condition(self.status.conditions, kind)

    @property
    def groups(self) -> tuple[str, ...]:
        """The WorkloadGroups that its labels and its template name; decodes the template."""
        bodies = {"template": self.spec.template, "targetDeployment": self.spec.target_deployment}
        spec = {name: msgspec.json.decode(body) for name, body in bodies.items()}
        return groups.names_of({"metadata": {"labels": self.metadata.labels}, "spec": spec})


class _LeaseSpec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int = 0
    renew_time: str | None = None


class Lease(Summary):
    spec: _LeaseSpec = msgspec.field(default_factory=_LeaseSpec)


def take_leases(report: Report, leases: Iterable[Lease], now: datetime) -> None:
    """Report the leader of each process; a process without a leader needs a person."""
    known = {each.metadata.name: each for each in leases}
    others = sorted(n for n in known if n.startswith(f"{PROCESSES[0]}-"))
    names = [n for n in PROCESSES if n in known or not (others and n == PROCESSES[0])]
    notes = known[PROPAGATOR_LEASE].metadata.annotations if PROPAGATOR_LEASE in known else {}
    report.shards = shards_of(notes.get(ANNOTATION_SHARDS, "")) or 1
    names += [lease_name(shard) for shard in range(1, report.shards)]
    report.processes = [_process(name, known.get(name), now) for name in (*names, *others)]
    report.releases_apart = _apart(report.processes)


class ShardConfig(Summary):
    """The ConfigMap that sets the number of shards."""

    data: dict[str, str] = msgspec.field(default_factory=dict)


def take_shards(report: Report, api: ObjectReader, system: str) -> None:
    """Report what is wrong with the ConfigMap. Raises TransportError."""
    try:
        config = api.read(CONFIG_MAPS, PROPAGATOR_CONFIG, system, ShardConfig)
        said = config.data.get("shards", "")
    except NotFound:
        said = None
    where = f"{system}/{PROPAGATOR_CONFIG}"
    report.shards_fault = config_fault(where, said, report.shards)


def _apart(processes: Iterable[ProcessSummary]) -> str:
    """Name the oldest and the newest release where more than a minor version is between them."""
    known = sorted((p for p in processes if parsed(p.release)), key=lambda p: parsed(p.release))
    if not known or neighbours(known[0].release, known[-1].release):
        return ""
    older, newer = (f"{p.name.removeprefix('stowage-')} {p.release}" for p in (known[0], known[-1]))
    return (
        f"{older} and {newer} are more than one minor version apart, and not tried together: run "
        "`stowage upgrade`"
    )


async def unled(hub: ApiClient, now: datetime) -> dict[str, str]:
    """Return a note for each process that nobody leads; empty where no Lease may be read."""
    try:
        leases = await _leases(hub, SYSTEM_NAMESPACE) or await _leases(hub, None)
    except TransportError:
        return {}
    report = Report()
    take_leases(report, leases, now)
    names = [p.name.removeprefix("stowage-") for p in report.processes if not p.leads]
    return {
        name: f"no {name} leads: {_UNLED.get(name, 'nothing will be decided')} until one runs; "
        "`stowage status` says who led last, and `stowage install` starts both processes"
        for name in names
    }


async def _leases(hub: ApiClient, namespace: str | None) -> list[Lease]:
    listed = (await hub.list(LEASES, namespace=namespace))["items"]
    ours = [each for each in listed if each["metadata"]["name"].startswith(PROCESSES)]
    return msgspec.convert(ours, list[Lease])


def _process(name: str, lease: Lease | None, now: datetime) -> ProcessSummary:
    spec = lease.spec if lease else _LeaseSpec()
    renewed = time(spec.renew_time or "")
    silent = max((now - renewed).total_seconds(), 0.0) if renewed else -1.0
    # Clocks of two machines differ; twice the lease is silence beyond that.
    leads = bool(spec.holder_identity) and 0 <= silent <= 2 * spec.lease_duration_seconds + 5
    release = lease.metadata.annotations.get(ANNOTATION_RELEASE, "") if lease else ""
    return ProcessSummary(name, spec.holder_identity or "", release, round(silent, 1), leads)


def take_clusters(report: Report, clusters: Iterable[MemberCluster], names: set[str]) -> None:
    """Count the clusters by state, and list those that are not ready, are left or hold a sweep.

    The names that they have or had are added to `names`.
    """
    braked = list[Finding]()
    for each in clusters:
        names.update((each.metadata.name, *each.spec.former_names))
        if (left := _evacuating(each)) is not None:
            (braked if left.state == "Braked" else report.evacuating).append(left)
        ready = condition(each.status.conditions, "Ready")
        state = cluster_state(each, ready)
        tally(report.clusters, state)
        report.cluster_names.setdefault(state, []).append(each.metadata.name)
        capacity = each.status.capacity or Capacity()
        for resource, text in capacity.allocatable.items():
            known = report.offered.get(resource, 0)
            report.offered[resource] = known + quantities.bounded(resource, text)
        held = condition(each.status.conditions, "SweepHeld")
        if held is not None and held.status == "True":
            helps = advice.SWEEPS.get(held.reason, advice.UNKNOWN)
            report.sweeps_held.append(unready(each.metadata.name, held, helps))
        if state in SERVING:
            continue
        reason = ready.reason if ready else ""
        report.clusters_not_ready.append(
            Finding(
                each.metadata.name,
                state,
                since=_since(each.metadata, ready),
                message=ready.message if ready else "the propagator has not said anything of it",
                help="" if state == "Leaving" else advice.CLUSTERS.get(reason, advice.UNKNOWN),
                urgent=state != "Leaving",
            )
        )

    if braked:  # what brakes one brakes all
        first = min(braked, key=lambda each: each.name)
        first.name = output.named(sorted(each.name for each in braked), NAMED)
        report.evacuating.append(first)


def _evacuating(cluster: MemberCluster) -> Finding | None:
    said = condition(cluster.status.conditions, "Evacuating")
    if said is None or said.reason in ("", "None"):
        return None
    evacuation = cluster.status.evacuation
    causes = evacuation is not None and evacuation.causes
    units = f"{evacuation.left} of {evacuation.units}" if evacuation and causes else ""
    # The status of the condition may be older than its cause: it stays False from one to the next.
    began = min((each.since for each in causes), default="") if causes else ""
    return Finding(
        cluster.metadata.name,
        said.reason,
        since=max(said.last_transition_time, began),
        units=units,
        message=said.message,
        help=advice.EVACUATING.get(said.reason, ""),
        urgent=said.reason == "Braked",
    )


def cluster_state(cluster: MemberCluster, ready: Condition | None) -> str:
    """Return one of SERVING, the reason of a Ready that is not True, Unknown or Leaving."""
    if cluster.metadata.deleting or cluster.given_up:
        return "Leaving"
    if ready is None:
        return "Unknown"
    if ready.status != "True":
        return ready.reason or "NotReady"
    if any(each.key == TAINT_DRAIN for each in cluster.spec.taints):
        evacuating = condition(cluster.status.conditions, "Evacuating")
        drained = evacuating is not None and evacuating.reason == "Drained"
        return "Drained" if drained else "Draining"
    return "Cordoned" if cluster.spec.unschedulable else "Ready"


def take_workloads(
    report: Report,
    workloads: Iterable[WorkloadSummary],
    now: datetime,
    names: Collection[str] | None = None,
) -> None:
    """Count the Workloads by state and list the findings; those of groups must be complete.

    `names` are those of all clusters, where they are known: a cluster with units that has none of
    them is away.
    """
    away: dict[str, list[int]] = {}
    report.units = dict.fromkeys(("desired", "assigned", "ready"), 0)
    groups = frozenset(each.name for each in report.findings.get(GROUPS.name, ()))
    for each in workloads:
        status = each.status
        tally(report.workloads, workload_state(each))
        for key in report.units:
            report.units[key] += getattr(status, key)
        if each.metadata.deleting:
            report.removing.append(_removed(each, now))
            continue
        ended = {share.name for share in status.clusters if share.ended is not None}
        for share in status.placements:
            if names is not None and share.cluster not in names and share.cluster not in ended:
                away.setdefault(share.cluster, []).append(share.replicas)
        report.moving += _moved(each)
        report.moves_blocked += _blocked(each, now)
        report.rollouts += _rolled_out(each)
        waiting, failing = _waiting(each, now), _failing(each, now)
        for matter in filter(None, (waiting, failing)):
            if matter.state in advice.WITH_GROUP and _group(each) in groups:
                # the row of the group gives the advice
                matter.help, matter.urgent = "", False
        report.pending += [waiting] if waiting else []
        report.failing += [failing] if failing else []
    for name, units in sorted(away.items()):
        tally(report.clusters, "Away")
        report.cluster_names.setdefault("Away", []).append(name)
        report.clusters_not_ready.append(_away(name, units))


def _away(name: str, units: Sequence[int]) -> Finding:
    total, workloads = sum(units), len(units)
    of = f"{total} replica{'' if total == 1 else 's'} of {workloads} Workload"
    message = f"there is no MemberCluster of this name: {of}{'' if workloads == 1 else 's'}"
    return Finding(
        name,
        "Away",
        message=f"{message} may run there unseen",
        help=advice.CLUSTERS["Away"],
        urgent=True,
    )


def _group(workload: WorkloadSummary) -> str:
    """Return the name of its group as a finding has it; empty for none or several."""
    named = workload.groups
    return f"{workload.metadata.namespace}/{named[0]}" if len(named) == 1 else ""


def workload_state(workload: WorkloadSummary) -> str:
    if workload.metadata.deleting:
        return "Removing"
    if workload.status.state:
        return workload.status.state
    ours = workload.spec.scheduler_name == DEFAULT_SCHEDULER
    return "Undecided" if ours else "LeftToOthers"


def _waiting(workload: WorkloadSummary, now: datetime) -> Finding | None:
    status, said = workload.status, workload.condition("Scheduled")
    if said is None:
        return undecided(workload, now) if workload_state(workload) == "Undecided" else None
    if said.status == "True":
        return None
    found = unplaced(workload.name, said, f"{status.pending} of {status.desired}")
    found.urgent = found.urgent and not _passes(said, now)
    return found


def _passes(said: Condition, now: datetime) -> bool:
    """Return whether it has waited less than the patience for what most often comes by itself."""
    waits = said.reason in ("WaitingForGroup", "GroupIncomplete", "HubUnavailable", "NotReviewed")
    return waits and not overdue(said.last_transition_time, PATIENCE_SECONDS, now)


def _failing(workload: WorkloadSummary, now: datetime) -> Finding | None:
    said = workload.condition("Propagated")
    if said is not None and said.reason == "ClusterUnreachable":
        away = [each.name for each in workload.status.clusters if each.state == "Unreachable"]
        named = output.named(away, NAMED) or "a cluster"
        message = f"{named} cannot be reached"
        return Finding(workload.name, said.reason, said.last_transition_time, message=message)
    if said is not None and said.status == "False" and said.reason != "Propagating":
        return Finding(
            workload.name,
            said.reason,
            since=said.last_transition_time,
            message=said.message,
            help=advice.PROPAGATED.get(said.reason, advice.UNKNOWN),
            urgent=said.reason not in advice.PATIENT and not _passes(said, now),
        )
    stuck = [each for each in workload.status.clusters if each.unschedulable]
    late = [s for s in stuck if overdue(s.unschedulable_since, PATIENCE_SECONDS, now)]
    if not late:
        return None
    first = late[0]
    more = f" and {count(len(late) - 1, 'more cluster')}" if len(late) > 1 else ""
    cause, helps = advice.without_node(first.message)
    return Finding(
        workload.name,
        "NoNode",
        since=first.unschedulable_since,
        units=f"{sum(each.unschedulable for each in late)} of {workload.status.desired}",
        message=f"{first.name}{more}: no node takes them" + (f": {cause}" if cause else ""),
        help=helps,
        urgent=True,
    )


def _blocked(workload: WorkloadSummary, now: datetime) -> list[Finding]:
    said = workload.condition("Moving")
    if said is None or said.status == "True" or said.reason == "Settled":
        return []
    if not overdue(said.last_transition_time, PATIENCE_SECONDS, now):
        return []
    return [_told(workload, said, advice.MOVING)]


def _rolled_out(workload: WorkloadSummary) -> list[Finding]:
    said = workload.condition("RolledOut")
    return (
        [] if said is None or said.status == "True" else [_told(workload, said, advice.ROLLED_OUT)]
    )


def _told(workload: WorkloadSummary, said: Condition, table: Mapping[str, str]) -> Finding:
    """Return what a condition says; it is urgent where the table has advice by its reason."""
    helps = table.get(said.reason, "")
    return Finding(
        workload.name,
        said.reason,
        since=said.last_transition_time,
        message=said.message,
        help=helps,
        urgent=bool(helps),
    )


def _moved(workload: WorkloadSummary) -> list[Finding]:
    said = workload.condition("Moving")
    if said is not None and said.status == "True":
        return [
            Finding(workload.name, said.reason, said.last_transition_time, message=said.message)
        ]
    leaving = [each for each in workload.status.clusters if each.state == "Leaving"]
    if not leaving:
        return []
    names = output.named([each.name for each in leaving], NAMED)
    # `replicas` are those that shall stay; of these none may be left.
    units = sum(max(each.replicas, each.scheduled + each.unschedulable) for each in leaving)
    why = next((f": {each.message}" for each in leaving if each.message), "")
    return [Finding(workload.name, "Leaving", units=str(units), message=f"leaves {names}{why}")]


def _removed(workload: WorkloadSummary, now: datetime) -> Finding:
    since = workload.metadata.deletion_timestamp or ""
    late = overdue(since, REMOVAL_SECONDS, now)
    said = workload.condition("Propagated")
    if said is not None and said.reason == "DeletionHeld":
        return unready(workload.name, said, advice.PROPAGATED[said.reason])
    left = [each.name for each in workload.status.clusters]
    where = f"still on {output.named(left, NAMED)}" if left else "its last objects go"
    refused = said is not None and said.status == "False" and said.reason != "ClusterUnreachable"
    why = said.message if said is not None and refused else ""
    helps = "a cluster that answers, or stowage unjoin for one that is gone for good"
    if said is not None and refused:
        helps = advice.PROPAGATED.get(said.reason, "")
    return Finding(
        workload.name,
        "Removing",
        since=since,
        units=str(sum(each.replicas for each in workload.status.clusters)),
        message=f"{where}: {why}" if why else where,
        help=helps if late else "",
        urgent=late,
    )


def _since(meta: Meta, condition: Condition | None) -> str:
    if meta.deletion_timestamp:
        return meta.deletion_timestamp
    return condition.last_transition_time if condition else meta.creation_timestamp
