"""What status.kept goes on to name: what no watch has shown to be gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from crds.names import ANNOTATION_UNJOIN, GIVEN_UP
from machinery.api.resources import USUAL
from machinery.types.metadata import Meta
from propagator.hub.registration import present_name
from propagator.members.inventory import OwnedObjects
from propagator.members.objects import ManagedObject
from propagator.status.observation import Survey
from propagator.types.cluster import MemberCluster
from propagator.types.workload import Workload, workload_of
from tests.propagator.contexts import Context
from tests.propagator.members.test_stale_watches import NO_ROLLOUT

SETTINGS = next(each for each in USUAL if each.kind == "ConfigMap")


def entry(kind: str, name: str) -> dict[str, str]:
    return {"cluster": "m1", "kind": kind, "namespace": "shop", "name": name}


TOLD = [entry("ConfigMap", "settings"), entry("PersistentVolumeClaim", "data-db-0")]


KEPT: Any = {"namespace": "shop", "annotations": {"stowage.dev/keep": "Always"}}


def stands(_: Workload, told: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Say that each claim stands."""
    return [dict(each) for each in told if each["kind"] == "PersistentVolumeClaim"]


GONE = {ANNOTATION_UNJOIN: GIVEN_UP}


class Watches:
    """Those of m1: of these kinds one has answered, and they show these ConfigMaps."""

    def __init__(self, answered: Sequence[str], there: Sequence[str]) -> None:
        self.watches = self
        self._answered = answered
        self._there = [
            (SETTINGS, ManagedObject(metadata=Meta(**KEPT, name=name), kind="ConfigMap"))
            for name in there
        ]

    def answered(self, pair: tuple[str, str], **_: Any) -> bool:
        return pair[1] in self._answered

    def owned(self, _: str) -> Any:
        return self._there


def kept(
    *,
    answered: Sequence[str] = (),
    there: Sequence[str] = (),
    ready: bool = True,
    left: Any = lambda *_: [],
) -> list[str]:
    """What is named of a StatefulSet that left m1, after TOLD was."""
    session = SimpleNamespace(ready=ready, link=Watches(answered, there))
    holders = {"m1"} if there else set()
    registry = SimpleNamespace(get=lambda _: session, holders=lambda _: holders)
    clusters = SimpleNamespace(get=lambda _: MemberCluster(Meta(name="m1")))
    context = cast("Any", Context(registry=registry, clusters=clusters, clock=None))
    survey = Survey(context, inventory=OwnedObjects(context), revisions=NO_ROLLOUT, left=left)
    body = {
        "metadata": {"namespace": "shop", "name": "db", "uid": "u"},
        "spec": {"template": {"apiVersion": "apps/v1", "kind": "StatefulSet"}},
        "status": {"placements": [{"cluster": "m2", "replicas": 2}], "kept": TOLD},
    }
    return [each["name"] for each in survey.kept(workload_of(body))]


@pytest.mark.proves("N2", "KD47")
def test_an_object_stays_named_until_its_own_kind_is_shown_without_it() -> None:
    """A watch of another kind ends when nothing of it is there any more."""
    both = ["settings", "data-db-0"]
    assert kept(left=stands) == both
    assert kept(answered=["StatefulSet"], left=stands) == both
    assert kept(answered=["ConfigMap"], there=["settings"], left=stands) == both
    assert kept(answered=["ConfigMap"], left=stands) == ["data-db-0"]


@pytest.mark.proves("KD47")
def test_a_claim_that_was_left_is_named_as_long_as_it_was_not_read_to_be_gone() -> None:
    assert kept(left=stands) == ["settings", "data-db-0"]
    assert kept() == ["settings"], "though the StatefulSet's kind is listed there no more"
    assert kept(ready=False) == ["settings", "data-db-0"], "a member that is away has lost nothing"


@pytest.mark.proves("KD47")
def test_a_name_that_another_cluster_has_by_now_is_none_of_the_one_that_keeps_something() -> None:
    def cluster(name: str, uid: str, **notes: str) -> MemberCluster:
        return MemberCluster(Meta(name=name, annotations=notes), status={"clusterID": uid})

    there = [cluster("m1", "u2"), cluster("rome", "u1"), cluster("bonn", "u3", **GONE)]
    clusters: Any = SimpleNamespace(
        get=lambda key: next((each for each in there if each.name == key[1]), None),
        by_index=lambda _, uid: [each for each in there if each.status["clusterID"] == uid],
    )
    assert present_name(clusters, "m1", "u1") == "rome"
    assert present_name(clusters, "m1", "u2") == "m1"
    assert present_name(clusters, "m1", "") == "m1"
    assert present_name(clusters, "m1", "u9") == "m1"
    assert present_name(clusters, "m0", "u1") == "rome"
    assert present_name(clusters, "m0", "u3") == "m0", "it is given up"
