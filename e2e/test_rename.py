"""A cluster is renamed under running Workloads: nothing on it is touched, and back again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from e2e.harness import Failed, deployment, pod_template, stowage, wait, workload
from e2e.stage import Stage

pytestmark = pytest.mark.proves("N3")
OLD, NEW = "member-1", "paris"


@pytest.fixture
def renamable(running: Stage) -> Iterator[Stage]:
    """Yield the stage; afterwards the member has its name, whatever the test's result."""
    yield running
    for role in ("controller", "propagator"):
        if running.processes[role].running is None:
            running.process(role)
    if running.hub.exists("mc", NEW):
        _rename(running, NEW, OLD, "--force")
    wait("its name back", lambda: running.ready(OLD)["status"] == "True")


def _rename(stage: Stage, old: str, new: str, *more: str) -> str:
    return stowage("rename", old, new, f"--kubeconfig={stage.hub.kubeconfig}", *more)


def _statefulset(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name},
        "spec": {
            "serviceName": name,
            "selector": {"matchLabels": {"app": name}},
            "template": pod_template(name),
        },
    }


def _claim(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


def _reservation(name: str, namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": 2,
            "allocateOnce": False,
            "targetCluster": {"name": OLD},
            "owners": [{"object": {"kind": "Workload", "name": "inside"}}],
            "template": {"spec": pod_template("x")["spec"]},
        },
    }


def _begin(stage: Stage, space: str) -> dict[str, dict[str, int]]:
    """Place a Deployment, a StatefulSet with a claim, one on two clusters, and reserved room."""
    here = {"clusterAffinity": _affinity(OLD)}
    stage.hub.apply(
        _reservation("room", space),
        workload("web", space, replicas=2, template=deployment("web"), targetCluster={"name": OLD}),
        workload(
            "db", space, replicas=2, template=_statefulset("db"), manifests=[_claim("data")], **here
        ),
        workload(
            "wide",
            space,
            replicas=4,
            template=_statefulset("wide"),
            distribution="Divided",
            clusterAffinity=_affinity(OLD, "member-2"),
        ),
    )
    for name in ("web", "db", "wide"):
        stage.until_running(space, name)
    wait("room", lambda: _phase(stage, space) == "Available")
    placed = {name: stage.placements(space, name) for name in ("web", "db", "wide")}
    assert placed["wide"].keys() == {OLD, "member-2"}
    return placed


def _affinity(*names: str) -> dict[str, Any]:
    term = {"key": "stowage.dev/cluster", "operator": "In", "values": list(names)}
    terms = [{"matchExpressions": [term]}]
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": terms}}


def _phase(stage: Stage, space: str) -> str:
    return str(stage.hub.get("rsv", "room", space).get("status", {}).get("phase"))


def _there(stage: Stage, space: str) -> dict[str, tuple[str, Any]]:
    """Return UID and spec of each object on the member."""
    listed = stage.members[OLD].json(
        "-n", space, "get", "deploy,sts,rs,pods,pvc", "--ignore-not-found"
    )["items"]
    return {
        f"{o['kind']}/{o['metadata']['name']}": (
            # not the generation: another annotation alone changes that of a Deployment
            o["metadata"]["uid"],
            o["spec"],
        )
        for o in listed
    }


def _as(new: str, placed: dict[str, int]) -> dict[str, int]:
    return {new if name == OLD else name: units for name, units in placed.items()}


def _settled(stage: Stage, space: str, new: str, placed: dict[str, dict[str, int]]) -> None:
    """Wait until all statuses have the name, and all objects the mark of its registration."""
    uid = stage.hub.get("mc", new)["metadata"]["uid"]
    for name, shares in placed.items():
        status = stage.until_running(space, name)
        assert stage.placements(space, name) == _as(new, shares)
        wait(
            f"{name} to say {new}",
            lambda n=name, s=shares: (
                {c["name"] for c in stage.status(space, n)["clusters"]} == _as(new, s).keys()
            ),
        )
        assert {change["cause"] for change in status["history"]} == {"Placed", "ClusterRenamed"}
    found = stage.hub.get("rsv", "room", space)["status"]
    assert (found["phase"], found["clusterName"]) == ("Available", new)

    def written() -> bool:
        kinds = [("web", "Deployment"), ("db", "StatefulSet"), ("wide", "StatefulSet")]
        marks = [
            (stage.seen(OLD, space, name, kind=kind) or {})["metadata"]["annotations"]
            for name, kind in kinds
        ]
        return all(each["stowage.dev/member"].startswith(uid) for each in marks)

    wait("the marks", written)


@pytest.mark.long
def test_nothing_on_the_member_is_touched_and_back_again(renamable: Stage, space: str) -> None:
    stage = renamable
    placed = _begin(stage, space)
    before = _there(stage, space)
    assert len([each for each in before if each.startswith("Pod/")]) == 4 + placed["wide"][OLD]
    table = _rename(stage, OLD, NEW, "--dry-run", "--force")
    assert f"{space}/web" in table
    assert f"spec.targetCluster names {OLD}: keeps its replicas" in table
    with pytest.raises(Failed, match="--force"):
        _rename(stage, OLD, NEW)
    assert f"{OLD} is {NEW} now" in _rename(stage, OLD, NEW, "--force")
    _settled(stage, space, NEW, placed)
    assert _there(stage, space) == before
    stage.hub("-n", space, "patch", "wl", "wide", "--type=merge", '-p={"spec":{"replicas":6}}')
    stage.until_running(space, "wide")
    stage.hub("-n", space, "patch", "wl", "wide", "--type=merge", '-p={"spec":{"replicas":4}}')
    stage.until_running(space, "wide")
    _rename(stage, NEW, OLD, "--force")
    for name in ("web", "db"):
        stage.until_running(space, name)
        assert stage.placements(space, name) == placed[name]
    after = _there(stage, space)
    kept = {each: seen for each, seen in before.items() if "wide" not in each}
    assert {each: after[each] for each in kept} == kept
