"""A plugin that does not answer is ended, and only its own call is."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from controller.config import default_profile
from controller.framework.calling import answers
from controller.framework.calling.guard import _TICKS as TICKS
from controller.framework.calling.guard import ERRORS, HERE, PluginError, ask, limited
from controller.framework.interface import CycleState, FilterMask
from controller.framework.runtime import framework as runtime
from controller.framework.status import SUCCESS, Status
from crds.workload import ScheduledReason
from tests.controller.make import cluster, decided, info
from tests.examples import window
from tests.fakeclock import settle
from tests.patience import hold_on

pytestmark = pytest.mark.timeout(600, method="thread")
"""The other method of pytest-timeout takes SIGALRM for itself, and then nothing is ended. This one
ends the whole run, and not a test that a busy machine holds up."""

SECONDS = 0.1


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Outside of a call no timer runs."""
    yield
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert HERE.call is None
    assert HERE.seconds == 0


def counted(plugin: str, point: str) -> float:
    for family in ERRORS.collect():
        for sample in family.samples:
            if sample.name.endswith("_total") and sample.labels == {
                "plugin": plugin,
                "point": point,
            }:
                return sample.value
    return 0.0


class Silent:
    """Does not answer."""

    name = "Silent"
    ignored_during_execution = True

    def __init__(self, hang: Callable[[], Any]) -> None:
        self._hang = hang

    def filter(self, *_: Any) -> FilterMask:
        self._hang()
        return FilterMask(())


def spins() -> None:
    while True:
        pass


def sleeps() -> None:
    time.sleep(60)


def reads() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.recv(1)


def locks() -> None:
    lock = threading.Lock()
    with lock, lock:
        pass


def goes_on_after_faults() -> None:
    while True:
        try:
            time.sleep(60)
        except Exception:  # noqa: BLE001 - that is the point
            continue


def tidies_up_for_ever() -> None:
    try:
        time.sleep(60)
    finally:
        time.sleep(60)


@pytest.mark.parametrize(
    "hang",
    [
        spins,
        sleeps,
        reads,
        locks,
        goes_on_after_faults,
        tidies_up_for_ever,
    ],
)
def test_a_plugin_that_hangs_harms_one_decision(hang: Callable[[], None]) -> None:
    made = replace(default_profile(), filter=[Silent(hang)], plugin_timeout=SECONDS)
    before = counted("Silent", "Filter")
    decision = decided(info(), cluster("a"), profile=made)
    assert decision.reason is ScheduledReason.PLUGIN_ERROR
    assert "plugin Silent failed at Filter: no answer within 100 ms" in decision.message
    assert f"({__name__.rpartition('.')[2]}.py:" in decision.message
    assert counted("Silent", "Filter") == before + 1
    assert decided(info(), cluster("a")).scheduled


def test_without_a_limit_a_plugin_takes_its_time() -> None:
    told: list[object] = []

    def looks() -> None:
        told.extend([HERE.seconds, signal.getitimer(signal.ITIMER_REAL)])

    made = replace(default_profile(), filter=[Silent(looks)], plugin_timeout=0)
    assert decided(info(), cluster("a"), profile=made).scheduled
    assert told == [0, (0.0, 0.0)]


def test_many_that_are_slow_together_are_each_within_their_time() -> None:
    slow = [Silent(lambda: takes(TICKS // 2)) for _ in range(5)]
    made = replace(default_profile(), filter=slow, plugin_timeout=SECONDS)
    assert decided(info(), cluster("a"), profile=made).scheduled


def lasts(seconds: float = 2 * SECONDS) -> None:
    """Return after so long, or later."""
    time.sleep(seconds)


def takes(ticks: int) -> None:
    """Return once the call has seen so many ticks, however late they come."""
    call = HERE.call
    assert call is not None
    while call.ticks < ticks:
        pass


class Named:
    """Any plugin."""

    def __init__(self, name: str) -> None:
        self.name = name


def test_a_call_inside_of_another_does_not_stop_the_time_of_that_one() -> None:
    inner, ended = Named("Inner"), []

    def asks_for_ever() -> None:
        while True:
            try:
                ask(inner, "Filter", answers.anything, takes, TICKS // 4)
            except Exception as e:  # noqa: BLE001 - that is the point
                ended.append(e)

    with pytest.raises(PluginError, match="plugin Outer failed"), limited(SECONDS):
        ask(Named("Outer"), "Filter", answers.anything, asks_for_ever)
    assert not ended


def test_the_one_inside_is_ended_where_it_is_what_takes_too_long() -> None:
    """The outer call of a profile without a limit has none."""
    with pytest.raises(PluginError, match="plugin Inner failed"), limited(SECONDS):
        ask(Named("Inner"), "Filter", answers.anything, sleeps)


def test_the_answer_itself_may_hang() -> None:
    class Endless:
        def __iter__(self) -> Iterator[Any]:
            spins()
            yield

    made = replace(default_profile(), plugin_timeout=SECONDS)
    plugin = Silent(lambda: None)
    plugin.filter = lambda *_: FilterMask(Endless())  # type: ignore[method-assign,arg-type] # that is the point
    decision = decided(info(), cluster("a"), profile=replace(made, filter=[plugin]))
    assert "no answer within 100 ms" in decision.message


def test_it_is_ended_again_and_again_wherever_it_comes_out() -> None:
    """A tick at any step leaves everything as it was; no fault but a PluginError is seen."""
    plugin, until = Named("Edge"), time.monotonic() + window(3, short=1)
    outcomes = {"ended": 0, "answered": 0}

    def takes(steps: int) -> None:
        """Return at about the tick that ends the call; they come late on a busy machine."""
        call = HERE.call
        assert call is not None
        while call.ticks < TICKS:
            pass
        for _ in range(steps):
            pass

    steps = 0
    while time.monotonic() < until or not all(outcomes.values()):
        with limited(0.005):
            for _ in range(20):
                try:
                    ask(plugin, "Filter", answers.anything, takes, steps)
                    outcomes["answered"] += 1
                    steps += 2_000
                except PluginError:
                    outcomes["ended"] += 1
                    steps = 0
                assert HERE.call is None


def test_a_stopped_process_blames_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that has jumped has seen one tick: the answer counts, and the log says how late."""
    clock = iter((0.0, 100.0, 100.0))
    monkeypatch.setattr("controller.framework.calling.guard.stopwatch", lambda: next(clock))
    before = counted("Late", "Filter")
    with limited(SECONDS):
        ask(Named("Late"), "Filter", answers.anything, lambda: None)
    assert counted("Late", "Filter") == before + 1


def test_on_another_thread_it_is_judged_when_it_has_answered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    made = replace(default_profile(), filter=[Silent(lasts)], plugin_timeout=SECONDS)
    found: list[Any] = []
    thread = threading.Thread(
        target=lambda: found.append(decided(info(), cluster("a"), profile=made))
    )
    before = counted("Silent", "Filter")
    thread.start()
    thread.join()
    assert found[0].scheduled
    assert counted("Silent", "Filter") == before + 1
    assert "plugin Silent took " in caplog.text


def test_somebody_elses_handler_and_timer_stay() -> None:
    rung: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, _: rung.append(number))
    ours = signal.getsignal(signal.SIGALRM)
    try:
        signal.setitimer(signal.ITIMER_REAL, 2 * SECONDS)
        made = replace(
            default_profile(),
            filter=[Silent(lambda: hold_on(lambda: rung))],
            plugin_timeout=SECONDS,
        )
        assert decided(info(), cluster("a"), profile=made).scheduled
        assert signal.getsignal(signal.SIGALRM) is ours
        assert rung == [signal.SIGALRM]
    finally:
        signal.signal(signal.SIGALRM, before)


class Around:
    """Hangs at one of the points around the write."""

    name = "Around"

    def __init__(self, point: str) -> None:
        self._point = point
        self.given_back = 0

    def reserve(self, *_: Any) -> Status:
        return self._do("Reserve")

    def unreserve(self, *_: Any) -> None:
        self.given_back += 1
        self._do("Unreserve")

    def permit(self, *_: Any) -> Status:
        return self._do("Permit")

    def post_bind(self, *_: Any) -> None:
        self._do("PostBind")

    def _do(self, point: str) -> Status:
        if point == self._point:
            time.sleep(60)
        return SUCCESS


def test_each_point_around_the_write_has_its_time() -> None:
    about: Any = (CycleState(), info(), {"a": 2})

    def with_(plugin: Around) -> Any:
        points = {name: [plugin] for name in ("reserve", "permit", "post_bind")}
        return replace(default_profile(), **points, plugin_timeout=SECONDS)

    said = "plugin Around failed at {}: no answer within 100 ms"
    plugin = Around("Reserve")
    status = runtime.reserve(with_(plugin), *about)
    assert said.format("Reserve") in status.reasons[0]
    assert plugin.given_back == 1
    status, _ = runtime.permit(with_(Around("Permit")), *about)
    assert said.format("Permit") in status.reasons[0]
    for point, call in (("Unreserve", runtime.unreserve), ("PostBind", runtime.post_bind)):
        before = counted("Around", point)
        call(with_(Around(point)), *about)
        assert counted("Around", point) == before + 1


async def test_a_pre_bind_hears_of_its_cancellation() -> None:
    heard: list[str] = []

    class Waits(Around):
        async def pre_bind(self, *_: Any) -> Status:
            try:
                await asyncio.sleep(60)
            finally:
                heard.append("cancelled")
            raise AssertionError

    made = replace(default_profile(), pre_bind=[Waits("")])
    task = asyncio.create_task(runtime.pre_bind(made, CycleState(), info(), {}))
    await settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert heard == ["cancelled"]


class Slow:
    """Hangs where it is asked for every Workload, one after the other."""

    name = "Slow"

    def __init__(self) -> None:
        self.asked = 0

    def rank(self, *_: Any) -> Any:
        self.asked += 1
        time.sleep(60)

    def status_fields(self, *_: Any) -> Any:
        self.rank()

    own_status = hint = status_fields


@pytest.mark.long
def test_where_it_is_asked_for_thousands_in_a_row_it_is_given_a_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("controller.framework.calling.guard.stopwatch", lambda: 0.0)
    plugin = Slow()
    made = replace(default_profile(), queue_sort=plugin, plugin_timeout=SECONDS)
    assert plugin in made.telling
    assert plugin in made.telling_own
    ranking, hint = runtime.Ranking(made), runtime.hinting(plugin, plugin.hint, SECONDS)
    seen = decided(info()).snapshot
    for n in range(1000):
        about = info(f"w{n}")
        assert ranking.rank(about) == ()
        assert hint(about, None, None) is True
        runtime.status_fields(made, about, {}, seen, None)  # type: ignore[arg-type] # unread
    assert plugin.asked == 4
