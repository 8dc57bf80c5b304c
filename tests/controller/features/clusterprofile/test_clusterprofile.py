"""ClusterProfiles that become MemberClusters and follow, and MemberClusters that are exported."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from controller.features.clusterprofile import profiles
from controller.features.clusterprofile.profiles import ClusterProfile, relabelled
from controller.model.objects import MemberCluster
from crds.membercluster import MemberCluster as Schema
from machinery.api.resources import CLUSTER_PROFILES, MEMBER_CLUSTERS
from machinery.errors import NotFound
from machinery.types.metadata import Meta
from tests.controller.memory import Stage

Json = dict[str, Any]
IMPORT = {
    "namespace": "fleet",
    "selector": {"matchLabels": {"env": "prod"}},
    "properties": ["tier"],
}
CA = "LS0tLS1CRUdJTg=="


def profile(name: str, *, namespace: str = "fleet", manager: str = "other", **status: Any) -> Json:
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": {"env": "prod"}},
        "spec": {"clusterManager": {"name": manager}},
        "status": {
            "version": {"kubernetes": "v1.36.3"},
            "properties": [{"name": "tier", "value": "gold"}, {"name": "cost", "value": "9"}],
            "accessProviders": [
                {"name": "exec", "cluster": {"server": "http://plain.example"}},
                {
                    "name": "other",
                    "cluster": {
                        "server": f"https://{name}.example:6443",
                        "certificate-authority-data": CA,
                        "extensions": [{"name": "client.authentication.k8s.io/exec"}],
                    },
                },
            ],
            **status,
        },
    }


def healthy(status: str) -> Json:
    return {"conditions": [{"type": "ControlPlaneHealthy", "status": status, "reason": "Probed"}]}


class World:
    """A controller with a section `clusterProfiles`, on a hub in memory."""

    def __init__(self, path: Path) -> None:
        self.stage = Stage()
        self.hub = self.stage.hub
        self._path = path

    @asynccontextmanager
    async def leading(self, section: Json | None) -> AsyncIterator[None]:
        file: Json = {"apiVersion": "stowage.dev/v1alpha1", "kind": "SchedulerConfiguration"}
        if section is not None:
            file["clusterProfiles"] = section
        self._path.write_text(yaml.safe_dump(file))
        async with self.stage.configured(self._path):
            yield

    async def until(self, holds: Callable[[], Any]) -> None:
        await self.stage.until(holds, seconds=100.0)

    def clusters(self) -> dict[str, Json]:
        return {each["metadata"]["name"]: each for each in self.hub.all(MEMBER_CLUSTERS)}

    def unhealthy(self, name: str) -> Json:
        """The condition InventoryUnhealthy of a MemberCluster; empty without."""
        listed = self.clusters()[name].get("status", {}).get("conditions", [])
        return next((each for each in listed if each["type"] == "InventoryUnhealthy"), {})

    def exported(self) -> dict[str, Json]:
        found = self.hub.all(CLUSTER_PROFILES)
        return {
            each["metadata"]["name"]: each
            for each in found
            if each["metadata"]["namespace"] == "stowage-system"
        }

    def remove(self, name: str) -> None:
        self.hub._delete(CLUSTER_PROFILES.path("fleet", name))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "configuration.yaml")


@pytest.mark.proves("CT9")
async def test_a_selected_profile_becomes_a_member_without_credentials(world: World):
    world.hub.put(CLUSTER_PROFILES, profile("paris"))
    world.hub.put(CLUSTER_PROFILES, profile("rome", namespace="elsewhere"))
    other = profile("oslo")
    other["metadata"]["labels"] = {"env": "test"}
    world.hub.put(CLUSTER_PROFILES, other)
    async with world.leading({"import": [IMPORT]}):
        await world.until(world.clusters)
        await world.stage.calm(2)
        assert world.clusters().keys() == {"paris"}
        made = world.clusters()["paris"]
        assert made["metadata"]["labels"] == {
            "env": "prod",
            "properties.stowage.dev/tier": "gold",
            "stowage.dev/version": "v1.36.3",
        }
        address = {"server": "https://paris.example:6443", "certificateAuthorityData": CA}
        assert made["spec"] == {"endpoint": address}
        assert world.exported() == {}
        world.stage.workload("web", replicas=1)
        await world.until(lambda: world.stage.says("web")[0] == "False")
        assert world.stage.placed("web") == {}


@pytest.mark.proves("CT9")
async def test_labels_follow_and_those_of_others_stay(world: World):
    world.hub.put(CLUSTER_PROFILES, profile("paris"))
    async with world.leading({"import": [IMPORT]}):
        await world.until(world.clusters)
        mine = {"metadata": {"labels": {"team": "mine", "rack": "7"}}}
        world.hub.edit(MEMBER_CLUSTERS, "paris", mine)
        edit = {"metadata": {"labels": {"rack": "1", "zone": "a"}}}
        world.hub.edit(CLUSTER_PROFILES, "paris", edit, namespace="fleet")
        less = {"status": {"properties": []}}
        world.hub.edit(CLUSTER_PROFILES, "paris", less, status=True, namespace="fleet")

        def labels() -> Json:
            found: Json = world.clusters()["paris"]["metadata"]["labels"]
            return {k: v for k, v in found.items() if not k.startswith("stowage.dev")}

        await world.until(lambda: "zone" in labels() and len(labels()) == 4)
        assert labels() == {"env": "prod", "team": "mine", "rack": "7", "zone": "a"}
        moved = {"metadata": {"labels": {"zone": None}}}
        world.hub.edit(CLUSTER_PROFILES, "paris", moved, namespace="fleet")
        await world.until(lambda: "zone" not in labels())
        before = len(world.hub.writes("memberclusters"))
        await world.stage.calm(5)
        assert len(world.hub.writes("memberclusters")) == before


@pytest.mark.proves("CT9")
async def test_an_unhealthy_profile_and_one_that_is_gone_are_told_and_nothing_is_deleted(
    world: World,
):
    world.hub.put(CLUSTER_PROFILES, profile("paris"))
    async with world.leading({"import": [IMPORT]}):
        await world.until(world.clusters)
        sick = {"status": healthy("False")}
        world.hub.edit(CLUSTER_PROFILES, "paris", sick, status=True, namespace="fleet")
        await world.until(lambda: world.unhealthy("paris"))
        assert world.unhealthy("paris")["reason"] == "ControlPlaneUnhealthy"
        assert (
            "fleet/paris says ControlPlaneHealthy=False: Probed"
            in (world.unhealthy("paris")["message"])
        )
        well = {"status": healthy("True")}
        world.hub.edit(CLUSTER_PROFILES, "paris", well, status=True, namespace="fleet")
        await world.until(lambda: not world.unhealthy("paris"))
        world.remove("paris")
        await world.until(lambda: world.unhealthy("paris"))
        assert world.unhealthy("paris")["reason"] == "ProfileNotFound"
        assert "stowage.dev/cluster-profile" in world.unhealthy("paris")["message"]
        free = {"metadata": {"annotations": {"stowage.dev/cluster-profile": None}}}
        world.hub.edit(MEMBER_CLUSTERS, "paris", free)
        await world.until(lambda: not world.unhealthy("paris"))
    assert not [each for each in world.hub.requests if each[0] == "DELETE"]


@pytest.mark.proves("CT9")
async def test_the_inventory_that_the_configuration_lets_go_of_is_believed_no_more(world: World):
    gone = {"annotations": {"stowage.dev/cluster-profile": "fleet/paris"}}
    world.hub.put(MEMBER_CLUSTERS, {"metadata": {"name": "paris", **gone}, "spec": {}})
    async with world.leading({"import": [IMPORT]}):
        await world.until(lambda: world.unhealthy("paris"))
    async with world.leading(None):
        await world.until(lambda: not world.unhealthy("paris"))


@pytest.mark.proves("CT9")
async def test_a_member_of_another_name_stands_for_its_profile_and_a_taken_name_is_told(
    world: World,
):
    """As after `stowage rename`."""
    stands = {"annotations": {"stowage.dev/cluster-profile": "fleet/paris"}}
    world.hub.put(MEMBER_CLUSTERS, {"metadata": {"name": "paris-1", **stands}, "spec": {}})
    world.hub.put(MEMBER_CLUSTERS, {"metadata": {"name": "rome"}, "spec": {}})
    world.hub.put(CLUSTER_PROFILES, profile("paris"))
    world.hub.put(CLUSTER_PROFILES, profile("rome"))
    async with world.leading({"import": [IMPORT]}):
        await world.until(lambda: world.hub.events("NotImported"))
        event = world.hub.events("NotImported")[0]
        assert event["regarding"]["name"] == "rome"
        assert "stowage.dev/cluster-profile: fleet/rome" in event["note"]
        assert world.clusters().keys() == {"paris-1", "rome"}
        assert world.clusters()["rome"]["spec"] == {}
        assert world.clusters()["paris-1"]["metadata"]["labels"]["env"] == "prod"


@pytest.mark.proves("CT10")
async def test_every_member_is_exported_and_follows_and_goes(world: World):
    world.stage.cluster("paris")
    async with world.leading({"export": True}):
        await world.until(lambda: "status" in world.exported().get("paris", {}))
        made = world.exported()["paris"]
        assert made["metadata"]["namespace"] == "stowage-system"
        assert made["metadata"]["labels"] == {"x-k8s.io/cluster-manager": "stowage"}
        assert made["spec"]["clusterManager"] == {"name": "stowage"}
        assert made["status"]["conditions"][0]["status"] == "True"
        lost = {
            "type": "Ready",
            "status": "False",
            "reason": "Unreachable",
            "message": "no answer",
            "lastTransitionTime": "2026-01-02T00:00:00Z",
        }
        told = {"status": {"conditions": [lost], "clusterID": "east", "version": "v1.36.3"}}
        world.hub.edit(MEMBER_CLUSTERS, "paris", told, status=True)

        def status() -> Json:
            found: Json = world.exported()["paris"]["status"]
            return found

        await world.until(lambda: status()["conditions"][0]["status"] == "False")
        assert status()["conditions"] == [{**lost, "type": "ControlPlaneHealthy"}]
        assert status()["version"] == {"kubernetes": "v1.36.3"}
        assert [each["value"] for each in status()["properties"]] == ["east"]
        before = len(world.hub.writes("clusterprofiles"))
        await world.stage.calm(5)
        assert len(world.hub.writes("clusterprofiles")) == before
        world.hub.remove(MEMBER_CLUSTERS, "paris")
        await world.until(lambda: not world.exported())


@pytest.mark.proves("CT10")
async def test_what_went_while_nobody_led_goes_with_the_next_term(world: World):
    world.hub.put(CLUSTER_PROFILES, profile("gone", namespace="stowage-system", manager="stowage"))
    async with world.leading({"export": True}):
        await world.until(lambda: not world.exported())


@pytest.mark.proves("CT10")
async def test_nothing_goes_round_and_what_is_anothers_is_not_touched(world: World):
    world.stage.cluster("paris")
    world.stage.cluster("rome")
    foreign = profile("rome", namespace="stowage-system")
    world.hub.put(CLUSTER_PROFILES, foreign)
    world.hub.put(CLUSTER_PROFILES, profile("mirror", manager="stowage"))
    stored = world.exported()["rome"]
    own = {"namespace": "stowage-system"}
    async with world.leading({"import": [own, {"namespace": "fleet"}], "export": True}):
        await world.until(lambda: "status" in world.exported().get("paris", {}))
        await world.until(lambda: world.hub.events("NotExported"))
        await world.stage.calm(2)
        assert world.clusters().keys() == {"paris", "rome"}
        assert world.exported()["rome"] == stored
        world.hub.remove(MEMBER_CLUSTERS, "rome")
        # what stands there belongs to another manager, and comes in as any other
        await world.until(lambda: "endpoint" in world.clusters().get("rome", {}).get("spec", {}))
        assert world.exported()["rome"] == stored


@pytest.mark.proves("CT10")
async def test_a_hub_without_the_kind_places_as_ever_and_may_get_it_later(world: World):
    served = False

    async def absent(_method: str, path: str, _body: Any) -> None:
        if "clusterprofiles" in path and not served:
            raise NotFound(code=404, reason="NotFound", message="no such kind")

    world.hub.faults.append(absent)
    world.stage.cluster("paris")
    world.stage.workload("web", replicas=1)
    world.hub.put(CLUSTER_PROFILES, profile("rome"))
    stands = {"annotations": {"stowage.dev/cluster-profile": "fleet/oslo"}}
    world.hub.put(MEMBER_CLUSTERS, {"metadata": {"name": "oslo", **stands}, "spec": {}})
    async with world.leading({"import": [IMPORT], "export": True}):
        await world.until(lambda: world.stage.placed("web") == {"paris": 1})
        await world.stage.calm(5)
        assert not world.unhealthy("oslo"), "whether its profile is there is not known"
        served = True
        await world.until(lambda: world.exported().keys() == {"oslo", "paris", "rome"})
        assert world.clusters().keys() == {"oslo", "paris", "rome"}
        await world.until(lambda: world.unhealthy("oslo"))


@pytest.mark.proves("J16")
async def test_a_kind_that_was_away_for_long_is_followed_within_seconds(world: World):
    served, asked = False, list[float]()

    async def absent(_method: str, path: str, _body: Any) -> None:
        if "clusterprofiles" in path and not served:
            asked.append(world.stage.clock.monotonic())
            raise NotFound(code=404, reason="NotFound", message="404 page not found")

    world.hub.faults.append(absent)
    stands = {"annotations": {"stowage.dev/cluster-profile": "fleet/paris"}}
    world.hub.put(MEMBER_CLUSTERS, {"metadata": {"name": "paris", **stands}, "spec": {}})
    async with world.leading({"import": [IMPORT]}):
        await world.stage.calm(120)
        assert not world.unhealthy("paris"), "whether its profile is there is not known"
        assert max(after - before for before, after in pairwise(asked)) <= 5.0
        served = True
        await world.stage.until(lambda: world.unhealthy("paris"), seconds=5.0)
        assert world.unhealthy("paris")["reason"] == "ProfileNotFound"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@st.composite
def mangled(draw: st.DrawFn) -> ClusterProfile:
    """A ClusterProfile with anything in place of some of its parts."""
    body = copy.deepcopy(profile("paris", **healthy("False")))
    for _ in range(draw(st.integers(0, 4))):
        at: Any = body
        while isinstance(at, dict | list) and at:
            keys = list(at) if isinstance(at, dict) else list(range(len(at)))
            key = draw(st.sampled_from([each for each in keys if each != "metadata"] or keys))
            if draw(st.booleans()) and at is not body:
                at[key] = draw(VALUES)
                break
            at = at[key]
    labels = draw(st.dictionaries(st.sampled_from(["env", "stowage.dev/cluster"]), st.just("x")))
    return ClusterProfile(
        Meta("paris", "fleet", labels=labels), spec=body["spec"], status=body["status"]
    )


@pytest.mark.proves("CT9")
@given(mangled())
def test_of_whatever_a_profile_says_comes_a_member_that_the_schema_takes(found: ClusterProfile):
    made = profiles.membercluster(found, ("tier",))
    assert Schema.model_validate(made)
    assert "stowage.dev/cluster" not in made["metadata"]["labels"]
    profiles.trouble(("fleet", "paris"), found)
    meta = Meta(
        "paris", labels=made["metadata"]["labels"], annotations=made["metadata"]["annotations"]
    )
    assert relabelled(MemberCluster(meta), found, ("tier",)) == {}
