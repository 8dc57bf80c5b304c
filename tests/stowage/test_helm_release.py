"""`stowage install --adopt-helm`: what is there becomes a release of Helm, object by object."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest
from click.testing import CliRunner

from machinery.api.resources import DEPLOYMENTS, NAMESPACES, SECRETS, Resource
from machinery.api.verbs import Verbs
from machinery.errors import ConfigurationError, Conflict, NotFound
from stowage.cli import cli
from stowage.setup import helm_release, install
from stowage.setup.helm_release import Release, adopt

RELEASE = Release("stowage", "stowage-system")
RESOURCES = {each.kind: each for each in (DEPLOYMENTS, NAMESPACES, SECRETS)}


class Hub:
    """Objects with the entries of managers that an API server keeps of applies."""

    def __init__(self, *objects: dict[str, Any]) -> None:
        self.objects = {
            (each["kind"], each["metadata"]["name"]): copy.deepcopy(each) for each in objects
        }
        self.writes: list[str] = []
        self.conflicts = 0
        for each in self.objects.values():
            each["metadata"] |= {"resourceVersion": "1", "managedFields": [{"manager": install.MANAGER}, {"manager": "kubelet"}]}  # fmt: skip

    async def resource(self, _: str, kind: str) -> Resource:
        return RESOURCES[kind]

    async def get(self, res: Resource, name: str, namespace: str | None = None) -> Any:
        if (res.kind, name) not in self.objects:
            raise NotFound(code=404, reason="NotFound", message="none")
        return copy.deepcopy(self.objects[res.kind, name])

    find = Verbs.find

    async def apply(self, res: Resource, body: Mapping[str, Any], *, name: str, field_manager: str, **_: Any) -> Any:  # fmt: skip
        meta = self.objects[res.kind, name]["metadata"]
        for key in ("labels", "annotations"):
            meta[key] = {**meta.get(key, {}), **body["metadata"][key]}
        meta["managedFields"].append({"manager": field_manager})
        self.writes.append(f"apply {name}")
        return await self.get(res, name)

    async def merge_patch(self, res: Resource, name: str, patch: Any, namespace: str | None = None) -> None:  # fmt: skip
        if self.conflicts:
            self.conflicts -= 1
            raise Conflict(code=409, reason="Conflict", message="changed")
        self.objects[res.kind, name]["metadata"] |= patch["metadata"]
        self.writes.append(f"patch {name}")


def thing(kind: str, name: str, **metadata: Any) -> dict[str, Any]:
    namespace = {} if kind == "Namespace" else {"namespace": "stowage-system"}
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, **namespace, **metadata}}


HOME, ONE, OTHER = thing("Namespace", "stowage-system"), thing("Deployment", "one"), thing("Secret", "other")  # fmt: skip


async def adopted(hub: Hub, *objects: dict[str, Any]) -> list[str]:
    said: list[str] = []
    await adopt(hub, objects, RELEASE, said.append)  # type: ignore[arg-type] # a part of a client
    return said


@pytest.mark.proves("PK8")
async def test_what_is_there_is_marked_and_let_go_of() -> None:
    hub = Hub(HOME, thing("Deployment", "one", labels={"app": "one"}))
    said = await adopted(hub, HOME, ONE, OTHER)
    assert said == ["Deployment one is of the release stowage"]
    meta = hub.objects["Deployment", "one"]["metadata"]
    assert meta["labels"] == {"app": "one", "app.kubernetes.io/managed-by": "Helm"}
    assert meta["annotations"] == {
        "meta.helm.sh/release-name": "stowage",
        "meta.helm.sh/release-namespace": "stowage-system",
    }
    assert [each["manager"] for each in meta["managedFields"]] == ["kubelet", "helm"]
    assert hub.writes == ["apply one", "patch one"]
    await adopted(hub, HOME, ONE)
    assert len(hub.writes) == 2, "a second run writes nothing"


@pytest.mark.proves("PK8")
async def test_what_an_upgrade_owns_again_is_let_go_of_without_another_mark() -> None:
    hub = Hub(ONE)
    await adopted(hub, ONE)
    hub.objects["Deployment", "one"]["metadata"]["managedFields"].append(
        {"manager": install.MANAGER}
    )
    await adopted(hub, ONE)
    assert hub.writes == ["apply one", "patch one", "patch one"]


async def test_a_write_of_others_meanwhile_is_read_again() -> None:
    hub = Hub(ONE)
    hub.conflicts = 2
    await adopted(hub, ONE)
    assert hub.writes == ["apply one", "patch one"]
    hub = Hub(ONE)
    hub.conflicts = 99
    with pytest.raises(Conflict):
        await adopted(hub, ONE)


@pytest.mark.proves("PK8")
async def test_an_object_of_another_release_is_refused_before_anything_is_written() -> None:
    theirs = {"meta.helm.sh/release-name": "x", "meta.helm.sh/release-namespace": "y"}
    hub = Hub(ONE, thing("Secret", "other", annotations=theirs))
    told = r"Secret other belongs to the release x \(y\) of Helm, not to stowage \(stowage-system\)"
    with pytest.raises(ConfigurationError, match=told):
        await adopted(hub, ONE, OTHER)
    assert hub.writes == []


async def test_the_hub_says_whose_release_it_is() -> None:
    controller = thing("Deployment", install.CONTROLLER)
    hub = Hub(controller)
    assert await helm_release.of_hub(hub, "stowage-system") is None  # type: ignore[arg-type]
    await adopted(hub, controller)
    assert await helm_release.of_hub(hub, "stowage-system") == RELEASE  # type: ignore[arg-type]
    assert await helm_release.of_hub(Hub(), "stowage-system") is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "more", ["--dry-run", "--image=x", "--no-all-namespaces", "--ui", "--shards=2"]
)
def test_it_goes_alone(more: str) -> None:
    done = CliRunner().invoke(cli, ["install", "--adopt-helm", "stowage", more])
    assert done.exit_code == 2
    assert "it goes alone" in done.output
