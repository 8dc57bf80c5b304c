"""The reasons and the history that a status keeps: carried on, bounded, and true."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from controller.binding.statuspatch import patch_of
from controller.cache.placements import PlacementIndex
from controller.config import default_profile
from controller.eventhandlers import known
from controller.explain import history
from controller.explain.history import Occasion, ShareDifference
from controller.model.objects import MemberCluster, Workload
from controller.model.why import of_status
from controller.scheduling.cycle import decide
from crds.workload import WorkloadStatus
from machinery.types.api import (
    PlacementChange,
    PlacementReasons,
    PlacementRule,
    PlacementStep,
    ReasonCount,
    UntoldMoves,
)
from machinery.types.bounds import MOST_UNITS
from stowage.report import history as report
from tests.controller.make import NOW, cluster, snapshot, workload

pytestmark = pytest.mark.proves("U1")

ROOM_FOR_TEN = [{"count": 1, "free": {"cpu": "5", "memory": "64Gi", "pods": "110"}}]


class Hub:
    """One Workload whose status is what the decisions wrote."""

    def __init__(self, *clusters: MemberCluster, **spec: Any) -> None:
        self.clusters = list(clusters)
        self.spec = spec
        self.status: dict[str, Any] = {}

    def read(self) -> Workload:
        """As the informer keeps it, of a process that has just started."""
        fresh = workload(**self.spec)
        status = msgspec.convert(self.status, type(fresh.status))
        return known(msgspec.structs.replace(fresh, status=status))

    def decide(self) -> dict[str, Any]:
        """Decide, write, and what was written."""
        read = self.read()
        decision = decide(
            snapshot(*self.clusters), read.info, PlacementIndex(), default_profile(), NOW
        )
        patch = patch_of(decision, read)
        written = patch["status"] if patch else {}
        self.status |= json.loads(json.dumps(written))
        WorkloadStatus.model_validate(self.status)
        return written

    def told(self, name: str) -> list[tuple[int, str, list[str]]]:
        """The steps of a share: units, cause, rules."""
        (found,) = (each for each in of_status(self.status).reasons if each.cluster == name)
        return [(s.units, s.cause, [r.rule for r in s.because]) for s in found.steps]

    @property
    def changes(self) -> list[PlacementChange]:
        return of_status(self.status).history


def divided(*clusters: MemberCluster, **spec: Any) -> Hub:
    return Hub(*clusters, distribution="Divided", **spec)


def test_a_first_placement_tells_its_rule() -> None:
    hub = Hub(cluster("a"), cluster("b"), replicas=2)
    hub.decide()
    assert hub.told("a") == [(2, "Placed", ["Whole"])]
    (change,) = hub.changes
    assert (change.cause, change.desired, change.assigned) == ("Placed", 2, 2)
    assert [(m.cluster, m.before, m.now) for m in change.moves] == [("a", None, 2)]


def test_what_an_edit_does_not_touch_is_kept() -> None:
    hub = Hub(cluster("a", {"tier": "gold"}), replicas=2)
    hub.decide()
    before = hub.told("a"), hub.changes
    hub.spec["clusterSelector"] = {"tier": "gold"}
    written = hub.decide()
    assert written, "the edit is decided"
    assert not {"reasons", "history"} & written.keys()
    assert (hub.told("a"), hub.changes) == before


def test_what_leaves_is_a_step_too() -> None:
    hub = divided(cluster("a"), cluster("b"), replicas=8)
    hub.decide()
    hub.spec["replicas"] = 4
    hub.decide()
    assert [units for units, *_ in hub.told("a")] == [4, -2]
    assert hub.changes[-1].moves[0].before == 4


def test_what_was_placed_before_is_told_apart() -> None:
    hub = divided(cluster("a"), cluster("b"), replicas=4)
    hub.decide()
    for field in ("reasons", "history"):
        del hub.status[field]
    assert not hub.decide(), "a new release writes nothing by itself"
    hub.spec["replicas"] = 6
    hub.decide()
    assert hub.told("a") == [(2, "", []), (1, "Scaled", ["Weight"])]


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"replicas": 6}, "Scaled"),
        ({"clusterSelector": {"tier": "gold"}}, "Edited"),
    ],
)
def test_the_cause_of_an_edit(change: dict[str, Any], cause: str) -> None:
    hub = divided(cluster("a", {"tier": "gold"}), cluster("b"), replicas=4)
    hub.decide()
    hub.spec |= change
    hub.decide()
    assert hub.changes[-1].cause == cause


def test_a_cluster_that_goes_is_named() -> None:
    hub = divided(cluster("a"), cluster("b"), replicas=4)
    hub.decide()
    hub.clusters.pop()
    hub.decide()
    assert (hub.changes[-1].cause, hub.changes[-1].name) == ("ClusterGone", "b")
    assert [(m.cluster, m.before, m.now) for m in hub.changes[-1].moves] == [
        ("a", 2, 4),
        ("b", 2, None),
    ]


def test_room_that_came_is_the_cause() -> None:
    hub = divided(cluster("a", groups=ROOM_FOR_TEN), replicas=12)
    hub.decide()
    assert hub.status["pending"] == 2
    hub.clusters.append(cluster("b"))
    hub.decide()
    assert hub.changes[-1].cause == "RoomGained"


def test_a_cluster_more_for_what_runs_everywhere() -> None:
    hub = Hub(cluster("a"), distribution="Duplicated", replicas=2)
    hub.decide()
    hub.clusters.append(cluster("b"))
    hub.decide()
    assert (hub.changes[-1].cause, hub.changes[-1].name) == ("ClusterAdded", "b")


CLUSTERS = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 9), max_size=8)


@example([{"h": 1}, dict.fromkeys("abcdefgh", 1), dict.fromkeys("abcdefgh", 0)], 7)
@given(st.lists(CLUSTERS, min_size=1, max_size=30), st.integers(1, 8))
def test_the_steps_always_add_up(rounds: list[dict[str, int]], most: int) -> None:
    kept: list[PlacementReasons] = []
    counts: Any = []
    past: list[PlacementChange] = []
    before: dict[str, int] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(history, "MOST_SHARES", most)
        for after in rounds:
            shares, at = ShareDifference(before, after, sorted(after)), Occasion("now", "Scaled")
            kept, counts = history.carried(
                kept, counts, shares, at, lambda _: [PlacementRule("Weight")]
            )
            past = history.lengthened(past, shares, at, lambda _: [PlacementRule("Weight")], 9)
            sums = {each.cluster: sum(s.units for s in each.steps) for each in kept}
            assert sums == {c: after[c] for c in sums}
            assert len(sums) == min(len(after), most)
            assert sum(c.clusters for c in counts) == len(after) - len(sums)
            assert sum(c.units for c in counts) == sum(after.values()) - sum(sums.values())
            assert all(len(each.steps) <= history.MOST_STEPS for each in kept)
            assert len(past) <= history.MOST_CHANGES
            before = after


def test_steps_that_leave_are_taken_from_the_last_that_came() -> None:
    kept = [
        PlacementReasons(
            "a",
            [
                PlacementStep(3, "1"),
                PlacementStep(4, "2"),
                PlacementStep(-2, "3"),
                PlacementStep(1, "4"),
            ],
        )
    ]
    shares = ShareDifference({"a": 6}, {"a": 7})
    ((share,), _) = history.carried(kept, [], shares, Occasion("5", "Scaled"), lambda _: [])
    assert [(s.units, s.time) for s in share.steps] == [(3, "1"), (2, "2"), (1, "4"), (1, "5")]


LARGEST, SMALLEST = 2**31 - 1, -(2**31)


@pytest.mark.parametrize("absurd", [[SMALLEST] * 8, [LARGEST] * 8, [LARGEST, LARGEST, SMALLEST]])
def test_absurd_steps_of_somebody_else_do_not_keep_a_placement_from_being_written(
    absurd: list[int],
) -> None:
    hub = Hub(cluster("a"), replicas=3)
    hub.decide()
    hub.status["reasons"] = [{"cluster": "a", "steps": [{"units": units} for units in absurd]}]
    hub.spec["replicas"] = 5
    hub.decide()  # which holds the status against the schema
    assert [units for units, *_ in hub.told("a")] == [3, 2]


def test_absurd_counts_of_moves_do_not_either() -> None:
    hub = Hub(cluster("a"), replicas=3)
    hub.decide()
    most = {"clusters": LARGEST, "came": LARGEST, "went": LARGEST}
    move = {"cluster": "m" * 63, "from": SMALLEST, "to": LARGEST}
    change = {**hub.status["history"][0], "moves": [move] * 20, "more": most}
    hub.status["history"] = [change] * 20
    hub.spec["replicas"] = 5
    hub.decide()
    assert hub.changes[-1].moves[0].now == 5


def test_steps_of_a_share_as_large_as_can_be_stay_as_they_are() -> None:
    kept = [
        PlacementReasons(
            "a", [PlacementStep(LARGEST), PlacementStep(-LARGEST), PlacementStep(LARGEST)]
        )
    ]
    shares = ShareDifference({"a": LARGEST}, {"a": LARGEST}, ())
    ((share,), _) = history.carried(kept, [], shares, Occasion("5", "Scaled"), lambda _: [])
    assert [step.units for step in share.steps] == [LARGEST, -LARGEST, LARGEST]


def test_two_bounds_of_a_cluster_with_a_long_name_fit_into_a_rule() -> None:
    name = ".".join(["a" * 62] * 4)
    hub = divided(cluster(name), replicas=4)
    hub.decide()
    limit = {"cluster": name, "replicas": 2, "until": "2096-01-01T00:00:00Z", "holdSeconds": 60}
    hub.spec["distributionWeights"] = [{"weight": 1, "minReplicas": 5, "maxReplicas": 9}]
    hub.spec["replicas"] = 6
    hub.decide()
    hub.status["limits"] = [limit]
    hub.decide()
    assert hub.told(name)[-1][2] == ["Learnt", "Contradiction"]


def test_counts_of_more_rules_than_fit_still_add_up() -> None:
    after = {f"m{n:03}": 2 for n in range(300)}
    before = {name: units for name, units in after.items() if name < "m290"}
    counts = [ReasonCount(f"Foreign{n}", 10, 20) for n in range(history.MOST_COUNTS)]
    at = Occasion("now", "Scaled")
    told, listed = history.carried(
        [], counts, ShareDifference(before, after), at, lambda _: [PlacementRule("Weight")]
    )
    assert len(listed) <= history.MOST_COUNTS
    assert sum(each.clusters for each in listed) == 300 - len(told)
    assert sum(each.units for each in listed) == 2 * (300 - len(told))


def test_a_command_tells_numbers_of_nothing_too() -> None:
    change = PlacementChange("Scaled", more=UntoldMoves(2, went=3))
    [told] = report.told([change])
    assert told == {"cause": "Scaled", "more": {"clusters": 2, "came": 0, "went": 3}}


# --- the why of a Workload stays within 16 KiB, whoever named its rules, causes and domains -------


MOST_BYTES = 16 * 1024
LONGEST_WORD, LONGEST_NAME = 64, 317
ALPHABET = st.sampled_from('a"\\\n\x01é語🜁')
WORDS = st.builds(str.__mul__, ALPHABET, st.integers(1, LONGEST_WORD))
NAMES = st.builds(str.__mul__, ALPHABET, st.integers(0, LONGEST_NAME))


def written(reasons: Any, counts: Any, changes: Any) -> int:
    """The bytes of the three fields in a status."""
    fields = {"reasons": reasons, "reasonCounts": counts, "history": changes}
    return len(msgspec.json.encode(fields))


@example("Weight", "\x01" * LONGEST_WORD, "", 300, 16, 0)
@example("Weight", "w" * LONGEST_WORD, "", 300, 16, 1)
@example("\x01" * LONGEST_WORD, "\x01" * LONGEST_WORD, "\x01" * LONGEST_NAME, 300, 16, 9)
@given(WORDS, WORDS, NAMES, st.integers(1, 300), st.integers(0, 20), st.integers(0, 9))
def test_hostile_names_do_not_lead_beyond_the_bound(
    word: str, theirs: str, name: str, clusters: int, foreign: int, most: int
) -> None:
    rule = PlacementRule(word, {"number": MOST_UNITS, "of": MOST_UNITS}, name)
    names = [f"cluster-with-a-long-name-{n:03}" for n in range(clusters)]
    step = PlacementStep(1, "2026-01-01T00:00:00Z", word, name, [rule] * min(most, 3))
    kept = [PlacementReasons(each, [step] * 8) for each in names]
    counts = [ReasonCount(f"{theirs[:-2]}{n:02}", 12, 30) for n in range(foreign)]
    past = [PlacementChange("2026-01-01T00:00:00Z", word, name, MOST_UNITS, MOST_UNITS)] * 20
    before, at = dict.fromkeys(names, 8), Occasion("2026-01-02T00:00:00Z", word, name)
    for units in (9, 3, MOST_UNITS):
        after = dict.fromkeys(names, units)
        shares = ShareDifference(before, after, names)
        kept, counts = history.carried(kept, counts, shares, at, lambda _: [rule] * most)
        past = history.lengthened(past, shares, at, lambda _: [rule] * most, units * clusters)
        assert written(kept, counts, past) <= MOST_BYTES
        assert sum(each.clusters for each in counts) == clusters - len(kept)
        before = after


def test_as_many_counts_as_there_are_rules_fit() -> None:
    """What the planner itself can say is told whole."""
    counts = [ReasonCount(f"DomainQuota{n:02}", 60, 600) for n in range(history.MOST_COUNTS)]
    names = [f"m{n:04}" for n in range(60 * history.MOST_COUNTS + history.MOST_SHARES)]
    shares = ShareDifference(dict.fromkeys(names, 10), dict.fromkeys(names, 10), [])
    _, listed = history.carried([], counts, shares, Occasion("now", "Scaled"), lambda _: [])
    assert len(listed) == history.MOST_COUNTS
    assert history.UNTOLD not in {each.rule for each in listed}
