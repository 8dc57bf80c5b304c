"""Plans and explanations of gangs whose quorum has run: what is lost finds its place by itself."""

from __future__ import annotations

from typing import Any

import pytest

from crds.groups.gate import decision_of
from tests.stowage.test_plan import Write, cluster, placed, plan, run, shares, write
from tests.stowage.test_plan_groups import group, member

__all__ = ["write"]


def runs(name: str, replicas: int, **there: int) -> dict[str, Any]:
    """A member as the hub has it, whose units run on these clusters."""
    counts = ("replicas", "ready", "current", "scheduled")
    shown = [
        {"name": name, "state": "Running", **dict.fromkeys(counts, n)} for name, n in there.items()
    ]
    status = {**(placed(**there) if there else {}), "desired": replicas, "clusters": shown}
    made: dict[str, Any] = member(name, replicas, "1", status=status)
    made["metadata"]["uid"] = f"uid-{name}"
    return made


def ran(*members: dict[str, Any], least: int = 4, **said: Any) -> dict[str, Any]:
    """The group, whose quorum has run, with these members released."""
    decisions = {
        each["metadata"]["uid"]: decision_of(
            {s["cluster"]: s["replicas"] for s in each["status"]["placements"]}
        )
        for each in members
    }
    status = {"phase": "Running", "gate": "Open", "quorumTime": "2026-01-01T00:00:00Z"}
    return group(least=least, status={**status, "decisions": decisions, **said})


def explained(name: str, fleet: str) -> str:
    result = run("explain", f"wl/{name}", "-n", "shop", "--fleet", fleet)
    assert result.exit_code == 0, result.output
    return str(result.output).splitlines()[0]


@pytest.mark.proves("G24")
def test_a_lost_cluster_is_made_good_though_a_sibling_was_deleted(write: Write) -> None:
    lost = runs("a", 2, gone=2)
    fleet = write("fleet.yaml", cluster("here", cpu=10), ran(lost), lost)
    assert explained("a", fleet).startswith("shop/a: 2 of 2 units placed")


@pytest.mark.proves("G24")
def test_a_lost_unit_needs_no_room_for_the_others(write: Write) -> None:
    lost, other = runs("a", 2), runs("b", 2, here=2)
    fleet = write("fleet.yaml", cluster("here", cpu=1), ran(other), lost, other)
    assert explained("a", fleet).startswith("shop/a: 1 of 2 units placed")
    made = plan(write("w.yaml", {k: v for k, v in lost.items() if k != "status"}), fleet)
    assert shares(made["a"]) == {"here": 1}


@pytest.mark.proves("G24")
@pytest.mark.parametrize("said", [{"gate": "Closed"}, {"gate": None}, {"quorumTime": None}])
def test_without_an_open_gate_or_a_quorum_that_ran_it_is_asked_for(
    write: Write, said: dict[str, Any]
) -> None:
    lost, other = runs("a", 2), runs("b", 2, here=2)
    told = ran(other, **said)
    told["status"] = {k: v for k, v in told["status"].items() if v is not None}
    fleet = write("fleet.yaml", cluster("here", cpu=1), told, lost, other)
    assert explained("a", fleet).startswith("shop/a: 0 of 2 units placed")
