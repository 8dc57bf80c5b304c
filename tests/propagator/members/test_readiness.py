"""What the counts of an object tell of its older pods."""

from __future__ import annotations

from typing import Any

import pytest

from machinery.types.metadata import Meta
from propagator.members.objects import ManagedObject
from propagator.members.readiness import lasting_of, readiness_of


def shown(**status: Any) -> ManagedObject:
    return ManagedObject(metadata=Meta(generation=2), status={"observedGeneration": 2, **status})


@pytest.mark.proves("T2", "O13")
@pytest.mark.parametrize(
    ("status", "updated", "outdated"),
    [
        ({"replicas": 2, "readyReplicas": 1, "updatedReplicas": 1}, 1, 1),
        ({"replicas": 5, "readyReplicas": 4, "updatedReplicas": 2}, 2, 3),
        ({"replicas": 4, "readyReplicas": 4, "updatedReplicas": 4}, 4, 0),
        ({"replicas": 4, "readyReplicas": 4}, 0, 4),
    ],
)
def test_an_old_pod_is_not_taken_for_a_new_one_that_is_ready(
    status: Any, updated: int, outdated: int
) -> None:
    found = readiness_of("Deployment", shown(**status), 4)
    assert (found.updated, found.outdated) == (updated, outdated)


def test_nothing_is_known_of_a_template_that_was_not_observed_yet() -> None:
    counts = {"replicas": 2, "readyReplicas": 2, "updatedReplicas": 2, "observedGeneration": 1}
    assert readiness_of("Deployment", shown(**counts), 2).updated == 0


ROLLING = {"replicas": 3, "readyReplicas": 3, "updatedReplicas": 1}
PAUSED = {"type": "Progressing", "status": "Unknown", "reason": "DeploymentPaused"}
GIVEN_UP = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}
AT_WORK = {"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated"}


@pytest.mark.proves("M17")
@pytest.mark.parametrize(
    ("kind", "status", "lasting"),
    [
        pytest.param("Deployment", ROLLING, 1, id="a rollout"),
        pytest.param("Deployment", {**ROLLING, "conditions": [AT_WORK]}, 1, id="that goes on"),
        pytest.param("Deployment", {**ROLLING, "conditions": [PAUSED]}, 3, id="that is paused"),
        pytest.param("Deployment", {**ROLLING, "conditions": [GIVEN_UP]}, 3, id="that failed"),
        pytest.param("Deployment", {**ROLLING, "observedGeneration": 1}, 1, id="and more asked"),
        pytest.param("Deployment", {**ROLLING, "updatedReplicas": 3}, 3, id="no rollout"),
        pytest.param("Deployment", {**ROLLING, "readyReplicas": 1}, 0, id="none of them for sure"),
        pytest.param("StatefulSet", ROLLING, 3, id="may keep old ones for good"),
    ],
)
def test_a_replica_that_a_rollout_replaces_does_not_last(
    kind: str, status: Any, lasting: int
) -> None:
    main = shown(**status)
    assert lasting_of(kind, main, readiness_of(kind, main, 3)) == lasting
