"""Objects of tenants, as Secrets: what is asked of a hub that shows them, does not, does again, and no more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from machinery.api.resources import SECRETS
from machinery.api.verbs import ServerHistory
from machinery.errors import Forbidden, Unreachable
from machinery.pace import ServerBudget
from machinery.tasks import end
from machinery.types.memory_budget import BudgetShare
from propagator.hub.named_objects import NamedObjects, NoTenant
from propagator.types.hub_objects import HubSecret
from tests.fakeclock import FakeClock, settle

KEY = ("shop", "db")


class Hub:
    """Has one Secret in each namespace, and shows those of `tenants`."""

    def __init__(self) -> None:
        self.tenants: set[str] = set()
        self.away = False
        self.asked = 0
        self.read = 0
        self.version = "7"
        self.pace = ServerBudget(FakeClock())
        self.holding = BudgetShare()
        self.history = ServerHistory()
        self._ended = asyncio.Event()

    def refuse(self, what: str) -> None:
        raise AssertionError(what)

    def end_watches(self) -> None:
        self._ended.set()
        self._ended = asyncio.Event()

    async def pages(self, resource: Any, *, namespace: str, **_: Any) -> AsyncIterator[bytes]:
        self._ask(namespace)
        listed = {
            "metadata": {"resourceVersion": self.version},
            "items": [_secret(namespace, self.version)],
        }
        yield msgspec.json.encode(listed)

    async def latest(self, resource: Any, *, namespace: str, **_: Any) -> str:
        self._ask(namespace)
        return self.version

    @asynccontextmanager
    async def watch(self, resource: Any, *, namespace: str, **_: Any) -> AsyncIterator[Any]:
        self._ask(namespace)

        async def lines(ended: asyncio.Event) -> AsyncIterator[bytes]:
            await ended.wait()
            for line in ():
                yield line

        yield lines(self._ended)

    async def find(self, resource: Any, name: str, *, namespace: str) -> dict[str, Any]:
        self.read += 1
        password = "b25l" if self.version == "7" else "dHdv"
        of = _secret(namespace, self.version)
        return of | {"data": {"password": password}, "type": "Opaque"}

    def _ask(self, namespace: str) -> None:
        self.asked += 1
        if self.away:
            raise Unreachable("no route to host")
        if namespace not in self.tenants:
            raise Forbidden(code=403, reason="Forbidden", message="secrets are not for you")


def _secret(namespace: str, version: str) -> dict[str, Any]:
    meta = {"name": "db", "namespace": namespace, "uid": "u", "resourceVersion": version}
    return {"metadata": meta}


@pytest.fixture
async def parts() -> AsyncIterator[tuple[Hub, NamedObjects[HubSecret], FakeClock, list[Any]]]:
    hub, clock, changed = Hub(), FakeClock(), []
    secrets = NamedObjects(hub, SECRETS, HubSecret, clock=clock, changed=changed.append)  # type: ignore[arg-type]  # a fake
    running = asyncio.create_task(secrets.run())
    await settle()
    yield hub, secrets, clock, changed
    await end([running])


@pytest.mark.proves("C27", "N15")
async def test_a_namespace_that_is_no_tenant_is_asked_about_seldom_and_heals_by_itself(parts):
    hub, secrets, clock, changed = parts
    secrets.need(KEY)
    await clock.advance(1)
    for _ in range(200):  # so often as its Workloads are looked at on their members
        with pytest.raises(NoTenant, match="stowage tenant add shop"):
            await secrets.get(KEY)
    await clock.advance(600)
    assert hub.asked < 50
    assert hub.read == 0
    assert changed == [KEY], "its Workloads are told once"

    hub.tenants.add("shop")
    await clock.advance(31)
    assert changed == [KEY, KEY]
    found = await secrets.get(KEY)
    assert found is not None
    assert found.data == {"password": "b25l"}
    assert await secrets.get(KEY) is found
    assert hub.read == 1


@pytest.mark.proves("N15")
async def test_one_that_is_a_tenant_no_more_is_told_and_keeps_no_value(parts):
    hub, secrets, clock, changed = parts
    hub.tenants.add("shop")
    secrets.need(KEY)
    await clock.advance(1)
    assert await secrets.get(KEY)
    changed.clear()
    hub.tenants.clear()
    hub.end_watches()
    await clock.advance(2)
    assert KEY in changed
    with pytest.raises(NoTenant):
        await secrets.get(KEY)
    hub.tenants.add("shop")
    await clock.advance(31)
    assert await secrets.get(KEY)
    assert hub.read == 2, "its values were read anew"


@pytest.mark.proves("N15", "R8")
async def test_a_hub_that_does_not_answer_is_no_refusal(parts):
    hub, secrets, clock, _ = parts
    hub.away = True
    hub.tenants.add("shop")
    secrets.need(KEY)
    with pytest.raises(Unreachable):
        await secrets.get(KEY)
    hub.away = False
    await clock.advance(31)
    assert await secrets.get(KEY)
    hub.away = True
    hub.end_watches()
    await clock.advance(31)
    assert await secrets.get(KEY), "what was seen stands"


@pytest.mark.proves("N15")
async def test_each_namespace_stands_for_itself_and_is_watched_while_a_secret_is_named(parts):
    hub, secrets, clock, _ = parts
    hub.tenants.add("web")
    for key in (KEY, ("web", "db"), ("web", "other")):
        secrets.need(key)
    await clock.advance(1)
    assert await secrets.get(("web", "db"))
    assert await secrets.get(("web", "other")) is None
    with pytest.raises(NoTenant):
        await secrets.get(KEY)
    secrets.drop(("web", "db"))
    assert await secrets.get(("web", "other")) is None
    secrets.drop(("web", "other"))
    secrets.drop(KEY)
    await settle()
    asked = hub.asked
    await clock.advance(300)
    hub.end_watches()
    await clock.advance(300)
    assert hub.asked == asked, "nobody names one any more"
    assert await secrets.get(KEY) is None


@pytest.mark.proves("DP2", "N15")
async def test_an_object_of_two_users_is_watched_until_neither_names_it(parts):
    hub, secrets, clock, _ = parts
    hub.tenants.add("shop")
    for user in ("resources", "dependencies"):
        secrets.need(KEY, user)
    await clock.advance(1)
    secrets.drop(KEY, "resources")
    assert await secrets.get(KEY)
    secrets.drop(KEY, "dependencies")
    assert await secrets.get(KEY) is None


@pytest.mark.proves("DP10")
async def test_one_whose_metadata_say_enough_is_not_read(parts):
    hub, secrets, clock, _ = parts
    hub.tenants.add("shop")
    secrets.need(KEY)
    await clock.advance(1)
    found = await secrets.get(KEY, unless=lambda known: known.metadata.name == "db")
    assert found is not None
    assert (found.metadata.name, found.data, hub.read) == ("db", {}, 0)
    assert await secrets.get(KEY)
    assert hub.read == 1


@pytest.mark.proves("N15")
async def test_a_watch_that_ends_by_a_fault_of_ours_ends_the_run() -> None:
    """It is started anew with its process; without that, Workloads would wait for it for ever."""

    class Faulty(Hub):
        def _ask(self, namespace: str) -> None:
            raise RuntimeError("a fault of ours")

    hub, clock = Faulty(), FakeClock()
    changed: list[Any] = []
    secrets = NamedObjects(hub, SECRETS, HubSecret, clock=clock, changed=changed.append)  # type: ignore[arg-type]  # a fake
    running = asyncio.create_task(secrets.run())
    await settle()
    secrets.need(KEY)
    await clock.advance(1)
    with pytest.raises(RuntimeError, match="a fault of ours"):
        await running


@pytest.mark.proves("B1")
async def test_what_was_read_in_a_term_before_anothers_is_read_anew() -> None:
    """Leaders A, B, A: what B has brought along is not written over with what A had read."""
    hub, clock, changed = Hub(), FakeClock(), list[Any]()
    hub.tenants.add("shop")
    secrets = NamedObjects(hub, SECRETS, HubSecret, clock=clock, changed=changed.append)  # type: ignore[arg-type]  # a fake
    secrets.need(KEY)
    first = asyncio.create_task(secrets.run())
    await clock.advance(1)
    before = await secrets.get(KEY)
    assert before is not None
    assert before.data == {"password": "b25l"}
    await end([first])

    hub.version, hub.away = "9", True  # rotated in the term of another
    changed.clear()
    secrets.clear()
    second = asyncio.create_task(secrets.run())
    await clock.advance(1)
    with pytest.raises(Unreachable):
        await secrets.get(KEY)
    hub.away = False
    await clock.advance(31)
    after = await secrets.get(KEY)
    assert after is not None
    assert after.data == {"password": "dHdv"}
    assert KEY in changed
    secrets.drop(KEY)
    await end([second])
    assert await secrets.get(KEY) is None


@pytest.mark.proves("B1")
async def test_nothing_is_answered_before_the_first_list_of_a_term() -> None:
    hub, clock = Hub(), FakeClock()
    hub.tenants.add("shop")
    secrets = NamedObjects(hub, SECRETS, HubSecret, clock=clock, changed=lambda _: None)  # type: ignore[arg-type]  # a fake
    secrets.need(KEY)
    first = asyncio.create_task(secrets.run())
    await clock.advance(1)
    await end([first])
    secrets.clear()
    asked = asyncio.create_task(secrets.get(KEY))
    await settle()
    assert not asked.done()
    hub.version = "9"
    second = asyncio.create_task(secrets.run())
    await clock.advance(1)
    found = await asked
    assert found is not None
    assert found.data == {"password": "dHdv"}
    await end([second])
