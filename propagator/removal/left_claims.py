"""Claims that a share leaves behind: those of its replicas, where it is placed no more.

No Workload owns them. So `status.kept` has them before the object goes that names them, until they
are gone. Those on a member in mode Pull are noted by its agent, in the status of the Assignment.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
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
from propagator.types.workload import Workload

CLAIMS: Final = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
LOOK_SECONDS = 10.0
"""Seconds between two reads of a claim that was left."""


class Known(Protocol):
    """As much of `HubWorkloads` as is asked."""

    def by_uid(self, uid: str, /) -> Workload | None: ...

    def formerly(self, member: str, /) -> Collection[str]: ...


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
        """Return the entries of status.kept for what was left.

        `told` are the previous ones, by the present names of clusters.
        """
        uid, gone = workload.uid, self._gone.get(workload.uid) or ()
        for each in told:
            key = (str(each.get("namespace", "")), str(each.get("name", "")))
            cluster = str(each.get("cluster", ""))
            if each.get("kind") == CLAIMS.kind and (cluster, key) not in gone:
                noted = self._noted.at(uid)
                noted.setdefault(cluster, set()).add(key)
                for former in self._workloads.formerly(cluster):
                    noted[cluster] |= noted.pop(former, set())
        return [
            {"cluster": cluster, "kind": CLAIMS.kind, "namespace": space, "name": name}
            for cluster, keys in (self._noted.get(uid) or {}).items()
            if cluster not in workload.placements
            and not isinstance(self._registry.get(cluster), PullSession)
            for space, name in keys
        ]

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


async def _read(session: MemberSession, resource: Resource, key: Key) -> dict[str, Any]:
    """Return the object; empty if it is not there, or may not be read."""
    try:
        return await session.client_for(key[0]).get(resource, key[1], namespace=key[0])
    except (Forbidden, NotFound):
        return {}
