"""What the status tells of a share counts until its entry has the present name of the cluster.

The decision has that name first.
"""

from __future__ import annotations

from typing import Any

import pytest

from crds.names import SYSTEM_NAMESPACE
from machinery.api.resources import MEMBER_CLUSTERS, SECRETS, WORKLOADS
from machinery.types import conditions
from propagator.types.workload import workload_of
from tests.propagator.test_ends import job
from tests.propagator.test_in_memory import made, serving

Json = dict[str, Any]
COUNTS = dict.fromkeys(("scheduled", "current", "ready", "unschedulable", "updated"), 0)


def bill(*clusters: Json, leaving: str = "", **placed: int) -> Json:
    """A Job, and what the hub has stored of it."""
    body = made("bill", template=job(completions=5))
    del body["spec"]["targetDeployment"]
    shares = [{"cluster": c, "replicas": 1, "completions": n} for c, n in placed.items()]
    left = [{"cluster": leaving, "replicas": 1, "completions": 2, "cause": "Drained", "name": ""}]
    entries = [{"replicas": 0, **COUNTS, "state": "Leaving", "message": "", **e} for e in clusters]
    status: Json = {"placements": shares, "clusters": entries, "observed": {"controller": 1}}
    return {**body, "status": {**status, **({"leaving": left} if leaving else {})}}


@pytest.mark.proves("A8")
@pytest.mark.parametrize(("former", "done"), [((), 0), (("m1",), 2)])
def test_the_work_of_a_share_that_left_is_known_by_its_clusters_former_name(
    former: tuple[str, ...], done: int
) -> None:
    left = workload_of(bill({"name": "m1", "completed": 2}, leaving="rome", m2=3))
    assert left.told("rome", former).done == done
    assert left.told("m2", ("m1",)).done is None, "it has a share"


@pytest.mark.proves("A8")
@pytest.mark.parametrize(("former", "known"), [((), False), (("m1",), True)])
def test_the_end_of_a_share_is_known_by_its_clusters_former_name(
    former: tuple[str, ...], *, known: bool
) -> None:
    failed = {"result": "Failed", "time": "2026-01-01T00:00:00Z"}
    body = bill({"name": "m1", "ended": failed})
    body["spec"]["distribution"] = "Single"
    body["status"]["placements"] = [{"cluster": "rome", "replicas": 1}]
    ended = workload_of(body)
    assert ended.told("rome", former).awaits_end is not known
    assert ended.end_of("rome", former) == (failed if known else None)
    assert not ended.forgets("rome", former), "a Job of Kubernetes tries no more by itself"


@pytest.mark.proves("A8", "KD19")
async def test_what_a_share_had_done_when_it_left_is_told_by_the_present_name() -> None:
    """Its object has gone, so that the status alone knows how much others need not do."""
    async with serving("m1", "m2") as world:
        body = bill({"name": "m1", "completed": 2}, leaving="m1", m2=3)
        world.put(WORKLOADS, {key: body[key] for key in body.keys() - {"status"}})
        world.hub.edit(WORKLOADS, "bill", {"status": body["status"]}, status=True)

        def done() -> Json:
            told = world.status("bill")["clusters"]
            return {each["name"]: each.get("completed") for each in told}

        await world.calm(5)
        assert done()["m1"] == 2
        found = world.hub.read(MEMBER_CLUSTERS, "m1")
        secret = world.hub.read(SECRETS, "m1", SYSTEM_NAMESPACE)
        secret["metadata"] |= {"name": "rome"}
        spec = {**found["spec"], "formerNames": ["m1"]}
        spec["secretRef"] = {"namespace": SYSTEM_NAMESPACE, "name": "rome"}
        world.put(MEMBER_CLUSTERS, {**found, "metadata": {"name": "rome"}, "spec": spec})
        world.put(SECRETS, secret)
        world.hub.remove(SECRETS, "m1", SYSTEM_NAMESPACE)
        world.hub.remove(MEMBER_CLUSTERS, "m1")
        await world.until(lambda: conditions.holds(world.cluster("rome"), "Ready"))
        await world.calm(5)
        left = [each | {"cluster": "rome"} for each in body["status"]["leaving"]]
        world.hub.edit(WORKLOADS, "bill", {"status": {"leaving": left}}, status=True)
        await world.calm(10)
        assert done().get("rome") == 2
        assert "m1" not in done()
