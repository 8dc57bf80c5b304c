"""`stowage explain` from files alone: the table, the sentences, and what does not agree."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from machinery.errors import ConfigurationError
from stowage.cli import cli
from stowage.kinds import reference
from stowage.simulation import explain
from tests.stowage.test_plan import (
    EXAMPLES,
    FLEET,
    Write,
    cluster,
    placed,
    workload,
)
from tests.stowage.test_plan import write as write  # noqa: PLC0414 - a fixture, taken over

LABELS = EXAMPLES / "04-cluster-selector-labels.yaml"
APART = EXAMPLES / "08-workload-anti-affinity.yaml"


def run(*args: object) -> Result:
    return CliRunner().invoke(cli, ["explain", *map(str, args)])


def said(*args: object) -> list[str]:
    result = run(*args)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def unscored(rows: list[str]) -> list[list[str]]:
    """Rows of the table without the score, which other plugins would change."""
    cells = [row.split(maxsplit=4) for row in rows]
    assert all(score == "-" or 1 <= int(score) <= 10 for _, _, score, *_ in cells)
    return [[name, verdict, number, why] for name, verdict, _, number, why in cells]


def refusal(*args: object) -> str:
    result = run(*args)
    assert isinstance(result.exception, ConfigurationError), result.output
    return str(result.exception)


def test_beside_the_record_stands_what_would_be_decided_now() -> None:
    """Units that have no place stay nowhere, and no table is announced where there is none."""

    def head(name: str, file: object, **instead: Any) -> str:
        told = json.loads(
            run(name, "-n", "demo", "-f", file, "--fleet", FLEET, "-o", "json").stdout
        )
        return explain.Explanation({**told, **instead}).beside(everything=True).splitlines()[0]

    assert head("wl/by-labels", LABELS) == "Decided now, no replica would be placed:"
    assert head("wl/by-labels", LABELS, clusters=[]) == "Decided now, no replica would be placed."
    stays = "Decided now, every replica would stay where it is:"
    assert head("wl/by-labels", LABELS, assigned=1) == stays


@pytest.mark.proves("E30", "C20")
def test_a_success_as_people_see_it() -> None:
    lines = said("workload", "spread-1", "-n", "demo", "-f", APART, "--fleet", FLEET)
    assert lines[0] == "demo/spread-1: 2 of 2 replicas placed (Scheduled)"
    assert unscored(lines[4:]) == [
        ["member-1", "fits", "2", "all 2 go to the best cluster"],
        ["member-2", "fits", "0", "ranked 2 of 2"],
        ["member-3", "refused", "0", "had taints that were not tolerated (TaintToleration)"],
    ]


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (["wl/demo"], "demo"),
        (["workload/demo"], "demo"),
        (["wl", "demo"], "demo"),
        (["rsv/demo"], "reservations/demo"),
        (["Reservation", "demo"], "reservations/demo"),
        (["reservations.stowage.dev/demo"], "reservations/demo"),
        (["wls/demo"], ""),
        (["rsv/"], ""),
        (["rsv/a/b"], ""),
    ],
)
def test_every_way_to_name_one(words: list[str], key: str) -> None:
    if key:
        assert reference(words).key("shop") == ("shop", key)
    else:
        with pytest.raises(ValueError, match=r"wl/NAME.*rsv/NAME"):
            reference(words)


@pytest.mark.parametrize("words", [["demo"], ["pod/demo"], ["wl/"], ["wl/a/b"], ["wl", "a", "b"]])
def test_what_names_no_workload_is_wrong_usage(words: list[str]) -> None:
    assert run(*words, "--fleet", FLEET).exit_code == 2


class TestAgainstTheStatus:
    """A fleet in files that holds the Workload with its status, as a hub would."""

    def decided(self, write: Write, body: dict[str, Any]) -> str:
        """The hash of what the placement of such a Workload is decided on."""
        file = write("asked.yaml", body)
        fleet = write("one.yaml", cluster("a"))
        text = run("wl/demo", "-n", "shop", "-f", file, "--fleet", fleet, "-o", "json").stdout
        return str(json.loads(text)["hash"])

    def test_what_agrees_needs_no_remark(self, write: Write) -> None:
        body = workload("demo")
        decision = {"hash": self.decided(write, body), "time": "2026-01-01T00:00:00Z"}
        there = {**body, "status": {**placed(a=2), "decision": decision}}
        lines = said("wl/demo", "-n", "shop", "--fleet", write("f.yaml", cluster("a"), there))
        assert lines[:2] == ["shop/demo: 2 of 2 replicas placed (Scheduled)", ""]
        assert lines[3].split(maxsplit=4)[4] == "2 stay where they are"

    def test_an_edit_since_the_decision_is_said(self, write: Write) -> None:
        decision = {"hash": "another-one", "time": "2026-01-01T00:00:00Z"}
        there = workload("demo", status={**placed(a=2), "decision": decision}, replicas=3)
        lines = said("wl/demo", "-n", "shop", "--fleet", write("f.yaml", cluster("a"), there))
        assert lines[1:3] == [
            (
                "The spec was edited since the decision (of 2026-01-01T00:00:00Z) "
                "that its shares come from: this is what would be decided now."
            ),
            "The status says a=2; decided now it would be a=3.",
        ]

    def test_one_that_was_never_decided(self, write: Write) -> None:
        fleet = write("f.yaml", cluster("a"), workload("demo"))
        assert said("wl/demo", "-n", "shop", "--fleet", fleet)[1] == (
            "Not decided yet: this is what would be decided now."
        )

    def test_a_cordoned_home_keeps_its_units(self, write: Write) -> None:
        body = workload("demo")
        decision = {"hash": self.decided(write, body)}
        there = {**body, "status": {**placed(a=2), "decision": decision}}
        fleet = write("f.yaml", cluster("a", unschedulable=True), cluster("b"), there)
        rows = said("wl/demo", "-n", "shop", "--fleet", fleet)[2:]
        why = "2 stay where they are; no more: unschedulable (TaintToleration)"
        assert unscored(rows[1:]) == [
            ["a", "refused", "2", why],
            ["b", "fits", "0", "ranked 1 of 1"],
        ]


def test_most_clusters_are_only_counted(write: Write) -> None:
    members = [cluster(f"c{n:02}", ready=n % 2 == 0) for n in range(50)]
    files = ("-f", write("w.yaml", workload("demo")), "--fleet", write("f.yaml", *members))
    lines = said("wl/demo", "-n", "shop", *files)
    assert len(lines) == 3 + 1 + explain.SHOWN + 1
    assert lines[-1] == "… 30 more: 5 fit, 25 refused (--all shows them)"
    assert len(said("wl/demo", "-n", "shop", *files, "--all")) == 3 + 1 + 50


def test_holders_come_first(write: Write) -> None:
    there = workload("demo", status=placed(z=2))
    fleet = write("f.yaml", *(cluster(name) for name in "abz"), there)
    assert said("wl/demo", "-n", "shop", "--fleet", fleet)[4].startswith("z ")


def test_what_is_not_there(write: Write) -> None:
    fleet = write("f.yaml", cluster("a"), workload("theirs", schedulerName="other"))
    assert refusal("wl/x", "-n", "shop", "--fleet", fleet) == "there is no Workload shop/x"
    assert "decides nothing of shop/x" in refusal(
        "wl/x", "-n", "shop", "--fleet", fleet, "-f", write("w.yaml", workload("demo"))
    )
    assert refusal("wl/theirs", "-n", "shop", "--fleet", fleet) == (
        "shop/theirs is left to scheduler other; asked is stowage"
    )
