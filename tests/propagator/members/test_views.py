"""What another shard has written of a member counts only from one that has looked."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from crds.fields.shares import ShareHealth
from machinery.types.metadata import Meta
from propagator.members.views import UNKNOWN, Live, ShareViews, Told
from propagator.shards.membership import OneShard
from propagator.types.workload import Workload, workload_of

ENTRY: dict[str, Any] = {
    "name": "m2",
    "replicas": 3,
    "ready": 3,
    "state": "Running",
    "observedGeneration": 4,
}


class Two(OneShard):
    """This process holds shard 0 of two; m2 is the other one's."""

    several = True

    def __init__(self, *, tells: bool = True) -> None:
        self._tells = tells

    def serves(self, member: str) -> bool:
        return member == "m1"

    def owner(self, member: str) -> int:
        return 0 if member == "m1" else 1

    def tells(self, shard: int) -> bool:
        return self._tells and shard == 1


def workload(entry: dict[str, Any] | None, *, leaves: bool = False, placed: int = 3) -> Workload:
    status: dict[str, Any] = {
        "placements": [{"cluster": "m2", "replicas": placed}] if placed else [],
        "decision": {"id": "d9"},
        "footprint": {"clusters": "m1,m2" if leaves else "m2"},
        "clusters": [entry] if entry is not None else [],
    }
    meta = {"namespace": "shop", "name": "web", "uid": "u", "generation": 4}
    return workload_of({"metadata": meta, "spec": {}, "status": status})


def views(*, ready: bool = True, membership: OneShard | None = None) -> ShareViews:
    said = [{"type": "Ready", "status": str(ready)}]
    clusters = {("", "m2"): SimpleNamespace(name="m2", status={"conditions": said})}
    sessions = {"m1": SimpleNamespace(name="m1")}
    registry = SimpleNamespace(get=sessions.get, names=lambda: ["m1"])
    return ShareViews(cast("Any", registry), cast("Any", clusters), membership or Two())


@pytest.mark.proves("SC14")
def test_an_entry_counts_from_a_teller_that_has_compared_everything() -> None:
    assert isinstance(views().of(workload(ENTRY), "m1"), Live)
    assert views().of(workload(ENTRY), "m2") == Told(ENTRY)
    assert views(ready=False).of(workload(ENTRY), "m2") is UNKNOWN
    assert views(membership=Two(tells=False)).of(workload(ENTRY), "m2") is UNKNOWN
    assert views(membership=OneShard()).of(workload(ENTRY), "m2") is UNKNOWN
    away = {**ENTRY, "state": "Unreachable"}
    assert views().of(workload(away), "m2") is UNKNOWN


@pytest.mark.proves("SC15")
@pytest.mark.parametrize(
    ("entry", "leaves", "counts"),
    [
        ({}, False, True),
        ({"observedGeneration": 3}, False, False),
        ({"replicas": 2}, False, False),
        ({}, True, False),
        ({"decision": "d8"}, True, False),
        ({"decision": "d9"}, True, True),
    ],
)
def test_an_entry_of_an_earlier_decision_does_not_count(
    entry: dict[str, Any], leaves: bool, counts: bool
) -> None:
    one = workload({**ENTRY, **entry}, leaves=leaves)
    assert isinstance(views().of(one, "m2"), Told) is counts


@pytest.mark.proves("SC15")
def test_a_member_without_an_entry_has_none_once_it_has_confirmed_that() -> None:
    """It is in the footprint until its shard has seen that nothing is left."""
    assert views().of(workload(None), "m2") is UNKNOWN
    gone = workload(None, placed=0)
    gone = workload_of({"metadata": {"uid": "u"}, "status": {}})
    assert views().of(gone, "m2") == Told({})


@pytest.mark.proves("SC15", "M51")
@pytest.mark.parametrize(
    ("more", "counts"),
    [
        ({}, True),
        ({"kept": []}, False),
        ({"placements": [{"cluster": "m2", "replicas": 1}]}, False),
        ({"leaving": [{"cluster": "m2", "replicas": 1, "cause": "Drained"}]}, False),
        ({"clusters": [{**ENTRY, "replicas": 0}]}, False),
    ],
    ids=["kept alone", "nothing told", "placed again", "leaving", "an entry"],
)
def test_a_member_that_keeps_a_claim_and_has_no_share_runs_nothing(
    more: dict[str, Any], *, counts: bool
) -> None:
    """It stays in the footprint for as long as the claim does."""
    claim = {"cluster": "m2", "kind": "PersistentVolumeClaim", "namespace": "a", "name": "w-data"}
    status = {"footprint": {"clusters": "m1,m2"}, "kept": [claim], **more}
    found = views().of(workload_of({"metadata": {"uid": "u"}, "status": status}), "m2")
    assert (found == Told({})) is counts


def test_what_a_told_share_asks_for_and_has() -> None:
    told = Told({**ENTRY, "asked": 5, "scheduled": 2, "unschedulable": 1, "outdated": 1})
    assert (told.asked, told.current, told.lasting) == (5, 3, 2)
    assert (Told({}).asked, Told({}).current, Told({}).lasting) == (0, 0, 0)
    assert Told(ENTRY).asked == 3
    rolls = {**ENTRY, "health": ShareHealth.PROGRESSING.value}
    assert Told(rolls).lasting == 0
    assert Told({**rolls, "ready": 2}).lasting == 2, "it waits for a third one"


@pytest.mark.proves("SC15")
@pytest.mark.parametrize(("since", "unseen"), [(59, True), (61, False)])
def test_an_agent_has_told_what_the_hub_has_forgotten_after_a_while(
    since: float, *, unseen: bool
) -> None:
    cluster = SimpleNamespace(name="m2", metadata=Meta(), status={}, pulls=True)

    class SetBack(Two):
        set_back = "2026-11-30T12:00:00Z"
        since_set_back = since

    registry = SimpleNamespace(get=lambda _: None)
    found = ShareViews(cast("Any", registry), cast("Any", {("", "m2"): cluster}), SetBack())
    assert found.unseen("m2") is unseen
