"""spec.ignoreFields: what others on the member wrote is sent back in the place of the template's."""

from __future__ import annotations

from typing import Any

import pytest

from machinery.api.resources import Resource
from machinery.kinds.fieldpaths import fields_at
from machinery.kinds.paths import parsed
from machinery.types.merge_patch import merged
from propagator.apply.render import Piece, render, with_others
from propagator.members.objects import managed
from propagator.types.workload import workload_of
from tests.propagator.apply.memberfacts import member_facts

CLUSTERS = Resource("ray.io", "v1", "rayclusters", "RayCluster")


def piece(paths: list[str], **spec: Any) -> Piece:
    main = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "ray"}}
    meta = {"namespace": "shop", "name": "ray", "uid": "u1"}
    fields = [{"paths": paths}] if paths else []
    workload = workload_of(
        {"metadata": meta, "spec": {"template": {**main, "spec": spec}, "ignoreFields": fields}}
    )
    about: dict[str, Any] = {"replicas": 1, "first_ordinal": None, "secrets": []}
    return render(workload, member=member_facts(), **about)[-1]


def group(name: str, image: str = "ray:1", **more: Any) -> dict[str, Any]:
    return {"groupName": name, "template": {"image": image}, **more}


def over(wanted: Piece, first: Piece, **there: Any) -> dict[str, Any]:
    """The spec that is sent over the object that was made of the first piece."""
    found = merged(first.body, {"spec": there, "metadata": {"resourceVersion": "7"}})
    sent = with_others(wanted, managed(CLUSTERS, found), found)
    changed = sent.body["spec"] != wanted.body["spec"]
    assert sent.body["metadata"].get("resourceVersion") == ("7" if changed else None)
    spec = dict(sent.body["spec"])
    for each in spec.get("workerGroupSpecs", ()):  # the marks of their pods are of no matter here
        each["template"].pop("metadata", None)
    return spec


GROUPS = ["spec.workerGroupSpecs[*].replicas"]


@pytest.mark.proves("KD57")
def test_a_value_in_an_element_of_a_list_is_sent_back() -> None:
    first = piece(GROUPS, workerGroupSpecs=[group("a", replicas=1), group("b")])
    there = [group("b", replicas=4), group("a", replicas=3)]
    assert over(first, first, workerGroupSpecs=there) == {
        "workerGroupSpecs": [group("a", replicas=3), group("b", replicas=4)]
    }
    edited = piece(GROUPS, workerGroupSpecs=[group("a", "ray:2", replicas=1), group("b")])
    assert over(edited, first, workerGroupSpecs=there) == {
        "workerGroupSpecs": [group("a", "ray:2", replicas=3), group("b", replicas=4)]
    }
    third = piece(GROUPS, workerGroupSpecs=[group("a", replicas=1), group("c", replicas=2)])
    assert over(third, first, workerGroupSpecs=there)["workerGroupSpecs"][1]["replicas"] == 2


@pytest.mark.proves("KD56", "KD85")
def test_a_value_stays_until_the_workload_changes_its_own() -> None:
    first = piece(["spec.size", "spec.paused"], size=2, image="a")
    assert over(first, first, size=0) == {"size": 0, "image": "a"}
    assert over(first, first, size=None) == {"image": "a"}, "it is theirs to remove, too"
    assert over(first, first, paused=True) == {"size": 2, "image": "a"}, "left out, it stays"
    edited = piece(["spec.size", "spec.paused"], size=2, image="b")
    assert over(edited, first, size=0) == {"size": 0, "image": "b"}
    assert over(piece(["spec.size"], size=5, image="a"), first, size=0)["size"] == 5, "once"


@pytest.mark.proves("KD57")
def test_what_a_profile_ignores_joins_what_the_workload_does() -> None:
    first = piece(["spec.paused"], workerGroupSpecs=[group("a", replicas=1)], paused=False)
    edited = piece(
        ["spec.paused"], workerGroupSpecs=[group("a", "ray:2", replicas=1)], paused=False
    )
    there = [group("a", replicas=5)]
    assert over(edited, first, workerGroupSpecs=there, paused=True) == {
        "workerGroupSpecs": [group("a", "ray:2", replicas=5)],
        "paused": True,
    }


@pytest.mark.proves("KD56")
def test_a_path_is_names_quoted_names_and_elements() -> None:
    assert parsed('metadata.annotations["a.b/c"]') == ("metadata", "annotations", "a.b/c")
    body = {"spec": {"list": [{"name": "x"}, {"size": 1}, 3]}}
    assert list(fields_at(body, "spec.list[*].size")) == [("spec", "list", {"name": "x"}, "size")]
    assert list(fields_at(body, "spec.none.size")) == []
    with pytest.raises(ValueError, match=r"spec\.\.size: not a path"):
        parsed("spec..size")
