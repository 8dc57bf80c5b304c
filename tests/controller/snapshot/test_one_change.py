"""What one MemberCluster's change costs the controller, in calls, whatever the size of the fleet."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, cast

import msgspec

from controller.app import Controller, ControllerSettings
from controller.model.objects import MemberCluster
from machinery.api.resources import MEMBER_CLUSTERS
from machinery.config.kubeconfig import Connection
from tests.controller.memory import Stage


def calls(doing: Callable[[], object]) -> int:
    """The calls of functions, those of the standard library and of C included."""
    number = 0

    def count(_frame: Any, event: str, _arg: Any) -> None:
        nonlocal number
        number += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        doing()
    finally:
        sys.setprofile(None)
    return number


def cost(members: int) -> int:
    """That of a change of one of so many members, and of the snapshot after it."""
    stage = Stage()
    settings = ControllerSettings(connection=Connection(server="http://memory"), http_port=0)
    controller = Controller(settings, cast("Any", stage.hub), clock=stage.clock)
    for number in range(members):
        stage.cluster(f"m{number}", region=f"r{number % 5}")
    found = [msgspec.convert(each, MemberCluster) for each in stage.hub.all(MEMBER_CLUSTERS)]
    for each in found:
        controller.clusters.observe(each)
    controller.cache.snapshot()
    costs = []
    for cpu in ("7", "6", "5"):  # the first one fills what is computed once
        (group,) = stage.hub.read(MEMBER_CLUSTERS, "m3")["status"]["nodeGroups"]
        group["free"]["cpu"] = cpu
        body = stage.hub.edit(
            MEMBER_CLUSTERS, "m3", {"status": {"nodeGroups": [group]}}, status=True
        )
        changed = msgspec.convert(body, MemberCluster)

        def change(changed: MemberCluster = changed) -> None:
            controller.clusters.observe(changed)
            controller.cache.snapshot()

        costs.append(calls(change))
    return costs[-1]


def test_a_change_of_one_cluster_costs_the_same_in_a_small_and_a_large_fleet() -> None:
    assert cost(200) <= 1.2 * cost(20)
