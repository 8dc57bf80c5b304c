"""A gang is placed inside one domain, compared with every domain tried by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.cache.placements import PlacementIndex
from controller.config import default_profile
from controller.features.workloadgroup import topology
from controller.features.workloadgroup.reach import Reach, amounts, fitting
from controller.features.workloadgroup.topology import (
    Within,
    attempts_of,
    no_domain,
    standing,
)
from controller.model.unit import WorkloadInfo
from controller.scheduling.cycle import decide
from controller.snapshot.builder import narrowed
from controller.snapshot.snapshot import Snapshot
from crds.names import LABEL_CLUSTER
from tests.controller.features.workloadgroup.gang_topology import (
    Ganging,
    books,
    decided,
    group,
    member,
    placed,
)
from tests.controller.make import NOW, ZONE, cluster, snapshot

PROFILE = default_profile()
pytestmark = pytest.mark.proves("G4", "G13")


def zone(name: str, of: str | None, *cpus: int, **spec: Any) -> Any:
    nodes = [{"count": 1, "free": {"cpu": str(n), "memory": "64Gi", "pods": "110"}} for n in cpus]
    return cluster(name, {} if of is None else {ZONE: of}, groups=nodes, **spec)


def by_hand(where: Snapshot, units: Sequence[WorkloadInfo]) -> int:
    """The units that find a place one after the other, in the better of the two orders."""
    smaller = sorted(units, key=lambda u: u.request["cpu"] * (u.replicas if u.whole else 1))
    found = []
    for order in (units, smaller):
        left, total = where, 0
        for each in order:
            shares = alone(left, each)
            left = left.assuming(each.load, shares)
            total += sum(shares.values())
        found.append(total)
    return max(found)


def alone(where: Snapshot, info: WorkloadInfo) -> Mapping[str, int]:
    """Its shares; of one that goes to one cluster as many units as find a place there."""
    for number in range(info.replicas, 0, -1) if info.whole else (info.replicas,):
        lone = replace(info, replicas=number, groups=())
        found = decide(where, lone, PlacementIndex(), PROFILE, NOW).placements
        if found:
            return found
    return {}


def zones_of(where: Snapshot, names: Mapping[str, int]) -> set[str | None]:
    column = where.column(ZONE)
    return {column.vocabulary.values[column.codes[where.row[name]]] for name in names}


zones = st.sampled_from(["z1", "z2", "z3", None])
fleets = st.lists(
    st.tuples(
        zones,
        st.lists(st.integers(0, 6), min_size=1, max_size=2),
        st.booleans(),
        st.dictionaries(st.integers(1, 3), st.integers(1, 3), max_size=1),
    ),
    min_size=1,
    max_size=6,
)
gangs = st.lists(
    st.tuples(st.integers(1, 4), st.integers(1, 3), st.sampled_from(["Divided", "Single"])),
    min_size=1,
    max_size=4,
)


def world(clusters: Any, gang: Any) -> tuple[Snapshot, list[WorkloadInfo]]:
    """Zone, nodes, readiness and units on their way (cpu of one: how many) of each cluster."""
    made = [zone(f"c{i}", of, *cpus, ready=up) for i, (of, cpus, up, _) in enumerate(clusters)]
    units = [
        member(f"m{i}", cpu=str(cpu), replicas=n, distribution=how)
        for i, (n, cpu, how) in enumerate(gang)
    ]
    where = snapshot(*made)
    for i, (*_, coming) in enumerate(clusters):
        for cpu, number in coming.items():
            where = where.assuming(member("other", cpu=str(cpu)).load, {f"c{i}": number})
    return where, units


@given(fleets, gangs, st.integers(1, 8), st.booleans())
def test_a_gang_goes_where_any_domain_takes_its_quorum(clusters, gang, quorum, required):
    where, units = world(clusters, gang)
    gone = group("batch", quorum, topology_key=ZONE, topology_required=required)
    column = where.column(ZONE)
    domains = {
        value: [name for name in where.names if column.equals(value)[where.row[name]]]
        for value in ("z1", "z2", "z3")
    }
    able = {v: by_hand(narrowed(where, names), units) for v, names in domains.items() if names}
    shares = placed(decided(where, gone, units))
    if any(n >= quorum for n in able.values()):
        assert sum(shares.values()) >= quorum
        assert len(zones_of(where, shares)) == 1
        assert None not in zones_of(where, shares)
    elif required:
        assert not shares
    else:
        assert bool(shares) == (by_hand(where, units) >= quorum)


@given(fleets, gangs, st.integers(1, 8))
def test_a_gang_without_a_topology_goes_anywhere(clusters, gang, quorum):
    where, units = world(clusters, gang)
    shares = placed(decided(where, group("batch", quorum), units))
    most = by_hand(where, units)
    assert bool(shares) == (most >= quorum)
    assert not shares or sum(shares.values()) >= quorum


@given(fleets, gangs)
def test_no_pass_places_more_than_columns_say(clusters, gang):
    where, units = world(clusters, gang)
    assert by_hand(where, units) <= Reach.of(units, where).places()


@given(fleets, gangs, st.integers(1, 8), st.booleans())
def test_whoever_fits_without_the_others_fits_by_what_they_give_back(clusters, gang, quorum, bound):
    """Else one could wait for ever: its turn depends on it."""
    where, units = world(clusters, gang)
    empty, _ = world([(*each, {}) for *each, _ in clusters], gang)
    column = where.column(ZONE)
    sets = [[n for n in where.names if column.equals(z)[where.row[n]]] for z in ("z1", "z2", "z3")]
    able = [by_hand(narrowed(empty, names), units) for names in (sets if bound else [where.names])]
    taken = {
        f"c{i}": {member("other", cpu=str(cpu)).load: number for cpu, number in coming.items()}
        for i, (*_, coming) in enumerate(clusters)
    }
    gone = group("batch", quorum, topology_key=ZONE if bound else "")
    if max(able) >= quorum:
        assert fitting(gone, units, where, quorum, amounts(taken, where)).any()


def test_preferred_takes_as_few_domains_as_will_do():
    where = snapshot(*(zone(f"c{i}", f"z{i}", cpu) for i, cpu in enumerate([1, 4, 2, 3])))
    gone = group("batch", 7, topology_key=ZONE, topology_required=False)
    shares = placed(decided(where, gone, [member("m", replicas=7)]))
    assert shares == {"c1": 4, "c3": 3}


def test_preferred_tries_clusters_of_no_domain_last():
    where = snapshot(zone("a", "z1", 2), zone("b", "z2", 2), zone("c", None, 9))
    gone = group("batch", 5, topology_key=ZONE, topology_required=False)
    plugin = Ganging()
    shares = placed(decided(where, gone, [member("m", replicas=5)], plugin))
    assert sum(shares.values()) == 5
    assert [a.told for a in plugin.tried] == [None]


def test_the_domain_that_takes_all_comes_before_one_that_takes_the_quorum():
    where = snapshot(zone("a", "z1", 4), zone("b", "z2", 6), zone("c", "z3", 5))
    gone = group("batch", 4, topology_key=ZONE)
    assert placed(decided(where, gone, [member("m", replicas=6)])) == {"b": 6}


def test_domains_alike_are_tried_by_name():
    where = snapshot(zone("a", "z2", 4), zone("b", "z1", 4))
    gone = group("batch", 4, topology_key=ZONE)
    assert placed(decided(where, gone, [member("m", replicas=4)])) == {"b": 4}


def test_one_cluster_is_a_domain():
    where = snapshot(zone("a", "z1", 3), zone("b", "z1", 5))
    gone = group("batch", 4, topology_key=LABEL_CLUSTER)
    units = [member("m", replicas=2), member("n", replicas=3)]
    assert placed(decided(where, gone, units)) == {"b": 5}


def test_smaller_ones_first_where_the_order_given_misses_the_quorum():
    where = snapshot(zone("a", "z1", 4))
    units = [member("big", cpu="4", replicas=1), member("small", cpu="1", replicas=4)]
    plugin = Ganging()
    assert placed(decided(where, group("batch", 4), units, plugin)) == {"a": 4}
    assert [a.order[0][1] for a in plugin.tried] == ["big", "small"]


def test_members_alike_are_tried_in_one_order():
    where = snapshot(zone("a", "z1", 2))
    plugin = Ganging()
    decided(where, group("batch", 5), [member("a", replicas=4), member("b", replicas=4)], plugin)
    assert len(plugin.tried) == 1


def test_a_domain_without_room_costs_no_pass():
    where = snapshot(*(zone(f"c{i:02}", f"z{i:02}", 1) for i in range(40)), zone("big", "y", 9))
    plugin = Ganging()
    gone = group("batch", 4, topology_key=ZONE)
    decided(where, gone, [member("m", replicas=4)], plugin)
    assert [a.told.values for a in plugin.tried] == [("y",)]


def test_a_gang_that_fits_nowhere_costs_two_passes():
    where = snapshot(*(zone(f"c{i:02}", f"z{i:02}", 1) for i in range(40)))
    plugin = Ganging()
    batch = decided(where, group("batch", 4, topology_key=ZONE), [member("m", replicas=4)], plugin)
    assert len(plugin.tried) == 2
    assert batch.decisions[0].message == (
        "1 of 4 replicas have a cluster; 1/40 clusters: "
        "39 outside zone z00, where WorkloadGroup shop/batch is tried"
    )


def test_passes_are_bounded_whatever_the_gang_and_the_domains(monkeypatch):
    where = snapshot(*(zone(f"c{i:03}", f"z{i:03}", 9) for i in range(100)))
    gone = group("batch", 1, topology_key=ZONE)

    def number(members: int) -> int:
        units = [member(f"m{i}") for i in range(members)]
        ledger = books([gone], units)
        return len(list(attempts_of(gone, units, where, ledger)))

    assert number(1) == topology.MOST_WAYS
    assert number(128) * 128 == topology.MOST_PASSES
    monkeypatch.setattr(topology, "MOST_PASSES", 1)
    assert number(2) == 4


def test_preferred_begins_where_the_gang_stands():
    where = snapshot(zone("a", "z1", 9), zone("b", "z2", 1), zone("c", "z3", 2))
    gone = group("batch", 4, topology_key=ZONE, topology_required=False)
    units = [member("there", present={"b": 2}), member("new", replicas=2)]
    plugin = Ganging()
    assert sum(placed(decided(where, gone, units, plugin)).values()) == 4
    assert plugin.tried[0].told.values == ("z2", "z1")


def test_a_relabelled_cluster_moves_nothing_and_takes_more_where_it_is():
    """The gang stands in two domains then, and goes on in both."""
    where = snapshot(zone("a", "z1", 9), zone("b", "z2", 9), zone("c", "z3", 9))
    gone = group("batch", 2, topology_key=ZONE)
    units = [member("one", present={"a": 2}), member("two", present={"b": 2})]
    assert placed(decided(where, gone, units)) == {"a": 2, "b": 2}
    within = standing(gone, where, books([gone], units))
    assert within is not None
    assert within.values == ("z1", "z2")


def test_a_cluster_that_is_gone_binds_nobody():
    where = snapshot(zone("b", "z2", 9))
    gone = group("batch", 2, topology_key=ZONE)
    assert standing(gone, where, books([gone], [member("one", present={"a": 2})])) is None


def test_a_key_that_no_cluster_has_is_told():
    where = snapshot(zone("a", None, 9))
    text = no_domain(group("batch", 2, topology_key="tier"), where)
    assert text == (
        "is to be inside one domain of tier, and no cluster has that "
        "label: label MemberClusters, or change spec.topology.topologyKey of the group"
    )
    assert not no_domain(group("batch", 2, topology_key=ZONE), snapshot(zone("a", "z1", 1)))
    preferred = group("batch", 2, topology_key="tier", topology_required=False)
    assert not no_domain(preferred, where)
    assert sum(placed(decided(where, preferred, [member("m", replicas=2)])).values()) == 2


def test_clusters_that_are_kept_for_others_are_not_counted_on():
    where = snapshot(zone("a", "z1", 9), zone("b", "z2", 5))
    gone = group("batch", 4, topology_key=ZONE)
    units = [member("m", replicas=4)]
    kept = where.column(ZONE).equals("z1")
    first = next(iter(attempts_of(gone, units, where, books([gone], units), kept)))
    assert first.told.values == ("z2",)


def test_many_domains_are_named_by_the_first():
    values = tuple(f"z{i}" for i in range(9))
    within = Within(("shop", "batch"), ZONE, values)
    [_, (_, text, *_)] = within.outside(snapshot(zone("a", "z1", 1)))
    assert text.startswith("outside zone z0, ")
    assert len(text) < 100


def test_prefixes_grow_and_end_with_everything():
    where = snapshot(*(zone(f"c{i:02}", f"z{i:02}", 2) for i in range(60)))
    gone = group("batch", 5, topology_key=ZONE, topology_required=False)
    units = [member("m", replicas=5)]
    told = [a.told for a in attempts_of(gone, units, where, books([gone], units))]
    sizes = [len(each.values) for each in told[:-1]]
    assert told[-1] is None
    assert sizes[0] == 3
    assert all(a < b for a, b in pairwise(sizes))
    assert len(sizes) < 15
