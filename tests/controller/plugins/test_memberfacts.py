"""What members tell of themselves: the kinds that they serve, and what their quotas leave."""

from __future__ import annotations

from typing import Any

import pytest

from controller.cache.assumed import AssumedPlacements
from controller.cache.placements import PlacementIndex
from controller.config import default_profile
from controller.explain.pending import remedies
from controller.model.objects import MemberCluster
from controller.model.requests import charges
from controller.model.unit import WorkloadInfo
from controller.scheduling.cycle import decide
from controller.snapshot.builder import Snapshot, with_cluster
from machinery.api.resources import MEMBER_CLUSTERS
from tests.controller.make import NOW, builder, cluster, decided, info, snapshot
from tests.controller.memory import Stage

ROLLOUT = "argoproj.io/v1alpha1/Rollout"
LACKS = "do not serve argoproj.io/v1alpha1 Rollout"
DIVIDED = {"distribution": "Divided"}


def serving(name: str, *kinds: str, omitted: int = 0, **said: Any) -> MemberCluster:
    status = {"kinds": [*kinds], "kindsOmitted": omitted}
    return cluster(name, status=status, **said)


def rollout(version: str = "v1alpha1", **said: Any) -> WorkloadInfo:
    template = {
        "apiVersion": f"argoproj.io/{version}",
        "kind": "Rollout",
        "metadata": {"name": "web"},
        "spec": {"template": {"spec": {"containers": [{"name": "main"}]}}},
    }
    return info(template=template, **{"replicas": 1, **said})


def quota(name: str = "team", namespace: str = "shop", **free: str) -> dict[str, Any]:
    told = {key.replace("_", "."): amount for key, amount in free.items()}
    return {"namespace": namespace, "name": name, "free": told}


def quoted(name: str, *quotas: dict[str, Any], **said: Any) -> MemberCluster:
    return cluster(name, status={"quotas": [*quotas]}, **said)


@pytest.mark.proves("KD59")
class TestServedKinds:
    FLEET = (serving("m1", "example.com/v1/Widget"), serving("m2"))

    def test_a_kind_goes_where_it_is_served(self) -> None:
        assert decided(rollout(), *self.FLEET, serving("m3", ROLLOUT)).placements == {"m3": 1}
        away = serving("m3", ROLLOUT, ready=False)
        found = decided(rollout(), *self.FLEET, away)
        assert not found.placements
        assert found.message == f"0/3 clusters: 2 clusters {LACKS}, 1 not ready"
        assert "the CustomResourceDefinition of argoproj.io/v1alpha1 Rollout" in str(
            [note.text for note in remedies(found)]
        )

    def test_it_goes_and_nothing_moves(self) -> None:
        here = rollout(present={"m1": 1})
        assert decided(here, *self.FLEET).placements == {"m1": 1}
        edited = rollout(present={"m1": 1}, edited=True)
        assert decided(edited, *self.FLEET, serving("m3", ROLLOUT)).placements == {"m1": 1}

    @pytest.mark.proves("KD60")
    @pytest.mark.parametrize(
        ("asked", "there"),
        [
            (rollout("v2"), serving("m1", ROLLOUT)),
            (
                info(manifests=[{"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout"}]),
                serving("m1", "argoproj.io/v1/Rollout", "argoproj.io/v1alpha1/Rollouts"),
            ),
        ],
    )
    def test_versions_and_manifests_count_the_same(
        self, asked: WorkloadInfo, there: MemberCluster
    ) -> None:
        found = decided(asked, there)
        assert not found.placements
        assert "1 cluster does not serve argoproj.io/v" in found.message

    @pytest.mark.proves("KD60")
    @pytest.mark.parametrize(
        "there",
        [
            cluster("m1"),
            serving("m1", *(f"k{n}.io/v1/Kind" for n in range(512)), omitted=1),
        ],
    )
    def test_what_is_not_known_refuses_nothing(self, there: MemberCluster) -> None:
        assert decided(rollout(), there).placements == {"m1": 1}

    def test_kinds_of_kubernetes_and_own_definitions_need_no_list(self) -> None:
        definition = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "spec": {
                "group": "argoproj.io",
                "names": {"kind": "Rollout"},
                "versions": [{"name": "v1alpha1"}, "broken"],
            },
        }
        asked = rollout(manifests=[definition])
        assert asked.served_kinds == ("apiextensions.k8s.io/v1/CustomResourceDefinition",)
        assert not info().served_kinds
        for odd in ({"spec": []}, {"spec": {"versions": 1}}, {}):
            assert len(rollout(manifests=[{**definition, "spec": None, **odd}]).served_kinds) == 2


@pytest.mark.proves("KD61")
class TestMemberQuota:
    ASKED = info(replicas=9, **DIVIDED)
    """Pods of 500m and 1Gi."""

    @pytest.mark.parametrize(
        ("free", "fits"),
        [
            ({"pods": "2"}, 2),
            ({"count/pods": "2"}, 2),
            ({"requests_cpu": "1300m"}, 2),
            ({"cpu": "1"}, 2),
            ({"requests_memory": "2Gi"}, 2),
            ({"limits_cpu": "1"}, 9),
            ({"pods": "5", "cpu": "1"}, 2),
            ({"requests_nvidia.com/gpu": "0"}, 9),
            ({"services": "0", "requests.storage": "0"}, 9),
        ],
    )
    def test_m1_takes_what_its_quota_leaves(self, free: dict[str, str], fits: int) -> None:
        found = decided(self.ASKED, quoted("m1", quota(**free)))
        assert found.placements == {"m1": fits}

    def test_limits_are_counted_as_requests_are(self) -> None:
        limits = {"requests": {"cpu": "500m"}, "limits": {"cpu": "2", "memory": "1Gi"}}
        pod = {
            "containers": [{"name": "main", "resources": limits}],
            "initContainers": [
                {"name": "first", "resources": {"limits": {"cpu": "3"}}},
                {"name": "side", "restartPolicy": "Always", "resources": {"limits": {"cpu": "1"}}},
            ],
            "overhead": {"cpu": "250m", "memory": "1Mi", "pods": "0"},
        }
        asked = info(replicas=9, pod=pod, **DIVIDED)
        assert charges(asked.pod) == {
            "pods": 1,
            "requests.cpu": 3250,
            "requests.memory": (1 << 30) + (1 << 20),
            "limits.cpu": 3250,
            "limits.memory": (1 << 30) + (1 << 20),
        }
        there = quoted("m1", quota(limits_cpu="7", limits_memory="5Gi"))
        assert decided(asked, there).placements == {"m1": 2}

    def test_a_whole_workload_is_refused_with_the_quota_named(self) -> None:
        asked = info(replicas=3)
        found = decided(asked, quoted("m1", quota(pods="2")), quoted("m2", quota(cpu="700m")))
        assert not found.placements
        assert found.message == (
            "0/2 clusters: 1 ResourceQuota shop/team has cpu 700m left, "
            "1 ResourceQuota shop/team has pods 2 left"
        )
        assert [
            "a greater ResourceQuota of namespace shop there" in each.text
            for each in remedies(found)
        ]
        assert decided(asked, quoted("m1", quota(pods="2")), cluster("m2")).placements == {"m2": 3}

    def test_the_rest_of_a_divided_one_is_told_of_it(self) -> None:
        found = decided(self.ASKED, quoted("m1", quota(pods="2")))
        assert "ResourceQuota shop/team has pods 2 left" in found.message
        assert "MemberQuota" in found.kept_out_by()

    def test_only_the_namespace_of_the_workload_on_the_member_counts(self) -> None:
        there = quoted("m1", quota(pods="2", namespace="other"))
        assert decided(self.ASKED, there).placements == {"m1": 9}
        moved = info(replicas=9, targetNamespace="other", **DIVIDED)
        assert decided(moved, there).placements == {"m1": 2}

    def test_what_runs_stays_and_counts_once(self) -> None:
        here = info(replicas=9, present={"m1": 5}, **DIVIDED)
        assert decided(here, quoted("m1", quota(pods="0"))).placements == {"m1": 5}
        assert decided(here, quoted("m1", quota(pods="2"))).placements == {"m1": 7}
        assert decided(here, quoted("m1", quota(pods="0")), cluster("m2")).placements == {
            "m1": 5,
            "m2": 4,
        }

    def test_the_tightest_of_several_counts_on_each_cluster(self) -> None:
        there = [
            quoted("m1", quota(pods="4"), quota("other", pods="1", cpu="9")),
            quoted("m2", quota(cpu="1")),
        ]
        assert decided(self.ASKED, *there).placements == {"m1": 1, "m2": 2}

    def test_an_override_is_counted_as_it_is_there(self) -> None:
        small = {
            "spec": {
                "template": {
                    "spec": {
                        "containers": [{"name": "main", "resources": {"requests": {"cpu": "100m"}}}]
                    }
                }
            }
        }
        override = {
            "name": "small",
            "clusterSelector": {"matchLabels": {"size": "s"}},
            "patch": small,
        }
        asked = info(replicas=9, overrides=[override], **DIVIDED)
        there = [
            quoted("m1", quota(cpu="500m"), labels={"size": "s"}),
            quoted("m2", quota(cpu="500m")),
        ]
        assert decided(asked, *there).placements == {"m1": 5, "m2": 1}

    def test_many_quotas_make_a_short_message(self) -> None:
        fleet = [quoted(f"m{n:02}", quota(pods=str(n))) for n in range(40)]
        message = decided(info(replicas=50), *fleet).message
        assert message.count("left") == 16
        assert "24 at a ResourceQuota of namespace shop" in message

    def test_a_limit_that_is_none_is_the_members_to_refuse(self) -> None:
        asked = info(replicas=9, pod=limited("much"), **DIVIDED)
        there = quoted("m1", quota(limits_cpu="1", pods="2"))
        assert decided(asked, there).placements == {"m1": 2}

    def test_a_quantity_that_is_none_leaves_nothing(self) -> None:
        assert not decided(self.ASKED, quoted("m1", quota(pods="many"))).placements


def limited(cpu: str) -> dict[str, Any]:
    resources = {"requests": {"cpu": "100m"}, "limits": {"cpu": cpu}}
    return {"containers": [{"name": "main", "resources": resources}]}


def taking(found: Snapshot, asked: WorkloadInfo) -> dict[str, int]:
    return dict(decide(found, asked, PlacementIndex(), default_profile(), NOW).placements)


@pytest.mark.proves("KD61")
class TestQuotaInFlight:
    def test_replicas_on_their_way_have_their_part(self) -> None:
        made = builder([quoted("m1", quota(pods="5")), quoted("m2", quota(pods="5"))])
        assumed = AssumedPlacements(PlacementIndex(), made)
        first = info("first", replicas=3)
        assumed.assume(first, {"m1": 3})
        other = info("other", replicas=9, **DIVIDED)
        assert taking(made.snapshot(), other) == {"m1": 2, "m2": 5}
        elsewhere = info("other", namespace="else", replicas=9, **DIVIDED)
        assert sum(taking(made.snapshot(), elsewhere).values()) == 9
        # Its own are counted once, whether they have come or not.
        again = info(
            "first", replicas=7, present={"m1": 3}, targetCluster={"name": "m1"}, **DIVIDED
        )
        assert taking(made.snapshot(), again) == {"m1": 5}
        assumed.drop(first.key)
        assert taking(made.snapshot(), info("other", replicas=10, **DIVIDED)) == {"m1": 5, "m2": 5}

    def test_a_replica_of_other_pods_has_another_part(self) -> None:
        made = builder([quoted("m1", quota(limits_cpu="8"))])
        assumed = AssumedPlacements(PlacementIndex(), made)
        for limit, left in (("2", 2), ("1", 5)):
            assumed.assume(info("first", replicas=3, pod=limited(limit)), {"m1": 3})
            other = info("other", replicas=9, pod=limited("1"), **DIVIDED)
            assert taking(made.snapshot(), other) == {"m1": left}

    def test_a_set_decided_in_one_pass_shares_it(self) -> None:
        found = snapshot(quoted("m1", quota(pods="5")), quoted("m2", quota("q", pods="9")))
        first = info("first")
        after = found.assuming(first.load, {"m1": 4, "m2": 9, "gone": 2}, first.charge)
        other = info("other", replicas=9, **DIVIDED)
        assert taking(after, other) == {"m1": 1}
        assert taking(found, info("o", replicas=14, **DIVIDED)) == {"m1": 5, "m2": 9}

    def test_rows_keep_their_quotas_as_clusters_come_and_go(self) -> None:
        made = builder(
            [cluster("m1"), quoted("m2", quota(pods="2")), quoted("m3", quota(pods="3"))]
        )
        made.assume("m3", info().load, 1, info().charge)
        other = info("other", replicas=9, **DIVIDED)
        made.snapshot()
        made.remove("m1")
        assert taking(made.snapshot(), other) == {"m2": 2, "m3": 2}
        made.upsert(quoted("m0", quota(pods="1")))
        assert taking(made.snapshot(), other) == {"m0": 1, "m2": 2, "m3": 2}
        made.upsert(quoted("m3"))
        found = made.snapshot()
        assert not found.charged
        assert found.quotas["shop"].rows.tolist() == sorted(found.row[n] for n in ("m0", "m2"))
        changed = with_cluster(found, quoted("m2", quota(pods="1")))
        assert taking(changed, info("o", replicas=2, targetCluster={"name": "m2"})) == {}
        for name in ("m0", "m2"):
            made.upsert(cluster(name))
        assert not made.snapshot().quotas


def facts(stage: Stage, name: str, **status: Any) -> None:
    stage.hub.edit(MEMBER_CLUSTERS, name, {"status": status}, status=True)


@pytest.mark.proves("KD59")
async def test_a_definition_that_comes_is_used_within_ten_seconds_and_one_that_goes_moves_nothing() -> (
    None
):
    stage = Stage("m1", "m2")
    for name in ("m1", "m2"):
        facts(stage, name, kinds=["example.com/v1/Widget"])
    widget = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "spec": {"replicas": 1}}
    async with stage.leading():
        stage.workload("web", replicas=1, targetDeployment=None, template=widget)
        await stage.until(lambda: LACKS in stage.says("web")[2])
        assert f"2 clusters {LACKS}" in stage.says("web")[2]
        facts(stage, "m1", kinds=[ROLLOUT, "example.com/v1/Widget"])
        await stage.until(lambda: stage.placed("web") == {"m1": 1}, seconds=10)
        facts(stage, "m1", kinds=["example.com/v1/Widget"])
        facts(stage, "m2", kinds=[ROLLOUT])
        await stage.calm(60)
        assert stage.placed("web") == {"m1": 1}


@pytest.mark.proves("KD61")
async def test_a_raised_quota_places_what_waits_within_ten_seconds() -> None:
    stage = Stage("m1", cpu="64")
    facts(stage, "m1", quotas=[quota(pods="2"), quota(pods="2", namespace="other")])
    async with stage.leading():
        stage.workload("web", replicas=9, distribution="Divided")
        stage.workload("whole", replicas=4, created=1)
        await stage.until(lambda: stage.placed("web") == {"m1": 2})
        await stage.until(lambda: "has pods" in stage.says("whole")[2])
        facts(stage, "m1", quotas=[quota(pods="2"), quota(pods="50", namespace="other")])
        await stage.calm(20)
        assert stage.placed("web") == {"m1": 2}
        facts(stage, "m1", quotas=[quota(pods="13"), quota(pods="50", namespace="other")])
        await stage.until(lambda: stage.placed("web") == {"m1": 9}, seconds=10)
        await stage.until(lambda: stage.placed("whole") == {"m1": 4}, seconds=10)
        facts(stage, "m1", quotas=[quota(pods="0")])
        await stage.calm(60)
        assert stage.placed("web") == {"m1": 9}
        facts(stage, "m1", quotas=None)
        await stage.calm(20)
        assert (stage.placed("web"), stage.placed("whole")) == ({"m1": 9}, {"m1": 4})
