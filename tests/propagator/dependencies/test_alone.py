"""What the pods of a Workload of manifests alone name goes along; in memory."""

from __future__ import annotations

from typing import Any

import pytest

from machinery.api.resources import CONFIG_MAPS, SERVICE_ACCOUNTS, SERVICES, WORKLOADS
from tests.propagator.memory import SPACE, World
from tests.propagator.stage import configmap, deployment
from tests.propagator.test_in_memory import made, on, serving
from tests.propagator.test_one_shard import propagated

Json = dict[str, Any]


def put(world: World, kind: Any, name: str, **fields: Any) -> None:
    meta = {"name": name, "namespace": SPACE}
    world.put(kind, {"apiVersion": "v1", "kind": kind.kind, "metadata": meta, **fields})


def running() -> list[Json]:
    """A Deployment whose pods need an account and a ConfigMap, and what it brings along itself."""
    cache = deployment("cache")
    pods = {"serviceAccountName": "runner", **mounting("settings", "own")}
    cache["spec"]["template"]["spec"] |= pods
    store = deployment("store", serviceName="store") | {"kind": "StatefulSet"}
    elsewhere = deployment("elsewhere")
    elsewhere["metadata"]["namespace"] = "other"
    elsewhere["spec"]["template"]["spec"] |= mounting("not-here")
    return [cache, configmap("own"), store, elsewhere]


def mounting(*names: str) -> Json:
    return {"volumes": [{"name": name, "configMap": {"name": name}} for name in names]}


@pytest.mark.proves("DP1")
@pytest.mark.parametrize("reverse", [False, True])
async def test_what_pods_of_manifests_alone_name_goes_along(reverse: bool) -> None:
    async with serving("m1") as world:
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        world.members["m1"].apply("serviceaccounts", (SPACE, "default"), account)
        put(world, CONFIG_MAPS, "settings", data={"a": "1"})
        put(world, CONFIG_MAPS, "not-here", data={"a": "1"})
        put(world, SERVICE_ACCOUNTS, "runner")
        put(world, SERVICES, "store", spec={"clusterIP": "None"})
        objects = [*reversed(running())] if reverse else running()
        body = made("web", distribution="Duplicated", manifests=objects, dependencies="Follow")
        del body["spec"]["targetDeployment"]
        world.put(WORKLOADS, body)
        world.place("web", m1=1)
        await world.until(lambda: propagated(world, "web") == "Propagated")
        assert set(on(world, "m1", "configmaps")) == {"settings", "own"}
        assert set(on(world, "m1", "serviceaccounts")) == {"default", "runner"}
        assert set(on(world, "m1", "services")) == {"store"}
