"""The plugin with a handle that has no hub, and in passes of the real scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from controller import catalogue, config
from controller.cache.placements import PlacementIndex
from controller.explain.pending import remedies
from controller.explain.record import record
from controller.framework.interface import CycleState
from controller.framework.runtime.arguments import WrongArgs
from controller.framework.runtime.handle import DryRunHandle
from controller.model.objects import MemberCluster
from controller.model.unit import WorkloadInfo
from controller.scheduling.cycle import decide
from controller.scheduling.decision import Decision
from machinery.http_messages import Request, Response
from stowage_carbon.intensities import GRAMS_LABEL
from stowage_carbon.plugin import LIMIT_LABEL, PEAK

from .make import cluster, info, labelled, plugin, snapshot

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
FILE = Path(__file__).parent.parent / "scheduler.yaml"


def decided(asked: WorkloadInfo, *clusters: MemberCluster) -> Decision:
    """A whole pass, with the configuration file of the example and the installed package."""
    registry = catalogue.registry().with_installed()
    profile = config.load(FILE, registry, DryRunHandle()).profiles["stowage"]
    return decide(snapshot(*clusters), asked, PlacementIndex(), profile, NOW)


def said(decision: Decision) -> Mapping[str, str]:
    """Why not, by cluster."""
    return {each["name"]: each["reason"] for each in record(decision)["clusters"]}


def test_a_limit_keeps_new_units_from_what_is_dirtier_or_unknown() -> None:
    clusters = (cluster("paris", "fr"), cluster("berlin", "de"), cluster("somewhere"))
    decision = decided(info("100"), *clusters)
    assert decision.placements == {"paris": 2}
    assert said(decision) == {
        "paris": "",
        "berlin": "more than 100 g CO2/kWh",
        "somewhere": "its carbon intensity is not known",
    }


def test_without_a_limit_the_cleanest_is_the_best() -> None:
    decision = decided(info(), cluster("paris", "fr"), cluster("berlin", "de"), cluster("nowhere"))
    scores = dict(zip(decision.snapshot.names, decision.scores["Carbon"].tolist(), strict=True))
    assert scores == {"paris": 100, "berlin": 0, "nowhere": 0}
    assert decision.placements == {"paris": 2}


def test_a_newer_number_on_the_cluster_wins_and_one_of_a_wrong_form_does_not_count() -> None:
    clusters = (labelled("a", "30", "pl"), labelled("b", "-5", "fr"), labelled("c", "9" * 63))
    decision = decided(info("50"), *clusters)
    assert decision.placements == {"a": 2}
    assert said(decision)["b"] == "more than 50 g CO2/kWh"
    assert said(decision)["c"] == "its carbon intensity is not known"


def test_what_runs_stays_where_it_has_become_dirty() -> None:
    asked = info("100").with_present({"berlin": 2})
    decision = decided(asked, cluster("berlin", "de"), cluster("paris", "fr"))
    assert decision.placements == {"berlin": 2}


def test_beyond_the_peak_nothing_new_but_what_tolerates_it() -> None:
    clusters = (cluster("warsaw", "pl"),)
    assert not decided(info(), *clusters).placements
    tolerating = info(tolerations=[{"key": PEAK.key, "operator": "Exists"}])
    assert decided(tolerating, *clusters).placements == {"warsaw": 2}


def test_it_is_told_what_the_hook_changed() -> None:
    (told,) = record(decided(info(), cluster("warsaw", "pl")))["hooks"]
    assert (told["plugin"], told["phase"]) == ("Carbon", "Filter")
    assert told["text"] == "changed the room of clusters"
    assert not record(decided(info(), cluster("paris", "fr")))["hooks"]


def test_the_hook_changes_a_copy() -> None:
    seen = snapshot(cluster("warsaw", "pl"), cluster("paris", "fr"))
    asked = info()
    answer = plugin(peak=600).before_filter(CycleState(), asked, seen, PlacementIndex())
    assert isinstance(answer, tuple)
    same, changed, whether = answer
    assert (same is asked, whether) == (True, True)
    assert changed.taints[PEAK].tolist() == [name == "warsaw" for name in changed.names]
    assert PEAK not in seen.taints


@pytest.mark.parametrize("peak", [None, 680])
def test_the_hook_leaves_alone_what_is_below_the_peak(peak: int | None) -> None:
    seen = snapshot(cluster("warsaw", "pl"))
    answer = plugin(peak=peak).before_filter(CycleState(), info(), seen, PlacementIndex())
    assert isinstance(answer, tuple)
    assert answer[1] is seen
    assert answer[2] is False


@pytest.mark.parametrize("limit", ["", "lots", "1.5", "-1", "٣", "9" * 63])
def test_a_limit_that_is_no_number_refuses_the_workload_and_says_so(limit: str) -> None:
    clusters = snapshot(cluster("paris", "fr"))
    status = plugin().pre_filter(CycleState(), info(limit), clusters, PlacementIndex())
    assert not status.ok
    assert LIMIT_LABEL in status.reasons[0]
    assert decided(info(limit), cluster("paris", "fr")).placements == {}


def helping(asked: WorkloadInfo, *clusters: MemberCluster) -> list[str]:
    """What would help, as `stowage explain` says it."""
    return [note.text for note in remedies(decided(asked, *clusters))]


def test_it_names_what_would_help() -> None:
    clusters = (cluster("berlin", "de"), cluster("munich", "de"), cluster("somewhere"))
    region, lift, label = helping(info("100"), *clusters)
    assert region == "a cluster in region fr, with at most 100 g CO2/kWh"
    assert lift.startswith(f"label {LIMIT_LABEL} of 380 or more: that alone keeps it from berlin")
    assert label.startswith(f"label {GRAMS_LABEL} on the MemberCluster")
    (text,) = helping(info("lots"), *clusters)
    assert text == f"label {LIMIT_LABEL} with a whole number of g CO2/kWh, or no such label"


def test_it_names_no_region_that_is_there_or_dirtier() -> None:
    assert not [text for text in helping(info("50"), cluster("berlin", "de")) if "region" in text]
    full = (cluster("paris", "fr"),)
    asked = info("100", replicas=1000)
    assert not [text for text in helping(asked, *full) if "region" in text]


def test_only_a_cluster_within_the_limit_wakes_who_waits() -> None:
    (event,) = plugin().events_to_register()
    assert event.hint is not None
    assert not event.hint(info("50"), None, cluster("paris", "fr"))
    assert not event.hint(info("50"), None, cluster("somewhere"))
    assert event.hint(info("50"), cluster("paris", "fr"), labelled("paris", "50", "fr"))


@pytest.mark.parametrize(
    ("args", "where"),
    [
        ({"regions": {"fr": -1}}, ("regions", "fr")),
        ({"regions": {"fr": "clean"}}, ("regions", "fr")),
        ({"readings": {"seconds": 0}}, ("readings", "seconds")),
        ({"region": {}}, ("region",)),
    ],
)
def test_wrong_arguments_are_named(args: dict[str, Any], where: tuple[str, ...]) -> None:
    registry = catalogue.registry().with_installed()
    with pytest.raises(WrongArgs) as wrong:
        registry.make("Carbon", args, DryRunHandle())
    assert wrong.value.where == where


async def test_its_endpoints_tell_the_numbers_and_their_source() -> None:
    made = plugin(cluster("berlin", "de"), labelled("paris", "55", "fr"), cluster("nowhere"))
    every, one = made.routes()
    assert await every.answer(Request("GET", "/clusters")) == {
        "berlin": {"region": "de", "gramsPerKwh": 380, "source": "args"},
        "paris": {"region": "fr", "gramsPerKwh": 55, "source": "label"},
        "nowhere": {"region": "", "gramsPerKwh": None, "source": ""},
    }
    unknown = await one.answer(Request("GET", "/clusters/x", params={"name": "x"}))
    assert isinstance(unknown, Response)
    assert unknown.status == 404
