"""What lifts a refusal of a gang, in words, as `stowage explain` and the diagnosis print it.

Of a cluster it is what would let new units of the gang go there; of a Workload as a whole, what its
group lacks. How much of it is told by `stowage explain wg/NAME`, which looks at all members.
"""

from __future__ import annotations

from typing import Final

from controller.features.workloadgroup.compiled import named
from controller.model.unit import Unit
from crds.workload import ScheduledReason

_TOO_FEW: Final = " in all its Workloads, minMember is "
_OF_CLUSTERS: Final = (
    ("without label ", "that label on the MemberCluster"),
    ("outside ", "spec.topology with mode Preferred, or without it, in {group}"),
    ("in a domain, while ", "the label of spec.topology on the clusters that {group} is on"),
    ("kept for ", "nothing but time: an earlier gang has its turn there"),
)
"""Of a cluster, by how its refusal begins."""

_OF_ALL: Final = {
    ScheduledReason.GROUP_NOT_FOUND: "{group}, or no label that names it",
    ScheduledReason.AMBIGUOUS_GROUP: "one name in all its labels that name a WorkloadGroup",
    ScheduledReason.INVALID_GROUP: "another value in the field of {group} that is named",
    ScheduledReason.WAITING_FOR_GROUP: "room for the last units of {group}, or a smaller minMember",
    ScheduledReason.GROUP_DENIED: "room for minMember units of {group}, smaller requests or a"
    " smaller minMember: stowage explain wg/{name} says where",
    ScheduledReason.SCHEDULE_TIMEOUT: "room for the last units of {group}, or a smaller minMember",
}
"""Of the Workload as a whole, by the reason of Scheduled."""


def cure(unit: Unit, reason: ScheduledReason, text: str) -> str:
    """What to change so that `text` is said of the unit no longer: a noun phrase."""
    name = unit.groups[0] if len(unit.groups) == 1 else ""
    group = named((unit.namespace, name))
    for begins, words in _OF_CLUSTERS:
        if text.startswith(begins):
            return words.format(group=group, name=name)
    if _TOO_FEW in text:
        return f"more units in the Workloads of {group}, or a smaller minMember"
    return _OF_ALL.get(reason, "what {group} says in its own status").format(group=group, name=name)
