"""A Workload in the middle of its rollout, as the controller would have written its status."""

from __future__ import annotations

import copy
from typing import Any

from machinery.kinds.revisions import digest_of, revision_data

STABLE = "91ab000000000000"
SINCE = "2026-01-02T03:00:00Z"
WAVES: list[dict[str, Any]] = [
    {
        "name": "canary",
        "clusterSelector": {"matchLabels": {"tier": "canary"}},
        "maxConcurrent": 2,
        "soakSeconds": 600,
    },
    {
        "name": "eu",
        "clusterSelector": {"matchLabels": {"region": "eu"}},
        "maxConcurrent": "30%",
        "approval": True,
    },
]
TOLD: list[dict[str, Any]] = [
    {"name": "canary", "clusters": 2, "healthy": 2, "startTime": SINCE, "endTime": SINCE},
    {
        "name": "eu",
        "clusters": 10,
        "healthy": 4,
        "updating": ["member-5", "member-6", "member-7"],
        "deferred": ["member-9"],
        "startTime": SINCE,
    },
    {"name": "rest", "clusters": 30},
]


def template(image: str = "app:2") -> dict[str, Any]:
    pods = {"containers": [{"name": "main", "image": image}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": pods},
        },
    }


def staged(phase: str = "Progressing", *, wave: str = "eu", **spec: Any) -> dict[str, Any]:
    """The Workload shop/web; `spec` are fields of spec.rollout."""
    body: dict[str, Any] = {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": "web", "namespace": "shop", "generation": 7},
        "spec": {
            "replicas": 80,
            "targetDeployment": template(),
            "rollout": {"waves": copy.deepcopy(WAVES), **spec},
        },
    }
    body["status"] = {
        "rollout": told(body, phase, wave=wave),
        "conditions": [
            {
                "type": "RolledOut",
                "status": str(phase == "Complete"),
                "reason": "HealthCheckFailed" if phase == "Failed" else phase,
                "observedGeneration": 7,
            }
        ],
    }
    return body


def told(body: dict[str, Any], phase: str, *, wave: str = "eu", **more: Any) -> dict[str, Any]:
    """status.rollout of the Workload's present revision."""
    own = revision(body)
    if phase == "Complete":
        return {"phase": phase, "revision": own, "stable": own, "waves": [], **more}
    return {
        "phase": phase,
        "revision": own,
        "stable": STABLE,
        "wave": wave,
        "waves": copy.deepcopy(TOLD),
        "message": "member-7: 2 of 4 replicas are Ready",
        **more,
    }


def revision(body: dict[str, Any]) -> str:
    return digest_of(revision_data(body["spec"]))
