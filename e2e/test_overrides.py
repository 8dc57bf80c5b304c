"""Overrides and images, read from what the members run.

The members get labels of this file's own: member-2 is in eu, the others are elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.harness import Playground, wait, workload
from e2e.stage import MEMBERS

REGION = "overrides.example.com/region"
EU = {"matchLabels": {REGION: "eu"}}


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
