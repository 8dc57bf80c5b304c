"""Claims that a share leaves behind: those of its replicas, where it is placed no more.

No Workload owns them. So `status.kept` has them before the object goes that names them, until they
are gone. Those on a member in mode Pull are noted by its agent, in the status of the Assignment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, Protocol

from crds.fields.shares import MOST_KEPT
from machinery.api.resources import Resource
from machinery.errors import Forbidden, NotFound, TransportError
from machinery.kinds.templates import claims_in
from machinery.types.metadata import Key
from propagator.members.context import ControllerContext
from propagator.members.inventory import main_object, owned
from propagator.members.pods import main_of
from propagator.members.pulled import PullSession
from propagator.members.session import MemberSession
from propagator.types.workload import CLAIM, Workload

CLAIMS: Final = Resource("", "v1", "persistentvolumeclaims", CLAIM)
LOOK_SECONDS = 10.0
"""Seconds between two reads of a claim that was left."""


class Known(Protocol):
    """As much of `HubWorkloads` as is asked."""

    def by_uid(self, uid: str, /) -> Workload | None: ...


class LeftClaims:
    """By Workload (UID) and member. `changed` is called when one is gone."""

    def __init__(
        self,
        context: ControllerContext,
        *,
        workloads: Known,
        changed: Callable[[Key], None],
    ) -> None:
        self._clock = context.clock
        self._registry = context.registry
        self._workloads = workloads
        self._changed = changed
        # Of the Workload, as both outlive the share.
        self._noted = context.shares.column(dict[str, set[Key]])
        self._gone = context.shares.column(set[tuple[str, Key]])

    async def note(
        self, session: MemberSession, workload: Workload, told: Iterable[Mapping[str, Any]]
    ) -> bool:
        """Record what a share would leave; return whether the hub's status already has it.

        `told` are the entries of that. Raises TransportError.
        """
        if isinstance(session, PullSession):
            return True
        main, there = main_of(workload), owned(session, workload.uid)
        live = main_object(main, there)
        if live is None or live.start is None or not workload.profile.data.claims:
            return True
        resource = next(resource for resource, found in there if found is live)
        # An agent that is to remove it has no template.
        body = await _read(session, resource, live.metadata.key)
        names = claims_in(workload.profile, body)
        if not names:
            return True
        noted = self._noted.at(workload.uid).setdefault(session.name, set())
        asked = live.start + (live.replicas or 0)
        for n in range(live.start, live.start + MOST_KEPT):
            keys = [(main.namespace, f"{each}-{main.name}-{n}") for each in names]
            stand = {key for key in keys if key in noted or await _read(session, CLAIMS, key)}
            # A share that was lowered before it left has the claims of further ordinals.
            if (n >= asked and not stand) or len(noted) >= MOST_KEPT:
                break
            noted |= stand
        entries = [*told]
        named = {
            (each.get("namespace"), each.get("name"))
            for each in entries
            if each.get("cluster") == session.name
        }
        return noted <= named or len(entries) >= MOST_KEPT

    def standing(
        self, workload: Workload, told: Iterable[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """Return the entries of status.kept for what was left on members that are looked at here.

        `told` are the previous ones, by the present names of clusters.
        """
        uid = workload.uid
        named = {
            (str(each.get("cluster", "")), _key(each))
            for each in told
            if each.get("kind") == CLAIMS.kind and self._looks(str(each.get("cluster", "")))
        }
        if (gone := self._gone.get(uid)) is not None:
            gone &= named  # a claim of that name may be left once more
        for cluster, key in named - (gone or set()):
            self._noted.at(uid).setdefault(cluster, set()).add(key)
        noted = self._noted.get(uid) or {}
        for cluster in [each for each in noted if not self._looks(each)]:
            del noted[cluster]  # who looks now may have seen it go
        return [
            {"cluster": cluster, "kind": CLAIMS.kind, "namespace": space, "name": name}
            for cluster, keys in noted.items()
            if cluster not in workload.placements
            for space, name in keys
        ]

    def _looks(self, member: str) -> bool:
        session = self._registry.get(member)
        return session is not None and not isinstance(session, PullSession)

    async def run(self) -> None:
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            for uid, member, key in self._all():
                session = self._registry.get(member)
                if session is None or not session.ready:
                    continue
                with suppress(TransportError):
                    if not await _read(session, CLAIMS, key):
                        self._lose(uid, member, key)

    def _all(self) -> list[tuple[str, str, Key]]:
        return [
            (uid, member, key)
            for uid, _ in self._noted
            for member, keys in self._noted.at(uid).items()
            for key in sorted(keys)
        ]

    def _lose(self, uid: str, member: str, key: Key) -> None:
        workload = self._workloads.by_uid(uid)
        if workload is None:
            self._noted.pop(uid)  # it went while this was noted
            return
        self._noted.at(uid).get(member, set()).discard(key)
        self._gone.at(uid).add((member, key))
        self._changed(workload.metadata.key)


def _key(entry: Mapping[str, Any]) -> Key:
    return str(entry.get("namespace", "")), str(entry.get("name", ""))


async def _read(session: MemberSession, resource: Resource, key: Key) -> dict[str, Any]:
    """Return the object; empty if it is not there, or may not be read."""
    try:
        return await session.client_for(key[0]).get(resource, key[1], namespace=key[0])
    except (Forbidden, NotFound):
        return {}
