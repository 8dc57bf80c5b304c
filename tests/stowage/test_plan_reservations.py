"""Plans with Reservations: held before their owners come, told by name, and nothing written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.stowage.test_plan import Write, cluster, placed, plan, run, shares, workload, write

__all__ = ["write"]

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
FLEET = EXAMPLES / "fleet" / "three-zones.yaml"

pytestmark = pytest.mark.proves("E25", "E28")


def reservation(
    name: str = "launch",
    *,
    cpu: str = "4",
    owners: Any = None,
    metadata: Mapping[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    status = spec.pop("status", None)
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    body = {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": name, "namespace": "shop", **(metadata or {})},
        "spec": {
            "template": {"spec": {"containers": [container]}},
            "owners": owners or [{"object": {"kind": "Workload", "name": "web"}}],
            **spec,
        },
    }
    return {**body, "status": status} if status else body


@pytest.fixture
def fleet(write: Write) -> str:
    return write("fleet.yaml", cluster("a", cpu=4), cluster("b", cpu=4))


def table(files: str, fleet: str) -> list[str]:
    result = run("plan", "-f", files, "--fleet", fleet)
    assert result.exit_code == 0, result.output
    return [" ".join(line.split()) for line in result.stdout.splitlines()]


def test_room_is_held_and_its_owner_goes_inside(write: Write, fleet: str) -> None:
    room = reservation(targetCluster={"name": "b"})
    other = workload("other", replicas=1, cpu="1", targetCluster={"name": "b"})
    files = write("w.yaml", room, other, workload("web", replicas=2, cpu="2"))
    lines = table(files, fleet)
    assert lines[1] == "shop/rsv/launch 1 1 0 b=1 b +1"
    assert lines[2] == "shop/other 1 0 1 - pending"
    assert "shop/web 2 2 0 b=2 b +2" in lines
    assert lines[lines.index("shop/web 2 2 0 b=2 b +2") + 1] == "2 replicas inside rsv/launch"
    made = plan(files, fleet)
    inside = {"namespace": "shop", "name": "launch", "cluster": "b", "replicas": 2}
    assert [{**each, **inside} for each in made["web"]["reservations"]] == (
        made["web"]["reservations"]
    )
    assert made["other"]["reservations"] == made["launch"]["reservations"] == []
    assert (made["launch"]["kind"], made["web"]["kind"]) == ("Reservation", "Workload")


def test_one_that_is_over_takes_part_in_nothing(write: Write) -> None:
    over = reservation(metadata={"uid": "r"}, status={"phase": "Failed", **placed(a=1)})
    fleet = write("fleet.yaml", cluster("a", cpu=4), over)
    late = write("w.yaml", workload("late", replicas=1, cpu="4"))
    assert shares(plan(late, fleet)["late"]) == {"a": 1}
    result = run("explain", "rsv/launch", "-n", "shop", "--fleet", fleet)
    assert str(result.exception) == "shop/rsv/launch takes part in no decision any more"


def test_the_plan_of_an_owner_is_explained_with_its_room(write: Write, fleet: str) -> None:
    files = write("w.yaml", reservation(), workload("web", replicas=1, cpu="4"))
    result = run("explain", "wl/web", "-n", "shop", "-f", files, "--fleet", fleet)
    assert "1 replica inside rsv/launch\n" in result.stdout
    told = run("explain", "rsv/launch", "-n", "shop", "-f", files, "--fleet", fleet)
    assert told.stdout.startswith("shop/rsv/launch: 1 of 1 replica placed (Scheduled)\n")


def test_the_examples_are_planned_as_their_pages_say() -> None:
    made = plan(str(EXAMPLES / "19-reservation.yaml"), str(FLEET))
    assert shares(made["launch"]) == shares(made["launched"]) == {"member-2": 2}
    assert [each["name"] for each in made["launched"]["reservations"]] == ["launch"]
    made = plan(str(EXAMPLES / "20-reservation-shared.yaml"), str(FLEET))
    assert len(shares(made["season"])) == 2
    assert sum(each["replicas"] for each in made["season-web"]["reservations"]) == 2
    assert sum(each["replicas"] for each in made["season-jobs"]["reservations"]) == 1


@pytest.mark.long
def test_the_same_files_give_the_same_words_in_every_process() -> None:
    """Sets of texts have another order in each process."""
    told = set()
    for seed in ("1", "2", "3"):
        done = subprocess.run(
            [sys.executable, "-m", "stowage", "plan", "-f", EXAMPLES / "19-reservation.yaml",
             "--fleet", FLEET, "-o", "json"],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        told.add(json.dumps([each["hooks"] for each in json.loads(done.stdout)["workloads"]]))
    assert len(told) == 1


@pytest.mark.proves("J5")
class TestAnOwnerOfSeveral:
    """Two reservations of 4 cpu hold all of a node of 8 cpu."""

    @staticmethod
    def told(write: Write, *rooms: str, cpu: int = 8, units: int = 1, **spec: Any) -> list[str]:
        held = [reservation(f"r{n}", cpu=each) for n, each in enumerate(rooms)]
        web = workload("web", replicas=units, cpu=spec.pop("asks"), **spec)
        fleet = write("one.yaml", cluster("a", cpu=cpu))
        return table(write("w.yaml", *held, web), fleet)[len(rooms) + 1 :]

    def test_a_unit_takes_nothing_of_another_ones_room(self, write: Write) -> None:
        assert self.told(write, "4", "4", asks="6")[0] == "shop/web 1 0 1 - pending"
        lines = self.told(write, "4", "4", asks="3")
        assert lines[:2] == ["shop/web 1 1 0 a=1 a +1", "1 replica inside rsv/r0"]

    def test_what_it_lacks_comes_from_room_that_nobody_holds(self, write: Write) -> None:
        lines = self.told(write, "4", "4", cpu=10, asks="6")
        assert lines[:2] == ["shop/web 1 1 0 a=1 a +1", "1 replica inside rsv/r0"]
        both = self.told(write, "4", "4", cpu=10, asks="6", units=2, distribution="Divided")
        assert both[0] == "shop/web 2 1 1 a=1 a +1", "the room that nobody holds is for one"

    def test_it_goes_where_it_lacks_the_least(self, write: Write) -> None:
        lines = self.told(write, "4", "7", cpu=11, asks="6")
        assert lines[:2] == ["shop/web 1 1 0 a=1 a +1", "1 replica inside rsv/r1"]
        lines = self.told(write, "1", "4", cpu=7, asks="6")
        assert lines[:2] == ["shop/web 1 1 0 a=1 a +1", "1 replica inside rsv/r1"]

    def test_whole_units_use_all_of_them(self, write: Write) -> None:
        lines = self.told(write, "4", "4", asks="2", units=4)
        assert lines[0] == "shop/web 4 4 0 a=4 a +4"
