"""The longest step of the event loop, beside what it has to do: storms, large sets, hostile input.

    uv run python -m benchmarks.steps [--only TEXT] [--runs 5] [--judge]

While one step runs, no lease is renewed and no answer is read. A line is one scenario on the
processes' own code, on a hub in memory or beside a member that misbehaves: the longest step in
milliseconds of processor time, without collections of garbage, which would look at the objects of
the hub as well; its ratio to a piece of work of fixed size (`yardstick`) that is done around it;
and what was done: slices, which are all steps of the code, rows, which are clusters that decisions
look at, and requests. Each scenario runs five times. The longest step is that of the best run: a
machine that others use as well makes some step long once, and the code makes one long each time.
With `--judge` it ends with 1 if a longest step is beyond 250 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import gc
import logging
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import msgspec

from controller.config import default_profile
from controller.features.workloadgroup.gate.gate import Standing, gate_of
from controller.features.workloadgroup.gate.status import GroupFacts, look
from controller.framework.status import unschedulable
from controller.scheduler import DECISIONS
from controller.scheduling.batch import decide_set
from controller.scheduling.sets import Others
from controller.scheduling.steps import in_slices
from crds.groups.workloadgroup import MOST_WORKLOADS
from crds.workload import ScheduledReason
from machinery import loopwatch
from machinery.api.resources import MEMBER_CLUSTERS, RESERVATIONS, USUAL, WORKLOADS, Resource
from machinery.clock import SystemClock
from machinery.kinds import table
from machinery.runtime.informer import LIST_PAGE, event_of
from propagator.credentials.credentials import credentials_of
from propagator.members.connection import Link, LinkListener
from propagator.members.health import HealthProbe
from propagator.members.watches import Watches
from propagator.settings import SessionSettings
from tests.controller.crews import Crew
from tests.controller.features.reservation.reserving import owner, reservation
from tests.controller.features.workloadgroup.gangs import START, Gang, Stored
from tests.controller.features.workloadgroup.grouping import Gangs
from tests.controller.features.workloadgroup.test_answers import Here
from tests.controller.make import CLUSTER, NOW, ZONE, cluster, info
from tests.controller.memory import Stage
from tests.controller.scheduling.test_gathered import with_crew
from tests.controller.scheduling.test_long_sets import View, ring
from tests.kindsof import GADGET, hostile_objects
from tests.memoryhub import MemoryHub
from tests.propagator.conftest import unregistered
from tests.propagator.members.hostile import Hostile, Mode, hostile

MOST_SECONDS = 0.25
"""A longer step is too long: renewals of the lease begin to be late."""
YARDSTICK_TURNS = 300
TESTS = Path(__file__).resolve().parents[1] / "tests"
SENDERS = [
    mode
    for mode in Mode
    if mode
    not in {
        Mode.HONEST,
        Mode.HANG,
        Mode.SILENT,
        Mode.DRIP,
        Mode.SELECTIVE,
        Mode.LATER,
        Mode.REDIRECT,
        Mode.ERRORS,
        Mode.HALF,
        Mode.RESTART,
    }
]
"""Members that send much, or what is hard to read."""
ABUSE_SECONDS = 1.0
FIRST_SECONDS = 20.0
"""Until a member has been heard of, also on a busy machine."""
MANY_CLUSTERS = 1100
GANGS, OF_EACH = 40, 5


class Watch:
    """The steps of one run, but those of this benchmark's own task and of what stands for a hub."""

    def __init__(self) -> None:
        self.longest, self.name = 0.0, "-"
        self.slices = self.rows = self.requests = 0
        self._driver: asyncio.Task[Any] | None = None

    @contextmanager
    def over(self, stage: Stage | None = None) -> Iterator[None]:
        """Look at all steps of the block, and count what is asked of the stage's hub."""
        self._driver = asyncio.current_task()
        asked, decided = (len(stage.hub.requests) if stage else 0), _decisions()
        gc.collect()
        gc.disable()
        try:
            with loopwatch.steps(self._told, least=0.0, now=time.thread_time):
                yield
        finally:
            gc.enable()
        if stage:
            self.requests += len(stage.hub.requests) - asked
            self.rows += (_decisions() - decided) * len(stage.hub.all(MEMBER_CLUSTERS))

    def _told(self, handle: asyncio.Handle, seconds: float) -> None:
        task = loopwatch.task_of(handle)
        if task is not None and (task is self._driver or _of_tests(task)):
            return
        self.slices += 1
        if seconds > self.longest:
            self.longest, self.name = seconds, loopwatch.name(handle)


def _of_tests(task: asyncio.Task[Any]) -> bool:
    code = getattr(task.get_coro(), "cr_code", None)
    return code is not None and Path(code.co_filename).is_relative_to(TESTS)


def _decisions() -> int:
    (family,) = DECISIONS.collect()
    counts: list[float] = [each.value for each in family.samples if each.name.endswith("_total")]
    return int(sum(counts))


Scenario = Callable[[Watch], Awaitable[None]]


# --- the controller -------------------------------------------------------------------------------


async def storm_of_workloads(watch: Watch) -> None:
    """Five hundred come within seconds while a controller leads, and a third is edited at once."""
    stage = _roomy()
    names = [f"w{number}" for number in range(500)]
    async with stage.leading():
        with watch.over(stage):
            for few in _batches(names):
                for name in few:
                    stage.workload(name, replicas=3, distribution="Divided")
                await stage.calm(0.1)
            await _placed(stage, names)
            for few in _batches(names[::3]):
                for name in few:
                    stage.hub.edit(WORKLOADS, name, {"spec": {"replicas": 5}})
                await stage.calm(0.1)


async def start_over_workloads(watch: Watch) -> None:
    """A controller starts beside as many as a page of a list has; a hub in memory has one page."""
    stage = _roomy()
    names = [f"w{number}" for number in range(LIST_PAGE - 1)]
    for name in names:
        stage.workload(name)
    async with stage.leading():
        await _placed(stage, names)
    stage.workload("last")
    with watch.over(stage):
        async with stage.leading(identity="two"):
            await _placed(stage, ["last"])


def _roomy() -> Stage:
    stage = Stage()
    for number in range(20):
        stage.cluster(f"m{number}", cpu="999", pods="9999")
    return stage


def _batches(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """Ten at a time: what a hub in memory has is read in one step, and no stream is."""
    return (names[start : start + 10] for start in range(0, len(names), 10))


async def _placed(stage: Stage, names: Sequence[str]) -> None:
    for name in names:
        await stage.until(functools.partial(stage.placed, name), seconds=300)


async def many_clusters(watch: Watch) -> None:
    """Eleven hundred clusters report, while Workloads are divided over all of them."""
    stage = _wide()
    names = [f"w{number}" for number in range(10)]
    free = {"cpu": "7", "memory": "30Gi", "pods": "100"}
    with watch.over(stage):
        async with stage.leading():
            for number, name in enumerate(names):
                stage.workload(name, replicas=MANY_CLUSTERS, cpu="100m", distribution="Divided")
                for one in range(number, MANY_CLUSTERS, len(names)):
                    body = {"status": {"nodeGroups": [{"count": 1, "free": free}]}}
                    stage.hub.edit(MEMBER_CLUSTERS, f"m{one}", body, status=True)
                await stage.calm(0.2)
            await _placed(stage, names)


async def large_placements(watch: Watch) -> None:
    """Each is on all eleven hundred clusters; one asks for more replicas than there ever are."""
    stage, names = _wide(), [f"everywhere-{number}" for number in range(5)]
    with watch.over(stage):
        async with stage.leading():
            stage.workload("huge", replicas=2**31 - 1, distribution="Divided")
            for name in names:
                stage.workload(name, replicas=2, cpu="1m", distribution="Duplicated")
            await _placed(stage, names)
            await stage.calm(5)
    assert all(len(stage.placed(name)) == MANY_CLUSTERS for name in names)


def _wide() -> Stage:
    stage = Stage()
    for number in range(MANY_CLUSTERS):
        stage.cluster(f"m{number}", region=f"region-{number % 7}")
    return stage


async def gangs_denied(watch: Watch, *, what: str) -> None:
    """Fifty times a cluster reports more of that room, and it is never enough for a gang."""
    with tempfile.TemporaryDirectory() as folder:
        gangs = _gangs(Path(folder), least=2 * OF_EACH, replicas=2, cpu="20")
        async with gangs.led():
            await gangs.calm(30)
            with watch.over(gangs):
                for number in range(50):
                    free = {"cpu": "8", "memory": "32Gi", "pods": "110"}
                    free[what] = {"memory": "33Gi", "cpu": "9"}[what] if number % 2 else free[what]
                    groups = [{"count": 1, "free": free}]
                    capacity = {"nodes": 1, "allocatable": free, "requested": {}}
                    body = {"status": {"nodeGroups": groups, "capacity": capacity}}
                    gangs.hub.edit(MEMBER_CLUSTERS, "a", body, status=True)
                    await gangs.calm(0.2)


async def start_over_gangs(watch: Watch) -> None:
    """A controller starts beside forty gangs that are placed."""
    with tempfile.TemporaryDirectory() as folder:
        gangs = _gangs(Path(folder), least=OF_EACH, replicas=1, cpu="1")
        gangs.cluster("b", cpu="999", pods="999")
        every = [f"g{number}" for number in range(GANGS)]
        async with gangs.led():
            await gangs.until(
                lambda: all(len(gangs.released(name)) == OF_EACH for name in every), seconds=60
            )
        with watch.over(gangs):
            async with gangs.led("two"):
                await gangs.calm(30)


def _gangs(folder: Path, *, least: int, **member: Any) -> Gangs:
    gangs = Gangs(folder)
    gangs.cluster("a", cpu="8")
    for number in range(GANGS):
        gangs.group(f"g{number}", least=least)
        for one in range(OF_EACH):
            gangs.member(f"g{number}-{one}", of=f"g{number}", **member)
    return gangs


async def reservations(watch: Watch) -> None:
    """Three hundred come, each for a Workload that waits, and a tenth goes again."""
    stage = Stage()
    stage.cluster("a", cpu="4")
    stage.cluster("c", cpu="100000", pods="1000000")
    many = 300

    def available() -> bool:
        found = [each.get("status", {}).get("phase") for each in stage.hub.all(RESERVATIONS)]
        return found.count("Available") == many

    async with stage.leading():
        with watch.over(stage):
            for n in range(many):
                stage.workload(f"w{n}", replicas=1, clusterSelector={"none": "such"})
                room = reservation(f"r{n}", requests={"cpu": "1"}, owners=[owner(f"w{n}")])
                stage.hub.put(RESERVATIONS, room)
                if n % 10 == 0:
                    await stage.calm(0.1)
            await stage.until(available, seconds=120)
            for n in range(0, many, 10):
                stage.hub.remove(RESERVATIONS, f"r{n}")
                await stage.calm(0.1)


async def ring_of_affinity(watch: Watch, *, key: str) -> None:
    """Fifty Workloads that each require the next one, over a thousand clusters."""
    units = ring(50, key=key)
    view, profile = View(["100"] * 1000, units), default_profile()
    with watch.over():
        steps = decide_set(cast("Any", view), units[0], {"stowage": profile}, NOW, others=Others())
        batch = await asyncio.create_task(in_slices(steps))
    watch.rows += 1000 * len(batch.decisions)
    assert all(each.scheduled for each in batch.decisions)


async def many_forms(watch: Watch) -> None:
    """Overrides that read a label of which each cluster of many has a value of its own."""
    container = {
        "name": "main",
        "image": "registry.example/app:1",
        "args": [f"{id(watch)}", 20_000 * "x"],
    }
    patch = {"spec": {"template": {"metadata": {"annotations": {"at": "$(stowage.label:slot)"}}}}}
    overrides = [{"name": "at", "clusterSelector": {}, "patch": patch}]
    asked = info("w", replicas=MANY_CLUSTERS, distribution="Divided", overrides=overrides,
                 pod={"containers": [container]})  # fmt: skip
    view = View([], [asked])
    for n in range(MANY_CLUSTERS):
        free = {"cpu": "9", "memory": "32Gi", "pods": "110"}
        labels = {"slot": f"s{n}"}
        view.builder.upsert(cluster(f"m{n}", labels, groups=[{"count": 1, "free": free}]))
    with watch.over():
        steps = decide_set(cast("Any", view), asked, {"stowage": default_profile()}, NOW)
        batch = await asyncio.create_task(in_slices(steps))
    watch.rows += MANY_CLUSTERS * len(batch.decisions)
    assert batch.decisions[0].scheduled


async def largest_set(watch: Watch) -> None:
    """As many Workloads as a group may have, decided as one and refused."""
    denied = unschedulable("Crew", "the harbour is shut", reason=ScheduledReason.GROUP_DENIED)
    crew = Crew([f"w{n}" for n in range(MOST_WORKLOADS)], least=2 * MOST_WORKLOADS, refusal=denied)
    units = [info(name, replicas=1) for name in crew.names]
    view, profile = View(["4"] * 10, units), with_crew(crew)
    with watch.over():
        steps = decide_set(cast("Any", view), units[0], {"stowage": profile}, NOW)
        batch = await asyncio.create_task(in_slices(steps))
    watch.rows += 10 * len(batch.decisions)
    assert len(batch.decisions) == MOST_WORKLOADS


async def largest_gate(watch: Watch) -> None:
    """The gate and the status of the largest group, which are looked at in one go."""
    gang = Gang(Stored("driver", replicas=1))
    members = [
        Standing(f"w{n:04}", f"u{n}", placed=True, replicas=1, decision="0" * 16, running=1)
        for n in range(MOST_WORKLOADS)
    ]
    group = replace(gang.group, min_member=MOST_WORKLOADS, gate="Open", ran=True)

    def looks() -> None:
        gate = gate_of(group, members, START)
        facts = GroupFacts(members, MOST_WORKLOADS, MOST_WORKLOADS)
        look(gang.stored, group, gate, facts, START)

    with watch.over():
        asyncio.get_running_loop().call_soon(looks)
        await asyncio.sleep(0)
    watch.rows += MOST_WORKLOADS


async def answers(watch: Watch) -> None:
    """The endpoints of gangs, beside five thousand groups and one of the largest."""
    here = Here()
    for n in range(5000):
        here.group(f"g{n:05}")
    here.group()
    first = here.member("w", 1, {"a": 1})
    for n in range(MOST_WORKLOADS):
        here.ledger.put(replace(first, name=f"w{n}", uid=f"u{n}"), {"a": 1})
    with watch.over():
        for ask in (here.gangs, here.gang):
            asyncio.get_running_loop().call_soon(functools.partial(_answered, ask()))
            await asyncio.sleep(0)
    watch.requests += 2


def _answered(answer: Any) -> None:
    """Run a coroutine that waits for nothing, to its end."""
    try:
        answer.send(None)
    except StopIteration:
        return
    raise SystemExit("an answer waited for something")


# --- the propagator -------------------------------------------------------------------------------


async def hostile_member(watch: Watch, villain: Hostile, *, mode: Mode) -> None:
    """The link to a member of that kind, from its beginning to a second after its first verdict."""
    heard = asyncio.Event()
    data = villain.secret_data(mode).items()
    link = Link(
        credentials_of(
            {key: each.encode() if isinstance(each, str) else each for key, each in data}
        ),
        name=mode.value,
        settings=SessionSettings(request_timeout=FIRST_SECONDS, probe_timeout=FIRST_SECONDS),
        clock=SystemClock(),
        resources=USUAL,
        health=HealthProbe(),
        before_write=lambda: None,
        identities=unregistered(),
        listener=LinkListener(
            verdict=lambda _: heard.set(),
            managed=lambda _old, _new: None,
            pods=lambda _: None,
            facts=lambda: None,
            counted=lambda: None,
        ),
    )
    with watch.over():
        running = asyncio.create_task(link.run())
        with suppress(TimeoutError):
            await asyncio.wait_for(heard.wait(), 2 * FIRST_SECONDS)
        await asyncio.sleep(ABUSE_SECONDS)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def judged_by_expressions(watch: Watch, *, body: Any) -> None:
    """A hostile object of a kind that expressions judge, as a watch brings it."""
    table.use([GADGET])
    line = msgspec.json.encode({"type": "MODIFIED", "object": body})
    resource = Resource("example.com", "v1", "gadgets", "Gadget")
    informer = Watches(
        client_for=lambda _: MemoryHub(clock=SystemClock()),
        apart=(),
        begin=lambda _: None,
        end=lambda _: None,
        changed=lambda _old, _new: None,
        clock=SystemClock(),
    ).track(resource, "")

    def heard() -> None:
        informer._follow(event_of(line))  # noqa: SLF001 - what a watch does with a line

    with watch.over():
        asyncio.get_running_loop().call_soon(heard)
        await asyncio.sleep(0)
    watch.requests += 1
    table.use(())


# --- the table ------------------------------------------------------------------------------------

SCENARIOS: dict[str, Scenario] = {
    "a storm of 500 Workloads": storm_of_workloads,
    "a start beside 200 Workloads": start_over_workloads,
    "1,100 clusters report": many_clusters,
    "placements on 1,100 clusters": large_placements,
    "40 gangs denied, and more memory": functools.partial(gangs_denied, what="memory"),
    "40 gangs denied, and more cpu": functools.partial(gangs_denied, what="cpu"),
    "a start beside 40 gangs": start_over_gangs,
    "300 reservations": reservations,
    "overrides of 1,100 forms": many_forms,
    "a set of 50 by cluster, 1,000 clusters": functools.partial(ring_of_affinity, key=CLUSTER),
    "a set of 50 by zone, 1,000 clusters": functools.partial(ring_of_affinity, key=ZONE),
    "the largest set": largest_set,
    "the largest gate": largest_gate,
    "answers on 5,000 groups": answers,
    **{
        f"an object of {name}, by expressions": functools.partial(judged_by_expressions, body=body)
        for name, body in hostile_objects().items()
    },
}


@dataclass(frozen=True)
class Took:
    """One run: its watch, and the seconds of the yardstick beside it."""

    watch: Watch
    yardstick: float


def yardstick() -> float:
    """Return the processor time of a fixed piece of work: objects are made, read and dropped."""
    began = time.thread_time()
    for number in range(YARDSTICK_TURNS):
        found = {f"key-{each}": (each, str(number)) for each in range(100)}
        sum(len(key) + value[0] for key, value in found.items())
    return time.thread_time() - began


def measure(name: str, scenario: Scenario, times: int) -> float:
    """Print the line of a scenario; return the seconds of its longest step in the best run."""
    runs: list[Took] = []
    for _ in range(times):
        watch, before = Watch(), yardstick()
        asyncio.run(_run(scenario, watch))
        runs.append(Took(watch, min(before, yardstick())))
    best = min(runs, key=lambda took: took.watch.longest).watch
    unit = min(took.yardstick for took in runs)
    print(
        f"{name:40}  longest step {best.longest * 1e3:6.1f} ms  ratio {best.longest / unit:6.2f}"
        f"  slices {best.slices:7}  rows {best.rows:8}  requests {best.requests:6}  {best.name}",
        flush=True,
    )
    return best.longest


async def _run(scenario: Scenario, watch: Watch) -> None:
    await scenario(watch)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="scenarios whose name has this text")
    parser.add_argument("--runs", type=int, default=5, help="of each, of which the best counts")
    parser.add_argument("--judge", action="store_true", help="end with 1 if a step is too long")
    given = parser.parse_args(arguments)
    logging.disable()  # of what hostile members are told
    with hostile() as villain:
        scenarios = SCENARIOS | {
            f"a member: {mode}": functools.partial(hostile_member, villain=villain, mode=mode)
            for mode in SENDERS
        }
        longest = {
            name: measure(name, scenario, given.runs)
            for name, scenario in scenarios.items()
            if given.only in name
        }
    late = [name for name, seconds in longest.items() if seconds > MOST_SECONDS]
    if late:
        print(f"longer than {MOST_SECONDS * 1e3:.0f} ms: {'; '.join(late)}")
    return 1 if late and given.judge else 0


if __name__ == "__main__":
    sys.exit(main())
