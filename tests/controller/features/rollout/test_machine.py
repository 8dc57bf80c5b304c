"""The wave machine alone: what one look makes of what is stored and seen."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from controller.features.rollout.machine import RolloutCluster, RolloutView
from controller.features.rollout.status import condition_of, revisions_of
from crds.fields.rollout import MOST_WAVES
from machinery.types.workload_api import RolloutApproval, RolloutStatus, RolloutWave
from tests.controller.features.rollout.road import BEGINNING, NEW, NEWER, OLD, Road


def canary(**fields: Any) -> RolloutWave:
    return RolloutWave("canary", **fields)


def two(*, most: int | str = 1, **pace: Any) -> Road:
    """Two canaries and three others, one after the other each."""
    clusters = [("c1", 0), ("c2", 0), ("m1", 1), ("m2", 1), ("m3", 1)]
    return Road(canary(max_concurrent=most), clusters=clusters, **pace)


@pytest.mark.proves("T1")
def test_one_cluster_after_the_other_and_one_wave_after_the_other() -> None:
    road, seen = two(), list[list[str]]()
    road.edit(NEW)
    while road.phase != "Complete":
        seen.append(sorted(road.given()))
        road.obey()
        road.look()
    assert seen == [
        ["c1"],
        ["c1", "c2"],
        *(["c1", "c2", *(f"m{n + 1}" for n in range(m))] for m in (1, 2, 3)),
    ]
    assert (road.status, road.exceptions) == (RolloutStatus("Complete", NEW, NEW), {})


@pytest.mark.proves("T1")
@pytest.mark.parametrize(("most", "at_once"), [(1, 1), (3, 3), ("50%", 3), ("1%", 1), (99, 5)])
def test_so_many_at_once_percents_rounded_up(most: int | str, at_once: int) -> None:
    road = Road(canary(max_concurrent=most), clusters=[(f"c{n}", 0) for n in range(5)])
    road.edit(NEW)
    assert len(road.given()) == at_once
    road.look()
    assert len(road.given()) == at_once, "none is healthy yet"


@pytest.mark.proves("T2")
def test_the_health_of_the_old_revision_counts_for_nothing() -> None:
    road = two(most=2)
    road.edit(NEW)
    for _ in range(5):
        assert road.after(60).status.phase == "Progressing"
        assert road.given() == {"c1", "c2"}, "what is shown is of the old revision"
    road.see("c1", revision=NEW, settled=False)
    road.see("c2", revision=NEW, settled=True)
    road.after(1)
    assert road.given() == {"c1", "c2"}
    road.see("c1", settled=True)
    road.after(1)
    assert road.given() == {"c1", "c2", "m1"}


@pytest.mark.proves("T2", "T3")
def test_a_pod_that_flaps_begins_the_time_anew_and_the_deadline_runs_on() -> None:
    road = two(min_ready_seconds=30, progress_deadline_seconds=100)
    road.edit(NEW)
    road.see("c1", revision=NEW)
    while road.seconds < 80:
        road.see("c1", settled=True)
        assert road.after(20).status.phase == "Progressing"
        road.see("c1", settled=False)
        road.after(0)
    road.see("c1", settled=True)
    assert road.after(19.9).status.phase == "Progressing"
    step = road.after(0.1)
    assert (step.status.phase, road.wave("canary").failed) == ("Failed", ["c1"])
    assert step.status.updates[0].failed_time == BEGINNING + timedelta(seconds=100)


@pytest.mark.proves("T2")
def test_it_is_healthy_after_so_long_and_says_when_to_look_again() -> None:
    road = two(min_ready_seconds=30, progress_deadline_seconds=100)
    assert road.edit(NEW).wait == 100
    road.obey("c1")
    assert road.after(10).wait == 30
    assert road.after(29.5).wait == 0.5
    assert road.given() == {"c1"}
    road.after(0.5)
    assert road.given() == {"c1", "c2"}


@pytest.mark.proves("T4")
def test_it_soaks_by_stored_times() -> None:
    road = Road(canary(soak_seconds=600), clusters=[("c1", 0), ("m1", 1)])
    road.edit(NEW)
    road.obey("c1")
    step = road.after(5)
    assert (step.status.phase, step.wait) == ("Soaking", 600)
    assert road.after(599.9).status.phase == "Soaking"
    assert road.given() == {"c1"}
    road.after(0.1)
    assert (road.phase, road.given()) == ("Progressing", {"c1", "m1"})
    assert road.wave("canary").end_time == BEGINNING + timedelta(seconds=5)


@pytest.mark.proves("T4")
def test_the_last_wave_with_clusters_does_not_soak() -> None:
    road = Road(canary(soak_seconds=600, approval=True), clusters=[("c1", 0)])
    road.edit(NEW)
    road.obey()
    assert road.look().status.phase == "Complete"


@pytest.mark.proves("T5")
def test_the_next_wave_waits_for_an_approval_of_this_revision() -> None:
    road = Road(canary(approval=True), clusters=[("c1", 0), ("m1", 1)])
    road.edit(NEW)
    road.obey("c1")
    assert road.look().status.phase == "AwaitingApproval"
    for revision, wave in ((OLD, "canary"), (NEW, "rest")):
        road.pace(approvals=[RolloutApproval(revision, wave)])
        assert road.after(60).status.phase == "AwaitingApproval"
    assert road.told.count("ApprovalNeeded") == 1
    road.pace(approvals=[RolloutApproval(NEW, "canary")])
    assert (road.phase, road.given()) == ("Progressing", {"c1", "m1"})


@pytest.mark.proves("Q19")
def test_a_newcomer_of_a_complete_wave_is_told_beside_the_approval() -> None:
    road = Road(canary(approval=True), clusters=[("c1", 0), ("m1", 1)])
    road.edit(NEW)
    road.obey("c1")
    step = road.look()
    told = "the next one waits for an approval of bbbb"
    assert condition_of(step, road.spec).message == f"wave canary is complete, {told}"
    road.admit("c2", 0)
    step = road.look()
    assert step.status.phase == "AwaitingApproval"
    assert condition_of(step, road.spec).message == (
        f"wave canary is complete but for c2, which came later, {told}"
    )


@pytest.mark.proves("Q21")
@pytest.mark.parametrize(("clusters", "have"), [(1, "1 cluster has"), (2, "2 clusters have")])
def test_a_complete_wave_is_told_in_the_right_number(clusters: int, have: str) -> None:
    road = Road(canary(max_concurrent=9), clusters=[*((f"c{n}", 0) for n in range(clusters))])
    step = road.edit(NEW)
    road.obey()
    step = road.look()
    assert f"{have} bbbb" in [each.note for each in step.events]


@pytest.mark.proves("T6")
def test_paused_starts_none_and_ends_what_was_begun() -> None:
    road = two()
    road.edit(NEW)
    road.pace(paused=True)
    road.obey("c1")
    road.after(1)
    assert (road.phase, road.given(), road.wave("canary").healthy) == ("Paused", {"c1"}, 1)
    road.pace(paused=False)
    assert (road.phase, road.given()) == ("Progressing", {"c1", "c2"})


def failed(**pace: Any) -> Road:
    """c1 was not healthy in time, c2 is."""
    road = two(most=2, progress_deadline_seconds=100, **pace)
    road.edit(NEW)
    road.obey("c2")
    road.see("c1", revision=NEW, settled=False, note="ImagePullBackOff")
    road.after(100)
    return road


@pytest.mark.proves("T7")
def test_a_failed_cluster_keeps_what_it_has_and_nothing_further_starts() -> None:
    road = failed()
    said = condition_of(road.after(1000), road.spec)
    assert (road.phase, road.given()) == ("Failed", {"c1", "c2"})
    assert (said.true, said.reason) == (False, "HealthCheckFailed")
    assert "c1 was not healthy within 100s: ImagePullBackOff" in said.message
    assert road.told.count("RolloutFailed") == 1
    road.obey("c1")
    road.after(10)
    assert road.phase == "Failed", "it has failed before"


@pytest.mark.proves("T7")
def test_a_retry_begins_the_time_of_what_failed_before_it() -> None:
    road = failed()
    road.after(50)
    road.pace(retry_after=BEGINNING + timedelta(seconds=150))
    assert road.phase == "Progressing"
    assert road.after(99).status.phase == "Progressing"
    assert road.after(1).status.phase == "Failed", "the retry is over"
    assert road.look().status.phase == "Failed"
    road.pace(retry_after=BEGINNING + timedelta(seconds=road.seconds + 1))
    road.obey()
    road.look()
    assert road.given() == {"c1", "c2", "m1"}


@pytest.mark.proves("T8")
def test_rollback_gives_all_the_stable_revision_at_once_and_tries_no_more() -> None:
    road = failed(on_failure="Rollback")
    assert (road.phase, road.given(OLD)) == ("RollingBack", set(road.clusters))
    assert road.status is not None
    assert road.status.revision == NEW, "the spec is as it was"
    road.obey("c1")
    assert road.look().status.phase == "RollingBack", "c2 has it yet to show"
    road.obey()
    assert road.look().status.phase == "RolledBack"
    for _ in range(3):
        assert road.after(10_000).status.phase == "RolledBack"
    del road.clusters["c1"]
    assert road.look().status.phase == "RolledBack", "what failed is gone; that is no edit"
    assert road.told[-3:] == ["RolloutFailed", "RollingBack", "RolledBack"]


@pytest.mark.proves("T7", "T8")
def test_an_abort_rolls_back_until_it_is_withdrawn() -> None:
    road = two()
    road.edit(NEW)
    road.obey()
    road.look()
    road.pace(aborted=NEW)
    assert (road.phase, road.given()) == ("RollingBack", set())
    road.obey()
    assert road.look().status.phase == "RolledBack"
    road.pace(aborted="")
    assert (road.phase, road.given()) == ("Progressing", {"c1"})


@pytest.mark.proves("T8")
def test_an_abort_of_what_is_complete_does_nothing() -> None:
    road = two(aborted=OLD)
    assert (road.look().status.phase, road.given(OLD)) == ("Complete", set(road.clusters))


@pytest.mark.proves("T7")
@pytest.mark.parametrize("back", [False, True])
def test_a_failure_stays_one_when_the_units_leave_its_cluster_until_a_retry(back: bool) -> None:
    road = failed()
    del road.clusters["c1"]
    step = road.after(10)
    assert (road.phase, road.given()) == ("Failed", {"c2"}), "nothing further starts"
    assert "c1 was not healthy within" in condition_of(step, road.spec).message
    if back:
        road.admit("c1", 0)
        assert road.look().status.phase == "Failed"
    step = road.pace(retry_after=BEGINNING + timedelta(seconds=road.seconds))
    goes_on = "c1" if back else "m1"  # with c1 the first wave was not done
    assert (road.phase, road.given()) == ("Progressing", {"c2", goes_on})
    assert [(e.cluster, e.failed_time) for e in step.status.updates] == [(goes_on, None)]


@pytest.mark.proves("T9")
@pytest.mark.parametrize("pace", [{}, {"on_failure": "Rollback"}])
def test_an_edit_after_a_failure_begins_with_clean_counters(pace: dict[str, Any]) -> None:
    road = failed(**pace)
    road.edit(NEWER)
    assert (road.phase, road.given(NEWER)) == ("Progressing", {"c1", "c2"})
    assert not any(each.failed_time for each in road.look().status.updates)


@pytest.mark.proves("T9")
def test_the_stable_template_again_is_complete_at_once() -> None:
    road = failed()
    road.edit(OLD)
    assert (road.phase, road.given(OLD)) == ("Complete", set(road.clusters))
    assert road.exceptions == {}


@pytest.mark.proves("T10")
def test_a_third_revision_in_the_middle_begins_at_the_first_wave() -> None:
    road = two(most=2)
    road.edit(NEW)
    road.obey()
    road.look()
    assert road.given() == {"c1", "c2", "m1"}
    road.edit(NEWER)
    assert (road.given(NEWER), road.given(NEW)) == ({"c1", "c2"}, {"m1"})
    assert road.status is not None
    assert road.status.stable == OLD
    road.obey()
    road.look()
    assert road.given(NEWER) == {"c1", "c2", "m1"}, "what left the stable revision comes first"
    assert {name: road.target(name) for name in ("m2", "m3")} == {"m2": OLD, "m3": OLD}


@pytest.mark.proves("T2", "T10")
def test_back_to_the_second_revision_what_was_on_its_way_is_not_healthy() -> None:
    road = two(most=2)
    road.edit(NEW)
    road.obey()
    road.look()
    road.see("m1", revision=NEW, settled=False)
    road.edit(NEWER)
    road.edit(NEW)
    assert (road.target("m1"), road.wave("rest").healthy) == (NEW, 0)
    road.obey("m1")
    road.look()
    assert road.wave("rest").healthy == 1


@pytest.mark.proves("T11")
def test_the_first_revision_goes_everywhere_at_once() -> None:
    road = two()
    road.status, road.digest = None, NEW
    for name in road.clusters:
        road.see(name, revision="", settled=False)
    step = road.look()
    assert (step.status.phase, road.given(), step.status.waves) == (
        "Progressing",
        set(road.clusters),
        [],
    )
    road.edit(NEWER)
    assert road.given(NEWER) == set(road.clusters), "nothing is stable yet"
    road.obey()
    assert road.look().status == RolloutStatus("Complete", NEWER, NEWER)


@pytest.mark.proves("T12")
def test_a_cluster_that_is_away_holds_no_wave_and_is_first_when_it_is_back() -> None:
    road = two()
    road.see("c1", reachable=False)
    road.edit(NEW)
    assert (road.given(), road.wave("canary").deferred) == ({"c2"}, ["c1"])
    road.obey()
    road.look()
    assert road.given() == {"c2", "m1"}
    road.see("c1", reachable=True)
    road.look()
    assert road.given() == {"c1", "c2", "m1"}, "its wave was passed"


@pytest.mark.proves("T12")
def test_what_is_back_is_the_next_one_whenever_a_place_is_free() -> None:
    road = Road(canary(), clusters=[("c1", 0), ("c2", 0), ("c3", 0), ("m1", 1)])
    road.see("c3", reachable=False)
    road.edit(NEW)
    road.see("c3", reachable=True)
    for _ in range(3):
        road.after(1)
        assert road.given() == {"c1"}
    road.obey("c1")
    road.look()
    assert road.given() == {"c1", "c3"}


@pytest.mark.proves("T12")
def test_a_wave_of_which_none_answers_is_not_passed() -> None:
    road = two()
    for name in ("c1", "c2"):
        road.see(name, reachable=False)
    road.edit(NEW)
    step = road.after(10_000)
    assert (step.status.phase, road.given()) == ("Progressing", set())
    assert "no cluster of wave canary answers" in condition_of(step, road.spec).message


@pytest.mark.proves("T12")
def test_what_goes_away_while_it_is_updated_does_not_fail_and_begins_anew() -> None:
    road = two(progress_deadline_seconds=100)
    road.edit(NEW)
    road.see("c1", revision=NEW, settled=False, reachable=False)
    road.after(1000)
    assert (road.given(), road.wave("canary").deferred) == ({"c1", "c2"}, ["c1"])
    road.see("c1", reachable=True)
    road.after(50)
    assert road.after(99).status.updates[0].failed_time is None
    assert road.after(1).status.updates[0].failed_time is not None


@pytest.mark.proves("T12")
def test_complete_without_what_is_away_and_that_comes_in_turn() -> None:
    clusters = [("m1", 0), ("m2", 0), ("m3", 0), ("m4", 0)]
    road = Road(canary(max_concurrent=4), clusters=clusters)
    for name in ("m1", "m2", "m3"):
        road.see(name, reachable=False)
    road.edit(NEW)
    road.obey()
    step = road.look()
    assert step.status.phase == "Complete"
    assert condition_of(step, road.spec).message == (
        "bbbb is the revision of all clusters that answer; m1, m2, m3 get it once they answer"
    )
    assert [each.note for each in step.events][-1] == "1 cluster has bbbb"
    assert road.given(OLD) == {"m1", "m2", "m3"}
    road.pace(waves=[canary(max_concurrent=1)])
    for name in ("m1", "m2", "m3"):
        road.see(name, reachable=True)
    road.look()
    assert road.given(OLD) == {"m2", "m3"}
    road.see("m3", reachable=False)
    assert condition_of(road.look(), road.spec).message == (
        "bbbb is the revision of all clusters that answer; m3 gets it once it answers"
    )
    road.see("m3", reachable=True)
    road.after(10_000)
    assert (road.phase, road.given(OLD)) == ("Complete", {"m3"}), "outside a rollout nothing fails"


@pytest.mark.proves("T12")
@pytest.mark.parametrize("pace", [{}, {"paused": True}])
def test_what_no_cluster_has_is_never_complete(pace: dict[str, Any]) -> None:
    road = two()
    road.edit(NEW)
    there, road.clusters = road.clusters, {}
    step = road.pace(**pace)
    assert road.phase == ("Paused" if pace else "Progressing")
    assert step.status.stable == OLD
    if not pace:
        assert condition_of(step, road.spec).message == "no cluster has a share yet for bbbb"
    for name in sorted(there):
        road.admit(name, there[name].wave)
    road.look()
    assert road.given() == (set() if pace else {"c1"}), "it begins with the first wave"


@pytest.mark.proves("T1")
def test_a_wave_that_a_decision_began_has_its_start() -> None:
    road = Road(canary(), clusters=[("c1", 0), ("m1", 1)])
    road.see("c1", reachable=False)
    road.edit(NEW)
    road.admit("c2", 0)
    road.look()
    assert (road.given(), road.told) == ({"c2"}, ["RolloutStarted", "WaveStarted"])
    assert road.wave("canary").start_time == BEGINNING


@pytest.mark.proves("T11")
def test_an_edit_while_no_cluster_has_a_share_is_a_first_placement() -> None:
    road = two()
    there, road.clusters = road.clusters, {}
    step = road.edit(NEW)
    assert (road.phase, step.status.stable) == ("Progressing", "")
    for name in sorted(there):
        road.admit(name, there[name].wave)
    road.look()
    assert road.given() == set(there), "all start alike"
    road.obey()
    road.look()
    assert (road.phase, road.told) == ("Complete", ["RolloutComplete"])


@pytest.mark.proves("T13")
def test_pods_that_fail_at_rest_change_nothing() -> None:
    road = two(on_failure="Rollback", progress_deadline_seconds=10)
    for name in road.clusters:
        road.see(name, settled=False)
    assert road.after(10_000).status == RolloutStatus("Complete", OLD, OLD)
    assert road.exceptions == {}


@pytest.mark.proves("T13", "T25")
def test_a_healthy_cluster_is_not_judged_again() -> None:
    road = two(progress_deadline_seconds=100)
    road.edit(NEW)
    road.obey()
    road.look()
    road.see("c1", settled=False)
    road.after(50)
    road.obey("c2")
    road.after(49)
    assert (road.phase, road.given()) == ("Progressing", {"c1", "c2", "m1"})


@pytest.mark.proves("T14", "T16", "T17")
def test_a_new_cluster_has_what_its_wave_has() -> None:
    road = two(most=2)
    road.edit(NEW)
    road.obey()
    road.look()
    road.admit("c3", 0)
    road.admit("m4", 1)
    assert (road.target("c3"), road.target("m4")) == (NEW, OLD)
    road.admit("c4", 0)
    road.admit("c5", 0)
    assert (road.target("c4"), road.target("c5")) == (NEW, OLD), "two at once, and no more"
    step = road.after(5)
    times = {each.cluster: each.start_time for each in step.status.updates}
    assert times["c3"] == BEGINNING + timedelta(seconds=5), "a decision knows no time"


@pytest.mark.proves("T14")
def test_a_new_cluster_of_a_later_wave_a_paused_and_a_failed_rollout_has_the_stable_one() -> None:
    road = two()
    road.edit(NEW)
    road.admit("m4", 1)
    assert road.target("m4") == OLD
    road.pace(paused=True)
    road.admit("c3", 0)
    assert road.target("c3") == OLD
    other = failed(on_failure="Rollback")
    other.admit("c3", 0)
    assert other.target("c3") == OLD
    rest = two()
    rest.admit("c3", 0)
    assert (rest.target("c3"), rest.exceptions) == (OLD, {})


@pytest.mark.proves("T14")
def test_clusters_that_others_placed_without_us_are_taken_in() -> None:
    road = two(most=2)
    road.edit(NEW)
    road.clusters["m4"] = RolloutCluster("m4", 1)
    road.look()
    assert road.target("m4") == OLD
    road.clusters["m5"] = RolloutCluster("m5", 1, revision=OLD)
    road.look()
    assert "m5" in {each.cluster for each in road.look().status.updates}, "it was written there"


@pytest.mark.proves("T14")
def test_a_wave_that_loses_its_clusters_is_passed() -> None:
    road = two()
    road.edit(NEW)
    for name in ("c1", "c2"):
        del road.clusters[name]
    road.look()
    assert (road.phase, road.given()) == ("Progressing", {"m1"})


@pytest.mark.proves("T14", "T15")
def test_a_relabelled_cluster_comes_in_the_turn_of_its_new_wave() -> None:
    road = two()
    road.edit(NEW)
    road.see("m3", wave=0)
    road.obey()
    road.look()
    road.obey()
    road.look()
    assert road.given() == {"c1", "c2", "m3"}
    road.see("c1", wave=1)
    road.obey()
    road.look()
    assert road.given() == {"c1", "c2", "m3", "m1"}, "it is healthy, wherever it counts"


@pytest.mark.proves("T18", "T20")
def test_what_is_leaving_keeps_what_it_has_but_for_a_rollback() -> None:
    road = two(most=2)
    road.see("c1", leaving=True)
    road.edit(NEW)
    assert (road.given(), road.wave("canary").clusters) == ({"c2"}, 1)
    while road.phase != "Complete":
        road.obey()
        road.look()
    assert (road.target("c1"), road.exceptions) == (OLD, {"c1": OLD})
    road.edit(NEWER)
    road.see("c2", leaving=True)
    road.look()
    road.pace(aborted=NEWER)
    assert {road.target(name) for name in road.clusters} == {NEW}


@pytest.mark.proves("T23")
@pytest.mark.parametrize("pace", [{"aborted": NEW}, {"on_failure": "Rollback"}])
def test_without_its_revision_nothing_is_rolled_back(pace: dict[str, Any]) -> None:
    road = failed()
    before = {name: road.target(name) for name in road.clusters}
    road.lost = "the ControllerRevision web-aaaa is gone"
    road.pace(**pace)
    step = road.after(10)
    said = condition_of(step, road.spec)
    assert {name: road.target(name) for name in road.clusters} == before
    assert (said.reason, road.phase) == ("RevisionLost", "Failed")
    assert "it cannot be rolled back: the ControllerRevision web-aaaa is gone" in said.message
    road.lost = ""
    assert road.look().status.phase == "RollingBack"


def three_waves(clusters: int) -> Road:
    waves = [RolloutWave(name, max_concurrent="10%") for name in ("canary", "eu", "all")]
    named = [(f"member-{n:04}", min(n * 20 // clusters, 2)) for n in range(clusters)]
    return Road(*waves, clusters=named)


@pytest.mark.proves("T27")
def test_one_write_tells_of_a_cluster_that_is_healthy_and_of_the_next_one_that_starts() -> None:
    road = three_waves(60)
    road.edit(NEW)
    changes = writes = 0
    while road.phase != "Complete":
        name = next(each.cluster for each in road.status.updates) if road.status else ""
        road.obey(name)
        changes += 1
        for _ in range(2):  # the second look is the one at our own write
            before = (road.status, dict(road.exceptions))
            road.after(1)
            writes += (road.status, road.exceptions) != before
    assert (changes, writes) == (60, 60)


@pytest.mark.proves("T27")
def test_the_status_of_a_thousand_clusters_is_below_64_kib() -> None:
    road, largest = three_waves(1000), 0
    road.edit(NEW)
    while road.phase != "Complete":
        assert road.status is not None
        told = revisions_of(road.exceptions, OLD)
        largest = max(largest, len(msgspec.json.encode([road.status, told])))
        road.obey()
        road.after(1)
    assert 8 * 1024 < largest < 64 * 1024


def test_of_too_many_revisions_the_rarest_become_the_stable_one() -> None:
    exceptions = {f"m{n}": f"{n:016x}" for n in range(MOST_WAVES + 3)}
    exceptions |= {f"n{n}": f"{0:016x}" for n in range(3)}
    told = revisions_of(exceptions, OLD)
    assert len(told) == MOST_WAVES
    assert sum(len(each.clusters) for each in told) == len(exceptions)
    assert len(next(each for each in told if each.revision == OLD).clusters) == 4
    assert next(each for each in told if each.revision == f"{0:016x}").clusters[0] == "m0"


def owing(**fields: Any) -> Road:
    """One canary, whose wave owes what is given, and two others."""
    clusters = [("c1", 0), ("m1", 1), ("m2", 1)]
    return Road(canary(**fields), clusters=clusters)


def goes(road: Road, how: str) -> None:
    """The only cluster of the wave is lost to it."""
    if how == "lost":
        del road.clusters["c1"]
    elif how == "drained":
        road.see("c1", leaving=True)
    else:  # relabelled, or another selector
        road.see("c1", wave=1)
        road.obey("c1")


@pytest.mark.proves("A27")
@pytest.mark.parametrize("how", ["lost", "drained", "edited"])
@pytest.mark.parametrize("healthy", [False, True])
def test_an_approval_is_owed_by_a_wave_that_loses_its_last_cluster(how: str, healthy: bool) -> None:
    road = owing(approval=True)
    road.edit(NEW)
    if healthy:
        road.obey("c1")
        road.look()
    goes(road, how)
    before = road.given()
    for _ in range(2):
        step = road.after(200)
        assert (road.phase, road.given()) == ("AwaitingApproval", before)
    assert "wave canary has no cluster that shows bbbb" in condition_of(step, road.spec).message
    assert road.told.count("ApprovalNeeded") == 1
    road.pace(approvals=[RolloutApproval(NEW, "canary")])
    assert road.given() > before


@pytest.mark.proves("A27")
@pytest.mark.parametrize("how", ["lost", "drained", "edited"])
@pytest.mark.parametrize("seconds", [0, 599])
@pytest.mark.parametrize("approval", [False, True])
def test_a_soak_is_owed_by_a_wave_that_loses_its_last_cluster(
    how: str, seconds: int, approval: bool
) -> None:
    road = owing(soak_seconds=600, approval=approval)
    road.pace(approvals=[RolloutApproval(NEW, "canary")])  # ahead: it pays no soak
    road.edit(NEW)
    if seconds:
        road.obey("c1")
        road.look()
        road.after(seconds)
    goes(road, how)
    before = road.given()
    for _ in range(2):
        step = road.after(10_000)
        assert (road.phase, road.given()) == ("Progressing", before)
    assert "wave canary has no cluster that could soak" in condition_of(step, road.spec).message
    road.admit("c2", 0)
    road.obey("c2")
    assert (road.look().status.phase, road.given()) == ("Soaking", before | {"c2"})
    road.after(599)
    assert (road.phase, road.given()) == ("Soaking", before | {"c2"})
    road.after(1)
    assert road.given() > before | {"c2"}


@pytest.mark.proves("A27")
@pytest.mark.parametrize(
    ("owed", "phase"), [("approval", "AwaitingApproval"), ("soak", "Progressing")]
)
def test_a_selector_that_matches_nothing_holds_its_wave(owed: str, phase: str) -> None:
    fields = {"approval": True} if owed == "approval" else {"soak_seconds": 600}
    road = Road(canary(**fields), clusters=[("m1", 1), ("m2", 1)])
    road.edit(NEW)
    assert (road.after(10_000).status.phase, road.given()) == (phase, set())
    road.pace(waves=[canary()])
    assert (road.phase, road.given()) == ("Progressing", {"m1"}), "it owes nothing any more"


@pytest.mark.proves("A27")
def test_a_soak_that_ends_unseen_is_owed_until_a_cluster_of_it_answers() -> None:
    road = owing(soak_seconds=600)
    road.edit(NEW)
    road.obey("c1")
    road.look()
    road.see("c1", reachable=False)
    step = road.after(10_000)
    assert (road.phase, road.given()) == ("Progressing", {"c1"})
    assert condition_of(step, road.spec).message == "no cluster of wave canary answers"
    road.see("c1", reachable=True)
    road.look()
    assert road.given() == {"c1", "m1"}


@pytest.mark.proves("A27")
def test_an_approval_is_owed_though_what_ran_in_the_wave_after_it_has_left() -> None:
    road = owing(approval=True)
    road.open_waves = frozenset({0, 1})
    road.edit(NEW)
    road.obey("c1")
    road.look()
    del road.clusters["m1"], road.clusters["m2"]
    assert road.look().status.phase == "AwaitingApproval"
    road.admit("m1", 1)
    assert road.target("m1") == OLD, "it comes back, and nobody has approved"
    road.pace(approvals=[RolloutApproval(NEW, "canary")])
    assert road.given() == {"c1", "m1"}


def runs(road: Road, *names: str, **fields: Any) -> None:
    for name in names:
        road.see(name, runs=True, **fields)


@pytest.mark.proves("A9")
def test_an_edit_after_a_first_revision_that_one_cluster_never_got_well_is_staged() -> None:
    road = two()
    road.status, road.digest = None, OLD
    runs(road, *road.clusters, revision="")
    for name in road.clusters:
        road.see(name, revision=OLD, settled=name != "m3")
    road.see("m3", runs=False)
    assert (road.look().status.phase, road.given(OLD)) == ("Progressing", set(road.clusters))
    road.edit(NEW)
    assert (road.phase, road.given()) == ("Progressing", {"c1"})
    assert road.status is not None
    assert road.status.stable == OLD
    road.edit(NEWER)
    assert (road.given(NEWER), road.given(OLD)) == ({"c1"}, {"c2", "m1", "m2", "m3"})


@pytest.mark.proves("A9")
def test_a_first_revision_that_runs_nowhere_is_replaced_at_once() -> None:
    road = two()
    road.status, road.digest = None, OLD
    for name in road.clusters:
        road.see(name, revision=OLD, settled=False)
    road.look()
    road.edit(NEW)
    assert road.given() == set(road.clusters)


@pytest.mark.proves("A9")
def test_a_rollout_that_comes_with_a_new_template_stages_it() -> None:
    road = two()
    road.status, road.digest = None, NEW
    runs(road, *road.clusters, revision="", settled=True)
    view = RolloutView(road.spec, None, {}, list(road.clusters.values()), BEGINNING)
    assert view.unknown, "nothing is decided before the members have said what they run"
    runs(road, *road.clusters, revision=OLD)
    road.see("m2", reachable=False, revision="")
    road.see("m3", leaving=True)
    road.look()
    assert road.given() == {"c1"}
    assert road.given(OLD) == {"c2", "m1", "m2", "m3"}
    assert road.status is not None
    assert (road.phase, road.status.stable) == ("Progressing", OLD)


@pytest.mark.proves("A9", "T24")
def test_a_rollout_that_comes_alone_changes_nothing() -> None:
    road = two()
    road.status, road.digest = None, OLD
    runs(road, *road.clusters)
    assert (road.look().status.phase, road.exceptions) == ("Complete", {})
