"""What an API server takes in a moment after it has stored it: rights, admission policies, kinds.

Its authorizer, its admission plugins and its discovery hear of objects by watches of their own. A
test that asks in the same breath meets what was before; so whoever writes such a thing waits here
until the server goes by it. What is refused all the same can be asserted after that.
"""

from __future__ import annotations

import functools
import json
from contextlib import suppress
from typing import Any

from machinery.api.client import ApiClient
from machinery.api.resources import WORKLOADS, Resource
from machinery.errors import NotFound
from stowage.playground.cluster import Cluster
from tests.patience import hold_on, until

_PLAIN = {
    "apiVersion": "stowage.dev/v1alpha1",
    "kind": "Workload",
    "metadata": {"name": "canary", "namespace": "default"},
    "spec": {"targetDeployment": {"apiVersion": "apps/v1", "kind": "Deployment"}},
}
_REFUSED = _PLAIN | {"metadata": {"name": "canary", "namespace": "kube-system"}}
_COMPLETED = _PLAIN | {"spec": _PLAIN["spec"] | {"schedulerName": ""}}


def may(cluster: Cluster, user: str, verb: str, resource: str, **attributes: str) -> bool:
    """Whether that user may do so by now. `attributes` are group, namespace, name, subresource."""
    service_account = user.startswith("system:serviceaccount:")
    groups = ["system:serviceaccounts"] if service_account else []
    about = {"verb": verb, "resource": resource, **attributes}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": user,
            "groups": [*groups, "system:authenticated"],
            "resourceAttributes": about,
        },
    }
    answer = cluster.kubectl("create", "-f", "-", "-o", "json", input=json.dumps(review))
    return bool(json.loads(answer)["status"]["allowed"])


def until_may(cluster: Cluster, user: str, verb: str, resource: str, **attributes: str) -> None:
    """Return once the authorizer has heard of that right."""
    hold_on(lambda: may(cluster, user, verb, resource, **attributes))


def until_judging(cluster: Cluster, kinds: set[str]) -> None:
    """Return once both admission policies judge Workloads, and discovery knows our kinds."""
    seen: dict[str, str] = {}

    def judged() -> bool:
        create = ("create", "--dry-run=server", "-o", "json", "-f", "-")
        for name, body in (("refused", _REFUSED), ("completed", _COMPLETED)):
            seen[name] = cluster.kubectl(*create, input=json.dumps(body), check=False)
        refused = "never a target" in seen["refused"]
        return refused and '"schedulerName": "stowage"' in seen["completed"]

    def discovered() -> bool:
        group = "--api-group=stowage.dev"
        seen["kinds"] = cluster.kubectl("api-resources", group, "-o", "name", check=False)
        return kinds <= set(seen["kinds"].split())

    hold_on(discovered, seconds=60, what=lambda: seen)
    hold_on(judged, seconds=60, what=lambda: seen)


async def served(client: ApiClient, *kinds: Resource) -> None:
    """Return once these are served: a moment after their definitions are said to be established."""

    async def listed(kind: Resource) -> bool:
        with suppress(NotFound):
            await client.list(kind)
            return True
        return False

    for kind in kinds:
        await until(functools.partial(listed, kind))


async def completed(client: ApiClient) -> None:
    """Return once the mutating policy fills in what a Workload lacks."""

    async def so() -> bool:
        made = await client.create(WORKLOADS, _COMPLETED, dry_run=True)
        return bool(made["spec"]["schedulerName"])

    await until(so)


def crd_names(manifests: list[dict[str, Any]]) -> set[str]:
    """The kinds among them, as discovery names them: `workloads.stowage.dev`."""
    kinds = [each for each in manifests if each["kind"] == "CustomResourceDefinition"]
    return {each["metadata"]["name"] for each in kinds}
