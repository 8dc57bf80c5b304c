"""Which Workloads a change of something else wakes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from benchmarks.memory import running
from machinery.api.client import ApiClient
from machinery.config.kubeconfig import Connection
from machinery.types.metadata import Key
from propagator.eventhandlers import EventHandlers
from propagator.hub.workloads import HubWorkloads
from propagator.types.kept import kept
from propagator.types.workload import Workload
from tests.fakeclock import FakeClock
from tests.propagator.contexts import Context

MANY = 500


def _workload(number: int, *, ending: bool) -> Workload:
    body = running(number)
    if ending:
        body["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    return kept(msgspec.json.decode(msgspec.json.encode(body), type=Workload))


@pytest.mark.proves("SC28")
def test_a_change_of_members_looks_at_no_workload_but_those_that_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registry = SimpleNamespace(
        holders=lambda _: (), on_change=lambda _: None, names=(), wake=lambda *_: None
    )
    clusters = SimpleNamespace(add_handler=lambda _: None)
    hub = ApiClient(Connection(server="https://hub.invalid"), name="hub")
    context: Any = Context(hub=hub, registry=registry, clusters=clusters, clock=FakeClock())
    workloads, queued = HubWorkloads(context), list[Key]()
    for number in range(MANY):
        workloads.informer.observe(_workload(number, ending=number in (7, 400)))
    reporter: Any = SimpleNamespace(queue=SimpleNamespace(add=queued.append))
    nobody: Any = SimpleNamespace(holders=lambda _: set())
    handlers = EventHandlers(
        context, workloads=workloads, secrets=nobody, inventory=nobody, reporter=reporter
    )
    queued.clear()
    all_of_them = Mock(return_value=())
    monkeypatch.setattr(workloads.informer, "values", all_of_them)
    handlers.members_changed()
    assert sorted(name for _, name in queued) == ["load-400", "load-7"]
    all_of_them.assert_not_called()
