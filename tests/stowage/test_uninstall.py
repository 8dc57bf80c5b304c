"""`stowage uninstall` on a hub in memory: what it shows, what holds it, and what it deletes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from crds.names import (
    ANNOTATION_DELETION,
    ANNOTATION_MIGRATION,
    ANNOTATION_UNINSTALL,
    ANNOTATION_UNJOIN,
    CONFIRMED,
    GIVEN_UP,
    PLACEHOLDER_SCHEDULER,
    SYSTEM_NAMESPACE,
    UNINSTALL,
)
from machinery.api.resources import (
    CONFIG_MAPS,
    CRDS,
    MEMBER_CLUSTERS,
    RESERVATIONS,
    ROLE_BINDINGS,
    ROLES,
    WORKLOAD_KINDS,
    WORKLOADS,
)
from machinery.errors import ConfigurationError, StowageError
from stowage.setup import install, uninstall
from stowage.setup.uninstall import Uninstall
from tests.fakeclock import FakeClock
from tests.memoryhub import MemoryHub

EXAMPLES = Path(__file__).parents[2] / "examples"
KEEP = Uninstall(namespace=SYSTEM_NAMESPACE)
DELETE = Uninstall(namespace=SYSTEM_NAMESPACE, delete_workloads=True)
ABANDON = Uninstall(namespace=SYSTEM_NAMESPACE, abandon=("tokyo",))
CLAIMS = [{"metadata": {"name": "data"}}]
TAKE_AWAY = uninstall._take_away


def member(hub: MemoryHub, name: str, *, answers: bool = True) -> None:
    ready = [{"type": "Ready", "status": "True" if answers else "False"}]
    body = {"metadata": {"name": name}, "spec": {}}
    hub.put(MEMBER_CLUSTERS, body)
    hub.edit(MEMBER_CLUSTERS, name, {"status": {"conditions": ready}}, status=True)


def workload(hub: MemoryHub, name: str, *, kind: str = "Deployment", **shares: int) -> None:
    spec = {"volumeClaimTemplates": CLAIMS} if kind == "StatefulSet" else {}
    template = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    hub.put(
        WORKLOADS, {"metadata": {"name": name, "namespace": "shop"}, "spec": {"template": template}}
    )
    placements = [{"cluster": each, "replicas": n} for each, n in shares.items()]
    hub.edit(WORKLOADS, name, {"status": {"placements": placements}}, status=True)


@pytest.fixture
def hub() -> MemoryHub:
    """Two members, of which tokyo does not answer."""
    memory = MemoryHub(clock=FakeClock())
    member(memory, "paris")
    member(memory, "tokyo", answers=False)
    workload(memory, "web", paris=4, tokyo=2)
    workload(memory, "db", kind="StatefulSet", paris=3)
    for name in ("workloads", "memberclusters"):
        memory.put(CRDS, {"metadata": {"name": f"{name}.stowage.dev"}})
    memory.requests.clear()
    return memory


@pytest.fixture(autouse=True)
def taken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What takes the rest away is tried on a real hub; here it is only told of."""
    called: list[str] = []

    async def take_away(_: Any, plan: Uninstall, __: Any) -> None:
        called.append(plan.namespace)

    monkeypatch.setattr(uninstall, "_take_away", take_away)
    monkeypatch.setattr(uninstall, "PATIENCE_SECONDS", 0.0)
    return called


def lets_go(hub: MemoryHub) -> None:
    """Have all Workloads go with their kind, as a propagator does."""

    async def after(method: str, path: str, _: Any) -> None:
        if method == "DELETE" and path == CRDS.path(None, "workloads.stowage.dev"):
            for each in hub.all(WORKLOADS):
                hub.remove(WORKLOADS, each["metadata"]["name"])

    hub.after.append(after)


def writes(hub: MemoryHub) -> list[tuple[str, str]]:
    return [(method, path) for method, path, _ in hub.requests if method != "GET"]


async def shown(hub: MemoryHub, plan: Uninstall) -> tuple[str, str]:
    """What is said, and the digest in it."""
    said: list[str] = []
    await uninstall.show(hub, plan, say=said.append)  # type: ignore[arg-type]
    return "\n".join(said), said[-1].rpartition(" ")[2]


async def confirm(hub: MemoryHub, plan: Uninstall, which: str) -> str:
    said: list[str] = []
    await uninstall.uninstall(hub, plan, which, say=said.append)  # type: ignore[arg-type]
    return "\n".join(said)


async def test_a_migration_that_is_not_over_is_told(hub: MemoryHub) -> None:
    """What its release has kept goes with the namespace."""
    for step, told in (("karmada", True), ("karmada/finished", False)):
        name = hub.all(WORKLOADS)[0]["metadata"]["name"]
        hub.edit(WORKLOADS, name, {"metadata": {"annotations": {ANNOTATION_MIGRATION: step}}})
        text, _ = await shown(hub, KEEP)
        assert (f"shop/{name}: the migration is not over" in text) is told


@pytest.mark.proves("PK24")
async def test_without_a_digest_it_only_looks(hub: MemoryHub) -> None:
    text, which = await shown(hub, KEEP)
    assert text.splitlines() == [
        "MEMBER   WORKLOADS   REPLICAS   CLAIMS",
        "paris    2           7          3",
        "tokyo    1           2          0        does not answer: waits for it, or --abandon tokyo",
        f"Nothing was changed. Members keep what they run: stowage uninstall --confirm {which}",
    ]
    assert not writes(hub)


@pytest.mark.proves("PK24")
async def test_another_state_and_another_way_need_another_digest(
    hub: MemoryHub, taken: list[str]
) -> None:
    _, which = await shown(hub, KEEP)
    _, abandoning = await shown(hub, ABANDON)
    _, deleting = await shown(hub, DELETE)
    assert len({which, abandoning, deleting}) == 3
    for plan, wrong in ((KEEP, abandoning), (ABANDON, which), (DELETE, which), (KEEP, "")):
        with pytest.raises(ConfigurationError, match="nothing is changed"):
            await confirm(hub, plan, wrong)
    workload(hub, "new")
    with pytest.raises(ConfigurationError, match="nothing is changed"):
        await confirm(hub, KEEP, which)
    with pytest.raises(ConfigurationError, match="no member oslo"):
        await shown(hub, Uninstall(namespace=SYSTEM_NAMESPACE, abandon=("oslo",)))
    assert not writes(hub)
    assert not taken


@pytest.mark.proves("PK24")
async def test_a_member_that_does_not_answer_holds_it_unless_it_is_abandoned(
    hub: MemoryHub, taken: list[str]
) -> None:
    lets_go(hub)
    _, which = await shown(hub, KEEP)
    with pytest.raises(StowageError, match=r"nothing was changed, as what tokyo runs.*--abandon"):
        await confirm(hub, KEEP, which)
    assert not writes(hub)
    text, which = await shown(hub, ABANDON)
    assert "tokyo    1           2          0        is abandoned" in text
    assert f"stowage uninstall --abandon tokyo --confirm {which}" in text
    await confirm(hub, ABANDON, which)
    assert not hub.all(WORKLOADS)
    marks = hub.read(MEMBER_CLUSTERS, "tokyo")["metadata"]["annotations"]
    assert marks[ANNOTATION_UNJOIN] == GIVEN_UP
    assert ANNOTATION_UNJOIN not in str(hub.read(MEMBER_CLUSTERS, "paris"))
    ended, given_up = CRDS.path(None, "workloads.stowage.dev"), MEMBER_CLUSTERS.path(None, "tokyo")
    order = writes(hub)
    assert order.index(("DELETE", ended)) < order.index(("PATCH", given_up)), "or it would move"
    noted = next(body for method, path, body in hub.requests if (method, path) == ("PATCH", ended))
    assert noted["metadata"]["annotations"] == {ANNOTATION_UNINSTALL: UNINSTALL}
    assert taken


@pytest.mark.proves("PK24")
async def test_one_that_no_membercluster_names_holds_it_too(hub: MemoryHub) -> None:
    hub.remove(MEMBER_CLUSTERS, "tokyo")
    text, which = await shown(hub, KEEP)
    assert "--abandon tokyo" in text
    with pytest.raises(StowageError, match="tokyo"):
        await confirm(hub, KEEP, which)


@pytest.mark.proves("PK24")
async def test_nothing_begins_without_a_propagator(hub: MemoryHub) -> None:
    _, which = await shown(hub, ABANDON)
    with pytest.raises(StowageError, match="nothing was changed: no propagator leads"):
        await uninstall.uninstall(
            hub,  # type: ignore[arg-type]
            ABANDON,
            which,
            unled="no propagator leads",
            say=lambda _: None,
        )
    assert not writes(hub)


@pytest.mark.proves("PK25")
async def test_the_room_of_reservations_is_left_to_nobody(hub: MemoryHub) -> None:
    """Their pods run nothing of anybody's, and would keep it for ever."""
    lets_go(hub)
    member(hub, "oslo")
    workload(hub, "keeps", oslo=1)
    hub.edit(WORKLOADS, "keeps", {"spec": {"schedulerName": PLACEHOLDER_SCHEDULER}})
    hub.put(RESERVATIONS, {"metadata": {"name": "keeps", "namespace": "shop"}, "spec": {}})
    _, which = await shown(hub, ABANDON)
    await confirm(hub, ABANDON, which)
    order = writes(hub)
    at = [
        order.index(("DELETE", each))
        for each in (
            RESERVATIONS.path("shop", "keeps"),
            WORKLOADS.path("shop", "keeps"),
            CRDS.path(None, "workloads.stowage.dev"),
        )
    ]
    assert at == sorted(at)
    assert not {("DELETE", WORKLOADS.path("shop", each)) for each in ("web", "db")} & {*order}


@pytest.mark.proves("PK26")
async def test_workloads_are_deleted_member_by_member_after_they_were_counted(
    hub: MemoryHub,
) -> None:
    lets_go(hub)
    member(hub, "oslo")
    workload(hub, "only", oslo=5)
    workload(hub, "left", oslo=1)
    hub.edit(WORKLOADS, "left", {"spec": {"onDelete": "Orphan"}})
    hub.edit(
        MEMBER_CLUSTERS,
        "tokyo",
        {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
        status=True,
    )
    text, which = await shown(hub, DELETE)
    assert (
        "3 Workloads would be deleted, with 14 replicas and 3 claims on the members: "
        f"stowage uninstall --delete-workloads --confirm {which}"
    ) in text
    hub.edit(
        WORKLOADS,
        "only",
        {"status": {"placements": [{"cluster": "oslo", "replicas": 6}]}},
        status=True,
    )
    with pytest.raises(ConfigurationError, match="nothing is changed"):
        await confirm(hub, DELETE, which)
    _, which = await shown(hub, DELETE)

    async def others_are_gone(method: str, path: str, _: Any) -> None:
        here = {WORKLOADS.path("shop", each) for each in ("web", "db")}
        if method == "DELETE" and path in here:
            names = {each["metadata"]["name"] for each in hub.all(WORKLOADS)}
            assert not names & {"only", "left"}, "oslo's are gone before those of paris"

    hub.faults.append(others_are_gone)
    said = await confirm(hub, DELETE, which)
    assert "oslo: 2 Workloads are gone" in said
    assert "paris: 2 Workloads are gone" in said
    noted = [
        b["metadata"]["annotations"]
        for m, p, b in hub.requests
        if m == "PATCH" and "/shop/" in p and b
    ]
    assert {ANNOTATION_DELETION: CONFIRMED} in noted, "the brake holds none of them"


@pytest.mark.proves("PK26")
async def test_claims_are_counted_as_a_kind_of_the_hub_has_them(hub: MemoryHub) -> None:
    kind = yaml.safe_load((EXAMPLES / "kinds/gadget-kind.yaml").read_text())
    data = {"claims": "spec.volumes"}
    hub.put(WORKLOAD_KINDS, {**kind, "spec": {**kind["spec"], "data": data}})
    body = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}}
    template = {**body, "spec": {"volumes": CLAIMS}}
    meta = {"name": "g", "namespace": "shop"}
    hub.put(WORKLOADS, {"metadata": meta, "spec": {"template": template}})
    shares = [{"cluster": "oslo", "replicas": 2}]
    hub.edit(WORKLOADS, "g", {"status": {"placements": shares}}, status=True)
    member(hub, "oslo")
    text, _ = await shown(hub, KEEP)
    (row,) = (line.split() for line in text.splitlines() if line.startswith("oslo"))
    assert row == ["oslo", "1", "2", "2"]


@pytest.mark.proves("PK25")
async def test_what_an_argo_cd_was_given_goes_from_whatever_namespace(hub: MemoryHub) -> None:
    said: list[str] = []
    generator = install.load("argocd/generator.yaml", namespace="argo")
    resources = {each.kind: each for each in (CONFIG_MAPS, ROLES, ROLE_BINDINGS)}
    for each in generator:
        assert each["metadata"]["name"] == install.DECISIONS
        hub.put(resources[each["kind"]], each)
    other = {"metadata": {"name": "argocd-cm", "namespace": "argo"}}
    hub.put(CONFIG_MAPS, other)
    await TAKE_AWAY(hub, KEEP, said.append)  # type: ignore[arg-type] # the rest is not there
    assert not [each for kind in (ROLES, ROLE_BINDINGS) for each in hub.all(kind)]
    assert [each["metadata"]["name"] for each in hub.all(CONFIG_MAPS)] == ["argocd-cm"]
    assert f"namespace argo: RoleBinding {install.DECISIONS} deleted" in said
