"""What tools that know no kind of ours read, at every moment from apply to the end."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from crds.definition import KINDS
from e2e.harness import PACE, Playground, wait, workload
from tests import kstatus
from tests.argocd import WORDS, health


@contextmanager
def watched(at: Playground, namespace: str, log: Path) -> Iterator[list[dict[str, Any]]]:
    """Every state of the Workloads of a namespace that a reader could have seen meanwhile."""
    states: list[dict[str, Any]] = []
    kubectl = [str(at.hub.binary), f"--kubeconfig={at.hub.kubeconfig}", "-n", namespace]
    how = ["get", "wl", "--watch", "--output-watch-events", "-o", "json"]
    with log.open("w") as out:
        watch = subprocess.Popen([*kubectl, *how], stdout=out)
    try:
        yield states
        wait("the watch to see the end", lambda: '"DELETED"' in log.read_text())
    finally:
        watch.kill()
        watch.wait(60 * PACE.factor)
    decoder, rest = json.JSONDecoder(), log.read_text().lstrip()
    while rest:
        event, end = decoder.raw_decode(rest)
        states.append(event["object"])
        rest = rest[end:].lstrip()


def new_image(at: Playground, namespace: str, image: str) -> None:
    container = {"name": "main", "image": image}
    pods = {"spec": {"containers": [container]}}
    patch = json.dumps({"spec": {"targetDeployment": {"spec": {"template": pods}}}})
    at.hub("-n", namespace, "patch", "wl", "web", "--type=merge", "-p", patch)


def until(at: Playground, namespace: str, condition: str) -> None:
    how = [f"--for=condition={condition}", "--timeout=60s"]
    at.hub("-n", namespace, "wait", "wl/web", *how, timeout=90)


def units(at: Playground, namespace: str) -> list[list[int]]:
    """The units of each member as its own Deployment tells: all, updated, ready."""
    found = [at.seen(member, namespace, "web") for member in at.placements(namespace, "web")]
    fields = ("replicas", "updatedReplicas", "readyReplicas")
    return [[each["status"].get(field, 0) for field in fields] for each in found if each]


@pytest.mark.proves("CT1", "CT2", "CT3", "CT20")
def test_a_workload_from_apply_to_the_end(
    playground: Playground, namespace: str, tmp_path: Path
) -> None:
    with watched(playground, namespace, tmp_path / "watched") as states:
        body = workload("web", namespace, replicas=4, distribution="Duplicated")
        playground.hub.apply(body)
        until(playground, namespace, "Ready")
        assert units(playground, namespace) == [[4, 4, 4]] * 3
        new_image(playground, namespace, "registry.k8s.io/pause:3.9")
        until(playground, namespace, "Ready")
        assert units(playground, namespace) == [[4, 4, 4]] * 3, "none of the old image stands in"
        for member in playground.placements(namespace, "web"):
            found = playground.seen(member, namespace, "web")
            assert found is not None
            (container,) = found["spec"]["template"]["spec"]["containers"]
            assert container["image"] == "registry.k8s.io/pause:3.9"
        nowhere = json.dumps({"spec": {"clusterSelector": {"tier": "nowhere"}}})
        playground.hub("-n", namespace, "patch", "wl", "web", "--type=merge", "-p", nowhere)
        until(playground, namespace, "Stalled")
        listed = playground.hub("get", "stowage", "-A", "-o", "name")
        assert "workload.stowage.dev/web" in listed.splitlines()
        served = playground.hub("api-resources", "--categories=stowage", "-o", "name").split()
        assert set(served) == {f"{kind.plural}.stowage.dev" for kind in KINDS}
        playground.hub("-n", namespace, "delete", "wl", "web", timeout=120)
    told = [kstatus.compute(each) for each in states]
    changes = [now for now, before in zip(told, ["", *told], strict=False) if now != before]
    running = [kstatus.IN_PROGRESS, kstatus.CURRENT]
    assert changes == [*running, *running, kstatus.IN_PROGRESS, kstatus.FAILED, kstatus.TERMINATING]
    for state, word in zip(states, told, strict=True):
        assert kstatus.exclusive(state)
        assert word == kstatus.TERMINATING or health(state)["status"] in WORDS[word]
