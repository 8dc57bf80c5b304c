"""The HTTP face of a running controller: what it answers, and to whom."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from machinery import logs

from .live import World, deciding, until


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
            with urllib.request.urlopen(request, timeout=10) as answer:
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
async def test_debug_flags_answer_put_and_post(world: World) -> None:
    async with deciding(world, debug_scores=3) as controller:
        assert controller.flags.debug_scores == 3
        for method in ("PUT", "POST"):
            answer = await ask(controller.port, "/debug/flags/s", method=method, body="100")
            assert answer == (200, "successfully set debugTopNScores to 100")
        assert controller.flags.debug_scores == 100
        wrong = await told(controller.port, "/debug/flags/s", method="PUT", body="abc")
        got = await told(controller.port, "/debug/flags/s")
        try:
            answer = await ask(controller.port, "/debug/flags/v", method="POST", body="5")
            assert answer == (200, "successfully set klog.logging.verbosity to 5")
            assert logs.get("controller").isEnabledFor(10)
        finally:
            logs.set_verbosity(0)
    assert wrong[0] == 400
    assert wrong[1]["message"].startswith("failed set debugTopNScores abc")
    assert got[0] == 405


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


async def test_beyond_loopback_the_hub_judges_a_token(world: World) -> None:
    for name in ("allowed", "stranger"):
        await asyncio.to_thread(
            world.hub.kubectl, "create", "serviceaccount", name, "-n", "shop", check=False
        )
    role = "--verb=get --non-resource-url=/stowage/apis/v1/*"
    subject = "--clusterrole=stowage-debug --serviceaccount=shop:allowed"
    grant = (
        f"create clusterrole stowage-debug {role}".split(),
        f"create clusterrolebinding stowage-debug {subject}".split(),
    )
    for command in grant:
        await asyncio.to_thread(world.hub.kubectl, *command, check=False)
    tokens = [
        (await asyncio.to_thread(world.hub.kubectl, "create", "token", n, "-n", "shop")).strip()
        for n in ("allowed", "stranger")
    ]
    path = "/apis/v1/__services__"
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
