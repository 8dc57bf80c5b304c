"""A copy that cannot be changed on its member, as it is immutable there; in memory."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest

from machinery.api.resources import CONFIG_MAPS, WORKLOADS
from machinery.api.status_errors import refusal
from tests.propagator.dependencies.test_alone import mounting, put
from tests.propagator.memory import SPACE, World
from tests.propagator.test_in_memory import made, on, said, serving
from tests.propagator.test_one_shard import propagated

Json = dict[str, Any]
WORDS = "data: Forbidden: field is immutable when `immutable` is set"


def fixed(world: World) -> None:
    """Let the member refuse another content of an immutable ConfigMap, as an API server does."""
    member = world.members["m1"]
    apply = member.apply

    def guarded(plural: str, key: tuple[str, str], body: Json, *, dry_run: bool = False) -> Any:
        held = member.objects[plural].get(key, {})
        if "kind" in body and held.get("immutable") and held["data"] != body["data"]:
            status = {"kind": "Status", "code": 422, "reason": "Invalid", "message": WORDS}
            raise refusal(422, {}, msgspec.json.encode(status))
        return apply(plural, key, copy.deepcopy(body), dry_run=dry_run)

    member.apply = guarded  # type: ignore[method-assign] # a member with a rule more


@pytest.mark.proves("DP4")
@pytest.mark.parametrize("adoption", ["IfUnowned", "IfNoDiff"])
async def test_one_that_is_not_ours_stays_and_a_person_is_told(adoption: str) -> None:
    async with serving("m1") as world:
        fixed(world)
        theirs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}
        theirs |= {"data": {"a": "0"}, "immutable": True}
        world.members["m1"].apply("configmaps", (SPACE, "settings"), theirs)
        put(world, CONFIG_MAPS, "settings", data={"a": "1"})
        body = made("web", dependencies="Follow", adoption=adoption)
        body["spec"]["targetDeployment"]["spec"]["template"]["spec"] |= mounting("settings")
        world.put(WORKLOADS, body)
        world.place("web", m1=1)
        await world.until(lambda: propagated(world, "web") == "AlreadyExists")
        words = "m1: ConfigMap shop/settings exists, is not ours, and cannot be changed: remove it"
        assert said(world)["message"] == words
        assert on(world, "m1", "configmaps")["settings"]["data"] == {"a": "0"}
        world.members["m1"].delete("configmaps", (SPACE, "settings"))
        await world.until(lambda: propagated(world, "web") == "Propagated")


@pytest.mark.proves("DP4")
async def test_one_that_two_share_is_made_again() -> None:
    async with serving("m1") as world:
        fixed(world)
        put(world, CONFIG_MAPS, "settings", data={"a": "1"}, immutable=True)
        for name in ("web", "other"):
            body = made(name, dependencies="Follow")
            body["spec"]["targetDeployment"]["spec"]["template"]["spec"] |= mounting("settings")
            world.put(WORKLOADS, body)
            world.place(name, m1=1)
        for name in ("web", "other"):
            await world.until(lambda n=name: propagated(world, n) == "Propagated")
        world.hub.remove(CONFIG_MAPS, "settings", SPACE)
        put(world, CONFIG_MAPS, "settings", data={"a": "2"}, immutable=True)
        await world.until(lambda: on(world, "m1", "configmaps")["settings"]["data"] == {"a": "2"})
        for name in ("web", "other"):
            await world.until(lambda n=name: propagated(world, n) == "Propagated")
