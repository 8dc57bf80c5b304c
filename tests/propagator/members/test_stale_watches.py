"""A member whose probes are answered and whose watches are not: nothing is concluded from those."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from machinery.api.client import ApiClient
from machinery.api.resources import USUAL, Resource
from machinery.config.kubeconfig import Connection
from machinery.errors import Forbidden, TransportError, Unreachable
from machinery.runtime.informer import Informer
from propagator.credentials.credentials import Credentials
from propagator.hub.revisions import Revisions
from propagator.members.connection import Link, LinkListener
from propagator.members.context import ControllerContext
from propagator.members.health import CONNECTED, Contact, HealthProbe
from propagator.members.inventory import OwnedObjects, listed
from propagator.members.objects import ManagedObject
from propagator.members.session import MemberSession
from propagator.shares import ShareTable
from propagator.status.observation import Survey
from propagator.types.workload import workload_of
from tests.fakeclock import FakeClock
from tests.propagator.conftest import QUICK, unregistered
from tests.propagator.contexts import Context

DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
WORKLOAD = workload_of(
    {
        "metadata": {"namespace": "shop", "name": "w", "uid": "u1", "generation": 1},
        "spec": {"targetDeployment": DEPLOYMENT},
        "status": {"placements": [{"cluster": "m1", "replicas": 1}]},
    },
)

NO_ROLLOUT = Revisions(cast("ApiClient", None), ShareTable())
"""Of Workloads without one nothing is asked."""


def cut_off(
    clock: FakeClock, fault: TransportError, *, counted: Callable[[], None] = lambda: None
) -> Link:
    """A link whose kinds have all been listed, and that heard nothing afterwards."""
    nobody = LinkListener(
        verdict=lambda verdict: None,
        managed=lambda old, new: None,
        pods=lambda uids: None,
        facts=lambda: None,
        counted=counted,
    )
    link = Link(
        Credentials(Connection(server="http://127.0.0.1:1")),
        name="m1",
        settings=QUICK,
        clock=clock,
        resources=USUAL,
        listener=nobody,
        health=HealthProbe(),
        before_write=lambda: None,
        identities=unregistered(),
    )
    for informer in link.watches:
        informer._synced.set()
        informer._heard()
        informer.last_error = fault
    return link


class Member:
    """A session that serves."""

    name, ready, contact, message, former = "m1", True, Contact.SERVING, "", ()

    def __init__(self, link: Link) -> None:
        self.link = link

    def track(self, resource: Resource, namespace: str) -> Informer[ManagedObject]:
        return self.link.watches.track(resource, namespace)

    def pod_counts(self, main: Any) -> None:
        return None


Cut = Callable[[TransportError], tuple[MemberSession, ControllerContext]]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def cut(clock: FakeClock) -> Cut:
    def make(fault: TransportError) -> tuple[MemberSession, ControllerContext]:
        session = cast("MemberSession", Member(cut_off(clock, fault)))
        registry = SimpleNamespace(
            get=lambda name: session, names=lambda: ["m1"], holders=lambda uid: {"m1"}
        )
        clusters = SimpleNamespace(synced=True, get=lambda key: None)
        context = Context(registry=registry, clusters=clusters, clock=clock)
        return session, cast("ControllerContext", context)

    return make


@pytest.mark.proves("R11")
async def test_what_was_not_heard_of_for_long_is_not_known(cut: Cut, clock: FakeClock):
    session, context = cut(Unreachable("https://10.0.0.1: no answer in time"))
    inventory = OwnedObjects(context)
    survey = Survey(context, inventory=inventory, revisions=NO_ROLLOUT)
    assert inventory.knows(session, WORKLOAD)
    assert await listed(session, USUAL[0], clock=clock) is not None
    contacts = [each.contact async for each in survey.seen(WORKLOAD, {})]
    assert contacts == [Contact.SERVING]
    await clock.advance(600)
    assert not inventory.knows(session, WORKLOAD), "a deletion would not be shown"
    with pytest.raises(Unreachable):
        await listed(session, USUAL[0], clock=clock)
    contacts = [each.contact async for each in survey.seen(WORKLOAD, {})]
    assert contacts == [Contact.CONNECTING], "what was said stands"


@pytest.mark.proves("R11")
async def test_a_kind_that_may_be_watched_no_longer_counts_as_hidden(cut: Cut, clock: FakeClock):
    session, context = cut(Forbidden(code=403, reason="Forbidden", message="not for you"))
    inventory = OwnedObjects(context)
    assert inventory.hidden(session, WORKLOAD) == {}
    await clock.advance(600)
    assert {kind.plural for kind in inventory.hidden(session, WORKLOAD)} >= {"deployments"}
    with pytest.raises(Forbidden):
        await listed(session, USUAL[0], clock=clock)
    await asyncio.sleep(0)


async def test_a_list_is_waited_for_over_a_change_of_credentials(clock: FakeClock):
    """The informer of the old ones ends unheard, and never says so."""
    informers = [SimpleNamespace(trusted=False, last_error=None)]
    session = cast("MemberSession", SimpleNamespace(track=lambda *_: informers[-1]))
    waiting = asyncio.create_task(listed(session, USUAL[0], clock=clock))
    await clock.advance(1)
    assert not waiting.done()
    informers.append(SimpleNamespace(trusted=True, last_error=None))
    await clock.advance(1)
    assert waiting.done()
    assert await waiting is informers[-1]


async def fails(informer: Informer[Any]) -> None:
    informer._tried.set()
    await asyncio.Event().wait()


@pytest.mark.proves("B15")
async def test_pods_and_nodes_are_not_believed_before_their_resumed_watches_have_spoken(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
):
    told, fault = list[str](), Unreachable("the connection was cut")
    link = cut_off(clock, fault, counted=lambda: told.append("counted"))
    for informer in (link._pods, link._nodes):
        informer._synced.set()
        informer._heard()
        informer.last_error = fault
    assert link.counted
    assert link.measured
    for informer in link.informers:
        monkeypatch.setattr(informer, "step", functools.partial(fails, informer))
    monkeypatch.setattr(link.watches, "renew", lambda: None)
    monkeypatch.setattr(link.probe, "until_lost", lambda _: asyncio.Event().wait())
    serving = asyncio.create_task(link._serve(CONNECTED))
    await clock.advance(1)
    assert link.serving
    assert not link.counted, "as it was before the cut"
    assert not link.measured
    link._pods._heard()
    await clock.advance(1)
    assert link.counted
    assert told == ["counted"]
    assert not link.measured
    link._nodes._heard()
    assert link.measured
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    await link.client.close()
