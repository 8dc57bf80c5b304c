"""The nodes that a pod may lie on: labels that it requires, taints, and its own other replicas."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.explain.pending import remedies
from controller.model.objects import MemberCluster
from controller.model.place import Place, apart
from controller.snapshot.builder import Snapshot
from controller.snapshot.snapshot import Snapshot as Columns
from machinery.api.resources import MEMBER_CLUSTERS
from machinery.types.selectors import Requirement
from tests.controller.make import (
    REQUIRED,
    ROOMY,
    builder,
    cluster,
    decided,
    expression,
    info,
    required_terms,
    snapshot,
)
from tests.controller.memory import Stage

ARCH, DISK = "kubernetes.io/arch", "example.com/disk"
APP = {"app": "demo"}
HOST = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": APP}}


def pod(cpu: str = "1", **spec: Any) -> dict[str, Any]:
    requests = {"cpu": cpu}
    return {"containers": [{"name": "main", "resources": {"requests": requests}}], **spec}


def needs(*terms: Any) -> dict[str, Any]:
    """Required node affinity: one of the terms, each a list of (key, operator, values)."""
    listed = [
        {"matchExpressions": [{"key": k, "operator": o, "values": [*v]} for k, o, *v in term]}
        for term in terms
    ]
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": listed}}}}


def refuses(*terms: Any) -> dict[str, Any]:
    return {"affinity": {"podAntiAffinity": {REQUIRED: [*(terms or [HOST])]}}}


def nodes(count: int = 1, cpu: str = "8", **more: Any) -> dict[str, Any]:
    return {"count": count, "free": {**ROOMY, "cpu": cpu}, **more}


def fits(spec: dict[str, Any], *groups: dict[str, Any]) -> int:
    """The replicas that a cluster of these nodes can hold."""
    asked = info(pod=spec)
    found: Columns = snapshot(cluster("a", groups=[*groups]))
    return int(found.fitting(asked.request, asked.place)[0])


@pytest.mark.proves("J3")
@pytest.mark.proves("KD63")
class TestNodeAffinity:
    def test_it_says_the_same_as_a_node_selector(self) -> None:
        amd, arm = ({ARCH: each} for each in ("amd64", "arm64"))
        fleet = [
            cluster("amd", groups=[nodes(9, labels=amd)]),
            cluster("arm", groups=[nodes(1, labels=arm)]),
        ]
        selector = info(pod=pod(nodeSelector=arm), replicas=4)
        affinity = info(pod=pod(**needs([(ARCH, "In", "arm64")])), replicas=4)
        assert decided(selector, *fleet).placements == {"arm": 4}
        assert decided(affinity, *fleet).placements == {"arm": 4}
        both = info(pod=pod(nodeSelector=amd, **needs([(ARCH, "In", "arm64")])))
        found = decided(both, *fleet)
        assert not found.placements
        assert "2 had no node with room that the pods' nodeSelector and node affinity" in (
            found.message
        )

    @pytest.mark.parametrize(
        ("terms", "found"),
        [
            ([[(DISK, "In", "ssd", "nvme")]], 8),
            ([[(DISK, "NotIn", "ssd")]], 4),
            ([[(DISK, "Exists")]], 12),
            ([[(DISK, "DoesNotExist")]], 0),
            ([[(DISK, "In", "tape")]], 0),
            ([[(DISK, "In", "ssd")], [(DISK, "In", "hdd")]], 12),
            ([[(DISK, "In", "ssd"), ("size", "Gt", "900")]], 8),
            ([[(DISK, "In", "ssd"), ("size", "Gt", "1000")]], 0),
            ([[("size", "Lt", "900")]], 4),
            ([[("size", "Gt", "9_9")]], 0),
            ([[("size", "Gt", "1", "2")]], 0),
            ([[(DISK, "Near", "ssd")]], 0),
            ([[("rack", "In", "r1")]], 12),
            ([[("rack", "In", "r1"), (DISK, "In", "hdd")]], 4),
            ([[]], 0),
        ],
    )
    def test_each_operator_as_kube_scheduler_reads_it(self, terms: Any, found: int) -> None:
        """Terms are ORed, their expressions hold together; a label that no node tells is no No."""
        groups = [
            nodes(labels={DISK: "ssd", "size": "1000"}),
            nodes(cpu="4", labels={DISK: "hdd", "size": "500"}),
        ]
        assert fits(pod(**needs(*terms)), *groups) == found

    @pytest.mark.proves("RB3")
    @pytest.mark.parametrize(
        ("label", "matches"),
        [
            ("1000", True),
            ("+1000", True),
            ("007", True),
            ("1_000", False),
            (" 1000", False),
            ("1e3", False),
            ("\u0661\u0660", False),
            (str(2**63), False),
            (str(2**63 - 1), True),
        ],
    )
    def test_numbers_are_read_as_go_reads_them(self, label: str, *, matches: bool) -> None:
        assert Requirement("size", "Gt", ("1",)).matches({"size": label}) is matches
        assert fits(pod(**needs([("size", "Gt", "1")])), nodes(labels={"size": label})) == (
            8 if matches else 0
        )

    def test_names_of_nodes_are_not_known_and_refuse_nothing(self) -> None:
        by_name = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
        terms = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [by_name]}}}
        assert fits(pod(affinity=terms), nodes()) == 8

    def test_another_form_is_told_with_its_field(self) -> None:
        wrong = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": "x"}]}}}
        with pytest.raises(ValueError, match=r"spec\.affinity\.nodeAffinity\..*matchExpressions"):
            info(pod=pod(affinity=wrong))

    def test_a_member_is_simulated_by_the_same_rule(self) -> None:
        place = Place.of(pod(**needs([(DISK, "In", "ssd")])))
        assert place.takes({DISK: "ssd"})
        assert place.takes({})
        assert not place.takes({DISK: "hdd"})


@pytest.mark.proves("J8")
@pytest.mark.proves("KD64")
class TestReplicasApart:
    """Required anti-affinity over host names, against a pod's own labels: one replica a node."""

    def test_two_nodes_hold_two_and_the_third_waits(self) -> None:
        asked = info(pod=pod(**refuses()), replicas=3, distribution="Divided")
        found = decided(asked, cluster("a", groups=[nodes(2)]))
        assert found.placements == {"a": 2}
        assert [note.text for note in remedies(found)] == [
            "1 more replica needs a node without one of its replicas on a"
        ]

    def test_a_cluster_of_one_node_is_refused_for_two(self) -> None:
        asked = info(pod=pod(**refuses()), replicas=2)
        one, two = cluster("a", groups=[nodes(1)]), cluster("b", groups=[nodes(2, cpu="1")])
        assert decided(asked, one, two).placements == {"b": 2}
        assert "1 no node without one of its replicas" in decided(asked, one).message

    def test_present_replicas_and_those_on_their_way_have_their_nodes(self) -> None:
        asked = info(pod=pod(**refuses()), replicas=5, distribution="Divided", present={"a": 2})
        # Those that landed lie on nodes with room for more, or on full ones.
        roomy = [nodes(3)]
        assert decided(asked, cluster("a", groups=roomy)).placements == {"a": 3}
        assert decided(asked, cluster("a", groups=[nodes(1), nodes(2, cpu="0")])).placements == {
            "a": 3
        }
        gone = [nodes(1)]
        assert decided(asked, cluster("a", groups=gone)).placements == {"a": 2}, "nothing leaves"
        made = builder([cluster("a", groups=[nodes(3)])])
        made.assume("a", asked.load, 2)
        coming: Snapshot = made.snapshot()
        assert int(coming.fitting(asked.request, asked.place)[0]) == 1
        other = info("other", pod=pod(**refuses()), labels={"app": "demo", "tier": "x"})
        assert int(coming.fitting(other.request, other.place)[0]) == 3

    def test_nodes_that_let_no_pod_in_hold_none(self) -> None:
        groups = [nodes(2), nodes(2, taints=[{"key": "gpu", "effect": "NoSchedule"}])]
        assert fits(pod(**refuses()), *groups) == 2
        tolerant = pod(tolerations=[{"operator": "Exists"}], **refuses())
        assert fits(tolerant, *groups) == 4

    @pytest.mark.parametrize(
        ("term", "counts"),
        [
            (HOST, True),
            ({**HOST, "labelSelector": {}}, True),
            ({**HOST, "namespaceSelector": {}}, True),
            ({**HOST, "matchLabelKeys": ["pod-template-hash"]}, True),
            ({"topologyKey": "kubernetes.io/hostname"}, False),
            ({**HOST, "labelSelector": {"matchLabels": {"app": "other"}}}, False),
            ({**HOST, "topologyKey": "topology.kubernetes.io/zone"}, False),
            ({**HOST, "namespaces": ["other"]}, False),
            ({**HOST, "mismatchLabelKeys": ["app"]}, False),
        ],
    )
    def test_only_a_rule_against_its_own_counts(self, term: Any, *, counts: bool) -> None:
        assert apart(pod(**refuses(term)), APP) is counts

    def test_what_is_only_preferred_binds_nothing(self) -> None:
        soft = {"weight": 1, "podAffinityTerm": HOST}
        wishes = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [soft]}}
        assert not apart(pod(affinity=wishes), APP)


@pytest.mark.proves("J7")
class TestTaintsOfNodes:
    """What keeps pods from nodes with room is told, and not that there were none."""

    SLA = ({"key": "sla", "value": "950", "effect": "NoSchedule"},)

    def test_the_taint_is_named_and_the_toleration_that_helps(self) -> None:
        fleet = [
            cluster("a", groups=[nodes(2, taints=[*self.SLA])]),
            cluster("full", groups=[nodes(2, cpu="0")]),
        ]
        found = decided(info(pod=pod()), *fleet)
        assert found.message == (
            "0/2 clusters: 1 had nodes with the taint sla=950:NoSchedule that the pods do not "
            "tolerate, 1 insufficient cpu"
        )
        assert [note.text for note in remedies(found)] == [
            "all 2 replicas need 1 cpu each on full",
            "a toleration of sla=950:NoSchedule in the pods' tolerations: that alone keeps it from a",
        ]
        helped = info(pod=pod(tolerations=[{"key": "sla", "operator": "Exists"}]))
        assert decided(helped, *fleet).placements == {"a": 2}

    def test_a_node_that_is_open_and_full_is_no_reason(self) -> None:
        groups = [nodes(1, cpu="0"), nodes(2, taints=[*self.SLA])]
        assert (
            "the taint sla=950:NoSchedule"
            in decided(info(pod=pod()), cluster("a", groups=groups)).message
        )

    def test_more_room_is_asked_for_where_no_toleration_would_help(self) -> None:
        groups = [nodes(1, cpu="0"), nodes(2, cpu="1", taints=[*self.SLA])]
        found = decided(info(pod=pod(cpu="4")), cluster("a", groups=groups))
        assert found.message == "0/1 clusters: 1 insufficient cpu"

    def test_taints_that_only_wish_keep_nobody_away(self) -> None:
        soft = [{"key": "sla", "effect": "PreferNoSchedule"}]
        assert fits(pod(), nodes(1, taints=soft)) == 8


ZONE = "topology.kubernetes.io/zone"


def zoned(name: str, *zones: str, **labels: str) -> MemberCluster:
    """A cluster with a node in each of these zones, empty for one without the label."""
    groups = [nodes(labels={ZONE: zone} if zone else {}) for zone in zones]
    return cluster(
        name, {key.replace("_", "/"): each for key, each in labels.items()}, groups=groups
    )


@pytest.mark.proves("KD65")
class TestZonesOfNodes:
    """A key that the labels of a MemberCluster lack is read of its nodes."""

    BOTH = zoned("m1", "eu-1a", "eu-1b")

    @pytest.mark.parametrize(
        ("operator", "values", "takes"),
        [
            ("In", ["eu-1b"], True),
            ("NotIn", ["eu-1b"], False),
            ("NotIn", ["eu-2a"], True),
            ("In", ["eu-2a"], False),
            ("Exists", [], True),
            ("DoesNotExist", [], False),
        ],
    )
    def test_both_ways_to_choose_clusters_read_them(
        self, operator: str, values: list[str], *, takes: bool
    ) -> None:
        asked = expression(ZONE, operator, *values)
        by_affinity = info(clusterAffinity=required_terms([asked]))
        by_selector = info(clusterSelector={"matchExpressions": [asked]})
        for each in (by_affinity, by_selector):
            assert decided(each, self.BOTH).placements == ({"m1": 2} if takes else {})

    def test_a_label_of_the_member_cluster_wins(self) -> None:
        labels = {ZONE: "eu-9"}
        known = cluster("m1", labels, groups=list(groups_of(self.BOTH)))
        for value, takes in (("eu-1b", False), ("eu-9", True)):
            assert bool(decided(info(clusterSelector={ZONE: value}), known).placements) is takes
        assert decided(info(clusterSelector={ZONE: "eu-1a"}), self.BOTH).placements == {"m1": 2}

    def test_a_node_without_the_label_is_one_without_it(self) -> None:
        some = zoned("m1", "eu-1a", "")
        for operator, takes in (("Exists", True), ("DoesNotExist", False)):
            asked = info(clusterAffinity=required_terms([expression(ZONE, operator)]))
            assert bool(decided(asked, some).placements) is takes
        gone = cluster("m1", groups=[nodes(0, labels={ZONE: "eu-1a"}), nodes()])
        assert not decided(info(clusterSelector={ZONE: "eu-1a"}), gone).placements

    def test_a_value_on_which_all_agree_is_its_domain(self) -> None:
        constraint = {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
        asked = info(replicas=4, distribution="Divided", spreadConstraints=[constraint])
        labelled = cluster("m3", {ZONE: "b"}, groups=[nodes(2)])
        fleet = [zoned("m1", "a", "a"), zoned("m2", "b"), labelled]
        found = decided(asked, *fleet).placements
        assert found["m1"] == 2
        assert found.get("m2", 0) + found.get("m3", 0) == 2
        assert decided(asked, self.BOTH, *fleet).placements == found, "it is in no domain"

    def test_nothing_moves_when_nodes_go(self) -> None:
        terms = required_terms([expression(ZONE, "In", "eu-1b")])
        here = info(present={"m1": 2}, clusterAffinity=terms)
        assert decided(here, zoned("m1", "eu-1a"), zoned("m2", "eu-1b")).placements == {"m1": 2}

    def test_overrides_read_own_labels_alone(self) -> None:
        """Else pods that run would be made anew as nodes come and go."""
        big = [{"name": "main", "resources": {"requests": {"cpu": "3"}}}]
        override = {
            "name": "big",
            "clusterSelector": {"matchLabels": {ZONE: "eu-1a"}},
            "patch": {"spec": {"template": {"spec": {"containers": big}}}},
        }
        asked = info(replicas=9, distribution="Divided", overrides=[override])
        assert decided(asked, zoned("m1", "eu-1a")).placements == {"m1": 9}

    async def test_nodes_that_come_place_what_waits(self) -> None:
        stage = Stage("m1")
        async with stage.leading():
            terms = required_terms([expression(ZONE, "In", "eu-1b")])
            stage.workload("web", clusterAffinity=terms)
            await stage.until(lambda: "clusterAffinity" in stage.says("web")[2])
            group = {"count": 1, "free": {**ROOMY}, "labels": {ZONE: "eu-1b"}}
            status = {"status": {"nodeGroups": [group]}}
            stage.hub.edit(MEMBER_CLUSTERS, "m1", status, status=True)
            await stage.until(lambda: stage.placed("web") == {"m1": 2}, seconds=10)


def groups_of(found: MemberCluster) -> list[dict[str, Any]]:
    return [msgspec.to_builtins(each) for each in found.status.node_groups]
