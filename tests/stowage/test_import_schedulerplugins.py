"""PodGroups of scheduler-plugins, imported: the gang, its members, and what cannot be kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.stowage.importing import (
    POD_GROUP_LABEL,
    POD_GROUPS,
    Files,
    deployment,
    ganged,
    pod,
    pod_group,
    policy,
    run,
    runs,
    spread,
    subset,
)

pytestmark = pytest.mark.proves("G1", "G2")
ROOT = Path(__file__).parents[2]
OLDER = "scheduling.sigs.k8s.io"
OLDER_LABEL = f"pod-group.{OLDER}"
OURS = "stowage.dev/workload-group"
GANG = "gang.scheduling.koordinator.sh"
WITHIN = {"topologyKey": "stowage.dev/cluster", "mode": "Required"}


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def made(files: Files, *objects: Any, lossy: bool = False) -> dict[str, Any]:
    return files.imported(*objects, lossy=lossy)["WorkloadGroup/batch"]["spec"]


# --- the group ------------------------------------------------------------------------------------


@pytest.mark.parametrize("of", [POD_GROUPS, OLDER])
def test_a_pod_group_of_either_api_group_becomes_a_workload_group(files: Files, of: str) -> None:
    given = pod_group(of=of, minResources={"cpu": "12", "memory": "1Gi"}, scheduleTimeoutSeconds=10)
    given["status"] = {"phase": "Running", "running": 4}
    given["metadata"]["labels"] = {"team": "a"}
    found = files.imported(given)
    assert found == {
        "WorkloadGroup/batch": {
            "apiVersion": "stowage.dev/v1alpha1",
            "kind": "WorkloadGroup",
            "metadata": {"name": "batch", "namespace": "shop", "labels": {"team": "a"}},
            "spec": {
                "minMember": 4,
                "minResources": {"cpu": "12", "memory": "1Gi"},
                "scheduleTimeoutSeconds": 10,
                "topology": WITHIN,
            },
        }
    }
    within, status = files.notes(given)
    assert within.startswith("note: PodGroup batch: is one cluster there, and spec.topology")
    assert status.startswith("note: PodGroup batch: status: ")


@pytest.mark.parametrize(
    ("given", "seconds", "said"),
    [
        (None, None, ""),
        (1, 1, ""),
        (900, 900, ""),
        (901, 900, "901 is 900 now, the longest that replicas are held"),
        (86400, 900, "86400 is 900 now"),
        (0, 1, "0 gave up at once; it is 1 now"),
        (-5, 1, "-5 gave up at once; it is 1 now"),
    ],
)
def test_the_time_is_one_that_units_may_be_held(
    files: Files, given: int | None, seconds: int | None, said: str
) -> None:
    given_group = pod_group(scheduleTimeoutSeconds=given)
    assert made(files, given_group).get("scheduleTimeoutSeconds") == seconds
    notes = [note for note in files.notes(given_group) if "spec.scheduleTimeoutSeconds" in note]
    assert len(notes) == bool(said)
    assert not said or said in notes[0]


@pytest.mark.parametrize("number", [None, 0])
def test_a_group_that_waits_for_nobody_waits_for_one(files: Files, number: int | None) -> None:
    given = pod_group(minMember=number)
    assert made(files, given)["minMember"] == 1
    assert any("spec.minMember: 0, or none, waits for nobody" in n for n in files.notes(given))


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"minMember": "4"}, "spec.minMember: a whole number, not a text"),
        ({"minMember": True}, "spec.minMember: a whole number"),
        ({"minMember": -1}, "minMember: Invalid value: -1: must be greater than or equal to 1"),
        ({"minResources": []}, "spec.minResources: an object, not a list"),
        ({"minResources": {"cpu": "many"}}, "minResources.cpu: not a quantity"),
        ({"scheduleTimeoutSeconds": "60s"}, "spec.scheduleTimeoutSeconds: a whole number"),
    ],
)
def test_what_is_wrong_is_an_error_at_its_field(files: Files, spec: Any, text: str) -> None:
    assert text in files.refusal(pod_group(**spec))


def test_a_name_that_no_label_can_give_is_an_error(files: Files) -> None:
    given = pod_group()
    given["metadata"]["name"] = "g" * 64
    assert "metadata.name: at most 63 characters" in files.refusal(given)


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("queue", "default", "a WorkloadPolicy bounds what Workloads may take"),
        ("priorityClassName", "high", "write spec.priority of each Workload"),
        ("minTaskMember", {"worker": 3}, "minMember counts the replicas of all members together"),
        ("networkTopology", {"mode": "hard"}, "write spec.topology"),
        ("fieldOfATomorrow", 1, "is not known to this version of Stowage"),
    ],
)
def test_fields_of_other_systems_are_lost_by_name(
    files: Files, field: str, value: Any, text: str
) -> None:
    [lost] = files.losses(pod_group(**{field: value}))
    assert lost.startswith(f"lost: PodGroup batch: spec.{field}: ")
    assert text in lost
    assert made(files, pod_group(**{field: value}), lossy=True) == made(files, pod_group())


@pytest.mark.parametrize(
    ("key", "value", "loss"),
    [
        ("mode", "NonStrict", True),
        ("mode", "Strict", False),
        ("match-policy", "only-waiting", True),
        ("match-policy", "once-satisfied", False),
        ("groups", '["shop/a", "shop/b"]', True),
    ],
)
def test_what_koordinator_decides_otherwise_is_lost(
    files: Files, key: str, value: str, loss: bool
) -> None:
    given = pod_group(of=OLDER, annotations={f"{GANG}/{key}": value})
    assert (files.result(given).exit_code == 1) == loss
    assert any(f"{GANG}/{key}" in note for note in files.notes(given)) == loss


def test_other_annotations_of_koordinator_stay_with_a_note(files: Files) -> None:
    given = pod_group(annotations={f"{GANG}/total-number": "6", "team": "a"})
    kept = files.imported(given)["WorkloadGroup/batch"]["metadata"]["annotations"]
    assert kept == {f"{GANG}/total-number": "6", "team": "a"}
    assert any("only Koordinator reads it; it stays" in note for note in files.notes(given))


def test_groups_of_one_name_in_both_api_groups_are_an_error(files: Files) -> None:
    assert "a PodGroup of that name is in " in files.refusal(pod_group(), pod_group(of=OLDER))


def test_an_unknown_version_is_an_error(files: Files) -> None:
    given = pod_group() | {"apiVersion": f"{POD_GROUPS}/v1beta9"}
    assert "of scheduler-plugins, v1alpha1 are known" in files.refusal(given)


def test_other_kinds_of_the_api_group_have_no_counterpart(files: Files) -> None:
    quota = pod_group() | {"kind": "ElasticQuota"}
    [lost] = files.losses(pod_group(), ganged(), quota)
    assert "ElasticQuota has no counterpart on its own" in lost


# --- its members ----------------------------------------------------------------------------------


@pytest.mark.parametrize("label", [POD_GROUP_LABEL, OLDER_LABEL])
def test_a_deployment_is_a_member_by_either_label(files: Files, label: str) -> None:
    found = files.imported(pod_group(), ganged(label))
    assert list(found) == ["WorkloadGroup/batch", "Workload/web"]
    workload = found["Workload/web"]
    assert workload["metadata"]["labels"] == {OURS: "batch"}
    spec = workload["spec"]
    assert (spec["replicas"], spec["schedulerName"]) == (6, "stowage")
    inner = spec["targetDeployment"]["spec"]["template"]
    assert inner["metadata"]["labels"] == {"app": "web"}
    assert "schedulerName" not in inner["spec"]
    notes = files.notes(pod_group(), ganged(label))
    assert any(f"{label} is the label {OURS} of the Workload now" in note for note in notes)


@pytest.mark.parametrize(
    ("version", "kind", "spec"),
    [
        ("apps/v1", "StatefulSet", {"updateStrategy": {"rollingUpdate": {"partition": 1}}}),
        ("apps/v1", "ReplicaSet", {}),
        ("apps/v1", "Deployment", {"strategy": {"rollingUpdate": {"maxUnavailable": 1}}}),
        ("batch/v1", "Job", {"parallelism": 6, "completions": 8, "backoffLimit": 2}),
    ],
)
def test_kinds_that_run_pods_are_members_and_their_numbers_hold_on_one_cluster(
    files: Files, version: str, kind: str, spec: dict[str, Any]
) -> None:
    units = {} if kind == "Job" else {"replicas": 6}
    given = runs(version, kind, template=pod(labels={POD_GROUP_LABEL: "batch"}), **units, **spec)
    found = files.imported(pod_group(), given)["Workload/web"]
    assert found["metadata"]["labels"] == {OURS: "batch"}
    inner = found["spec"].get("targetDeployment") or found["spec"]["template"]
    assert (inner["kind"], found["spec"].get("replicas")) == (kind, units.get("replicas"))
    assert {key: inner["spec"][key] for key in spec} == spec
    assert not any(f" spec.{key}" in note for key in spec for note in files.notes(given))


def test_the_label_on_the_object_alone_makes_it_a_member_too(files: Files) -> None:
    given = deployment()
    given["metadata"]["labels"] = {POD_GROUP_LABEL: "batch", "team": "a"}
    found = files.imported(pod_group(), given)["Workload/web"]
    assert found["metadata"]["labels"] == {OURS: "batch"}
    assert found["spec"]["targetDeployment"]["metadata"]["labels"] == {"team": "a"}
    text = "scheduler-plugins reads this label from pods alone"
    assert any(text in note for note in files.notes(pod_group(), given))


def test_labels_that_select_pods_stay(files: Files) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"selector": {POD_GROUP_LABEL: "batch"}},
    }
    by_service = files.imported(pod_group(), ganged(), service)["Workload/web"]["spec"]
    assert by_service["manifests"][0]["metadata"]["name"] == "web"
    own = ganged()
    own["spec"]["selector"] = {"matchLabels": {POD_GROUP_LABEL: "batch"}}
    by_selector = files.imported(pod_group(), own)["Workload/web"]["spec"]
    for spec in (by_service, by_selector):
        labels = spec["targetDeployment"]["spec"]["template"]["metadata"]["labels"]
        assert labels[POD_GROUP_LABEL] == "batch"


def test_two_groups_on_one_object_are_an_error(files: Files) -> None:
    given = deployment(labels={POD_GROUP_LABEL: "batch", OLDER_LABEL: "other"})
    assert "labels: name several PodGroups: batch, other" in files.refusal(pod_group(), given)
    same = deployment(labels={POD_GROUP_LABEL: "batch", OLDER_LABEL: "batch"})
    assert "Workload/web" in files.imported(pod_group(), same)


def test_what_names_no_group_is_no_member(files: Files) -> None:
    other = deployment(labels={POD_GROUP_LABEL: ""})
    assert list(files.imported(pod_group(), other)) == ["WorkloadGroup/batch"]
    notes = files.notes(pod_group(), other)
    assert any("no policy, spread or group here names it" in note for note in notes)


def test_a_group_of_another_namespace_is_another_one(files: Files) -> None:
    other = ganged()
    other["metadata"]["namespace"] = "elsewhere"
    assert any("no PodGroup batch is among the files" in n for n in files.notes(pod_group(), other))
    assert not any("no PodGroup batch" in n for n in files.notes(pod_group(), ganged()))


@pytest.mark.parametrize(
    ("name", "kept", "text"),
    [
        ("koord-scheduler", False, "koord-scheduler is spec.schedulerName: stowage"),
        ("mine", True, "mine has to run on each member"),
        ("default-scheduler", True, ""),
    ],
)
def test_a_scheduler_that_reads_gangs_is_not_asked_any_more(
    files: Files, name: str, kept: bool, text: str
) -> None:
    given = pod_group(), ganged(schedulerName=name)
    spec = files.imported(*given)["Workload/web"]["spec"]
    inner = spec["targetDeployment"]["spec"]["template"]["spec"]
    assert inner.get("schedulerName") == (name if kept else None)
    assert spec["schedulerName"] == "stowage"
    said = [note for note in files.notes(*given) if "template.spec.schedulerName" in note]
    assert len(said) == bool(text)
    assert not text or text in said[0]


def test_the_priority_of_pods_is_not_that_of_the_queue(files: Files) -> None:
    notes = files.notes(pod_group(), ganged(priorityClassName="high"))
    assert any("spec.priority of the Workload is for the queue of the hub" in n for n in notes)


IN_JOB = "put what it runs into a Job or a Deployment"
IN_WORKLOAD = "put it into spec.template of a Workload"
NAMED = pod(labels={POD_GROUP_LABEL: "batch"})


@pytest.mark.parametrize(
    ("kind", "version", "spec", "text"),
    [
        ("Pod", "v1", {}, IN_JOB),
        ("Pod", "v1", pod()["spec"], IN_JOB),
        ("DaemonSet", "apps/v1", {"template": NAMED}, IN_JOB),
        ("CronJob", "batch/v1", {"jobTemplate": {"spec": {"template": NAMED}}}, IN_JOB),
        ("CronJob", "batch/v1", {"jobTemplate": {"spec": {"template": pod()}}}, IN_JOB),
        ("Job", "batch.volcano.sh/v1alpha1", {"tasks": [{"template": NAMED}]}, IN_WORKLOAD),
        ("Job", "batch.volcano.sh/v1alpha1", {"tasks": [{"template": pod()}]}, IN_WORKLOAD),
        (
            "PyTorchJob",
            "kubeflow.org/v1",
            {"pytorchReplicaSpecs": {"Worker": {"template": pod()}}},
            IN_WORKLOAD,
        ),
        (
            "LeaderWorkerSet",
            "leaderworkerset.x-k8s.io/v1",
            {"leaderWorkerTemplate": {"workerTemplate": NAMED}},
            IN_WORKLOAD,
        ),
    ],
)
def test_a_member_of_another_kind_is_lost(
    files: Files, kind: str, version: str, spec: dict[str, Any], text: str
) -> None:
    """Whether its pods name the group or it does, and wherever its kind keeps its pods."""
    own = {} if POD_GROUP_LABEL in str(spec) else {"labels": {POD_GROUP_LABEL: "batch"}}
    other = {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": "x", "namespace": "shop", **own},
        "spec": spec,
    }
    [lost] = files.losses(pod_group(), ganged(), other)
    assert f"is of the PodGroup batch, and a {kind} cannot be imported" in lost
    assert text in lost
    assert list(files.imported(pod_group(), ganged(), other, lossy=True)) == [
        "WorkloadGroup/batch",
        "Workload/web",
    ]


def test_what_runs_no_pods_is_no_member(files: Files) -> None:
    """Helm and kustomize put common labels on everything: it goes along as it does without them."""
    common = {"name": "x", "namespace": "shop", "labels": {POD_GROUP_LABEL: "batch"}}
    service = {"apiVersion": "v1", "kind": "Service", "spec": {"selector": {"app": "web"}}}
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}
    secret = {"apiVersion": "v1", "kind": "Secret", "stringData": {"a": "b"}}
    scaler = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "spec": {}}
    asks = [{"configMapRef": {"name": "x"}}, {"secretRef": {"name": "x"}}]
    containers = [{"name": "main", "image": "app:1", "envFrom": asks}]
    job = runs(
        "batch/v1",
        "Job",
        parallelism=4,
        template=pod(labels={POD_GROUP_LABEL: "batch"}, containers=containers),
    )
    job["metadata"]["labels"] = common["labels"]
    beside = [each | {"metadata": common} for each in (service, settings, secret, scaler)]
    found = files.imported(pod_group(), job, *beside)
    assert list(found) == ["WorkloadGroup/batch", "Workload/web"]
    spec = found["Workload/web"]["spec"]
    assert [each["kind"] for each in spec["manifests"]] == ["ConfigMap", "Service"]
    assert spec["resources"] == [{"name": "x"}]
    assert any("let its scaleTargetRef name the Workload" in n for n in files.notes(job, *beside))


@pytest.mark.parametrize(
    "example", ["21-workload-group.yaml", "22-workload-group-zone.yaml", "19-reservation.yaml"]
)
def test_objects_of_stowage_with_a_label_of_a_group_pass_through(example: str) -> None:
    path = ROOT / "examples" / example
    result = run("import", "-f", path)
    assert result.exit_code == 0, result.stderr

    def names(text: str) -> list[tuple[str, str]]:
        kinds = ((each["kind"], each["metadata"]["name"]) for each in yaml.safe_load_all(text))
        return sorted(kinds)

    assert names(result.stdout) == names(path.read_text())


@pytest.mark.parametrize("by", ["policy", "label", "spread", "own spread"])
def test_numbers_of_all_pods_are_lost_where_a_gang_is_divided_as_well(
    files: Files, by: str
) -> None:
    policed = {"stowage.dev/workload-policy": "two-to-three"} if by == "label" else {}
    kosmos = {"workload-policy/kosmos.io": "two-to-three"} if by == "policy" else {}
    labels = {POD_GROUP_LABEL: "batch", **policed, **kosmos}
    counted = {"parallelism": 4, "completions": 8, "completionMode": "Indexed"}
    job = runs("batch/v1", "Job", template=pod(labels=labels), **counted)
    divider = spread(subset("a"), target=job)
    if by == "own spread":
        divider["apiVersion"] = "stowage.dev/v1alpha1"
        ref = {"apiVersion": "stowage.dev/v1alpha1", "kind": "Workload", "name": "web"}
        divider["spec"]["targetRef"] = ref
    [lost] = files.losses(pod_group(), job, divider if "spread" in by else policy())
    assert "spec.completionMode: an Indexed Job is not divided" in lost


def test_what_another_object_of_the_files_makes_does_not_count_twice(files: Files) -> None:
    """As `kubectl get all -o yaml` prints them."""
    refs = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "controller": True}]
    replica_set = runs(
        "apps/v1", "ReplicaSet", template=pod(labels={POD_GROUP_LABEL: "batch"}), replicas=6
    )
    replica_set["metadata"] |= {"name": "web-5d4fbc8c7", "ownerReferences": refs}
    of_it = [{**refs[0], "kind": "ReplicaSet", "name": "web-5d4fbc8c7"}]
    single = {"apiVersion": "v1", "kind": "Pod", "spec": {}}
    single["metadata"] = {
        "name": "web-1", "namespace": "shop", "labels": {POD_GROUP_LABEL: "batch"}, "ownerReferences": of_it,
    }  # fmt: skip
    given = pod_group(), ganged(), replica_set, single
    assert list(files.imported(*given)) == ["WorkloadGroup/batch", "Workload/web"]
    told = [note for note in files.notes(*given) if "makes it, and is among the files" in note]
    assert len(told) == 2
    alone = files.result(pod_group(), replica_set, lossy=True)
    assert "kind: ReplicaSet" in alone.stdout


def test_a_custom_kind_that_a_spread_names_is_a_member(files: Files) -> None:
    """By the spread it is known where it keeps its number."""
    custom = runs("gate.dev/v1", "Trainer", replicas=4)
    custom["metadata"]["labels"] = {POD_GROUP_LABEL: "batch"}
    found = files.imported(pod_group(), spread(subset("a"), target=custom), custom)
    assert found["Workload/web"]["metadata"]["labels"] == {OURS: "batch"}
    assert found["Workload/web"]["spec"]["replicasPath"] == "spec.replicas"


def test_two_workloads_of_one_name_are_an_error(files: Files) -> None:
    job = runs("batch/v1", "Job", template=pod(labels={POD_GROUP_LABEL: "batch"}), parallelism=2)
    refused = files.refusal(pod_group(), ganged(), job)
    assert "as Workload web it is refused: the name is that of the Deployment in " in refused


@pytest.mark.proves("G3")
def test_the_example_is_kept_true(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In one cluster, as it was: five of its six workers find a place there, and that is enough."""
    monkeypatch.chdir(ROOT)
    result = run("import", "-f", "examples/import/schedulerplugins.yaml")
    assert result.exit_code == 0
    gang, *members = yaml.safe_load_all(result.stdout)
    assert gang["kind"] == "WorkloadGroup"
    assert [each["metadata"]["labels"] for each in members] == [{OURS: "training"}] * 2
    ours = tmp_path / "ours.yaml"
    ours.write_text(result.stdout)
    fleet = "examples/fleet/three-zones.yaml"
    plan = run("plan", "-f", str(ours), "--fleet", fleet, "-o", "json")
    assert plan.exit_code == 0, plan.output
    placed = {
        workload["name"]: {each["cluster"]: each["replicas"] for each in workload["placements"]}
        for workload in json.loads(plan.stdout)["workloads"]
    }
    assert placed == {"driver": {"member-1": 1}, "workers": {"member-1": 5}}
