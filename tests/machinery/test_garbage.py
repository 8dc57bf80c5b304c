"""What complete collections leave is set aside, and cycles in it are found all the same."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest

from machinery import garbage

LEAST = 20_000
Test = TypeVar("Test", bound=Callable[..., Any])


def of_the_collector(test: Test) -> Test:
    return pytest.mark.proves("L7")(pytest.mark.perf(test))


class Node:
    """Something that refers to itself."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _aside_again() -> Iterator[None]:
    """Set aside again what the tests have set aside for the whole run; see the root's conftest."""
    yield
    gc.freeze()


@pytest.fixture
def tended() -> Iterator[None]:
    with garbage.tended(least=LEAST):
        gc.collect()  # what was there is more than LEAST: looked at, and set aside
        gc.collect()
        yield


@of_the_collector
@pytest.mark.usefixtures("tended")
def test_what_is_kept_is_looked_at_once() -> None:
    kept = [[number] for number in range(LEAST // 2)]
    before = gc.get_freeze_count()
    gc.collect()
    assert gc.get_freeze_count() - before >= len(kept)
    assert len(gc.get_objects(generation=2)) < LEAST // 10


@of_the_collector
@pytest.mark.usefixtures("tended")
def test_a_cycle_that_ends_later_is_found_when_as_much_has_come_again() -> None:
    all_ = gc.get_freeze_count()
    node = Node()
    gone = weakref.ref(node)
    gc.collect()
    del node
    gc.collect()
    assert gone() is not None, "it was set aside"
    kept = []
    while len(kept) <= max(all_, LEAST):
        kept += [[number] for number in range(LEAST)]
        gc.collect()
    gc.collect()
    assert gone() is None
    assert gc.get_freeze_count() >= len(kept), "all is set aside again"


@of_the_collector
def test_young_cycles_go_as_ever() -> None:
    with garbage.tended():
        gone = weakref.ref(Node())
        gc.collect(1)
        assert gone() is None


@of_the_collector
def test_nothing_stays_set_aside_afterwards() -> None:
    with garbage.tended():
        assert gc.get_freeze_count()
    assert not gc.get_freeze_count()


@of_the_collector
def test_both_processes_are_served_so() -> None:
    """They look at young objects rarely while they load their modules, and then no more."""
    code = (
        "import gc\n"
        "from machinery import garbage\n"
        "from stowage.commands.processes import serve\n"
        "async def run():\n"
        "    print(gc.get_freeze_count(), gc.get_threshold()[0])\n"
        "usual = gc.get_threshold()[0]\n"
        "garbage.loading()\n"
        "assert gc.get_threshold()[0] > 10 * usual\n"
        "serve(run, 0)\n"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    aside, young = map(int, told.stdout.split())
    assert aside > 1000
    assert young <= 2000


@of_the_collector
def test_a_command_looks_at_young_objects_rarely() -> None:
    code = (
        "import gc, sys\n"
        "from stowage import cli\n"
        "sys.argv = ['stowage', '--version']\n"
        "try:\n"
        "    cli.main()\n"
        "finally:\n"
        "    print(gc.get_threshold()[0])\n"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(told.stdout.split()[-1]) >= 10_000


class Collector:
    """What `gc` is to the module: how many objects are there, and how many are set aside."""

    def __init__(self) -> None:
        self.callbacks: list[Callable[[str, dict[str, Any]], None]] = []
        self.there, self.aside = 1_000, 0

    def collect(self, generation: int = 2) -> None:
        for phase in ("start", "stop"):
            for each in self.callbacks:
                each(phase, {"generation": generation, "collected": 0, "uncollectable": 0})

    def get_objects(self, generation: int) -> range:
        assert generation == 2, "an incremental collector has none of generation 1"
        return range(self.there)

    def freeze(self) -> None:
        self.there, self.aside = 0, self.aside + self.there

    def unfreeze(self) -> None:
        self.there, self.aside = self.there + self.aside, 0

    def get_threshold(self) -> tuple[int, int, int]:
        return 2_000, 10, 0

    def set_threshold(self, *_given: int) -> None:
        pass


@pytest.mark.proves("B18")
def test_increments_set_nothing_aside_and_complete_collections_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python 3.14.0 to 3.14.4 begin increments by themselves, which they call generation 1."""
    collector = Collector()
    monkeypatch.setattr(garbage, "gc", collector)
    with garbage.tended(least=100):
        assert (collector.there, collector.aside) == (0, 1_000), "modules and constants"
        collector.there = 500
        for _ in range(10):
            collector.collect(1)
        assert (collector.there, collector.aside) == (500, 1_000), "each look was short"
        collector.collect()
        assert (collector.there, collector.aside) == (0, 1_500)
        collector.there = 600
        collector.collect()
        collector.collect()
        assert (collector.there, collector.aside) == (0, 2_100), "looked at whole, and set aside"
    assert not collector.callbacks
    assert not collector.aside
