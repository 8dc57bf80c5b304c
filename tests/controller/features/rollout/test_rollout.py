"""Rollouts by a whole controller, on a hub in memory, with members that do what the status says."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import msgspec
import pytest

from controller.features.rollout.revisions import CONTROLLER_REVISIONS, RevisionHistory
from crds.names import LABEL_WORKLOAD_UID, TAINT_DRAIN
from machinery.api.client import ApiClient
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOADS
from machinery.errors import Forbidden
from machinery.kinds.revisions import revision_name
from machinery.types.metadata import Meta
from tests.controller.features.rollout.fleet import CANARY, NAME, RolloutFleet, pictured

ALL = {"c1", "c2", "m1", "m2", "m3"}


@pytest.mark.proves("T11", "T24")
async def test_the_first_revision_goes_everywhere_and_is_stable_when_it_is_ready() -> None:
    fleet = RolloutFleet()
    fleet.web()
    async with fleet.leading():
        await fleet.until(lambda: fleet.rollout)
        assert fleet.said()[:2] == ("False", "Progressing")
        await fleet.comes_to("Complete")
        assert fleet.rollout["stable"] == fleet.revision
        assert fleet.said()[:2] == ("True", "Complete")
        assert fleet.given == {name: [fleet.revision] for name in ALL}
        assert fleet.kept() == {fleet.revision}


@pytest.mark.proves("T1", "T10")
async def test_an_image_goes_from_wave_to_wave_and_replicas_go_everywhere() -> None:
    fleet = RolloutFleet()
    async with fleet.at_rest():
        old = fleet.revision
        new = fleet.image("v2")
        await fleet.calm(5)
        assert fleet.with_revision(new) == {"c1"}
        fleet.edit(replicas=3)
        await fleet.calm(5)
        placements = fleet.read()["status"]["placements"]
        assert {each["replicas"] for each in placements} == {3}
        assert fleet.with_revision(new) == {"c1"}
        assert fleet.kept() == {old, new}
        newest = fleet.image("v3")
        await fleet.calm(1)
        assert fleet.with_revision(newest) == {"c1"}
        assert fleet.rollout["stable"] == old
        await fleet.comes_to("Complete")
        assert fleet.with_revision(newest) == ALL
        assert fleet.kept() == {newest}
        told = {each["reason"] for each in fleet.hub.events()}
        assert told >= {"RolloutStarted", "WaveStarted", "WaveComplete", "RolloutComplete"}


@pytest.mark.proves("T1", "T21")
async def test_a_revision_is_stored_before_a_status_names_it() -> None:
    fleet = RolloutFleet()
    unstored: list[str] = []

    async def look(_method: str, path: str, body: Any) -> None:
        if path.endswith(f"{NAME}/status") and isinstance(body, dict):
            rollout = body["status"].get("rollout") or {}
            named = {each["revision"] for each in body["status"].get("revisions") or []}
            named |= {rollout[each] for each in ("revision", "stable") if rollout.get(each)}
            unstored.extend(named - fleet.kept())

    fleet.hub.faults.append(look)
    async with fleet.at_rest():
        fleet.image("v2")
        await fleet.comes_to("Complete")
    assert unstored == []


@pytest.mark.proves("T4")
async def test_it_soaks_over_a_restart() -> None:
    fleet = RolloutFleet(canaries=1)
    async with fleet.at_rest(waves=[{**CANARY, "soakSeconds": 100}]):
        new = fleet.image("v2")
        await fleet.comes_to("Soaking")
        await fleet.calm(50)
    async with fleet.leading(identity="two"):
        await fleet.calm(45)
        assert fleet.with_revision(new) == {"c1"}
        await fleet.calm(6)
        assert fleet.with_revision(new) == {"c1", "m1"}


@pytest.mark.proves("T7", "T9")
async def test_a_failure_holds_it_until_a_retry_or_an_edit() -> None:
    fleet = RolloutFleet()
    async with fleet.at_rest(progressDeadlineSeconds=30):
        old, new = fleet.revision, fleet.image("v2")
        fleet.sick = {"c1"}
        await fleet.comes_to("Failed")
        status, reason, message = fleet.said()
        assert (status, reason) == ("False", "HealthCheckFailed")
        assert "c1" in message
        assert "ImagePullBackOff" in message
        assert fleet.with_revision(new) == {"c1"}
        fleet.sick.clear()
        await fleet.goes_on(60, every=20)
        assert fleet.phase == "Failed"
        later = fleet.clock.now().isoformat().replace("+00:00", "Z")
        fleet.pace(retryAfter=later)
        await fleet.comes_to("Complete")
        assert fleet.with_revision(new) == ALL
        fleet.sick = {"c1"}
        fleet.image("v1")
        assert fleet.revision == old
        await fleet.comes_to("Failed")
        given = {name: list(each) for name, each in fleet.given.items()}
        fleet.image("v2")
        await fleet.comes_to("Complete")
        fleet.report()
        given["c1"].append(new)
        assert fleet.given == given, "no pod restarts where the stable revision runs"


@pytest.mark.proves("T3", "KD77")
@pytest.mark.parametrize("on_failure", ["Pause", "Rollback"])
async def test_a_suspended_cluster_holds_its_wave_and_fails_nothing(on_failure: str) -> None:
    fleet = RolloutFleet()
    async with fleet.at_rest(progressDeadlineSeconds=30, onFailure=on_failure):
        fleet.suspend("c1")
        new = fleet.image("v2")
        await fleet.goes_on(100, every=5)
        assert fleet.phase == "Progressing", fleet.said()
        assert "spec.suspend" in fleet.said()[2]
        fleet.suspend()
        await fleet.comes_to("Complete")
        assert fleet.with_revision(new) == ALL
        fleet.suspend("m1")
        fleet.image("v3")
        await fleet.goes_on(30, every=5)
        fleet.sick = {"m1"}
        fleet.suspend()
        await fleet.goes_on(20, every=5)
        assert fleet.phase == "Progressing", "its time begins when it is written there"
        await fleet.comes_to("Failed" if on_failure == "Pause" else "RollingBack")


@pytest.mark.proves("T8", "T20", "T21")
async def test_a_rollback_is_whole_and_stays_over_a_restart() -> None:
    fleet = RolloutFleet()
    async with fleet.at_rest(progressDeadlineSeconds=30, onFailure="Rollback"):
        old, new = fleet.revision, fleet.image("v2")
        fleet.sick = {"c2"}
        await fleet.comes_to("RolledBack")
        assert fleet.with_revision(old) == ALL
        assert fleet.rollout["revision"] == new
        assert fleet.said()[:2] == ("False", "RolledBack")
        assert [len(fleet.given[name]) for name in ("c1", "c2", "m1")] == [3, 3, 1]
    async with fleet.leading(identity="two"):
        await fleet.goes_on(100, every=20)
        assert (fleet.phase, fleet.with_revision(old)) == ("RolledBack", ALL)
        fleet.sick.clear()
        newest = fleet.image("v3")
        await fleet.comes_to("Complete")
        assert fleet.with_revision(newest) == ALL


@pytest.mark.proves("T14", "T15", "T16")
async def test_a_cluster_that_joins_has_what_its_wave_has_from_the_first_write() -> None:
    fleet = RolloutFleet(canaries=1)
    async with fleet.at_rest(waves=[{**CANARY, "approval": True}]):
        old, new = fleet.revision, fleet.image("v2")
        await fleet.comes_to("AwaitingApproval")
        first: dict[str, str] = {}

        async def look(_method: str, _path: str, _body: Any) -> None:
            for name, target in fleet.targets().items():
                first.setdefault(name, target)

        first.update(fleet.targets())
        fleet.hub.after.append(look)
        fleet.cluster("c9", tier="canary")
        fleet.cluster("m9")
        await fleet.until(lambda: {"c9", "m9"} <= fleet.targets().keys())
        assert (first["c9"], first["m9"]) == (new, old)
        await fleet.goes_on(5)
        assert fleet.phase == "AwaitingApproval"
        fleet.hub.edit(MEMBER_CLUSTERS, "m9", {"metadata": {"labels": {"tier": "canary"}}})
        await fleet.goes_on(3)
        assert fleet.with_revision(new) == {"c1", "c9", "m9"}
        fleet.give_up("c1")
        await fleet.goes_on(3)
        assert "c1" not in fleet.targets()
        fleet.pace(approvals=[{"revision": new, "wave": "canary"}])
        await fleet.comes_to("Complete")


@pytest.mark.proves("T16", "T18")
@pytest.mark.parametrize(("left", "to"), [("m1", "c2"), ("c1", "m2")])
async def test_units_that_move_have_the_revision_of_the_wave_that_they_move_to(
    left: str, to: str
) -> None:
    fleet = RolloutFleet(canaries=2, others=2)
    for name in (*fleet.canaries, *fleet.others):
        cordoned = name in {"c2", "m2"}
        fleet.hub.edit(MEMBER_CLUSTERS, name, {"spec": {"unschedulable": cordoned}})
    waves = [{**CANARY, "approval": True}]
    fleet.workload(
        NAME,
        replicas=4,
        cpu="4",
        distribution="Divided",
        targetDeployment=pictured("v1", cpu="4"),
        rollout={"waves": waves},
    )
    async with fleet.leading():
        await fleet.comes_to("Complete")
        assert fleet.placed(NAME) == {"c1": 2, "m1": 2}
        old = fleet.revision
        fleet.edit(targetDeployment=pictured("v2", cpu="4"))
        new = fleet.revision
        await fleet.comes_to("AwaitingApproval")
        drained = [{"key": TAINT_DRAIN, "effect": "NoExecute"}]
        fleet.hub.edit(MEMBER_CLUSTERS, to, {"spec": {"unschedulable": False}})
        fleet.hub.edit(MEMBER_CLUSTERS, left, {"spec": {"taints": drained}})
        had = fleet.targets()[left]
        await fleet.until(lambda: to in fleet.placed(NAME))
        while left in fleet.targets():
            assert fleet.targets()[left] == had, "what leaves is not updated before"
            await fleet.goes_on(1)
        assert fleet.given[to] == [new if to == "c2" else old]
        fleet.pace(approvals=[{"revision": new, "wave": "canary"}])
        await fleet.comes_to("Complete")
        assert set(fleet.targets().values()) == {new}


@pytest.mark.proves("T19")
async def test_overrides_are_staged_and_images_of_a_cluster_are_not() -> None:
    fleet = RolloutFleet()
    async with fleet.at_rest():
        old = fleet.revision
        images = [{"from": "docker.io", "to": "mirror.eu.example"}]
        fleet.hub.edit(MEMBER_CLUSTERS, "m1", {"spec": {"images": images}})
        await fleet.goes_on(3)
        assert (fleet.phase, fleet.with_revision(old)) == ("Complete", ALL)
        patch = {"metadata": {"annotations": {"a": "b"}}}
        fleet.edit(overrides=[{"name": "all", "clusterSelector": {}, "patch": patch}])
        await fleet.calm(1)
        assert fleet.with_revision(fleet.revision) == {"c1"}
        await fleet.comes_to("Complete")


@pytest.mark.proves("T22")
@pytest.mark.parametrize(
    ("kind", "ready_at_once"), [("CronJob", True), ("DaemonSet", False), ("Gadget", False)]
)
async def test_a_kind_without_units_is_healthy_by_its_own(kind: str, ready_at_once: bool) -> None:
    fleet = RolloutFleet()
    template = _template(kind, "v1")
    spec = {"distribution": "Duplicated", "targetDeployment": None, "template": template}
    spec["replicas"] = None  # it has none
    fleet.workload(NAME, rollout={"waves": [CANARY], "minReadySeconds": 20}, **spec)
    async with fleet.leading():
        await fleet.comes_to("Complete")
        fleet.edit(template=_template(kind, "v2"))
        await fleet.goes_on(4)
        assert (fleet.with_revision(fleet.revision) == {"c1"}) is not ready_at_once
        await fleet.comes_to("Complete", seconds=200)


def _template(kind: str, image: str) -> dict[str, Any]:
    pods = pictured(image)["spec"]["template"]
    meta = {"name": NAME}
    if kind == "CronJob":
        spec: dict[str, Any] = {
            "schedule": "* * * * *",
            "jobTemplate": {"spec": {"template": pods}},
        }
        return {"apiVersion": "batch/v1", "kind": kind, "metadata": meta, "spec": spec}
    if kind == "DaemonSet":
        spec = {"selector": {"matchLabels": {"app": NAME}}, "template": pods}
        return {"apiVersion": "apps/v1", "kind": kind, "metadata": meta, "spec": spec}
    return {"apiVersion": "x.dev/v1", "kind": kind, "metadata": meta, "spec": {"image": image}}


@pytest.mark.proves("T23")
@pytest.mark.parametrize("how", ["deleted", "another"])
async def test_without_the_stable_revision_nothing_goes_back(how: str) -> None:
    fleet = RolloutFleet()
    async with fleet.at_rest():
        old, new = fleet.revision, fleet.image("v2")
        await fleet.calm(1)
        name = revision_name(NAME, old)
        kept = fleet.hub.read(CONTROLLER_REVISIONS, name)
        fleet.hub.remove(CONTROLLER_REVISIONS, name)
        if how == "another":
            fleet.hub.put(CONTROLLER_REVISIONS, {**kept, "data": {"spec": {"template": {}}}})
        fleet.pace(aborted=new)
        await fleet.goes_on(5)
        status, reason, message = fleet.said()
        assert (status, reason) == ("False", "RevisionLost")
        assert f"{name} is {'gone' if how == 'deleted' else 'not what it was'}" in message
        assert (fleet.with_revision(new), fleet.with_revision(old)) == ({"c1"}, ALL - {"c1"})
        if how == "another":
            fleet.hub.remove(CONTROLLER_REVISIONS, name)
        fleet.hub.put(CONTROLLER_REVISIONS, kept)
        await fleet.comes_to("RolledBack", seconds=40)


@pytest.mark.proves("T23")
async def test_on_a_hub_that_refuses_revisions_the_condition_says_what_to_grant() -> None:
    fleet = RolloutFleet()

    async def refuse(method: str, path: str, _body: Any) -> None:
        if "controllerrevisions" in path and method == "POST":
            raise Forbidden(code=403, reason="Forbidden", message="may not create")

    fleet.hub.faults.append(refuse)
    fleet.web()
    async with fleet.leading():
        await fleet.goes_on(10)
        status, reason, message = fleet.said()
        assert (status, reason, fleet.rollout) == ("False", "RevisionLost", {})
        assert "controllerrevisions of the group apps" in message
        asked = len(fleet.hub.writes("controllerrevisions"))
        await fleet.goes_on(20)
        assert len(fleet.hub.writes("controllerrevisions")) <= asked + 1
        fleet.hub.faults.remove(refuse)
        await fleet.comes_to("Complete", seconds=90)


@pytest.mark.proves("T24")
async def test_without_its_rollout_nothing_of_it_is_left_and_at_rest_it_restarts_nothing() -> None:
    fleet = RolloutFleet()
    async with fleet.at_rest():
        fleet.image("v2")
        await fleet.goes_on(2)
        fleet.edit(rollout=None)
        await fleet.calm(3)
        status = fleet.read()["status"]
        assert (status.get("rollout"), status.get("revisions")) == (None, None)
        assert (fleet.said(), fleet.kept()) == (("", "", ""), set())
        fleet.given.clear()
        fleet.edit(rollout={"waves": [CANARY]})
        await fleet.comes_to("Complete")
        assert fleet.given == {name: [fleet.revision] for name in ALL}


@pytest.mark.proves("T24")
async def test_without_a_rollout_nothing_is_asked_of_the_hub() -> None:
    fleet = RolloutFleet()
    fleet.workload(NAME)
    async with fleet.leading():
        await fleet.until(lambda: fleet.placed(NAME))
        fleet.edit(targetDeployment=pictured("v2"))
        await fleet.calm(5)
        asked = [path for _, path, _ in fleet.hub.requests]
        assert not any("controllerrevisions" in path for path in asked)
        assert not any(path.endswith(f"workloads/{NAME}") for path in asked)


async def test_a_workload_of_the_same_name_takes_nothing_of_an_earlier_one() -> None:
    fleet = RolloutFleet()
    fleet.web()
    owner = {"apiVersion": "x", "kind": "Workload", "name": NAME, "uid": "before"}
    earlier = {"name": revision_name(NAME, fleet.revision), "ownerReferences": [owner]}
    fleet.hub.put(CONTROLLER_REVISIONS, {"metadata": earlier, "data": {"spec": {}}})
    async with fleet.leading():
        await fleet.comes_to("Complete", seconds=5)
        (found,) = fleet.hub.all(CONTROLLER_REVISIONS)
        assert found["metadata"]["ownerReferences"][0]["uid"] == fleet.read()["metadata"]["uid"]


async def test_a_revision_of_somebody_else_is_left_alone() -> None:
    fleet = RolloutFleet()
    fleet.web()
    name = revision_name(NAME, fleet.revision)
    fleet.hub.put(CONTROLLER_REVISIONS, {"metadata": {"name": name}, "data": {}})
    async with fleet.leading():
        await fleet.goes_on(5)
        assert fleet.said()[1] == "RevisionLost"
        assert "belongs to something else" in fleet.said()[2]
        assert fleet.hub.read(CONTROLLER_REVISIONS, name)["data"] == {}


@pytest.mark.proves("T23")
async def test_a_revision_with_another_label_is_still_that_of_its_owner() -> None:
    fleet = RolloutFleet()
    async with fleet.at_rest():
        name = revision_name(NAME, fleet.revision)
        fleet.hub.edit(
            CONTROLLER_REVISIONS, name, {"metadata": {"labels": {LABEL_WORKLOAD_UID: ""}}}
        )
        fleet.pace(paused=True)
        await fleet.goes_on(2)
        assert fleet.said()[1] == "Complete"


async def test_a_status_that_cannot_be_read_is_left_alone() -> None:
    fleet = RolloutFleet()
    async with fleet.at_rest():
        wrong = {"phase": 3, "revision": None}
        fleet.hub.edit(WORKLOADS, NAME, {"status": {"rollout": wrong}}, status=True)
        before = fleet.rollout
        fleet.image("v2")
        await fleet.calm(5)
        assert fleet.rollout == before
        assert fleet.says(NAME)[0] == "True", "it is placed all the same"


async def test_what_nothing_names_stays_where_the_hub_lets_nothing_be_deleted() -> None:
    fleet = RolloutFleet(canaries=1, others=1)

    async def refuse(method: str, path: str, _body: Any) -> None:
        if "controllerrevisions" in path and method == "DELETE":
            raise Forbidden(code=403, reason="Forbidden", message="may not delete")

    fleet.hub.faults.append(refuse)
    async with fleet.at_rest():
        old, new = fleet.revision, fleet.image("v2")
        await fleet.comes_to("Complete")
        await fleet.goes_on(60, every=20)
        assert fleet.kept() == {old, new}
        asked = [each for each in fleet.hub.requests if each[0] == "DELETE"]
        assert len(asked) == 1, "no storm"


@pytest.mark.proves("T21")
async def test_what_another_instance_has_stored_meanwhile_is_not_tidied_up() -> None:
    fleet = RolloutFleet()
    fleet.web()
    body = fleet.read()
    stable, unnamed = "a" * 16, "b" * 16
    rollout = {"phase": "Failed", "revision": "c" * 16, "stable": stable}
    fleet.hub.edit(WORKLOADS, NAME, {"status": {"rollout": rollout}}, status=True)
    labels = {LABEL_WORKLOAD_UID: body["metadata"]["uid"]}
    for revision in (stable, unnamed, "c" * 16, fleet.revision):
        meta = {"name": revision_name(NAME, revision), "labels": labels}
        fleet.hub.put(CONTROLLER_REVISIONS, {"metadata": meta, "data": {}})
    history = RevisionHistory(cast("ApiClient", fleet.hub), check=lambda: None)
    await history.prune(msgspec.convert(body["metadata"], Meta))
    assert fleet.kept() == {stable, "c" * 16, fleet.revision}


# --- the controller dies at each of its writes in turn: before it lands, or before its answer comes


LEAST_WRITES = 7
"""Of one rollout: its ControllerRevision, the decision, three starts, the end, and a removal."""


def _ours(method: str, path: str) -> bool:
    return method != "GET" and ("controllerrevisions" in path or path.endswith(f"{NAME}/status"))


class Reaper:
    """Lets the write of that number hang for ever; `dead` once it does."""

    def __init__(self, number: int) -> None:
        self.dead = asyncio.Event()
        self._left = number

    async def __call__(self, method: str, path: str, _body: Any) -> None:
        if not _ours(method, path):
            return
        if self._left == 0:
            self.dead.set()
            await asyncio.Event().wait()
        self._left -= 1


def many(fleet: RolloutFleet, new: str) -> int:
    """How many clusters have been given the revision and do not run it yet."""
    running = {name for name, given in fleet.given.items() if given[-1] == new}
    return len(fleet.with_revision(new) - running)


async def dies(fleet: RolloutFleet, number: int, *, landed: bool) -> bool:
    """A rollout whose first controller dies at that write; False where it had no such write."""
    reaper, most = Reaper(number), list[int]()
    async with fleet.at_rest():
        old, new = fleet.revision, fleet.image("v2")

        async def look(method: str, path: str, _body: Any) -> None:
            if _ours(method, path):
                most.append(many(fleet, new))

        fleet.hub.after.append(look)
        (fleet.hub.after if landed else fleet.hub.faults).append(reaper)
        while not (reaper.dead.is_set() or (fleet.phase == "Complete" and fleet.kept() == {new})):
            await fleet.goes_on(1)
    if not reaper.dead.is_set():
        return False
    (fleet.hub.after if landed else fleet.hub.faults).remove(reaper)
    async with fleet.leading(identity="two"):
        await fleet.until(lambda: fleet.rollout["revision"] == new)
        await fleet.comes_to("Complete")
        await fleet.goes_on(2)
        assert fleet.given == {name: [old, new] for name in (*fleet.canaries, *fleet.others)}
        assert max(most) <= 1, "one at once"
        assert fleet.kept() == {new}
    return True


@pytest.mark.long
@pytest.mark.proves("T21")
@pytest.mark.parametrize("landed", [False, True], ids=["before", "after"])
async def test_at_whichever_write_it_dies_the_next_one_goes_on(landed: bool) -> None:
    number = 0
    while await dies(RolloutFleet(canaries=2, others=1), number, landed=landed):
        number += 1
    assert number >= LEAST_WRITES
