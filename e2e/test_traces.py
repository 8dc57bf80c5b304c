"""Traces of both processes, as a collector gets them: one apply, one trace."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from e2e.harness import wait, workload
from e2e.stage import MEMBERS, Stage
from tests.collector import Collector, Received, collector

ROLES = ("controller", "propagator")


@pytest.fixture
def traced(running: Stage) -> Iterator[tuple[Stage, Collector]]:
    """Yield a stage whose processes send every trace to a collector of the test."""
    with collector() as at:
        try:
            _again(running, f"--otlp-endpoint={at.endpoint}", "--trace-ratio=1")
            yield running, at
        finally:
            _again(running)


def _again(stage: Stage, *more: str) -> None:
    for role in ROLES:
        stage.processes[role].kill(signal.SIGTERM)  # SIGTERM releases its lease
        stage.process(role, "", None, *more)


def _whole(at: Collector, decision: str) -> list[Received]:
    """The spans of the trace of that decision, once all of it is there."""
    roots = [e for e in at.named("place") if e.attributes["stowage.decision"] == decision]
    if not roots:
        return []
    trace = [each for each in at.spans if each.trace == roots[0].trace]
    wanted = {*(f"apply {member}" for member in MEMBERS), "ready"}
    return trace if wanted <= {each.name for each in trace} else []


@pytest.mark.proves("CT17")
@pytest.mark.long
def test_one_apply_is_one_trace_from_the_queue_to_every_member(
    traced: tuple[Stage, Collector], space: str
) -> None:
    stage, at = traced
    stage.hub.apply(workload("web", space, replicas=2, distribution="Duplicated"))
    stage.until_state(space, "web", "Running")
    (change,) = stage.status(space, "web")["history"]
    trace = wait("the trace", lambda: _whole(at, change["id"]))
    (root,) = (each for each in trace if not each.parent)
    assert (root.name, root.service) == ("place", "stowage-controller")
    assert root.attributes["stowage.workload"] == f"{space}/web"
    joined = [each for each in at.within(root) if each.service == "stowage-propagator"]
    assert {each.name for each in joined} == {*(f"apply {m}" for m in MEMBERS), "ready"}
    for apply in (each for each in joined if each.name != "ready"):
        assert at.within(apply)[0].name == "render"
        assert root.began <= apply.began
        assert not apply.error
    parts = [each for each in at.within(root) if each not in joined]
    assert sum(each.seconds for each in parts) == pytest.approx(root.seconds, rel=0.1)
    (decide,) = (each for each in parts if each.name == "decide")
    assert {"Filter", "Score", "Assign"} <= {each.name for each in at.within(decide)}
    assert {"queue", "write"} <= {each.name for each in parts}
