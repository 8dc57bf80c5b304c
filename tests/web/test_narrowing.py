"""What is left of a fleet, and of what is said of it, for who may see some of it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from machinery.api.resources import MEMBER_CLUSTERS, WORKLOAD_GROUPS, WORKLOADS
from machinery.errors import Forbidden, NotFound
from stowage.web import computed
from stowage.web.narrowing import EVERYTHING, WITHHELD, NarrowedSnapshot, Scope
from stowage.web.snapshot import HubSnapshot, StoredObject
from tests.examples import examples
from tests.web import fleets

pytestmark = pytest.mark.proves("V13")

JSON = dict[str, Any]
OF_SHOP = Scope(within=frozenset({("workloads", "shop")}))


def fleet() -> HubSnapshot:
    found = HubSnapshot()
    for name in ("m1", "m2", "m3"):
        body = fleets.cluster(name)
        body["status"]["conditions"].append(fleets.condition("Evacuating", "True", "Draining"))
        found.put(MEMBER_CLUSTERS, body)
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


@pytest.mark.proves("Q25")
@pytest.mark.parametrize(
    "text",
    [
        "train/other stands in the way",
        "room of train/rsv/pool, train/other",
        "shop/web on m1, not m2: full",
        "namespace train has no quota",
        "m2.",
    ],
)
def test_a_sentence_that_names_others_is_not_shown(shown: NarrowedSnapshot, text: str) -> None:
    told = {"reason": "Pending", "message": text, "on": ["m1", text]}
    hidden = {"reason": "Pending", "message": WITHHELD, "on": ["m1", WITHHELD]}
    assert shown.told(told, ("shop", "web")) == hidden


@pytest.mark.proves("Q25")
@pytest.mark.parametrize(
    "text",
    ["a train to elsewhere/web", "2 of 3 clusters, 0/4 nodes", "shop/m2 and shop/web wait", ""],
)
def test_other_sentences_are_shown(shown: NarrowedSnapshot, text: str) -> None:
    assert shown.told(text) == text


@pytest.mark.proves("Q25")
@pytest.mark.parametrize("where", ["image", "labels", "annotations"])
@pytest.mark.parametrize("word", ["registry.example/prod/api", "m2", "train/other", "train"])
def test_words_of_an_own_object_are_shown_whatever_is_there(
    shown: NarrowedSnapshot, word: str, where: str
) -> None:
    """What one has written oneself tells nothing of which names exist."""
    whole = shown._whole
    for name in ("prod", "api"):
        whole.put(MEMBER_CLUSTERS, fleets.cluster(name))
    body = fleets.workload("web", {"m1": 2})
    pod = body["spec"]["targetDeployment"]["spec"]["template"]["spec"]
    if where == "image":
        pod["containers"][0]["image"] = word
    else:
        body["metadata"][where] = {"a": word}
    whole.put(WORKLOADS, body)
    message = f"m1: cannot pull {word}; namespace {word}"
    row = {"namespace": "shop", "name": "web", "message": message}
    finding = {"names": ["shop/web", "shop/other"], "message": message}
    assert shown.told({"workloads": [row], "findings": [finding]}) == {
        "workloads": [row],
        "findings": [finding],
    }
    other = {"namespace": "shop", "name": "another", "message": message}
    assert shown.told([other]) == [{**other, "message": WITHHELD}]


@pytest.mark.proves("Q25")
def test_own_names_are_shown_though_clusters_have_them(shown: NarrowedSnapshot) -> None:
    shown._whole.put(WORKLOADS, fleets.workload("m2", {"m1": 1}))
    row = {"namespace": "shop", "name": "m2", "state": "Running", "message": "m2 runs"}
    assert shown.told([row, "m2"]) == [row, "m2"]


def test_a_namespace_stays_hidden_when_it_is_empty(shown: NarrowedSnapshot) -> None:
    whole = shown._whole
    for res, name in ((WORKLOADS, "other"), (WORKLOAD_GROUPS, "gang")):
        whole.change(res, whole.read(res, name, "train", StoredObject), None)
    assert "train" not in whole.namespaces(WORKLOADS)
    assert shown.told("train/other") == WITHHELD


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


@example("shop/zqa/zqa")
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
    told = re.sub(r"(?<![/\w])shop/\w+(?![/\w])", "", told)  # objects of their own namespace
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
    told = computed.what_if(run, shown)
    assert told["others"] == {"workloads": 1, "units": 7}
    assert [each["name"] for each in told["workloads"]] == ["web"]
    assert (told["unitsHit"], told["workloadsHit"], told["moves"], told["steps"]) == (2, 1, 1, 1)
    assert told["before"]["placed"] == 2
    assert (told["after"]["placed"], told["after"]["noPlace"]) == (1, 3)
    assert (told["clusters"], told["tightest"], told["brake"]["registered"]) == ([], None, 0)
    assert "more" not in told
    assert "m2" not in str(told["workloads"])
    several = computed.what_if({"key": "zone", "runs": [run], "notes": ["m2"]}, shown)
    assert several["notes"] == []
    assert several["runs"] == [{k: v for k, v in told.items() if k != "notes"}]
    assert computed.what_if(run, NarrowedSnapshot(fleet(), EVERYTHING)) == run
    planned = {"workloads": [{"namespace": "train", "name": "other", "desired": 3}], "groups": []}
    assert computed.what_if(planned, shown)["others"] == {"workloads": 1, "units": 3}


@pytest.mark.proves("Q25")
@pytest.mark.parametrize("there", ["m2", "elsewhere"])
def test_an_explanation_is_the_same_whatever_names_are_hidden(there: str) -> None:
    """Sentences about the fleet are made of numbers, so guesses in a spec are never answered."""
    whole = fleet()
    whole.put(MEMBER_CLUSTERS, fleets.cluster(there))
    note = {"kind": "Room", "number": 2, "name": "train/rsv/pool", "text": f"cpu on {there} or m3"}
    cluster = {
        "name": "m1",
        "fits": False,
        "plugin": "ClusterSelector",
        "reason": "didn't match site=m2",
        "score": None,
        "total": None,
        "scores": {},
        "replicas": 0,
        "reasons": [],
    }
    clusters = [
        cluster,
        {**cluster, "plugin": "Reservation", "reason": f"held for train/{there}"},
        {**cluster, "name": "m3"},
    ]
    record = {
        "namespace": "shop",
        "name": "web",
        "reason": "InsufficientCapacity",
        "message": f"no room on {there}",
        "placements": [{**each, "reasons": []} for each in shares("m1", "m3")],
        "clusters": clusters,
        "pendingReasons": [{**note, "kind": "Refused", "name": "Reservation"}],
        "remedies": [note, {**note, "kind": "Several", "name": there}],
        "remarks": [f"The status says {there}=2"],
        "order": ["m1", there],
    }
    stored = fleets.workload("web", {"m1": 1})
    told = computed.explained(record, NarrowedSnapshot(whole, OF_SHOP), stored)
    assert [each["reason"] for each in told["clusters"]] == ["didn't match site=m2", ""]
    assert [each["cluster"] for each in told["placements"]] == ["m1", "another cluster"]
    assert [each["text"] for each in told["remedies"]] == [
        "room for 2 more replicas",
        "nothing by itself: each cluster is refused for several reasons",
    ]
    assert told["pendingReasons"][0]["text"] == "2 clusters: refused by Reservation"
    assert told["remarks"][0] == (
        "The status says m1=1; decided now it would be m1=1,another cluster=2."
    )
    rest = str({**told, "clusters": []})
    assert not [name for name in ("m2", "m3", "train", "elsewhere") if name in rest]


def outcome(namespace: str, name: str, **numbers: int) -> dict[str, Any]:
    numbers = {"pending": 0, "awaitsFence": 0, "holdsData": 0, "onPaper": 0, **numbers}
    plain = {"order": 1, "before": [], "after": []}
    return {"namespace": namespace, "name": name, **plain, **numbers}
