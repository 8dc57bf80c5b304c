"""The kinds that one member serves, of groups with a dot, read anew while it answers.

A kind that is not known to be missing refuses no cluster.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

from crds.membercluster import MOST_SERVED, SERVED
from machinery.api.client import ApiClient, Seen
from machinery.api.kinds import AGGREGATED, ServedKinds, served_kinds
from machinery.api.lanes import ALL_KINDS
from machinery.clock import Clock
from machinery.errors import Forbidden, TransportError
from machinery.types.bounds import DISCOVERY_SECONDS, MOST_UNITS
from propagator.settings import JITTER, paced
from propagator.types.cluster import shared_kinds

LOOK_SECONDS = 5.0
"""Seconds between two looks, mostly answered by `unchanged`: there is no watch of kinds. More in
a large fleet, see `paced`.
"""
_LONGEST = 381
_SERVED = re.compile(SERVED)


class KindsOfMember:
    def __init__(
        self,
        client: ApiClient,
        *,
        clock: Clock,
        notify: Callable[[], None],
        members: Callable[[], int],
    ) -> None:
        self._client = client
        self._members = members
        self._clock = clock
        self._notify = notify
        self._seen = Seen()
        self.facts: dict[str, Any] = {"kinds": None, "kindsOmitted": 0}
        """The fields of MemberCluster.status; None for kinds that are not known."""
        self.asked = False
        """Whether the member has answered, or refused to."""

    async def run(self) -> None:
        while True:
            await self.look()
            jitter = random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - no secret
            await self._clock.sleep(paced(LOOK_SECONDS, self._members()) * jitter)

    async def look(self) -> None:
        """A fault keeps the last answer."""
        try:
            answer = await self._client.request(
                "GET",
                "/apis",
                accept=AGGREGATED,
                timeout=DISCOVERY_SECONDS,
                errand=ALL_KINDS,
                seen=self._seen,
            )
            if not answer:
                return
            found = served_kinds(answer)
        except Forbidden:
            found, self._seen.etag = None, ""  # else the same answer would be no news later
        except TransportError:
            self._seen.etag = ""
            return
        facts = _facts(found)
        if facts != self.facts or not self.asked:
            self.facts, self.asked = facts, True
            self._notify()


def _facts(found: ServedKinds | None) -> dict[str, Any]:
    if found is None:
        return {"kinds": None, "kindsOmitted": 0}
    named = sorted("/".join(each) for each in found.kinds if "." in each[0])
    valid = [each for each in named if len(each) <= _LONGEST and _SERVED.fullmatch(each)]
    listed = shared_kinds(tuple(valid[:MOST_SERVED]))
    omitted = len(named) - len(listed) + found.hidden
    return {"kinds": listed, "kindsOmitted": min(omitted, MOST_UNITS)}
