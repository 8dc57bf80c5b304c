"""`stowage rollout approve`, `pause`, `resume`, `abort` and `retry`: what each writes, and the wait."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from machinery.api.resources import WORKLOADS
from machinery.clock import parse_timestamp, timestamp
from machinery.errors import ConfigurationError, Conflict, Unreachable
from stowage import hub as hubs
from stowage.report import rollout as rolling
from stowage.report.rollout import MakeEdit
from tests.fakeclock import EagerClock
from tests.memoryhub import MemoryHub
from tests.stowage.rollouts import STABLE, revision, staged, template, told

pytestmark = pytest.mark.proves("T31")

KEY = ("shop", "web")
OTHER = {"revision": "0000000000000000", "wave": "canary"}


class Hub(MemoryHub):
    """A hub with one Workload that is rolled out."""

    def __init__(self, clock: EagerClock, body: dict[str, Any]) -> None:
        super().__init__(clock=clock, admission=False)
        self.fake = clock
        self.put(WORKLOADS, body)

    @property
    def rollout(self) -> dict[str, Any]:
        found: dict[str, Any] = self.read(WORKLOADS, "web")["spec"]["rollout"]
        return found

    async def make(self, make: MakeEdit) -> rolling.WrittenEdit:
        return await rolling.write(self, KEY, make, clock=self.fake)  # type: ignore[arg-type]  # its verbs are those of the client

    async def refused(self, make: MakeEdit) -> str:
        before = self.rollout
        with pytest.raises(ConfigurationError) as refusal:
            await self.make(make)
        assert self.rollout == before
        return str(refusal.value)

    async def wait(self, **how: Any) -> bool:
        watch = rolling.RolloutWait(**{"seconds": 100.0, **how})
        return await rolling.wait(self, KEY, "table", watch, clock=self.fake)  # type: ignore[arg-type]  # as above

    def tell(self, phase: str, **more: Any) -> None:
        """As the controller tells of the present generation."""
        body = self.read(WORKLOADS, "web")
        said = {"type": "RolledOut", "status": "False", "reason": phase}
        said["observedGeneration"] = body["metadata"]["generation"]
        gone = dict.fromkeys(("wave", "message", "updates"))
        status = {"rollout": gone | told(body, phase, **more), "conditions": [said]}
        self.edit(WORKLOADS, "web", {"status": status}, status=True)


@pytest.fixture
def at() -> Callable[..., Hub]:
    def made(phase: str = "Progressing", **how: Any) -> Hub:
        return Hub(EagerClock(), staged(phase, **how))

    return made


async def test_approve_adds_the_wave_that_waits_once(at, capsys):
    hub = at("AwaitingApproval", approvals=[OTHER])
    own = revision(hub.read(WORKLOADS, "web"))
    for _ in range(2):
        await hub.make(rolling.approve(""))
    assert hub.rollout["approvals"] == [OTHER, {"revision": own, "wave": "eu"}]
    first, second = capsys.readouterr().out.splitlines()
    assert first == f"shop/web: {own[:4]} is approved after eu; rest begins now"
    assert second == f"shop/web: {own[:4]} is approved already after eu; rest begins now"
    assert len(hub.writes("/workloads/web")) == 1


async def test_approve_ahead_by_name(at, capsys):
    hub = at("Progressing")
    assert "nothing waits for an approval: Progressing, wave 2 of 3" in await hub.refused(
        rolling.approve("")
    )
    await hub.make(rolling.approve("eu"))
    assert [each["wave"] for each in hub.rollout["approvals"]] == ["eu"]
    assert "rest begins when eu is over" in capsys.readouterr().out
    assert "wave canary asks for no approval" in await hub.refused(rolling.approve("canary"))
    for unknown in ("rest", "us"):
        said = await hub.refused(rolling.approve(unknown))
        assert f"no wave {unknown} asks for an approval; these do: eu" in said


async def test_a_full_list_loses_approvals_of_other_revisions_first(at):
    others = [{"revision": f"{n:016x}", "wave": "eu"} for n in range(14)]
    hub = at("AwaitingApproval")
    own = revision(hub.read(WORKLOADS, "web"))
    mine = [{"revision": own, "wave": name} for name in ("a", "b")]
    hub.edit(WORKLOADS, "web", {"spec": {"rollout": {"approvals": [*mine, *others]}}})
    await hub.make(rolling.approve(""))
    assert hub.rollout["approvals"] == [*others[1:], *mine, {"revision": own, "wave": "eu"}]


@pytest.mark.parametrize(
    "make",
    [
        rolling.approve(""),
        rolling.approve("eu"),
        rolling.abort,
        rolling.retry,
    ],
)
async def test_nothing_is_said_of_a_revision_that_the_controller_has_not_seen(at, make):
    hub = at("AwaitingApproval")
    hub.edit(WORKLOADS, "web", {"spec": {"targetDeployment": template("app:3")}})
    assert "the controller has not seen the last edit yet" in await hub.refused(make)


@pytest.mark.parametrize(
    "make",
    [
        rolling.approve(""),
        rolling.approve("eu"),
        rolling.abort,
        rolling.retry,
    ],
)
async def test_at_rest_there_is_nothing_to_decide(at, make):
    assert "nothing" in await at("Complete").refused(make)


async def test_pause_and_resume(at, capsys):
    hub = at()
    for make, paused in (
        (rolling.pause, True),
        (rolling.pause, True),
        (rolling.resume, False),
    ):
        await hub.make(make)
        assert hub.rollout["paused"] is paused
    await hub.make(rolling.resume)
    said = capsys.readouterr().out.splitlines()
    assert [line.split(";")[0] for line in said] == [
        "shop/web: paused",
        "shop/web: paused already",
        "shop/web: resumed",
        "shop/web: not paused",
    ]
    assert len(hub.writes("/workloads/web")) == 2


async def test_abort_names_the_revision_and_retry_takes_that_back(at, capsys):
    hub = at("Failed")
    own = revision(hub.read(WORKLOADS, "web"))
    for _ in range(2):
        await hub.make(rolling.abort)
    assert hub.rollout["aborted"] == own
    hub.tell("RolledBack")
    await hub.make(rolling.abort)
    assert len(hub.writes("/workloads/web")) == 1
    assert f"every cluster goes back to {STABLE[:4]}" in capsys.readouterr().out
    await hub.make(rolling.retry)
    assert "aborted" not in hub.rollout
    assert "is tried again, from the first wave on" in capsys.readouterr().out


async def test_abort_needs_a_stable_revision(at):
    hub = at()
    hub.edit(WORKLOADS, "web", {"status": {"rollout": {"stable": None}}}, status=True)
    assert "there is none to go back to" in await hub.refused(rolling.abort)


async def test_what_a_failure_rolled_back_is_not_tried_again(at, capsys):
    hub = at("RolledBack")
    assert "tries no revision twice; edit the template" in await hub.refused(rolling.retry)
    await hub.make(rolling.abort)
    assert "is rolled back already" in capsys.readouterr().out
    assert "aborted" not in hub.rollout


async def test_retry_is_later_than_each_failure_by_whichever_clock(at, capsys):
    hub = at("Failed")
    failed = hub.fake.now() + timedelta(seconds=90)
    updates = [{"cluster": "m1", "failedTime": timestamp(failed), "startTime": timestamp(failed)}]
    hub.tell("Failed", updates=updates)
    await hub.make(rolling.retry)
    first = hub.rollout["retryAfter"]
    assert parse_timestamp(first) > failed
    await hub.make(rolling.retry)
    assert hub.rollout["retryAfter"] == first
    assert "is tried again already" in capsys.readouterr().out
    hub.tell("Progressing")
    assert "nothing has failed: Progressing, wave 2 of 3" in await hub.refused(rolling.retry)
    plain = at("Failed")
    await plain.make(rolling.retry)
    assert plain.rollout["retryAfter"] == timestamp(plain.fake.now())


async def test_a_conflict_is_read_again_and_what_came_meanwhile_stays(at):
    hub = at("AwaitingApproval")
    met: list[str] = []

    async def somebody(method: str, path: str, body: Any) -> None:
        if method == "PATCH" and not met:
            met.append(path)
            hub.edit(WORKLOADS, "web", {"spec": {"rollout": {"approvals": [OTHER]}}})

    hub.faults.append(somebody)
    await hub.make(rolling.approve(""))
    assert met
    assert [each["wave"] for each in hub.rollout["approvals"]] == ["canary", "eu"]

    async def always(method: str, path: str, body: Any) -> None:
        if method == "PATCH":
            hub.edit(WORKLOADS, "web", {"spec": {"replicas": len(hub.requests)}})

    hub.faults[:] = [always]
    with pytest.raises(Conflict):
        await hub.make(rolling.pause)
    tried = [each for each in hub.writes("/workloads/web") if "paused" in str(each[2])]
    assert len(tried) == hubs.TRIES


async def test_the_wait_outlasts_a_hub_that_is_away_and_ends_with_the_rollout(at, capsys):
    hub = at()
    looks: list[str] = []

    async def world(method: str, path: str, body: Any) -> None:
        looks.append(path)
        if 1 < len(looks) < 4:
            raise Unreachable("no answer")
        if len(looks) == 6:
            hub.tell("Complete")

    hub.faults.append(world)
    assert await hub.wait()
    lines = capsys.readouterr().out.splitlines()
    own = revision(hub.read(WORKLOADS, "web"))[:4]
    assert lines == [
        f"shop/web: {own} Progressing, wave 2 of 3",
        f"shop/web  {own}  Complete",
    ]
    hub.faults[:] = [world]
    looks[:] = ["first"]
    with pytest.raises(Unreachable):
        await hub.wait(seconds=1.0)


@pytest.mark.parametrize(
    ("before", "make", "wanted", "after", "well"),
    [
        ("Failed", rolling.retry, "", "Complete", True),
        ("Failed", rolling.retry, "", "Failed", False),
        ("Paused", rolling.resume, "", "Complete", True),
        ("Progressing", rolling.pause, "Paused", "Paused", True),
        ("Progressing", rolling.abort, "RolledBack", "RolledBack", True),
        ("Progressing", rolling.abort, "RolledBack", "Failed", False),
        ("AwaitingApproval", rolling.approve(""), "", "Paused", False),
    ],
)
async def test_a_wait_for_an_edit_believes_no_status_from_before_it(
    at, before, make, wanted, after, well
):
    hub = at(before, paused=before == "Paused")
    written = await hub.make(make)
    looks: list[str] = []

    async def world(method: str, path: str, body: Any) -> None:
        looks.append(path)
        if len(looks) == 5:
            hub.tell(after)

    hub.faults.append(world)
    assert await hub.wait(wanted=wanted, edit=written) is well
    assert len(looks) == 5, "until then the controller has not answered"


async def test_the_wait_ends_in_time(at, capsys):
    hub = at()
    assert not await hub.wait(seconds=30.0)
    assert "not complete within 30 s; it goes on" in capsys.readouterr().out
