"""`stowage explain` shows what plugins told of a Workload: its fields, bounded, and harmless."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from stowage.cli import cli
from stowage.console import words
from tests.stowage.plain_hub import PlainHub, serving

pytestmark = pytest.mark.proves("U1")
TOLD: dict[str, Any] = {
    "Seats": {"pool": "blau", "of": {"a": 2}, "free": 3, "names": ["ü", None]},
    "Carbon": {"region": "x" * 200, "bell": "\x1b[31m"},
}

LEAVING = [
    {"cluster": f"m{number:02}", "replicas": 1, "cause": "ClusterGone", "name": "old", "since": "?"}
    for number in range(30)
]
LEAVING[1] |= {"cause": "Drained", "name": "stowage.dev/drain:NoExecute"}
LEAVING[2] |= {"cause": "ClusterLost", "name": "stowage.dev/not-ready:NoExecute"}

MOVING = {
    "type": "Moving",
    "status": "False",
    "reason": "DisruptionBudget",
    "message": "30 of 2 replicas leave m00: disruption budget shop/demo allows 0",
}

WAITING = {
    "name": "a",
    "replicas": 2,
    "unschedulable": 1,
    "message": "pods are not ready: no node: pod has unbound immediate PersistentVolumeClaims",
}

ROLLOUT = {
    "phase": "Soaking",
    "revision": "6f2c000000000000",
    "stable": "91ab000000000000",
    "wave": "eu",
    "message": "eu: 4m are left",
}


class Hub(PlainHub):
    """One Workload, and the rest of the fleet shown to nobody."""

    def __init__(self) -> None:
        super().__init__()
        self.secret = True
        status = {
            "desired": 2,
            "assigned": 2,
            "placements": [{"cluster": "a", "replicas": 2}],
            "plugins": TOLD,
            "leaving": LEAVING,
            "conditions": [MOVING],
            "rollout": ROLLOUT,
            "clusters": [{"name": "m00", "scheduled": 1, "current": 1}, WAITING],
        }
        meta, spec = {"name": "demo", "namespace": "shop"}, {"movement": {"maxSurge": 2}}
        self.workloads = [{"metadata": meta, "spec": spec, "status": status}]


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Path]:
    with serving(Hub().answer, tmp_path) as file:
        yield file


def explained(file: Path, *args: str) -> str:
    about = ["explain", "wl/demo", "-n", "shop", "--kubeconfig", str(file), *args]
    result = CliRunner().invoke(cli, about)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_line_for_each_plugin_long_ones_cut(hub: Path) -> None:
    lines = explained(hub).splitlines()
    at = lines.index("What plugins told:")
    assert lines[at + 1] == f"  Carbon: region {'x' * 153}… (--all shows the rest)"
    assert lines[at + 2] == '  Seats: pool blau, of {"a": 2}, free 3, names ["ü", null]'
    whole = explained(hub, "--all")
    assert "x" * 200 in whole
    assert "\x1b" not in whole


def test_what_leaves_is_told_with_its_cause(hub: Path) -> None:
    lines = explained(hub).splitlines()
    at = lines.index("Stays until as many are ready elsewhere:")
    assert lines[at + 1 : at + 4] == [
        "  m00: 1 replica, cluster old gone at ?",
        "  m01: 1 replica, cluster m01 drained at ?",
        "  m02: 1 replica, cluster m02 lost at ?, until it answers",
    ]
    assert "more (--all shows them)" in lines[at + 21]
    assert "  m29: 1 replica, cluster old gone at ?" in explained(hub, "--all").splitlines()
    assert json.loads(explained(hub, "-o", "json"))["recorded"]["leaving"] == LEAVING


@pytest.mark.proves("M29")
def test_what_a_move_waits_for_is_told_with_its_budgets(hub: Path) -> None:
    lines = explained(hub).splitlines()
    at = lines.index(f"Moving, DisruptionBudget: {MOVING['message']}")
    budget = "2 beyond 2 replicas at once (maxSurge), 0 may lack (maxUnavailable)"
    assert lines[at + 1] == f"  {budget}; 3 under way, so 0 may begin"
    assert json.loads(explained(hub, "-o", "json"))["recorded"]["moving"] == MOVING


@pytest.mark.proves("Q7")
def test_replicas_that_no_node_takes_are_told_in_the_members_words(hub: Path) -> None:
    lines = explained(hub).splitlines()
    at = lines.index("No node takes:")
    assert lines[at + 1] == (
        "  1 of 2 on a: pod has unbound immediate PersistentVolumeClaims "
        "(volumes for its claims there: a StorageClass that makes them, or some by hand)"
    )


def test_for_programs_it_is_as_it_was_told(hub: Path) -> None:
    assert json.loads(explained(hub, "-o", "json"))["recorded"]["plugins"] == TOLD


@pytest.mark.proves("T30")
def test_explain_and_history_tell_the_phase_of_a_rollout_and_what_it_waits_for(hub: Path) -> None:
    line = "rollout 91ab → 6f2c: Soaking, wave eu: eu: 4m are left"
    assert explained(hub).splitlines()[1] == line
    assert json.loads(explained(hub, "-o", "json"))["recorded"]["rollout"] == ROLLOUT
    about = ["history", "wl/demo", "-n", "shop", "--kubeconfig", str(hub)]
    assert CliRunner().invoke(cli, about).stdout.splitlines()[-1] == line
    assert not words.rollout({"rollout": {**ROLLOUT, "phase": "Complete"}})
    assert not words.rollout({})
