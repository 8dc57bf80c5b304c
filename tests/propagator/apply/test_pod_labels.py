"""The pods of every sort that a profile names are labelled, and an object that stands keeps its own."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from crds.names import DEFAULT_SCHEDULER, LABEL_TEMPLATE, Edits
from crds.names import LABEL_WORKLOAD_UID as LABEL
from machinery.api.resources import Resource
from machinery.kinds import table
from machinery.kinds.paths import InvalidTemplate, value_at
from machinery.kinds.profile import Pods, Profile, Replicas
from machinery.kinds.table import profile_in
from machinery.kinds.templates import at_place, label_places
from propagator.apply.render import PatchMisfit, Piece, beside, render
from propagator.members.objects import managed
from propagator.types.overrides import Override
from propagator.types.workload import workload_of
from tests.kindsof import FLINK, LEADER_WORKERS, RAY, SPARK, pods
from tests.propagator.apply.memberfacts import member_facts

TORCH: dict[str, Any] = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "metadata": {"name": "fit"},
    "spec": {
        "pytorchReplicaSpecs": {"Master": {"template": pods()}, "Worker": {"template": pods()}}
    },
}
TENSORS = {
    **TORCH,
    "kind": "TFJob",
    "spec": {"tfReplicaSpecs": TORCH["spec"]["pytorchReplicaSpecs"]},
}
POSTGRES = {
    "apiVersion": "postgresql.cnpg.io/v1",
    "kind": "Cluster",
    "metadata": {"name": "db"},
    "spec": {"instances": 3},
}


def rendered(template: dict[str, Any]) -> Piece:
    meta = {"namespace": "shop", "name": "it", "uid": "u1"}
    workload = workload_of({"metadata": meta, "spec": {"template": template}})
    replicas = template["spec"].get("replicas", 1)
    about: dict[str, Any] = {"replicas": replicas, "first_ordinal": None, "secrets": []}
    return render(workload, member=member_facts(), **about)[-1]


def labelled(body: Any) -> list[Any]:
    """The Workload's label at each place that the profile names."""
    places = label_places(profile_in(body), body)
    return [(at_place(body, place) or {}).get(LABEL) for place in places]


def there(piece: Piece, template: dict[str, Any]) -> Any:
    """The object of a template as a member shows it."""
    group, _, version = piece.api_version.rpartition("/")
    resource = Resource(group, version, "things", piece.kind)
    return managed(resource, {"metadata": {"name": piece.name}, **template})


KINDS = {
    "RayCluster": (RAY, 3, 12),
    "LeaderWorkerSet": (LEADER_WORKERS, 2, 4),
    "PyTorchJob": (TORCH, 2, 2),
    "TFJob": (TENSORS, 2, 2),
    "FlinkDeployment": (FLINK, 1, 4),
    "SparkApplication": (SPARK, 2, 4),
    "Cluster": (POSTGRES, 1, 3),
}


@pytest.mark.proves("KD43")
@pytest.mark.parametrize(
    ("template", "place"),
    [
        ({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow"}, "spec.podMetadata.labels"),
        ({"apiVersion": "tekton.dev/v1", "kind": "PipelineRun"}, "metadata.labels"),
        (
            {"apiVersion": "kafka.strimzi.io/v1", "kind": "Kafka"},
            "spec.kafka.template.pod.metadata.labels",
        ),
    ],
    ids=["Workflow", "PipelineRun", "Kafka"],
)
def test_pods_of_no_known_number_have_the_label_too(template: Any, place: str) -> None:
    piece = rendered({**template, "metadata": {"name": "x"}, "spec": {}})
    assert value_at(piece.body, place)[LABEL] == "u1"
    assert there(piece, dict(piece.body)).pods_each == 1


@pytest.mark.proves("KD43")
def test_pods_without_the_label_are_not_awaited_among_those_that_have_it() -> None:
    """Its controller brings the pod that submits a RayJob without a template of it."""
    head = {"rayClusterSpec": {"headGroupSpec": {"template": pods()}}}
    job = {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "j"}, "spec": head}
    piece = rendered(job)
    assert there(piece, dict(piece.body)).pods_each == 1
    own = {**job, "spec": {**head, "submitterPodTemplate": pods()}}
    piece = rendered(own)
    assert there(piece, dict(piece.body)).pods_each == 2


@pytest.mark.proves("KD43")
@pytest.mark.parametrize("kind", KINDS)
def test_each_sort_of_pods_has_the_label_of_the_workload(kind: str) -> None:
    template, places, each = KINDS[kind]
    piece = rendered(template)
    assert labelled(piece.body) == ["u1"] * places
    found = there(piece, dict(piece.body))
    assert (found.pods_uid, found.pods_each) == ("u1", each)
    assert beside(piece, found) is piece


@pytest.mark.proves("KD10")
@pytest.mark.parametrize("kind", KINDS)
def test_an_object_that_stands_keeps_the_pods_that_it_has(kind: str) -> None:
    template, places, _ = KINDS[kind]
    piece = rendered(template)
    found = there(piece, template)
    assert found.pods_uid == ""
    laid = beside(piece, found)
    assert laid.body["spec"] == template["spec"], "nothing of it is an edit"
    assert laid.digest != piece.digest
    other = rendered(template).body
    for place in label_places(profile_in(other), other):
        at_place(other, place)[LABEL] = "u0"
    assert labelled(beside(piece, there(piece, dict(other))).body) == ["u0"] * places


GADGETS = Profile(
    group="gadgets.dev",
    kind="Gadget",
    versions=("v1",),
    pods=(Pods(name="core", template="spec.core"), Pods(each="spec.groups", template="item.pods")),
    edits=Edits.NEW_PODS,
)
GADGET: dict[str, Any] = {
    "apiVersion": "gadgets.dev/v1",
    "kind": "Gadget",
    "metadata": {"name": "g"},
    "spec": {"core": pods(), "groups": [{"pods": pods()}]},
}


@pytest.fixture
def kinds() -> Iterator[Callable[..., None]]:
    before = table.from_hub()
    yield lambda *more: table.use([*before, *more])
    table.use(before)


@pytest.mark.proves("KD4", "KD10")
def test_a_kind_that_comes_changes_or_goes_edits_no_pods_of_what_stands(kinds: Any) -> None:
    head = msgspec.structs.replace(GADGETS, pods=GADGETS.pods[:1])
    profiles: list[tuple[Profile, ...]] = [(), (head,), (GADGETS,)]
    for made_by, read_by in itertools.product(profiles, profiles[1:]):
        kinds(*made_by)
        stands = dict(rendered(GADGET).body)
        kinds(*read_by)
        if len(made_by) and made_by[0].pods != read_by[0].pods[: len(made_by[0].pods)]:
            continue  # less is known of its pods than before
        there_now = there(rendered(GADGET), stands)
        assert beside(rendered(GADGET), there_now).body["spec"] == stands["spec"]
        kinds()
        there_now = there(rendered(GADGET), stands)
        piece = beside(rendered(GADGET), there_now)
        assert piece.body["spec"] == stands["spec"], "its WorkloadKind is gone"
        other = {**GADGET, "spec": {"core": [pods()], "groups": {"a": pods()}}}
        assert beside(rendered(other), there_now).body["spec"] == other["spec"]


@pytest.mark.proves("KD4")
@pytest.mark.parametrize(
    ("own", "field"),
    [
        ({"distribution": "Divided"}, "distribution"),
        ({"replicas": 2}, "replicas"),
        ({"replicas": 2, "distribution": "Duplicated"}, "replicas"),
        ({"replicas": 0}, "replicas"),
    ],
)
def test_a_kind_that_goes_leaves_its_numbers_as_they_are(
    kinds: Any, own: dict[str, Any], field: str
) -> None:
    meta = {"namespace": "shop", "name": "it", "uid": "u1"}
    template = {**GADGET, "spec": {**GADGET["spec"], "size": 3}}
    about: dict[str, Any] = {"replicas": 2, "first_ordinal": None, "secrets": []}
    sized = msgspec.structs.replace(GADGETS, replicas=Replicas("spec.size"))

    def size(spec: dict[str, Any]) -> Any:
        workload = workload_of({"metadata": meta, "spec": {"template": template, **spec}})
        return render(workload, member=member_facts(), **about)[-1].body["spec"]["size"]

    kinds(sized)
    assert size(own) == 2
    kinds()
    with pytest.raises(InvalidTemplate, match=rf"spec\.{field}: nothing says where a Gadget has"):
        size(own)
    assert size({}) == 3, "the number is the template's own"


@pytest.mark.proves("KD57")
def test_pods_that_outlive_an_edit_tell_by_a_label_of_which_template_they_are() -> None:
    def digests(template: dict[str, Any]) -> list[str]:
        body = rendered(template).body
        found = there(rendered(template), dict(body)).pods_templates
        places = label_places(profile_in(body), body)
        assert list(found) == [at_place(body, each)[LABEL_TEMPLATE] for each in places]
        return list(found)

    edited: dict[str, Any] = copy.deepcopy(RAY)
    group = edited["spec"]["workerGroupSpecs"][1]
    group["replicas"] = 7
    assert digests(edited) == digests(RAY)
    group["template"]["spec"]["containers"][0]["image"] = "ray:2"
    now, before = digests(edited), digests(RAY)
    assert now[:2] == before[:2]
    assert now[2] != before[2]
    assert there(rendered(SPARK), dict(rendered(SPARK).body)).pods_templates == ()


def test_the_hubs_scheduler_is_named_in_no_sort_of_pods() -> None:
    template = {**RAY, "spec": {"headGroupSpec": {"template": pods()}, "workerGroupSpecs": []}}
    template["spec"]["headGroupSpec"]["template"]["spec"]["schedulerName"] = DEFAULT_SCHEDULER
    head = rendered(template).body["spec"]["headGroupSpec"]["template"]
    assert "schedulerName" not in head["spec"]


@pytest.mark.parametrize(
    "spec",
    [
        {"headGroupSpec": {"template": {"metadata": "x"}}},
        {"headGroupSpec": {"template": {"metadata": {"labels": [1]}}}},
        {"workerGroupSpecs": [1, {"template": 7}, {"template": {"metadata": {"labels": "x"}}}]},
        {"workerGroupSpecs": {"a": {"template": {}}}},
        {"workerGroupSpecs": [{"template": {}, "replicas": 2**80}] * 100},
    ],
)
def test_what_a_member_shows_in_place_of_labels_is_none(spec: Any) -> None:
    piece = rendered(RAY)
    found = there(piece, {"spec": spec})
    assert found.pods_uid == ""
    assert found.pods_each >= 1
    beside(piece, found)


@pytest.mark.proves("KD13")
def test_the_patch_of_a_spread_is_laid_over_each_sort_of_pods() -> None:
    body = copy.deepcopy(LEADER_WORKERS)
    for each in ("leaderTemplate", "workerTemplate"):
        body["spec"]["leaderWorkerTemplate"][each]["spec"]["containers"][0]["image"] = "x"
    meta = {"namespace": "shop", "name": "it", "uid": "u1"}
    workload = workload_of({"metadata": meta, "spec": {"template": body}})
    about: dict[str, Any] = {"replicas": 2, "first_ordinal": None, "secrets": []}
    about["member"] = member_facts()
    override = Override("big", b'{"spec":{"nodeSelector":{"pool":"big"}}}')
    sorts = render(workload, override=override, **about)[-1].body["spec"]["leaderWorkerTemplate"]
    for each in ("leaderTemplate", "workerTemplate"):
        assert sorts[each]["spec"]["nodeSelector"] == {"pool": "big"}
        assert sorts[each]["metadata"]["labels"][LABEL] == "u1"
    assert "nodeSelector" not in body["spec"]["leaderWorkerTemplate"]["leaderTemplate"]["spec"]
    flink = workload_of({"metadata": meta, "spec": {"template": copy.deepcopy(FLINK)}})
    with pytest.raises(PatchMisfit, match="a FlinkDeployment has no pod template"):
        render(flink, override=override, **about)
