"""The index of placed Workloads: counted as they come and go, equal to looking at all of them."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any
from unittest.mock import PropertyMock

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from controller.cache.placements import PlacedWorkload, PlacementIndex
from controller.model.unit import WorkloadInfo
from machinery.types.metadata import Key
from machinery.types.selectors import LabelSelector, Requirement
from tests.controller.make import CLUSTER, PREFERRED, REQUIRED, ZONE, beside, index, info, weighted
from tests.examples import examples

APPS = ("front", "back", "cache")
SELECTORS = [
    LabelSelector(),
    *(LabelSelector(match_labels={"app": app}) for app in APPS),
    LabelSelector(match_labels={"app": "front", "tier": "web"}),
    LabelSelector(match_expressions=[Requirement("app", "In", ["front", "back"])]),
]


def rules(app: str, key: str) -> dict[str, Any]:
    return {REQUIRED: [beside(app, key)], PREFERRED: [weighted(1, beside(app, CLUSTER))]}


class Moving(RuleBasedStateMachine):
    """Workloads of two namespaces that come, move, change their labels and go."""

    def __init__(self) -> None:
        super().__init__()
        self.index = PlacementIndex()
        self.known: dict[Key, tuple[WorkloadInfo, dict[str, int]]] = {}

    @rule(
        name=st.sampled_from("abcd"),
        namespace=st.sampled_from(["shop", "bank"]),
        app=st.sampled_from(APPS),
        web=st.booleans(),
        toward=st.sampled_from([None, *APPS]),
        away=st.sampled_from([None, *APPS]),
        key=st.sampled_from([ZONE, CLUSTER]),
        placements=st.dictionaries(st.sampled_from(["m1", "m2", "m3"]), st.integers(0, 2)),
    )
    def put(
        self,
        name: str,
        namespace: str,
        app: str,
        web: bool,
        toward: str | None,
        away: str | None,
        key: str,
        placements: dict[str, int],
    ) -> None:
        labels = {"app": app, "tier": "web"} if web else {"app": app}
        spec: dict[str, Any] = {"labels": labels, "namespace": namespace}
        if toward:
            spec["workloadAffinity"] = rules(toward, key)
        if away:
            spec["workloadAntiAffinity"] = rules(away, key)
        made = info(name, **spec)
        self.known[made.key] = (made, placements)
        self.index.put(made, placements)

    @rule(name=st.sampled_from("abcd"), namespace=st.sampled_from(["shop", "bank"]))
    def drop(self, name: str, namespace: str) -> None:
        self.known.pop((namespace, name), None)
        self.index.drop((namespace, name))

    @rule(
        namespace=st.sampled_from(["shop", "bank"]),
        selector=st.sampled_from(SELECTORS),
        but=st.sets(st.sampled_from([("shop", "a"), ("bank", "b"), ("shop", "x")]), max_size=2),
    )
    def clusters_of(self, namespace: str, selector: LabelSelector, but: set[Key]) -> None:
        found = self.index.clusters_of(namespace, selector, but=but)
        assert found == self.expected(self.known, namespace, selector, but)

    @rule(
        app=st.sampled_from(APPS),
        moved=st.sampled_from("abcd"),
        selector=st.sampled_from(SELECTORS),
    )
    def overlay(self, app: str, moved: str, selector: LabelSelector) -> None:
        made = info(moved, labels={"app": app})
        over = self.index.overlay({made.key: (made, {"m9": 1})})
        known = {**self.known, made.key: (made, {"m9": 1})}
        assert over.clusters_of("shop", selector, but=()) == self.expected(
            known, "shop", selector, set()
        )
        assert self.repelled(over, info("new")) == self.repelling(known, info("new"))
        assert self.index.clusters_of("shop", selector, but=()) == self.expected(
            self.known, "shop", selector, set()
        )

    @rule(app=st.sampled_from(APPS), name=st.sampled_from(["a", "new"]))
    def repel(self, app: str, name: str) -> None:
        newcomer = info(name, labels={"app": app})
        assert self.repelled(self.index, newcomer) == self.repelling(self.known, newcomer)

    @staticmethod
    def expected(
        known: dict[Key, tuple[WorkloadInfo, dict[str, int]]],
        namespace: str,
        selector: LabelSelector,
        but: set[Key],
    ) -> set[str]:
        return {
            cluster
            for key, (other, placements) in known.items()
            if key[0] == namespace and key not in but and selector.matches(other.labels)
            for cluster, units in placements.items()
            if units
        }

    @staticmethod
    def repelled(found: PlacementIndex, newcomer: WorkloadInfo) -> set[tuple[str, str]]:
        said = found.repelling(newcomer, but=(newcomer.key,))
        return {(key, cluster) for key, clusters in said for cluster in clusters}

    @staticmethod
    def repelling(
        known: dict[Key, tuple[WorkloadInfo, dict[str, int]]], newcomer: WorkloadInfo
    ) -> set[tuple[str, str]]:
        return {
            (term.topology_key, cluster)
            for key, (other, placements) in known.items()
            if key != newcomer.key and key[0] == newcomer.namespace
            for term in other.anti_affinity.required
            if term.label_selector.matches(newcomer.labels)
            for cluster, units in placements.items()
            if units
        }


@pytest.mark.proves("C16", "C18")
def test_it_says_what_looking_at_all_workloads_says() -> None:
    run_state_machine_as_test(Moving, settings=examples(150, stateful_step_count=30))


def test_what_nobody_uses_is_forgotten() -> None:
    made = PlacementIndex()
    for number in range(50):
        app = f"app-{number}"
        made.put(info(app, workloadAntiAffinity=rules(app, ZONE)), {"m1": 1})
    for number in range(50):
        made.drop(("shop", f"app-{number}"))
    # But for the numbers of its versions.
    assert len(pickle.dumps(made)) <= len(pickle.dumps(PlacementIndex())) + 10


@pytest.mark.proves("K18")
def test_a_decision_does_not_look_at_every_placed_workload(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a table for its own selector, nothing is asked of the Workloads one by one."""
    asking = info("front", workloadAffinity=rules("back", ZONE))
    made = index(
        (asking, {}), *((info(f"w{n}", labels={"app": "back"}), {"m1": 1}) for n in range(9))
    )
    looked = PropertyMock()
    monkeypatch.setattr(PlacedWorkload, "clusters", looked)
    selector = LabelSelector(match_labels={"app": "back"})
    assert made.clusters_of("shop", selector, but=(asking.key,)) == {"m1"}
    looked.assert_not_called()


def test_an_overlay_of_a_ledger_takes_more_or_is_made_anew() -> None:
    class Sum:
        """A ledger whose overlay cannot be added to."""

        made = 0

        def __init__(self) -> None:
            self.units: dict[Key, int] = {}

        def put(self, info: WorkloadInfo, placements: Mapping[str, int]) -> None:
            self.units[info.key] = sum(placements.values())

        def drop(self, key: Key) -> None:
            self.units.pop(key, None)

        def overlay(self, placed: Any) -> Any:
            over = type(self)()
            type(self).made += 1
            over.units = self.units | {key: sum(n.values()) for key, (_, n) in placed.items()}
            return over

    class Added(Sum):
        def place(self, info: WorkloadInfo, placements: Mapping[str, int]) -> None:
            self.units[info.key] = sum(placements.values())

    base = PlacementIndex([Sum(), Added()])
    for ledger, number in ((Sum, 3), (Added, 1)):
        ledger.made = 0
        over = base.overlay({})
        for n in range(1, 4):
            over.place(info(f"w{n}"), {"a": n})
            assert sum(over.ledger(ledger).units.values()) == n * (n + 1) // 2
        over.place(info("w3"), {"a": 1})
        assert sum(over.ledger(ledger).units.values()) == 4
        assert ledger.made == number + (ledger is Sum)
    assert base.ledger(Sum).units == {}
