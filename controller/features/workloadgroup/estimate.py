"""The shortage of a gang, before and after an attempt.

The resource gap is a lower bound: if it reports a shortage, no pass could place the quorum, nor so
much of it that it were held. A gang without a gap may still fail. Overrides and the patches of a
WorkloadSpread are unknown here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

import numpy as np

from controller.features.workloadgroup.compiled import CompiledGroup, named
from controller.features.workloadgroup.fairness import KEPT
from controller.features.workloadgroup.ledger import Member
from controller.features.workloadgroup.reach import (
    MOST_CLASSES,
    Class,
    Filters,
    Reach,
    classes,
    free,
    of_default_profile,
    usable,
)
from controller.features.workloadgroup.topology import HOMELESS, OUTSIDE, UNLABELLED
from controller.framework.explains import either
from controller.framework.gathering import Trial
from controller.framework.room import room
from controller.model.unit import WorkloadInfo
from controller.snapshot.columns import Ints, Mask, sums
from controller.snapshot.inflight import NO_FLIGHTS
from controller.snapshot.snapshot import Snapshot
from crds.workload import ScheduledReason
from machinery.clock import timestamp
from machinery.types import hostports, quantities
from machinery.types.bounds import clean
from machinery.types.metadata import Key

TOO_MANY: Final = "TooManyWorkloads"
GAP: Final = "ResourceGap"
_BY_CODE: Final = {
    UNLABELLED: "that label on the MemberCluster",
    OUTSIDE: "spec.topology with mode Preferred, or without it, in {group}",
    HOMELESS: "the label of spec.topology on the clusters that {group} is on",
    KEPT: "nothing but time: an earlier gang has its turn there",
    TOO_MANY: "several groups instead of {group}, or its label taken off some of its Workloads",
}
"""Cures by the code of the refusal."""

_OF_ALL: Final = {
    ScheduledReason.GROUP_NOT_FOUND: "{group}, or no label that names it",
    ScheduledReason.AMBIGUOUS_GROUP: "one name in all its labels that name a WorkloadGroup",
    ScheduledReason.INVALID_GROUP: "another value in the field of {group} that is named",
    ScheduledReason.WAITING_FOR_GROUP: "room for the last replicas of {group}, or a"
    " smaller minMember",
    ScheduledReason.GROUP_DENIED: "room for minMember replicas of {group}, smaller requests or a"
    " smaller minMember: stowage explain wg/{name} says where",
    ScheduledReason.GROUP_INCOMPLETE: "more replicas in the Workloads of {group}, or a smaller"
    " minMember",
    ScheduledReason.GROUP_WITHDRAWN: "nothing but time, once what {group} names in its own"
    " condition is mended",
    ScheduledReason.SCHEDULE_TIMEOUT: "room for the last replicas of {group}, or a"
    " smaller minMember",
}
"""Cures for a refusal of the whole Workload, by the reason of Scheduled."""

_NAMED = 3
"""Workloads that a message names."""
_DETAIL = 512
"""Characters of one Workload's obstacle in a message."""


def gap(
    group: CompiledGroup,
    members: Collection[Member],
    snapshot: Snapshot,
    filters: Filters = of_default_profile,
) -> str:
    """Return what the quorum lacks; empty if no shortage is found.

    `members` are all that could have replicas; `filters` are those of their profiles.
    """
    assigned = sum(member.assigned + member.workload.ended_replicas for member in members)
    need = group.min_member - assigned
    infos = [member.workload for member in members if member.open or member.workload.everywhere]
    keeps = any(name in snapshot.row for info in infos for name in info.moving.kept)
    if need <= 0 or not infos or keeps:
        return ""
    snapshot, least = replace(snapshot, holds=NO_FLIGHTS, merged={}), need - group.min_member // 10
    found = [each for each in classes(infos) if each.wanted]
    open_ = [usable(each.workload, snapshot, filters) for each in found[:MOST_CLASSES]]
    shut_out = (each for each, mask in zip(found, open_, strict=False) if not mask.any())
    could = sum(_wanted(each, snapshot) for each in found) - sum(
        _wanted(s, snapshot) for s in shut_out
    )
    if could < least and (len(snapshot) or not found):
        return ""  # room would not help: an attempt finds what keeps them out
    there = np.any(open_ or [np.zeros(len(snapshot), dtype=np.bool_)], axis=0)
    there |= len(found) > MOST_CLASSES  # further classes may be able to go anywhere
    if group.min_resources:
        short = _short_of_amounts(group.min_resources, members, there, snapshot)
        return _words(short, "for spec.minResources of the group") if short else ""
    if least <= 0:
        return ""
    fits, short = (
        Reach.of(infos, snapshot, filters=filters).places(),
        _short_in_sum(found, there, least, need, snapshot),
    )
    if fits >= least and not short:
        return ""
    if len(found) <= MOST_CLASSES:
        short = _short_of_units(found, open_, need, snapshot) | short
    short = short or _together(found, need - fits)
    return _words(short, f"{min(fits, need)} of {need} replicas have room")


def _short_in_sum(
    found: Sequence[Class], there: Mask, least: int, need: int, snapshot: Snapshot
) -> dict[str, int]:
    """Return the missing amounts for `least` of the smallest replicas, over all clusters."""
    short: dict[str, int] = {}
    if (snapshot.virtual & there).any():
        return short
    for resource in sorted({r for each in found for r in each.workload.request}):
        sizes = sorted(
            (
                each.workload.request.get(resource, 0) if each.workload.counted else 0,
                _wanted(each, snapshot),
            )
            for each in found
        )
        # Amounts on their way are not subtracted: some may lie where no replica of the gang could.
        has = _total(free(resource, snapshot), there)
        if _cost(sizes, least) > has:
            short[resource] = _cost(sizes, need) - has
    return short


def _cost(sizes: Sequence[tuple[int, int]], replicas: int) -> int:
    """Return the request of the smallest replicas; `sizes` are (size, number), by size."""
    cost = 0
    for size, number in sizes:
        taken = min(number, replicas)
        cost, replicas = cost + taken * size, replicas - taken
    return cost


def _short_of_units(
    found: Sequence[Class], open_: Sequence[Mask], need: int, snapshot: Snapshot
) -> dict[str, int]:
    """Return the least missing amount of each resource by itself."""
    short = {}
    for resource in sorted({r for each in found for r in each.workload.request}):
        fits = sum(
            min(
                int(room(each.workload, snapshot, only=resource)[there].sum()),
                _wanted(each, snapshot),
            )
            for each, there in zip(found, open_, strict=True)
        )
        if fits < need:
            asked = (each.workload.request.get(resource, 0) for each in found)
            short[resource] = (need - fits) * min(n for n in asked if n)
    return short


def _wanted(each: Class, snapshot: Snapshot) -> int:
    return each.wanted * len(snapshot) if each.workload.everywhere else each.wanted


def _together(found: Sequence[Class], replicas: int) -> dict[str, int]:
    # One replica stands for all, unless every Workload goes whole to one cluster.
    more = replicas if replicas > 0 and all(each.workload.whole for each in found) else 1
    first = min(found, key=lambda each: sorted(each.workload.request.items())).workload.request
    asked = {name: amount for name, amount in first.items() if name != "pods"} or first
    return {name: amount * more for name, amount in asked.items()}


def _short_of_amounts(
    wanted: Mapping[str, int], members: Collection[Member], there: Mask, snapshot: Snapshot
) -> dict[str, int]:
    """Return the missing part of these amounts, without those that members already have."""
    if (snapshot.virtual & there).any():
        return {}
    short = {}
    for resource, amount in sorted(wanted.items()):
        has = sum(each.assigned * each.workload.request.get(resource, 0) for each in members)
        left = np.maximum(free(resource, snapshot) - snapshot.coming(resource), 0)
        if (missing := amount - has - _total(left, there)) > 0:
            short[resource] = missing
    return short


def _total(amounts: Ints, there: Mask) -> int:
    row = np.zeros(len(amounts), dtype=np.int64)
    return int(sums(row, np.where(there, amounts, 0), 1)[0])


def _words(short: Mapping[str, int], why: str) -> str:
    """Return, for example, `resource gap: cpu 3 more (1 of 4 replicas have room)`."""
    lacks = (f"{hostports.words(r)} {quantities.render(r, n)} more" for r, n in short.items())
    return f"resource gap: {', '.join(lacks)} ({why})"


def keeps_waiting(group: CompiledGroup, found: int) -> bool:
    """Whether at most a tenth of the quorum is missing."""
    return 0 < found < group.min_member and (group.min_member - found) * 10 <= group.min_member


def waits(group: CompiledGroup, found: int, until: datetime) -> str:
    """Return the message of held replicas, constant while they are held."""
    missing = group.min_member - found
    return (
        f"{group} has a cluster for {found} of {group.min_member} replicas (minMember): they are "
        f"held until {timestamp(until)} for {missing} more"
    )


def timed_out(group: CompiledGroup) -> str:
    return (
        f"was held for {group.timeout} s (scheduleTimeoutSeconds) and its quorum did not "
        "come together: what was held is given back"
    )


def rejected(
    group: CompiledGroup, found: int, tried: Sequence[Trial], left_out: Sequence[Key], denial: str
) -> tuple[str, str]:
    """Return the message of a failed attempt, and why it failed.

    `left_out` are members that are refused themselves; `denial` says how long the gang is not
    tried.
    """
    short = next((each for each in tried if each.assigned < each.desired), None)
    who = (
        short.workload.name
        if short is not None
        else min((name for _, name in left_out), default="")
    )
    due = f"due to Pod {who} is unschedulable even after PostFilter"
    said = [f"{found} of {group.min_member} replicas (minMember) have a cluster"]
    if short is not None:
        said.append(f"{who}: {clean(short.message, _DETAIL)}")
    if left_out:
        names = sorted(name for _, name in left_out)
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        listed = either(names[:_NAMED], "and") if not more else ", ".join(names[:_NAMED])
        said.append(f"without {listed}{more}: see why in their own conditions")
    head = f"{group} gets rejected" + (f" {due}" if who else ", as what is missing others decide")
    why = "; ".join(said)
    return f"{head}; {denial}{why}", why


def cure(info: WorkloadInfo, reason: ScheduledReason, code: str) -> str:
    name = info.groups[0] if len(info.groups) == 1 else ""
    group = named((info.namespace, name))
    words = _BY_CODE.get(code) or _OF_ALL.get(reason, "what {group} says in its own status")
    return words.format(group=group, name=name)
