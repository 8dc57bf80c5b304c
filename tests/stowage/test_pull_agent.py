"""An agent on real API servers: it joins, serves a Workload through its life, and ends.

The hub has a propagator beside it that is given no way to the member.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stowage.playground.cluster import Cluster
from stowage.playground.processes import Process
from tests.patience import hold_on
from tests.propagator.test_workload_kinds import CRD, KIND

from .conftest import FLEET, Stowage

pytestmark = FLEET
NAME, SPACE = "pulled", "pulled-shop"
Json = dict[str, Any]


class Fleet:
    """The hub, and the member that an agent serves."""

    def __init__(self, hub: Cluster, member: Cluster) -> None:
        self.hub, self.member = hub, member

    def read(self, at: Cluster, kind: str, name: str, namespace: str = SPACE) -> Json:
        """Return the object; empty without one."""
        found = at.kubectl(
            *("-n", namespace, "get", kind, name, "-o", "json", "--ignore-not-found")
        )
        return dict(json.loads(found)) if found.strip() else {}

    def place(self, name: str, replicas: int) -> None:
        placed = {"placements": [{"cluster": NAME, "replicas": replicas}]}
        self.patch(name, {"status": placed}, "--subresource=status")

    def share(self, name: str) -> Json:
        """What its status says of the member."""
        entries = self.read(self.hub, "wl", name).get("status", {}).get("clusters") or [{}]
        return dict(entries[0])

    def create(self, name: str, **spec: Any) -> None:
        body = {"apiVersion": "stowage.dev/v1alpha1", "kind": "Workload"}
        meta = {"name": name, "namespace": SPACE}
        body |= {"metadata": meta, "spec": {"schedulerName": "the-test", **spec}}
        self.hub.kubectl("apply", "-f", "-", input=json.dumps(body))

    def patch(self, name: str, body: Json, *more: str) -> None:
        self.hub.kubectl(
            *("-n", SPACE, "patch", "wl", name, "--type=merge", *more, "-p", json.dumps(body))
        )

    def ready(self, name: str) -> int:
        status = self.read(self.hub, "wl", name).get("status", {})
        condition = {each["type"]: each["status"] for each in status.get("conditions", [])}
        generation = self.read(self.hub, "wl", name)["metadata"]["generation"]
        current = status.get("observedGeneration") == generation
        return int(status.get("ready") or 0) if condition.get("Ready") == "True" and current else 0

    def assignments(self) -> list[Json]:
        listed = json.loads(self.hub.kubectl("get", "assignments", "-A", "-o", "json"))
        return [e for e in listed["items"] if e["spec"]["workload"]["namespace"] == SPACE]


RIGHTS = [
    "--rights=cluster",
    pytest.param(f"--target-namespace={SPACE}", marks=pytest.mark.long, id="narrow"),
]


@pytest.fixture(params=RIGHTS)
def fleet(
    request: pytest.FixtureRequest,
    propagated_hub: Cluster,
    full_cluster: Cluster,
    stowage: Stowage,
    tmp_path: Path,
) -> Iterator[Fleet]:
    arguments = [sys.executable, "-m", "stowage", "agent", "--http-port=0"]
    log = tmp_path / "agent.log"
    agent = Process("agent", [*arguments, f"--kubeconfig={full_cluster.kubeconfig}"], log)
    agent.start(detached=False)
    hub = f"--kubeconfig={propagated_hub.kubeconfig}"
    try:
        stowage.succeed(
            *("join", NAME, "--pull", f"--hub-server={propagated_hub.server}", request.param),
            "--allow=knobs.dev/knobs",
            *(f"--member-kubeconfig={full_cluster.kubeconfig}", hub),
        )
        propagated_hub.kubectl("create", "namespace", SPACE, check=False)  # another test has it
        yield Fleet(propagated_hub, full_cluster)
        stowage.succeed("unjoin", NAME, "--force", hub)
    finally:
        agent.end()
        sys.stderr.write(log.read_text())


def deployment(image: str) -> Json:
    container = {"name": "main", "image": image}
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": spec,
    }


def secret(value: str) -> Json:
    data = {"value": base64.b64encode(value.encode()).decode()}
    meta = {"name": "token", "namespace": SPACE}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data}


@pytest.mark.proves("PL1", "PL2")
def test_a_workload_lives_on_a_member_in_mode_pull(fleet: Fleet) -> None:
    ready = json.loads(fleet.hub.kubectl("get", "mc", NAME, "-o", "json"))["status"]
    assert {each["type"]: each["status"] for each in ready["conditions"]}["Ready"] == "True"
    conf = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "conf"}}
    workload = {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": "web", "namespace": SPACE},
        "spec": {
            "schedulerName": "the-test",
            "targetDeployment": deployment("registry.k8s.io/pause:3.10"),
            "manifests": [{**conf, "data": {"a": "1"}}],
            "resources": [{"name": "token"}],
        },
    }
    for body in (secret("first"), workload):
        fleet.hub.kubectl("apply", "-f", "-", input=json.dumps(body))
    fleet.place("web", 1)
    hold_on(lambda: fleet.ready("web") == 1)
    fleet.place("web", 3)
    hold_on(lambda: fleet.ready("web") == 3)
    (assignment,) = fleet.assignments()
    assert assignment["status"]["counts"]["ready"] == 3

    other = deployment("registry.k8s.io/pause:3.9")
    fleet.patch("web", {"spec": {"targetDeployment": other}})

    def image() -> str:
        spec = fleet.read(fleet.member, "deploy", "web")["spec"]["template"]["spec"]
        return str(spec["containers"][0]["image"])

    hold_on(lambda: image().endswith("3.9") and fleet.ready("web") == 3)
    fleet.member.kubectl("-n", SPACE, "delete", "configmap", "conf")
    fleet.member.kubectl("-n", SPACE, "scale", "deploy", "web", "--replicas=7")
    hold_on(lambda: fleet.read(fleet.member, "configmap", "conf").get("data") == {"a": "1"})
    hold_on(lambda: fleet.read(fleet.member, "deploy", "web")["spec"]["replicas"] == 3)
    fleet.hub.kubectl("apply", "-f", "-", input=json.dumps(secret("second")))
    second = secret("second")["data"]
    hold_on(lambda: fleet.read(fleet.member, "secret", "token").get("data") == second)

    fleet.hub.kubectl("-n", SPACE, "delete", "wl", "web", "--timeout=120s")
    gone = (("deploy", "web"), ("configmap", "conf"), ("secret", "token"))
    assert not [each for each in gone if fleet.read(fleet.member, *each)]
    hold_on(lambda: not fleet.assignments())


@pytest.fixture
def knobs(fleet: Fleet) -> Iterator[Fleet]:
    """A kind that only a WorkloadKind of the hub describes."""
    fleet.member.kubectl("apply", "-f", "-", input=json.dumps(CRD))
    fleet.hub.kubectl("apply", "-f", "-", input=json.dumps(KIND))
    yield fleet
    fleet.hub.kubectl("delete", "workloadkind", KIND["metadata"]["name"])
    fleet.member.kubectl("delete", "crd", CRD["metadata"]["name"])


@pytest.mark.long
@pytest.mark.proves("PL2", "KD3", "KD7")
def test_a_kind_is_written_and_judged_there_by_what_the_hub_says_of_it(knobs: Fleet) -> None:
    fleet = knobs
    fleet.create("demo", template={"apiVersion": "knobs.dev/v1", "kind": "Knob", "spec": {}})
    fleet.place("demo", 3)

    def size() -> Any:
        return fleet.read(fleet.member, "knob", "demo").get("spec", {}).get("size")

    def says(**status: Any) -> None:
        where = ("-n", SPACE, "patch", "knob", "demo", "--subresource=status", "--type=merge")
        fleet.member.kubectl(*where, "-p", json.dumps({"status": status}))

    def judged_by(**ready: Any) -> None:
        patch = {"spec": {"ready": {"observedGeneration": "", "replicas": None, **ready}}}
        where = ("patch", "workloadkind", KIND["metadata"]["name"], "--type=merge")
        fleet.hub.kubectl(*where, "-p", json.dumps(patch))

    hold_on(lambda: size() == 3)
    says(up=2, phase="Turning")
    hold_on(lambda: fleet.share("demo").get("ready") == 2)
    judged_by(when=["status.phase == 'Still'"])
    hold_on(lambda: fleet.share("demo")["ready"] == 0)
    says(up=2, phase="Still")
    hold_on(lambda: fleet.share("demo")["ready"] == 3)
    judged_by(when=["status.phase ==="])
    fleet.place("demo", 2)

    def refused() -> bool:
        conditions = fleet.read(fleet.hub, "wl", "demo")["status"]["conditions"]
        found = {each["type"]: each for each in conditions}
        return "spec.ready.when[0]" in found["Propagated"]["message"]

    hold_on(refused)
    assert size() == 3
    judged_by(when=None, replicas="status.up")
    hold_on(lambda: size() == 2 and fleet.share("demo")["ready"] == 2)
    fleet.hub.kubectl("-n", SPACE, "delete", "wl", "demo", "--timeout=120s")
    assert not fleet.read(fleet.member, "knob", "demo")
