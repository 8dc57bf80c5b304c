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
from propagator.shards.membership import OneShard
from propagator.types.kept import kept
from propagator.types.workload import Workload
from tests.fakeclock import FakeClock
from tests.propagator.contexts import Context

MANY = 500


def _workload(number: int, *, ending: bool = False, at: str = "") -> Workload:
    body = running(number)
    if ending:
        body["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    if at:
        body["status"]["clusters"][0]["name"] = at
    return kept(msgspec.json.decode(msgspec.json.encode(body), type=Workload))


def _handlers(*mine: str) -> tuple[EventHandlers, HubWorkloads, list[Key]]:
    """Of a shard that serves `mine`, with a MemberCluster of each number but `gone`."""
    registry = SimpleNamespace(
        holders=lambda _: (),
        on_change=lambda _: None,
        names=(),
        wake=lambda *_: None,
        get=lambda _: None,
    )
    clusters = SimpleNamespace(
        add_handler=lambda _: None, get=lambda key: key if key[1].startswith("member-") else None
    )
    membership: Any = OneShard()
    membership.serves = mine.__contains__
    hub = ApiClient(Connection(server="https://hub.invalid"), name="hub")
    context: Any = Context(
        hub=hub, registry=registry, clusters=clusters, membership=membership, clock=FakeClock()
    )
    workloads, queued = HubWorkloads(context), list[Key]()
    reporter: Any = SimpleNamespace(queue=SimpleNamespace(add=queued.append))
    nobody: Any = SimpleNamespace(holders=lambda _: set())
    handlers = EventHandlers(
        context, workloads=workloads, secrets=nobody, inventory=nobody, reporter=reporter
    )
    return handlers, workloads, queued


@pytest.mark.proves("SC28")
def test_a_change_of_members_looks_at_no_workload_but_those_that_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handlers, workloads, queued = _handlers("member-1", "member-2")
    for number in range(MANY):
        workloads.informer.observe(_workload(number, ending=number in (7, 400)))
    queued.clear()
    all_of_them = Mock(return_value=())
    monkeypatch.setattr(workloads.informer, "values", all_of_them)
    handlers.members_changed()
    assert sorted(name for _, name in queued) == ["load-400", "load-7"]
    all_of_them.assert_not_called()


@pytest.mark.proves("A1", "SC18")
def test_an_entry_of_a_name_that_no_cluster_has_is_looked_at_once_its_shard_is_served() -> None:
    handlers, workloads, queued = _handlers("gone", "member-1")
    for number, at in enumerate(("gone", "gone-too", "member-1")):
        workloads.informer.observe(_workload(number, at=at))
    queued.clear()  # reported while this shard was not sure of its members: nothing was written
    handlers.members_changed()
    assert [name for _, name in queued] == ["load-0"]
