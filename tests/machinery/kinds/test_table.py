"""Which kind is which: the group decides, and no other module names one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crds.fields.template import APPS_KINDS, BATCH_KINDS, number_path
from machinery.kinds.builtin import CRON_JOB, DAEMON_SET, DEPLOYMENT, JOB, PROFILES, STATEFUL_SET
from machinery.kinds.profile import with_article
from machinery.kinds.table import known_kind, profile_of, profile_of_main

ROOT = Path(__file__).resolve().parents[3]
# Rollout and Cluster are words of this project as well.
WORKLOAD_KINDS = frozenset(each.kind for each in PROFILES if each.pods) | {
    *("ReplicationController", "CloneSet", "LeaderWorkerSet", "JobSet", "RayCluster"),
    *("RayJob", "RayService", "FlinkDeployment", "SparkApplication", "PyTorchJob", "TFJob"),
    *("MPIJob", "TrainJob", "InferenceService", "HelmRelease", "ScaledObject"),
}


@pytest.mark.proves("KD2")
@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("example.com/v1beta1", "StatefulSet"),
        ("apps.kruise.io/v1", "StatefulSet"),
        ("example.com/v1", "Deployment"),
        ("apps/v1beta1", "Deployment"),
        ("v1", "Deployment"),
        ("apps/v1", "CloneSet"),
    ],
)
def test_a_kind_of_another_group_or_version_is_another_kind(api_version: str, kind: str) -> None:
    found = profile_of(api_version, kind)
    assert not found.known
    assert (found.replicas, found.pods, found.once, found.ended) == (None, (), False, None)
    assert profile_of(api_version, kind) is found, "profiles are compared by identity"
    assert profile_of(api_version, kind, "spec.size").replicas_path == "spec.size"


@pytest.mark.parametrize(
    ("api_version", "kind"), [(None, "Job"), ("batch/v1", ["Job"]), (7, None), ("", ""), ("/", "")]
)
def test_what_names_no_kind_is_unknown(api_version: Any, kind: Any) -> None:
    assert not profile_of(api_version, kind).known


@pytest.mark.parametrize(
    "told",
    [
        *("a Deployment", "a Rollout", "a TFJob", "a UnitedDeployment", "a User"),
        *("an Ingress", "an Odd", "an HTTPRoute", "an MPIJob", "an XGBoostJob", "an Upgrade"),
    ],
)
def test_a_kind_has_the_article_that_is_spoken(told: str) -> None:
    assert with_article(told.split()[1]) == told


@pytest.mark.proves("KD2")
def test_each_built_in_kind_has_its_profile() -> None:
    assert profile_of("apps/v1", "StatefulSet") is STATEFUL_SET
    assert profile_of("batch/v1", "Job", "spec.other") is JOB
    assert known_kind("apps", "DaemonSet") is DAEMON_SET
    assert profile_of_main({"targetDeployment": {"kind": "odd"}}) is DEPLOYMENT
    assert profile_of_main({"template": {"apiVersion": "batch/v1", "kind": "CronJob"}}) is CRON_JOB
    assert profile_of("rbac.authorization.k8s.io/v1", "Role").ready.exists


def test_the_schema_says_of_built_in_kinds_what_the_table_says() -> None:
    pairs = [("apps/v1", each) for each in APPS_KINDS] + [
        ("batch/v1", each) for each in BATCH_KINDS
    ]
    for api_version, kind in pairs:
        found = profile_of(api_version, kind)
        assert found.known
        assert found.replicas_path == number_path(api_version, kind)


@pytest.mark.proves("KD9")
def test_no_string_of_both_processes_is_the_name_of_a_workload_kind() -> None:
    assert {"Deployment", "Job", "CronJob", "DaemonSet"} <= WORKLOAD_KINDS
    named = [
        f"{path}: {text}"
        for folder in ("controller", "propagator")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for text in _strings(path)
        if text in WORKLOAD_KINDS
    ]
    assert not named, "only machinery/kinds/ knows kinds"


def _strings(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
