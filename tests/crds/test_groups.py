"""The members of a group by their labels, and the name of a decision."""

from __future__ import annotations

import pytest

from crds.groups.gate import decision_of
from crds.groups.membership import groups_named
from crds.names import GROUP_ALIASES, LABEL_GROUP

FIRST, SECOND = GROUP_ALIASES


@pytest.mark.proves("G2")
@pytest.mark.parametrize(
    ("labels", "groups"),
    [
        ([], ()),
        ([{}, {}], ()),
        ([{"app": "batch"}], ()),
        ([{LABEL_GROUP: "batch"}], ("batch",)),
        ([{}, {FIRST: "batch"}], ("batch",)),
        ([{}, {}, {SECOND: "batch"}], ("batch",)),
        ([{LABEL_GROUP: "batch", FIRST: "batch"}, {SECOND: "batch"}], ("batch",)),
        ([{LABEL_GROUP: ""}, {FIRST: "batch"}], ("batch",)),
        ([{LABEL_GROUP: "b", FIRST: "c"}, {SECOND: "a"}], ("a", "b", "c")),
    ],
)
def test_a_group_is_named_at_any_place_by_any_of_three_labels(labels, groups):
    assert groups_named(*labels) == groups


@pytest.mark.proves("G19", "G24")
def test_a_decision_is_named_by_its_units_and_not_by_their_order():
    placed = {"member-a": 3, "member-b": 1}
    name = decision_of(placed)
    assert name == decision_of({"member-b": 1, "member-a": 3}) == "acde049cabb8b1e6"
    others = [{}, {"member-a": 3}, {"member-a": 1, "member-b": 3}, placed | {"member-c": 0}]
    assert len({name, *map(decision_of, others)}) == 5
