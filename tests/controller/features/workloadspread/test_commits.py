"""A decision takes its quota of a WorkloadSpread first, then writes the placements."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from machinery.api.resources import MEMBER_CLUSTERS, WORKLOAD_SPREADS, WORKLOADS
from machinery.errors import Conflict, Invalid, Unreachable
from tests.controller.features.workloadspread.spreading import (
    adaptive,
    arranged,
    numbers,
    quiet,
    ready,
    report,
    scale,
    spread,
    status,
    stuck,
    subset,
    subsets,
    told,
    writes,
)
from tests.controller.memory import Stage

SPREAD = "/workloadspreads/ws/status"
WORKLOAD = "/workloads/demo/status"


def order(stage: Any) -> list[str]:
    """Whose statuses were written, one after the other, from the first decision on."""
    found = [path for method, path, _ in stage.hub.requests if method == "PATCH"]
    return ["spread" if SPREAD in path else "workload" for path in found if path[-6:] == "status"]


@pytest.mark.proves("W16", "W17", "W6")
async def test_quota_is_taken_before_the_placements_are_written() -> None:
    stage = arranged()
    async with stage.leading():
        await stage.until(lambda: ready(stage)[0] == "TargetNotFound")
        stage.hub.requests.clear()
        stage.workload("demo", replicas=130, cpu="1m")
        await stage.until(lambda: stage.placed("demo"))
        assert order(stage)[-2:] == ["spread", "workload"]
        assert stage.placed("demo") == {"n": 100, "e": 30}
        report(stage, n=100, e=30)
        await stage.calm(5)
        assert numbers(stage) == {"normal": (100, 0), "elastic": (30, -1)}
        assert status(stage)["summary"] == "normal=100/100,elastic=30"
        assert status(stage)["observedGeneration"] == 1
        assert ready(stage) == ("Valid", "its spec is valid and in force")
        for each in subsets(stage).values():
            assert each["creatingPods"] == each["deletingPods"] == each["stuckPods"] == {}
        before = writes(stage)
        await quiet(stage, 700)
        assert writes(stage) == before, "nothing new is written"
        assert not stage.hub.events("CreateFailed")


@pytest.mark.proves("W23", "N3")
async def test_replicas_of_a_renamed_cluster_count_by_its_present_name() -> None:
    stage = arranged()
    async with stage.leading():
        stage.workload("demo", replicas=130, cpu="1m")
        await stage.until(lambda: stage.placed("demo") == {"n": 100, "e": 30})
        report(stage, n=100, e=30)
        await stage.until(lambda: numbers(stage) == {"normal": (100, 0), "elastic": (30, -1)})
        stage.cluster("new", cpu="4000", pods="9999", pool="normal")
        stage.hub.edit(MEMBER_CLUSTERS, "new", {"spec": {"formerNames": ["n"]}})
        await stage.calm(3)
        stage.hub.remove(MEMBER_CLUSTERS, "n")
        await stage.until(lambda: stage.placed("demo") == {"new": 100, "e": 30})
        await stage.calm(3)
        assert numbers(stage) == {"normal": (100, 0), "elastic": (30, -1)}, "reports name the old"


@pytest.mark.proves("W17", "W21")
async def test_a_first_write_that_meets_another_counts_once() -> None:
    stage = arranged()

    async def faster(method: str, path: str, body: Any) -> None:
        if method == "PATCH" and path.endswith(SPREAD) and "n/1-80" in str(body):
            stage.hub.faults.remove(faster)
            meta = {"metadata": {"annotations": {"x": "y"}}}
            stage.hub.edit(WORKLOAD_SPREADS, "ws", meta)

    stage.hub.faults.append(faster)
    async with stage.leading():
        await stage.until(lambda: ready(stage)[0])
        stage.hub.requests.clear()
        stage.workload("demo", replicas=80, cpu="1m")
        await stage.until(lambda: stage.placed("demo"))
        assert faster not in stage.hub.faults
        gets = [path for how, path, _ in stage.hub.requests if how == "GET"]
        assert sum(path.endswith("/workloadspreads/ws") for path in gets) == 1, "read directly"
        assert numbers(stage)["normal"] == (80, 20)
        assert list(subsets(stage)["normal"]["creatingPods"]) == ["n/1-80"]
        assert sum("n/1-80" in str(b) for _, p, b in stage.hub.writes(SPREAD)) == 2


@pytest.mark.proves("W17")
async def test_a_cap_that_changed_before_the_quota_was_taken_makes_the_decision_anew() -> None:
    stage = arranged()
    release: list[Callable[[], None]] = []

    async def edits(method: str, path: str, body: Any) -> None:
        if method == "PATCH" and path.endswith(SPREAD) and "n/1-80" in str(body):
            stage.hub.faults.remove(edits)
            release.append(stage.hub.hold(WORKLOAD_SPREADS))
            caps = [subset("normal", 50), subset("elastic")]
            stage.hub.edit(WORKLOAD_SPREADS, "ws", {"spec": {"subsets": caps}})

    stage.hub.faults.append(edits)
    async with stage.leading():
        await stage.until(lambda: ready(stage)[0])
        stage.workload("demo", replicas=80, cpu="1m")
        await stage.until(lambda: stage.placed("demo"))
        assert stage.placed("demo") == {"n": 50, "e": 30}
        assert numbers(stage)["normal"] == (50, 0)
        release[0]()


@pytest.mark.proves("W17")
async def test_a_decision_that_is_not_written_gives_its_quota_back() -> None:
    stage = arranged()
    away = True

    async def refuses(method: str, path: str, _body: Any) -> None:
        if away and method == "PATCH" and path.endswith(WORKLOAD):
            raise Unreachable("not now")

    stage.hub.faults.append(refuses)
    async with stage.leading():
        stage.workload("demo", replicas=80, cpu="1m")
        await stage.until(lambda: numbers(stage).get("normal") == (80, 20))
        stage.hub.edit(WORKLOADS, "demo", {"spec": {"replicas": 0}})
        await stage.calm(45)
        away = False
        await stage.until(lambda: numbers(stage)["normal"] == (0, 100), seconds=120)
        assert stage.placed("demo") == {}
        assert not stage.hub.events("CreateFailed")


@pytest.mark.proves("W17")
@pytest.mark.parametrize("before", [True, False])
async def test_a_process_that_dies_around_the_commit_leaves_nothing_wrong(before: bool) -> None:
    """Before its quota is written, or between that and the placements."""
    stage = arranged()
    died, buried = asyncio.Event(), asyncio.Event()

    async def dies(method: str, path: str, body: Any) -> None:
        at = SPREAD if before else WORKLOAD
        takes = "n/1-80" in str(body) or not before
        if method == "PATCH" and path.endswith(at) and takes:
            died.set()
        if died.is_set():
            await buried.wait()
            raise Unreachable("dead")

    stage.hub.faults.append(dies)
    async with stage.leading(identity="one"):
        await stage.until(lambda: ready(stage)[0])
        stage.workload("demo", replicas=80, cpu="1m")
        await stage.until(died.is_set)
        buried.set()
    stage.hub.faults.clear()
    expected = (0, 100) if before else (80, 20)
    assert numbers(stage)["normal"] == expected
    scale(stage, 70)
    async with stage.leading(identity="two"):
        await stage.until(lambda: stage.placed("demo") == {"n": 70})
        report(stage, n=70)
        await stage.calm(5)
        assert numbers(stage)["normal"] == (70, 30)
        await stage.calm(60)
        assert numbers(stage)["normal"] == (70, 30)
        assert not stage.hub.events("CreateFailed")


@pytest.mark.proves("W21")
async def test_a_stale_informer_loses_no_decrement() -> None:
    """The watch of spreads is silent: own writes count all the same, one upon the other."""
    stage = arranged()
    stage.workload("demo", replicas=80, cpu="1m")
    async with stage.leading():
        await stage.until(lambda: stage.placed("demo"))
        report(stage, n=80)
        await stage.calm(3)
        release = stage.hub.hold(WORKLOAD_SPREADS)
        before = writes(stage)
        for units in (79, 78, 77):
            scale(stage, units)
            await stage.until(lambda units=units: stage.placed("demo") == {"n": units})
            assert numbers(stage)["normal"] == (units, 100 - units)
        assert list(subsets(stage)["normal"]["deletingPods"])
        assert writes(stage) - before == 3, "no conflict with ourselves"
        release()
        await stage.calm(3)
        assert writes(stage) - before == 3
        assert numbers(stage)["normal"] == (77, 23)


@pytest.mark.proves("W28")
async def test_what_a_term_reads_of_units_without_a_node_is_not_older_than_its_look() -> None:
    """A hub that was set back, or that nobody could write to, tells of what may be over."""
    stage = arranged(scheduleStrategy=adaptive(30, blind=True))
    stage.workload("demo", replicas=80, cpu="1m")
    async with stage.leading():
        await stage.until(lambda: stage.placed("demo") == {"n": 80})
    stuck(stage, "n", 20)
    await stage.clock.advance(120)
    async with stage.leading(identity="two"):
        await stage.calm(20)
        assert schedulable(stage) == "Sufficient"
        assert stage.placed("demo") == {"n": 80}
        await stage.calm(15)
        assert schedulable(stage) == "PodUnschedulable"
        assert stage.placed("demo") == {"n": 60, "e": 20}


@pytest.mark.proves("W28")
async def test_units_that_find_no_place_elsewhere_stay_where_they_wait() -> None:
    stage = arranged(scheduleStrategy=adaptive(5, blind=True))
    stage.workload("demo", replicas=80, cpu="1m")
    async with stage.leading():
        await stage.until(lambda: stage.placed("demo") == {"n": 80})
        stage.hub.edit(MEMBER_CLUSTERS, "e", {"spec": {"unschedulable": True}})
        stuck(stage, "n", 20)
        await stage.calm(20)
        assert schedulable(stage) == "PodUnschedulable"
        assert stage.placed("demo") == {"n": 80}
        assert not stage.hub.events("Rescheduled")
        stage.hub.edit(MEMBER_CLUSTERS, "e", {"spec": {"unschedulable": False}})
        await stage.until(lambda: stage.placed("demo") == {"n": 60, "e": 20})
        assert len(told(stage, "Rescheduled")) == 1


@pytest.mark.proves("W17")
async def test_a_spread_that_goes_while_its_quota_is_taken_holds_nobody_up() -> None:
    stage = arranged()

    async def removes(method: str, path: str, body: Any) -> None:
        if method == "PATCH" and path.endswith(SPREAD) and "n/1-80" in str(body):
            stage.hub.faults.remove(removes)
            stage.hub.remove(WORKLOAD_SPREADS, "ws")

    stage.hub.faults.append(removes)
    async with stage.leading():
        await stage.until(lambda: ready(stage)[0])
        stage.workload("demo", replicas=80, cpu="1m")
        await stage.until(lambda: sum(stage.placed("demo").values()) == 80)


async def test_a_status_that_the_hub_takes_in_no_form_is_told_on_the_workload() -> None:
    stage = arranged()

    async def refuses(method: str, path: str, body: Any) -> None:
        if method == "PATCH" and path.endswith(SPREAD) and "n/1-80" in str(body):
            raise Invalid(code=422, reason="Invalid", message="status is not as it should be")

    stage.hub.faults.append(refuses)
    async with stage.leading():
        stage.workload("demo", replicas=80, cpu="1m")
        await stage.until(lambda: stage.says("demo")[0] == "False")
        assert "status is not as it should be" in stage.says("demo")[2]
        assert stage.placed("demo") == {}
        asked = writes(stage)
        await stage.calm(20)
        assert writes(stage) - asked < 20, "not again and again"
        stage.hub.faults.clear()
        scale(stage, 79)
        await stage.until(lambda: stage.placed("demo") == {"n": 79})


async def test_units_count_to_another_subset_when_labels_of_clusters_change() -> None:
    stage = arranged()
    stage.workload("demo", replicas=130, cpu="1m")
    async with stage.leading():
        await stage.until(lambda: stage.placed("demo"))
        report(stage, n=100, e=30)
        await stage.calm(3)
        stage.hub.edit(MEMBER_CLUSTERS, "e", {"metadata": {"labels": {"pool": "normal"}}})
        await stage.calm(5)
        assert numbers(stage) == {"normal": (130, 0), "elastic": (0, -1)}
        assert stage.placed("demo") == {"n": 100, "e": 30}, "nothing moves for that"


def schedulable(stage: Any, name: str = "normal") -> str:
    (condition,) = subsets(stage)[name]["conditions"]
    reason: str = condition["reason"]
    return reason


DAEMONS = {
    "targetDeployment": None,
    "template": {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "spec": {
            "selector": {},
            "template": {"spec": {"containers": [{"name": "main", "image": "x"}]}},
        },
    },
}
PATCH = {"spec": {"containers": [{"name": "unknown"}]}}


class TestReady:
    """What is wrong with a spread, in its condition Ready."""

    @pytest.mark.parametrize(
        ("pools", "workload", "expected", "text"),
        [
            ([subset("a", "20%"), subset("b", 3)], {}, "InvalidSpread", "maxReplicas"),
            (
                [subset("normal", 2, patch=PATCH), subset("elastic")],
                {},
                "InvalidPatch",
                "spec.subsets[0].patch",
            ),
            ([], DAEMONS, "InvalidSpread", "DaemonSet"),
        ],
        ids=["no sense", "no fitting patch", "no units of its own"],
    )
    async def test_what_is_wrong_is_told_once(
        self, pools: list[Any], workload: dict[str, Any], expected: str, text: str
    ) -> None:
        stage = arranged(*pools)
        stage.workload("demo", replicas=3, **workload)
        async with stage.leading():
            await stage.until(lambda: ready(stage)[0] == expected)
            await stage.calm(3)
            reason, message = ready(stage)
            assert (reason, text in message) == (expected, True)
            before = writes(stage)
            await stage.calm(30)
            assert writes(stage) == before
        assert len(told(stage, expected)) == 1
        assert stage.placed("demo") == {}

    async def test_a_target_that_is_missing_and_comes(self) -> None:
        stage = arranged()
        async with stage.leading():
            await stage.until(lambda: ready(stage)[0] == "TargetNotFound")
            assert "demo" in ready(stage)[1]
            assert numbers(stage) == {"normal": (0, 100), "elastic": (0, -1)}
            assert not stage.hub.events("TargetNotFound")
            stage.workload("demo", replicas=1)
            await stage.until(lambda: ready(stage)[0] == "Valid")
            stage.hub.remove(WORKLOADS, "demo")
            await stage.until(lambda: ready(stage)[0] == "TargetNotFound")
            assert numbers(stage)["normal"] == (0, 100)

    @pytest.mark.proves("W35")
    async def test_a_target_that_an_older_spread_has(self) -> None:
        stage = arranged()
        stage.workload("demo", replicas=3)
        await stage.clock.advance(5)
        spread(stage, subset("elastic"), name="younger")
        async with stage.leading():
            await stage.until(lambda: ready(stage, "younger")[0])
            reason, message = ready(stage, "younger")
            assert reason == "TargetTaken"
            assert "workload-spread ws" in message
            assert status(stage, "younger")["subsetStatuses"] == []
            await stage.until(lambda: stage.placed("demo") == {"n": 3})
            assert ready(stage)[0] == "Valid"
            await stage.calm(15)
            assert len(told(stage, "TargetTaken", "younger")) == 1
            stage.hub.remove(WORKLOAD_SPREADS, "ws")
            await stage.until(lambda: ready(stage, "younger")[0] == "Valid")
            assert stage.placed("demo") == {"n": 3}, "nothing moves for that"


# --- many spreads, and several processes: no cap is passed, no write is lost, nobody waits in line


def crowd(number: int, *, cap: int = 3, **spec: Any) -> tuple[Stage, list[str]]:
    """So many Workloads, each with a spread of its own over the same two clusters."""
    stage = Stage()
    for pool in ("normal", "elastic"):
        stage.cluster(pool[0], cpu="4000", pods="9999", pool=pool)
    names = [f"w{n}" for n in range(number)]
    for name in names:
        pools = (subset("normal", cap), subset("elastic"))
        spread(stage, *pools, name=f"ws-{name}", target=name, **spec)
    return stage, names


class Watched:
    """Every state of the hub between two writes: whether a cap was passed in one of them."""

    def __init__(self, stage: Stage, cap: int) -> None:
        self.stage, self.cap = stage, cap
        self.conflicts = 0
        self.passed: list[str] = []
        self.wrong: list[str] = []
        stage.hub.after.append(self.looks)
        whole = stage.hub.request

        async def counts(method: str, path: str, **how: Any) -> bytes:
            try:
                return await whole(method, path, **how)
            except Conflict:
                self.conflicts += "/workloadspreads/" in path
                raise

        stage.hub.request = counts  # type: ignore[method-assign]

    async def looks(self, method: str, path: str, _body: Any) -> None:
        if method != "PATCH":
            return
        name = path.split("/")[-2]
        if path.endswith("/status") and "/workloads/" in path:
            placed = self.stage.placed(name)
            wanted = self.stage.hub.read(WORKLOADS, name)["spec"]["replicas"]
            if placed.get("n", 0) > self.cap or sum(placed.values()) > wanted:
                self.passed.append(f"{name}: {placed} of {wanted}")
        elif path.endswith("/status") and "/workloadspreads/" in path:
            told = numbers(self.stage, name)
            self.wrong += [f"{name}: {told}"] if told.get("normal", (0,))[0] > self.cap else []


def slow(stage: Stage, *seconds: float) -> None:
    """Writes of statuses take one of these times."""
    dice = random.Random(9)

    async def waits(method: str, path: str, _body: Any) -> None:
        if method == "PATCH" and path.endswith("/status"):
            await stage.clock.sleep(dice.choice(seconds))

    stage.hub.faults.append(waits)


def settled(stage: Stage, names: list[str], each: int, cap: int = 3) -> bool:
    placed = {"n": min(each, cap), **({"e": each - cap} if each > cap else {})}
    return all(stage.placed(name) == placed for name in names)


@pytest.mark.proves("W19")
async def test_two_schedulers_at_once_assign_nothing_twice() -> None:
    """Both decide them all, as after a lease that was lost without anybody noticing."""
    stage, names = crowd(8)
    slow(stage, 0.0, 0.1, 0.3)
    watched = Watched(stage, 3)
    async with (
        stage.leading(identity="one", elect=False),
        stage.leading(identity="two", elect=False),
    ):
        for name in names:
            stage.workload(name, replicas=5, cpu="1m")
        await stage.until(lambda: settled(stage, names, 5), seconds=120)
        for name in names:
            report(stage, name, n=3, e=2)
            scale(stage, 7, name)
        await stage.until(lambda: settled(stage, names, 7), seconds=120)
        for name in names:
            report(stage, name, n=3, e=4)
        await stage.calm(10)
        assert watched.conflicts > 0, "they did meet"
        assert watched.passed == watched.wrong == []
        for name in names:
            assert numbers(stage, f"ws-{name}") == {"normal": (3, 0), "elastic": (4, -1)}
    assert not stage.hub.events("CreateFailed")


@pytest.mark.proves("W20")
async def test_one_spread_is_written_once_at_a_time_and_others_meanwhile() -> None:
    under_way: Counter[str] = Counter()
    most: Counter[str] = Counter()
    stage, names = crowd(3)

    async def watches(method: str, path: str, _body: Any) -> None:
        if method != "PATCH" or "/workloadspreads/" not in path:
            return
        under_way[path] += 1
        most["one"] = max(most["one"], under_way[path])
        most["all"] = max(most["all"], sum(1 for n in under_way.values() if n))
        try:
            await stage.clock.sleep(0.2)
        finally:
            under_way[path] -= 1

    stage.hub.faults.append(watches)
    for name in names:
        stage.workload(name, replicas=4, cpu="1m")
    async with stage.leading():
        for turn in range(4):
            for name in names:
                scale(stage, 4 + turn % 3, name)
                meddled = {"status": {"summary": f"x{turn}"}}
                stage.hub.edit(WORKLOAD_SPREADS, f"ws-{name}", meddled, status=True)
            await stage.calm(0.5)
    assert most["one"] == 1, "never two writes of one spread"
    assert most["all"] > 1, "different ones side by side"


@pytest.mark.proves("W20")
async def test_a_burst_of_reports_costs_one_write() -> None:
    stage = arranged()
    stage.workload("demo", replicas=80, cpu="1m")
    async with stage.leading():
        await stage.until(lambda: stage.placed("demo"))
        await stage.calm(2)
        before = len(stage.hub.writes("/workloadspreads/ws/status"))
        for pods in range(60, 81):
            report(stage, n=pods)
            await asyncio.sleep(0)
        await stage.calm(5)
        assert numbers(stage)["normal"] == (80, 20)
        assert len(stage.hub.writes("/workloadspreads/ws/status")) - before <= 2


@pytest.mark.proves("W2", "W36")
async def test_the_books_touch_nothing_but_the_status_of_the_spread() -> None:
    stage = arranged(scheduleStrategy=adaptive(5, blind=True))
    stage.workload("demo", replicas=80, cpu="1m")
    async with stage.leading():
        await stage.until(lambda: stage.placed("demo"))
        generation = stage.hub.read(WORKLOADS, "demo")["metadata"]["generation"]
        report(stage, n=80)
        await quiet(stage, 120)
        assert stage.hub.read(WORKLOADS, "demo")["metadata"]["generation"] == generation
        assert stage.hub.read(WORKLOAD_SPREADS, "ws")["metadata"]["generation"] == 1
        written = {path for method, path, _ in stage.hub.requests if method in ("PATCH", "PUT")}
        ours = {path for path in written if "/namespaces/shop/" in path and "/events" not in path}
        assert all(path.endswith("/status") for path in ours), "no spec is written"
        stage.hub.remove(WORKLOAD_SPREADS, "ws")
        await stage.calm(20)
        assert stage.placed("demo") == {"n": 80}, "running shares stay"
        assert not told(stage, "DeleteFailed")
