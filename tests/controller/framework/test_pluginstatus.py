"""What plugins of other packages tell in a Workload's status: as it was told, bounded, and once."""

from __future__ import annotations

import logging
import math
from typing import Any

import pytest
from hypothesis import strategies as st

from controller.config import default_profile
from controller.framework.runtime.framework import MOST_BYTES, MOST_DEPTH, PluginStatus
from machinery.api.resources import WORKLOADS
from tests.controller.memory import Stage

WORDS = st.text(max_size=3)
VALUES = st.recursive(
    st.booleans() | st.integers(-9, 9) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)


class Teller:
    """Tells what it is given to tell."""

    ignored_during_execution = True

    def __init__(self, name: str, said: Any) -> None:
        self.name, self.said, self.asked = name, said, 0

    def serves(self, *_: Any) -> bool:
        return False

    def assign(self, *_: Any) -> Any:
        raise AssertionError

    def own_status(self, info: Any, *_: Any) -> Any:
        self.asked += 1
        return self.said(info) if callable(self.said) else self.said


class TellsAField(Teller):
    def status_fields(self, *_: Any) -> Any:
        return {"placements": [], "policyRef": {"name": "mine"}}


def told(stage: Stage, name: str) -> Any:
    return stage.hub.read(WORKLOADS, name).get("status", {}).get("plugins")


@pytest.fixture
def stage() -> Stage:
    return Stage("a")


@pytest.mark.proves("E1")
async def test_it_is_written_with_the_placements_and_kept_up(stage: Stage) -> None:
    seats = {"pool": "blue", "of": {"a": 2, "none": None}, "list": [1, None, {"x": 1.5}]}
    teller = Teller("Seats", seats)
    async with stage.leading(assign=[*default_profile().assign, teller]) as controller:
        stage.workload("demo")
        await stage.until(lambda: told(stage, "demo"))
        assert stage.placed("demo") == {"a": 2}, "one write has both"
        assert told(stage, "demo") == {
            "Seats": {"pool": "blue", "of": {"a": 2}, "list": [1, None, {"x": 1.5}]}
        }
        version = stage.hub.read(WORKLOADS, "demo")["metadata"]["resourceVersion"]
        await stage.calm(15)
        controller._handle.look([("shop", "demo")])
        await stage.calm(5)
        after = stage.hub.read(WORKLOADS, "demo")["metadata"]["resourceVersion"]
        assert after == version, "what stands there is not written again"
        teller.said = {"of": {"b": 1}}
        controller._handle.look([("shop", "demo")])
        await stage.until(lambda: told(stage, "demo") == {"Seats": {"of": {"b": 1}}})
        teller.said = {}
        controller._handle.look([("shop", "demo")])
        await stage.until(lambda: not told(stage, "demo"))


async def test_what_a_plugin_said_that_is_not_there_any_more_goes(stage: Stage) -> None:
    async with stage.leading(assign=[*default_profile().assign, Teller("Gone", {"a": 1})]):
        stage.workload("demo")
        await stage.until(lambda: told(stage, "demo"))
    async with stage.leading(identity="two"):
        await stage.until(lambda: told(stage, "demo") == {})


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"x": "y" * MOST_BYTES}, "4096 are the most"),
        ({"x": math.nan}, "is no value that a status keeps"),
        ({"x": 2**63}, "is no value that a status keeps"),
        ({"x": object()}, "is no value that a status keeps"),
        ({1: 2}, "the names of fields are strings"),
        ([1], "an object is wanted"),
        (None, "an object is wanted"),
        ({"x": "\ud800"}, "surrogates"),
    ],
)
async def test_what_no_status_can_keep_is_the_plugins_fault_and_nobody_elses(
    stage: Stage, caplog: pytest.LogCaptureFixture, said: Any, words: str
) -> None:
    tellers = [Teller("Wrong", said), Teller("Right", {"x": 1})]
    with caplog.at_level(logging.ERROR):
        async with stage.leading(assign=[*default_profile().assign, *tellers]):
            stage.workload("demo")
            await stage.until(lambda: told(stage, "demo"))
            assert told(stage, "demo") == {"Right": {"x": 1}}
            assert stage.placed("demo") == {"a": 2}
    assert "plugin Wrong failed at OwnStatus" in caplog.text
    assert words in caplog.text


async def test_fields_that_are_not_a_plugins_are_not_told(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        async with stage.leading(assign=[*default_profile().assign, TellsAField("Wrong", {})]):
            stage.workload("demo")
            await stage.until(lambda: stage.placed("demo") == {"a": 2})
    assert "status.placements is no field that plugins tell" in caplog.text


def test_all_of_them_together_are_bounded() -> None:
    own = PluginStatus()
    for number in range(4):
        own.add(f"p{number}", {"x": "y" * (MOST_BYTES - 8)})
    with pytest.raises(ValueError, match="tell together"):
        own.add("p4", {"x": "yyy"})
    assert list(own.objects) == ["p0", "p1", "p2", "p3"]


def test_depth_is_bounded() -> None:
    deep: Any = {}
    for _ in range(MOST_DEPTH):
        deep = {"x": deep}
    with pytest.raises(ValueError, match="levels"):
        PluginStatus().add("p", deep)
    loop: dict[str, Any] = {}
    loop["x"] = loop
    with pytest.raises(ValueError, match="levels"):
        PluginStatus().add("p", loop)
