"""What is told of drift, for how long, and what a process takes over from the one before."""

from __future__ import annotations

from typing import Any, cast

import pytest

from crds.fields.drift import MOST_DRIFTED
from propagator.drift.fields import MISSING, FieldDrift
from propagator.drift.records import (
    EVENT_SECONDS,
    MOST_RECORDS,
    REPAIRED_SECONDS,
    Drifted,
    DriftRecords,
)
from propagator.shares import ShareTable
from propagator.types.workload import Workload, workload_of
from tests.fakeclock import FakeClock

WEB = Drifted("m1", "Deployment", "shop", "web")
IMAGE = FieldDrift(("spec", "image"), "nginx:1", "nginx:2", "kubectl-edit")
ARGS = FieldDrift(("spec", "args"), "a", MISSING, "")


class Events:
    def __init__(self) -> None:
        self.notes: list[tuple[str, str]] = []

    def event(self, _about: Any, *, reason: str, note: str, related: Any, **_: Any) -> None:
        assert note.startswith(f"{related.name}: "), "the cluster of the object"
        self.notes.append((reason, note))


class World:
    def __init__(self) -> None:
        self.clock, self.events, self.keys = FakeClock(), Events(), list[Any]()
        self.records = self.process()

    def process(self) -> DriftRecords:
        self.shares = ShareTable()
        return DriftRecords(
            self.shares,
            clock=self.clock,
            recorder=cast("Any", self.events),
            changed=self.keys.append,
        )

    def states(self, about: Workload) -> list[str]:
        return [each["state"] for each in self.records.told(about)]


@pytest.fixture
def world() -> World:
    return World()


def workload(*drift: dict[str, Any], clusters: tuple[str, ...] = ("m1", "m2")) -> Workload:
    placements = [{"cluster": each, "replicas": 1} for each in clusters]
    return workload_of(
        {
            "metadata": {"name": "demo", "namespace": "shop", "uid": "u-1"},
            "status": {"drift": [*drift], "placements": placements},
        }
    )


@pytest.mark.proves("X1")
async def test_a_repair_is_told_for_ten_minutes_by_this_process_and_the_next(world: World):
    world.records.repaired(workload(), WEB, [IMAGE])
    [entry] = world.records.told(workload())
    assert (entry["cluster"], entry["state"]) == ("m1", "Repaired")
    assert world.records.soonest([entry]) == pytest.approx(REPAIRED_SECONDS, abs=1)
    world.records = world.process()
    await world.clock.advance(REPAIRED_SECONDS / 2)
    assert world.records.told(workload(entry)) == [entry]
    assert world.records.told(workload(entry, clusters=("m2",))) == [], "its cluster is left"
    await world.clock.advance(REPAIRED_SECONDS / 2 + 1)
    assert world.records.told(workload(entry)) == []
    assert world.keys == [("shop", "demo")]


@pytest.mark.proves("X2")
async def test_a_report_keeps_its_time_over_a_restart_and_ends_when_the_object_stands(world: World):
    world.records.reported(workload(), WEB, [IMAGE], stamp=1)
    [entry] = world.records.told(workload())
    await world.clock.advance(100_000)
    assert world.records.told(workload()) == [entry]
    world.records = world.process()
    world.records.reported(workload(entry), WEB, [IMAGE, ARGS], stamp=2)
    [again] = world.records.told(workload(entry))
    assert again["since"] == entry["since"]
    assert len(again["paths"]) == 2
    assert world.records.looked_at(workload(), WEB, 2)
    world.records.over(workload(again), WEB)
    assert world.records.told(workload(again)) == []
    world.records = world.process()
    world.records.over(workload(again), WEB)
    assert world.records.told(workload(again)) == [], "another process has seen it stand"


@pytest.mark.proves("X5")
async def test_a_contest_names_its_paths_and_ends_as_a_repair(world: World):
    assert world.records.contended(workload(), WEB) == ""
    world.records.repaired(workload(), WEB, [IMAGE, ARGS])
    assert world.records.contended(workload(), WEB) == "spec.image, spec.args"
    await world.clock.advance(REPAIRED_SECONDS + 1)
    world.records.repaired(workload(), WEB, [IMAGE])
    assert world.states(workload()) == ["Contended"]
    world.records.over(workload(), WEB)
    assert world.states(workload()) == ["Repaired"]


async def test_events_are_one_a_minute_for_each_object(world: World):
    for _ in range(3):
        world.records.repaired(workload(), WEB, [IMAGE, ARGS])
    world.records.repaired(workload(), WEB._replace(cluster="m2"), [IMAGE])
    assert [reason for reason, _ in world.events.notes] == ["DriftRepaired"] * 2
    assert "spec.image and 1 more changed by kubectl-edit" in world.events.notes[0][1]
    await world.clock.advance(EVENT_SECONDS)
    world.records.reported(workload(), WEB, [IMAGE], stamp=1)
    world.records.reported(workload(), WEB, [IMAGE], stamp=2)
    assert [reason for reason, _ in world.events.notes][2:] == ["DriftReported"]


def test_all_is_bounded_and_dropped_with_what_it_is_about(world: World):
    for number in range(2 * MOST_RECORDS):
        of = WEB._replace(name=f"w-{number:03}", cluster=f"m{number % 2 + 1}")
        world.records.repaired(workload(), of, [IMAGE] * 20)
    told = world.records.told(workload())
    assert (len(told), len(told[0]["paths"])) == (32, 8)
    assert sum(map(len, world.records._records.of("u-1").values())) == MOST_RECORDS
    world.shares.drop_member("m1")
    assert {each["cluster"] for each in world.records.told(workload())} == {"m2"}
    world.shares.drop_workload("u-1")
    assert not world.records._records.of("u-1")
    world.records.repaired(workload(), WEB, [IMAGE])
    world.shares.new_term(alone=False)
    assert world.records.told(workload()) == []


def test_what_stands_is_told_before_what_was_repaired(world: World):
    for number in range(40):
        world.records.repaired(workload(), WEB._replace(name=f"a-{number:02}"), [IMAGE])
    world.records.reported(workload(), WEB, [IMAGE], stamp=1)
    assert world.states(workload())[0] == "Reported"


@pytest.mark.parametrize("since", ["", "soon", None])
def test_a_spoilt_entry_is_dropped(world: World, since: Any):
    assert (
        world.records.told(workload({**WEB._asdict(), "since": since, "state": "Repaired"})) == []
    )


@pytest.mark.proves("RB8")
def test_what_a_member_does_not_keep_is_told_until_it_does_also_by_the_next_process(
    world: World,
) -> None:
    lost = FieldDrift(("spec", "args"), "a", MISSING, "its API server v1.35.1")
    world.records.dropped(workload(), WEB, [lost])
    (told,) = world.records.told(workload())
    assert (told["state"], told["paths"][0]["path"]) == ("Dropped", "spec.args")
    assert told["paths"][0]["manager"] == "its API server v1.35.1"
    world.records.repaired(workload(), WEB, [IMAGE])
    world.records.over(workload(), WEB)
    assert world.records.told(workload()) == [told], "what others change ends it not"

    world.records = world.process()
    stored = workload(told)
    world.records.over(stored, WEB)
    assert world.records.told(stored) == [told]
    world.records.rendered(stored, "m2", [])
    world.records.rendered(stored, "m1", [WEB])
    assert world.records.told(stored) == [told]
    world.records.dropped(stored, WEB, [])
    assert world.records.told(stored) == []


@pytest.mark.proves("RB8")
@pytest.mark.parametrize("restarted", [False, True])
def test_nothing_is_told_of_an_object_that_the_workload_has_no_more(
    world: World, restarted: bool
) -> None:
    world.records.dropped(workload(), WEB, [ARGS])
    stored = workload(*world.records.told(workload()))
    if restarted:
        world.records = world.process()
    world.records.rendered(stored, "m1", [])
    assert world.records.told(stored) == []


@pytest.mark.proves("PL2")
def test_of_an_agents_member_what_it_tells_now_is_told_once_and_within_the_bound(world: World):
    def entry(number: int, cluster: str = "m2") -> dict[str, Any]:
        of = Drifted(cluster, "ConfigMap", "shop", f"c-{number}")
        return {**of._asdict(), "paths": [], "since": "2026-01-01T00:00:00Z", "state": "Reported"}

    stored = workload(entry(1), entry(2))
    assert world.records.told(stored, {"m2": [entry(2)]}) == [entry(2)]
    assert world.records.told(stored, {"m2": []}) == []
    many = {"m1": [entry(n, "m1") for n in range(20)], "m2": [entry(n) for n in range(20)]}
    assert len(world.records.told(stored, many)) == MOST_DRIFTED
