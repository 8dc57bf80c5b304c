"""A member joins in mode Pull and goes back to Push, with an agent that runs beside it."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from crds.names import AGENT, AGENT_LEASE, SYSTEM_NAMESPACE
from machinery.api.resources import LEASES
from machinery.clock import SystemClock
from machinery.errors import StowageError
from propagator.members.hub_lease import HUB_LEASE
from stowage.playground.processes import Process
from stowage.setup import join
from tests.memoryhub import MemoryHub
from tests.patience import hold_on

from .conftest import FLEET

pytestmark = FLEET

NAME = "puller"
TEMPLATE = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "web"}]},
        },
    },
}


def read(cluster, *what):
    return json.loads(cluster.kubectl("get", *what, "-o", "json"))


def uids(member):
    pods = read(member, "-n", "default", "pods", "-l", "app=web")["items"]
    return sorted(each["metadata"]["uid"] for each in pods)


async def test_the_lease_of_an_agent_that_died_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(join, "SILENT_SECONDS", 0.1)
    hub = MemoryHub(clock=SystemClock())
    meta = {"name": AGENT_LEASE, "namespace": "stowage-member-paris-x7k2p"}
    spec = {"holderIdentity": "agent-1", "renewTime": "2026-01-02T03:04:05.000000Z"}
    hub.put(LEASES, {"apiVersion": LEASES.api_version, "metadata": meta, "spec": spec})
    await join._agent_holds(hub, "paris", [meta["namespace"]], holds=True)
    await join._agent_holds(hub, "paris", [meta["namespace"]], holds=False)


@pytest.mark.parametrize("holder", ["u https://hub propagator-a", "u https://hub agent/a", ""])
async def test_a_lease_that_a_propagator_has_left_behind_is_waited_for(monkeypatch, holder):
    """It lost its term while it was to let go, and each agent that begins waits for all that time.

    Of an agent, or without a holder, nothing more is waited for.
    """
    monkeypatch.setattr(join, "READY_SECONDS", 0.1)
    hub, member, said = MemoryHub(clock=SystemClock()), MemoryHub(clock=SystemClock()), []
    lease = {"apiVersion": LEASES.api_version, "spec": {"holderIdentity": holder}}
    member.put(LEASES, {**lease, "metadata": {"name": HUB_LEASE, "namespace": SYSTEM_NAMESPACE}})
    space = "stowage-member-paris-x7k2p"

    async def more():
        seconds = await join._held_there(member, SYSTEM_NAMESPACE, said.append)
        if seconds:
            meta = {"name": AGENT_LEASE, "namespace": space}
            spec = {"holderIdentity": "agent-1", "renewTime": "2026-01-02T03:04:05.000000Z"}
            hub.put(LEASES, {"apiVersion": LEASES.api_version, "metadata": meta, "spec": spec})
        return seconds

    waits = join._agent_holds(hub, "paris", [space], holds=True, more=more)
    if "propagator" in holder:
        await waits
        assert "300 s more, as u https://hub propagator-a has not let go" in said[0]
    else:
        with pytest.raises(StowageError, match="its agent has not connected"):
            await waits
        assert not said


@pytest.mark.long
@pytest.mark.proves("PL1")
def test_a_member_joins_by_its_agent_and_goes_back(propagated_hub, full_cluster, stowage, tmp_path):
    hub, member = propagated_hub, full_cluster
    at = (f"--kubeconfig={hub.kubeconfig}", f"--member-kubeconfig={member.kubeconfig}")
    log = tmp_path / "agent.log"
    run = [sys.executable, "-m", "stowage", "agent", f"--kubeconfig={member.kubeconfig}"]
    agent = Process("agent", [*run, "--http-port=0"], log)
    with ThreadPoolExecutor(1) as thread:
        args = ("join", NAME, "--pull", f"--hub-server={hub.server}")
        joining = thread.submit(stowage, *args, *at, "--target-namespace=default")
        hold_on(
            lambda: (
                joining.done()
                or member.kubectl(
                    "-n", SYSTEM_NAMESPACE, "get", "deploy", AGENT, "-o", "name", check=False
                )
            ),
            seconds=90,
        )
        agent.start(detached=False)
        try:
            outcome = joining.result()
            assert outcome.code == 0, outcome.err + log.read_text()[-3000:]
            assert f"{NAME} is Ready" in outcome.out
            cluster = read(hub, "mc", NAME)
            assert cluster["spec"]["mode"] == "Pull"
            assert "secretRef" not in cluster["spec"]
            workload = {
                "apiVersion": "stowage.dev/v1alpha1",
                "kind": "Workload",
                "metadata": {"name": "pulled", "namespace": "default"},
                "spec": {"targetDeployment": TEMPLATE, "schedulerName": "none"},
            }
            hub.kubectl("apply", "-f", "-", input=json.dumps(workload))
            generation = read(hub, "-n", "default", "wl", "pulled")["metadata"]["generation"]
            placed = {
                "placements": [{"cluster": NAME, "replicas": 2}],
                "desired": 2,
                "observedGeneration": generation,
                "observed": {"controller": generation},
                "conditions": [
                    {
                        "type": "Scheduled",
                        "status": "True",
                        "reason": "Scheduled",
                        "message": "placed",
                        "lastTransitionTime": "2026-01-02T03:04:05Z",
                        "observedGeneration": generation,
                    }
                ],
            }
            hub.kubectl(
                "-n", "default", "patch", "wl", "pulled", "--subresource=status", "--type=merge",
                "-p", json.dumps({"status": placed}),
            )  # fmt: skip
            hold_on(
                lambda: read(hub, "-n", "default", "wl", "pulled")["status"].get("ready") == 2,
                seconds=120,
                what=lambda: (
                    read(hub, "-n", "default", "wl", "pulled")["status"],
                    log.read_text()[-3000:],
                ),
            )
            before = uids(member)
            assert len(before) == 2
            back = thread.submit(stowage, "join", NAME, *at)
            outcome = back.result()
            assert outcome.code == 0, outcome.err + log.read_text()[-3000:]
        finally:
            agent.end()
    cluster = read(hub, "mc", NAME)
    assert cluster["spec"]["mode"] == "Push"
    assert not member.kubectl("-n", SYSTEM_NAMESPACE, "get", "deploy", AGENT, "--ignore-not-found")
    assert uids(member) == before
    hub.kubectl("-n", "default", "delete", "wl", "pulled")
    hold_on(lambda: not uids(member), seconds=60)
    stowage.succeed("unjoin", NAME, *at)
