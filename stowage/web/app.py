"""`stowage ui`: the page on this machine, with the reader's own kubeconfig or from files alone.

Each page is a GET that answers HTML, or with `?format=json` or `Accept: application/json` its data.
The one POST is the what-if. Nothing is written anywhere.
"""

from __future__ import annotations

import asyncio
import webbrowser
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from machinery.clock import SystemClock
from machinery.config.kubeconfig import Connection
from machinery.http_server import HttpServer
from stowage.console.terminal import say
from stowage.report.memberpods import Members
from stowage.simulation.plan import Where
from stowage.web import source
from stowage.web.live import LiveFeed
from stowage.web.pages import HEADERS, WebPages
from stowage.web.session import KeyDoor, Sessions, secret_of_user
from stowage.web.source import FleetSource
from stowage.web.visit import Door, Sights
from stowage.web.workers import Workers

WHAT_IFS = 2
"""What-ifs that are computed at once."""
SECONDS = 10.0
"""A what-if, or an explanation, takes no longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UiSettings:
    """What to show, and where to listen.

    Args:
        where: the fleet and the profiles that decide; its hub is the one that is followed.
        files: what is shown as planned, with a fleet of files.
        namespaces: where to look on a hub whose objects may not be listed over all namespaces.
        system: where Stowage lives on the hub.
        port: 0 for any that is free.
        members: how the reader reaches the members, for the pods of a Workload.
    """

    where: Where
    files: Sequence[str] = ()
    namespaces: Sequence[str] = ()
    system: str = "stowage-system"
    host: str = "127.0.0.1"
    port: int = 0
    browser: bool = True
    members: Members | None = None


async def run(settings: UiSettings, *, opened: Callable[[str], None] = lambda _: None) -> None:
    """Serve the page until cancelled; print its address, and call `opened` with it.

    Raises ConfigurationError, TransportError, OSError for a port that is taken.
    """
    async with AsyncExitStack() as stack:
        found = await _source(settings, stack)
        sessions = Sessions(secret_of_user())
        system = settings.system if settings.where.hub is not None else ""
        sights = Sights(found.snapshot, system=system, clock=SystemClock())
        door = KeyDoor(sessions, sights)
        server, site = serving(found, door, settings.where, members=settings.members)
        stack.push_async_callback(site.close)
        port = await server.start(settings.host, settings.port)
        stack.push_async_callback(server.stop)
        stack.callback(site.feed.close)
        await site.explaining.warm()
        address = f"http://{settings.host}:{port}/?key={sessions.key}"
        say(f"{found.title}: {address}")
        opened(address)
        if settings.browser:
            await asyncio.to_thread(webbrowser.open, address)
        await asyncio.Event().wait()


async def _source(settings: UiSettings, stack: AsyncExitStack) -> FleetSource:
    hub: Connection | None = settings.where.hub
    if hub is None:
        return source.of_files(settings.files, settings.where)
    namespaces = settings.namespaces or (settings.where.namespace,)
    followed = source.of_hub(hub, namespaces, settings.system)
    return await stack.enter_async_context(followed)


def serving(
    found: FleetSource,
    door: Door,
    where: Where,
    *,
    patience: float = 0.0,
    members: Members | None = None,
) -> tuple[HttpServer, WebPages]:
    """Return the server of that source, not yet started, and its site, to be closed after it.

    An explanation waits `patience` seconds for those of others.
    """
    site = WebPages(
        found,
        door,
        where,
        feed=LiveFeed(found.snapshot),
        explaining=Workers(found.snapshot, most=1, seconds=SECONDS, patience=patience),
        supposing=Workers(found.snapshot, most=WHAT_IFS, seconds=SECONDS),
        clock=SystemClock(),
        members=members,
    )
    server = HttpServer(HEADERS)
    site.route(server)
    return server, site
