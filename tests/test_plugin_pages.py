"""The pages about plugins agree with the code: every method, every point, every block of code."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from controller.app import RESYNC_SECONDS
from controller.cache import ledger
from controller.cache.placements import PlacementIndex
from controller.config import default_profile
from controller.framework import explains, gathering, interface, percluster, statuswriter, waiting
from controller.framework.profile import PLUGIN_TIMEOUT, PROTOCOLS
from controller.framework.runtime import controllers, feature, handle, services
from controller.framework.runtime.arguments import model_of
from controller.framework.runtime.framework import MOST_BYTES, MOST_BYTES_TOGETHER, PRE_BIND_SECONDS
from controller.framework.runtime.handle import DryRunHandle
from controller.framework.status import Code
from controller.framework.waiting import LONGEST_WAIT_SECONDS, WaitingWorkloads
from controller.scheduler import RETRY_SECONDS
from controller.scheduling.cycle import decide
from controller.scheduling.decision import Decision
from crds.workload import ScheduledReason
from machinery.clock import SystemClock
from machinery.http_messages import Request
from tests.controller.make import cluster, info, snapshot, verdicts
from tests.docs.blocks import python_of

DOCS = Path(__file__).resolve().parent.parent / "docs"
START, REFERENCE = ((DOCS / name).read_text() for name in ("plugins.md", "plugin-reference.md"))
BESIDE = (ledger, statuswriter, waiting, controllers, feature, handle, services)
"""Their protocols are named somewhere, those of the points have a section each."""
REGION = "topology.kubernetes.io/region"


def protocols(*modules: ModuleType) -> Iterator[type]:
    for module in modules:
        for each in vars(module).values():
            ours = inspect.isclass(each) and each.__module__ == module.__name__
            public = not each.__name__.startswith("_") if ours else False
            if public and getattr(each, "_is_protocol", False):
                yield each


def members(protocol: type) -> list[str]:
    """Its own methods and properties."""
    return [name for name in vars(protocol) if not name.startswith("_")]


def signature(method: Any) -> str:
    """As the page writes it: without types, but for what it answers."""
    found = inspect.signature(method)
    names = ", ".join(name for name in found.parameters if name != "self")
    waits = "async " if inspect.iscoroutinefunction(method) else ""
    return f"{waits}{method.__name__}({names}) -> {found.return_annotation}"


def sections(text: str) -> Mapping[str, str]:
    """The text below each heading of the third level, up to the next heading."""
    parts = re.split(r"^##+ +(.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


POINTS = [each for each in protocols(interface, explains, gathering) if members(each)]


def test_the_protocols_are_found() -> None:
    found = {each.__name__ for each in POINTS}
    assert {"Filter", "Score", "Permit", "FilterHook", "Explainer", "TellsOwnStatus"} <= found
    assert len(found) >= 20


def test_each_method_of_a_point_has_its_signature_in_a_section_of_that_name() -> None:
    told = sections(REFERENCE)
    assert [
        f"{protocol.__name__}.{name}"
        for protocol in POINTS
        for name in members(protocol)
        if f"`{signature(getattr(protocol, name))}`" not in told.get(protocol.__name__, "")
    ] == []


def test_what_is_written_for_one_cluster_has_its_signature_in_the_table() -> None:
    found = [each for each in vars(percluster).values() if inspect.isabstract(each)]
    assert len(found) >= 4
    for each in found:
        (name,) = each.__abstractmethods__
        told = signature(vars(each)[name]).replace("|", r"\|")
        assert f"| `{each.__name__}` | `{told}` |" in REFERENCE


def test_what_is_beside_the_points_is_named() -> None:
    prose = re.sub(r"^```.*?^```", "", START + REFERENCE, flags=re.MULTILINE | re.DOTALL)
    code = " ".join(re.findall(r"`[^`]+`", prose))
    assert [
        f"{protocol.__name__}.{name}"
        for protocol in protocols(*BESIDE)
        for name in members(protocol)
        if not re.search(rf"\b{name}\b", code)
    ] == []


def test_the_table_has_every_point_of_the_configuration_with_its_methods() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*)$", REFERENCE, flags=re.MULTILINE))
    assert PROTOCOLS.keys() <= rows.keys()
    for point, found in PROTOCOLS.items():
        for protocol in found if isinstance(found, tuple) else (found,):
            for name in members(protocol):
                if inspect.isfunction(vars(protocol)[name]):
                    assert name in rows[point]


def test_the_values_that_it_names_are_those_of_the_code() -> None:
    prose = " ".join(REFERENCE.split())
    assert RESYNC_SECONDS == 600
    assert "or after ten minutes" in prose
    for said in (
        f"{PRE_BIND_SECONDS:g} s at most in all",
        f"for {LONGEST_WAIT_SECONDS:g} s at most: reason WaitingOnPermit",
        f"(default {PLUGIN_TIMEOUT * 1000:g}, at most",
        f"JSON values, {MOST_BYTES // 1024} KiB at most",
        f"All plugins share {MOST_BYTES_TOGETHER // 1024} KiB",
        f"is retried after {RETRY_SECONDS[ScheduledReason.PLUGIN_ERROR]:g} s",
        f"made again after {RETRY_SECONDS[ScheduledReason.SCHEDULE_TIMEOUT]:g} s",
    ):
        assert said in prose


@pytest.fixture(scope="module")
def start() -> dict[str, Any]:
    return dict(python_of("docs/plugins.md"))


@pytest.fixture(scope="module")
def reference() -> dict[str, Any]:
    return dict(python_of("docs/plugin-reference.md"))


def decided(asked: Any, *clusters: Any, **points: Any) -> Decision:
    profile = replace(default_profile(), **points)
    return decide(
        snapshot(*clusters), asked, PlacementIndex(), profile, datetime(2026, 1, 2, tzinfo=UTC)
    )


def test_the_factory_of_the_first_page_is_one(start: dict[str, Any]) -> None:
    assert model_of(start["Banned"]) is start["BannedArgs"]
    found = verdicts(decided(info(), cluster("a"), cluster("b"), filter=[start["plugin"]]))
    assert found == {"a": "banned", "b": ""}


def test_its_hooks_change_what_the_others_see(start: dict[str, Any]) -> None:
    asked = info(clusterSelector={"tier": "gold"})
    clusters = (cluster("member-1", unschedulable=True), cluster("member-2"))
    assert not decided(asked, *clusters).placements
    hooks = {
        "before_pre_filter": [start["Anywhere"]()],
        "before_filter": [start["Uncordoned"]()],
        "before_score": [start["Without"]()],
    }
    assert decided(asked, *clusters, **hooks).placements == {"member-1": 2}
    assert decided(asked, cluster("other"), **hooks).placements == {"other": 2}


def test_its_events_are_what_the_framework_takes(start: dict[str, Any]) -> None:
    (event,) = start["events_to_register"](None)
    assert event.about(info(labels={"pool": "a"})) == ("shop", "a")
    few, many = (SimpleNamespace(spec=SimpleNamespace(seats=seats)) for seats in (1, 2))
    assert event.hint(info(), few, many) is True
    assert event.hint(info(), many, few) is False


async def test_its_endpoint_answers_and_its_controller_is_one(start: dict[str, Any]) -> None:
    plugin = start["PricesThatAreRead"]({}, DryRunHandle())
    (service,) = services.services([plugin])
    assert service.path == "/apis/v1/plugins/Prices/of/:cluster"
    answer = await service.handler(Request("GET", service.path, params={"cluster": "a"}))
    assert answer.status == 404
    plugin.prices["a"] = 7
    answer = await service.handler(Request("GET", service.path, params={"cluster": "a"}))
    assert answer.body == b'{"price":7}'
    assert isinstance(plugin, controllers.Controls)
    (running,) = plugin.controllers()
    assert inspect.iscoroutinefunction(running.run)


def test_the_columns_of_the_reference_answer_for_all_clusters(reference: dict[str, Any]) -> None:
    made = reference["InTheUnion"]()
    clusters = (
        cluster("paris", {REGION: "eu-west"}),
        cluster("berlin", {REGION: "eu-central"}),
        cluster("ohio", {REGION: "us-east"}),
        cluster("nowhere"),
    )
    weights = {"InTheUnion": 1}
    decision = decided(info(), *clusters, filter=[made], score=[made], weights=weights)
    assert decision.placements == {"berlin": 2}
    outside = "outside of the union"
    assert verdicts(decision) == {"paris": "", "berlin": "", "ohio": outside, "nowhere": outside}


def test_what_is_written_for_one_cluster_answers_too(reference: dict[str, Any]) -> None:
    filters, scores = [reference["NotOnFridays"]()], [reference["Favourites"]()]
    clusters = (cluster("a"), cluster("b", {"favourite": ""}), cluster("c", {"friday": "yes"}))
    weights = {"Favourites": 1}
    decision = decided(info(), *clusters, filter=filters, score=scores, weights=weights)
    assert decision.placements == {"b": 2}
    assert verdicts(decision)["c"] == "is not touched on Fridays"


def test_an_attempt_is_given_up_where_it_leaves_units_over(reference: dict[str, Any]) -> None:
    first = [reference["HomeFirst"]()]
    spread = info(replicas=6, distribution="Divided")
    found = decided(spread, cluster("a"), cluster("b"), pre_filter=first)
    assert found.placements == {"a": 3, "b": 3}
    found = decided(info(replicas=5), cluster("a"), cluster("b"), pre_filter=first)
    assert found.assigned == 5


def test_the_words_of_faults_are_those_that_the_page_shows() -> None:
    class Wrong:
        name = "X"

        def __init__(self, answer: Any) -> None:
            self.answer = answer

        def pre_filter(self, *_: object) -> Any:
            return self.answer

        def score(self, *_: object) -> Any:
            return self.answer

    five = [cluster(name) for name in "abcde"]
    short = decided(info(), *five, score=[Wrong(np.zeros(3, dtype=np.int64))])
    other = decided(info(), *five, pre_filter=[Wrong(None)])
    for decision in (short, other):
        assert f"`{decision.message.removeprefix('0/5 clusters: ')}`" in REFERENCE


def test_pairs_wait_for_each_other(reference: dict[str, Any]) -> None:
    woken: list[Any] = []
    room = WaitingWorkloads(clock=SystemClock(), activate=woken.append)
    made = reference["InPairs"]()
    made.use_waiting_workloads(room)
    state = interface.CycleState()
    one, two = (info(name, labels={"pair": "x"}) for name in ("one", "two"))
    status = made.permit(state, one, {})
    assert (status.code, status.seconds) == (Code.WAIT, 60)
    room.add(one, {}, state, {made.name: status})
    assert made.permit(state, two, {}).ok
    assert woken == [one.key]
    assert made.permit(state, info("alone"), {}).ok


def test_its_events_and_its_status_are_what_the_framework_takes(reference: dict[str, Any]) -> None:
    (event,) = reference["events_to_register"](None)
    inside, outside = cluster("a", {REGION: "eu-west"}), cluster("b", {REGION: "us"})
    assert event.hint(info(), None, inside)
    assert not event.hint(info(), inside, outside)
    told = reference["own_status"](
        None, info(), {"a": 1, "gone": 1}, snapshot(inside), PlacementIndex()
    )
    assert told == {"regions": ["eu-west"]}
