"""Terms of leadership that end and begin again: what was read stays, and nothing is written twice."""

from __future__ import annotations

import asyncio
import json
import logging
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from crds.names import PROPAGATOR_LEASE, SYSTEM_NAMESPACE
from machinery.api.client import ApiClient
from machinery.api.resources import LEASES, MEMBER_CLUSTERS, SECRETS, USUAL, WORKLOADS
from machinery.runtime.informer import Informer
from machinery.types.metadata import Object
from propagator.app import Propagator
from stowage.playground.controlplanes import Cluster, ControlPlanes
from tests.inforce import completed
from tests.machinery.runtime.test_informer_apiserver import compact, restart
from tests.propagator.stage import (
    CONFIGMAPS,
    MakeStage,
    Stage,
    configmap,
    counted,
    deployment,
    settled,
)
from tests.propagator.test_kills import Outside, outside
from tests.propagator.test_restart import all_changes, stored
from tests.propagator.waits import until

KILLS = 30
SHORT_TERMS = {"lease_seconds": 5.0, "renew_deadline": 3.5, "lease_retry": 0.4}
READ = frozenset({"nodes", "pods", *(resource.plural for resource in USUAL)})
"""What a propagator lists on a member."""
OF_THE_HUB = frozenset({"workloads", "memberclusters", "workloadgroups"})
pytestmark = [pytest.mark.usefixtures("steady"), pytest.mark.long]


async def lists(client: ApiClient, resources: frozenset[str] = READ) -> Counter[str]:
    """How often each of them was listed, as that API server counted it."""
    found = await counted(client, resources)
    return Counter({what: number for (verb, what), number in found.items() if verb == "LIST"})


async def read(stage: Stage) -> dict[str, Counter[str]]:
    """The lists of all members, and of the hub."""
    members = {name: await lists(client) for name, client in stage.members.items()}
    return {**members, "hub": await lists(stage.hub, OF_THE_HUB)}


async def told(hub: ApiClient) -> dict[str, Any]:
    """The versions of all Workloads, and what is said of members.

    But for their latency, which is measured all the time.
    """
    clusters = {
        c["metadata"]["name"]: c["status"] for c in (await hub.list(MEMBER_CLUSTERS))["items"]
    }
    measured = {"latencyMilliseconds": 0}
    said = {name: status | measured for name, status in clusters.items()}
    return {"workloads": await stored(hub, [WORKLOADS]), "members": said}


def hardly_read(before: Counter[str], after: Counter[str]) -> bool:
    """Whether a member was not listed anew: a watch that the server cut asks for its moment."""
    return (after - before).total() < len(READ) / 2


async def two_workloads(stage: Stage) -> None:
    for name in ("one", "two"):
        await stage.bring(name, {"m1": 1, "m2": 2}, targetDeployment=deployment(name))
    await calm(stage)


async def seen(stage: Stage) -> dict[str, Any]:
    return {"read": await read(stage), "written": await all_changes(stage)}


async def calm(stage: Stage) -> None:
    """Settled, with all told, and each member searched: which is noted on its MemberCluster."""
    term = stage.process.term
    assert term is not None

    def searched() -> bool:
        links = [session.link for name in stage.members if (session := term.registry.get(name))]
        return all(link is not None and term.workloads._census.searched(link) for link in links)

    await settled(stage, told=True, also=searched)


def changed(shown: Object, **metadata: str) -> Object:
    return replace(shown, metadata=replace(shown.metadata, **metadata))


async def acts(process: Propagator) -> None:
    """Wait until it leads, and sees the hub."""
    await until(lambda: process.term is not None and not process.term.stale())


@pytest.mark.proves("N6", "N11")
async def test_a_lease_that_went_back_has_everything_of_the_hub_listed_anew(
    stage_on: MakeStage, hub: Cluster
):
    """Secrets too, whose own watch cannot tell: the hub may have come past what it saw."""
    async with stage_on(terms=SHORT_TERMS) as stage:
        await stage.hub.create(
            SECRETS, {"metadata": {"name": "creds", "namespace": stage.namespace}}
        )
        await stage.bring(
            "one", {"m1": 1}, targetDeployment=deployment("one"), resources=[{"name": "creds"}]
        )
        key = (stage.namespace, "creds")

        def informer() -> Informer[Any]:
            assert stage.process.manager is not None
            watches = stage.process.manager.workloads._watches[SECRETS.kind]._watches
            found = watches.get(stage.namespace)
            assert found is not None
            return found

        shown = informer().get(key)
        assert shown is not None
        hub.freeze()
        try:
            await until(lambda: stage.process.term is None)
            # As a Secret was in the history that was lost: nothing shows that it is no more.
            informer().restore(changed(shown, resource_version="1"))
            stage.hub.history.end(0)  # as the elector does
        finally:
            hub.thaw()
        await acts(stage.process)
        await until(lambda: informer().get(key) == shown)
        await stage.propagated("one")


@pytest.mark.proves("N6")
@pytest.mark.parametrize("seconds", [3.0, 15.0])
async def test_a_hub_that_is_away_for_a_while_costs_no_list_and_no_write(
    stage_on: MakeStage, hub: Cluster, seconds: float
):
    async with stage_on(terms=SHORT_TERMS) as stage:
        await two_workloads(stage)
        there, before = await told(stage.hub), await seen(stage)
        links = [stage.process.manager.registry.get(name).link for name in stage.members]
        hub.freeze()
        try:
            await until(lambda: stage.process.term is None)
            await asyncio.sleep(seconds)
        finally:
            hub.thaw()
        await acts(stage.process)
        await calm(stage)
        assert [stage.process.manager.registry.get(name).link for name in stage.members] == links
        after = await seen(stage)
        # Each cut watch of the hub asks once for its moment, by a list of one object.
        assert after["read"].pop("hub") <= before["read"]["hub"] + Counter(
            dict.fromkeys(before["read"].pop("hub"), 1)
        )
        for name in stage.members:
            assert hardly_read(before["read"][name], after["read"][name])
        assert after["written"] == before["written"]
        assert await told(stage.hub) == there
        await stage.place("one", m1=5, m2=2)
        await stage.becomes("m1", "one", 5, "replicas")


@pytest.mark.proves("N6")
async def test_a_hub_that_forgot_meanwhile_is_listed_anew_and_members_are_not(
    stage_on: MakeStage,
    hub: Cluster,
    control_planes: ControlPlanes,
    caplog: pytest.LogCaptureFixture,
):
    """What ten minutes bring about: the history of the hub was compacted while nobody watched it."""
    caplog.set_level(logging.INFO)
    async with stage_on(terms=SHORT_TERMS) as stage:
        await two_workloads(stage)
        for number in range(3):  # something that no watch of ours shows
            await stage.hub.create(CONFIGMAPS, configmap(f"c{number}"), namespace=stage.namespace)
        there, before = await told(stage.hub), await seen(stage)
        hub.kill()
        await until(lambda: stage.process.term is None)
        revision = await asyncio.to_thread(newest, control_planes)
        await asyncio.to_thread(compact, control_planes, revision)
        await restart(hub)
        await completed(stage.hub)
        await acts(stage.process)
        await calm(stage)
        after = await seen(stage)
        for name in stage.members:
            assert hardly_read(before["read"][name], after["read"][name])
        assert {name: after["written"][name] for name in ("m1", "m2")} == {
            name: before["written"][name] for name in ("m1", "m2")
        }
        assert await told(stage.hub) == there
        said = [record.getMessage() for record in caplog.records]
        assert len([each for each in said if each.startswith("workloads are listed anew")]) == 1
        await stage.place("one", m1=5, m2=2)
        await stage.becomes("m1", "one", 5, "replicas")


@pytest.mark.proves("N6")
async def test_of_two_replicas_whose_leader_is_killed_each_write_is_made_once(
    stage_on: MakeStage, hub: Cluster, tmp_path: Path
):
    """Who leads lists a member once; who waits, never."""
    async with stage_on() as stage, outside(stage, hub, tmp_path) as first:
        await stage.run("demo", {"m1": 1})
        await stage.becomes("m1", "web", 1, "replicas")
        replicas = {await leader(stage): first}
        before = {name: await asked(client) for name, client in stage.members.items()}
        standby = Outside(hub, stage.hub, tmp_path / "propagator.log")
        standby.spawn()
        try:
            for number in range(KILLS):
                led = await leader(stage)
                replicas.pop(led).kill()
                await stage.place("demo", m1=2 + number)
                next_, standby = standby, Outside(hub, stage.hub, tmp_path / "propagator.log")
                standby.spawn()
                await stage.becomes("m1", "web", 2 + number, "replicas", within=60)
                holder = await leader(stage)
                assert holder != led
                own = next_ if holder.split("_")[1] == str(next_.pid) else standby
                standby = standby if own is next_ else next_
                replicas = {holder: own}
            after = {name: await asked(client) for name, client in stage.members.items()}
        finally:
            for each in (standby, *replicas.values()):
                await asyncio.to_thread(each.end)
        made = {name: after[name] - before[name] for name in stage.members}
        assert {of: n for of, n in made["m1"].items() if of[0] != "LIST"} == {
            ("APPLY", "deployments"): KILLS
        }
        assert {of: n for of, n in made["m2"].items() if of[0] != "LIST"} == {}
        for name in stage.members:
            for kind in ("nodes", "pods"):
                # A watch that is cut asks for the member's moment, by a list of one object.
                assert KILLS <= made[name]["LIST", kind] <= 2 * KILLS


async def asked(client: ApiClient) -> Counter[tuple[str, str]]:
    """What was listed and written there so far."""
    found = await counted(client, READ)
    return Counter({of: n for of, n in found.items() if of[0] not in ("GET", "WATCH")})


async def leader(stage: Stage) -> str:
    """The identity of who holds the lease."""
    lease = await stage.hub.get(LEASES, PROPAGATOR_LEASE, namespace=SYSTEM_NAMESPACE)
    return str(lease["spec"]["holderIdentity"])


def newest(planes: ControlPlanes) -> int:
    """The revision that etcd is at."""
    url = f"{planes.endpoint}/v3/kv/range"
    body = json.dumps({"key": "AA==", "limit": 1}).encode()
    request = urllib.request.Request(url, body)
    with urllib.request.urlopen(request, context=planes.etcd_client(), timeout=30) as answer:
        return int(json.load(answer)["header"]["revision"])
