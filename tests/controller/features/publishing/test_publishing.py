"""What Workloads publish, by a whole controller on a hub in memory."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controller.features.publishing import decisions
from controller.features.publishing.decisions import label_value
from controller.model.moving import MovementConfiguration
from crds.names import ANNOTATION_PROFILE, ANNOTATION_UNJOIN, GIVEN_UP
from machinery.api.resources import (
    CLUSTER_DECISIONS,
    MEMBER_CLUSTERS,
    PLACEMENT_DECISIONS,
    WORKLOADS,
)
from machinery.errors import Invalid, NotFound
from tests.controller.features.publishing.duckgenerator import generated
from tests.controller.memory import Stage

ON = """
apiVersion: stowage.dev/v1alpha1
kind: SchedulerConfiguration
placementDecisions: true
"""
ARGO = {
    "apiVersion": "stowage.dev/v1alpha1",
    "kind": "clusterdecisions",
    "statusListKey": "decisions",
    "matchKey": "clusterName",
}
KEYS = "multicluster.x-k8s.io/"


class Shop(Stage):
    """A hub whose Workload `web` publishes what it is told to."""

    def web(self, **publish: Any) -> None:
        given = {"distribution": "Duplicated", "delivery": "None"}
        self.workload("web", **{**given, "publish": publish})

    def edit(self, **spec: Any) -> None:
        # A server counts the generation itself.
        self.hub.edit(WORKLOADS, "web", {"spec": spec})

    def decision(self) -> dict[str, Any]:
        try:
            return self.hub.read(CLUSTER_DECISIONS, "web")
        except KeyError:
            return {}

    def items(self) -> list[dict[str, str]] | None:
        status = self.decision().get("status", {})
        return status.get("decisions") if status.get("conditions") else None

    def names(self) -> list[str] | None:
        found = self.items()
        return None if found is None else [each["clusterName"] for each in found]

    def slices(self) -> dict[str, dict[str, Any]]:
        return {each["metadata"]["name"]: each for each in self.hub.all(PLACEMENT_DECISIONS)}

    def sizes(self) -> dict[str, int]:
        return {name: len(each["decisions"]) for name, each in self.slices().items()}

    def written(self) -> list[tuple[str, str, Any]]:
        """The writes of what is published."""
        kinds = (CLUSTER_DECISIONS, PLACEMENT_DECISIONS)
        return [each for kind in kinds for each in self.hub.writes(f"/{kind.plural}")]


@pytest.fixture
def switched_on(tmp_path: Path) -> Path:
    file = tmp_path / "stowage.yaml"
    file.write_text(ON)
    return file


@pytest.mark.proves("CT4")
async def test_items_are_strings_in_the_order_of_rank_and_the_list_stays_when_it_is_empty() -> None:
    shop = Shop()
    for name, tier in (("a", "gold"), ("b", "iron"), ("c", "gold")):
        shop.cluster(name, tier=tier)
    spec = {
        "distribution": "Divided",
        "delivery": "None",
        "distributionWeights": [
            {"clusterSelector": {"matchLabels": {"tier": "iron"}}, "weight": 3},
            {"clusterSelector": {"matchLabels": {"tier": "gold"}}, "weight": 1},
        ],
    }
    publish = {"clusterDecision": True, "labels": ["tier", "zone"]}
    shop.workload("web", replicas=5, **spec, publish=publish)
    async with shop.leading():
        await shop.until(lambda: shop.names() == ["b", "a", "c"])
        found = shop.items() or []
        assert all(isinstance(value, str) for item in found for value in item.values())
        assert [item["rank"] for item in found] == ["1", "2", "3"]
        assert [item["replicas"] for item in found] == ["3", "1", "1"]
        assert [item["label.tier"] for item in found] == ["iron", "gold", "gold"]
        assert {item["label.zone"] for item in found} == {""}
        assert all(0 < len(item["reason"]) <= 256 for item in found)
        owner = shop.decision()["metadata"]["ownerReferences"]
        uid = shop.hub.read(WORKLOADS, "web")["metadata"]["uid"]
        assert [(o["kind"], o["name"], o["uid"]) for o in owner] == [("Workload", "web", uid)]
        shop.hub.edit(MEMBER_CLUSTERS, "c", {"metadata": {"labels": {"zone": "z1"}}})
        await shop.until(lambda: [i["label.zone"] for i in shop.items() or []] == ["", "", "z1"])
        shop.edit(replicas=0)
        await shop.until(lambda: shop.items() == [])


@pytest.mark.proves("A13")
async def test_of_units_that_wait_for_a_place_the_last_list_stands(switched_on: Path) -> None:
    shop = Shop("a", "b")
    async with shop.configured(switched_on):
        shop.web(clusterDecision=True, placementDecision=True)
        await shop.until(lambda: shop.names() == ["a", "b"])
        await shop.until(lambda: shop.sizes() == {"web-0": 2})
        for name in ("a", "b"):  # given up: nothing is left to name
            mark = {"metadata": {"annotations": {ANNOTATION_UNJOIN: GIVEN_UP}}}
            shop.hub.edit(MEMBER_CLUSTERS, name, mark)
        await shop.until(lambda: not shop.placed("web"))
        await shop.calm(10)
        assert shop.names() == ["a", "b"]
        assert shop.sizes() == {"web-0": 2}


@pytest.mark.proves("CT5")
async def test_argo_has_an_application_for_each_cluster_and_follows_a_move_at_its_next_look() -> (
    None
):
    shop = Shop()
    for name in ("a", "b"):
        shop.cluster(name, pool=name)
    known = {name: f"https://{name}" for name in ("a", "b", "unplaced")}
    shop.workload(
        "web",
        delivery="None",
        clusterSelector={"pool": "a"},
        publish={"clusterDecision": True, "labels": ["pool"]},
    )

    def applications() -> list[dict[str, str]]:
        return generated(ARGO, [shop.decision()], known, {"team": "shop"})

    async with shop.leading():
        await shop.until(lambda: shop.names() == ["a"])
        (one,) = applications()
        assert one.items() >= {
            ("name", "a"),
            ("server", "https://a"),
            ("replicas", "2"),
            ("label.pool", "a"),
            ("values.team", "shop"),
        }
        shop.edit(clusterSelector={"pool": "b"})
        await shop.calm(5)
        assert [each["server"] for each in applications()] == ["https://b"]
        shop.hub.remove(MEMBER_CLUSTERS, "b")  # it is away, and what runs there stays
        await shop.calm(5)
        assert [each["server"] for each in applications()] == ["https://b"]


@pytest.mark.proves("CT4")
async def test_units_that_are_leaving_are_told_until_their_successors_are_ready() -> None:
    shop = Shop()
    for name in ("a", "b"):
        shop.cluster(name, pool=name)
    shop.workload("web", clusterSelector={"pool": "a"}, publish={"clusterDecision": True})
    async with shop.leading():
        await shop.until(lambda: shop.names() == ["a"])
        shop.edit(clusterSelector={"pool": "b"})
        await shop.until(lambda: shop.names() == ["a", "b"])
        shares = [{"name": "b", "replicas": 2, "ready": 2, "state": "Running"}]
        shop.hub.edit(WORKLOADS, "web", {"status": {"clusters": shares}}, status=True)
        await shop.until(lambda: shop.names() == ["b"])


@pytest.mark.proves("CT4")
async def test_an_object_of_somebody_else_is_left_alone_and_taken_over_by_nobody() -> None:
    shop = Shop("a")
    theirs = {"metadata": {"name": "web", "namespace": "shop"}, "spec": {"labels": ["theirs"]}}
    shop.hub.put(CLUSTER_DECISIONS, theirs)
    before = shop.decision()
    shop.web(clusterDecision=True)
    async with shop.leading():
        await shop.until(lambda: shop.says("web", "Published")[:2] == ("False", "AlreadyExists"))
        assert "the ClusterDecision web is somebody else's" in shop.says("web", "Published")[2]
        await shop.calm(120)
        assert shop.decision() == before
        shop.hub.remove(CLUSTER_DECISIONS, "web")
        await shop.until(lambda: shop.names() == ["a"])
        await shop.until(lambda: shop.says("web", "Published")[:2] == ("True", "Published"))


@pytest.mark.proves("CT4")
async def test_one_of_an_earlier_workload_of_that_name_makes_way() -> None:
    shop = Shop("a")
    owner = {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "Workload",
        "name": "web",
        "uid": "earlier",
        "controller": True,
    }
    shop.hub.put(CLUSTER_DECISIONS, {"metadata": {"name": "web", "ownerReferences": [owner]}})
    shop.web(clusterDecision=True)
    async with shop.leading():
        await shop.until(lambda: shop.names() == ["a"])
        now = shop.hub.read(WORKLOADS, "web")["metadata"]["uid"]
        assert shop.decision()["metadata"]["ownerReferences"][0]["uid"] == now


@pytest.mark.proves("CT4")
async def test_what_is_asked_for_no_more_goes_also_where_nobody_led_meanwhile() -> None:
    shop = Shop("a")
    shop.web(clusterDecision=True)
    async with shop.leading():
        await shop.until(lambda: shop.names() == ["a"])
    shop.edit(publish=None)
    async with shop.leading():
        await shop.until(lambda: not shop.decision())


@pytest.mark.proves("CT4")
async def test_nothing_is_written_twice_and_an_edit_of_somebody_is_put_right() -> None:
    shop = Shop("a")
    shop.web(clusterDecision=True)
    async with shop.leading():
        await shop.until(lambda: shop.names() == ["a"])
        await shop.calm(3)
        made = shop.written()
        assert [method for method, *_ in made] == ["POST", "PATCH"]
        report = [{"name": "a", "replicas": 2, "ready": 1, "state": "Creating"}]
        shop.hub.edit(WORKLOADS, "web", {"status": {"clusters": report, "ready": 1}}, status=True)
        await shop.calm(3)
        assert shop.written() == made
        shop.hub.edit(CLUSTER_DECISIONS, "web", {"status": {"decisions": []}}, status=True)
        await shop.until(lambda: shop.names() == ["a"])
    async with shop.leading(identity="two"):
        await shop.calm(3)
        assert len(shop.written()) == 3


@pytest.mark.proves("CT4")
async def test_a_process_that_dies_between_two_writes_leaves_what_the_next_one_ends() -> None:
    shop = Shop("a")
    shop.web(clusterDecision=True)

    async def dies(method: str, path: str, _body: Any) -> None:
        if method == "PATCH" and "/clusterdecisions/" in path:
            raise NotFound(code=404, reason="NotFound", message="the process is dead")

    shop.hub.faults.append(dies)
    async with shop.leading():
        await shop.until(shop.decision)
        assert shop.items() is None
    shop.hub.faults.clear()
    async with shop.leading(identity="two"):
        await shop.until(lambda: shop.names() == ["a"])


@pytest.mark.proves("CT4")
async def test_workloads_that_publish_nothing_cost_no_request() -> None:
    shop = Shop("a", cpu="99999", pods="99999")
    for number in range(30):
        shop.workload(f"web-{number}", replicas=1)
    async with shop.leading():
        await shop.until(lambda: all(shop.placed(f"web-{n}") for n in range(30)))
        await shop.calm(3)
        kinds = ("/clusterdecisions", "/placementdecisions")
        asked = [path for _, path, _ in shop.hub.requests if any(kind in path for kind in kinds)]
        asked = [path for path in asked if "/customresourcedefinitions/" not in path]
        assert set(asked) == {CLUSTER_DECISIONS.path()}  # the lists of the informer


@pytest.mark.proves("CT4")
async def test_a_list_that_is_too_large_is_never_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop("a", "b")
    shop.web(clusterDecision=True)
    async with shop.leading():
        await shop.until(lambda: shop.names() == ["a", "b"])
        whole = len(msgspec.json.encode(shop.items()))
        monkeypatch.setattr(decisions, "MOST_BYTES", whole - 1)
        shop.edit(replicas=3)
        await shop.until(lambda: [i["replicas"] for i in shop.items() or []] == ["3", "3"])
        assert not any("reason" in item for item in shop.items() or [])
        before = shop.items()
        monkeypatch.setattr(decisions, "MOST_BYTES", 10)
        shop.edit(replicas=4)
        await shop.until(lambda: shop.says("web", "Published")[:2] == ("False", "TooLarge"))
        assert shop.items() == before
        said = {c["type"]: c["reason"] for c in shop.decision()["status"]["conditions"]}
        assert said == {"Ready": "TooLarge", "Stalled": "TooLarge"}
        monkeypatch.undo()
        shop.edit(replicas=5)
        await shop.until(lambda: [i["replicas"] for i in shop.items() or []] == ["5", "5"])
        await shop.until(lambda: shop.says("web", "Published")[0] == "True")


@pytest.mark.proves("CT4", "CT6")
def test_a_name_that_is_no_label_is_cut_with_a_digest() -> None:
    names = ["web", "a" * 63, "a" * 64, "a" * 52 + "-" + "b" * 20, "a" * 52 + "-" + "c" * 20]
    values = [label_value(each) for each in names]
    assert values[:2] == names[:2]
    assert len(set(values)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?", each) for each in values)


@pytest.mark.proves("CT6")
async def test_250_clusters_are_three_slices_and_90_are_one(switched_on: Path) -> None:
    shop = Shop()
    for number in range(250):
        shop.cluster(f"c{number:03}", pool="few" if number < 90 else "many")
    shop.web(placementDecision=True)
    async with shop.configured(switched_on):
        await shop.until(lambda: shop.sizes() == {"web-0": 100, "web-1": 100, "web-2": 50})
        found = shop.slices()
        labels = [found[f"web-{index}"]["metadata"]["labels"] for index in range(3)]
        assert [each[f"{KEYS}decision-index"] for each in labels] == ["0", "1", "2"]
        assert {each[f"{KEYS}decision-key"] for each in labels} == {"web"}
        assert {each[f"{KEYS}placement-key"] for each in labels} == {"web"}
        assert {each["schedulerName"] for each in found.values()} == {"stowage"}
        told = [d["clusterProfileRef"] for n in range(3) for d in found[f"web-{n}"]["decisions"]]
        assert told == [
            {"namespace": "stowage-system", "name": f"c{number:03}"} for number in range(250)
        ]
        assert all(
            o["name"] == "web" and o["controller"]
            for each in found.values()
            for o in each["metadata"]["ownerReferences"]
        )
        note = {ANNOTATION_PROFILE: "fleet/paris"}
        shop.hub.edit(MEMBER_CLUSTERS, "c000", {"metadata": {"annotations": note}})
        imported = {"namespace": "fleet", "name": "paris"}
        await shop.until(
            lambda: shop.slices()["web-0"]["decisions"][0]["clusterProfileRef"] == imported
        )
        shop.edit(clusterSelector={"pool": "few"})
        await shop.until(lambda: shop.sizes() == {"web-0": 90})
        shop.edit(publish={"placementDecision": False})
        await shop.until(lambda: shop.sizes() == {})


@pytest.mark.proves("CT6")
async def test_no_cluster_that_stays_is_missing_while_the_slices_change(switched_on: Path) -> None:
    shop = Shop()
    for number in range(130):
        shop.cluster(f"c{number:03}", pool="first" if number < 40 else "last")
    shop.web(placementDecision=True)
    missing: list[set[str]] = []

    def told() -> set[str]:
        slices = shop.slices().values()
        return {d["clusterProfileRef"]["name"] for each in slices for d in each["decisions"]}

    async def look(_method: str, path: str, _body: Any) -> None:
        if "/placementdecisions" in path and told():
            missing.append({f"c{number:03}" for number in range(40, 130)} - told())

    async with shop.configured(switched_on):
        await shop.until(lambda: len(told()) == 130)
        shop.hub.after.append(look)
        shop.edit(clusterSelector={"pool": "last"})
        await shop.until(lambda: shop.sizes() == {"web-0": 90})
        shop.edit(clusterSelector=None)
        await shop.until(lambda: len(told()) == 130)
        assert not any(missing)


@pytest.mark.proves("CT7")
async def test_a_hub_without_the_kind_places_all_the_same_and_publishes_once_it_has_it(
    switched_on: Path,
) -> None:
    shop = Shop("a")
    shop.web(placementDecision=True)

    async def lacks(_method: str, path: str, _body: Any) -> None:
        if "/placementdecisions" in path:
            raise NotFound(code=404, reason="NotFound", message="the server could not find it")

    shop.hub.faults.append(lacks)
    async with shop.configured(switched_on):
        await shop.until(lambda: shop.placed("web"))
        await shop.until(lambda: shop.says("web", "Published")[:2] == ("False", "NotServed"))
        assert "the hub has no placementdecisions" in shop.says("web", "Published")[2]
        await shop.calm(60)
        assert not shop.written()
        shop.hub.faults.clear()
        await shop.until(lambda: shop.sizes() == {"web-0": 1}, seconds=40)
        await shop.until(lambda: shop.says("web", "Published")[0] == "True")


@pytest.mark.proves("CT7")
async def test_without_the_switch_the_condition_says_so_and_the_kind_is_not_read() -> None:
    shop = Shop("a")
    shop.web(placementDecision=True, clusterDecision=True)
    async with shop.leading():
        await shop.until(lambda: shop.says("web", "Published")[:2] == ("False", "NotServed"))
        assert "placementDecisions: true" in shop.says("web", "Published")[2]
        assert shop.names() == ["a"]
        assert not [path for _, path, _ in shop.hub.requests if "placementdecisions" in path]


@pytest.mark.proves("CT4")
async def test_what_the_hub_refuses_is_told_and_tried_again_after_a_while() -> None:
    shop = Shop("a")
    shop.web(clusterDecision=True)
    tries: list[float] = []

    async def refuses(method: str, path: str, _body: Any) -> None:
        if method == "POST" and "/clusterdecisions" in path:
            tries.append(shop.clock.monotonic())
            raise Invalid(code=422, reason="Invalid", message="no such thing here")

    shop.hub.faults.append(refuses)
    async with shop.leading():
        await shop.until(lambda: shop.says("web", "Published")[:2] == ("False", "Refused"))
        assert "no such thing here" in shop.says("web", "Published")[2]
        await shop.calm(70)
        assert len(tries) == 2
        shop.hub.faults.clear()
        shop.hub.bookmark()
        await shop.until(lambda: shop.names() == ["a"], seconds=70)


@pytest.mark.proves("CT8")
async def test_what_nobody_reports_holds_its_room_and_moves_in_one_step() -> None:
    shop = Shop("a", cpu="9")
    shop.workload("web", replicas=8, delivery="None", distribution="Divided")
    async with shop.leading(movement=MovementConfiguration(max_moving="100%")):
        await shop.until(lambda: shop.placed("web") == {"a": 8})
        shop.workload("other", replicas=2, distribution="Divided")
        await shop.until(lambda: shop.placed("other") == {"a": 1})
        shop.cluster("b", cpu="10")
        await shop.until(lambda: shop.placed("other") == {"a": 1, "b": 1})
        drain = {"key": "stowage.dev/drain", "effect": "NoExecute"}
        shop.hub.edit(MEMBER_CLUSTERS, "a", {"spec": {"taints": [drain]}})
        await shop.until(lambda: shop.placed("web") == {"b": 8})
        status = shop.hub.read(WORKLOADS, "web")["status"]
        assert [each["cause"] for each in status["history"]] == ["Placed", "Drained"]
        assert not status.get("leaving")
        assert not status.get("footprint")
