"""What is left of a fleet, and of what is said of it, for who may see some of it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from machinery.api.resources import MEMBER_CLUSTERS, WORKLOAD_GROUPS, WORKLOADS
from machinery.errors import Forbidden, NotFound
from stowage.web.narrowing import EVERYTHING, NarrowedSnapshot, Scope
from stowage.web.snapshot import HubSnapshot, StoredObject
from stowage.web.whatif import seen
from tests.examples import examples
from tests.web import fleets

pytestmark = pytest.mark.proves("V13")

JSON = dict[str, Any]
OF_SHOP = Scope(within=frozenset({("workloads", "shop")}))


def fleet() -> HubSnapshot:
    found = HubSnapshot()
    for name in ("m1", "m2", "m3"):
        found.put(MEMBER_CLUSTERS, fleets.cluster(name))
    found.put(WORKLOADS, fleets.workload("web", {"m1": 2}))
    found.put(WORKLOADS, fleets.workload("other", {"m1": 1, "m2": 3}, namespace="train"))
    found.put(WORKLOAD_GROUPS, {"metadata": {"name": "gang", "namespace": "train"}, "spec": {}})
    return found


@pytest.fixture
def shown() -> NarrowedSnapshot:
    return NarrowedSnapshot(fleet(), OF_SHOP)


def test_objects_of_others_are_not_there(shown: NarrowedSnapshot) -> None:
    listed = [each.metadata.key for each in shown.each(WORKLOADS, StoredObject)]
    assert listed == [("shop", "web")]
    assert [*shown.each(WORKLOADS, StoredObject, "train")] == []
    with pytest.raises(Forbidden):
        [*shown.each(WORKLOAD_GROUPS, JSON)]
    with pytest.raises(Forbidden):
        shown.read(WORKLOADS, "other", "train", JSON)
    with pytest.raises(Forbidden):
        shown.read(WORKLOADS, "nothing", "nowhere", JSON)
    assert shown.shows(WORKLOADS, ("shop", "gone"))
    assert not shown.shows(WORKLOADS, ("train", "other"))
    assert not shown.shows(WORKLOAD_GROUPS, ("shop", "gang"))


def test_of_a_cluster_there_is_name_and_ready(shown: NarrowedSnapshot) -> None:
    (only,) = shown.each(MEMBER_CLUSTERS, JSON)
    ready = {"type": "Ready", "status": "True"}
    assert only == {"metadata": {"name": "m1"}, "status": {"conditions": [ready]}}
    for name in ("m2", "nothing"):
        with pytest.raises(NotFound, match="no such cluster"):
            shown.read(MEMBER_CLUSTERS, name, None, JSON)


def test_a_spec_that_names_a_cluster_shows_none() -> None:
    whole = fleet()
    body = fleets.workload("curious", {})
    body["spec"]["clusterNames"] = ["m2"]
    whole.put(WORKLOADS, body)
    assert NarrowedSnapshot(whole, OF_SHOP).named() == {"m1"}


def test_a_cluster_is_named_as_long_as_the_status_says(shown: NarrowedSnapshot) -> None:
    assert shown.named() == {"m1"}
    whole = shown._whole
    body = fleets.workload("web", {"m2": 1})
    body["status"]["leaving"] = [{"cluster": "m3", "replicas": 1}]
    whole.put(WORKLOADS, body)
    assert shown.named() == {"m2", "m3"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("train/other stands in the way", "others stands in the way"),
        ("room of train/rsv/pool, train/other", "room of others, others"),
        ("shop/web on m1, not m2: full", "shop/web on m1, not another cluster: full"),
        ("namespace train has no quota", "namespace of others has no quota"),
        ("registry.io/train/web:1", "others:1"),
        ("a train to elsewhere/web", "a train to elsewhere/web"),
        ("m2.", "another cluster."),
        ("2 of 3 clusters, 0/4 nodes", "2 of 3 clusters, 0/4 nodes"),
    ],
)
def test_texts_name_no_others(shown: NarrowedSnapshot, text: str, told: str) -> None:
    assert shown.told(text) == told


def test_a_namespace_stays_hidden_when_it_is_empty(shown: NarrowedSnapshot) -> None:
    whole = shown._whole
    for res, name in ((WORKLOADS, "other"), (WORKLOAD_GROUPS, "gang")):
        whole.change(res, whole.read(res, name, "train", StoredObject), None)
    assert "train" not in whole.namespaces(WORKLOADS)
    assert shown.told("train/other") == "others"


def test_rows_of_others_go_and_shares_elsewhere_are_one(shown: NarrowedSnapshot) -> None:
    told = shown.told(
        {
            "workloads": [
                {"namespace": "shop", "name": "web", "placements": shares("m1", "m2", "m3")},
                {"namespace": "train", "name": "other", "placements": []},
            ],
            "groups": [{"namespace": "train", "name": "gang"}, {"namespace": "shop", "name": "g"}],
            "clusters": [{"name": "m1", "fits": True}, {"name": "m2", "fits": False}],
        }
    )
    assert told["groups"] == []
    (row,) = told["workloads"]
    assert [(each["cluster"], each["replicas"]) for each in row["placements"]] == [
        ("m1", 1),
        ("another cluster", 5),
    ]
    assert row["placements"][1]["reasons"] == []
    assert [each["name"] for each in told["clusters"]] == ["m1"]


def shares(*clusters: str) -> list[dict[str, Any]]:
    why = [{"text": "on m2"}]
    return [{"cluster": c, "replicas": n + 1, "reasons": why} for n, c in enumerate(clusters)]


NAMES = st.sampled_from(["zqa", "zqb", "shop", "m1", "zqm", "0", "the"])
TEXTS = st.builds(
    lambda parts, marks: "".join(p + m for p, m in zip(parts, marks, strict=False)),
    st.lists(st.builds("/".join, st.lists(NAMES, min_size=2, max_size=3)), max_size=5),
    st.lists(st.sampled_from([" ", ", ", ": ", "=", ";", "(", ")", "'", "\n"]), max_size=5),
)
VALUES = st.recursive(
    TEXTS | st.integers() | st.none() | st.booleans(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["cluster", "name", "namespace", "text", "a"]) | TEXTS, inner
        )
    ),
    max_leaves=12,
)


@examples(100)
@given(VALUES)
def test_nothing_hidden_is_told_whatever_the_form(value: Any) -> None:
    whole = HubSnapshot()
    whole.put(WORKLOADS, fleets.workload("web", {"m1": 2}))
    for name in ("zqa", "zqb"):
        whole.put(WORKLOADS, fleets.workload("zqw", {"zqm": 1}, namespace=name))
    for name in ("m1", "zqm"):
        whole.put(MEMBER_CLUSTERS, fleets.cluster(name))
    told = str(NarrowedSnapshot(whole, OF_SHOP).told(value))
    assert not re.search(r"zq[ab]/", told)
    assert "zqm" not in told
    assert NarrowedSnapshot(whole, EVERYTHING).told(value) == value


def test_a_what_if_has_the_callers_own_numbers() -> None:
    shown = NarrowedSnapshot(fleet(), OF_SHOP)
    rows = [
        outcome("shop", "web", moves=1, noPlace=1),
        outcome("train", "other", moves=3, noPlace=4),
    ]
    counts = {"placed": 6, "noPlace": 0, "awaitsFence": 0, "holdsData": 0, "onPaper": 0}
    run = {
        "title": "Drain m2",
        "unitsHit": 9,
        "workloadsHit": 2,
        "before": counts,
        "after": {**counts, "placed": 1, "noPlace": 5},
        "moves": 4,
        "steps": 7,
        "brake": {"state": "open", "lost": 1, "registered": 3, "limit": 2, "message": "m2"},
        "tightest": {"cluster": "m2", "resource": "cpu", "percent": 99},
        "clusters": [{"cluster": "m1", "before": {"cpu": 10}, "after": {"cpu": 20}}],
        "workloads": rows,
        "more": {"workloads": 3},
    }
    told = seen(run, shown)
    assert told["others"] == {"workloads": 1, "units": 7}
    assert [each["name"] for each in told["workloads"]] == ["web"]
    assert (told["unitsHit"], told["workloadsHit"], told["moves"], told["steps"]) == (2, 1, 1, 1)
    assert told["before"]["placed"] == 2
    assert (told["after"]["placed"], told["after"]["noPlace"]) == (1, 3)
    assert (told["clusters"], told["tightest"], told["brake"]["registered"]) == ([], None, 0)
    assert "more" not in told
    assert seen({"key": "zone", "runs": [run], "notes": []}, shown)["runs"] == [told | run_more]
    assert seen(run, NarrowedSnapshot(fleet(), EVERYTHING)) == run


run_more = {"more": {"workloads": 3}}


def outcome(namespace: str, name: str, **numbers: int) -> dict[str, Any]:
    numbers = {"pending": 0, "awaitsFence": 0, "holdsData": 0, "onPaper": 0, **numbers}
    plain = {"order": 1, "before": [], "after": []}
    return {"namespace": namespace, "name": name, **plain, **numbers}
