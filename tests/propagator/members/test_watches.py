"""Which watches there are over our objects, and what they are believed to show. No server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from crds.names import LABEL_MANAGED, OWNER_PREFIX
from machinery.api.acting import account
from machinery.api.client import ApiClient
from machinery.api.resources import CONFIG_MAPS, DEPLOYMENTS, SECRETS, Resource
from machinery.config.kubeconfig import Connection
from machinery.errors import Forbidden, NotFound
from machinery.runtime.informer import Informer
from machinery.types.metadata import Meta
from propagator.hub.watched_kinds import IdleKinds
from propagator.members.objects import ManagedObject
from propagator.members.watches import EVERYWHERE, Watches
from tests.fakeclock import FakeClock
from tests.propagator.contexts import Context

BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")


class Desk:
    """Watches whose informers are begun and ended in a list."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.running: list[Informer[Any]] = []
        self.asked: list[str] = []
        self.told: list[tuple[Any, Any]] = []
        self.watches = Watches(
            client_for=self._client,
            apart=(SECRETS, CONFIG_MAPS),
            begin=self.running.append,
            end=self.running.remove,
            changed=lambda old, new: self.told.append((old, new)),
            clock=self.clock,
        )

    def _client(self, namespace: str) -> Any:
        self.asked.append(namespace)
        return ApiClient(Connection("https://127.0.0.1:1", token="none"))

    def at(self, resource: Any, namespace: str) -> Informer[Any]:
        informer = self.watches.tracked(resource, namespace)
        assert informer is not None
        return informer

    def answers(self, resource: Any, namespace: str = EVERYWHERE, *objects: Any) -> None:
        """The server lists these."""
        informer = self.at(resource, namespace)
        for each in objects:
            informer.observe(each)
        informer._synced.set()
        informer._heard()

    def refuses(self, resource: Any, namespace: str) -> None:
        informer = self.at(resource, namespace)
        informer.last_error = Forbidden(code=403, reason="Forbidden", message="no")


def secret(namespace: str, name: str, uid: str) -> ManagedObject:
    meta = Meta(
        name=name,
        namespace=namespace,
        uid=f"{namespace}/{name}",
        resource_version="5",
        labels={LABEL_MANAGED: "true"},
        annotations={f"{OWNER_PREFIX}{uid}": "shop/web"},
    )
    return ManagedObject(metadata=meta)


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    desk.watches.track(DEPLOYMENTS, EVERYWHERE)
    return desk


def _knows(desk: Desk, *namespaces: str, kind: str = "Secret") -> bool:
    return desk.watches.answered("v1", kind, namespaces=namespaces)


def test_a_confidential_kind_is_watched_where_tenants_live_as_they(desk: Desk):
    assert desk.asked == [EVERYWHERE]
    desk.watches.add_namespace("shop")
    assert sorted(desk.asked) == ["", "shop", "shop"]
    desk.watches.add_namespace("shop")
    assert len(desk.running) == 3
    assert desk.watches.track(SECRETS, "shop") is desk.at(SECRETS, "shop")
    with pytest.raises(ValueError, match="one namespace at a time"):
        desk.watches.track(SECRETS, EVERYWHERE)


def test_nothing_is_concluded_before_each_namespace_has_answered(desk: Desk):
    assert _knows(desk, "shop")  # there is no tenant: nothing can be there
    desk.watches.add_namespace("shop")
    desk.watches.add_namespace("other")
    assert not _knows(desk, "shop")
    desk.answers(SECRETS, "shop")
    assert not _knows(desk, "shop")  # it may have left something in the other one
    desk.answers(SECRETS, "other")
    assert _knows(desk, "shop")


def test_what_is_refused_in_a_foreign_namespace_holds_up_nobody_else(desk: Desk):
    desk.watches.add_namespace("shop")
    desk.watches.add_namespace("broken")
    desk.answers(SECRETS, "shop")
    desk.refuses(SECRETS, "broken")
    assert _knows(desk, "shop")
    mine = desk.watches.concerning("v1", "Secret", namespaces=["shop"])
    assert mine == [desk.at(SECRETS, "shop")]
    assert desk.at(SECRETS, "broken") in desk.watches.concerning(
        "v1", "Secret", namespaces=["broken"]
    )


def test_a_kind_that_the_member_lacks_has_answered(desk: Desk):
    assert not desk.watches.answered("apps/v1", "Deployment", namespaces=["shop"])
    informer = desk.at(DEPLOYMENTS, EVERYWHERE)
    informer.last_error = NotFound(code=404, reason="NotFound", message="no")
    assert desk.watches.answered("apps/v1", "Deployment", namespaces=["shop"])


def test_what_lies_in_a_namespace_is_forgotten_with_it(desk: Desk):
    desk.watches.add_namespace("shop")
    desk.answers(SECRETS, "shop", secret("shop", "db", "u1"))
    assert [found.metadata.name for _, found in desk.watches.owned("u1")] == ["db"]
    desk.told.clear()
    desk.watches.remove_namespace("shop")
    assert desk.watches.owned("u1") == []
    assert [new for _, new in desk.told] == [None]
    assert len(desk.running) == 1


async def test_a_watch_that_shows_nothing_and_that_nobody_asks_for_ends(desk: Desk):
    desk.watches.add_namespace("shop")
    desk.watches.add_namespace("empty")
    desk.answers(SECRETS, "shop", secret("shop", "db", "u1"))
    desk.answers(CONFIG_MAPS, "shop")
    desk.answers(SECRETS, "empty")  # its ConfigMaps were not listed yet
    await desk.clock.advance(301)
    for informer in desk.running:
        informer._heard()  # a bookmark
    desk.watches.track(CONFIG_MAPS, "shop")  # somebody writes one now
    desk.watches.end_idle(300)
    assert desk.watches.tracked(SECRETS, "empty") is None
    assert desk.watches.tracked(CONFIG_MAPS, "empty") is not None
    assert desk.watches.tracked(CONFIG_MAPS, "shop") is not None
    assert desk.watches.tracked(SECRETS, "shop") is not None
    assert desk.watches.tracked(DEPLOYMENTS, EVERYWHERE) is not None
    assert _knows(desk, "empty")  # it was seen to be empty, and only we put anything there
    again = desk.watches.track(SECRETS, "empty")
    assert not again.synced
    assert not _knows(desk, "empty")


async def test_a_kind_that_nobody_uses_is_watched_until_it_was_listed(desk: Desk):
    session: Any = SimpleNamespace(name="m1", link=desk, untrack=desk.watches.untrack)
    registry: Any = SimpleNamespace(names=lambda: ["m1"], get=lambda _: session)
    workloads: Any = SimpleNamespace(informer={}, referring=lambda *_: [])
    context: Any = Context(clock=desk.clock, fresh=lambda: True, registry=registry)
    inventory: Any = None
    idle = IdleKinds(context, workloads=workloads, inventory=inventory)
    desk.watches.track(BUDGETS, EVERYWHERE)
    await idle.sweep()
    assert desk.watches.tracked(BUDGETS, EVERYWHERE), (
        "what the census found there is to be swept first"
    )
    desk.answers(BUDGETS)
    await idle.sweep()
    assert not desk.watches.tracked(BUDGETS, EVERYWHERE)
    desk.watches.track(BUDGETS, EVERYWHERE).last_error = NotFound(
        code=404, reason="NotFound", message="no"
    )
    await idle.sweep()
    assert not desk.watches.tracked(BUDGETS, EVERYWHERE)


def test_an_account_is_named_as_rbac_does():
    assert account("shop", "stowage") == "system:serviceaccount:shop:stowage"


@pytest.mark.proves("R1")
def test_what_comes_late_to_a_watch_that_was_replaced_is_counted_nowhere(desk: Desk):
    """As when a write is answered after its member was lost, and is seen anew."""
    late = desk.at(DEPLOYMENTS, EVERYWHERE)
    desk.answers(DEPLOYMENTS)
    desk.watches.renew()
    late.upsert(secret("shop", "web", "uid-1"))
    assert desk.at(DEPLOYMENTS, EVERYWHERE) is not late
    assert (desk.watches.owned("uid-1"), desk.told) == ([], [])


@pytest.mark.proves("R1")
def test_what_comes_late_to_a_link_that_was_replaced_is_counted_nowhere(desk: Desk):
    late = desk.at(DEPLOYMENTS, EVERYWHERE)
    desk.watches.close()
    late.upsert(secret("shop", "web", "uid-1"))
    assert (desk.watches.owned("uid-1"), desk.told) == ([], [])
