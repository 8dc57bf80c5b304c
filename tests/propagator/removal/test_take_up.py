"""What the release before wrote onto members is taken up: neither orphaned, nor doubled, nor made anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from crds.names import (
    ANNOTATION_HUB_VERSION,
    ANNOTATION_KINDS,
    ANNOTATION_MEMBER,
    FIELD_MANAGER,
    FINALIZER,
    OWNER_PREFIX,
)
from machinery.api.resources import MEMBER_CLUSTERS, NAMESPACES, SECRETS, Resource
from machinery.types.metadata import Meta
from propagator.apply.render import ANNOTATION_HASH, Piece, render
from propagator.types.hub_objects import HubSecret
from propagator.types.workload import Workload, workload_of
from tests.propagator.apply.memberfacts import member_facts
from tests.propagator.stage import (
    AUTOSCALERS,
    CONFIGMAPS,
    DEPLOYMENTS,
    KINDS,
    SERVICES,
    MakeStage,
    Stage,
    settled,
)
from tests.propagator.waits import until

FILE = Path(__file__).parents[2] / "data" / "releases" / "d4ac61b.yaml"
HEAD, WORKLOAD, *OBJECTS = yaml.safe_load_all(FILE.read_text())
HUB = HEAD["hub"]
CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
RESOURCES = {
    **{each.kind: each for each in (DEPLOYMENTS, SERVICES, CONFIGMAPS, CLAIMS, AUTOSCALERS)},
    "Secret": KINDS["Secret"],
}


def rendered(workload: Workload, hub: str = HUB) -> dict[tuple[str, str], Piece]:
    """What the present code wants there, by kind and name."""
    (secret,) = [each for each in OBJECTS if each["kind"] == "Secret"]
    travels = HubSecret(metadata=Meta(name="db"), type=secret["type"], data=secret["data"])
    pieces = render(
        workload, replicas=3, first_ordinal=0, secrets=[travels], member=member_facts(hub=hub)
    )
    return {(each.kind, each.name): each for each in pieces}


@pytest.mark.proves("N1")
def test_what_it_applied_is_what_would_be_applied_now() -> None:
    pieces = rendered(workload_of(WORKLOAD))
    there = {(each["kind"], each["metadata"]["name"]): each for each in OBJECTS}
    assert there.keys() == pieces.keys()
    for which, piece in pieces.items():
        annotations = there[which]["metadata"]["annotations"]
        assert annotations[ANNOTATION_HASH] == piece.digest, which
        assert not {ANNOTATION_MEMBER, ANNOTATION_HUB_VERSION} & annotations.keys()


async def lay_down(stage: Stage, workload: dict[str, Any], hub: str) -> dict[tuple[str, str], Any]:
    """Its objects on m1, as that release had left them for this Workload of this hub."""
    uid, before = workload["metadata"]["uid"], WORKLOAD["metadata"]
    text = json.dumps(OBJECTS).replace(before["uid"], uid).replace(HUB, hub)
    text = text.replace(before["namespace"], stage.namespace)
    wanted = rendered(workload_of(workload), hub)
    member, there = stage.members["m1"], {}
    for body in json.loads(text):
        which, resource = (body["kind"], body["metadata"]["name"]), RESOURCES[body["kind"]]
        body["metadata"]["annotations"][ANNOTATION_HASH] = wanted[which].digest
        fields = body["metadata"].pop("managedFields")
        await member.create(resource, body)
        owned = {"metadata": {"managedFields": fields}}
        where = {"namespace": stage.namespace}
        there[which] = await member.merge_patch(resource, which[1], owned, **where)
        managers = {each["manager"] for each in there[which]["metadata"]["managedFields"]}
        assert managers == {FIELD_MANAGER}
    return there


async def now(stage: Stage, which: tuple[str, str]) -> dict[str, Any]:
    found = await stage.on("m1", which[1], kind=RESOURCES[which[0]])
    assert found is not None, which
    return found


async def still_there(stage: Stage) -> set[str]:
    """What has not been asked to go."""
    found = [
        (kind, await stage.on("m1", each["metadata"]["name"], kind=RESOURCES[kind]))
        for each in OBJECTS
        for kind in (each["kind"],)
    ]
    return {
        kind
        for kind, each in found
        if each is not None and not each["metadata"].get("deletionTimestamp")
    }


@pytest.mark.long
@pytest.mark.proves("N1", "N2")
async def test_objects_of_the_release_before_are_taken_up(stage_on: MakeStage):
    async with stage_on() as stage:
        await stage.stop()
        await stage.space_on("m1")
        hub = (await stage.hub.get(NAMESPACES, "kube-system"))["metadata"]["uid"]
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db"}}
        await stage.hub.create(
            SECRETS, secret | {"data": {"password": "eA=="}}, namespace=stage.namespace
        )
        made = await stage.create("demo", **WORKLOAD["spec"])
        noted = {**WORKLOAD["metadata"]["annotations"]}
        assert noted[ANNOTATION_KINDS]
        before = await lay_down(stage, made, hub)
        await stage.patch("demo", {"metadata": {"annotations": noted, "finalizers": [FINALIZER]}})
        await stage.place("demo", m1=3)
        stage.start()
        await stage.ready()
        await stage.propagated("demo")
        cluster = await stage.hub.get(MEMBER_CLUSTERS, "m1")
        for which, old in before.items():
            found = await now(stage, which)
            meta = found["metadata"]
            assert meta["uid"] == old["metadata"]["uid"], "made anew"
            assert found.get("spec") == old.get("spec"), "another pod template: pods restart"
            mark = meta["annotations"][ANNOTATION_MEMBER]
            assert mark.startswith(f"{cluster['metadata']['uid']}/")
            owners = [key for key in meta["annotations"] if key.startswith(OWNER_PREFIX)]
            assert owners == [f"{OWNER_PREFIX}{made['metadata']['uid']}"]
        for kind in {which[0] for which in before}:
            listed = await stage.members["m1"].list(RESOURCES[kind], namespace=stage.namespace)
            ours = [
                each
                for each in listed["items"]
                if "stowage.dev/managed" in each["metadata"].get("labels", {})
            ]
            assert len(ours) == 1, "doubled"
        versions = {
            which: (await now(stage, which))["metadata"]["resourceVersion"] for which in before
        }
        await stage.restart()
        await stage.ready()
        await settled(stage)
        for which, version in versions.items():
            assert (await now(stage, which))["metadata"]["resourceVersion"] == version, (
                "written twice"
            )
        await stage.delete("demo")

        async def gone() -> bool:
            return await still_there(stage) == set()

        await until(gone)
        await release_claim(stage)
        await stage.gone("demo")


@pytest.mark.long
@pytest.mark.proves("N1", "N11")
async def test_objects_of_the_release_before_without_a_workload_are_swept(stage_on: MakeStage):
    async with stage_on() as stage:
        await stage.space_on("m1")
        hub = (await stage.hub.get(NAMESPACES, "kube-system"))["metadata"]["uid"]
        gone = {"metadata": {**WORKLOAD["metadata"], "namespace": stage.namespace, "uid": "gone"}}
        await stage.stop()
        await lay_down(stage, {**WORKLOAD, **gone}, hub)
        stage.start()

        async def swept() -> bool:
            return await still_there(stage) == set()

        await until(swept)
        await release_claim(stage)


async def release_claim(stage: Stage) -> None:
    """No controller is there to see that no pod uses it."""
    free = {"metadata": {"finalizers": None}}
    await stage.members["m1"].merge_patch(CLAIMS, "data", free, namespace=stage.namespace)
