"""In a burst the applies go first: when it is told what went well, and what is told at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from types import MappingProxyType, SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from crds.workload import PropagatedReason
from machinery.runtime.event_recorder import one_cluster
from machinery.types.metadata import Key
from propagator.members.health import Contact
from propagator.members.objects import ManagedObject
from propagator.outcome import DesiredShare, Outcome
from propagator.status.aggregation import status_of
from propagator.status.cluster_share import share_of
from propagator.status.controller import (
    BURST_CHECK_SECONDS,
    BURST_OUTCOMES,
    BURST_SECONDS,
    GATHER_SECONDS,
    LONGEST_BURST_SECONDS,
    TIMES_A_WRITE,
    BurstDetector,
    Reporter,
)
from propagator.status.observed_share import ObservedShare
from propagator.types.workload import Workload, workload_of
from tests.fakeclock import FakeClock
from tests.propagator.contexts import Context

APART = BURST_SECONDS / BURST_OUTCOMES / 2
"""Seconds between two applies of a burst."""


def workload(
    name: str, *, spec: Mapping[str, Any] = MappingProxyType({}), **status: Any
) -> Workload:
    body = {
        "metadata": {"namespace": "shop", "name": name, "uid": name, "generation": 1},
        "spec": {"targetDeployment": {"apiVersion": "apps/v1", "kind": "Deployment"}, **spec},
        "status": {"placements": [{"cluster": "m1", "replicas": 1}], **status},
    }
    return workload_of(body)


class Hub:
    """Workloads as they are known, and when something was told of each."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.informer: dict[Key, Workload] = {}
        self.told: dict[str, float] = {}
        self.seconds = 0.0

    def by_uid(self, uid: str) -> Workload | None:
        return self.informer.get(("shop", uid))

    async def write_status(self, about: Workload, _status: Mapping[str, Any]) -> bool:
        await self._clock.sleep(self.seconds)
        self.told[about.metadata.name] = self._clock.monotonic()
        return True


class Burst:
    """A reporter, and the outcomes that it is told of."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.hub = Hub(clock)
        self.outcomes: dict[str, Outcome] = {}
        self.events: list[dict[str, Any]] = []
        recorder = SimpleNamespace(event=lambda _, **told: self.events.append(told))
        context = Context(clock=clock, recorder=recorder, fresh=lambda: True)
        following = SimpleNamespace(remark=lambda _: "", reported=lambda _: [])
        survey = SimpleNamespace(
            seen=self._seen,
            kept=lambda _: [],
            drift=lambda _: {},
            reported=lambda about: {each["name"]: each for each in about.status.clusters},
        )
        self.reporter = Reporter(
            cast("Any", context),
            workloads=cast("Any", self.hub),
            survey=cast("Any", survey),
            finalizer=cast("Any", None),
            drift=cast("Any", SimpleNamespace(told=lambda *_: [], soonest=lambda _: None)),
            dependencies=cast("Any", following),
            rereading=cast("Any", SimpleNamespace(due=False)),
        )

    async def _seen(
        self, about: Workload, _outcomes: Mapping[str, Outcome]
    ) -> AsyncIterator[ObservedShare]:
        yield ObservedShare(
            name="m1",
            desired=DesiredShare.of(about, "m1"),
            leaving=False,
            contact=Contact.SERVING,
            outcome=self.outcomes.get(about.metadata.name),
            main=msgspec.convert({"metadata": {"name": "web"}}, ManagedObject),
        )

    def comes(self, name: str, reason: PropagatedReason | None = None, **status: Any) -> None:
        """One Workload was worked on."""
        about = workload(name, **status)
        self.hub.informer[about.metadata.key] = about
        self.outcomes[name] = Outcome(DesiredShare.of(about, "m1"), reason, "a word")
        self.reporter.record_outcome(about, "m1", self.outcomes[name])

    async def rushes(self, names: Iterable[str]) -> None:
        for name in names:
            self.comes(name)
            await self.clock.advance(APART)


@asynccontextmanager
async def burst() -> AsyncIterator[Burst]:
    made = Burst(FakeClock())
    running = asyncio.create_task(made.reporter.run())
    try:
        yield made
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def many(number: int) -> list[str]:
    return [f"w{n}" for n in range(number)]


def test_a_rush_is_many_outcomes_in_a_short_time_and_ends_with_them():
    clock = FakeClock()
    burst = BurstDetector(clock)
    for _ in range(BURST_OUTCOMES - 1):
        burst.count()
    assert not burst.active()
    burst.count()
    assert burst.active()
    clock._elapsed += BURST_SECONDS + 0.01
    assert not burst.active()


@pytest.mark.proves("C22")
async def test_what_goes_well_is_told_when_the_rush_is_over():
    async with burst() as made:
        await made.rushes(many(3 * BURST_OUTCOMES))
        during = set(made.hub.told)
        assert during <= set(many(BURST_OUTCOMES)), "what came before it was a burst"
        await made.clock.advance(BURST_SECONDS + BURST_CHECK_SECONDS + 0.1)
        assert set(made.hub.told) == set(many(3 * BURST_OUTCOMES))


async def test_what_is_refused_is_told_at_once_in_a_rush_too():
    async with burst() as made:
        await made.rushes(many(2 * BURST_OUTCOMES))
        made.comes("bad", PropagatedReason.REJECTED)
        made.comes("good")
        await made.clock.advance(APART)
        assert "bad" in made.hub.told
        assert "good" not in made.hub.told


async def test_nothing_waits_for_longer_than_the_bound_however_long_the_rush_lasts():
    async with burst() as made:
        await made.rushes(many(2 * BURST_OUTCOMES))
        made.comes("first")
        begun = made.clock.monotonic()
        await made.rushes(f"more-{n}" for n in range(int(2 * LONGEST_BURST_SECONDS / APART)))
        assert made.hub.told["first"] - begun + APART >= LONGEST_BURST_SECONDS
        assert made.hub.told["first"] - begun <= LONGEST_BURST_SECONDS + BURST_CHECK_SECONDS


async def test_one_that_was_ready_waits_for_no_burst():
    ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": ""}
    async with burst() as made:
        await made.rushes(many(2 * BURST_OUTCOMES))
        made.comes("ran", conditions=[ready])
        more = [f"more-{n}" for n in range(round(2 * GATHER_SECONDS / APART))]
        await made.rushes(more)
        assert "ran" in made.hub.told
        assert not made.hub.told.keys() & set(more)


async def test_progress_is_told_less_often_to_a_hub_that_is_slow():
    async with burst() as made:
        made.hub.seconds = 0.2
        for number in range(20):  # what a write takes is learnt
            made.comes(f"w{number}")
            await made.clock.advance(5)
        begun = made.clock.monotonic()
        made.comes("patient")
        made.comes("bad", PropagatedReason.REJECTED)
        await made.clock.advance(10)
        assert made.hub.told["bad"] - begun == pytest.approx(0.2)
        assert made.hub.told["patient"] - begun == pytest.approx(TIMES_A_WRITE * 0.2 + 0.2, rel=0.1)


@pytest.mark.proves("CT21")
@pytest.mark.parametrize("reason", [None, PropagatedReason.REJECTED])
async def test_its_event_is_related_to_the_only_cluster_that_it_is_about(reason) -> None:
    async with burst() as made:
        made.comes("web", reason)
        await made.clock.advance(5)
        (told,) = made.events
        assert told["related"] == one_cluster(["m1"])


FIELDS = {"statusFields": [{"name": "phase", "path": "status.phase"}]}


@pytest.mark.proves("KD70")
async def test_a_field_that_changes_each_second_is_written_once_in_ten(
    monkeypatch: pytest.MonkeyPatch,
):
    async with burst() as made:
        said = {"phase": "0"}

        async def seen(about: Workload, outcomes: Mapping[str, Outcome]) -> Any:
            async for each in Burst._seen(made, about, outcomes):
                yield replace(each, fields=dict(said))

        monkeypatch.setattr(made.reporter._survey, "seen", seen)
        written: list[tuple[float, str]] = []
        stored: dict[str, Any] = {}

        async def write(about: Workload, status: Mapping[str, Any]) -> bool:
            written.append((made.clock.monotonic(), status["clusters"][0]["fields"]["phase"]))
            stored.update(status)
            made.comes("web", spec=FIELDS, **{"state": "Creating", **stored})
            return True

        monkeypatch.setattr(made.hub, "write_status", write)
        made.comes("web", spec=FIELDS)
        await made.clock.advance(5)
        first = len(written)
        for second in range(60):
            said["phase"] = str(second)
            made.reporter.queue.add(("shop", "web"))
            await made.clock.advance(1)
        told = [at for at, _ in written[first:]]
        assert 5 <= len(told) <= 7
        assert min(b - a for a, b in pairwise(told)) > 9.99
        await made.clock.advance(11)
        assert written[-1][1] == "59", "the last value is told, too"


@pytest.mark.proves("KD70")
def test_all_fields_of_a_status_are_bounded() -> None:
    about = workload("web", placements=[{"cluster": f"m{n}", "replicas": 1} for n in range(10_000)])
    shares = [
        share_of(
            ObservedShare(
                name=f"m{n:05}",
                desired=DesiredShare.of(about, f"m{n}"),
                leaving=False,
                contact=Contact.SERVING,
                fields={"phase": "x" * 50},
            ),
            about.profile,
            {},
            said=0,
        )
        for n in range(10_000)
    ]
    status = status_of(about, [each.told for each in shares], datetime.now(UTC))
    told = [each["fields"] for each in status["clusters"] if "fields" in each]
    assert len(msgspec.json.encode(told)) <= 64 * 1024 + len(told)
    assert len(told) > 900
    assert status["fieldsOmitted"] == 10_000 - len(told)
