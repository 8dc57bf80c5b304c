"""`stowage plan` and `explain` of a placed kind that nobody but its feature knows."""

from __future__ import annotations

import pytest

from controller import catalogue
from tests.controller.berths import Berths, berth
from tests.controller.cache.test_held_room import Moorings

from .test_plan import Write, cluster, placed, plan, refusal, run, shares, workload, write

__all__ = ["write"]


@pytest.fixture(autouse=True)
def harbour(monkeypatch: pytest.MonkeyPatch) -> None:
    """Berths are among the kinds that there are, and their room is held by a ledger."""
    made = (*catalogue.FEATURES, lambda: Berths(booked=True, ledgers=(Moorings(),)))
    monkeypatch.setattr(catalogue, "FEATURES", made)


def test_it_is_planned_beside_workloads_and_takes_room_from_them(write: Write) -> None:
    fleet = write("fleet.yaml", cluster("a", cpu=4))
    asked = write("w.yaml", berth("north", cpu="4"), workload("demo", replicas=1))
    table = run("plan", "-f", asked, "--fleet", fleet).stdout
    assert "shop/berths/north   1         1" in table
    assert "InsufficientCapacity" in table
    assert "a=1" in table
    found = plan(asked, fleet)
    assert (found["north"]["kind"], found["demo"]["kind"]) == ("Berth", "Workload")
    assert shares(found["north"]) == {"a": 1}
    assert found["demo"]["pending"] == 1


def test_one_that_is_there_keeps_its_room_and_what_a_file_says_is_laid_over_it(
    write: Write,
) -> None:
    there = berth("north", cpu="3")
    there["metadata"] |= {"uid": "u1", "creationTimestamp": "2026-01-01T00:00:00Z"}
    there["status"] = {**placed(a=1), "desired": 1, "assigned": 1, "pending": 0}
    fleet = write("fleet.yaml", cluster("a", cpu=4), there)
    assert plan(write("w.yaml", workload("demo", replicas=1, cpu="2")), fleet)["demo"]["pending"]
    smaller = write("v.yaml", berth("north", cpu="2"), workload("demo", replicas=1, cpu="2"))
    found = plan(smaller, fleet)
    assert found["north"]["present"] == [{"cluster": "a", "replicas": 1}]
    assert found["north"]["uid"] == "u1"
    assert found["demo"]["pending"] == 0
    closed = write("x.yaml", berth("north", closed=True), workload("demo", replicas=1, cpu="4"))
    assert plan(closed, fleet).keys() == {"demo"}, "it takes part no more"


def test_what_is_wrong_with_one_is_told_with_its_place(write: Write) -> None:
    fleet = write("fleet.yaml", cluster("a"))
    wrong = write("w.yaml", workload("demo"), berth("north", flaw="told"))
    said = refusal("-f", wrong, "--fleet", fleet)
    assert said.endswith("w.yaml, document 2: Berth north: spec.flaw: it must be mended")
    rotten = write("v.yaml", berth("north", flaw="raises"))
    said = refusal("-f", rotten, "--fleet", fleet)
    assert said.endswith("Berth north: it cannot be read: RuntimeError: this berth is rotten")
