"""Whether a hub enforces our policies is tried by a canary, and not read off a name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from crds.names import ADMISSION_POLICY
from machinery.api.resources import (
    MUTATING_ADMISSION_POLICY_BINDINGS,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
)
from machinery.discovery import enforcement
from machinery.discovery.enforcement import RETRY_SECONDS, TRY_SECONDS, InForce
from machinery.errors import Forbidden
from machinery.tasks import end
from tests.fakeclock import FakeClock
from tests.memoryhub import MemoryHub

pytestmark = pytest.mark.proves("N14")
BOTH = pytest.mark.parametrize("flavour", [enforcement.validating, enforcement.mutating])


@asynccontextmanager
async def watched(policy: InForce, clock: FakeClock) -> AsyncIterator[None]:
    """It runs, and has seen what is there."""
    running = asyncio.create_task(policy.run())
    try:
        await clock.advance(0.5)
        yield
    finally:
        await end([running])


@BOTH
async def test_a_policy_that_is_there_and_does_nothing_is_not_in_force(flavour):
    clock = FakeClock()
    hub = MemoryHub(clock=clock)
    hub.enforces = False
    policy = flavour(hub, clock=clock)
    async with watched(policy, clock):
        assert policy.known
        assert not policy()
        hub.enforces = True
        await clock.advance(RETRY_SECONDS)
        assert policy()


@BOTH
async def test_one_that_ceases_to_do_its_work_is_found_out(flavour):
    clock = FakeClock()
    hub = MemoryHub(clock=clock)
    policy = flavour(hub, clock=clock)
    async with watched(policy, clock):
        assert policy.known
        assert policy()
        hub.enforces = False
        await clock.advance(TRY_SECONDS - 1)
        assert policy()
        await clock.advance(1)
        assert not policy()
        assert policy.known


async def test_whoever_judges_instead_hears_of_it():
    clock = FakeClock()
    hub = MemoryHub(clock=clock)
    told: list[bool] = []
    policy = enforcement.validating(hub, clock=clock, changed=lambda: told.append(policy()))
    async with watched(policy, clock):
        hub.enforces = False
        await clock.advance(TRY_SECONDS)
    assert told[-2:] == [True, False]


@BOTH
async def test_where_it_cannot_be_tried_what_stands_there_is_believed(flavour, monkeypatch):
    async def refused(*_, **__):
        raise Forbidden(code=403, reason="Forbidden", message="may not create workloads")

    clock = FakeClock()
    hub = MemoryHub(clock=clock)
    monkeypatch.setattr(hub, "create", refused)
    policy = flavour(hub, clock=clock)
    async with watched(policy, clock):
        assert policy.known
        assert policy()
        for bindings in (VALIDATING_ADMISSION_POLICY_BINDINGS, MUTATING_ADMISSION_POLICY_BINDINGS):
            hub.remove(bindings, ADMISSION_POLICY)
        await clock.advance(0.1)
        assert not policy()


async def test_nothing_is_tried_where_there_is_no_policy(monkeypatch):
    async def sent(*_, **__):
        raise AssertionError

    clock = FakeClock()
    hub = MemoryHub(clock=clock, admission=False)
    monkeypatch.setattr(hub, "create", sent)
    policy = enforcement.validating(hub, clock=clock)
    async with watched(policy, clock):
        assert policy.known
        assert not policy()
        await clock.advance(TRY_SECONDS)
