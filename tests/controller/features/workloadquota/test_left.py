"""What deleted Workloads left on clusters: it counts on, over restarts, until it is released."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from controller.eventhandlers import known
from controller.features.workloadquota.compiled import WorkloadQuota, compile_quota
from controller.features.workloadquota.usage import LeftBehind, Usage
from controller.model.unit import workload_info
from crds.workloadquota import MOST_LEFT
from machinery.api.resources import WORKLOAD_QUOTAS, WORKLOADS
from tests.controller import make
from tests.controller.features.workloadquota.quotas import body, holding, quota, used
from tests.controller.memory import Stage

pytestmark = pytest.mark.proves("A11")

KEPT = {"annotations": {"stowage.dev/keep": "Always"}}
EXCEEDED = "QuotaExceeded"


def side(metadata: dict[str, Any]) -> dict[str, Any]:
    container = {"name": "main", "resources": {"requests": {"cpu": "2"}}}
    spec = {"replicas": 2, "template": {"spec": {"containers": [container]}}}
    named = {"name": "side", **metadata}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": named, "spec": spec}


def kept_by_template() -> dict[str, Any]:
    container = {"name": "main", "resources": {"requests": {"cpu": "500m"}}}
    spec = {"template": {"spec": {"containers": [container]}}}
    meta = {"name": "web", **KEPT}
    kind = {"apiVersion": "apps/v1", "kind": "Deployment"}
    return {"template": {**kind, "metadata": meta, "spec": spec}}


@pytest.mark.parametrize(
    ("spec", "left"),
    [
        ({}, {}),
        ({"onDelete": "Orphan"}, {"units": 3, "requests.cpu": 1500}),
        (
            {"onDelete": "Orphan", "manifests": [side({})]},
            {"units": 7, "requests.cpu": 9500},
        ),
        (kept_by_template(), {"units": 3, "requests.cpu": 1500}),
        ({"manifests": [side({})]}, {}),
        ({"manifests": [side(KEPT), side({})]}, {"units": 4, "requests.cpu": 8000}),
        (
            {
                "overrides": [
                    {"name": "x", "clusterSelector": {}, "patch": {"metadata": KEPT}},
                ]
            },
            {"units": 3, "requests.cpu": 1500},
        ),
        ({"onDelete": "Orphan", "delivery": "None"}, {}),
    ],
)
def test_what_a_deleted_workload_leaves_goes_on_counting(
    spec: dict[str, Any], left: dict[str, int]
) -> None:
    bound = holding(quota(units=100))
    shares = {"a": 2, "b": 1}
    web = make.workload("web", replicas=3, present=shares, **spec)
    bound.put(workload_info(web), shares)
    before = used(bound)
    ending = msgspec.structs.replace(
        web, metadata=msgspec.structs.replace(web.metadata, deletion_timestamp="2026-01-02")
    )
    bound.put(workload_info(ending), shares)
    assert used(bound) == (before if left else {}), "what stays does not come free meanwhile"
    bound.drop(("shop", "web"))
    found = used(bound)
    assert {name: found.get(name, 0) for name in left} == left
    assert bool(found) == bool(left)


def test_what_leaves_a_cluster_when_its_workload_is_orphaned_is_left_too() -> None:
    bound = holding(quota(units=100))
    leaving = [{"cluster": "a", "replicas": 2, "cause": "Edited", "since": "2026-01-01T00:00:00Z"}]
    web = make.workload(
        "web", replicas=3, present={"b": 3}, onDelete="Orphan", manifests=[side({})]
    )
    moving = msgspec.convert(
        {**msgspec.to_builtins(web.status), "leaving": leaving}, type(web.status)
    )
    bound.put(workload_info(msgspec.structs.replace(web, status=moving)), {"b": 3})
    assert used(bound)["units"] == 5, "what moves counts once"
    bound.drop(("shop", "web"))
    assert used(bound) == {"units": 9, "requests.cpu": 10500, "requests.memory": 5 * 2**30}


def test_what_a_workload_leaves_that_cannot_be_read_any_more_is_what_it_was() -> None:
    bound = holding(quota(units=100))
    web = make.workload(
        "web", replicas=3, present={"a": 3}, onDelete="Orphan", manifests=[side({})]
    )
    bound.put(known(web).info, {"a": 3})
    before = used(bound)
    meta = msgspec.structs.replace(web.metadata, resource_version="2")
    wrong = make.workload("web", present={"a": 3}, onDelete="Orphan", pod={"containers": [7]})
    info = known(msgspec.structs.replace(wrong, metadata=meta)).info
    assert info.unread
    bound.put(info, {"a": 3})
    assert used(bound) == before
    bound.drop(("shop", "web"))
    assert used(bound) == before


async def test_orphaning_again_and_again_exceeds_no_quota_also_over_a_restart() -> None:
    stage = Stage("a", cpu="64")
    stage.hub.put(WORKLOAD_QUOTAS, body(units=4))

    def status() -> dict[str, Any]:
        found: dict[str, Any] = stage.hub.read(WORKLOAD_QUOTAS, "team").get("status", {})
        return found

    def left() -> list[str]:
        return [each["workload"] for each in status().get("left", [])]

    async with stage.leading():
        stage.workload("one", replicas=3, onDelete="Orphan")
        await stage.until(lambda: left() == ["one"])
        await stage.until(lambda: not status()["claims"])
        assert status()["used"] == {"units": "3"}, "it counts as itself while it lives"
    uid = stage.hub.read(WORKLOADS, "one")["metadata"]["uid"]
    stage.hub.remove(WORKLOADS, "one")  # nobody looks
    async with stage.leading(identity="two"):
        stage.workload("two", replicas=3, onDelete="Orphan")
        await stage.until(lambda: stage.says("two")[1] == EXCEEDED)
        assert "units 3 of 4 used" in stage.says("two")[2]
        stage.hub.edit(WORKLOADS, "two", {"spec": {"replicas": 1}})
        await stage.until(lambda: stage.placed("two") == {"a": 1})
        stage.hub.remove(WORKLOADS, "two")
        stage.workload("three", replicas=1)
        await stage.until(lambda: stage.says("three")[1] == EXCEEDED)
        await stage.until(lambda: left() == ["one", "two"])
        note = {"metadata": {"annotations": {"stowage.dev/released": f"{uid}, other"}}}
        stage.hub.edit(WORKLOAD_QUOTAS, "team", note)
        await stage.until(lambda: stage.placed("three") == {"a": 1}, seconds=1)
        await stage.until(lambda: left() == ["two"])
        assert status()["used"] == {"units": "2"}


async def test_who_takes_the_word_back_before_the_end_leaves_nothing_that_counts() -> None:
    stage = Stage("a", cpu="64")
    stage.hub.put(WORKLOAD_QUOTAS, body(units=4))
    async with stage.leading():
        stage.workload("one", replicas=3, onDelete="Orphan")
        await stage.until(
            lambda: stage.hub.read(WORKLOAD_QUOTAS, "team").get("status", {}).get("left")
        )
        stage.hub.edit(WORKLOADS, "one", {"spec": {"onDelete": "Delete"}})
        stage.hub.remove(WORKLOADS, "one")
        stage.workload("two", replicas=4)
        await stage.until(lambda: stage.placed("two") == {"a": 4})


def stored(left: LeftBehind, name: str = "team") -> WorkloadQuota:
    """The quota, as its controller writes it, and as it is read again."""
    found = msgspec.to_builtins(quota(name, units=1))
    found["status"]["left"] = left.told(("shop", name), all_of_it=True)
    again = msgspec.convert(found, WorkloadQuota)
    left.stored(again)
    return again


def test_very_many_notes_become_a_sum_and_none_is_lost_or_counted_twice() -> None:
    left = LeftBehind()
    for n in range(1, 2 * MOST_LEFT):
        left.ended(f"uid-{n}", f"w{n}", {"units": 1})
        if not n % 7:
            again = stored(left)
            assert len(again.status.left) <= MOST_LEFT
            fresh = LeftBehind()
            fresh.stored(again)
            assert fresh.amounts() == left.amounts() == {"units": n}, "as after a restart"


def test_notes_go_to_the_next_quota_when_theirs_is_deleted() -> None:
    bound = holding(quota(units=9), quota("later", created="2026-02-01T00:00:00Z", units=9))
    usage = bound.ledger(Usage)
    web = make.info("web", replicas=3, onDelete="Orphan")
    bound.put(web, {"a": 3})
    bound.drop(web.key)
    later = quota("later", created="2026-02-01T00:00:00Z", units=9)
    assert [len(usage.left(each)) for each in (quota(units=9), later)] == [1, 0]
    usage.drop_quota(("shop", "team"))
    assert [each["workload"] for each in usage.left(later)] == ["web"]
    assert used(bound)["units"] == 3


@pytest.mark.proves("N4", "SC26")
def test_nothing_is_kept_of_a_namespace_without_a_quota_and_the_first_one_counts_all() -> None:
    """The amounts are those of a quota that was there before the Workloads."""
    first, later = holding(quota(units=9)), holding()
    web, idle, moved = (make.info(name, replicas=3) for name in ("web", "idle", "moved"))
    for bound in (first, later):
        bound.put(web, {"a": 3})
        bound.put(idle, {"a": 2})
        bound.put(replace(idle, deleting=True), {"a": 2})
        bound.put(moved.with_present({"a": 3}), {"a": 3})
        bound.assume(moved.with_present({"a": 3}), {"b": 1})
        bound.put(make.info("gone", replicas=1), {"a": 1})
        bound.drop(("shop", "gone"))
    usage = later.ledger(Usage)
    assert usage.counts("shop") == {}
    usage.put_quota(compile_quota(quota(units=9)))
    assert used(later) == used(first)
    assert used(first)["units"] == 6
    usage.drop_quota(("shop", "team"))
    assert usage.counts("shop") == {}
    assert len(first.ledger(Usage).counts("shop")) == 3
