"""What the profile of a kind makes of the object that a member shows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crds.fields.shares import ShareHealth
from machinery.kinds.builtin import (
    CRON_JOB,
    DAEMON_SET,
    DEPLOYMENT,
    JOB,
    REPLICA_SET,
    STATEFUL_SET,
)
from machinery.kinds.profile import Profile
from machinery.kinds.readiness import Judged, Readiness, Result, available_in, counts_of, judge
from machinery.kinds.table import profile_of

WIDGET = profile_of("example.com/v1", "Widget", "spec.size")
CONFIG_MAP = profile_of("v1", "ConfigMap")


def judged(profile: Profile, status: Any, spec: Any = None, **more: Any) -> Judged:
    return judge(profile, {"spec": spec or {}, "status": status}, **{"generation": 2, **more})


def counts(profile: Profile, asked: int, spec: Any = None, **status: Any) -> Readiness:
    return counts_of(judged(profile, {"observedGeneration": 2, **status}, spec), asked)


def holding(*kinds: str, status: str = "True", **more: Any) -> dict[str, Any]:
    return {"conditions": [{"type": each, "status": status} for each in kinds], **more}


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
    found = counts(DEPLOYMENT, 4, **status)
    assert (found.updated, found.outdated) == (updated, outdated)


def test_nothing_is_known_of_a_template_that_was_not_observed_yet() -> None:
    status = {"replicas": 2, "readyReplicas": 2, "updatedReplicas": 2, "observedGeneration": 1}
    found = counts(DEPLOYMENT, 2, **status)
    assert (found.ready, found.updated, found.observed) == (2, 0, False)


ROLLING = {"replicas": 3, "readyReplicas": 3, "updatedReplicas": 1}
PAUSED = {"type": "Progressing", "status": "Unknown", "reason": "DeploymentPaused"}
GIVEN_UP = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}
AT_WORK = {"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated"}


@pytest.mark.proves("M17")
@pytest.mark.parametrize(
    ("profile", "status", "lasting"),
    [
        pytest.param(DEPLOYMENT, ROLLING, 1, id="a rollout"),
        pytest.param(DEPLOYMENT, {**ROLLING, "conditions": [AT_WORK]}, 1, id="that goes on"),
        pytest.param(DEPLOYMENT, {**ROLLING, "conditions": [PAUSED]}, 3, id="that is paused"),
        pytest.param(DEPLOYMENT, {**ROLLING, "conditions": [GIVEN_UP]}, 3, id="that failed"),
        pytest.param(DEPLOYMENT, {**ROLLING, "observedGeneration": 1}, 1, id="and more asked"),
        pytest.param(DEPLOYMENT, {**ROLLING, "updatedReplicas": 3}, 3, id="no rollout"),
        pytest.param(DEPLOYMENT, {**ROLLING, "readyReplicas": 1}, 0, id="none for sure"),
        pytest.param(STATEFUL_SET, ROLLING, 3, id="may keep old ones for good"),
    ],
)
def test_a_replica_that_a_rollout_replaces_does_not_last(
    profile: Profile, status: Any, lasting: int
) -> None:
    assert counts(profile, 3, **status).lasting == lasting


@pytest.mark.proves("G25", "G26", "L6")
@pytest.mark.parametrize(
    ("profile", "status", "completions", "told"),
    [
        (JOB, {"ready": 3}, None, (3, 0, 0)),
        (JOB, {"ready": 1, "succeeded": 2, "failed": 4}, None, (3, 2, 0)),
        (JOB, {"ready": 3, "succeeded": 5}, 10, (3, 0, 0)),
        (JOB, {"ready": 1, "succeeded": 9}, 10, (3, 2, 0)),
        (JOB, {"ready": 1, "succeeded": 1}, 2, (2, 1, 0)),
        (JOB, {"succeeded": 9}, None, (3, 3, 0)),
        (JOB, holding("Complete", succeeded=1), None, (3, 3, 0)),
        (JOB, holding("Failed", succeeded=1, failed=6), None, (1, 1, 2)),
        (JOB, holding("Failed", failed=6), None, (0, 0, 3)),
        (JOB, holding("Failed", status="False"), None, (0, 0, 0)),
        (DEPLOYMENT, holding("Failed", succeeded=3, readyReplicas=2), None, (2, 0, 0)),
        (WIDGET, holding("Succeeded", "Complete", phase="Succeeded"), None, (0, 0, 0)),
    ],
)
def test_how_units_ended_is_told(
    profile: Profile, status: dict[str, Any], completions: int | None, told: tuple[int, int, int]
) -> None:
    """Pods that a Job makes anew are no failed units, and one that ended may make room for more."""
    said = counts(profile, 3, {"completions": completions}, **status)
    assert (said.ready, said.succeeded, said.failed) == told
    assert said.finished == said.succeeded + said.failed


def test_the_end_of_a_job_is_kept_with_the_words_of_its_member() -> None:
    said = {"type": "Failed", "status": "True", "message": "Job has reached\nits limit"}
    found = judged(JOB, {"conditions": [said]})
    assert (found.result, found.health, found.message) == (
        Result.FAILED,
        ShareHealth.DEGRADED,
        "Job has reached its limit",
    )
    assert judged(JOB, holding("Complete"), deleting=True).result is Result.SUCCEEDED
    assert judged(JOB, holding("Complete")).health is ShareHealth.HEALTHY


@pytest.mark.proves("KD35", "KD36")
@pytest.mark.parametrize(
    ("status", "health"),
    [
        ({}, ShareHealth.UNKNOWN),
        (None, ShareHealth.UNKNOWN),
        ({"readyReplicas": 3, "replicas": 3, "phase": "Running"}, ShareHealth.UNKNOWN),
        (holding("Ready"), ShareHealth.HEALTHY),
        (holding("Ready", status="False"), ShareHealth.PROGRESSING),
        (holding("Ready", status="Unknown"), ShareHealth.PROGRESSING),
        (holding("Available", status="False"), ShareHealth.PROGRESSING),
        (holding("Ready", observedGeneration=1), ShareHealth.PROGRESSING),
        (holding("Ready", observedGeneration="1"), ShareHealth.PROGRESSING),
        (holding("Ready", observedGeneration="2"), ShareHealth.HEALTHY),
        (holding("Ready", "Stalled"), ShareHealth.DEGRADED),
        (holding("Ready", "Reconciling"), ShareHealth.PROGRESSING),
        (
            {"conditions": [{"type": "Ready", "status": "True", "observedGeneration": 1}]},
            ShareHealth.UNKNOWN,
        ),
    ],
)
def test_a_kind_without_a_profile_is_ready_by_its_condition_alone(
    status: Any, health: ShareHealth
) -> None:
    found = counts_of(judged(WIDGET, status), 3)
    assert found.health is health
    assert (found.ready, found.lasting) == ((3, 3) if health is ShareHealth.HEALTHY else (0, 0))


@pytest.mark.proves("KD39")
def test_a_kind_that_says_nothing_by_its_nature_is_ready_when_it_exists() -> None:
    found = counts_of(judged(CONFIG_MAP, None), 1)
    assert (found.ready, found.lasting, found.health) == (1, 1, ShareHealth.HEALTHY)
    assert counts_of(judged(CONFIG_MAP, None, deleting=True), 1).ready == 0
    assert counts_of(None, 1).ready == 0


def test_an_object_that_is_being_deleted_is_not_ready() -> None:
    assert counts_of(judged(WIDGET, holding("Ready"), deleting=True), 3).ready == 0
    assert judged(DEPLOYMENT, ROLLING, deleting=True).lasting == 0


def test_a_daemon_set_that_no_node_takes_is_ready_and_stands_in_for_nothing() -> None:
    empty = counts(DAEMON_SET, 1, desiredNumberScheduled=0, numberReady=0)
    assert (empty.ready, empty.lasting, empty.health) == (1, 0, ShareHealth.HEALTHY)
    runs = counts(DAEMON_SET, 1, desiredNumberScheduled=2, numberReady=2, updatedNumberScheduled=2)
    assert (runs.ready, runs.lasting, runs.outdated) == (1, 1, 0)
    old = counts(DAEMON_SET, 1, desiredNumberScheduled=3, numberReady=3, updatedNumberScheduled=2)
    assert old.outdated == 1
    unseen = counts_of(judged(DAEMON_SET, {"desiredNumberScheduled": 0}), 1)
    assert unseen.ready == 0, "its controller has not looked at it"


def test_a_suspended_job_is_told_as_such() -> None:
    found = judged(JOB, {}, {"suspend": True, "completions": 3})
    assert (found.health, found.total) == (ShareHealth.SUSPENDED, 3)
    assert judged(JOB, {}, {"suspend": "yes"}).health is ShareHealth.HEALTHY


def test_a_deployment_beyond_its_deadline_is_degraded() -> None:
    found = counts(DEPLOYMENT, 3, **{**ROLLING, "conditions": [GIVEN_UP]})
    assert found.health is ShareHealth.DEGRADED


@pytest.mark.parametrize(
    ("profile", "spec", "replicas"),
    [
        (DEPLOYMENT, {"replicas": 3}, 3),
        (STATEFUL_SET, {"replicas": 3}, 3),
        (REPLICA_SET, {}, None),
        (REPLICA_SET, {"replicas": "3"}, None),
        (JOB, {"parallelism": 3}, None),
        (WIDGET, {"size": 3}, None),
    ],
)
def test_the_number_in_a_spec_is_that_of_a_kind_that_scales(
    profile: Profile, spec: Any, replicas: int | None
) -> None:
    assert judged(profile, {}, spec).replicas == replicas


@pytest.mark.proves("M10")
@pytest.mark.parametrize(
    ("profile", "status", "pods", "seen", "wanted"),
    [
        (DEPLOYMENT, {"readyReplicas": 3}, 2, 3, 2),
        (DEPLOYMENT, {"readyReplicas": 1}, 2, 3, 1),
        (DEPLOYMENT, {"readyReplicas": 3}, 0, 0, 0),
        (JOB, {"ready": 1, "succeeded": 2}, 0, 1, 2),
        (DAEMON_SET, {"numberReady": 2, "desiredNumberScheduled": 2}, 1, 2, 0),
        (DAEMON_SET, {"numberReady": 2, "desiredNumberScheduled": 2}, 2, 2, 1),
        (CRON_JOB, {}, 0, 0, 3),
        (WIDGET, holding("Ready"), 0, 0, 3),
        (WIDGET, holding("Ready"), 1, 3, 1),
    ],
)
def test_each_kind_has_its_available_replicas(
    profile: Profile, status: dict[str, Any], pods: int, seen: int, wanted: int
) -> None:
    found = judged(profile, {"observedGeneration": 2, **status})
    readiness = counts_of(found, 3)
    assert available_in(profile, found, readiness, pods=pods, seen=seen) == wanted
    assert available_in(profile, None, readiness, pods=pods, seen=seen) == 0


NUMBER = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBER | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)
SAID = ("type", "status", "reason", "message", "observedGeneration")
CONDITIONS = st.lists(
    st.dictionaries(st.sampled_from(SAID), JSON | st.sampled_from(["Ready", "True", "Failed"]))
    | JSON
)
COUNTS = (
    *("readyReplicas", "replicas", "updatedReplicas", "numberReady", "desiredNumberScheduled"),
    *("ready", "succeeded", "observedGeneration"),
)


@pytest.mark.proves("S10")
@settings(deadline=None)
@given(
    st.sampled_from([DEPLOYMENT, STATEFUL_SET, DAEMON_SET, JOB, CRON_JOB, WIDGET, CONFIG_MAP]),
    st.dictionaries(st.sampled_from(COUNTS), JSON) | JSON,
    CONDITIONS | JSON,
    JSON,
)
def test_whatever_a_member_says_is_judged_within_bounds(
    profile: Profile, status: Any, conditions: Any, spec: Any
) -> None:
    if isinstance(status, dict):
        status["conditions"] = conditions
    found = judge(profile, {"spec": spec, "status": status}, generation=2)
    told = counts_of(found, 3)
    for number in (told.ready, told.updated, told.succeeded, told.failed, told.outdated):
        assert 0 <= number <= 2**31 - 1
    assert told.lasting <= told.ready
    assert json.dumps(found.message).isprintable()
    assert len(found.message) <= 4096
