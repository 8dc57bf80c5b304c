"""The books of policies and spreads over HTTP: the numbers of the next decision."""

from __future__ import annotations

from pathlib import Path

import pytest

from machinery.api.resources import WORKLOAD_POLICIES, WORKLOAD_SPREADS
from tests.controller.features.workloadquota.quota import LABEL
from tests.controller.features.workloadspread.spreads import KIND, stored, subset
from tests.controller.framework.test_services import ask
from tests.controller.make import ZONE, policy_spec
from tests.controller.memory import Stage

pytestmark = pytest.mark.proves("N20", "E5", "E10")
POLICIES = "/apis/v1/plugins/WorkloadPolicy/policies"
SPREADS = "/apis/v1/plugins/WorkloadSpread/spreads"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "scheduler.yaml"
    file.write_text("apiVersion: stowage.dev/v1alpha1\nkind: SchedulerConfiguration\n")
    return file


@pytest.fixture
def stage() -> Stage:
    made = Stage()
    for kind in "ab":
        made.cluster(f"{kind}1", cpu="100", **{KIND: kind, ZONE: kind})
    return made


def policy(stage: Stage, name: str = "demo", **domains: int) -> None:
    meta = {"name": name, "namespace": "shop"}
    stage.hub.put(WORKLOAD_POLICIES, {"metadata": meta, "spec": policy_spec(**domains)})


async def test_a_policy_tells_what_its_domains_hold(config: Path, stage: Stage) -> None:
    policy(stage, a=3, b=1)
    async with stage.configured(config) as controller:
        stage.workload("demo", replicas=4, labels={"app": "demo", LABEL: "demo"})
        await stage.until(lambda: sum(stage.placed("demo").values()) == 4)
        status, told = await ask(controller, f"{POLICIES}/shop/demo")
        assert status == 200
        assert told == {
            "namespace": "shop",
            "name": "demo",
            "topologyKey": ZONE,
            "allocationType": "Required",
            "allocationMethod": "Balance",
            "workloads": 1,
            "claimed": 0,
            "domains": [
                {"name": "a", "replicas": 3, "desired": 3},
                {"name": "b", "replicas": 1, "desired": 1},
            ],
            "message": "",
            "holding": 2,
            "clusters": [
                {"name": "a1", "replicas": 3, "claimed": 0},
                {"name": "b1", "replicas": 1, "claimed": 0},
            ],
        }
        gone = {"message": "cannot find workload-policy shop/none"}
        assert await ask(controller, f"{POLICIES}/shop/none") == (404, gone)
        stage.hub.edit(WORKLOAD_POLICIES, "demo", {"spec": {"allocationPolicy": []}})
        stage.hub.edit(WORKLOAD_POLICIES, "demo", {"metadata": {"generation": 2}})
        await stage.calm(1)
        told = (await ask(controller, f"{POLICIES}/shop/demo"))[1]
        assert told["domains"] == []
        assert (
            told["message"]
            == "spec.allocationPolicy: List should have at least 1 item after validation, not 0"
        )


async def test_a_spread_tells_what_its_subsets_hold(config: Path, stage: Stage) -> None:
    stage.hub.put(WORKLOAD_SPREADS, stored(subset("a", 2), subset("b")))
    async with stage.configured(config) as controller:
        stage.workload("demo", replicas=5)
        await stage.until(lambda: stage.placed("demo") == {"a1": 2, "b1": 3})
        await stage.calm(1)
        status, told = await ask(controller, f"{SPREADS}/shop/ws")
        assert status == 200
        held = [(each["name"], each["replicas"], each["missing"]) for each in told["subsets"]]
        assert held == [("a", 2, 0), ("b", 3, -1)]
        assert told["subsets"][0]["marked"] is False
        assert told["subsets"][0]["creating"].keys() == {"a1/1-2"}
        summary = {
            "namespace": "shop",
            "name": "ws",
            "workload": "demo",
            "strategy": "Fixed",
            "divides": True,
            "marked": [],
            "message": "",
        }
        assert told == {**summary, "subsets": told["subsets"]}
        assert await ask(controller, SPREADS) == (200, {"spreads": [summary]})
        gone = {"message": "cannot find workload-spread shop/none"}
        assert await ask(controller, f"{SPREADS}/shop/none") == (404, gone)
        younger = stored(subset("b"), name="younger", created="2027-01-01T00:00:00Z")
        stage.hub.put(WORKLOAD_SPREADS, younger)
        await stage.calm(1)
        told = (await ask(controller, f"{SPREADS}/shop/younger"))[1]
        assert (told["divides"], told["subsets"]) == (False, [])


async def test_a_standby_answers_none_of_it(config: Path, stage: Stage) -> None:
    async with (
        stage.configured(config) as leader,
        stage.configured(config, identity="two", standby=True) as standby,
    ):
        await stage.until(lambda: standby.port > 0)
        for path in (POLICIES, f"{SPREADS}/shop/ws"):
            no = (503, {"message": "the instance is not leader"})
            assert await ask(standby, path) == no
        _, listed = await ask(leader, "/apis/v1/__services__")
        for path in (POLICIES, SPREADS):
            assert {path, f"{path}/:namespace/:name"} <= set(listed["GET"])
