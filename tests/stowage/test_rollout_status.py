"""`stowage rollout status`: the table, the words of each phase, and the exit codes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from machinery.errors import ConfigurationError
from stowage.cli import cli
from stowage.report.rollout import RolloutProgress
from tests.stowage.plain_hub import PlainHub, serving
from tests.stowage.rollouts import SINCE, STABLE, TOLD, revision, staged, template

pytestmark = pytest.mark.proves("T30")

NOW = datetime.fromisoformat(SINCE) + timedelta(minutes=4)
ENDED = {"name": "eu", "clusters": 10, "healthy": 9, "startTime": SINCE, "endTime": SINCE}


def asked(folder: Path, body: dict[str, Any] | None, *args: str) -> Result:
    there = PlainHub()
    there.workloads = [body] if body is not None else []
    with serving(there.answer, folder) as kubeconfig:
        hub = ("--kubeconfig", str(kubeconfig), "-n", "shop")
        return CliRunner().invoke(cli, ["rollout", "status", "wl/web", *hub, *args])


def states(body: dict[str, Any]) -> list[str]:
    at = RolloutProgress.of(body, NOW)
    return [each["state"] for each in at.to_dict()["waves"]]


def test_a_row_for_each_wave(tmp_path: Path):
    body = staged()
    done = asked(tmp_path, body)
    assert done.exit_code == 0
    head, *rows, message = done.stdout.splitlines()
    assert head == f"shop/web  91ab → {revision(body)[:4]}  Progressing, wave 2 of 3"
    assert [" ".join(row.split()) for row in rows] == [
        "WAVE CLUSTERS HEALTHY UPDATING FAILED DEFERRED STATE",
        "canary 2 2 - - - complete, soaked 10m",
        "eu 10 4 member-5, member-6, member-7 - member-9 (away) 3 of at most 3 at once",
        "rest 30 0 - - - waits for eu, then for an approval",
    ]
    assert message == "member-7: 2 of 4 replicas are Ready"


def test_a_cluster_that_is_ready_and_waits_for_its_time_is_told(tmp_path: Path):
    body = staged()
    body["spec"]["rollout"]["minReadySeconds"] = 30
    ready = [(NOW - timedelta(seconds=each)).isoformat() for each in (12, 5)]
    body["status"]["rollout"]["updates"] = [
        {"cluster": "member-5", "startTime": SINCE, "readyTime": ready[0]},
        {"cluster": "member-6", "startTime": SINCE, "readyTime": ready[1]},
        {"cluster": "member-7", "startTime": SINCE},
        {"cluster": "elsewhere", "startTime": SINCE, "readyTime": SINCE},
    ]
    told = "3 of at most 3 at once, 2 ready, 18s of minReadySeconds left"
    assert states(body)[1] == told
    body["spec"]["rollout"]["minReadySeconds"] = 0
    assert states(body)[1] == "3 of at most 3 at once"


@pytest.mark.parametrize(
    ("phase", "code", "words"),
    [
        ("Complete", 0, "Complete"),
        ("Progressing", 0, "Progressing, wave 2 of 3"),
        ("Soaking", 0, "Soaking, wave 2 of 3"),
        ("AwaitingApproval", 0, "`stowage rollout approve` lets it go on"),
        ("Paused", 1, "`stowage rollout resume` lets it go on"),
        ("Failed", 1, "`stowage rollout retry` tries once more"),
        ("RollingBack", 1, "RollingBack"),
        ("RolledBack", 1, "an edit of the template begins a new rollout"),
        ("OfALaterRelease", 0, "OfALaterRelease"),
    ],
)
def test_the_exit_code_and_the_words_of_each_phase(
    tmp_path: Path, phase: str, code: int, words: str
):
    body = staged(phase)
    done = asked(tmp_path, body)
    assert (done.exit_code, words in done.stdout) == (code, True)
    data = json.loads(asked(tmp_path, body, "-o", "json").stdout)
    assert (data["phase"], data["complete"]) == (phase, phase == "Complete")
    assert data["revision"] == revision(body)


def test_an_edit_that_the_controller_has_not_seen_is_not_complete(tmp_path: Path):
    body = staged("Complete")
    body["spec"]["targetDeployment"] = template("app:3")
    done = asked(tmp_path, body, "-o", "json")
    told = json.loads(done.stdout)
    assert (done.exit_code, told["complete"], told["phase"]) == (0, False, None)
    late = asked(tmp_path, body, "--wait", "--timeout", "0s")
    assert late.exit_code == 1
    assert "the controller has not seen the last edit yet" in late.stdout
    assert "not complete within 0 s" in late.stdout
    body["spec"]["replicas"] = 3
    body["spec"]["targetDeployment"] = template()
    assert json.loads(asked(tmp_path, body, "-o", "json").stdout)["complete"], "scaling is no edit"


def test_a_lost_revision_stops_it_with_the_conditions_words(tmp_path: Path):
    body = staged()
    said: dict[str, Any] = {
        "type": "RolledOut",
        "status": "False",
        "reason": "RevisionLost",
        "message": "web-91ab",
    }
    body["status"]["conditions"] = [said]
    done = asked(tmp_path, body)
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (1, "web-91ab")
    body["spec"]["targetDeployment"] = template("app:3")
    assert asked(tmp_path, body).exit_code == 0, "it tells of the spec before"
    said["observedGeneration"] = 7
    done = asked(tmp_path, body)
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (1, "web-91ab")
    assert "RevisionLost" in done.stdout.splitlines()[0]


def test_the_hub_could_not_be_asked_exits_with_2(tmp_path: Path):
    plain = staged()
    del plain["spec"]["rollout"]
    for body, words in ((None, "there is no Workload shop/web"), (plain, "has no spec.rollout")):
        for how in ((), ("--wait",)):
            done = asked(tmp_path, body, *how)
            assert (done.exit_code, words in done.stderr) == (2, True)
    with pytest.raises(ConfigurationError, match=r"spec\.rollout"):
        RolloutProgress.of(plain, NOW)


@pytest.mark.proves("Q19")
@pytest.mark.parametrize(
    ("phase", "eu", "expected"),
    [
        (
            "Soaking",
            {},
            ["soaks 10m, 6m left", "waits for canary", "waits for eu, then for an approval"],
        ),
        ("AwaitingApproval", ENDED, ["complete, soaked 10m", "complete", "waits for an approval"]),
        (
            "Paused",
            {"updating": []},
            ["complete, soaked 10m", "paused", "waits for eu, then for an approval"],
        ),
        (
            "Failed",
            {"updating": [], "failed": ["m1"]},
            ["complete, soaked 10m", "failed", "waits for eu, then for an approval"],
        ),
        ("RolledBack", {}, ["given up", "given up", "not begun"]),
    ],
)
def test_the_state_of_each_wave(phase: str, eu: dict[str, Any], expected: list[str]):
    body = staged(phase, wave="canary" if phase == "Soaking" else "eu")
    waves = body["status"]["rollout"]["waves"]
    waves[1] |= eu
    if "endTime" in eu or phase == "Soaking":
        waves[1].pop("updating", None)
    assert states(body) == expected


def test_an_approval_ahead_and_a_wave_of_which_a_part_is_named():
    body = staged()
    body["spec"]["rollout"]["approvals"] = [{"revision": revision(body), "wave": "eu"}]
    assert states(body)[2] == "waits for eu"
    wide = body["status"]["rollout"]
    wide["waves"][0] = {"name": "canary", "clusters": 0, "healthy": 0}
    assert states(body)[0] == "no clusters"
    wide["waves"][1] = {**TOLD[1], "clusters": 100, "updating": [f"m{n}" for n in range(10)]}
    updates = [{"cluster": f"m{n}", "startTime": SINCE} for n in range(29)]
    wide["updates"] = [*updates, {"cluster": "x", "startTime": SINCE, "failedTime": SINCE}]
    assert states(body)[1] == "29 of at most 30 at once"
    body["spec"]["rollout"]["approvals"] = [{"revision": STABLE, "wave": "eu"}]
    assert states(body)[2] == "waits for eu, then for an approval", "that is another revision's"


def test_digests_are_told_by_their_first_digits_and_names_are_cut():
    body = staged()
    body["status"]["rollout"]["waves"][1]["updating"] = [f"m{n}" for n in range(5)]
    table = RolloutProgress.of(body, datetime.now(UTC)).table()
    assert "m0, m1, m2, … 2 more" in table
    assert STABLE not in table


@pytest.mark.proves("A27")
def test_a_wave_without_clusters_says_that_the_next_one_waits():
    body = staged("AwaitingApproval", wave="eu")
    body["status"]["rollout"]["waves"][1] = {"name": "eu"}
    assert states(body)[1:] == ["no clusters, the next wave waits", "waits for an approval"]
    del body["spec"]["rollout"]["waves"][1]["approval"]
    assert states(body)[1] == "no clusters"
