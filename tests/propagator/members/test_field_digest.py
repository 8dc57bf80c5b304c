"""An object is as our apply left it while our entry owns all that was applied; no value is read."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from crds.fields.shares import ShareHealth
from machinery.api.resources import Resource
from machinery.kinds.readiness import Judged
from propagator.members.objects import ManagedObject, managed, print_of_body

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
BODY: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "annotations": {"a": "b"}},
    "spec": {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "web"}},
        "strategy": None,
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "containers": [
                    {
                        "name": "main",
                        "image": "x",
                        "args": ["--a", "--b"],
                        "ports": [{"containerPort": 80}],
                        "resources": {"limits": {}},
                    },
                    {"name": "side", "image": "y"},
                ]
            },
        },
    },
}
MAIN = {
    ".": {},
    "f:name": {},
    "f:image": {},
    "f:args": {},
    "f:ports": {'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}},
    "f:resources": {"f:limits": {}},
}
CONTAINERS = {
    'k:{"name":"main"}': MAIN,
    'k:{"name":"side"}': {".": {}, "f:name": {}, "f:image": {}},
}
FIELDS = {
    "f:metadata": {"f:annotations": {"f:a": {}}},
    "f:spec": {
        "f:replicas": {},
        "f:selector": {},
        "f:strategy": {},
        "f:template": {
            "f:metadata": {"f:labels": {"f:app": {}}},
            "f:spec": {"f:containers": CONTAINERS},
        },
    },
}
"""As a server of 1.36 answers, keys of lists, defaulted protocol and all."""


def entry(fields: Any, manager: str = "stowage", operation: str = "Apply", **more: str) -> Any:
    there = {"manager": manager, "operation": operation, "apiVersion": "apps/v1", **more}
    return there | {"fieldsV1": fields}


def shown(*entries: Any, **top: Any) -> ManagedObject:
    meta = {"name": "web", "namespace": "shop", "managedFields": list(entries)}
    return managed(DEPLOYMENTS, {"metadata": meta, **top})


def untouched(found: ManagedObject) -> bool:
    return found.applied is not None and (
        found.applied.number == print_of_body(BODY, found.applied.merged)
    )


def without(*path: str) -> Any:
    """As a server takes a path away: what then has nothing below it goes as well."""
    fields = copy.deepcopy(FIELDS)
    inner: Any = fields
    parents = [(inner := inner[part]) for part in path[:-1]]
    for part, parent in zip(reversed(path), [*reversed(parents), fields], strict=True):
        if part == path[-1] or not parent[part]:
            del parent[part]
    return fields


PODS = ("f:spec", "f:template", "f:spec", "f:containers")


@pytest.mark.proves("R11", "C32")
def test_what_nobody_touched_is_known_from_the_object_alone():
    assert untouched(shown(entry(FIELDS)))
    status = entry({"f:status": {"f:replicas": {}}}, "kube-controller-manager", "Update")
    assert untouched(shown(status, entry(FIELDS)))
    assert shown(entry(FIELDS), status).rivals == ()


@pytest.mark.proves("R11", "C32")
@pytest.mark.parametrize(
    "taken",
    [
        ("f:spec", "f:replicas"),
        ("f:spec", "f:selector"),
        ("f:spec", "f:strategy"),
        ("f:spec", "f:template", "f:metadata", "f:labels", "f:app"),
        ("f:spec", "f:template", "f:metadata"),
        (*PODS, 'k:{"name":"main"}', "f:image"),
        (*PODS, 'k:{"name":"main"}', "f:args"),
        (*PODS, 'k:{"name":"main"}', "f:resources", "f:limits"),
        (*PODS, 'k:{"name":"main"}', "f:ports", 'k:{"containerPort":80,"protocol":"TCP"}'),
        (*PODS, 'k:{"name":"side"}'),
        PODS,
        ("f:spec",),
    ],
)
def test_whatever_somebody_takes_shows(taken: tuple[str, ...]):
    assert not untouched(shown(entry(without(*taken))))


@pytest.mark.proves("R11")
def test_an_object_without_an_entry_of_ours_is_not_as_we_left_it():
    assert not untouched(shown())
    assert not untouched(shown(entry(FIELDS, "somebody")))
    assert not untouched(shown(entry(FIELDS, operation="Update")))
    assert not untouched(shown(entry(None)))


@pytest.mark.proves("R11")
def test_who_else_writes_the_spec_is_named():
    scaled = entry({"f:spec": {"f:replicas": {}}}, "hpa", "Update", subresource="scale")
    edited = entry({"f:spec": {}, "f:metadata": {}}, "kubectl-edit", "Update")
    assert shown(entry(FIELDS), scaled, edited).rivals == ("hpa (scale)", "kubectl-edit")


@pytest.mark.proves("R10")
@pytest.mark.parametrize("strange", ["text", 7, ["a"], None])
def test_an_object_whose_spec_or_status_is_no_mapping_can_be_read(strange: Any):
    found = shown(entry(FIELDS), spec=strange, status=strange, applied=strange, rivals=strange)
    assert found.judged == Judged(ShareHealth.HEALTHY, ready=0)
    assert untouched(found)


@pytest.mark.proves("R11")
def test_an_object_that_is_no_more_than_its_name():
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
    found = shown(entry({"f:metadata": {"f:labels": {"f:x": {}}}}))
    assert found.applied is not None
    assert found.applied.number == print_of_body(body, found.applied.merged)


@pytest.mark.proves("R11", "S5")
def test_what_a_member_makes_up_costs_no_more_than_a_bound():
    deep: Any = {}
    for number in range(600):
        deep = {f"f:{number}": deep, "f:x": {}}
    assert shown(entry({"f:spec": deep})).applied is None
    many = [entry({"f:spec": {}}, f"{number}\x1b[2J" + "x" * 999, "Update") for number in range(50)]
    (first, *_), rivals = (found := shown(*many).rivals), len(found)
    assert rivals <= 5
    assert len(first) <= 253
    assert "\x1b" not in first
