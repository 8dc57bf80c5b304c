"""The endpoints of gangs answer with the numbers of the next decision, bounded however many there are."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controller.features.workloadgroup import answers
from controller.features.workloadgroup.answers import (
    NAMED_CLUSTERS,
    NAMED_WORKLOADS,
    GroupHandlers,
)
from controller.features.workloadgroup.compiled import CompiledGroup
from controller.features.workloadgroup.fairness import Findings
from controller.features.workloadgroup.ledger import Groups
from controller.features.workloadgroup.memory import Denial, GroupMemory
from controller.framework.interface import CycleState
from controller.framework.runtime.services import PAGE
from controller.framework.status import unschedulable
from controller.framework.waiting import WaitingWorkload
from controller.model.unit import WorkloadInfo
from crds.groups.gate import decision_of
from machinery.http_messages import Request, Response
from tests.controller.make import info

pytestmark = pytest.mark.proves("E9")

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


class Here:
    """A ledger, a memory and who waits, and the answers of these."""

    def __init__(self) -> None:
        self.ledger, self.memory = Groups(), GroupMemory()
        self.waiting: list[WaitingWorkload] = []
        self.now = NOW
        handlers = GroupHandlers(
            ledger=lambda: self.ledger,
            memory=lambda: self.memory,
            held=lambda: self.waiting,
            now=lambda: self.now,
        )
        self._routes = {route.path: route.answer for route in handlers.routes()}

    def group(self, name: str = "batch", **fields: Any) -> None:
        key = ("shop", name)
        known = {"uid": "g", "created": "", "generation": 1, "min_member": 4, **fields}
        self.ledger.put_group(CompiledGroup(key=key, **known))

    def member(
        self, name: str, replicas: int, shares: dict[str, int], **fields: Any
    ) -> WorkloadInfo:
        made = replace(info(name, replicas=replicas, present=fields.pop("present", {})), **fields)
        made = replace(made, groups=("batch",), uid=f"uid-{name}")
        self.ledger.put(made, shares)
        return made

    def hold(self, of: WorkloadInfo, shares: dict[str, int]) -> None:
        self.waiting.append(WaitingWorkload(of, shares, CycleState(), 0.0))

    async def gang(self, name: str = "batch") -> Any:
        request = asked({}, namespace="shop", name=name)
        return await self._routes["/gang/:namespace/:name"](request)

    async def gangs(self, **query: str) -> Any:
        return await self._routes["/gangs"](asked(query))


def asked(query: dict[str, str], **params: str) -> Request:
    return Request(method="GET", path="/", query=query, params=params, headers={}, body=b"")


def member(
    name: str, desired: int, assigned: int, waiting: int, clusters: dict[str, int]
) -> dict[str, Any]:
    numbers = {"desired": desired, "assigned": assigned, "waiting": waiting}
    return {"name": name, **numbers, "released": False, "clusters": clusters}


async def test_what_is_held_counts_as_assigned_and_is_told_as_waiting() -> None:
    here = Here()
    here.group(phase="Scheduling", min_member=10)
    here.member("driver", 1, {"a": 1}, present={"a": 1})
    here.hold(here.member("worker", 9, {"a": 5, "b": 3}, present={"a": 2}), {"a": 5, "b": 3})
    here.memory.hold(("shop", "batch"), NOW - timedelta(seconds=5))
    told = await here.gang()
    assert list(told)[:7] == [
        "namespace",
        "name",
        "min",
        "assigned",
        "waiting",
        "deniedUntil",
        "phase",
    ]
    assert told == {
        "namespace": "shop",
        "retained": 0,
        "name": "batch",
        "min": 10,
        "assigned": 9,
        "waiting": 6,
        "deniedUntil": None,
        "phase": "Scheduling",
        "gate": None,
        "released": 0,
        "desired": 10,
        "missing": 1,
        "members": 2,
        "heldSince": "2026-05-01T11:59:55Z",
        "scheduleTimeoutSeconds": 60,
        "failures": 0,
        "retryTime": None,
        "lastFailureTime": None,
        "message": "",
        "workloads": [
            member("worker", 9, 8, 6, {"a": 5, "b": 3}),
            member("driver", 1, 1, 0, {"a": 1}),
        ],
    }
    del told["workloads"]
    assert await here.gangs() == {"gangs": [told]}


async def test_what_runs_on_every_cluster_is_wanted_as_often_as_its_status_says() -> None:
    here = Here()
    here.group(phase="Running", min_member=6)
    here.member("copies", 2, {"a": 2, "b": 2, "c": 2})
    told = await here.gang()
    assert (told["assigned"], told["desired"]) == (6, 6)


@pytest.mark.proves("G11")
async def test_one_that_is_denied_says_until_when_and_why() -> None:
    here = Here()
    here.group()
    status = unschedulable("Coscheduling", "", args=("resource gap: cpu 3 more",))
    denial = Denial(NOW - timedelta(seconds=1), 3, Findings(0, "g", 1, 0), status)
    here.memory.deny(("shop", "batch"), denial)
    told = await here.gang()
    assert told["deniedUntil"] == "2026-05-01T12:00:02Z"
    assert told["message"] == "resource gap: cpu 3 more"
    here.now += timedelta(seconds=5)
    told = await here.gang()
    assert (told["deniedUntil"], told["message"]) == (None, "resource gap: cpu 3 more")
    here.memory.clear_denied(("shop", "batch"))
    told = await here.gang()
    assert (told["deniedUntil"], told["message"]) == (None, "")


@pytest.mark.proves("G24")
async def test_what_is_released_is_the_decision_that_stands_and_while_the_gate_is_open() -> None:
    here = Here()
    shares = {"a": 2}
    here.member("worker", 2, shares, present=shares)
    later = NOW + timedelta(seconds=20)
    for gate, digest, released in (
        ("Open", decision_of(shares), True),
        ("Open", decision_of({"a": 1}), False),
        ("Closed", decision_of(shares), False),
    ):
        here.group(gate=gate, released={"uid-worker": digest}, retry=later, failures=2)
        told = await here.gang()
        assert told["workloads"][0]["released"] is released
        assert (told["gate"], told["failures"]) == (gate, 2)
        assert told["retryTime"] == "2026-05-01T12:00:20Z"


async def test_one_that_is_not_there_is_404_and_says_who_names_it() -> None:
    here = Here()
    told = await here.gang("batch")
    assert isinstance(told, Response)
    assert told.status == 404
    assert b"cannot find gang shop/batch: no WorkloadGroup shop/batch" in told.body
    assert b"name it" not in told.body
    here.member("worker", 2, {})
    assert b"no WorkloadGroup shop/batch; 1 Workload names it" in (await here.gang("batch")).body
    odd = (await here.gang("one\ngang shop/two is well")).body
    assert rb"cannot find gang shop/'one\\ngang shop/two is well'" in odd, "quoted, in one line"


async def test_very_many_workloads_are_told_in_part() -> None:
    here = Here()
    here.group()
    wide = {f"c{n:04}": 1 for n in range(NAMED_CLUSTERS + 50)}
    for n in range(NAMED_WORKLOADS + 50):
        here.member(f"w{n:04}", 1, {"a": 1})
    here.member("zz-lacks", 2 * len(wide), wide)
    told = await here.gang()
    assert told["members"] == NAMED_WORKLOADS + 51
    assert len(told["workloads"]) == NAMED_WORKLOADS
    assert told["workloads"][0]["name"] == "zz-lacks", "those that lack units come first"
    assert len(told["workloads"][0]["clusters"]) == NAMED_CLUSTERS


@pytest.mark.proves("L7")
async def test_an_answer_looks_no_closer_at_more_than_it_tells(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So none holds the loop for long."""
    here = Here()
    for n in range(3 * PAGE):
        here.group(f"g{n:05}")
    here.group()
    first = here.member("w", 1, {"a": 1})
    for n in range(3 * NAMED_WORKLOADS):
        here.ledger.put(replace(first, name=f"w{n}", uid=f"u{n}"), {"a": 1})
    asked = Counter[str]()

    def counted(name: str, kind: Any) -> None:
        of = getattr(kind, name)

        def looks(*args: Any) -> Any:
            asked[name] += 1
            return of(*args)

        monkeypatch.setattr(kind, name, looks)

    for name in ("members", "assigned", "desired", "started"):
        counted(name, Groups)
    counted("_workload", answers)
    await here.gangs()
    assert dict(asked) == dict.fromkeys(("members", "assigned", "desired", "started"), PAGE)
    asked.clear()
    await here.gang()
    assert asked["_workload"] == NAMED_WORKLOADS
    assert asked.total() - NAMED_WORKLOADS <= 5
