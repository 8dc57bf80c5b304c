"""`stowage simulate`: what it prints of fleets in files, its exit codes, and whom it asks for what."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from machinery.api.resources import MEMBER_CLUSTERS, WORKLOADS
from machinery.clock import SystemClock
from stowage.cli import cli
from stowage.simulation import plan
from stowage.simulation.drain import previewed
from stowage.simulation.plan import Where
from tests.controller.live import READY, SINCE, World, deciding, deployment, world_on
from tests.inforce import until_may
from tests.stowage import accounts

ZONE = "topology.kubernetes.io/zone"


def member(name: str, *, cpu: str = "8", zone: str = "z") -> dict[str, Any]:
    free = {"cpu": cpu, "memory": "99Gi", "pods": "110"}
    return {
        "apiVersion": MEMBER_CLUSTERS.api_version,
        "kind": "MemberCluster",
        "metadata": {"name": name, "labels": {ZONE: zone}},
        "spec": {"secretRef": {"namespace": "stowage-system", "name": name}},
        "status": {
            "conditions": [{**READY, "lastTransitionTime": SINCE}],
            "nodeGroups": [{"count": 1, "free": free}],
            "capacity": {"nodes": 1, "allocatable": free, "requested": {}},
        },
    }


def workload(name: str, *, replicas: int, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": WORKLOADS.api_version,
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "replicas": replicas,
            "distribution": "Divided",
            **({} if "template" in spec else {"targetDeployment": deployment(name, cpu)}),
            **spec,
        },
    }


def stateful(name: str) -> dict[str, Any]:
    return {**deployment(name, "500m"), "kind": "StatefulSet"}


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """Three clusters of two zones, and Workloads that do not all fit on two of the clusters."""
    file = tmp_path / "fleet.json"
    listed = [
        member("m1", zone="z1"),
        member("m2", zone="z2"),
        member("m3", zone="z2"),
        workload("web", replicas=6),
        workload("big", replicas=6, cpu="2", priority=100),
        workload("db", replicas=3, template=stateful("db")),
        workload(
            "stays", replicas=3, cpu="100m", tolerations=[{"operator": "Exists"}], priority=200
        ),
    ]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": listed}))
    return file


def simulate(fleet: Path, *args: str) -> Result:
    return CliRunner().invoke(cli, ["simulate", "--fleet", str(fleet), *args])


def told(fleet: Path, *args: str) -> dict[str, Any]:
    found = simulate(fleet, *args, "-o", "json")
    assert not isinstance(found.exception, Exception), found.output
    return dict(json.loads(found.stdout))


@pytest.mark.proves("M65", "M66")
def test_a_loss_in_words(fleet: Path) -> None:
    found = simulate(fleet, "--lose", "m1")
    assert found.exit_code == 1
    assert "notReadyTolerationSeconds: 300" in found.stderr
    head, heads, *rows = found.stdout.splitlines()
    assert head == "Lose m1: 6 of 18 replicas of 4 Workloads lose their cluster"
    assert heads.split() == ["BEFORE", "AFTER"]
    counts = {row.split("   ")[0].strip(): row.split() for row in rows}
    assert counts["placed"][1:] == ["18", "16"]
    assert counts["no new place"][3:6] == ["0", "2", "shop/big"]
    assert "NoRoom" in counts["no new place"][7]
    assert " ".join(counts["awaits fence"][2:]) == "0 1 shop/db (at most once)"
    assert " ".join(counts["stay on paper"][3:]) == "0 1 shop/stays 1"
    assert counts["m2"][1] == "cpu"
    assert counts["WORKLOAD"] == ["WORKLOAD", "BEFORE", "AFTER", "MOVES", "ORDER"]
    web = ["shop/web", "m1=2,m2=2,m3=2", "m2=3,m3=3", "2", "1", "(priority", "0)"]
    assert counts["shop/web"] == web
    assert rows[-1].startswith("Steps: 2 at maxMoving 10% (1 replica). Brake: stays open (1 of 3")


_STATES = {"m1": "Unreachable"}


def placed_at(name: str, shares: Mapping[str, int], **spec: Any) -> dict[str, Any]:
    listed = [{"cluster": c, "replicas": n} for c, n in shares.items()]
    told = [
        {"name": c, "replicas": n, "ready": n, "scheduled": n, "state": _STATES.get(c, "Running")}
        for c, n in shares.items()
    ]
    body = workload(name, replicas=sum(shares.values()), cpu="100m", **spec)
    return {**body, "status": {"placements": listed, "clusters": told}}


@pytest.mark.proves("Q18")
def test_while_a_cluster_is_lost_before_is_what_is_and_only_changes_are_listed(
    tmp_path: Path,
) -> None:
    lost = member("m1")
    away = {**READY, "status": "False", "reason": "Unreachable", "lastTransitionTime": SINCE}
    lost["status"]["conditions"] = [away]
    everything = [{"operator": "Exists"}]
    listed = [
        lost,
        member("m2"),
        member("m3"),
        placed_at("stays", {"m1": 2}, tolerations=everything),
        placed_at("rests", {"m2": 2}),
        placed_at("leaves", {"m1": 2}),
        placed_at("grows", {"m2": 1}),
    ]
    fleet = tmp_path / "fleet.json"
    fleet.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": listed}))
    found = simulate(fleet, "--scale", "shop/grows=3")
    rows = [line.split() for line in found.stdout.splitlines()]
    assert ["placed", "7", "9"] in rows
    assert ["stay", "on", "paper", "2", "2", "shop/stays", "2"] in rows
    moved = {row[0]: row[1:3] for row in rows if row[0].startswith("shop/")}
    assert moved.keys() == {"shop/grows"}
    assert moved["shop/grows"][0] == "m2=1"
    assert "Besides, 2 replicas of 1 Workload move already" in found.stdout
    drained = told(fleet, "--drain", "m2", "--drain", "m1")["workloads"]
    befores = {each["name"]: each["before"] for each in drained}
    assert befores["leaves"] == [{"cluster": "m1", "replicas": 2}], "m1 is what is, not m2 or m3"
    data = told(fleet, "--scale", "shop/grows=3")
    assert (data["before"]["placed"], data["after"]["placed"], data["moves"]) == (7, 9, 0)
    assert data["before"]["onPaper"] == data["after"]["onPaper"] == 2
    assert [each["name"] for each in data["workloads"]] == ["grows"]


@pytest.mark.proves("Q26")
def test_a_cordon_moves_nothing_and_a_drain_drains(fleet: Path) -> None:
    cordoned = told(fleet, "--cordon", "m1")
    assert (cordoned["moves"], cordoned["unitsHit"], cordoned["workloads"]) == (0, 0, [])
    assert told(fleet, "--drain", "m1")["moves"] > 0
    grown = told(fleet, "--cordon", "m1", "--scale", "shop/web=7")
    assert grown["title"] == "Cordon m1, Scale shop/web=7"
    (web,) = grown["workloads"]
    before, after = ({s["cluster"]: s["replicas"] for s in web[key]} for key in ("before", "after"))
    assert after["m1"] == before["m1"]
    assert sum(after.values()) == 7
    unknown = simulate(fleet, "--cordon", "m9")
    assert str(unknown.exception) == "there is no cluster m9"


@pytest.mark.long
@pytest.mark.proves("M67")
@pytest.mark.parametrize("key", ["stowage.dev/cluster", ZONE])
def test_each_has_a_row_for_each_value_that_is_the_run_of_it_alone(fleet: Path, key: str) -> None:
    runs = told(fleet, "--each", key)["runs"]
    values = ["m1", "m2", "m3"] if key != ZONE else ["z1", "z2"]
    assert [each["title"] for each in runs] == values
    for run in runs:
        alone = told(fleet, "--lose", f"{key}={run['title']}")
        assert {**alone, "title": run["title"]} == run
    table = simulate(fleet, "--each", key)
    assert table.exit_code == int(any(run["after"]["noPlace"] for run in runs))
    heads, *rows = table.stdout.splitlines()
    columns = ["LOSE", "REPLICAS HIT", "MOVE", "NO PLACE", "AWAIT FENCE", "TIGHTEST AFTER", "BRAKE"]
    assert [each.strip() for each in heads.split("   ")] == columns
    assert [row.split()[0] for row in rows] == values
    brakes = ["open"] * 3 if key != ZONE else ["open", "braked"]
    assert [row.split()[-1] for row in rows] == brakes


@pytest.mark.proves("M67")
def test_the_exit_code_says_whether_every_unit_has_a_place(fleet: Path, tmp_path: Path) -> None:
    more = tmp_path / "more.json"
    more.write_text(json.dumps(member("m4", cpu="64", zone="z4")))
    added = simulate(fleet, "--each", "--add", str(more))
    assert added.exit_code == 0, added.output
    assert simulate(fleet, "--add", str(more), "--lose", "m1").exit_code == 0
    assert simulate(fleet, "--lose", "m1", "--add", str(more)).exit_code == 0
    assert simulate(fleet, "--scale", "shop/web=99").exit_code == 1


@pytest.mark.proves("M68")
def test_scaled_applied_and_drained_at_once(fleet: Path, tmp_path: Path) -> None:
    more = tmp_path / "more.json"
    more.write_text(json.dumps([member("m4", cpu="64", zone="z4")]))
    new = tmp_path / "new.json"
    new.write_text(json.dumps(workload("new", replicas=2)))
    args = ["--drain", "m1", "--add", str(more), "--scale", "shop/web=9", "-f", str(new)]
    found = told(fleet, *args)
    assert found == told(fleet, *args[4:], *args[:4]), "whatever the order"
    after = {each["name"]: shares(each["after"]) for each in found["workloads"]}
    assert sum(after["web"].values()) == 9
    assert sum(after["new"].values()) == 2
    assert not any("m1" in each for name, each in after.items() if name != "stays")
    assert found["after"]["noPlace"] == 0


def shares(listed: list[Mapping[str, Any]]) -> dict[str, int]:
    return {each["cluster"]: each["replicas"] for each in listed}


def test_a_configuration_that_says_never_leaves_all_on_paper(fleet: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: stowage.dev/v1alpha1\nkind: SchedulerConfiguration\n"
        "movement: {notReadyTolerationSeconds: -1}\n"
    )
    found = told(fleet, "--lose", "m1", "--config", str(config))
    assert found["moves"] == 0
    assert found["after"]["onPaper"] == found["unitsHit"] == 6


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        ([], 2, "say what happens"),
        (["--lose", "m9"], 1, "there is no cluster m9"),
        (["--lose", "a=b"], 1, "no cluster has the label a=b"),
        (["--drain", "m9"], 1, "there is no cluster m9"),
        (["--each", "a"], 1, "no cluster has the label a"),
        (["--scale", "web"], 2, "namespace/workload=replicas"),
        (["--scale", "shop/web=-1"], 2, "namespace/workload=replicas"),
        (["--scale", "shop/web=99999999999"], 2, "is more than"),
        (["--scale", "shop/none=1"], 1, "there is no Workload shop/none"),
    ],
)
def test_what_does_not_exist_is_told(fleet: Path, args: list[str], code: int, words: str) -> None:
    found = simulate(fleet, *args)
    assert found.exit_code == code
    assert words in found.output + str(found.exception)


@pytest.mark.proves("M67", "M27")
async def test_a_read_only_account_suffices_and_nothing_is_written(
    hub: Any, tmp_path: Path
) -> None:
    async with world_on(hub, "shop") as world:
        for name in ("m1", "m2", "m3"):
            await world.cluster(name, cpu="8")
        await world.workload("web", replicas=6, distribution="Divided")
        async with deciding(world):
            await world.placed("web")
            await world.settle()
        reader = await _reader(world, tmp_path)
        before = await _versions(world)
        for args in (["simulate", "--each"], ["drain", "m1", "--dry-run"]):
            command = [args[0], "--kubeconfig", str(reader), *args[1:]]
            found = await asyncio.to_thread(CliRunner().invoke, cli, command)
            assert found.exit_code == 0, found.output
            assert "m1" in found.stdout
        assert await _versions(world) == before


async def _versions(world: World) -> list[str]:
    listed = [await world.client.list(kind) for kind in (WORKLOADS, MEMBER_CLUSTERS)]
    return sorted(item["metadata"]["resourceVersion"] for kind in listed for item in kind["items"])


async def _reader(world: World, folder: Path) -> Path:
    """The kubeconfig of an account that may read our kinds, and nothing else."""
    kubectl, who, resources = world.hub.kubectl, "simulation-reader", "*.stowage.dev"

    def made() -> str:
        kubectl("delete", "clusterrole,clusterrolebinding", who, "--ignore-not-found")
        kubectl("delete", "serviceaccount", who, "-n", "shop", "--ignore-not-found")
        kubectl("create", "clusterrole", who, "--verb=get,list", f"--resource={resources}")
        kubectl("create", "serviceaccount", who, "-n", "shop")
        bound = f"--serviceaccount=shop:{who}"
        kubectl("create", "clusterrolebinding", who, f"--clusterrole={who}", bound)
        return str(kubectl("create", "token", who, "-n", "shop")).strip()

    token = await asyncio.to_thread(made)
    until_may(world.hub, f"system:serviceaccount:shop:{who}", "list workloads.stowage.dev")
    return accounts.written(world.hub, who, token, folder)


@pytest.mark.proves("A7", "KD46", "KD51")
def test_what_holds_data_is_counted_and_told_by_simulate_drain_and_plan(tmp_path: Path) -> None:
    database = stateful("db")
    claims = [{"metadata": {"name": "data"}}]
    database = {**database, "spec": {**database["spec"], "volumeClaimTemplates": claims}}
    db = workload("db", replicas=4, template=database)
    listed = [member("m1", zone="z1"), member("m2", zone="z2"), db]
    fleet, edited = tmp_path / "fleet.json", tmp_path / "edited.json"
    fleet.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": listed}))
    text = "2 replicas hold 2 claims on m1; spec.movement.data: Leave lets them go without"
    for happens in ("--drain", "--lose"):
        found = simulate(fleet, happens, "m1")
        assert found.exit_code == 0, found.output
        (row,) = (line for line in found.stdout.splitlines() if line.startswith("hold data"))
        assert row.split(maxsplit=4)[2:] == ["0", "2", f"shop/db 2: HoldsData ({text})"]
        assert told(fleet, happens, "m1")["after"]["holdsData"] == 2
    drained = previewed("m1", Where("shop", fleet=[str(fleet)]), clock=SystemClock())
    assert not drained.drained
    assert [each.state for each in drained.blocked] == [f"HoldsData: {text}"]
    # Placed by a plan of before, and edited so that m1 matches no more.
    first = plan.make([str(fleet)], Where("shop", fleet=[str(fleet)]), clock=SystemClock())
    ranges = "ordinals: m1 db-0 to db-1, m2 db-1000 to db-1001"
    assert ranges in first.table()
    decision = first.planned[0].decision
    shares = [{"cluster": c, "replicas": n} for c, n in decision.placements.items()]
    db["status"] = {"placements": shares, "decision": {"hash": decision.workload.hash}}
    fleet.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": listed}))
    edited.write_text(json.dumps({**db, "spec": {**db["spec"], "clusterSelector": {ZONE: "z2"}}}))
    shown = CliRunner().invoke(cli, ["plan", "-f", str(edited), "--fleet", str(fleet)])
    assert shown.exit_code == 0, shown.output
    assert f"HoldsData: {text}" in shown.stdout
    assert "no change" in shown.stdout
    assert ranges in shown.stdout
    explained = CliRunner().invoke(cli, ["explain", "wl/db", "-n", "shop", "--fleet", str(fleet)])
    assert ranges in explained.stdout, explained.output
    edited.write_text(json.dumps({**db, "spec": {**db["spec"], "replicas": 0}}))
    shown = CliRunner().invoke(cli, ["plan", "-f", str(edited), "--fleet", str(fleet)])
    assert "m1 2 → 0" in shown.stdout, shown.output
    assert "ordinals" not in shown.stdout, "no pod has one"


@pytest.mark.proves("KD18", "A20")
def test_plan_and_explain_tell_the_completions_of_each_cluster(tmp_path: Path) -> None:
    pod = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "app:1"}]}}
    spec = {"parallelism": 5, "completions": 10, "template": pod}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "batch"}, "spec": spec}
    batch = workload("batch", replicas=5, template=job, distribution="Divided")
    del batch["spec"]["replicas"]
    fleet = tmp_path / "fleet.json"
    listed = [member("m1", cpu="2"), member("m2", cpu="3"), batch]
    fleet.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": listed}))
    where = Where("shop", fleet=[str(fleet)])
    planned = plan.make([str(fleet)], where, clock=SystemClock())
    parts = planned.to_dict()["workloads"][0]["completions"]
    assert sum(parts.values()) == 10
    assert parts.keys() == {"m1", "m2"}
    said = f"completions: m1={parts['m1']},m2={parts['m2']}"
    assert said in planned.table()
    args = ["explain", "wl/batch", "-n", "shop", "--fleet", str(fleet)]
    assert said in CliRunner().invoke(cli, args).stdout
