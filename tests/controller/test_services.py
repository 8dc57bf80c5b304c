"""The HTTP face of a running controller: what it answers, and to whom."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from machinery.api.resources import SERVICE_ACCOUNTS
from machinery.discovery.access_reviews import allowed
from machinery.errors import AlreadyExists
from stowage.setup import install as installer
from tests.patience import until

from .live import World, deciding, process


async def ask(
    port: int, path: str, *, method: str = "GET", body: str = "", token: str = ""
) -> tuple[int, str]:
    """Status and body, by the standard library's own client."""

    def call() -> tuple[int, str]:
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)
        if body:
            request.data = body.encode()
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, refused.read().decode()

    return await asyncio.to_thread(call)


async def told(port: int, path: str, **how: Any) -> tuple[int, Any]:
    status, text = await ask(port, path, **how)
    return status, json.loads(text)


@pytest.mark.proves("E7")
async def test_a_cluster_in_numbers_with_what_is_on_its_way(world: World) -> None:
    await world.cluster("member-1", cpu="8", labels={"tier": "gold"})
    async with deciding(world) as controller:
        await world.workload("demo", replicas=2, cpu="500m")
        await world.placed("demo")
        await until(lambda: controller.world.shares("member-1"))
        status, found = await told(controller.port, "/apis/v1/nodes/member-1")
        same = await told(controller.port, "/apis/v1/clusters/member-1")
        unknown = await told(controller.port, "/apis/v1/nodes/nowhere")

    assert (status, same) == (200, (200, found))
    assert found["labels"]["tier"] == "gold"
    assert found["allocatable"]["cpu"] == "8"
    assert found["requested"]["cpu"] == "1"
    assert found["remaining"]["cpu"] == "7"
    assert found["shares"] == {"shop/demo": 2}
    assert found["generation"] == 1
    assert unknown == (404, {"message": "cannot find node nowhere"})


@pytest.mark.proves("E6", "E8")
async def test_the_services_list_themselves(world: World) -> None:
    async with deciding(world) as controller:
        status, listed = await told(controller.port, "/apis/v1/__services__")
        nothing = await told(controller.port, "/apis/v1/nothing")
    assert status == 200
    assert listed["GET"] == sorted(listed["GET"])
    assert "/apis/v1/__services__" in listed["GET"]
    assert "/apis/v1/nodes/:name" in listed["GET"]
    assert nothing[0] == 404
    assert set(nothing[1]) == {"message"}


@pytest.mark.proves("E16", "E17", "E18")
async def test_debug_flags_of_a_process(world: World, tmp_path: Path) -> None:
    """Started with a flag, changed over HTTP, read off its log."""
    for name in ("a", "b", "c", "d"):
        await world.cluster(name)
    log = tmp_path / "controller.log"

    def lines() -> list[dict[str, Any]]:
        whole = log.read_text().rpartition("\n")[0]  # the last one may be in the making
        return [json.loads(line) for line in whole.splitlines() if line[:1] == "{"]

    def tables() -> dict[str, list[str]]:
        """The clusters of each table of scores, by Workload."""
        found = [each for each in lines() if each["message"].startswith("| # | Pod | Node |")]
        rows = {each["object"]: each["message"].splitlines()[2:] for each in found}
        return {key: [row.split("|")[3].strip() for row in told] for key, told in rows.items()}

    with process(world, log, "--debug-scores=3"):
        await until(lambda: any("listening on" in each["message"] for each in lines()), seconds=90)
        (said,) = [each["message"] for each in lines() if "listening on" in each["message"]]
        port = int(said.rpartition(":")[2])
        await world.workload("first")
        await world.placed("first", seconds=90)
        await until(lambda: "shop/first" in tables())
        assert len(tables()["shop/first"]) == 3

        for method, rows in (("PUT", "2"), ("POST", "100")):
            answer = await ask(port, "/debug/flags/s", method=method, body=rows)
            assert answer == (200, f"successfully set debugTopNScores to {rows}")
        for wrong in ("abc", "-1", "1.5", ""):
            status, answer = await told(port, "/debug/flags/s", method="PUT", body=wrong)
            assert (status, list(answer)) == (400, ["message"])
            assert answer["message"].startswith(f"failed set debugTopNScores {wrong}")
        assert (await ask(port, "/debug/flags/s"))[0] == 405
        await world.workload("second")
        await world.workload("nowhere", clusterSelector={"no": "such"})
        await world.placed("second")
        await world.refused("nowhere", "FailedToSchedule")
        await until(lambda: "shop/second" in tables())
        assert sorted(tables()["shop/second"]) == ["a", "b", "c", "d"]
        assert "shop/nowhere" not in tables(), "there is nothing to rank"

        debug = [each for each in lines() if each["level"] == "debug"]
        answer = await ask(port, "/debug/flags/v", method="POST", body="5")
        assert answer == (200, "successfully set klog.logging.verbosity to 5")
        await ask(port, "/debug/flags/s", method="PUT", body="0")
        await world.workload("third")
        await world.placed("third")
        await until(
            lambda: any(e["level"] == "debug" and e["object"] == "shop/third" for e in lines())
        )
    assert debug == []
    assert "shop/third" not in tables()


@pytest.mark.proves("E30", "C19", "C20")
async def test_a_diagnosis_gives_each_clusters_verdict(world: World) -> None:
    await world.cluster("member-1", labels={"tier": "gold"})
    await world.cluster("member-2")
    async with deciding(world) as controller:
        await world.workload("demo", clusterSelector={"tier": "gold"})
        await world.placed("demo")
        status, found = await told(controller.port, "/apis/v1/diagnosis/shop/demo")
        unknown = await told(controller.port, "/apis/v1/diagnosis/shop/nothing")
    fits = {each["name"]: each["fits"] for each in found["clusters"]}
    assert status == 200
    assert fits == {"member-1": True, "member-2": False}
    assert 1 <= found["clusters"][0]["score"] <= 10
    assert "clusterSelector" in found["clusters"][1]["reason"]
    assert unknown == (404, {"message": "cannot find workload shop/nothing"})


async def test_health_and_metrics(world: World) -> None:
    async with deciding(world) as controller:
        assert await ask(controller.port, "/healthz") == (200, "ok")
        assert await ask(controller.port, "/readyz") == (200, "ok")
        status, text = await ask(controller.port, "/metrics")
    assert status == 200
    assert "stowage_controller_leader 1.0" in text
    assert 'stowage_decisions_total{reason="FailedToSchedule"}' in text
    assert "stowage_pending_workloads 0.0" in text


@pytest.mark.proves("E11")
async def test_a_standby_says_so(world: World) -> None:
    async with deciding(world), deciding(world, standby=True, identity="two") as second:
        await until(lambda: not second.unready())
        assert await ask(second.port, "/readyz") == (200, "ok")
        assert await told(second.port, "/apis/v1/__services__") == (
            503,
            {"message": "the instance is not leader"},
        )


async def bearer(world: World, account: str) -> str:
    """A token of that service account, which is there afterwards."""
    with suppress(AlreadyExists):
        await world.client.create(
            SERVICE_ACCOUNTS, {"metadata": {"name": account, "namespace": world.namespace}}
        )
    path = SERVICE_ACCOUNTS.path(world.namespace, account, "token")
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = await world.client.request("POST", path, body=asked)
    return str(json.loads(answer)["status"]["token"])


async def may_ask(world: World, account: str, path: str) -> None:
    """Let that account ask the controller, and return once the hub's authorizer knows."""
    url = f"/stowage{path}"
    rbac, name = "rbac.authorization.k8s.io", "stowage-debug"
    rule = {"verbs": ["get"], "nonResourceURLs": [url]}
    subject = {"kind": "ServiceAccount", "name": account, "namespace": world.namespace}
    objects = {
        "ClusterRole": {"rules": [rule]},
        "ClusterRoleBinding": {
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name},
            "subjects": [subject],
        },
    }
    for kind, body in objects.items():
        await installer.apply_one(
            world.client,
            {"apiVersion": f"{rbac}/v1", "kind": kind, "metadata": {"name": name}, **body},
            manager="test",
        )
    user = f"system:serviceaccount:{world.namespace}:{account}"
    asks = {"user": user, "nonResourceAttributes": {"path": url, "verb": "get"}}
    await until(lambda: allowed(world.client, asks))


async def test_beyond_loopback_the_hub_judges_a_token(world: World) -> None:
    path = "/apis/v1/__services__"
    tokens = [await bearer(world, name) for name in ("allowed", "stranger")]
    await may_ask(world, "allowed", path)
    async with deciding(world, http_host="0.0.0.0") as controller:
        assert (await ask(controller.port, path))[0] == 401
        assert (await ask(controller.port, path, token="nonsense"))[0] == 401
        assert (await ask(controller.port, path, token=tokens[1]))[0] == 403
        assert (await ask(controller.port, path, token=tokens[0]))[0] == 200
        flags = await ask(
            controller.port, "/debug/flags/s", method="PUT", body="1", token=tokens[0]
        )
        assert flags[0] == 403
        assert (await ask(controller.port, "/healthz"))[0] == 200
        assert (await ask(controller.port, "/metrics"))[0] == 200
