"""A hub that knows who may what, and the hosted page over files in front of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, cast

from machinery.api.resources import SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS, Resource
from machinery.api.verbs import Verbs
from machinery.clock import SystemClock
from machinery.errors import BadRequest, Unreachable
from stowage.simulation.plan import Where
from stowage.web import source
from stowage.web.app import serving
from stowage.web.hosted import TokenDoor
from stowage.web.login import SealedTokens, key_of_process
from stowage.web.visit import Sights


class Reviewer:
    """A hub that answers reviews by a table of rights, and counts them."""

    def __init__(self) -> None:
        self.rights: set[tuple[str, str, str]] = set()
        """Verb, resource and namespace, the last empty for all."""
        self.asked: list[str] = []
        self.at_once = self.most = 0
        self.gate: asyncio.Event | None = None
        self.down = False

    async def create(self, res: Resource, body: Mapping[str, Any]) -> dict[str, Any]:
        self.asked.append(res.kind)
        if self.down:
            raise Unreachable("no route to host")
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        if self.gate is not None:
            await self.gate.wait()
        self.at_once -= 1
        spec = body["spec"]
        if res == TOKEN_REVIEWS:
            if spec["token"] == "broken":
                raise BadRequest(code=400, reason="BadRequest", message="no token at all")
            user = {"username": spec["token"].removeprefix("of-"), "groups": ["g"]}
            return {"status": {"authenticated": spec["token"].startswith("of-"), "user": user}}
        assert res == SUBJECT_ACCESS_REVIEWS
        about = spec["resourceAttributes"]
        asked = (about["verb"], about["resource"], about.get("namespace", ""))
        return {"status": {"allowed": asked in self.rights}}


async def run(file: str, reviewer: Reviewer, opened: Callable[[str], None]) -> None:
    """Serve the hosted page over the fleet of a file until cancelled."""
    where, clock = Where("default", (file,)), SystemClock()
    found = source.of_files((), where)
    sights = Sights(found.snapshot, system="", clock=clock)
    cookies = SealedTokens(key_of_process())
    door = TokenDoor(cast("Verbs", reviewer), sights, cookies, clock)
    server, site = serving(found, door, where)
    try:
        opened(f"http://127.0.0.1:{await server.start('127.0.0.1', 0)}/")
        await asyncio.Event().wait()
    finally:
        site.feed.close()
        await server.stop()
        await site.close()
