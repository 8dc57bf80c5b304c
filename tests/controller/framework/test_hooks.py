"""Hooks and plugins of others: what they may change, and what they may not touch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from controller import catalogue
from controller.cache.placements import PlacementIndex
from controller.config import default_profile, parse
from controller.explain.record import record
from controller.framework.events import MEMBER_CLUSTER, Action
from controller.framework.explains import PassView
from controller.framework.interface import CycleState, Unplaced
from controller.framework.percluster import (
    PerClusterFilter,
    PerClusterFilterHook,
    PerClusterScore,
    PerClusterScoreHook,
)
from controller.framework.profile import Profile
from controller.framework.room import cap
from controller.framework.status import SUCCESS, Code, Status, unschedulable
from controller.model.objects import MemberCluster
from controller.model.unit import WorkloadInfo, workload_info
from controller.queue.unschedulable import Hints
from controller.scheduler import awaited
from controller.scheduling.cycle import decide
from controller.scheduling.decision import Decision
from controller.snapshot.builder import Mask, Snapshot, with_cluster
from crds.workload import ScheduledReason, WorkloadState
from machinery.types.api import WorkloadAffinity
from tests.controller.make import (
    CLUSTER,
    NOW,
    REQUIRED,
    cluster,
    decided,
    expression,
    index,
    info,
    required_terms,
    snapshot,
    verdicts,
    workload,
)

SMALL = [{"count": 1, "free": {"cpu": "1", "memory": "8Gi", "pods": "9"}}]


def profile(**points: Any) -> Profile:
    return replace(default_profile(), **points)


class More:
    """Before PreFilter: one replica more, if it is to change anything."""

    name = "More"

    def __init__(self, *, changed: bool = True) -> None:
        self._changed = changed

    def before_pre_filter(
        self, state: Any, info: WorkloadInfo, snapshot: Snapshot, bound: Any
    ) -> tuple[WorkloadInfo, bool]:
        return replace(info, replicas=info.replicas + 1), self._changed


class Anywhere:
    """Before PreFilter: no selector, no target."""

    name = "Anywhere"

    def before_pre_filter(
        self, state: Any, info: WorkloadInfo, snapshot: Snapshot, bound: Any
    ) -> tuple[WorkloadInfo, bool]:
        return replace(info, cluster_selector={}, target_cluster=None), True


class Refusing:
    """Refuses in any of the three phases."""

    name = "Refusing"
    answer = unschedulable("Refusing", "not today", reason=ScheduledReason.GROUP_DENIED)

    def before_pre_filter(
        self, state: Any, info: WorkloadInfo, snapshot: Snapshot, bound: Any
    ) -> Status:
        return self.answer

    def before_filter(
        self, state: Any, info: WorkloadInfo, snapshot: Snapshot, bound: Any
    ) -> Status:
        return self.answer

    def before_score(
        self, state: Any, info: WorkloadInfo, snapshot: Snapshot, bound: Any, feasible: Mask
    ) -> Status:
        return self.answer


class Roomier:
    """Before Filter: two cpu more on each node of one cluster."""

    name = "Roomier"

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster

    def before_filter(
        self, state: Any, info: WorkloadInfo, snapshot: Snapshot, bound: Any
    ) -> tuple[WorkloadInfo, Snapshot, bool]:
        before = snapshot.clusters[snapshot.row[self._cluster]]
        groups = [
            msgspec.structs.replace(g, free={**g.free, "cpu": str(int(g.free["cpu"]) + 2)})
            for g in before.status.node_groups
        ]
        status = msgspec.structs.replace(before.status, node_groups=groups)
        return info, with_cluster(snapshot, msgspec.structs.replace(before, status=status)), True


class Without:
    """Before Score: all clusters but one, also those that were refused."""

    name = "Without"

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster

    def before_score(
        self, state: Any, info: WorkloadInfo, snapshot: Snapshot, bound: Any, feasible: Mask
    ) -> tuple[WorkloadInfo, Mask, bool]:
        left = np.ones(len(snapshot), dtype=np.bool_)
        left[snapshot.row[self._cluster]] = False
        return info, left, True


@pytest.mark.proves("E20")
def test_a_hook_changes_a_copy_of_the_unit() -> None:
    asked = info(clusterSelector={"tier": "gold"}, targetCluster={"name": "nobody"})
    decision = decided(asked, cluster("a"), profile=profile(before_pre_filter=[Anywhere()]))
    assert decision.placements == {"a": 2}
    assert decision.workload is asked
    assert asked.cluster_selector == {"tier": "gold"}


@pytest.mark.proves("E21")
def test_a_hook_gives_one_cluster_more_room() -> None:
    clusters = (cluster("a", groups=SMALL), cluster("b", groups=SMALL))
    asked = info(replicas=5)
    assert not decided(asked, *clusters).placements
    decision = decided(asked, *clusters, profile=profile(before_filter=[Roomier("b")]))
    assert decision.placements == {"b": 5}


@pytest.mark.proves("E21", "E23")
def test_hooks_before_filter_add_up() -> None:
    hooks = [Roomier("a"), Roomier("a")]
    decision = decided(
        info(replicas=8), cluster("a", groups=SMALL), profile=profile(before_filter=hooks)
    )
    assert decision.placements == {"a": 8}


@pytest.mark.proves("E22")
def test_a_hook_takes_a_cluster_out_and_cannot_bring_a_refused_one_in() -> None:
    decision = decided(
        info(),
        cluster("a"),
        cluster("b"),
        cluster("c", ready=False),
        profile=profile(before_score=[Without("a")]),
    )
    assert decision.placements == {"b": 2}
    assert verdicts(decision) == {"a": "taken out by Without", "b": "", "c": "not ready"}
    assert len(record(decision)["clusters"]) == 3


@pytest.mark.proves("E23")
def test_hooks_chain_and_one_that_changed_nothing_passes_the_old_unit_on() -> None:
    hooks = [More(), More(changed=False), More()]
    decision = decided(info(replicas=2), cluster("a"), profile=profile(before_pre_filter=hooks))
    assert decision.placements == {"a": 4}


@pytest.mark.proves("E24")
@pytest.mark.parametrize("phase", ["before_pre_filter", "before_filter", "before_score"])
def test_a_hook_may_refuse_with_a_reason_in_each_phase(phase: str) -> None:
    decision = decided(info(), cluster("a"), profile=profile(**{phase: [Refusing()]}))
    assert decision.message == "0/1 clusters: not today"
    assert decision.reason is ScheduledReason.GROUP_DENIED
    assert decision.state is WorkloadState.PENDING
    assert decision.refused_by() == {"Refusing"}


class Try:
    """Keeps to one cluster at first, and refuses the whole Workload at first where it has none."""

    name = "Try"

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self.passes: list[frozenset[str]] = []

    def before_filter(
        self, state: CycleState, info: WorkloadInfo, snapshot: Snapshot, bound: Any
    ) -> tuple[WorkloadInfo, Snapshot, bool] | Status:
        self.passes.append(state.without)
        if self.name in state.without:
            return info, snapshot, False
        state.tentative.add(self.name)
        if self._cluster not in snapshot.row:
            return unschedulable(self.name, "not there")
        return (
            replace(info, cluster_selector={"stowage.dev/cluster": self._cluster}),
            snapshot,
            True,
        )


@pytest.mark.parametrize(
    ("only", "replicas", "placed", "passes"),
    [
        ("b", 2, {"b": 2}, 1),
        ("b", 9, {"a": 4, "b": 4}, 2),
        ("c", 2, {"a": 1, "b": 1}, 2),
    ],
)
def test_a_pass_that_tries_something_is_repeated_without_it(
    only: str, replicas: int, placed: dict[str, int], passes: int
) -> None:
    room = [{"count": 1, "free": {"cpu": "2", "memory": "8Gi", "pods": "9"}}]
    hook = Try(only)
    decision = decided(
        info(replicas=replicas, distribution="Divided"),
        cluster("a", groups=room),
        cluster("b", groups=room),
        profile=profile(before_filter=[hook]),
    )
    assert decision.placements == placed
    assert hook.passes == [frozenset(), frozenset({"Try"})][:passes]


class Capped:
    """Lets clusters hold few units."""

    name = "Capped"

    def __init__(self, *most: int) -> None:
        self._most = most

    def pre_filter(
        self, state: CycleState, info: WorkloadInfo, snapshot: Snapshot, bound: Any
    ) -> Status:
        for most in self._most:
            cap(state, lambda snapshot, most=most: np.full(len(snapshot), most, dtype=np.int64))
        return SUCCESS


def test_of_several_caps_the_least_holds_and_the_record_says_that_the_clusters_are_full() -> None:
    made = profile(pre_filter=[Capped(3, 2, 4)])
    asked = info(replicas=9, distribution="Divided")
    decision = decided(asked, cluster("a"), cluster("b"), profile=made)
    assert decision.placements == {"a": 2, "b": 2}
    ((kind, number, text),) = [
        (note["kind"], note["number"], note["text"]) for note in record(decision)["pendingReasons"]
    ]
    assert (kind, number, text) == ("NoRoom", 2, "2 clusters: no room for more")
    assert decided(asked, cluster("a"), cluster("b")).scheduled


def hooks_of(decision: Decision) -> list[str]:
    return [f"{e['plugin']} before {e['phase']}: {e['text']}" for e in record(decision)["hooks"]]


class NoAnti:
    """Takes the anti-affinity away."""

    name = "NoAnti"

    def before_pre_filter(
        self, state: CycleState, info: WorkloadInfo, snapshot: Snapshot, bound: Any
    ) -> tuple[WorkloadInfo, bool]:
        return replace(info, anti_affinity=WorkloadAffinity()), True


@pytest.mark.proves("E20")
def test_a_hook_that_takes_the_anti_affinity_away_is_told_and_the_stored_object_stays() -> None:
    rule = {REQUIRED: [{"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": CLUSTER}]}
    stored = workload(labels={"app": "x"}, workloadAntiAffinity=rule)
    before, asked = msgspec.json.encode(stored), workload_info(stored)
    there = index((info("one", labels={"app": "x"}), {"a": 1}))
    assert not decided(asked, cluster("a"), bound=there).placements
    made = profile(before_pre_filter=[NoAnti()])
    decision = decided(asked, cluster("a"), bound=there, profile=made)
    assert decision.placements == {"a": 2}
    assert hooks_of(decision) == ["NoAnti before PreFilter: changed the Workload"]
    assert msgspec.json.encode(stored) == before
    assert asked == workload_info(stored)


@pytest.mark.proves("E21", "E23")
def test_what_hooks_change_of_clusters_is_told_one_after_the_other() -> None:
    hooks = [Roomier("a"), Roomier("b"), Roomier("a")]
    clusters = [cluster(name, groups=SMALL) for name in "abc"]
    world = snapshot(*clusters)
    decision = decide(world, info(), PlacementIndex(), profile(before_filter=hooks), NOW)
    assert hooks_of(decision) == [
        "Roomier before Filter: changed a",
        "Roomier before Filter: changed b",
        "Roomier before Filter: changed a",
    ]
    assert [world.clusters[world.row[each.metadata.name]] for each in clusters] == clusters
    assert world.groups.free["cpu"].tolist() == [1000] * 3


@pytest.mark.proves("E23")
def test_hooks_are_called_in_the_order_of_the_configuration() -> None:
    called: list[str] = []

    class Noting(More):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def before_pre_filter(self, *about: Any) -> tuple[WorkloadInfo, bool]:
            called.append(f"{self.name} of {about[1].replicas}")
            return super().before_pre_filter(*about)

    registry = catalogue.registry()
    for name in ("First", "Second"):
        registry.with_plugin(name, lambda _args, _handle, name=name: Noting(name))
    configured = parse(ORDERED, registry).profiles["stowage"]
    decision = decided(info(replicas=2), cluster("a"), profile=configured)
    assert called == ["Second of 2", "First of 3"]
    assert hooks_of(decision) == [
        "Second before PreFilter: changed the Workload",
        "First before PreFilter: changed the Workload",
    ]


ORDERED = """apiVersion: stowage.dev/v1alpha1
kind: SchedulerConfiguration
profiles:
- plugins: {preFilterHook: {enabled: [{name: Second}, {name: First}]}}
"""


class Everywhere(More, Roomier, Without):
    """In all three phases; it counts in which."""

    name = "Everywhere"

    def __init__(self) -> None:
        More.__init__(self)
        self._cluster = "a"


@pytest.mark.proves("E22", "E24")
def test_one_object_serves_all_phases_and_each_is_told() -> None:
    hook = Everywhere()
    points = {point: [hook] for point in ("before_pre_filter", "before_filter", "before_score")}
    clusters = [cluster(name, groups=SMALL) for name in "ab"]
    decision = decided(info(replicas=1), *clusters, profile=profile(**points))
    assert hooks_of(decision) == [
        "Everywhere before PreFilter: changed the Workload",
        "Everywhere before Filter: changed a",
        "Everywhere before Score: took a out of the list",
    ]
    assert decision.placements == {"b": 2}


@pytest.mark.proves("E23")
def test_what_a_hook_changed_without_saying_so_is_not_seen() -> None:
    class Secret(Everywhere):
        def before_pre_filter(self, *about: Any) -> tuple[WorkloadInfo, bool]:
            return super().before_pre_filter(*about)[0], False

        def before_filter(self, *about: Any) -> tuple[WorkloadInfo, Snapshot, bool]:
            return (*super().before_filter(*about)[:2], False)

        def before_score(self, *about: Any) -> tuple[WorkloadInfo, Mask, bool]:
            about[-1][:] = False
            return (*super().before_score(*about)[:2], False)

    points = {name: [Secret()] for name in ("before_pre_filter", "before_filter", "before_score")}
    decision = decided(info(replicas=1), cluster("a", groups=SMALL), profile=profile(**points))
    assert decision.placements == {"a": 1}
    assert hooks_of(decision) == []


class Extra(PerClusterFilterHook):
    """Two cpu more where it says so, and no clusters of another one's."""

    name = "Extra"

    def before_filter_one(
        self, info: WorkloadInfo, cluster: MemberCluster
    ) -> MemberCluster | str | None:
        match cluster.metadata.labels.get("extra"):
            case "more":
                (group,) = cluster.status.node_groups
                larger = msgspec.structs.replace(group, free={**group.free, "cpu": "3"})
                status = msgspec.structs.replace(cluster.status, node_groups=[larger])
                return msgspec.structs.replace(cluster, status=status)
            case "never":
                return "kept for others"
            case other:
                return None if other is None else 7  # type: ignore[return-value] # that is the point


@pytest.mark.proves("E21")
def test_a_hook_may_be_written_for_one_cluster_at_a_time() -> None:
    labels = {"a": "more", "b": "more", "c": "never"}
    clusters = [
        cluster(name, {"extra": labels[name]} if name in labels else {}, groups=SMALL)
        for name in "abcd"
    ]
    made = profile(before_filter=[Extra()])
    asked = info(replicas=18, distribution="Divided")
    decision = decided(asked, *clusters, profile=made)
    assert decision.placements == {"a": 6, "b": 6, "d": 2}
    assert verdicts(decision) == {"a": "", "b": "", "c": "kept for others", "d": ""}
    assert decision.refused_by() == {"Extra"}
    assert hooks_of(decision) == ["Extra before Filter: changed a and b"]
    stays = decided(info(present={"c": 2}), *clusters, profile=made)
    assert stays.placements == {"c": 2}, "what runs there stays"
    wrong = decided(info(), cluster("e", {"extra": "?"}), profile=made)
    assert "a copy of e, a reason or None is wanted, found 7" in wrong.message


class NoOdd(PerClusterScoreHook):
    """No clusters of odd size."""

    name = "NoOdd"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def leaves_out(self, info: WorkloadInfo, cluster: MemberCluster) -> bool:
        self.asked.append(cluster.metadata.name)
        return int(cluster.metadata.labels["size"]) % 2 == 1


@pytest.mark.proves("E22")
def test_a_score_hook_may_be_written_for_one_cluster_at_a_time() -> None:
    hook, seen = NoOdd(), []

    class Watching(Larger):
        def pre_score(self, *about: Any) -> Status:
            seen.extend(about[2].names[row] for row in np.flatnonzero(about[-1]))
            return SUCCESS

    scorer = Watching()
    made = profile(
        before_score=[hook], pre_score=[scorer], score=[scorer], weights={scorer.name: 1}
    )
    clusters = [cluster(f"c{size}", {"size": str(size)}) for size in (2, 3, 4)]
    away = cluster("away", {"size": "5"}, ready=False)
    decision = decided(info(), *clusters, away, profile=made)
    assert sorted(hook.asked) == ["c2", "c3", "c4"], "a refused one is none of its business"
    assert sorted(seen) == ["c2", "c4"]
    assert decision.placements == {"c4": 2}
    assert hooks_of(decision) == ["NoOdd before Score: took c3 out of the list"]


class Wordy(NoAnti):
    """Says itself what it did, unless it cannot."""

    name = "Wordy"
    said: Any = ("forgot whom it avoids",)

    def changes(self, before: PassView, after: PassView) -> Any:
        assert before.workload.anti_affinity != after.workload.anti_affinity
        if isinstance(self.said, Exception):
            raise self.said
        return self.said


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (("forgot whom it avoids",), "forgot whom it avoids"),
        ((), "changed the Workload"),
        (RuntimeError("no words"), "plugin Wordy failed at Changes: RuntimeError: no words"),
        ("text", "plugin Wordy failed at Changes: gave 'text' where a sequence of texts is wanted"),
    ],
)
def test_a_hook_may_have_words_of_its_own(said: Any, told: str) -> None:
    rule = {REQUIRED: [{"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": CLUSTER}]}
    hook = Wordy()
    hook.said = said
    made = profile(before_pre_filter=[hook])
    (found,) = hooks_of(decided(info(workloadAntiAffinity=rule), cluster("a"), profile=made))
    assert found.startswith(f"Wordy before PreFilter: {told}")


def test_what_is_told_of_a_hook_is_bounded() -> None:
    class Renewing(PerClusterFilterHook):
        name = "Renewing"

        def before_filter_one(self, info: WorkloadInfo, cluster: MemberCluster) -> MemberCluster:
            return msgspec.structs.replace(cluster, status=msgspec.structs.replace(cluster.status))

    clusters = [cluster(f"c{n}") for n in range(300)]
    decision = decided(info(), *clusters, profile=profile(before_filter=[Renewing()]))
    assert hooks_of(decision) == ["Renewing before Filter: changed c0, c1 and 298 others"]
    wordy = Wordy()
    wordy.said = [f"did {n}" for n in range(30)]
    rule = {REQUIRED: [{"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": CLUSTER}]}
    made = profile(before_pre_filter=[wordy])
    told = hooks_of(decided(info(workloadAntiAffinity=rule), cluster("a"), profile=made))
    assert told[20:] == ["Wordy before PreFilter: changed 10 things more"]


class Even(PerClusterFilter):
    """Takes clusters of even size only."""

    name = "Even"

    def fits(self, info: WorkloadInfo, cluster: MemberCluster) -> str:
        return "" if int(cluster.metadata.labels["size"]) % 2 == 0 else "size is odd"


class Larger(PerClusterScore):
    """The larger, the better."""

    name = "Larger"

    def score_one(self, info: WorkloadInfo, cluster: MemberCluster) -> int:
        return int(cluster.metadata.labels["size"])


@pytest.mark.proves("E1", "C7")
def test_a_plugin_may_be_written_for_one_cluster_at_a_time() -> None:
    made = profile(filter=[Even()], score=[Larger()], weights={"Larger": 3})
    clusters = [cluster(f"c{size}", {"size": str(size)}) for size in (2, 3, 90, 4)]
    decision = decided(info(), *clusters, profile=made)
    assert verdicts(decision) == {"c2": "", "c3": "size is odd", "c4": "", "c90": ""}
    assert [decision.snapshot.names[row] for row in decision.ranking] == ["c90", "c4", "c2"]
    assert decision.totals[decision.snapshot.row["c90"]] == 270


class Comforting:
    """Adds to the message when units found no cluster."""

    name = "Comforting"

    def post_filter(
        self, state: Any, info: WorkloadInfo, snapshot: Snapshot, unplaced: Unplaced
    ) -> Status:
        self.seen = unplaced
        return Status(Code.SUCCESS, (f"{len(snapshot)} more may come",), self.name)


@pytest.mark.proves("L4")
def test_post_filter_sees_verdicts_and_shares() -> None:
    plugin = Comforting()
    made = profile(post_filter=[plugin])
    asked = info(replicas=20, distribution="Divided")
    away = cluster("b", ready=False)
    decision = decided(asked, cluster("a", groups=SMALL), away, profile=made)
    row = decision.snapshot.row
    assert decision.placements == {"a": 2}
    assert plugin.seen.shares == {row["a"]: 2}
    assert plugin.seen.desired == 20
    assert plugin.seen.feasible.tolist() == [row["a"] == n for n in range(2)]
    ((name, text, mask),) = plugin.seen.refusals
    assert (name, text, mask[row["b"]]) == ("ClusterReady", "not ready", True)


def test_post_filter_adds_to_the_message_of_what_found_no_cluster() -> None:
    made = profile(post_filter=[Comforting()])
    assert decided(info(), cluster("a", ready=False), profile=made).message == (
        "0/1 clusters: 1 not ready; 1 more may come"
    )
    assert decided(info(), cluster("a"), profile=made).message == "2 of 2 replicas have a cluster"


class Prepared:
    """Hands on from PreFilter and PreScore to Score through the state of the pass."""

    name = "Prepared"

    def pre_filter(self, state: Any, info: WorkloadInfo, snapshot: Snapshot, bound: Any) -> Status:
        state.data[self.name] = ["admitted"]
        return SUCCESS

    def pre_score(
        self, state: Any, info: WorkloadInfo, snapshot: Snapshot, bound: Any, feasible: Mask
    ) -> Status:
        state.data[self.name].append(int(feasible.sum()))
        return SUCCESS

    def score(self, state: Any, info: WorkloadInfo, snapshot: Snapshot, bound: Any) -> Any:
        assert state.data[self.name] == ["admitted", 1]
        return np.full(len(snapshot), 500, dtype=np.int64)


def test_the_points_are_called_in_order_and_scores_are_cut_to_100() -> None:
    plugin = Prepared()
    weights: Mapping[str, int] = {"Prepared": 1}
    made = profile(pre_filter=[plugin], pre_score=[plugin], score=[plugin], weights=weights)
    decision = decided(info(), cluster("a"), cluster("b", ready=False), profile=made)
    assert decision.totals[decision.snapshot.row["a"]] == 100


def test_a_filter_without_its_pre_filter_still_refuses() -> None:
    made = profile(pre_filter=[])
    decision = decided(info(targetCluster={"name": "x"}), cluster("a"), profile=made)
    assert decision.message == "0/1 clusters: 1 didn't match targetCluster"


class Sometimes:
    """Changes the unit, or only looks at it; nothing that happens is its own business."""

    name = "Sometimes"

    def __init__(self, *, changes: bool) -> None:
        self.changes = changes

    def events_to_register(self) -> Any:
        return ()

    def before_pre_filter(self, _state: Any, info: Any, _snapshot: Any, _bound: Any) -> Any:
        return (replace(info, priority=info.priority + 1), True) if self.changes else (info, False)


@pytest.mark.proves("E20", "L2")
@pytest.mark.parametrize("changes", [True, False])
def test_hints_are_asked_where_a_hook_left_everything_as_it_is(changes: bool) -> None:
    """A hint is given the Workload as it is: of no use only where the others saw another one."""
    plain = default_profile()
    hooks = [*plain.before_pre_filter, Sometimes(changes=changes)]
    profile = replace(plain, before_pre_filter=hooks)
    gold = required_terms([expression("tier", "In", "gold")])
    refused = info("demo", clusterAffinity=gold)
    found = decided(refused, cluster("a"), profile=profile)
    assert found.placements == {}
    awaits = awaited(found, Hints(profile), alone=True)
    assert awaits is not None
    hints = awaits.ask(MEMBER_CLUSTER, None, Action.LABELS)
    if changes:
        assert hints is None, "whoever waits for that is woken without being asked"
    else:
        assert hints
        assert not any(hint(refused, cluster("a"), cluster("a", {"tier": "tin"})) for hint in hints)
        assert any(hint(refused, cluster("a"), cluster("a", {"tier": "gold"})) for hint in hints)
