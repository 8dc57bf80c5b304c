"""Each refusal of Coscheduling has words of its own for what would help."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.features.workloadgroup.estimate import cure
from crds.names import GROUP_LABELS
from crds.workload import ScheduledReason
from machinery.types.bounds import clean, quoted
from tests.controller.features.workloadgroup.ganging import Yard, member, room
from tests.controller.make import info

GROUP = "WorkloadGroup shop/batch"
MEMBER = replace(info("worker"), groups=("batch",))


@pytest.mark.proves("G18")
@pytest.mark.parametrize(
    ("reason", "text", "help_"),
    [
        ("GroupNotFound", "WorkloadGroup not found: create shop/batch", f"{GROUP}, or no label"),
        ("GroupDenied", f"{GROUP} has 3 units in all its Workloads, minMember is 4", "more"),
        ("WaitingForGroup", f"{GROUP} has a cluster for 9 of 10 units", "room for the last units"),
        ("GroupDenied", f"{GROUP} is denied for 3 s: resource gap", "room for minMember units"),
        ("GroupDenied", f"{GROUP} failed before its quorum ran", "nothing but time, once what"),
        ("ScheduleTimeout", f"{GROUP} was held for 10 s", "room for the last units"),
        ("InvalidGroup", f"{GROUP}: spec.topology: no label key", "another value in the field"),
        (
            "InvalidGroup",
            f"{GROUP} has 5000 Workloads, 4096 at most: make several",
            "several groups",
        ),
        ("FailedToSchedule", "without label zone", "that label on the MemberCluster"),
        ("FailedToSchedule", f"outside zone b, where {GROUP} is", "spec.topology with mode"),
        ("FailedToSchedule", f"kept for {GROUP}, which waits since", "nothing but time"),
        ("FailedToSchedule", f"in a domain, while {GROUP} is on a", "the label of spec.topology"),
        ("PluginError", "something else", f"what {GROUP} says"),
    ],
)
def test_each_refusal_has_words_of_its_own(reason: str, text: str, help_: str) -> None:
    assert cure(MEMBER, ScheduledReason(reason), text).startswith(help_)


@pytest.mark.proves("G2")
def test_one_that_names_several_groups_is_told_to_name_one() -> None:
    several = replace(MEMBER, groups=("a", "b"))
    said = cure(several, ScheduledReason.AMBIGUOUS_GROUP, "labels name the WorkloadGroups a and b")
    assert said == "one name in all its labels that name a WorkloadGroup"


@pytest.mark.proves("G2", "G18")
@pytest.mark.parametrize(
    "names",
    [["a\nb"], ["x" * 10**5], ["\x1b[2J"], ["a\nb", "c"]],
    ids=["line", "long", "bell", "two"],
)
def test_a_name_that_no_group_can_have_stands_quoted_in_one_line(names: list[str]) -> None:
    yard = Yard(room("c", "9"))
    yard.store(member("worker", labels=dict(zip(GROUP_LABELS, names, strict=False))))
    said = yard.decide()["worker"].message
    assert quoted(names[0]) in said
    assert len(said) < 200
    assert said == clean(said)
