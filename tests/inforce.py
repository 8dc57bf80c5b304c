"""Waits for what an API server takes in after it has stored it: rights, policies, kinds.

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
from machinery.errors import NotFound, ServerError
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


def attributes(what: str) -> dict[str, Any]:
    """Verb, resource[.group][/name] and options, as `kubectl auth can-i` takes them, for a review."""
    verb, resource, *options = what.split()
    if resource.startswith("/"):
        return {"nonResourceAttributes": {"verb": verb, "path": resource}}
    target, _, name = resource.partition("/")
    plural, _, group = target.partition(".")
    found = {"verb": verb, "resource": plural, "group": group, "name": name}
    while options:
        option, _, value = options.pop(0).partition("=")
        if option == "--subresource":
            found["subresource"] = value
        elif option == "-n":
            found["namespace"] = options.pop(0)
        else:
            assert option == "-A", option
    return {"resourceAttributes": found}


def review_of(user: str, what: str) -> dict[str, Any]:
    """A SubjectAccessReview: whether that user or service account may do so."""
    groups = ["system:authenticated"]
    if user.startswith("system:serviceaccount:"):
        namespace = user.split(":")[2]
        groups += ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "groups": groups, **attributes(what)},
    }


def until_may(cluster: Cluster, user: str, what: str) -> None:
    """Return once the authorizer has heard of that right, told as for `kubectl auth can-i`."""
    review = json.dumps(review_of(user, what))

    def allowed() -> bool:
        answer = cluster.kubectl("create", "-f", "-", "-o", "json", input=review)
        return bool(json.loads(answer)["status"]["allowed"])

    hold_on(allowed)


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
    """Return once the mutating policy fills in what a Workload lacks.

    For seconds after its start an API server refuses Workloads: its admission knows no such kind.
    """

    async def so() -> bool:
        with suppress(ServerError):
            made = await client.create(WORKLOADS, _COMPLETED, dry_run=True)
            return bool(made["spec"]["schedulerName"])
        return False

    await until(so)


def crd_names(manifests: list[dict[str, Any]]) -> set[str]:
    """The kinds among them, as discovery names them: `workloads.stowage.dev`."""
    kinds = [each for each in manifests if each["kind"] == "CustomResourceDefinition"]
    return {each["metadata"]["name"] for each in kinds}
