"""The plugin's controller against a hub of one ConfigMap."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest

from controller.framework.runtime.handle import DryRunHandle
from controller.model.objects import MemberCluster
from machinery.api.client import ApiClient
from machinery.errors import LeaseLost, NotFound
from stowage_carbon.arguments import CarbonArgs
from stowage_carbon.intensities import GRAMS_LABEL
from stowage_carbon.readings import Readings

from .make import cluster, handle, labelled, plugin


class Hub:
    """Gives one ConfigMap, and remembers what is written; a cluster named `gone` is not there."""

    def __init__(self, data: Mapping[str, str] | None) -> None:
        self.data = data
        self.written: dict[str, str | None] = {}

    async def get(self, _res: object, name: str, *, namespace: str) -> dict[str, Any]:
        if self.data is None:
            raise NotFound(code=404, reason="NotFound", message=name)
        meta = {"name": name, "namespace": namespace, "uid": "u", "resourceVersion": "7"}
        return {"metadata": meta, "data": dict(self.data)}

    async def merge_patch(self, _res: object, name: str, patch: Mapping[str, Any]) -> None:
        if name == "gone":
            raise NotFound(code=404, reason="NotFound", message=name)
        self.written[name] = patch["metadata"]["labels"][GRAMS_LABEL]


def readings(hub: Hub | None, *clusters: MemberCluster) -> tuple[Readings, DryRunHandle]:
    """The controller on a handle with that hub."""
    made = handle(*clusters)
    made.client = cast("ApiClient | None", hub)
    args = CarbonArgs.model_validate({"readings": {"seconds": 1}})
    assert args.readings is not None
    return Readings(args, args.readings, made), made


async def test_it_writes_the_labels_that_say_otherwise_and_no_other() -> None:
    hub = Hub({"fr": "55", "de": "400"})
    clusters = (
        cluster("paris", "fr"),
        labelled("berlin", "400", "de"),
        labelled("warsaw", "700", "pl"),
        cluster("gone", "fr"),
        cluster("nowhere"),
    )
    controller, _ = readings(hub, *clusters)
    await controller.look()
    assert hub.written == {"paris": "55", "warsaw": None}


async def test_an_entry_that_is_no_number_changes_nothing_and_is_told_once() -> None:
    hub = Hub({"fr": "clean", "de": "-3"})
    controller, made = readings(hub, labelled("paris", "55", "fr"), cluster("berlin", "de"))
    await controller.look()
    await controller.look()
    assert not hub.written
    (event,) = made.events
    assert (event.reason, event.note) == (
        "UnreadableIntensity",
        "2 entries are no whole grams of CO2 per kWh: de, fr",
    )


@pytest.mark.parametrize("hub", [None, Hub(None)])
async def test_without_a_hub_or_a_config_map_nothing_happens(hub: Hub | None) -> None:
    controller, made = readings(hub, labelled("paris", "55", "fr"))
    await controller.look()
    assert not made.events


async def test_who_leads_no_more_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost() -> None:
        raise LeaseLost

    hub = Hub({"fr": "55"})
    controller, made = readings(hub, cluster("paris", "fr"))
    monkeypatch.setattr(made, "check", lost)
    with pytest.raises(LeaseLost):
        await controller.look()
    assert not hub.written


async def test_it_goes_on_until_it_is_cancelled() -> None:
    hub = Hub({"fr": "55"})
    controller, _ = readings(hub, cluster("paris", "fr"))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(controller.run(), 0.2)
    assert hub.written == {"paris": "55"}


def test_there_is_one_where_the_arguments_name_a_config_map() -> None:
    assert plugin().controllers() == []
    (found,) = plugin(readings={}).controllers()
    assert found.name == "readings"
