"""Through which of several MemberClusters a cluster is served: one at any moment, and the same one
after a restart, whatever their credentials may read."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from machinery.api.resources import MEMBER_CLUSTERS
from machinery.clock import SystemClock
from machinery.runtime.informer import Informer
from propagator.members.cluster_identity import ClusterIdentity, Identities
from propagator.types.cluster import MemberCluster
from tests.memoryhub import MemoryHub

BOTH = ClusterIdentity("u1", "east", "prod")
BY_UID = ClusterIdentity("u1")
BY_PROPERTY = ClusterIdentity("", "east", "prod")
OTHER = ClusterIdentity("u2", "west", "prod")
Json = dict[str, Any]


class Fleet:
    """MemberClusters, numbered by their age, and what their sessions read."""

    def __init__(self) -> None:
        hub = MemoryHub(clock=SystemClock(), admission=False)
        self.clusters = Informer(hub, MEMBER_CLUSTERS, MemberCluster)
        self.identities = Identities(self.clusters)
        self._version = 0

    def put(self, name: str, age: int, **status: str) -> None:
        self._version += 1
        meta: Json = {
            "name": name,
            "uid": name,
            "resourceVersion": str(self._version),
            "creationTimestamp": f"2026-01-01T00:00:{age:02}Z",
        }
        cluster = msgspec.convert({"metadata": meta, "status": status}, MemberCluster)
        self.clusters.observe(cluster)

    def gone(self, name: str) -> None:
        cluster = self.clusters.get(("", name))
        assert cluster is not None
        self.clusters.lose(cluster)
        self.identities.forget(name)

    def reason(self, name: str, found: ClusterIdentity) -> str:
        """The reason that it is not served, with the MemberCluster that it names; or empty."""
        refused = self.identities.refusal(name, found)
        if refused is None:
            return ""
        named = [each for each in ("old", "young") if f"registered as {each} " in refused.message]
        return " ".join([refused.reason.value, *named])

    def note(self, name: str, age: int, found: ClusterIdentity) -> Json:
        """Have the status of a cluster that is served say which one it is."""
        before = self.clusters.get(("", name))
        assert before is not None
        note = self.identities.note(before, found)
        self.put(name, age, **note)
        return note


@pytest.mark.proves("CT11")
@pytest.mark.parametrize("read_by_old", [BOTH, BY_UID, BY_PROPERTY])
@pytest.mark.parametrize("read_by_young", [BOTH, BY_UID, BY_PROPERTY])
def test_the_same_cluster_is_known_by_whatever_both_may_read(
    read_by_old: ClusterIdentity, read_by_young: ClusterIdentity
):
    fleet = Fleet()
    fleet.put("old", 1)
    fleet.put("young", 2)
    assert fleet.reason("old", read_by_old) == ""
    fleet.note("old", 1, read_by_old)
    told = fleet.reason("young", read_by_young)
    known = {read_by_old, read_by_young} != {BY_UID, BY_PROPERTY}
    assert told == ("AlreadyRegistered old" if known else "")


@pytest.mark.proves("CT11")
def test_after_a_restart_the_younger_one_reads_first_and_is_still_refused():
    before = Fleet()
    before.put("old", 1)
    assert before.reason("old", BOTH) == ""
    noted = before.note("old", 1, BOTH)
    assert noted == {"clusterID": "east", "clusterUID": "u1", "clusterSet": "prod"}
    fleet = Fleet()
    fleet.put("old", 1, **noted)
    fleet.put("young", 2)
    assert fleet.reason("young", BY_UID) == "AlreadyRegistered old"
    assert fleet.reason("old", BY_UID) == "", "its credentials read less by now"


@pytest.mark.proves("CT11")
def test_the_second_takes_over_when_the_first_is_deleted():
    fleet = Fleet()
    fleet.put("old", 1)
    fleet.put("young", 2)
    assert fleet.reason("old", BOTH) == ""
    fleet.note("old", 1, BOTH)
    assert fleet.reason("young", BOTH) == "AlreadyRegistered old"
    fleet.gone("old")
    assert fleet.reason("young", BOTH) == ""
    assert fleet.note("young", 2, BOTH)["clusterID"] == "east"


@pytest.mark.proves("CT11")
def test_renaming_and_a_hub_that_was_restored_leave_one_served():
    """Both are noted then: `stowage rename` carries the note, a backup holds an old one."""
    fleet = Fleet()
    note = {"clusterID": "east", "clusterUID": "u1", "clusterSet": "prod"}
    fleet.put("young", 2, **note)
    fleet.put("old", 1, **note)
    assert fleet.reason("young", BOTH) == "AlreadyRegistered old"
    assert fleet.reason("old", BOTH) == ""
    fleet.gone("old")
    assert fleet.reason("young", BOTH) == ""


@pytest.mark.proves("CT11")
def test_the_older_one_waits_until_the_younger_has_let_go():
    fleet = Fleet()
    fleet.put("old", 1)
    fleet.put("young", 2)
    assert fleet.reason("young", BOTH) == "", "it alone is connected, and not noted yet"
    assert fleet.reason("old", BOTH) == "AlreadyRegistered young"
    assert fleet.reason("young", BOTH) == "AlreadyRegistered old"
    assert fleet.reason("old", BOTH) == "AlreadyRegistered young", "requests may be in flight"
    fleet.identities.release("young")
    assert fleet.reason("old", BOTH) == ""
    assert fleet.reason("young", BOTH) == "AlreadyRegistered old"


@pytest.mark.proves("CT11")
def test_a_member_cannot_take_another_one_out_by_its_cluster_property():
    fleet = Fleet()
    fleet.put("old", 1)
    fleet.put("young", 2)
    assert fleet.reason("young", BOTH) == ""
    fleet.note("young", 2, BOTH)
    assert fleet.reason("old", OTHER) == ""
    assert fleet.note("old", 1, OTHER)["clusterID"] == "west"
    lying = ClusterIdentity("u2", "east", "prod")
    fleet.reason("old", lying)
    assert fleet.note("old", 1, lying)["clusterID"] == "west"
    assert fleet.reason("young", BOTH) == ""


@pytest.mark.proves("CT11")
def test_a_name_within_another_cluster_set_is_another_cluster():
    fleet = Fleet()
    fleet.put("old", 1)
    fleet.put("young", 2)
    assert fleet.reason("old", BOTH) == ""
    fleet.note("old", 1, BOTH)
    assert fleet.reason("young", ClusterIdentity("u2", "east", "test")) == ""
    assert fleet.reason("young", ClusterIdentity("u2", "east", "prod")) == "AlreadyRegistered old"


@pytest.mark.proves("CT11", "N3b")
def test_a_cluster_stays_the_one_of_its_uid_whatever_its_property_says():
    fleet = Fleet()
    fleet.put("old", 1, clusterID="u1")  # as an older release has noted it
    assert fleet.reason("old", BOTH) == ""
    assert fleet.note("old", 1, BOTH)["clusterID"] == "east"
    assert fleet.reason("old", ClusterIdentity("u1", "renamed", "prod")) == ""
    assert fleet.reason("old", BY_UID) == ""
    rebuilt = ClusterIdentity("u9", "east", "prod")
    assert fleet.reason("old", rebuilt) == "ClusterChanged"
    fleet.put("old", 1, clusterUID="u1", clusterSet="prod")  # a person took the note off
    assert fleet.reason("old", rebuilt) == ""


@pytest.mark.proves("CT11")
@given(data=st.data())
def test_never_two_are_served_and_somebody_is_in_the_end(data: st.DataObject):
    """Reads, notes, lost connections and restarts, in any order, of four registrations."""
    fleet, names = Fleet(), ["a", "b", "c", "d"]
    ages = dict(zip(names, data.draw(st.permutations(range(4))), strict=True))
    serving: set[str] = set()
    for name in names:
        fleet.put(name, ages[name])
    for _ in range(data.draw(st.integers(0, 30))):
        name, step = data.draw(st.sampled_from(names)), data.draw(st.sampled_from("rrrnlx"))
        if step == "r":
            if fleet.identities.refusal(name, BOTH) is None:
                serving.add(name)
            elif name in serving:
                serving.discard(name)
                fleet.identities.release(name)
        elif step == "n" and name in serving:
            fleet.note(name, ages[name], BOTH)
        elif step == "l":
            serving.discard(name)
            fleet.identities.release(name)
        elif step == "x":
            serving.clear()
            fleet.identities = Identities(_copy(fleet))
        assert len(serving) <= 1
    for _ in range(2):
        for name in names:
            if fleet.identities.refusal(name, BOTH) is not None:
                fleet.identities.release(name)
    assert sum(fleet.identities.refusal(name, BOTH) is None for name in names) == 1


def _copy(fleet: Fleet) -> Informer[MemberCluster]:
    """The informer of the next process."""
    hub = MemoryHub(clock=SystemClock(), admission=False)
    clusters = Informer(hub, MEMBER_CLUSTERS, MemberCluster)
    for each in fleet.clusters.values():
        clusters.observe(each)
    fleet.clusters = clusters
    return clusters
