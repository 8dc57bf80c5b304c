"""An agent that lies draws little: room grows at most twice in ten minutes, however it is told."""

from __future__ import annotations

from typing import Any

import pytest

from propagator.members.pulled import DWELL_SECONDS, Believed
from propagator.types.cluster import MemberCluster

Json = dict[str, Any]


def room(cpu: str, free: str = "", *, count: int = 1) -> Json:
    groups = [{"count": count, "free": {"cpu": free}}] if free else []
    return {"capacity": {"nodes": count, "allocatable": {"cpu": cpu}}, "nodeGroups": groups}


class Told:
    """A MemberCluster that takes what counts, as it is told."""

    def __init__(self, status: Json) -> None:
        self.status = status
        self.now = 0.0
        self.believed = Believed()

    def tell(self, told: Json, *, after: float = 1.0) -> list[str]:
        self.now += after
        known, differs = self.believed.of(MemberCluster(status=self.status), told, self.now)
        self.status = {**self.status, **known}
        return differs

    @property
    def cpu(self) -> str:
        return str(self.status["capacity"]["allocatable"]["cpu"])


@pytest.mark.proves("PL17")
def test_room_that_doubles_again_and_again_counts_twice_in_ten_minutes() -> None:
    member = Told(room("10"))
    for cpu in ("19", "36", "69", "131"):
        member.tell(room(cpu))
    assert member.cpu == "19"
    assert member.believed.waits
    assert member.tell(room("131"), after=DWELL_SECONDS) == []
    assert member.cpu == "131"
    member.tell(room("263"))
    assert member.cpu == "131"
    member.tell(room("250"))
    assert member.cpu == "250"
    member.tell(room("499"), after=DWELL_SECONDS)
    assert member.cpu == "499", "nothing has grown for ten minutes"


@pytest.mark.proves("PL17")
def test_the_free_room_of_node_groups_is_bound_by_what_the_nodes_offer() -> None:
    member = Told(room("10", "4", count=2))
    assert member.tell(room("10", "40", count=2))
    assert member.status["nodeGroups"] == [{"count": 2, "free": {"cpu": "4"}}]
    assert member.tell(room("10", "5", count=2)) == []
    assert member.status["nodeGroups"] == [{"count": 2, "free": {"cpu": "5"}}]


@pytest.mark.proves("PL17")
def test_less_room_counts_at_once_and_an_amount_of_any_size_is_read() -> None:
    member = Told(room("10"))
    assert member.tell(room("1e99"))
    assert member.cpu == "10"
    member.tell(room("2"))
    assert member.cpu == "2"


@pytest.mark.proves("PL17")
@pytest.mark.parametrize("none", [{"cpu": "0"}, {}, {"memory": "1Gi"}])
def test_room_that_is_told_as_none_for_a_while_grows_no_faster(none: dict[str, str]) -> None:
    member = Told(room("10"))
    member.tell({"capacity": {"nodes": 0, "allocatable": none}, "nodeGroups": []})
    assert member.tell(room("100"))
    assert member.status["capacity"]["allocatable"] == none
    assert member.tell(room("20")) == []
    assert member.cpu == "20", "what it had is back"


@pytest.mark.proves("PL17")
def test_what_is_held_back_is_named_with_the_old_amount_and_the_new_one() -> None:
    member = Told({"capacity": {"allocatable": {"cpu": "8", "memory": "4Gi", "pods": "110"}}})
    more = {"capacity": {"allocatable": {"cpu": "80500m", "memory": "40Gi", "pods": "110"}}}
    said = "; ".join(member.tell(more))
    assert "allocatable cpu is told as 80500m and counts as 8" in said
    assert "allocatable memory is told as 40Gi and counts as 4Gi" in said
    assert "pods" not in said
