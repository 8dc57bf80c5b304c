"""A member that joins in mode Pull, beside one in mode Push: what each gets is the same.

The agent is a process beside the member, as its Deployment there would run it.
"""

from __future__ import annotations

import base64
import json
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.harness import Failed, deployment, stowage, wait, workload
from e2e.stage import Stage

PUSHED, PULLED, FORMER = "member-2", "paris", "member-3"
_OWN = ("stowage.dev/member", "stowage.dev/hub-version", "deployment.kubernetes.io/revision")


@pytest.fixture
def pulled(running: Stage) -> Iterator[Stage]:
    """Yield the stage with a member in mode Pull, and its agent; afterwards it is as before."""
    stage, registration = running, running.registration(FORMER)
    stage.unregister(FORMER)
    stage.members[PULLED] = stage.members[FORMER]
    stage.process("agent", "", stage.members[PULLED].kubeconfig)
    try:
        _join(stage, "--pull", f"--hub-server={_server(stage)}")
        wait("the agent", lambda: stage.ready(PULLED).get("status") == "True")
        yield stage
        stage.hub("delete", "wl", "-A", "--all", timeout=180)
    finally:
        stage.processes["agent"].kill(signal.SIGTERM)
        stowage("unjoin", PULLED, "--force", f"--kubeconfig={stage.hub.kubeconfig}")
        del stage.members[PULLED]
    stage.register(registration)


def _join(stage: Stage, *more: str) -> None:
    member = stage.members[PULLED].kubeconfig
    hub = f"--kubeconfig={stage.hub.kubeconfig}"
    stowage("join", PULLED, f"--member-kubeconfig={member}", hub, "--rights=cluster", *more)


def _server(stage: Stage) -> str:
    view = json.loads(stage.hub("config", "view", "-o", "json"))
    return str(view["clusters"][0]["cluster"]["server"])


def _place(stage: Stage, space: str, name: str, **shares: int) -> None:
    placed = [{"cluster": c.replace("_", "-"), "replicas": n} for c, n in shares.items()]
    patch = json.dumps({"status": {"placements": placed}})
    stage.hub("-n", space, "patch", "wl", name, "--subresource=status", "--type=merge", "-p", patch)


def _objects(stage: Stage, member: str, space: str) -> dict[str, Any]:
    found = {}
    for kind in ("deploy", "configmaps", "secret"):
        for body in stage.members[member].items(kind, space, labels="stowage.dev/managed=true"):
            meta = body["metadata"]
            notes = {k: v for k, v in meta["annotations"].items() if k not in _OWN}
            said = {key: body.get(key) for key in ("spec", "data", "type")}
            found[f"{kind}/{meta['name']}"] = {"labels": meta["labels"], "notes": notes, **said}
    return found


def _alike(stage: Stage, space: str) -> dict[str, Any]:
    one, other = (_objects(stage, member, space) for member in (PUSHED, PULLED))
    if one != other or not one:
        raise Failed(f"{PUSHED}: {json.dumps(one)}; {PULLED}: {json.dumps(other)}")
    return one


def _reported(stage: Stage, space: str, name: str, replicas: int) -> list[dict[str, Any]]:
    own = ("name", "capacityVersion", "unschedulableSince")
    entries = stage.status(space, name).get("clusters", [])
    told = [{k: v for k, v in each.items() if k not in own} for each in entries]
    if len(told) != 2 or told[0] != told[1] or told[0]["ready"] != replicas:
        raise Failed(json.dumps(entries))
    return told


def _secret(space: str, value: str) -> dict[str, Any]:
    data = {"value": base64.b64encode(value.encode()).decode()}
    meta = {"name": "token", "namespace": space}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data}


def _pods(stage: Stage, member: str, space: str) -> set[str]:
    return {each["metadata"]["uid"] for each in stage.members[member].items("pods", space)}


@pytest.mark.long
@pytest.mark.proves("PL1", "PL2", "PL23")
def test_a_pulled_member_is_as_a_pushed_one(pulled: Stage, space: str) -> None:
    stage, name = pulled, "web"
    conf = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "conf"},
        "data": {"a": "1"},
    }
    stage.hub.apply(
        _secret(space, "first"),
        workload(
            name,
            space,
            schedulerName="the-test",
            manifests=[conf],
            resources=[{"name": "token"}],
        ),
    )
    _place(stage, space, name, member_2=1, paris=1)
    wait("deployed", lambda: _alike(stage, space) and _reported(stage, space, name, 1))
    _place(stage, space, name, member_2=3, paris=3)
    wait("scaled", lambda: _alike(stage, space) and _reported(stage, space, name, 3))

    image = deployment(name, image="registry.k8s.io/pause:3.9")
    stage.hub(
        "-n",
        space,
        "patch",
        "wl",
        name,
        "--type=merge",
        "-p",
        json.dumps({"spec": {"targetDeployment": image}}),
    )

    def of_image() -> bool:
        body = _alike(stage, space)[f"deploy/{name}"]
        pods = body["spec"]["template"]["spec"]["containers"]
        return bool(pods[0]["image"].endswith("3.9") and _reported(stage, space, name, 3))

    wait("the other image", of_image)
    before = _alike(stage, space)
    for member in (PUSHED, PULLED):
        stage.members[member]("-n", space, "delete", "configmap", "conf")
        stage.members[member](
            "-n",
            space,
            "label",
            "deploy",
            name,
            "stowage.dev/managed=true",
            "mine=yes",
            "--overwrite",
        )
    wait("drift to be repaired", lambda: _alike(stage, space).keys() == before.keys())
    stage.hub.apply(_secret(space, "second"))
    second = base64.b64encode(b"second").decode()
    wait("the new value", lambda: _alike(stage, space)["secret/token"]["data"]["value"] == second)
    wait("calm", lambda: _reported(stage, space, name, 3))

    stage.hub("-n", space, "delete", "wl", name, timeout=120)
    wait("its end", lambda: not any(_objects(stage, m, space) for m in (PUSHED, PULLED)))
    held = json.loads(stage.hub("get", "assignments", "-A", "-o", "json"))["items"]
    assert not [each for each in held if each["spec"]["workload"]["namespace"] == space]
    _modes_and_restarts_touch_no_pod(stage, space)


def _modes_and_restarts_touch_no_pod(stage: Stage, space: str) -> None:
    """Agents follow each other, and the member goes over to Push, under one Workload.

    The way back needs a new agent, which a Deployment starts for a new invitation.
    """
    name = "modes"
    stage.hub.apply(workload(name, space, schedulerName="the-test"))
    _place(stage, space, name, paris=2)
    stage.until_running(space, name)
    pods = wait("two pods", lambda: len(found := _pods(stage, PULLED, space)) == 2 and found)
    stage.processes["agent"].kill(signal.SIGTERM)
    stage.process("agent", "", stage.members[PULLED].kubeconfig)
    _place(stage, space, name, paris=3)
    wait("three", lambda: len(_pods(stage, PULLED, space)) == 3)
    assert pods <= _pods(stage, PULLED, space)
    _join(stage)
    wait("mode Push", lambda: stage.ready(PULLED).get("message") == "the API server answers")
    _place(stage, space, name, paris=4)
    wait("four", lambda: len(_pods(stage, PULLED, space)) == 4)
    assert pods <= _pods(stage, PULLED, space)
