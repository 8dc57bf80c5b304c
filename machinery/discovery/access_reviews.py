"""TokenReviews and SubjectAccessReviews: the hub's RBAC decides for callers and tenants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crds.names import GROUP, VERB_USE
from machinery.api.resources import SUBJECT_ACCESS_REVIEWS, Resource
from machinery.api.verbs import Verbs


async def review(client: Verbs, resource: Resource, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the status of a TokenReview or SubjectAccessReview. Raises TransportError."""
    question = {"apiVersion": resource.api_version, "kind": resource.kind, "spec": spec}
    answer: dict[str, Any] = (await client.create(resource, question)).get("status", {})
    return answer


async def allowed(client: Verbs, spec: Mapping[str, Any]) -> bool:
    status = await review(client, SUBJECT_ACCESS_REVIEWS, spec)
    return bool(status.get("allowed"))


async def namespace_may_use(
    client: Verbs,
    namespace: str,
    resource: str,
    name: str,
    *,
    verb: str = VERB_USE,
    group: str = GROUP,
) -> bool:
    """Whether a namespace has the verb on a resource of that name."""
    about = {"name": name} if name else {"namespace": namespace}
    attributes = {"group": group, "resource": resource, "verb": verb, **about}
    groups = [f"system:serviceaccounts:{namespace}"]
    return await allowed(client, {"groups": groups, "resourceAttributes": attributes})
