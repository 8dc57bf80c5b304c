"""Members that come after the quorum go to the domain of their siblings, and on when that is gone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.controller import make
from tests.controller.features.workloadgroup.ganging import NS, Yard, group, member, room

pytestmark = pytest.mark.proves("G15")


def yard_of(mode: str, **cpus: str) -> Yard:
    """A zone of that much cpu by each name."""
    yard = Yard(*(room(name, cpu, labels={make.ZONE: name}) for name, cpu in cpus.items()))
    yard.group(group(min_member=4, topology={"topologyKey": make.ZONE, "mode": mode}))
    return yard


def come(yard: Yard, name: str, units: int, **how: Any) -> dict[str, int]:
    yard.store(member(name, units, cpu="1", **how))
    return dict(yard.decide(name)[name].placements)


def lose(yard: Yard, name: str) -> None:
    snapshot = yard.world.snapshot()
    known = snapshot.clusters[snapshot.row[name]]
    yard.world.cluster_changed(known, make.given_up(known))


@pytest.mark.parametrize("mode", ["Required", "Preferred"])
def test_a_later_member_goes_where_its_siblings_are(mode):
    yard = yard_of(mode, x="8", y="99")
    yard.store(member("first", 6, cpu="1", clusterSelector={make.ZONE: "x"}))
    assert yard.decide("first")["first"].placements == {"x": 6}
    assert come(yard, "second", 2) == {"x": 2}


def test_required_keeps_it_there_though_there_is_no_room():
    yard = yard_of("Required", x="7", y="99")
    yard.store(member("first", 6, cpu="1", clusterSelector={make.ZONE: "x"}))
    yard.decide("first")
    assert come(yard, "second", 3) == {"x": 1}
    said = yard.decide("second")["second"].message
    assert "1 outside zone x, where WorkloadGroup shop/batch is" in said


def test_preferred_lets_it_go_elsewhere_rather_than_wait():
    yard = yard_of("Preferred", x="7", y="99")
    yard.store(member("first", 6, cpu="1", clusterSelector={make.ZONE: "x"}))
    yard.decide("first")
    assert sum(come(yard, "second", 3).values()) == 3


@pytest.mark.parametrize("mode", ["Required", "Preferred"])
def test_a_gang_whose_clusters_are_gone_is_together_again_in_another_domain(mode):
    """Each of them alone would go to the roomiest cluster, or be cut over two."""
    yard = yard_of(mode, x="4", y="3", z="4")
    first = {"clusterSelector": {make.ZONE: "x"}}
    for name in ("one", "two"):
        yard.store(member(name, 2, cpu="1", **first))
    yard.decide("one")
    for name in ("one", "two"):
        assert yard.groups.members((NS, "batch"))[NS, name].placements == {"x": 2}
        yard.store(member(name, 2, cpu="1", present={"x": 2}))
    lose(yard, "x")
    assert yard.decide("one")["one"].placements == {"z": 2}
    assert yard.decide("two")["two"].placements == {"z": 2}


def test_units_on_clusters_that_lost_their_label_stay_and_get_no_company():
    yard = yard_of("Required", x="8", y="8")
    yard.store(member("first", 4, cpu="1", clusterSelector={make.ZONE: "x"}))
    assert yard.decide("first")["first"].placements == {"x": 4}
    yard.store(member("first", 4, cpu="1", present={"x": 4}))
    snapshot = yard.world.snapshot()
    yard.world.cluster_changed(snapshot.clusters[snapshot.row["x"]], room("x", "8"))
    assert yard.decide("first")["first"].placements == {"x": 4}
    yard.store(member("second", 1, cpu="1"))
    found = yard.decide("second")["second"]
    assert not found.placements
    assert f"1 without label {make.ZONE}" in found.message
    assert "while WorkloadGroup shop/batch is on x without label" in found.message
