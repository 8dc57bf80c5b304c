"""The ledger of groups equals a plain recount, and the estimate refuses nothing that a pass would place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from controller.config import default_profile
from controller.features.workloadgroup.compiled import compile_group
from controller.features.workloadgroup.estimate import gap
from controller.features.workloadgroup.ledger import Groups
from controller.features.workloadgroup.reach import filters_of
from controller.framework.gathering import TrialResult
from controller.model.unit import WorkloadInfo
from crds.names import GROUP_ALIASES, LABEL_GROUP
from machinery.types.metadata import Key
from tests.controller import make
from tests.controller.features.workloadgroup.ganging import NS, Yard, group, member, room

names = st.sampled_from(["a", "b", "c", "d"])
namespaces = st.sampled_from([NS, "other"])
labels = st.sampled_from(
    [
        {},
        {LABEL_GROUP: "x"},
        {LABEL_GROUP: "y"},
        {GROUP_ALIASES[1]: "x"},
        {LABEL_GROUP: "x", GROUP_ALIASES[0]: "y"},
        {LABEL_GROUP: "x", GROUP_ALIASES[0]: "x"},
    ]
)
shares = st.dictionaries(st.sampled_from(["m1", "m2", "m3"]), st.integers(0, 3))
Known = dict[Key, tuple[WorkloadInfo, Mapping[str, int]]]
GROUPS = [(space, name) for space in (NS, "other") for name in ("x", "y")]


def unit_of(
    name: str, space: str, how: Mapping[str, str], replicas: int, kind: str
) -> WorkloadInfo:
    duplicated = "Duplicated" if kind == "everywhere" else "Divided"
    made = member(name, replicas, namespace=space, labels=how, distribution=duplicated).info
    ended = {"m4": 2} if kind == "ended" else {}
    return replace(made, booked=kind == "booked", ended=ended)


units = st.builds(
    unit_of,
    names,
    namespaces,
    labels,
    st.integers(0, 5),
    st.sampled_from(["plain", "plain", "everywhere", "booked", "ended"]),
)


def recounted(known: Known, key: Key) -> dict[str, Any]:
    """All that the books say of a group, counted by walking over everybody."""
    own = {
        k: (info, {c: n for c, n in placed.items() if n})
        for k, (info, placed) in known.items()
        if info.namespace == key[0] and info.groups == (key[1],) and not info.booked
    }
    everywhere = sum(info.replicas for info, _ in own.values() if info.everywhere)
    ended = sum(sum(info.ended.values()) for info, _ in own.values())
    desired = sum(info.replicas for info, _ in own.values()) + ended
    clusters: dict[str, int] = {}
    for _, placed in own.values():
        for cluster, n in placed.items():
            clusters[cluster] = clusters.get(cluster, 0) + n
    return {
        "members": {k: (info.replicas, placed) for k, (info, placed) in own.items()},
        "assigned": sum(clusters.values()) + ended,
        "desired": desired,
        "on 7": desired + 6 * everywhere,
        "clusters": clusters,
    }


def told(books: Groups, key: Key) -> dict[str, Any]:
    members = books.members(key)
    return {
        "members": {k: (m.workload.replicas, dict(m.placements)) for k, m in members.items()},
        "assigned": books.assigned(key),
        "desired": books.desired(key),
        "on 7": books.desired(key, 7),
        "clusters": dict(books.clusters(key)),
    }


class Books(RuleBasedStateMachine):
    """Workloads come, change, move between groups and go."""

    def __init__(self) -> None:
        super().__init__()
        self.books = Groups()
        self.known: Known = {}

    @rule(info=units, placed=shares)
    def put(self, info: WorkloadInfo, placed: Mapping[str, int]) -> None:
        before = {key: self.books.version(key) for key in GROUPS}
        old = self.known.get(info.key)
        self.books.put(info, placed)
        self.known[info.key] = (info, placed)
        same = old is not None and (old[0].hash, old[0].groups, old[0].booked) == (
            info.hash,
            info.groups,
            info.booked,
        )
        if same:  # shares alone make no other group of it
            assert before == {key: self.books.version(key) for key in GROUPS}
        elif (key := self.books.group_of(info)) is not None:
            assert self.books.version(key) not in before.values()

    @rule(name=names, space=namespaces)
    def drop(self, name: str, space: str) -> None:
        self.books.drop((space, name))
        self.known.pop((space, name), None)

    @invariant()
    def a_recount_says_the_same(self) -> None:
        for key in GROUPS:
            assert told(self.books, key) == recounted(self.known, key)

    @rule(changes=st.lists(st.tuples(units, shares), max_size=4))
    def look_through_an_overlay(
        self, changes: list[tuple[WorkloadInfo, Mapping[str, int]]]
    ) -> None:
        base = {key: told(self.books, key) for key in GROUPS}
        changed: Known = {info.key: (info, placed) for info, placed in changes}
        at_once = self.books.overlay(changed)
        one_by_one = self.books.overlay({})
        seen: Known = {}
        for info, placed in changes:
            one_by_one.place(info, placed)  # type: ignore[attr-defined] # an overlay takes more
            seen[info.key] = (info, placed)
            for key in GROUPS:  # between them as well
                assert told(one_by_one, key) == recounted(self.known | seen, key)
        for key in GROUPS:
            assert told(at_once, key) == recounted(self.known | changed, key)
            assert told(self.books, key) == base[key]


TestBooks = pytest.mark.proves("G2", "G5")(Books.TestCase)


@pytest.mark.proves("G13", "G23")
@given(
    clusters=st.lists(st.tuples(st.integers(0, 9), st.integers(1, 3)), max_size=4),
    workloads=st.lists(
        st.tuples(
            st.integers(1, 4),
            st.integers(1, 5),
            st.sampled_from(["Divided", "Divided", "Single", "Duplicated"]),
            st.booleans(),
            st.integers(0, 3),
        ),
        min_size=1,
        max_size=4,
    ),
    quorum=st.integers(1, 14),
)
def test_no_estimate_refuses_what_a_pass_would_place_or_hold(
    clusters: Any, workloads: Any, quorum: int
) -> None:
    made = Yard(*(room(f"c{i}", str(cpu), nodes=n) for i, (cpu, n) in enumerate(clusters)))
    asked = made.group(group(min_member=quorum))
    for i, (replicas, cpu, how, tolerates, kept) in enumerate(workloads):
        rule_ = {"tolerations": [{"operator": "Exists"}]} if tolerates else {}
        shown = [{"name": "c0", "scheduled": kept, "state": "Leaving"}]
        made.store(member(f"w{i}", replicas, cpu=str(cpu), distribution=how, shown=shown, **rule_))
    members, snapshot = made.groups.members((NS, "batch")), made.world.snapshot()
    short = gap(asked, members.values(), snapshot)
    tried = _untold(made)
    if tried.outcome is not TrialResult.REFUSE:
        assert not short
    if short:
        assert short.startswith("resource gap: ")


@pytest.mark.proves("M12")
def test_a_gang_is_placed_again_on_the_room_that_its_own_replicas_keep() -> None:
    made = Yard(room("a", "0"), room("b", "3"))
    made.group(group(min_member=4))
    made.store(member("w", 4, cpu="3"))
    assert not made.batch("w").decisions[0].placements
    made.store(member("w", 4, cpu="3", shown=[{"name": "a", "scheduled": 3, "state": "Leaving"}]))
    assert dict(made.batch("w").decisions[0].placements) == {"a": 3, "b": 1}


@pytest.mark.proves("B19")
def test_an_estimate_asks_the_rules_that_the_profile_has() -> None:
    """A pass whose profile looks at no taints places the gang that the taint would keep out."""
    taint = [{"key": "k", "effect": "NoSchedule"}]
    made = Yard(room("a", "99"), room("tainted", "99", taints=taint))
    asked = made.group(group(min_member=150))
    made.store(member("w", 150, cpu="1"))
    members, snapshot = made.groups.members((NS, "batch")).values(), made.world.snapshot()
    profile = default_profile()
    assert gap(asked, members, snapshot, filters_of({"stowage": profile}))
    bare = replace(profile, filter=[p for p in profile.filter if p.name != "TaintToleration"])
    assert not gap(asked, members, snapshot, filters_of({"stowage": bare}))
    assert gap(asked, members, snapshot, filters_of({"another": bare}))
    made.plugin._handle = SimpleNamespace(  # type: ignore[assignment] # as much as is asked of it
        configuration=SimpleNamespace(profiles={"stowage": bare})
    )
    assert not gap(asked, members, snapshot, made.plugin._filters)


def _untold(made: Yard) -> Any:
    """What is judged of the gang where nothing is estimated."""
    made.plugin._lacks = lambda *_: None  # type: ignore[method-assign] # as if there were none
    batch = made.batch("w0")
    if batch.conclusion is not None:
        return batch.conclusion.verdict
    [found] = batch.decisions  # too few siblings: nothing was tried
    assert not found.placements
    return type("Verdict", (), {"outcome": TrialResult.REFUSE})


@pytest.mark.proves("G13")
def test_an_estimate_of_very_many_different_members_looks_at_the_sum() -> None:
    made = Yard(*(room(f"c{i}", "99") for i in range(4)))
    asked = made.group(group(min_member=100))
    for i in range(100):
        made.store(member(f"w{i}", 1, cpu=f"{3900 + i}m"))
    members, snapshot = made.groups.members((NS, "batch")).values(), made.world.snapshot()
    assert gap(asked, members, snapshot) == ""
    smaller = make.builder([room(f"c{i}", "80") for i in range(4)]).snapshot()
    assert gap(asked, members, smaller).startswith("resource gap: cpu 74950m more")


@pytest.mark.parametrize(
    "stored", [None, 3, "many", [], {"minMember": 10**30}, {"minMember": None}]
)
def test_whatever_is_stored_is_read(stored: Any) -> None:
    made = group()
    broken = type(made)(metadata=made.metadata, spec=stored, status=made.status)
    assert compile_group(broken).fault.startswith("spec")
