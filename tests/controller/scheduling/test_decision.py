"""The record: golden in full, the table of scores, and the sum that always holds."""

from __future__ import annotations

import json

import pytest

from controller.explain.record import record
from tests.controller.make import PREFERRED, cluster, decided, expression, info

ASKED = info(
    replicas=4,
    clusterAffinity={
        PREFERRED: [
            {"weight": 10, "preference": {"matchExpressions": [expression("ssd", "Exists")]}}
        ]
    },
)
CLUSTERS = (
    cluster("b", {"ssd": ""}),
    cluster("a"),
    cluster("d", ready=False),
    cluster("c", unschedulable=True),
)

WHOLE = [
    {"kind": "Whole", "number": 4, "of": 0, "name": "", "text": "all 4 go to the best cluster"},
]
UNFIT = {"score": None, "total": None, "scores": {}, "replicas": 0, "reasons": []}
GOLDEN = {
    "namespace": "shop",
    "name": "demo",
    "uid": "uid-demo",
    "hash": ASKED.hash,
    "time": "2026-01-02T03:04:05Z",
    "desired": 4,
    "assigned": 4,
    "pending": 0,
    "state": "Scheduled",
    "reason": "Scheduled",
    "message": "4 of 4 replicas have a cluster",
    "hooks": [],
    "placements": [{"cluster": "b", "replicas": 4, "reasons": WHOLE}],
    "order": [],
    "clusters": [
        {
            "name": "b",
            "fits": True,
            "plugin": "",
            "reason": "",
            "score": 7,
            "total": 581,
            "scores": {
                "ClusterAffinity": 100,
                "WorkloadAffinity": 0,
                "TaintToleration": 100,
                "ClusterResources": 81,
            },
            "replicas": 4,
            "reasons": WHOLE,
        },
        {
            "name": "a",
            "fits": True,
            "plugin": "",
            "reason": "",
            "score": 5,
            "total": 381,
            "scores": {
                "ClusterAffinity": 0,
                "WorkloadAffinity": 0,
                "TaintToleration": 100,
                "ClusterResources": 81,
            },
            "replicas": 0,
            "reasons": [],
        },
        {
            "name": "c",
            "fits": False,
            "plugin": "TaintToleration",
            "reason": "unschedulable",
            **UNFIT,
        },
        {"name": "d", "fits": False, "plugin": "ClusterReady", "reason": "not ready", **UNFIT},
    ],
    "pendingReasons": [],
    "binding": [],
    "remedies": [],
}


@pytest.mark.proves("C19", "C20", "E30")
def test_the_whole_record() -> None:
    rendered = record(decided(ASKED, *CLUSTERS))
    assert rendered == GOLDEN
    assert json.loads(json.dumps(rendered)) == GOLDEN


@pytest.mark.proves("E30")
def test_a_refused_workload_has_a_record_too() -> None:
    rendered = record(decided(info(targetCluster={"name": "x"}), cluster("a")))
    assert rendered["clusters"] == [
        {
            "name": "a",
            "fits": False,
            "plugin": "NamedCluster",
            "reason": "cluster x not found",
            **UNFIT,
        }
    ]
    assert [note["text"] for note in rendered["pendingReasons"]] == [
        "1 cluster: cluster x not found"
    ]
    assert (rendered["desired"], rendered["pending"]) == (2, 2)


@pytest.mark.proves("E15", "C6")
def test_the_table_of_scores() -> None:
    decision = decided(ASKED, *CLUSTERS)
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in decision.table(9).split("\n")
    ]
    head, rule, *rows = lines
    plugins = ["ClusterAffinity", "ClusterResources", "TaintToleration", "WorkloadAffinity"]
    assert head == ["#", "Pod", "Node", "Score", *plugins]
    assert rule == ["---:", "---", "---", "---:", "---:", "---:", "---:", "---:"]
    assert [row[:3] for row in rows] == [["1", "shop/demo", "b"], ["2", "shop/demo", "a"]]
    assert all(int(row[3]) == sum(map(int, row[4:])) for row in rows)
    assert list(decision.placements) == [rows[0][2]]


@pytest.mark.proves("E15")
@pytest.mark.parametrize(("asked", "rows"), [(0, 0), (1, 1), (3, 2)])
def test_as_many_rows_as_are_asked_for(asked: int, rows: int) -> None:
    assert len(decided(ASKED, *CLUSTERS).table(asked).split("\n")) == rows + 2


@pytest.mark.parametrize("replicas", [3, 40])
def test_a_lean_record_says_the_same(replicas: int) -> None:
    decision = decided(info(replicas=replicas, distribution="Divided"), *CLUSTERS)
    assert record(decision.lean()) == record(decision)
    assert decision.cycle_state.plan is not None
    assert decision.lean().cycle_state.plan is None, "it is most of the memory"
