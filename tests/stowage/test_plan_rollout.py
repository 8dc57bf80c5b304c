"""`stowage plan` of an edit of a Workload that is rolled out: waves, clusters and order."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from machinery.kinds.revisions import digest_of, revision_data
from stowage.cli import cli
from tests.stowage.importing import written
from tests.stowage.test_plan import cluster, placed, workload

pytestmark = pytest.mark.proves("T26")

WAVES = [
    {
        "name": "canary",
        "clusterSelector": {"matchLabels": {"tier": "canary"}},
        "soakSeconds": 600,
        "approval": True,
    },
    {"name": "eu", "clusterSelector": {"matchLabels": {"region": "eu"}}, "maxConcurrent": "34%"},
]
FLEET = [
    cluster("m1", labels={"tier": "canary", "region": "eu"}),
    *(cluster(name, labels={"region": "eu"}) for name in ("m2", "m3", "m4")),
    cluster("m5"),
]


def revision(body: dict[str, Any]) -> str:
    return digest_of(revision_data(body["spec"]))


def stored(phase: str = "Complete", *, stable: str = "", present: str = "") -> dict[str, Any]:
    """The Workload as the hub has it; a revision that is not given is its own."""
    body = workload("web", replicas=10, distribution="Divided", rollout={"waves": WAVES})
    own = revision(body)
    rollout = {"phase": phase, "stable": stable or own, "revision": present or own, "waves": []}
    return {**body, "status": placed(m1=2, m2=2, m3=2, m4=2, m5=2) | {"rollout": rollout}}


def edited(body: dict[str, Any], image: str = "app:2") -> dict[str, Any]:
    new = copy.deepcopy({key: value for key, value in body.items() if key != "status"})
    pods = new["spec"]["targetDeployment"]["spec"]["template"]["spec"]
    pods["containers"][0]["image"] = image
    return new


def planned(folder: Path, there: list[dict[str, Any]], file: dict[str, Any], *how: str) -> str:
    (folder / "fleet.yaml").write_text(written(*FLEET, *there))
    (folder / "web.yaml").write_text(written(file))
    args = ["-f", str(folder / "web.yaml"), "--fleet", str(folder / "fleet.yaml"), *how]
    done = CliRunner().invoke(cli, ["plan", "-n", "shop", *args])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.proves("Q9")
def test_waves_of_labels_alone_are_those_of_a_selector(tmp_path: Path):
    before = stored()
    file = edited(before)
    alone = copy.deepcopy(file)
    for wave in alone["spec"]["rollout"]["waves"]:
        wave["clusterSelector"] = wave["clusterSelector"]["matchLabels"]
    assert planned(tmp_path, [before], alone) == planned(tmp_path, [before], file)


def test_an_edit_shows_each_wave_with_its_clusters_in_their_order(tmp_path: Path):
    before = stored()
    file = edited(before)
    old, new = revision(before), revision(file)
    lines = planned(tmp_path, [before], file).splitlines()
    assert lines[2].strip().startswith(f"rollout {old[:4]} → {new[:4]}: from wave to wave")
    assert [" ".join(line.split()) for line in lines[3:]] == [
        "WAVE CLUSTERS AT ONCE THEN",
        "canary m1=2 1 soaks 10m, waits for an approval",
        "eu m2=2,m3=2,m4=2 2 the next wave",
        "rest m5=2 1 -",
    ]
    (told,) = json.loads(planned(tmp_path, [before], file, "-o", "json"))["workloads"]
    rollout = told["rollout"]
    assert (rollout["revision"], rollout["stable"]) == (new, old)
    assert [(w["name"], [c["cluster"] for c in w["clusters"]]) for w in rollout["waves"]] == [
        ("canary", ["m1"]),
        ("eu", ["m2", "m3", "m4"]),
        ("rest", ["m5"]),
    ]
    assert [w["maxConcurrent"] for w in rollout["waves"]] == [1, 2, 1]


def test_the_first_placement_has_no_waves(tmp_path: Path):
    file = workload("web", replicas=10, distribution="Divided", rollout={"waves": WAVES})
    said = planned(tmp_path, [], file)
    assert "the first placement, so no waves: all clusters at once" in said
    assert "WAVE" not in said
    there = {**file, "status": placed(m1=10)}
    said = planned(tmp_path, [there], edited(file))
    assert "no revision was on all clusters yet, so no waves" in said
    empty = stored()
    del empty["status"]["placements"]
    said = planned(tmp_path, [empty], edited(empty))
    assert "the first placement, so no waves: all clusters at once" in said


@pytest.mark.parametrize(
    ("phase", "stable", "present", "image", "said"),
    [
        ("Complete", "", "", "app:1", ""),
        ("Failed", "", "0000000000000000", "app:1", "back to the stable revision, so no waves"),
        ("Soaking", "0000000000000000", "", "app:1", "goes on as it stands (Soaking)"),
        ("Soaking", "0000000000000000", "", "app:2", "from wave to wave"),
        ("RolledBack", "0000000000000000", "", "app:1", "given up (RolledBack), so no waves"),
        ("RolledBack", "0000000000000000", "", "app:2", "from wave to wave"),
    ],
)
def test_what_is_rolled_out_already_or_was_before(
    tmp_path: Path, phase: str, stable: str, present: str, image: str, said: str
):
    before = stored(phase, stable=stable, present=present)
    told = planned(tmp_path, [before], edited(before, image))
    assert said in told
    assert ("rollout" in told) == bool(said)


def test_replicas_are_no_revision_and_without_a_rollout_nothing_is_said(tmp_path: Path):
    before = stored()
    more = edited(before, "app:1")
    more["spec"]["replicas"] = 20
    assert "rollout" not in planned(tmp_path, [before], more)
    plain = edited(before)
    del plain["spec"]["rollout"]
    assert "rollout" not in planned(tmp_path, [before], plain)


@pytest.mark.proves("A27")
@pytest.mark.parametrize(
    ("owes", "said"),
    [
        ({"approval": True}, "no cluster: waits for an approval"),
        ({"soakSeconds": 600}, "no cluster: waits until it has a cluster that soaks"),
        ({}, "no cluster: the next wave"),
    ],
)
def test_a_wave_that_no_cluster_is_in_is_told_with_what_it_owes(
    tmp_path: Path, owes: dict[str, Any], said: str
):
    before = stored()
    file = edited(before)
    nothing = {"matchLabels": {"tier": "cannary"}}
    file["spec"]["rollout"] = {"waves": [{"name": "canary", "clusterSelector": nothing, **owes}]}
    assert f"canary - 0 {said}" in " ".join(planned(tmp_path, [before], file).split())


@pytest.mark.proves("A27")
def test_the_last_wave_with_a_share_owes_what_another_cluster_may_wait_for(tmp_path: Path):
    before = stored()
    before["spec"]["replicas"] = 1
    before["spec"]["clusterSelector"] = {"tier": "canary"}
    before["status"] = placed(m1=1) | {"rollout": before["status"]["rollout"]}
    file = edited(before)
    assert "canary m1=1 1 -" in " ".join(planned(tmp_path, [before], file).split())
    del before["spec"]["clusterSelector"]
    before["spec"]["distribution"] = "Single"
    told = " ".join(planned(tmp_path, [before], edited(before)).split())
    assert "canary m1=1 1 soaks 10m, waits for an approval" in told


@pytest.mark.proves("A9")
@pytest.mark.parametrize("staged", [False, True])
def test_an_edit_of_what_runs_passes_no_wave(tmp_path: Path, staged: bool):
    before = stored()
    ready = [{"name": "m1", "replicas": 2, "ready": 2}]
    before["status"] = placed(m1=2, m2=2, m3=2, m4=2, m5=2) | {"clusters": ready}
    old = revision(before)[:4]
    if staged:
        rollout = {"phase": "Progressing", "revision": revision(before)}
        before["status"]["rollout"] = rollout
    file = edited(before)
    if not staged:
        del before["spec"]["rollout"]
    told = planned(tmp_path, [before], file)
    assert "canary   m1=2" in told
    expected = f"{old} → " if staged else "from wave to wave where it changes what runs"
    assert expected in told
