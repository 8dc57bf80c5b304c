"""Each file of examples/ applies, with the result that the README promises."""

from __future__ import annotations

import base64
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.harness import ROOT, Playground, Process, load, wait

EXAMPLES = ROOT / "examples"
NAMESPACE = "demo"


@pytest.fixture(scope="module")
def demo(playground: Playground) -> Iterator[Playground]:
    playground.hub.apply((EXAMPLES / "00-namespace.yaml").read_text())
    yield playground
    playground.hub("-n", NAMESPACE, "delete", "wl", "--all", timeout=120)
    playground.hub("delete", "namespace", NAMESPACE, "--wait=false")


def apply(demo: Playground, name: str) -> None:
    """Apply a file of examples/; on kind, with kind's provider and version."""
    text = (EXAMPLES / name).read_text()
    if demo.provider == "kind":
        version = demo.hub.get("mc", "member-1")["status"]["version"]
        text = text.replace("cloudProvider: kwok", "cloudProvider: kind")
        text = text.replace("clusterVersion: v1.36.3", f"clusterVersion: {version}")
    demo.hub.apply(text)


def clusters(demo: Playground, name: str) -> set[str]:
    demo.until_running(NAMESPACE, name)
    return set(demo.placements(NAMESPACE, name))


@pytest.mark.proves("C2", "C3", "C27")
def test_deployment_service_and_secret(demo: Playground) -> None:
    apply(demo, "01-deployment-service-secret.yaml")
    (member,) = clusters(demo, "wordpress")
    assert demo.seen(member, NAMESPACE, "wordpress")["spec"]["replicas"] == 3
    assert demo.seen(member, NAMESPACE, "wordpress", version="v1", kind="Service")
    secret = demo.seen(member, NAMESPACE, "demo-mysql", version="v1", kind="Secret")
    assert base64.b64decode(secret["data"]["username"]) == b"shop"


@pytest.mark.proves("C8")
def test_target_cluster(demo: Playground) -> None:
    apply(demo, "02-target-cluster.yaml")
    assert clusters(demo, "named") == {"member-2"}


@pytest.mark.proves("C10")
def test_provider_and_version(demo: Playground) -> None:
    apply(demo, "03-cluster-selector-provider.yaml")
    assert len(clusters(demo, "by-provider")) == 1


@pytest.mark.proves("C11")
def test_free_labels(demo: Playground) -> None:
    apply(demo, "04-cluster-selector-labels.yaml")
    assert clusters(demo, "by-labels") == {"member-3"}


@pytest.mark.proves("C13")
def test_required_affinity(demo: Playground) -> None:
    apply(demo, "05-cluster-affinity-required.yaml")
    assert clusters(demo, "required") <= {"member-2", "member-3"}


@pytest.mark.long
@pytest.mark.proves("C14")
def test_preferred_affinity(demo: Playground) -> None:
    apply(demo, "06-cluster-affinity-preferred.yaml")
    assert clusters(demo, "preferred") == {"member-3"}


@pytest.mark.proves("C16")
def test_front_end_beside_back_end(demo: Playground) -> None:
    apply(demo, "07-workload-affinity.yaml")
    assert clusters(demo, "back-end") == {"member-2"}
    assert clusters(demo, "front-end") == {"member-2"}


@pytest.mark.long
@pytest.mark.proves("C17")
def test_front_ends_apart(demo: Playground) -> None:
    apply(demo, "08-workload-anti-affinity.yaml")
    assert len(clusters(demo, "spread-1") | clusters(demo, "spread-2")) == 2


@pytest.mark.proves("C22")
def test_a_scheduler_of_your_own(demo: Playground, tmp_path: Path) -> None:
    apply(demo, "09-external-scheduler.yaml")
    assert demo.status(NAMESPACE, "handmade").get("placements") is None
    mine = Process(
        [sys.executable, "-W", "ignore", str(EXAMPLES / "external_scheduler.py")],
        tmp_path / "external.log",
        env={"KUBECONFIG": str(demo.hub.kubeconfig)},
    )
    mine.start()
    try:
        assert clusters(demo, "handmade") == {"member-1"}
        wait(
            "the CLUSTERS column",
            lambda: "member-1=2" in demo.hub("-n", NAMESPACE, "get", "wl", "handmade"),
        )
    finally:
        mine.kill()


@pytest.mark.proves("N4", "N10b")
def test_a_namespace_with_a_quota(demo: Playground) -> None:
    apply(demo, "23-workload-quota.yaml")
    wait("three units", lambda: sum(demo.placements("demo-team", "within").values()) == 3)
    try:
        status = demo.status("demo-team", "within")
        said = next(c for c in status["conditions"] if c["type"] == "Scheduled")
        assert said["reason"] == "QuotaExceeded"
        # The message is of the decision that placed the three, and may count the use before it.
        assert re.search(
            r"WorkloadQuota team: units [03] of 3 used, a replica asks for 1", said["message"]
        )
    finally:
        demo.hub("-n", "demo-team", "delete", "wl", "--all", timeout=120)
        demo.hub("delete", "namespace", "demo-team", "--wait=false")


@pytest.mark.proves("K2", "K27")
def test_a_policy_in_proportion(demo: Playground) -> None:
    apply(demo, "10-policy-preferred.yaml")
    demo.until_running(NAMESPACE, "proportional")
    assert demo.placements(NAMESPACE, "proportional") == {"member-1": 2, "member-2": 3}
    for member, units in (("member-1", 2), ("member-2", 3)):
        assert demo.seen(member, NAMESPACE, "proportional")["spec"]["replicas"] == units


@pytest.mark.proves("K26", "K32")
def test_a_policy_that_bounds(demo: Playground) -> None:
    apply(demo, "11-policy-required.yaml")
    demo.until_condition(NAMESPACE, "bounded", "Scheduled", reason="ReplicasReached")
    demo.until_running(NAMESPACE, "bounded")
    assert demo.seen("member-1", NAMESPACE, "bounded")["spec"]["replicas"] == 1
    assert demo.seen("member-2", NAMESPACE, "bounded")["spec"]["replicas"] == 3
    head, row = demo.hub("-n", NAMESPACE, "get", "wl", "bounded", "-o", "wide").splitlines()
    line = dict(zip(head.split(), row.split(), strict=False))
    assert (line["DESIRED"], line["ASSIGNED"]) == ("6", "4")
    assert line["CLUSTERS"] == "member-1=1,member-2=3"
    assert line["PENDING"] == "2"
    told = wait(
        "the policy's column",
        lambda: demo.hub("-n", NAMESPACE, "get", "wlp", "one-and-three", "--no-headers").split(),
    )
    assert told[1:4] == ["topology.kubernetes.io/zone", "Required", "Balance"]
    wait(
        "what it holds",
        lambda: (
            "zone-1=1/1,zone-2=3/3"
            in demo.hub("-n", NAMESPACE, "get", "wlp", "one-and-three", "--no-headers")
        ),
    )
    described = demo.hub("-n", NAMESPACE, "describe", "wl", "bounded")
    assert "workload-policy one-and-three reached zone-1 (1/1), zone-2 (3/3)" in described


@pytest.mark.proves("D3")
def test_divided_by_weight(demo: Playground) -> None:
    apply(demo, "12-divided-by-weight.yaml")
    assert clusters(demo, "weighted") == {"member-1", "member-2", "member-3"}
    for member, units in (("member-1", 5), ("member-2", 2), ("member-3", 1)):
        assert demo.seen(member, NAMESPACE, "weighted")["spec"]["replicas"] == units


@pytest.mark.long
@pytest.mark.proves("D3")
def test_divided_over_two_clusters(demo: Playground) -> None:
    apply(demo, "13-divided-spread.yaml")
    members = clusters(demo, "spread")
    assert [demo.seen(m, NAMESPACE, "spread")["spec"]["replicas"] for m in members] == [3, 3]


@pytest.mark.long
@pytest.mark.proves("D3")
def test_divided_on_as_few_as_hold_it(demo: Playground) -> None:
    apply(demo, "14-divided-packed.yaml")
    (member,) = clusters(demo, "packed")
    assert demo.seen(member, NAMESPACE, "packed")["spec"]["replicas"] == 4


def until_placed(demo: Playground, name: str, shares: dict[str, int]) -> None:
    """Wait for these shares on the hub, and on the members."""

    def told() -> bool:
        found = {member: demo.seen(member, NAMESPACE, name) for member in shares}
        return {m: d["spec"]["replicas"] for m, d in found.items() if d} == shares

    wait(f"{name} at {shares}", lambda: demo.placements(NAMESPACE, name) == shares)
    wait(f"{shares} on the members", told)


def subsets(demo: Playground, name: str) -> dict[str, dict[str, Any]]:
    """Return the subsets in the status of a WorkloadSpread, by name."""
    status = demo.hub.get("ws", name, NAMESPACE).get("status", {})
    return {each["name"]: each for each in status.get("subsetStatuses", [])}


@pytest.mark.long
@pytest.mark.proves("W3", "W6", "W10")
def test_a_spread_bursts_into_the_elastic_clusters_and_leaves_them_first(demo: Playground) -> None:
    apply(demo, "15-spread-elastic.yaml")
    until_placed(demo, "elastic", {"member-1": 8})
    for wanted, (normal, burst) in ((13, (10, 3)), (11, (10, 1))):
        demo.hub("-n", NAMESPACE, "scale", "wl", "elastic", f"--replicas={wanted}")
        until_placed(demo, "elastic", {"member-1": normal, "member-2": burst})
    wait("the books", lambda: subsets(demo, "elastic")["elastic"]["replicas"] == 1)
    assert [
        (each["missingReplicas"], each["deletionCost"])
        for each in subsets(demo, "elastic").values()
    ] == [(0, 200), (-1, 100)]


@pytest.mark.proves("W8", "W11", "W12")
def test_a_spread_over_zones_keeps_its_proportion_and_patches(demo: Playground) -> None:
    apply(demo, "16-spread-zones.yaml")
    until_placed(demo, "zones", {"member-1": 2, "member-2": 2, "member-3": 6})
    for member, arch, cpu in (("member-1", "x86", "500m"), ("member-2", "arm", "300m")):
        deployment = demo.seen(member, NAMESPACE, "zones")
        assert deployment
        pod = deployment["spec"]["template"]
        assert pod["metadata"]["labels"]["arch"] == arch
        main, beside = pod["spec"]["containers"]
        assert main["resources"]["limits"]["cpu"] == cpu
        assert main["resources"]["requests"] == {"cpu": "10m", "memory": "16Mi"}
        assert "limits" not in beside["resources"]


@pytest.mark.proves("W32", "Y4")
def test_an_adaptive_spread_goes_on_at_once_where_no_node_takes_a_unit(demo: Playground) -> None:
    apply(demo, "17-spread-adaptive.yaml")
    until_placed(demo, "adaptive", {"member-2": 4})
    demo.until_running(NAMESPACE, "adaptive")
    marks = subsets(demo, "adaptive")["own"].get("conditions", [])
    assert not [each for each in marks if each["status"] == "False"]
    node = demo.members["member-1"].items("nodes")[0]["metadata"]["name"]
    patch = ["patch", "node", node, "--subresource=status", "--type=merge", "-p"]
    slots = {"example.com/slot": "2"}
    offered = {"status": {"capacity": slots, "allocatable": slots}}
    demo.members["member-1"](*patch, json.dumps(offered))
    try:
        wait("the slots to be seen", lambda: _slots(demo) == "2")
        demo.hub("-n", NAMESPACE, "scale", "wl", "adaptive", "--replicas=7")
        until_placed(demo, "adaptive", {"member-1": 2, "member-2": 5})
        demo.until_running(NAMESPACE, "adaptive")
    finally:
        slot = {"example.com/slot": None}
        none = {"status": {"capacity": slot, "allocatable": slot}}
        demo.members["member-1"](*patch, json.dumps(none))


def _slots(demo: Playground) -> str:
    capacity = demo.hub.get("mc", "member-1")["status"]["capacity"]
    return str(capacity["allocatable"].get("example.com/slot"))


@pytest.mark.long
@pytest.mark.proves("W3")
def test_an_autoscaler_scales_the_workload_of_a_spread(demo: Playground) -> None:
    apply(demo, "15-spread-elastic.yaml")
    until_placed(demo, "elastic", {"member-1": 8})
    apply(demo, "18-spread-hpa.yaml")
    try:
        until_placed(demo, "elastic", {"member-1": 9})
    finally:
        demo.hub("-n", NAMESPACE, "delete", "hpa", "elastic")


def group(demo: Playground, name: str) -> dict[str, Any]:
    status: dict[str, Any] = demo.hub.get("wg", name, NAMESPACE).get("status", {})
    return status


@pytest.mark.long
@pytest.mark.proves("G1", "G2", "G25", "G26")
def test_a_training_run_starts_with_its_last_member_and_ends(demo: Playground) -> None:
    gang, driver, workers = load(EXAMPLES / "21-workload-group.yaml")
    demo.hub.apply(gang)
    demo.hub.apply(driver)
    waits = demo.until_condition(NAMESPACE, "driver", "Scheduled", reason="GroupIncomplete")
    assert "has 1 replicas in all its Workloads, minMember is 4" in waits["message"]
    assert not demo.placements(NAMESPACE, "driver")
    wait("the phase of its group", lambda: group(demo, "training").get("phase") == "Pending")
    demo.hub.apply(workers)
    wait("all its units", lambda: group(demo, "training").get("scheduled") == 7)
    assert sum(demo.placements(NAMESPACE, "workers").values()) == 6
    wait("its end", lambda: group(demo, "training").get("phase") == "Finished", timeout=120)
    head, row = demo.hub("-n", NAMESPACE, "get", "wg", "training").splitlines()
    assert head.split() == ["NAME", "PHASE", "MINMEMBER", "RUNNING", "SUCCEEDED", "FAILED", "AGE"]
    assert row.split()[:6] == ["training", "Finished", "4", "0", "7", "0"]


@pytest.mark.long
@pytest.mark.proves("G2", "G25")
def test_a_gang_is_in_one_zone_whatever_label_names_it(demo: Playground) -> None:
    apply(demo, "22-workload-group-zone.yaml")
    (home,) = clusters(demo, "coordinator")
    assert clusters(demo, "shards") == {home}
    wait("all its units", lambda: group(demo, "search").get("running") == 5)
    told = group(demo, "search")
    assert (told["phase"], told["workloads"], told["desired"], told["scheduled"]) == (
        "Running", 2, 5, 5
    )  # fmt: skip
    for name, version, kind, units in (
        ("coordinator", "apps/v1", "Deployment", 1),
        ("shards", "apps/v1", "StatefulSet", 4),
    ):
        seen = demo.seen(home, NAMESPACE, name, version=version, kind=kind)
        assert seen
        assert seen["spec"]["replicas"] == units


def reservation(demo: Playground, name: str) -> dict[str, Any]:
    status: dict[str, Any] = demo.hub.get("rsv", name, NAMESPACE).get("status", {})
    return status


def inside(demo: Playground, name: str) -> dict[str, int]:
    """Return the units of a Workload inside of each Reservation."""
    units: dict[str, int] = {}
    for share in demo.status(NAMESPACE, name).get("reservations", []):
        units[share["name"]] = units.get(share["name"], 0) + share["replicas"]
    return units


@pytest.mark.proves("E25", "E26", "E28")
def test_room_is_held_until_its_owner_comes_and_goes_where_it_is(demo: Playground) -> None:
    held, owner = load(EXAMPLES / "19-reservation.yaml")
    demo.hub.apply(held)
    wait("its room", lambda: reservation(demo, "launch").get("phase") == "Available")
    assert reservation(demo, "launch")["clusterName"] == "member-2"
    demo.hub.apply(owner)
    assert clusters(demo, "launched") == {"member-2"}
    assert inside(demo, "launched") == {"launch": 2}
    wait("its end", lambda: reservation(demo, "launch").get("phase") == "Succeeded")
    told = reservation(demo, "launch")
    assert [(o["name"], o["replicas"]) for o in told["currentOwners"]] == [("launched", 2)]
    assert (told["owners"], told["allocated"]["cpu"]) == (1, "40m")


@pytest.mark.long
@pytest.mark.proves("E25", "E26", "E29")
def test_room_that_two_share_until_a_time(demo: Playground) -> None:
    held, *owners = load(EXAMPLES / "20-reservation-shared.yaml")
    demo.hub.apply(held)
    wait("its room", lambda: reservation(demo, "season").get("assigned") == 4)
    assert len(reservation(demo, "season")["placements"]) == 2
    for owner in owners:
        demo.hub.apply(owner)
    for name, units in (("season-web", 2), ("season-jobs", 1)):
        demo.until_running(NAMESPACE, name)
        assert inside(demo, name) == {"season": units}
    wait("its books", lambda: reservation(demo, "season").get("owners") == 2)
    told = reservation(demo, "season")
    assert (told["phase"], told["allocatable"]["cpu"], told["allocated"]["cpu"]) == (
        "Available", "80m", "60m"
    )  # fmt: skip
    head, row = demo.hub("-n", NAMESPACE, "get", "rsv", "season", "-o", "wide").splitlines()
    assert head.split() == ["NAME", "PHASE", "CLUSTER", "AGE", "ALLOCATED", "OWNERS", "EXPIRES"]
    assert row.split()[1] == "Available"
    assert row.split()[-2:] == ["2", "2099-01-01T00:00:00Z"]
    demo.hub("-n", NAMESPACE, "delete", "wl", "season-jobs")
    wait("room given back", lambda: reservation(demo, "season")["allocated"]["cpu"] == "40m")


@pytest.mark.proves("O1", "O11", "O14")
def test_overrides(demo: Playground) -> None:
    apply(demo, "26-overrides.yaml")
    assert len(clusters(demo, "overridden")) == len(demo.members)
    for number, (member, kubectl) in enumerate(sorted(demo.members.items())):
        settings = kubectl.get("configmaps", "overridden-settings", NAMESPACE)
        assert settings["data"] == {"cluster": member}
        found = demo.seen(member, NAMESPACE, "overridden")
        assert found is not None
        (container,) = found["spec"]["template"]["spec"]["containers"]
        assert container.get("args") == (None if number else ["--region=first"])


@pytest.mark.proves("DP1")
def test_dependencies(demo: Playground) -> None:
    apply(demo, "27-dependencies.yaml")
    (member,) = clusters(demo, "following")
    wait("all that goes along", lambda: _followed(demo) == {"Synced"})
    there = demo.members[member]
    assert there.get("configmaps", "following-settings", NAMESPACE)["data"] == {"color": "blue"}
    assert there("-n", NAMESPACE, "get", "serviceaccount", "following")


def _followed(demo: Playground) -> set[str]:
    said = demo.status(NAMESPACE, "following").get("dependencies", [])
    return {each["state"] for each in said}


def test_rollout(demo: Playground) -> None:
    apply(demo, "28-rollout.yaml")
    assert clusters(demo, "staged") == set(demo.members), "the first placement has no waves"


@pytest.mark.proves("CT4", "CT8")
def test_placement_only(demo: Playground) -> None:
    apply(demo, "29-placement-only.yaml")
    demo.until_condition(NAMESPACE, "placed-only", "Ready", reason="Decided")
    chosen = demo.placements(NAMESPACE, "placed-only")
    assert list(chosen.values()) == [1, 1]

    def listed() -> set[str]:
        found = demo.hub.get("cd", "placed-only", namespace=NAMESPACE)
        return {each["clusterName"] for each in found["status"]["decisions"]}

    wait("its ClusterDecision", lambda: listed() == set(chosen))
    for member in chosen:
        assert demo.seen(member, NAMESPACE, "placed-only") is None


@pytest.mark.long
@pytest.mark.proves("M6", "M11")
def test_movement(demo: Playground) -> None:
    apply(demo, "24-movement.yaml")
    assert len(clusters(demo, "roaming")) > 1
    apply(demo, "25-movement-at-most-once.yaml")
    assert clusters(demo, "ledger")


def test_every_example_is_tried_here() -> None:
    """By the code of a test, where no comment counts."""
    tests = [each for name, each in globals().items() if name.startswith("test_")]
    named = {constant for test in tests for constant in test.__code__.co_consts}
    files = {path.name for path in EXAMPLES.glob("*.yaml")} - {"00-namespace.yaml"}  # in a fixture
    assert files - named == set()
