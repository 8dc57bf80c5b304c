"""The base of features: what a subclass does not name, and a controller of no term, do nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from controller.framework.events import Action
from controller.framework.runtime.feature import Feature
from machinery.api.resources import WORKLOADS


class Counting(Feature):
    """It leads in every other term."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.terms = 0
        self.watch(WORKLOADS, int, self.changed, gone=self.gone)

    def start(self, term: Any) -> Any:
        self.terms += 1
        return SimpleNamespace(add=self.heard.append) if self.terms % 2 else None

    def changed(self, old: int | None, new: int) -> None:
        self.heard.append((old, new))

    def gone(self, old: int) -> None:
        self.heard.append(old)


def test_a_controller_that_does_not_lead_does_nothing() -> None:
    feature, term = Counting(), cast("Any", None)
    assert not feature.leading
    assert feature.controller.add("before") is None
    assert feature.lead(term) is feature.controller
    feature.controller.add("leading")
    feature.stop_leading()
    feature.controller.add("after")
    assert feature.lead(term) is None, "it has nothing to do in this term"
    assert not feature.leading
    feature.controller.add("without one")
    assert feature.heard == ["leading"]


def test_a_deletion_goes_where_the_watch_says() -> None:
    feature = Counting()
    (watch,) = feature.watches
    for old, new in ((None, 1), (1, 2), (2, None)):
        watch.handler(old, new)
    assert feature.heard == [(None, 1), (1, 2), 2]
    assert Feature().watches == ()


def test_a_handle_of_no_process_asks_nothing() -> None:
    handle = Feature().handle
    handle.look([("shop", "demo")])
    handle.announce("Workload", ("shop", "demo"), Action.ROOM)
    assert (len(handle.snapshot()), handle.controls("any"), list(handle.plugins)) == (0, True, [])
