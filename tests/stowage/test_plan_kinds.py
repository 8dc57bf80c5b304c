"""`stowage plan` tells, in the words of the kind, what an edit or letting go does to its pods."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from tests.kindsof import LEADER_WORKERS, RAY, SPARK

from .test_plan import Write, cluster, plan, run, shares, workload, write

__all__ = ["write"]

ROLLOUT: dict[str, Any] = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "Rollout",
    "metadata": {"name": "web"},
    "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "a"}]}}},
}


def placing(template: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": "it", "namespace": "shop"},
        "spec": {"template": template, **spec},
    }


def notes(write: Write, template: Any, before: Any = None, **spec: Any) -> list[str]:
    stored = [placing(before)] if before else []
    fleet = write("fleet.yaml", cluster("a", cpu=500), *stored)
    found: list[str] = plan(write("w.yaml", placing(template, **spec)), fleet)["it"].get(
        "notes", []
    )
    return found


@pytest.mark.proves("KD82")
@pytest.mark.parametrize("spec", [{"onDelete": "Orphan"}, {"adoption": "IfUnowned"}])
def test_plan_says_which_pods_lose_their_owner(write: Write, spec: Any) -> None:
    (said,) = notes(write, RAY, **spec)
    assert said == (
        "orphan: the new one says that it is ready and owns nothing, and the pods outlive it"
    )
    files = ("-f", write("w.yaml", placing(RAY, **spec)), "--fleet", write("f.yaml", cluster("a")))
    assert said in run("plan", *files).stdout
    (said,) = notes(write, SPARK, **spec)
    assert "its driver ends" in said
    assert notes(write, ROLLOUT, **spec) == [], "its controller takes its ReplicaSets up"
    assert notes(write, RAY) == []


@pytest.mark.proves("KD57")
def test_plan_says_what_an_edited_template_does(write: Write) -> None:
    edited = copy.deepcopy(RAY)
    edited["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["image"] = "ray:2"
    (said,) = notes(write, edited, RAY)
    assert said.startswith("edits: the edited template is not rolled out: pods that run keep")
    assert notes(write, RAY, RAY) == []
    sized = copy.deepcopy(LEADER_WORKERS)
    sized["spec"]["leaderWorkerTemplate"]["size"] = 5
    (said,) = notes(write, sized, LEADER_WORKERS)
    assert said == "edits: another size ends every group at once"
    faster = copy.deepcopy(SPARK)
    faster["spec"]["driver"]["cores"] = 2
    assert "anew" in notes(write, faster, SPARK)[0]


@pytest.mark.proves("KD17")
@pytest.mark.parametrize(("suspend", "others"), [(True, {"a": 8}), (False, {})])
def test_what_is_suspended_takes_no_room_from_others(
    write: Write, suspend: bool, others: dict[str, int]
) -> None:
    """As on a hub: it finds a cluster with room, and from then on asks for nothing."""
    pods = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
    spec = {"suspend": suspend, "template": {"spec": pods}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "it"}, "spec": spec}
    files = write("w.yaml", placing(job, priority=1), workload("web", replicas=8, cpu="1"))
    fleet = write("fleet.yaml", cluster("a", cpu=8))
    planned = plan(files, fleet)
    assert shares(planned["it"]) == {"a": 1}
    assert shares(planned["web"]) == others
    simulated = run("simulate", "-f", files, "--fleet", fleet, "-o", "json")
    found = {each["name"]: each for each in json.loads(simulated.stdout)["workloads"]}
    assert {c["cluster"]: c["replicas"] for c in found["web"]["after"]} == others
    full = plan(files, write("full.yaml", cluster("a", cpu="500m")))
    assert full["it"]["reason"] == "InsufficientCapacity"


CLONES: dict[str, Any] = {
    "apiVersion": "apps.kruise.io/v1alpha1",
    "kind": "CloneSet",
    "metadata": {"name": "db"},
    "spec": {
        "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
        "template": {"spec": {"containers": [{"name": "c", "image": "a"}]}},
    },
}


@pytest.mark.proves("KD48")
def test_plan_says_what_a_lower_number_deletes(write: Write) -> None:
    def planned(replicas: int, **spec: Any) -> dict[str, Any]:
        fleet = write("fleet.yaml", cluster("a", cpu=500), placing(CLONES, replicas=3))
        return plan(write("w.yaml", placing(CLONES, replicas=replicas, **spec)), fleet)["it"]

    assert planned(1)["notes"] == ["data: a CloneSet deletes the claims of the 2 that go"]
    assert "notes" not in planned(4)
    assert planned(0, movement={"data": "Leave"})["desired"] == 0
    postgres = {"apiVersion": "postgresql.cnpg.io/v1", "kind": "Cluster"}
    postgres |= {"metadata": {"name": "pg"}, "spec": {"instances": 3}}
    (said,) = notes(write, {**postgres, "spec": {"instances": 2}}, postgres)
    assert said == "edits: an instance that a lower number removes loses its claim"
    none = write("none.yaml", placing(CLONES, replicas=0))
    refused = run("plan", "-f", none, "--fleet", write("fleet.yaml", cluster("a")))
    assert "at 0 a CloneSet deletes its claims" in str(refused.exception)
    for spec, allowed in (({}, False), ({"movement": {"data": "Leave"}}, True)):
        gone = write("gone.yaml", placing({**postgres, "spec": {"instances": 0}}, **spec))
        refused = run("plan", "-f", gone, "--fleet", write("fleet.yaml", cluster("a", cpu=500)))
        assert (refused.exception is None) is allowed
        said = "spec.template: at 0 a Cluster deletes its claims and their data"
        assert (said in str(refused.exception)) is not allowed


def refused(write: Write, template: Any, **spec: Any) -> str:
    fleet = write("fleet.yaml", cluster("a", cpu=500))
    files = ("-f", write("w.yaml", placing(template, **spec)), "--fleet", fleet)
    return str(run("plan", *files).exception)


@pytest.mark.proves("KD58")
@pytest.mark.parametrize("path", ["spec.replicas", "spec.replicas.n"])
def test_a_number_of_replicas_is_no_ignored_field_wherever_its_profile_has_it(
    write: Write, path: str
) -> None:
    ignored = [{"paths": ["spec.paused", path]}]
    said = refused(write, ROLLOUT, ignoreFields=ignored)
    assert f"spec.ignoreFields: {path} is the number of replicas" in said
    ours = {"target": {"kind": "Rollout", "name": "other"}, "paths": ["spec.replicas"]}
    manifest = {**ROLLOUT, "metadata": {"name": "other"}}
    assert refused(write, ROLLOUT, ignoreFields=[ours], manifests=[manifest]) == "None"


@pytest.mark.proves("KD46")
def test_a_stateful_set_without_ordinals_of_its_own_is_not_divided_with_its_claims(
    write: Write,
) -> None:
    """Each cluster would have pods and claims of the same numbers."""
    body = {**CLONES, "apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet"}
    said = refused(write, body, distribution="Divided", replicas=3)
    assert "spec.distribution: a StatefulSet is not divided while" in said
    assert refused(write, body, replicas=3) == "None"
    alone = {**body, "spec": {"template": body["spec"]["template"]}}
    assert refused(write, alone, distribution="Divided", replicas=3) == "None"


def _group(template: Any, **more: Any) -> dict[str, Any]:
    return {"groupName": "g", "template": template, **more}


def _ray(*groups: Any) -> dict[str, Any]:
    return {**RAY, "spec": {**RAY["spec"], "workerGroupSpecs": [*groups]}}


@pytest.mark.proves("KD15")
@pytest.mark.parametrize(
    ("template", "said"),
    [
        (
            _ray(_group({}), _group("none")),
            "spec.template.spec.workerGroupSpecs[1].template: must be a mapping, and not 'none'",
        ),
        (
            _ray("none"),
            "spec.template.spec.workerGroupSpecs[0]: must be a mapping, and not 'none'",
        ),
        (_ray(_group({}), _group({}, replicas="3")), "spec.template.spec.workerGroupSpecs[1]: "),
        (
            _ray(_group({"spec": {"containers": [{"resources": {"requests": {"cpu": "x"}}}]}})),
            (
                "spec.template.spec.workerGroupSpecs[0].template.spec.containers[0].resources: "
                "not a quantity: 'x'"
            ),
        ),
        (
            {
                "apiVersion": "postgresql.cnpg.io/v1",
                "kind": "Cluster",
                "metadata": {"name": "pg"},
                "spec": {"instances": 1, "resources": {"requests": {"cpu": "x"}}},
            },
            "spec.template: pods[0].requests of its kind: not a quantity: 'x'",
        ),
    ],
    ids=["template", "group", "number", "quantity", "made"],
)
def test_pods_of_another_form_are_refused_with_their_place(
    write: Write, template: Any, said: str
) -> None:
    assert said in refused(write, template)
