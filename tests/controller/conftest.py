"""Hubs of the controller's live tests: `hub`, and two with less of admission."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from stowage.playground import flags

from .live import World, install, world_on


@pytest.fixture(scope="session")
def bare_hub(make_cluster: Callable[..., Any]) -> Any:
    """A hub that has our kinds but none of the admission policies."""
    cluster = make_cluster("bare-hub")
    asyncio.run(install(cluster, policies=False))
    return cluster


@pytest.fixture(scope="session")
def older_hub(make_cluster: Callable[..., Any]) -> Any:
    """A hub as before Kubernetes 1.36: its validating policy refuses, nothing normalises."""
    cluster = make_cluster("older-hub", server_flags=flags.BEFORE_1_36)
    asyncio.run(install(cluster, policies=True))
    return cluster


@pytest.fixture
async def world(hub: Any) -> AsyncIterator[World]:
    """An empty hub with admission policies."""
    async with world_on(hub, "shop") as world:
        yield world


@pytest.fixture
async def bare_world(bare_hub: Any) -> AsyncIterator[World]:
    """An empty hub without admission policies."""
    async with world_on(bare_hub, "shop") as world:
        yield world


@pytest.fixture
async def older_world(older_hub: Any) -> AsyncIterator[World]:
    """An empty hub with the validating policy alone."""
    async with world_on(older_hub, "shop") as world:
        yield world
