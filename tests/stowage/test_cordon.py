"""`stowage cordon` and `uncordon`, and how commands take the names of clusters and namespaces."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from crds.names import ANNOTATION_DRAINED, TAINT_DRAIN
from machinery.api.resources import MEMBER_CLUSTERS
from machinery.clock import SystemClock
from stowage.commands import clusters
from tests.memoryhub import MemoryHub
from tests.stowage.plain_hub import kubeconfig

from .conftest import Stowage

pytestmark = pytest.mark.proves("Q17")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MemoryHub:
    """A hub with the clusters m1 and m2, to which the commands of this module talk."""
    made = MemoryHub(clock=SystemClock(), admission=False)
    for name in ("m1", "m2"):
        made.put(MEMBER_CLUSTERS, {"metadata": {"name": name}, "spec": {}})
    monkeypatch.setattr(clusters, "with_hub", lambda _, use: asyncio.run(use(made)))
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path, "http://127.0.0.1:9")))
    return made


def _spec(hub: MemoryHub, name: str) -> dict[str, Any]:
    spec: dict[str, Any] = hub.read(MEMBER_CLUSTERS, name)["spec"]
    return spec


def test_a_cordon_is_told_as_kubectl_tells_that_of_a_node(hub: MemoryHub, stowage: Stowage) -> None:
    assert stowage.succeed("cordon", "m1", "mc/m2") == (
        "membercluster.stowage.dev/m1 cordoned\nmembercluster.stowage.dev/m2 cordoned\n"
    )
    assert _spec(hub, "m1")["unschedulable"] is True
    assert stowage.succeed("cordon", "membercluster.stowage.dev/m1") == (
        "membercluster.stowage.dev/m1 already cordoned\n"
    )
    assert stowage.succeed("uncordon", "m1") == "membercluster.stowage.dev/m1 uncordoned\n"
    assert stowage.succeed("uncordon", "m1") == "membercluster.stowage.dev/m1 already uncordoned\n"
    assert (_spec(hub, "m1")["unschedulable"], _spec(hub, "m2")["unschedulable"]) == (False, True)


def test_an_unknown_cluster_keeps_no_other_back(hub: MemoryHub, stowage: Stowage) -> None:
    done = stowage("cordon", "m1", "nowhere", "m2")
    assert done.code == 1
    assert done.out.count(" cordoned\n") == 2
    assert "error: the hub knows no cluster nowhere" in done.err
    assert _spec(hub, "m2")["unschedulable"] is True


def test_a_drain_goes_on_and_leaves_a_cordon_that_is_no_longer_its_own(
    hub: MemoryHub, stowage: Stowage
) -> None:
    taints = [{"key": TAINT_DRAIN, "effect": "NoExecute"}]
    for name in ("m1", "m2"):
        marked = {"annotations": {ANNOTATION_DRAINED: "cordoned"}}
        spec = {"unschedulable": True, "taints": taints}
        hub.edit(MEMBER_CLUSTERS, name, {"metadata": marked, "spec": spec})
    assert stowage.succeed("cordon", "m1") == "membercluster.stowage.dev/m1 already cordoned\n"
    assert stowage.succeed("uncordon", "m2") == (
        "membercluster.stowage.dev/m2 uncordoned; its drain goes on: "
        "`stowage drain m2 --undo` takes it back\n"
    )
    for name, cordoned in (("m1", True), ("m2", False)):
        found = hub.read(MEMBER_CLUSTERS, name)
        assert found["spec"] == {"unschedulable": cordoned, "taints": taints}
        assert not found["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["cordon"], "Missing argument 'CLUSTER...'"),
        (["cordon", "wl/m1"], "'wl/m1' is not NAME or mc/NAME"),
        (["drain", "mc/"], "'mc/' is not NAME or mc/NAME"),
        (["rename", "mc/m1", "ns/m2"], "'ns/m2' is not NAME or mc/NAME"),
        (["simulate", "--drain", "wl/m1"], "'wl/m1' is not NAME or mc/NAME"),
        (["simulate", "--lose", "wl/m1"], "'wl/m1' is not NAME or mc/NAME"),
        (["tenant", "add", "mc/shop"], "'mc/shop' is not NAME or ns/NAME"),
    ],
)
def test_a_name_of_another_kind_is_wrong_usage(
    stowage: Stowage, args: list[str], says: str
) -> None:
    done = stowage(*args)
    assert done.code == 2
    assert says in done.err


def test_a_namespace_is_taken_as_kubectl_prints_it(stowage: Stowage) -> None:
    assert "namespace: shop" in stowage.succeed("tenant", "add", "ns/shop", "--dry-run")
