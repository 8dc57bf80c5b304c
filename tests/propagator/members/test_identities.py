"""Which registration of a cluster is served, and whose a name is. Pure."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from crds.membercluster import ReadyReason
from machinery.api.resources import MEMBER_CLUSTERS
from machinery.clock import SystemClock
from machinery.runtime.informer import Informer
from machinery.types.metadata import Meta
from propagator.members.cluster_identity import ClusterIdentity, Identities
from propagator.members.inventory import OwnedObjects
from propagator.removal.finalizer import Finalizer
from propagator.types.cluster import MemberCluster
from propagator.types.workload import workload_of
from tests.memoryhub import MemoryHub
from tests.propagator.contexts import Context


def _registered(*clusters: MemberCluster) -> Identities:
    hub = MemoryHub(clock=SystemClock(), admission=False)
    informer = Informer(hub, MEMBER_CLUSTERS, MemberCluster)
    found = Identities(hub, informer, clock=hub.clock)
    for each in clusters:
        informer.upsert(each)
    return found


def _cluster(name: str, made: str = "2026-01-01T00:00:00Z", **status: str) -> MemberCluster:
    meta = Meta(name=name, uid=name, creation_timestamp=made)
    return MemberCluster(metadata=meta, status=status)


@pytest.mark.proves("A16")
@pytest.mark.parametrize("noted", [True, False])
def test_no_member_takes_another_one_out_of_service_by_what_it_says_of_itself(noted: bool) -> None:
    claims = {"clusterID": "c1", "clusterUID": "u-thief", "clusterSet": "prod"}
    thief = _cluster("thief", made="2025-01-01T00:00:00Z", **(claims if noted else {}))
    owner = _cluster("owner")
    identities = _registered(thief, owner)
    uids = {"thief": "u-thief", "owner": "u1"}
    said = {name: ClusterIdentity(uid, "c1", "prod") for name, uid in uids.items()}
    for name in ("thief", "owner", "thief"):
        assert identities.refusal(name, said[name]) is None
    told = identities.note(owner, said["owner"])
    assert told["clusterID"] == ("u1" if noted else "c1")


@pytest.mark.proves("A2")
def test_a_name_stays_its_clusters_until_that_is_given_up() -> None:
    first, another = ClusterIdentity("u1"), ClusterIdentity("u2")
    identities = _registered(_cluster("m1"))
    assert identities.refusal("m1", first) is None
    identities.release("m1")  # its session ends
    identities.forget("m1")
    assert identities.left(_cluster("paris", clusterID="u1")) == ["m1"]
    refused = identities.refusal("m1", another)
    assert refused is not None
    assert refused.reason is ReadyReason.CLUSTER_CHANGED
    assert identities.refusal("m1", first) is None
    identities.forget("m1")
    identities.give_up("m1")
    assert identities.gave_up("m1")
    assert identities.refusal("m1", another) is None
    assert not identities.gave_up("m1")


@pytest.mark.proves("A30")
def test_a_registration_that_is_refused_is_no_cluster_to_ask() -> None:
    """As one under a name that the cluster had, which Workloads still note as sent something."""
    second: Any = SimpleNamespace(refused_as_second=True, ready=False, link=None)
    registry = SimpleNamespace(
        get=lambda _: second, holders=lambda _: set(), gave_up=lambda _: False
    )
    clusters = SimpleNamespace(get=lambda _: _cluster("m1"), values=list)
    context: Any = Context(registry=registry, clusters=clusters, clock=None)
    ending = {"name": "web", "uid": "u", "annotations": {"stowage.dev/clusters": "m1"}}
    workload = workload_of({"metadata": {**ending, "deletionTimestamp": "2026-01-01T00:00:00Z"}})
    inventory = OwnedObjects(context)
    assert not inventory.may_hold(workload, "m1")
    assert not Finalizer(context, inventory=inventory).awaited(workload)
    second.refused_as_second = False
    assert inventory.may_hold(workload, "m1")
    assert Finalizer(context, inventory=inventory).awaited(workload) == {"m1"}
