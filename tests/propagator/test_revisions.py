"""Which revision each member runs while a rollout goes on, on real API servers.

The test plays the controller of the hub: it says which cluster gets which revision.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from machinery.api.resources import CONTROLLER_REVISIONS, MEMBER_CLUSTERS
from machinery.kinds.revisions import digest_of, revision_data, revision_name
from tests.propagator.stage import (
    CONFIGMAPS,
    DEPLOYMENTS,
    MakeStage,
    Stage,
    changes,
    configmap,
    deployment,
    settled,
)
from tests.propagator.waits import until

ROLLOUT = {"waves": [{"name": "canary", "clusterSelector": {"matchLabels": {"tier": "canary"}}}]}


async def revision(stage: Stage) -> str:
    """The revision of the spec as the hub has it now."""
    found = await stage.workload("web")
    assert found is not None
    return digest_of(revision_data(found["spec"]))


async def keep(stage: Stage) -> str:
    """Keep the present revision, as the controller does."""
    found = await stage.workload("web")
    assert found is not None
    data = revision_data(found["spec"])
    await _create(stage, revision_name("web", digest_of(data)), data)
    return digest_of(data)


async def _create(stage: Stage, name: str, data: Mapping[str, Any]) -> None:
    body = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {"name": name, "namespace": stage.namespace},
        "data": {"spec": data},
        "revision": 1,
    }
    await stage.hub.create(CONTROLLER_REVISIONS, body)


async def say(stage: Stage, revision: str, **exceptions: list[str]) -> None:
    """Say what is rolled out; `exceptions`: clusters by revision, each behind a letter."""
    named = [{"revision": each[1:], "clusters": names} for each, names in exceptions.items()]
    rollout = {"phase": "Progressing", "revision": revision}
    status = {"rollout": rollout, "revisions": named}
    await stage.patch("web", {"status": status}, subresource="status")


async def pushed(stage: Stage, **spec: Any) -> str:
    """A Workload that runs its first revision on both members; that revision."""
    given = {
        "targetDeployment": deployment(image="nginx:1"),
        "rollout": ROLLOUT,
        "replicas": 2,
        **spec,
    }
    await stage.create("web", **given)
    first = await keep(stage)
    await say(stage, first)
    await stage.place("web", m1=1, m2=1)
    await stage.propagated("web")
    return first


async def edit(stage: Stage, image: str) -> str:
    await stage.patch("web", {"spec": {"targetDeployment": deployment(image=image)}})
    return await revision(stage)


def image_in(found: Mapping[str, Any]) -> str:
    return str(found["spec"]["template"]["spec"]["containers"][0]["image"])


async def runs(stage: Stage, member: str, image: str) -> dict[str, Any]:
    """Wait until the member has that image; its object."""
    seen: dict[str, Any] = {}

    async def there() -> bool:
        seen.update(await stage.on(member) or {})
        return bool(seen) and image_in(seen) == image

    await until(there, what=lambda: seen)
    return seen


async def told(stage: Stage, member: str, revision: str) -> dict[str, Any]:
    """Wait until the share says that it has that revision; the share."""
    seen: dict[str, Any] = {}

    async def said() -> bool:
        seen.update(await stage.share("web", member))
        return seen.get("revision") == revision

    await until(said, what=lambda: seen)
    return seen


async def counted(stage: Stage, member: str, **counts: int | None) -> None:
    """Wait until the share says these numbers."""
    seen: dict[str, Any] = {}

    async def said() -> bool:
        seen.clear()
        seen.update(await stage.share("web", member))
        return all(seen.get(name) == number for name, number in counts.items())

    await until(said, what=lambda: seen)


@pytest.mark.long
@pytest.mark.proves("T1", "T2")
async def test_a_member_gets_the_revision_that_is_said_and_its_replicas_at_once(
    stage: Stage,
):
    first = await pushed(stage)
    await stage.make_ready("m1")
    generation = (await stage.appears("m2"))["metadata"]["generation"]
    second = await edit(stage, "nginx:2")
    await stage.patch("web", {"spec": {"replicas": 4}})
    await stage.place("web", m1=1, m2=3)
    await stage.becomes("m2", "web", 3, "replicas")
    await settled(stage)
    assert image_in(await stage.appears("m1")) == "nginx:1", "nothing is said of it yet"

    await say(stage, second, **{f"r{first}": ["m2"]})
    await runs(stage, "m1", "nginx:2")
    share = await told(stage, "m1", second)
    assert share["updated"] == 0, "the member's own controller has not seen it yet"
    found = await stage.appears("m1")
    counts = {"replicas": 2, "readyReplicas": 1, "updatedReplicas": 1}
    counts["observedGeneration"] = found["metadata"]["generation"]
    await stage.members["m1"].merge_patch(
        DEPLOYMENTS, "web", {"status": counts}, namespace=stage.namespace, subresource="status"
    )
    await counted(stage, "m1", updated=1, ready=1, outdated=1)
    await stage.make_ready("m1")
    await counted(stage, "m1", updated=1, ready=1, outdated=None)
    other = await stage.appears("m2")
    assert image_in(other) == "nginx:1"
    assert other["metadata"]["generation"] == generation + 1, "only the replicas were written"
    assert (await stage.share("web", "m2"))["revision"] == first

    await say(stage, second)
    await runs(stage, "m2", "nginx:2")
    await told(stage, "m2", second)


@pytest.mark.long
@pytest.mark.proves("T23")
@pytest.mark.parametrize("by", ["who deletes it", "who edits it"])
async def test_a_member_is_left_alone_when_its_revision_is_lost(stage: Stage, by: str):
    first = await pushed(stage)
    name = revision_name("web", first)
    before = (await stage.appears("m2"))["metadata"]["resourceVersion"]
    await stage.hub.delete(CONTROLLER_REVISIONS, name, namespace=stage.namespace)
    if by == "who edits it":
        await _create(stage, name, {"targetDeployment": deployment(image="evil:1")})
    second = await edit(stage, "nginx:2")
    await say(stage, second, **{f"r{first}": ["m2"]})
    await stage.refused("web", "RevisionLost", "m2", name)
    await runs(stage, "m1", "nginx:2")
    assert (await stage.appears("m2"))["metadata"]["resourceVersion"] == before

    await say(stage, second)
    await runs(stage, "m2", "nginx:2")
    await stage.propagated("web")


@pytest.mark.long
@pytest.mark.proves("T6", "T21", "X1")
async def test_a_held_member_keeps_its_revision_through_drift_and_restarts(stage: Stage):
    manifests = [configmap("settings", colour="red")]
    first = await pushed(stage, manifests=manifests)
    second = await edit(stage, "nginx:2")
    await say(stage, second, **{f"r{first}": ["m2"]})
    await told(stage, "m1", second)
    await settled(stage)
    before = await changes(stage.members["m2"])
    await stage.restarted()
    await settled(stage)
    assert await changes(stage.members["m2"]) == before
    # A third revision without that manifest: it stays where the first one runs.
    await stage.patch("web", {"spec": {"manifests": []}})
    third = await revision(stage)
    await say(stage, third, **{f"r{first}": ["m2"]})
    await stage.goes("m1", "settings", kind=CONFIGMAPS)
    await stage.members["m2"].delete(CONFIGMAPS, "settings", namespace=stage.namespace)
    await stage.appears("m2", "settings", kind=CONFIGMAPS)
    assert image_in(await stage.appears("m2")) == "nginx:1"


def mounting(image: str, name: str) -> dict[str, Any]:
    body = deployment(image=image)
    pods = body["spec"]["template"]["spec"]
    pods["volumes"] = [{"name": "settings", "configMap": {"name": name}}]
    return body


@pytest.mark.proves("DP6")
@pytest.mark.long
async def test_what_the_stable_revision_names_stays_for_the_members_that_run_it(
    stage: Stage,
):
    for name in ("old", "new"):
        body = configmap(name, which=name)
        body["metadata"]["namespace"] = stage.namespace
        await stage.hub.create(CONFIGMAPS, body)
    first = await pushed(stage, targetDeployment=mounting("nginx:1", "old"), dependencies="Follow")
    await stage.patch("web", {"spec": {"targetDeployment": mounting("nginx:2", "new")}})
    second = await revision(stage)
    await say(stage, second, **{f"r{first}": ["m2"]})
    await stage.appears("m1", "new", kind=CONFIGMAPS)
    await stage.goes("m1", "old", kind=CONFIGMAPS)
    await settled(stage)
    assert await stage.on("m2", "old", kind=CONFIGMAPS) is not None
    assert await stage.on("m2", "new", kind=CONFIGMAPS) is None
    await say(stage, second)
    await stage.appears("m2", "new", kind=CONFIGMAPS)
    await stage.goes("m2", "old", kind=CONFIGMAPS)


@pytest.mark.proves("A9")
@pytest.mark.long
async def test_a_rollout_that_comes_with_a_new_template_finds_what_runs(stage: Stage):
    await stage.bring(
        "web", {"m1": 1, "m2": 1}, targetDeployment=deployment(image="nginx:1"), replicas=2
    )
    await stage.patch("web", {"spec": {"rollout": ROLLOUT}})
    present = await revision(stage)
    for member in ("m1", "m2"):
        await told(stage, member, present)  # the rollout came alone: nothing would change
    second = await edit(stage, "nginx:2")
    seen: dict[str, Any] = {}

    async def found() -> bool:
        seen.update(await stage.share("web", "m2"))
        return seen.get("revision") not in (None, present, second)

    await until(found, what=lambda: seen)
    await say(stage, second, **{"r" + seen["revision"]: ["m2"]})
    assert image_in(await runs(stage, "m1", "nginx:2"))
    await told(stage, "m1", second)

    async def keeps() -> bool:
        seen.update(await stage.share("web", "m2"))
        return "keeps what it runs until its wave" in seen.get("message", "")

    await until(keeps, what=lambda: seen)
    assert image_in(await stage.appears("m2")) == "nginx:1"
    await say(stage, second)
    await runs(stage, "m2", "nginx:2")


@pytest.mark.proves("A9")
async def test_a_rollout_that_comes_alone_finds_the_spec_beside_a_cluster_scoped_object(
    stage_on: MakeStage,
):
    """Its object has no namespace, and the spec gives it the Workload's."""
    rbac = "rbac.authorization.k8s.io"
    about = {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": "reads"}}
    async with stage_on() as stage:
        taken = {"spec": {"allowedKinds": [f"{rbac}/ClusterRole"]}}
        await stage.hub.merge_patch(MEMBER_CLUSTERS, "m1", taken)
        await until(lambda: stage.process.term.registry.get("m1").allowed_kinds)
        await stage.bring("web", {"m1": 1}, targetDeployment=deployment(), manifests=[about])
        await stage.patch("web", {"spec": {"rollout": ROLLOUT}})
        await told(stage, "m1", await revision(stage))
        await stage.end("web")
