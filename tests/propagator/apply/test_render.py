"""What a Workload becomes on one cluster: the template, and the documented keys."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from machinery.api.resources import Resource
from machinery.kinds.paths import InvalidTemplate
from propagator.apply.render import ForeignClass, beside, render
from propagator.hub.workload_metadata import first_ordinals
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


@pytest.mark.proves("K28")
def test_ordinals_are_disjoint_and_stay() -> None:
    def placed(annotations: dict[str, str], *clusters: str) -> Workload:
        body = {
            "metadata": {"namespace": "n", "name": "w", "uid": "u", "annotations": annotations},
            "spec": {"template": {"apiVersion": "apps/v1", "kind": "StatefulSet"}},
            "status": {"placements": [{"cluster": c, "replicas": 1} for c in clusters]},
        }
        return workload_of(body)

    first = first_ordinals(placed({}, "b", "c"))
    assert first == {"b": 0, "c": 1000}
    noted = {"stowage.dev/ordinals": '{"b": 0, "c": 1000}'}
    assert first_ordinals(placed(noted, "a", "c")) == {"a": 2000, "b": 0, "c": 1000}


@pytest.mark.proves("N3")
def test_a_cluster_keeps_its_ordinals_under_another_name() -> None:
    noted = {"stowage.dev/ordinals": '{"b": 0, "c": 1000}'}
    body = {
        "metadata": {"namespace": "n", "name": "w", "uid": "u", "annotations": noted},
        "spec": {"template": {"apiVersion": "apps/v1", "kind": "StatefulSet"}},
        "status": {"placements": [{"cluster": c, "replicas": 1} for c in ("a", "c", "new")]},
    }
    former = {"new": ["nobody", "b"]}
    found = first_ordinals(workload_of(body), lambda name: former.get(name, []))
    assert found == {"a": 2000, "c": 1000, "new": 0}


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


def of_kruise(**spec: Any) -> Workload:
    pods = {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "db"}]}}
    body = {"selector": {"matchLabels": {"app": "db"}}, "template": pods}
    template = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "spec": body}
    return made(targetDeployment=None, template=template, replicasPath="spec.replicas", **spec)


@pytest.mark.proves("KD2")
def test_nothing_is_written_into_a_kind_that_is_not_known_but_its_number() -> None:
    (piece,) = render(of_kruise(), replicas=2, first_ordinal=0, secrets=[], member=member_facts())
    assert piece.body["spec"] == {**of_kruise().template["spec"], "replicas": 2}


@pytest.mark.proves("KD10")
def test_an_object_of_a_kind_that_is_not_known_keeps_what_earlier_releases_wrote() -> None:
    """They labelled the pods, and set the first ordinal, of whatever was named a StatefulSet."""
    (piece,) = render(of_kruise(), replicas=2, first_ordinal=3, secrets=[], member=member_facts())
    assert piece.body["spec"]["ordinals"] == {"start": 3}
    resource = Resource("apps.kruise.io", "v1beta1", "statefulsets", "StatefulSet")
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
