"""Overrides and images, read from what the members run.

The members get labels of this file's own: member-2 is in eu, the others are elsewhere.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from e2e.harness import PACE, Kubectl, Playground, deployment, wait, workload
from e2e.stage import MEMBERS, Stage

REGION = "overrides.example.com/region"
EU = {"matchLabels": {REGION: "eu"}}
IMAGE = "registry.k8s.io/pause:3.10"


@pytest.fixture(scope="module")
def regions(playground: Playground) -> Iterator[Playground]:
    """Yield the playground with its members in regions."""
    label(playground, "member-1", "us")
    label(playground, "member-2", "eu")
    yield playground
    for member in MEMBERS:
        label(playground, member, "")


def label(at: Playground, member: str, region: str) -> None:
    said = f"{REGION}={region}" if region else f"{REGION}-"
    at.hub("label", "mc", member, "--overwrite", said)


def main(**container: Any) -> dict[str, Any]:
    """A merge patch of the container main."""
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", **container}]}}}}


def override(name: str = "eu", **said: Any) -> dict[str, Any]:
    return {"name": name, "clusterSelector": EU, **said}


def everywhere(space: str, *overrides: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A Workload with a unit on each member."""
    given = {"replicas": 1, "distribution": "Duplicated", "overrides": list(overrides), **spec}
    return workload("web", space, **given)


def edit(at: Playground, space: str, **spec: Any) -> None:
    patch = json.dumps({"spec": spec})
    at.hub("-n", space, "patch", "wl", "web", "--type=merge", "-p", patch)


def there(at: Playground, member: str, space: str) -> dict[str, Any]:
    """The Deployment on a member."""
    found = at.seen(member, space, "web")
    assert found is not None
    return found


def container(at: Playground, member: str, space: str) -> dict[str, Any]:
    """The container of the Deployment on a member; empty where there is none."""
    found = at.seen(member, space, "web")
    return found["spec"]["template"]["spec"]["containers"][0] if found else {}


def args(at: Playground, space: str) -> dict[str, Any]:
    return {member: container(at, member, space).get("args") for member in MEMBERS}


def until_args(at: Playground, space: str, **wanted: Any) -> None:
    said = {member: wanted.get(member.replace("-", "_")) for member in MEMBERS}
    wait(f"arguments {said}", lambda: args(at, space) == said)


def generations(at: Playground, space: str) -> dict[str, int]:
    found = {member: at.seen(member, space, "web") for member in MEMBERS}
    return {member: each["metadata"]["generation"] for member, each in found.items() if each}


@pytest.mark.proves("O1", "O2", "O9")
def test_an_override_changes_its_field_on_its_clusters_and_goes_without_a_trace(
    regions: Playground, namespace: str
) -> None:
    regions.hub.apply(everywhere(namespace))
    regions.until_running(namespace, "web")
    before = {member: there(regions, member, namespace) for member in MEMBERS}
    edit(regions, namespace, overrides=[override(patch=main(args=["--region=eu"]))])
    until_args(regions, namespace, member_2=["--region=eu"])
    after = {member: there(regions, member, namespace) for member in MEMBERS}
    for member in ("member-1", "member-3"):
        assert after[member]["spec"] == before[member]["spec"]
        assert after[member]["metadata"]["generation"] == before[member]["metadata"]["generation"]
    one, other = after["member-2"]["spec"], before["member-2"]["spec"]
    assert one["template"]["spec"]["containers"][0].pop("args") == ["--region=eu"]
    assert one == other

    two = [override("a", patch=main(args=["a"])), override("b", patch=main(args=["b"]))]
    edit(regions, namespace, overrides=two)
    until_args(regions, namespace, member_2=["b"])
    edit(regions, namespace, overrides=two[::-1])
    until_args(regions, namespace, member_2=["a"])

    edit(regions, namespace, overrides=[])
    until_args(regions, namespace)
    assert there(regions, "member-2", namespace)["spec"] == other


@pytest.mark.long
@pytest.mark.proves("O6")
def test_a_relabelled_cluster_rolls_its_pods_and_moves_nothing(
    regions: Playground, namespace: str
) -> None:
    regions.hub.apply(everywhere(namespace, override(patch=main(args=["--eu"]))))
    regions.until_running(namespace, "web")
    until_args(regions, namespace, member_2=["--eu"])
    placed = regions.placements(namespace, "web")
    try:
        label(regions, "member-1", "eu")
        until_args(regions, namespace, member_1=["--eu"], member_2=["--eu"])
        assert regions.placements(namespace, "web") == placed
    finally:
        label(regions, "member-1", "us")
    until_args(regions, namespace, member_2=["--eu"])


@pytest.mark.long
@pytest.mark.proves("O12", "O3")
def test_order_and_images_are_those_of_plan_diff(regions: Playground, namespace: str) -> None:
    images = [{"from": "registry.k8s.io", "to": "mirror.example/k8s"}]
    regions.hub(
        "patch", "mc", "member-2", "--type=merge", "-p", json.dumps({"spec": {"images": images}})
    )
    try:
        patch = {"spec": {"containers": [{"name": "main", "args": ["of the subset"]}]}}
        target = {"apiVersion": "stowage.dev/v1alpha1", "kind": "Workload", "name": "web"}
        spread = {
            "apiVersion": "stowage.dev/v1alpha1",
            "kind": "WorkloadSpread",
            "metadata": {"name": "web", "namespace": namespace},
            "spec": {"targetRef": target, "subsets": [{"name": "all", "patch": patch}]},
        }
        regions.hub.apply(spread)
        said = override(patch=main(args=["of the author"], env=[{"name": "A", "value": "1"}]))
        body = workload(
            "web", namespace, replicas=1, overrides=[said], targetCluster={"name": "member-2"}
        )
        file = regions.directory / "overridden.yaml"
        file.write_text(yaml.safe_dump(body))
        told = subprocess.run(
            [
                *(sys.executable, "-m", "stowage", "plan", "-f", str(file), "--diff"),
                f"--kubeconfig={regions.hub.kubeconfig}",
            ],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert "shop" not in told
        for line in (
            "(override eu; subset all; images of the cluster)",
            "+        - of the subset",
            "mirror.example/k8s/pause:3.10",
        ):
            assert line in told
        assert "of the author" not in told
        regions.hub.apply(body)
        wait("the Deployment", lambda: container(regions, "member-2", namespace))
        found = container(regions, "member-2", namespace)
        assert (found["args"], found["env"]) == (["of the subset"], [{"name": "A", "value": "1"}])
        assert found["image"] == "mirror.example/k8s/pause:3.10"
        rendered = subprocess.run(
            [
                *(
                    sys.executable,
                    "-m",
                    "stowage",
                    "explain",
                    "wl/web",
                    "-n",
                    namespace,
                    "--rendered",
                ),
                *("--cluster=member-2", f"--kubeconfig={regions.hub.kubeconfig}"),
            ],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        (whole,) = yaml.safe_load_all(rendered)
        assert whole["spec"]["template"]["spec"]["containers"][0]["args"] == ["of the subset"]
    finally:
        regions.hub("patch", "mc", "member-2", "--type=merge", "-p", '{"spec": {"images": null}}')
    wait("the image", lambda: container(regions, "member-2", namespace)["image"] == IMAGE)


@pytest.mark.long
@pytest.mark.proves("O13")
def test_images_of_a_cluster_roll_one_workload_after_the_other(
    regions: Playground, namespace: str
) -> None:
    names = [f"web-{number}" for number in range(4)]
    target = {"name": "member-2"}
    regions.hub.apply(*(workload(n, namespace, replicas=2, targetCluster=target) for n in names))
    for name in names:
        regions.until_running(namespace, name)
    images = json.dumps({"spec": {"images": [{"from": "registry.k8s.io", "to": "mirror.example"}]}})
    member, began = regions.members["member-2"], time.monotonic()
    try:
        regions.hub("patch", "mc", "member-2", "--type=merge", "-p", images)
        most = 0
        while len(rolled := _rolled(member, namespace)) < len(names):
            most = max(most, len(_changed(member, namespace)) - len(rolled))
            assert time.monotonic() - began < 120 * PACE.factor, f"of {names} there are {rolled}"
        assert most <= 1, "two at once"
    finally:
        regions.hub("patch", "mc", "member-2", "--type=merge", "-p", '{"spec": {"images": null}}')


def _changed(member: Kubectl, space: str) -> set[str]:
    """The Deployments that ask for the new images."""
    return {
        each["metadata"]["name"]
        for each in member.items("deploy", space)
        if "mirror.example" in json.dumps(each["spec"]["template"])
    }


def _rolled(member: Kubectl, space: str) -> set[str]:
    """Those of them whose pods all run with these."""
    return {
        each["metadata"]["name"]
        for each in member.items("deploy", space)
        if each["metadata"]["name"] in _changed(member, space)
        and each["status"].get("observedGeneration") == each["metadata"]["generation"]
        and each["status"].get("updatedReplicas") == each["status"].get("readyReplicas") == 2
    }


@pytest.mark.proves("O15")
def test_another_number_of_units_rolls_no_pod(regions: Playground, namespace: str) -> None:
    regions.hub.apply(everywhere(namespace, override(patch=main(args=["--eu"]))))
    regions.until_running(namespace, "web")
    pods = {
        m: {each["metadata"]["uid"] for each in regions.members[m].items("pods", namespace)}
        for m in MEMBERS
    }
    template = {m: there(regions, m, namespace)["spec"]["template"] for m in MEMBERS}
    regions.hub("-n", namespace, "scale", "wl", "web", "--replicas=3")

    def scaled() -> bool:
        found = {m: regions.members[m].items("pods", namespace) for m in MEMBERS}
        return all(len(each) == 3 for each in found.values())

    wait("three on each", scaled)
    for m in MEMBERS:
        now = {each["metadata"]["uid"] for each in regions.members[m].items("pods", namespace)}
        assert pods[m] < now
        assert there(regions, m, namespace)["spec"]["template"] == template[m]


@pytest.mark.long
@pytest.mark.proves("O10")
def test_no_object_is_ever_without_its_overrides_whatever_is_killed(
    running: Stage, space: str
) -> None:
    """A watch on the member sees each state while the override and the template are edited."""
    label(running, "member-2", "eu")
    running.hub.apply(everywhere(space, override(patch=main(args=["0"]))))
    running.until_running(space, "web")
    seen: list[Any] = []
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            seen.append(container(running, "member-2", space).get("args"))
            time.sleep(0.02)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for number in range(1, 7):
            changed = deployment("web")
            changed["metadata"]["labels"] = {"edit": str(number)}
            edit(
                running,
                space,
                overrides=[override(patch=main(args=[str(number)]))],
                targetDeployment=changed,
            )
            time.sleep(0.15 * number)
            running.processes["propagator" if number % 2 else "controller"].kill()
            running.process("propagator" if number % 2 else "controller")
        wait("the last one", lambda: seen and seen[-1] == ["6"], timeout=120)
    finally:
        over.set()
        looking.join()
        label(running, "member-2", "")
    assert all(seen), "an object without any override"
