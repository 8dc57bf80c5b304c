"""What a Workload becomes on one cluster: the template, and the documented keys."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from machinery.api.resources import Resource
from machinery.kinds.paths import InvalidTemplate
from propagator.apply.render import ForeignClass, Piece, beside, carried_to, render, with_added
from propagator.members.objects import ManagedObject, managed
from propagator.types.hub_objects import HubSecret
from propagator.types.workload import Workload, workload_of
from tests.propagator.apply.memberfacts import member_facts


def made(**spec: Any) -> Workload:
    template = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "creationTimestamp": None, "labels": {"app": "web"}},
        "spec": {
            "replicas": 9,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}, "annotations": {"a": "b"}},
                "spec": {"containers": [{"name": "main", "image": "x"}], "unknownField": {"k": 1}},
            },
        },
        "status": {"replicas": 3},
    }
    body = {
        "metadata": {"namespace": "shop", "name": "demo", "uid": "u-1"},
        "spec": {"targetDeployment": template, **spec},
    }
    return workload_of(body)


@pytest.mark.proves("K30", "K31")
def test_only_documented_keys_differ() -> None:
    workload = made()
    (piece,) = render(workload, replicas=4, first_ordinal=0, secrets=[], member=member_facts())
    body, asked = dict(piece.body), workload.template
    assert body["spec"]["replicas"] == 4
    assert "status" not in body
    pods = body["spec"]["template"]
    assert pods["metadata"]["labels"].pop("stowage.dev/workload-uid") == "u-1"
    assert pods == asked["spec"]["template"]
    assert body["metadata"]["namespace"] == "shop"
    assert body["metadata"]["labels"]["stowage.dev/managed"] == "true"
    assert body["metadata"]["annotations"]["owner.stowage.dev/u-1"] == "shop/demo"


@pytest.mark.proves("K31")
@pytest.mark.parametrize(("name", "kept"), [("stowage", False), ("volcano", True)])
def test_the_hubs_scheduler_is_not_pushed(name: str, kept: bool) -> None:
    template = made().template
    template["spec"]["template"]["spec"]["schedulerName"] = name
    (piece,) = render(
        made(targetDeployment=template),
        replicas=1,
        first_ordinal=0,
        secrets=[],
        member=member_facts(),
    )
    assert ("schedulerName" in piece.body["spec"]["template"]["spec"]) is kept


@pytest.mark.proves("C27")
def test_secrets_come_first_under_their_own_name() -> None:
    secret = HubSecret(data={"k": "dg=="})
    secret = msgspec.structs.replace(
        secret, metadata=msgspec.structs.replace(secret.metadata, name="db", namespace="shop")
    )
    pieces = render(
        made(targetNamespace="elsewhere"),
        replicas=1,
        first_ordinal=0,
        secrets=[secret],
        member=member_facts(),
    )
    assert (pieces[0].kind, pieces[0].namespace, pieces[0].name) == ("Secret", "elsewhere", "db")
    assert pieces[0].body["data"] == {"k": "dg=="}
    assert pieces[-1].main


def stateful(**ordinals: int) -> Workload:
    template = {"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": {"ordinals": ordinals}}
    return made(targetDeployment=None, template=template)


@pytest.mark.proves("B3", "KD50")
def test_the_first_ordinal_of_a_cluster_stands_in_place_of_the_template_s() -> None:
    for given, own, found in ((0, 1000, 0), (2000, 1000, 2000), (None, 1000, 1000), (0, 0, 0)):
        how: dict[str, Any] = {"replicas": 1, "secrets": [], "member": member_facts()}
        (piece,) = render(stateful(start=own), first_ordinal=given, **how)
        assert piece.body["spec"]["ordinals"]["start"] == found


@pytest.mark.proves("A4", "KD49", "RB12")
def test_an_object_keeps_its_first_ordinal_whatever_is_wanted() -> None:
    """Also one that somebody else made, and that is taken over."""
    resource = Resource("apps", "v1", "statefulsets", "StatefulSet")
    how: dict[str, Any] = {"replicas": 1, "secrets": [], "member": member_facts()}
    for has, wanted in ((0, 1000), (1000, 0), (7, 1000)):
        (piece,) = render(stateful(), first_ordinal=wanted, **how)
        spec = {"ordinals": {"start": has}} if has else {}
        live = managed(resource, {"metadata": {"name": "w"}, "spec": spec})
        laid = beside(piece, live)
        assert laid.body["spec"]["ordinals"]["start"] == has
        assert laid.digest != piece.digest
        assert beside(laid, live) is laid
        (same,) = render(stateful(), first_ordinal=has, **how)
        assert beside(same, live).digest == same.digest


def test_rendering_twice_is_the_same() -> None:
    once, again = (
        render(made(), replicas=2, first_ordinal=0, secrets=[], member=member_facts())
        for _ in range(2)
    )
    assert [piece.digest for piece in once] == [piece.digest for piece in again]


def classed(name: str = "stowage-placeholder") -> dict[str, Any]:
    template = made().template
    template["spec"]["template"]["spec"]["priorityClassName"] = name
    return template


@pytest.mark.proves("N7")
@pytest.mark.parametrize(
    "spec",
    [
        {"targetDeployment": classed()},
        {
            "manifests": [
                {
                    "apiVersion": "ray.io/v1",
                    "kind": "RayCluster",
                    "metadata": {"name": "ray"},
                    "spec": {"groups": [{"pods": {"priorityClassName": "stowage-placeholder"}}]},
                }
            ]
        },
        {"targetDeployment": classed(), "schedulerName": "reservation.stowage.dev"},
    ],
    ids=["in the template", "in a custom kind", "by nobody's order"],
)
def test_the_class_of_placeholders_is_not_rendered(spec: dict[str, Any]) -> None:
    with pytest.raises(ForeignClass, match="the PriorityClass stowage-placeholder is for pods"):
        render(made(**spec), replicas=1, first_ordinal=0, secrets=[], member=member_facts())


@pytest.mark.proves("N7")
def test_what_was_made_for_a_reservation_is_rendered_with_its_class() -> None:
    owner = {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "Reservation",
        "name": "later",
        "uid": "r-1",
        "controller": True,
    }
    workload = workload_of(
        {
            "metadata": {
                "namespace": "shop",
                "name": "later-hold",
                "uid": "u-1",
                "ownerReferences": [owner],
            },
            "spec": {
                "targetDeployment": classed(),
                "schedulerName": "reservation.stowage.dev",
            },
        }
    )
    (piece,) = render(workload, replicas=1, first_ordinal=0, secrets=[], member=member_facts())
    pods = piece.body["spec"]["template"]["spec"]
    assert pods["priorityClassName"] == "stowage-placeholder"


@pytest.mark.proves("X6")
@pytest.mark.parametrize("label", ["", "u-0"])
def test_the_label_on_the_pods_is_that_of_the_object_that_is_there(label: str) -> None:
    (piece,) = render(made(), replicas=1, first_ordinal=0, secrets=[], member=member_facts())
    laid = beside(piece, ManagedObject(pods_uid=label))
    labels = laid.body["spec"]["template"]["metadata"]["labels"]
    assert labels == {"app": "web", **({"stowage.dev/workload-uid": label} if label else {})}
    assert laid.digest != piece.digest
    assert laid.body["metadata"]["annotations"]["stowage.dev/applied-hash"] == laid.digest
    assert beside(laid, ManagedObject(pods_uid=label)) == laid
    for same in (None, "u-1"):
        assert beside(piece, ManagedObject(pods_uid=same)) is piece
    assert piece.body["spec"]["template"]["metadata"]["labels"]["stowage.dev/workload-uid"] == "u-1"


def of_others(**spec: Any) -> Workload:
    pods = {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "db"}]}}
    body = {"selector": {"matchLabels": {"app": "db"}}, "template": pods}
    template = {"apiVersion": "apps.example.com/v1", "kind": "StatefulSet", "spec": body}
    return made(targetDeployment=None, template=template, replicasPath="spec.replicas", **spec)


@pytest.mark.proves("KD2")
def test_nothing_is_written_into_a_kind_that_is_not_known_but_its_number() -> None:
    (piece,) = render(of_others(), replicas=2, first_ordinal=0, secrets=[], member=member_facts())
    assert piece.body["spec"] == {**of_others().template["spec"], "replicas": 2}


@pytest.mark.proves("KD10")
def test_an_object_of_a_kind_that_is_not_known_keeps_what_earlier_releases_wrote() -> None:
    """They labelled the pods, and set the first ordinal, of whatever was named a StatefulSet."""
    (piece,) = render(of_others(), replicas=2, first_ordinal=3, secrets=[], member=member_facts())
    assert piece.body["spec"]["ordinals"] == {"start": 3}
    resource = Resource("apps.example.com", "v1", "statefulsets", "StatefulSet")
    template = {"metadata": {"labels": {"stowage.dev/workload-uid": "u-1"}}}
    live = managed(resource, {"metadata": {"name": "db"}, "spec": {"template": template}})
    laid = beside(piece, live)
    labels = laid.body["spec"]["template"]["metadata"]["labels"]
    assert labels == {"app": "db", "stowage.dev/workload-uid": "u-1"}
    unmarked = managed(resource, {"metadata": {"name": "db"}, "spec": {"template": {}}})
    assert beside(piece, unmarked) is piece


@pytest.mark.proves("KD15", "B5")
@pytest.mark.parametrize(
    ("template", "told"),
    [
        ({"kind": "StatefulSet", "spec": {"ordinals": None}}, "spec.template.spec.ordinals: "),
        ({"kind": "Deployment", "spec": None}, "spec.template.spec: "),
        ({"kind": "Deployment", "spec": {"template": "text"}}, "spec.template.spec.template: "),
        ({"kind": "Deployment", "metadata": "text", "spec": {}}, "spec: "),
        ({"kind": "Deployment", "metadata": {"labels": ["a"]}, "spec": {}}, "spec: "),
    ],
)
def test_what_cannot_be_rendered_says_why(template: Any, told: str) -> None:
    workload = made(targetDeployment=None, template={"apiVersion": "apps/v1", **template})
    with pytest.raises(InvalidTemplate) as fault:
        render(workload, replicas=1, first_ordinal=3, secrets=[], member=member_facts())
    assert str(fault.value).startswith(told)


@pytest.mark.proves("X8")
def test_an_object_says_that_it_stays_and_is_the_same_otherwise() -> None:
    how: dict[str, Any] = {"replicas": 1, "first_ordinal": 0, "secrets": []}
    (goes,), (stays,) = (
        render(made(onDelete=word), member=member_facts(), **how) for word in ("Delete", "Orphan")
    )
    annotations = stays.body["metadata"]["annotations"]
    assert annotations.pop("orphan.stowage.dev/u-1") == "true"
    assert stays == goes


@pytest.mark.proves("A31")
@pytest.mark.parametrize(
    ("target", "refused"),
    [
        ({"kind": "Deployment", "name": "web"}, True),
        ({"name": "web"}, True),
        ({"kind": "StatefulSet", "name": "web"}, False),
        ({"kind": "Deployment", "name": "side"}, False),
    ],
)
def test_what_would_scale_the_main_object_on_a_member_is_not_rendered(
    target: dict[str, str], refused: bool
) -> None:
    scaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {"scaleTargetRef": target, "maxReplicas": 8},
    }
    workload = made(manifests=[scaler])
    about: dict[str, Any] = {"replicas": 1, "first_ordinal": 0, "secrets": []}
    if not refused:
        assert len(render(workload, member=member_facts(), **about)) == 2
        return
    with pytest.raises(InvalidTemplate, match=r"Autoscaler web: it scales Deployment web, whose"):
        render(workload, member=member_facts(), **about)


@pytest.mark.proves("J17")
def test_annotations_that_a_cluster_gave_its_objects_go_to_no_other() -> None:
    workload = made()
    printed = workload.template
    printed["metadata"]["annotations"] = {
        "deployment.kubernetes.io/revision": "7",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "team": "a",
    }
    asked = workload_of(
        {
            "metadata": {"namespace": "shop", "name": "demo", "uid": "u-1"},
            "spec": {"targetDeployment": printed},
        }
    )
    (piece,) = render(asked, replicas=4, first_ordinal=0, secrets=[], member=member_facts())
    said = piece.body["metadata"]["annotations"]
    assert [key for key in said if "stowage.dev" not in key] == ["team"]


@pytest.mark.proves("KD54")
@pytest.mark.parametrize("by_hand", [False, True])
def test_a_printed_job_goes_without_what_its_server_gave_it(by_hand: bool) -> None:
    labels = {"batch.kubernetes.io/controller-uid": "u-7", "job-name": "old", "team": "a"}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "bill", "labels": labels},
        "spec": {
            "selector": {"matchLabels": {"controller-uid": "u-7"}},
            "template": {"metadata": {"labels": labels}, "spec": {}},
            **({"manualSelector": True} if by_hand else {}),
        },
    }
    meta = {"namespace": "shop", "name": "demo", "uid": "u-1"}
    asked = workload_of({"metadata": meta, "spec": {"template": job}})
    (piece,) = render(asked, replicas=1, first_ordinal=0, secrets=[], member=member_facts())
    assert ("selector" in piece.body["spec"]) is by_hand
    pods = piece.body["spec"]["template"]["metadata"]["labels"]
    assert pods["team"] == "a"
    assert ("job-name" in pods) is by_hand
    assert ("job-name" in piece.body["metadata"]["labels"]) is by_hand


@pytest.mark.proves("KD54")
def test_printed_objects_go_without_what_their_cluster_gave_them() -> None:
    def sent(kind: str, annotations: Any = None, **body: Any) -> dict[str, Any]:
        meta = {"name": "x", "annotations": annotations or {}}
        manifest = {"apiVersion": "v1", "kind": kind, "metadata": meta, **body}
        about: dict[str, Any] = {"replicas": 4, "first_ordinal": 0, "secrets": []}
        found = dict(render(made(manifests=[manifest]), member=member_facts(), **about)[0].body)
        assert not [key for key in found["metadata"]["annotations"] if "stowage.dev" not in key]
        return found

    address = {"clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"], "ports": [{"port": 80}]}
    assert sent("Service", spec=address)["spec"] == {"ports": [{"port": 80}]}
    headless = {"clusterIP": "None", "clusterIPs": ["None"]}
    assert sent("Service", spec=headless)["spec"] == headless
    assert "secrets" not in sent("ServiceAccount", secrets=[{"name": "token-7"}])
    bound = {"pv.kubernetes.io/bind-completed": "yes"}
    claim = {"volumeName": "pv-7", "storageClassName": "fast"}
    assert sent("PersistentVolumeClaim", bound, spec=claim)["spec"] == {"storageClassName": "fast"}
    assert sent("PersistentVolumeClaim", spec=claim)["spec"] == claim, "bound by its author"
    sent("ConfigMap", {"kopf.zalando.org/last-handled-configuration": "{}"})


@pytest.mark.proves("J17", "KD55")
def test_what_a_member_adds_to_the_pull_secrets_of_an_account_stays() -> None:
    def account(*names: str) -> Piece:
        secrets = [{"name": each} for each in names]
        body = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "runner"},
            **({"imagePullSecrets": secrets} if names else {}),
        }
        return render(
            made(manifests=[body]), replicas=4, first_ordinal=0, secrets=[], member=member_facts()
        )[0]

    def pulls(body: Any) -> list[str]:
        return [each["name"] for each in body.get("imagePullSecrets", ())]

    before = account("regcred", "old")
    there = {**before.body, "imagePullSecrets": [{"name": "dockercfg"}, {"name": "regcred"}]}
    assert pulls(with_added(before, there).body) == ["regcred", "old", "dockercfg"]
    assert pulls(
        with_added(
            account("regcred"),
            {**there, "imagePullSecrets": [{"name": "dockercfg"}, {"name": "old"}]},
        ).body
    ) == ["regcred", "dockercfg"]
    assert pulls(with_added(account(), there).body) == ["dockercfg"]
    assert with_added(before, before.body) is before
    never = account()
    assert with_added(never, {"imagePullSecrets": [{"name": "dockercfg"}]}) is never
    nobodys = {"metadata": {}, "imagePullSecrets": [{"name": "dockercfg"}]}
    assert pulls(with_added(before, nobodys).body) == ["regcred", "old", "dockercfg"]


SAVEPOINT = {
    "name": "savepoint",
    "clusterSelector": {},
    "patch": {"spec": {"job": {"from": "$(stowage.carried:savepoint)"}}},
}


def flink(**carried: str) -> Workload:
    template = {
        "apiVersion": "flink.apache.org/v1beta1",
        "kind": "FlinkDeployment",
        "metadata": {"name": "words"},
        "spec": {"job": {"parallelism": 2}},
    }
    body = {
        "metadata": {"namespace": "shop", "name": "words", "uid": "u-1"},
        "spec": {
            "template": template,
            "overrides": [SAVEPOINT],
            "statusFields": [{"name": "savepoint", "path": "status.savepoint"}],
            "movement": {"carry": ["savepoint"], "maxSurge": 1},
        },
        "status": {"carried": carried},
    }
    return workload_of(body)


def with_carried(workload: Workload, live: ManagedObject | None) -> Piece:
    member = member_facts()
    facts = replace(member.facts, carried=carried_to(workload, live))
    member = replace(member, facts=facts)
    (piece,) = render(workload, replicas=1, first_ordinal=None, secrets=[], member=member)
    return piece


@pytest.mark.proves("KD76")
def test_a_carried_value_goes_into_an_object_that_is_made_and_stays_there() -> None:
    flinks = Resource("flink.apache.org", "v1beta1", "flinkdeployments", "FlinkDeployment")
    bare = with_carried(flink(), None)
    assert bare.body["spec"]["job"] == {"parallelism": 2}, "without a value it is left out"
    first = with_carried(flink(savepoint="s3://b/7", other="x"), None)
    assert first.body["spec"]["job"]["from"] == "s3://b/7"
    there = managed(flinks, first.body)
    again = with_carried(flink(savepoint="s3://b/9"), there)
    assert (again.digest, again.body) == (first.digest, first.body), "what runs keeps its own"
    before = managed(flinks, bare.body)
    assert with_carried(flink(savepoint="s3://b/9"), before).digest == bare.digest
    for noted in ("[]", '{"savepoint": 7}', "{", "null", f'{{"savepoint": "{"x" * 300}"}}'):
        body = {**first.body, "metadata": {**first.body["metadata"]}}
        body["metadata"]["annotations"] = {"stowage.dev/carried": noted}
        assert carried_to(flink(savepoint="s3://b/9"), managed(flinks, body)) == {}
