"""Each refusal of Coscheduling has words of its own for what would help."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.features.workloadgroup.estimate import GAP, TOO_MANY, cure
from controller.features.workloadgroup.fairness import KEPT
from controller.features.workloadgroup.topology import HOMELESS, OUTSIDE, UNLABELLED
from crds.names import GROUP_LABELS
from crds.workload import ScheduledReason
from machinery.types.bounds import clean, quoted
from tests.controller.features.workloadgroup.ganging import Yard, member, room
from tests.controller.make import info

GROUP = "WorkloadGroup shop/batch"
MEMBER = replace(info("worker"), groups=("batch",))


@pytest.mark.proves("G18")
@pytest.mark.parametrize(
    ("reason", "code", "help_"),
    [
        ("GroupNotFound", "", f"{GROUP}, or no label"),
        ("GroupIncomplete", "", "more replicas in the Workloads of"),
        ("WaitingForGroup", "", "room for the last replicas"),
        ("GroupDenied", GAP, "room for minMember replicas"),
        ("GroupWithdrawn", "", "nothing but time, once what"),
        ("ScheduleTimeout", "", "room for the last replicas"),
        ("InvalidGroup", "", "another value in the field"),
        ("InvalidGroup", TOO_MANY, "several groups"),
        ("FailedToSchedule", UNLABELLED, "that label on the MemberCluster"),
        ("FailedToSchedule", OUTSIDE, "spec.topology with mode"),
        ("FailedToSchedule", KEPT, "nothing but time"),
        ("FailedToSchedule", HOMELESS, "the label of spec.topology"),
        ("PluginError", "", f"what {GROUP} says"),
    ],
)
def test_each_refusal_has_words_of_its_own(reason: str, code: str, help_: str) -> None:
    assert cure(MEMBER, ScheduledReason(reason), code).startswith(help_)


@pytest.mark.proves("G2")
def test_one_that_names_several_groups_is_told_to_name_one() -> None:
    several = replace(MEMBER, groups=("a", "b"))
    said = cure(several, ScheduledReason.AMBIGUOUS_GROUP, "")
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
