"""A rollout that a member's Deployment controller has given up, as a scale of it is seen."""

from __future__ import annotations

from typing import Any

import pytest

from crds.fields.shares import ShareHealth
from propagator.members.objects import ManagedObject, after, managed
from tests.propagator.stage import DEPLOYMENTS

GIVEN_UP = {
    "type": "Progressing",
    "status": "False",
    "reason": "ProgressDeadlineExceeded",
    "message": 'ReplicaSet "web-2" has timed out progressing.',
}
GOES_ON = {"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated"}


def seen(
    progress: dict[str, Any],
    *,
    revision: str = "2",
    uid: str = "1",
    generation: int = 5,
    observed: int = 5,
    updated: int = 1,
) -> ManagedObject:
    """Three old pods are ready, and new ones are not."""
    return managed(
        DEPLOYMENTS,
        {
            "metadata": {
                "name": "web",
                "uid": uid,
                "generation": generation,
                "annotations": {"deployment.kubernetes.io/revision": revision},
            },
            "spec": {"replicas": 3},
            "status": {
                "observedGeneration": observed,
                "replicas": 4,
                "readyReplicas": 3,
                "updatedReplicas": updated,
                "conditions": [progress],
            },
        },
    )


@pytest.mark.proves("RB15")
def test_what_was_given_up_stays_so_while_it_is_scaled_until_its_template_changes() -> None:
    lost = seen(GIVEN_UP)
    assert (lost.judged.health, lost.judged.lasting) == (ShareHealth.DEGRADED, 3)
    fresh = seen(GOES_ON)
    assert (fresh.judged.given_up, fresh.judged.lasting) == (False, 0), "what a scale shows"

    asked = after(lost, seen(GIVEN_UP, generation=6))  # the controller has not looked yet
    scaled = after(asked, seen(GOES_ON, generation=6, observed=6))
    assert (scaled.judged.health, scaled.judged.lasting) == (ShareHealth.DEGRADED, 3)
    assert scaled.judged.message == GIVEN_UP["message"]
    assert after(scaled, seen(GOES_ON)).judged.given_up, "each time that it is seen"

    edited = after(scaled, seen(GOES_ON, revision="3"))
    assert (edited.judged.given_up, edited.judged.lasting) == (False, 0)
    assert not after(scaled, seen(GOES_ON, uid="2")).judged.given_up, "another Deployment"
    done = after(scaled, seen(GOES_ON, updated=4))
    assert not done.judged.given_up, "it has come through after all"
    assert not after(None, seen(GOES_ON)).judged.given_up
