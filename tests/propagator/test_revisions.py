"""Which revision each member runs while a rollout goes on, on real API servers.

The test plays the controller of the hub: it says which cluster gets which revision.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from machinery.api.resources import MEMBER_CLUSTERS
from machinery.kinds.revisions import digest_of, revision_data
from tests.propagator.stage import (
    MakeStage,
    Stage,
    deployment,
)
from tests.propagator.waits import until

ROLLOUT = {"waves": [{"name": "canary", "clusterSelector": {"matchLabels": {"tier": "canary"}}}]}


async def revision(stage: Stage) -> str:
    """The revision of the spec as the hub has it now."""
    found = await stage.workload("web")
    assert found is not None
    return digest_of(revision_data(found["spec"]))


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
