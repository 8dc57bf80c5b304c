"""Objects that were copied from a cluster, on real members: applied once, and left alone then."""

from __future__ import annotations

from typing import Any

import pytest

from machinery.api.resources import SERVICE_ACCOUNTS, Resource
from tests.propagator.stage import DEPLOYMENTS, SERVICES, Stage, deployment, settled
from tests.propagator.waits import until

JOBS = Resource("batch", "v1", "jobs", "Job")
ACCOUNT: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ServiceAccount",
    "metadata": {"name": "runner"},
    "imagePullSecrets": [{"name": "regcred"}],
    "secrets": [{"name": "token-7"}],
}
SERVICE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "front"},
    "spec": {"clusterIP": "10.255.255.7", "clusterIPs": ["10.255.255.7"], "ports": [{"port": 80}]},
}


def copied_job() -> dict[str, Any]:
    labels = {"batch.kubernetes.io/controller-uid": "u-7", "controller-uid": "u-7"}
    pods = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "pause"}]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "bill", "labels": labels},
        "spec": {
            "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "u-7"}},
            "template": {"metadata": {"labels": labels}, "spec": pods},
        },
    }


async def _versions(stage: Stage) -> list[str]:
    """Wait until nothing is left to do; the versions of all objects."""
    await settled(stage)
    where = (DEPLOYMENTS, "web"), (SERVICES, "front"), (SERVICE_ACCOUNTS, "runner"), (JOBS, "bill")
    found = [await stage.appears("m1", name, kind=kind) for kind, name in where]
    return [each["metadata"]["resourceVersion"] for each in found]


@pytest.mark.proves("KD54", "KD55")
async def test_what_was_copied_is_applied_once_and_what_a_member_adds_stands(
    stage: Stage,
) -> None:
    web = deployment()
    web["metadata"]["annotations"] = {"deployment.kubernetes.io/revision": "7"}
    await stage.create("web", targetDeployment=web, manifests=[SERVICE, ACCOUNT])
    await stage.create("bill", template=copied_job())
    for name in ("web", "bill"):
        await stage.place(name, m1=1)
        await stage.propagated(name)
    before = await _versions(stage)

    async def pulls(*names: str) -> bool:
        found = await stage.appears("m1", "runner", kind=SERVICE_ACCOUNTS)
        return sorted(each["name"] for each in found["imagePullSecrets"]) == sorted(names)

    both = [{"name": "regcred"}, {"name": "dockercfg"}]
    where: Any = {"namespace": stage.namespace}
    member = stage.members["m1"]
    await member.merge_patch(SERVICE_ACCOUNTS, "runner", {"imagePullSecrets": both}, **where)
    stood = await _versions(stage)
    assert await pulls("regcred", "dockercfg")
    assert [a == b for a, b in zip(before, stood, strict=True)] == [True, True, False, True]
    await stage.restarted()
    assert await _versions(stage) == stood, "nobody fights"
    assert not (await stage.status("web")).get("drift")
    edited = {**ACCOUNT, "imagePullSecrets": [{"name": "other"}]}
    await stage.patch("web", {"spec": {"manifests": [SERVICE, edited]}})
    await until(lambda: pulls("other", "dockercfg"))
