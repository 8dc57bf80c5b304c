"""The member sessions of this process, and the listeners for their changes.

A fault ends one session, which restarts after a pause. Sessions read as long as they exist; their
workers run within `work`, a term of leadership.
"""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from machinery import logs
from machinery.clock import Clock
from machinery.errors import LeaseLost, TransportError
from machinery.tasks import end
from machinery.types.metadata import Key
from propagator.members.cluster_identity import Identities
from propagator.members.hub_lease import Holder, no_holder
from propagator.members.pulled import PullSession, PullSource
from propagator.members.session import Holders, MemberSession, Reconcile
from propagator.settings import SessionSettings

ChangeListener: TypeAlias = Callable[[str, Key | None], None]
"""(member's name, Workload's key). No key: everything about that member may have changed.

Called often, in the event loop: it must not block.
"""

LOG = logs.get(__name__)
_RESTART_PAUSE = 5.0
_LANDING_PAUSE = 0.05
"""Seconds between two looks whether a write was answered."""


class MemberRegistry:
    """`before_write` is called before each attempt of a write to a member, and raises LeaseLost.

    `holder` returns the hub that the Leases on members name, `mark` what ends each User-Agent.
    """

    def __init__(
        self,
        *,
        settings: SessionSettings,
        clock: Clock,
        before_write: Callable[[], float | None],
        identities: Identities,
        holder: Holder = no_holder,
        mark: Callable[[], str] = str,
    ) -> None:
        self._mark = mark
        self.identities = identities
        self._before_write = before_write
        self._holder = holder
        self._settings = settings
        self._clock = clock
        self._sessions: dict[str, MemberSession] = {}
        self._pulls = 0
        self._holders = Holders()
        self._reconcile: Reconcile | None = None  # while the workers run
        self.key_of: Callable[[str], Key | None] = lambda _: None
        """Returns the key of a Workload that is known, by its UID."""
        self._on_change: list[ChangeListener] = []
        self._on_facts: list[Callable[[str], None]] = []

    def get(self, name: str) -> MemberSession | None:
        return self._sessions.get(name)

    def names(self) -> list[str]:
        return sorted(self._sessions)

    @property
    def pulls(self) -> bool:
        """Whether any member is in mode Pull."""
        return self._pulls > 0

    def gave_up(self, name: str) -> bool:
        return self.identities.gave_up(name)

    def holders(self, uid: str) -> set[str]:
        return self._holders.of(uid)

    def wake(self, name: str, key: Key) -> None:
        """Ignores back-off; a no-op without such a member."""
        session = self._sessions.get(name)
        if session is not None:
            session.wake(key)

    def on_change(self, listener: ChangeListener) -> None:
        """Call `listener` when readiness, unit counts or objects of ours changed.

        An admitted or dropped member calls it with (name, None).
        """
        self._on_change.append(listener)

    def on_facts(self, listener: Callable[[str], None]) -> None:
        self._on_facts.append(listener)

    def look_again(self, name: str) -> None:
        self._changed(name, None)

    def tell_facts(self, name: str) -> None:
        """Have the member's status looked at."""
        self._facts(name)

    def admit(self, name: str, pull: PullSource | None = None) -> MemberSession:
        """Return the session, begun if there is none; `pull` is that of a member in mode Pull."""
        session = self._sessions.get(name)
        if session is None:
            shared: dict[str, Any] = {
                "settings": self._settings,
                "clock": self._clock,
                "changed": self._changed,
                "key_of": self.key_of,
                "facts": self._facts,
                "before_write": self._before_write,
                "holder": self._holder,
                "holders": self._holders,
                "identities": self.identities,
                "members": lambda: len(self._sessions),
                "mark": self._mark,
            }
            if pull is None:
                session = MemberSession(name, **shared)
            else:
                session = PullSession(name, source=pull, **shared)
                self._pulls += 1
            self._sessions[name] = session
            session.task = asyncio.create_task(
                self._keep(session, session.run), name=f"member {name}"
            )
            if self._reconcile is not None:
                self._start_workers(session, self._reconcile)
            self._changed(name, None)
        return session

    async def drop(self, name: str) -> None:
        """Nothing changes on the member."""
        session = self._sessions.pop(name, None)
        if session is None:
            return
        self._pulls -= isinstance(session, PullSession)
        await end(_tasks(session))
        self.identities.forget(name)
        self._changed(name, None)

    async def hand_over(self, name: str) -> None:
        """Drop the member once no write of ours can take effect there any more."""
        session = self._sessions.get(name)
        if session is None:
            return
        session.handed_over = True
        try:
            await self._landed(session)  # workers end well, or their time is over
            await self.drop(name)
        finally:
            session.handed_over = False

    async def let_go(self, name: str) -> None:
        """As `hand_over`, to an agent or another name: the Lease there is let go of as well."""
        session = self._sessions.get(name)
        if session is None:
            return
        if session.workers is not None:
            await end([session.workers])  # from here on nothing but the Lease is written
            session.workers = None
        await self._landed(session)
        if session.link is not None:
            try:
                await session.link.let_go()
            except (LeaseLost, TransportError) as fault:
                LOG.info("its Lease is not let go of: %s", fault, extra={"object": name})
        await self.drop(name)

    async def _landed(self, session: MemberSession) -> None:
        while (left := session.writes.seconds) > 0:
            await self._clock.sleep(min(left, _LANDING_PAUSE))

    async def close(self) -> None:
        """Calls no listeners."""
        tasks = [task for each in self._sessions.values() for task in _tasks(each)]
        self._sessions.clear()
        await end(tasks)

    async def work(self, reconcile: Reconcile) -> None:
        """Run the workers until cancelled. `reconcile` is called only while the member is ready."""
        self._reconcile = reconcile
        for session in self._sessions.values():
            self._start_workers(session, reconcile)
        try:
            await asyncio.Event().wait()
        finally:
            self._reconcile = None
            working = [each.workers for each in self._sessions.values() if each.workers]
            for each in self._sessions.values():
                each.workers = None
            await end(working)

    def _start_workers(self, session: MemberSession, reconcile: Reconcile) -> None:
        session.workers = asyncio.create_task(
            self._keep(session, functools.partial(session.work, reconcile)),
            name=f"workers of {session.name}",
        )

    async def _keep(self, session: MemberSession, doing: Callable[[], Awaitable[None]]) -> None:
        while True:
            await self._attempt(session, doing)
            await self._clock.sleep(_RESTART_PAUSE * random.uniform(0.5, 1.5))  # noqa: S311 - jitter

    async def _attempt(self, session: MemberSession, doing: Callable[[], Awaitable[None]]) -> None:
        try:
            await doing()
        except Exception:  # a bug met on one member must not stop the others
            LOG.exception(
                "member session failed, starting it again", extra={"object": session.name}
            )
            session.failed()

    def _changed(self, name: str, key: Key | None) -> None:
        for listener in self._on_change:
            listener(name, key)
        if key is None:
            self._facts(name)

    def _facts(self, name: str) -> None:
        for listener in self._on_facts:
            listener(name)


def _tasks(session: MemberSession) -> list[asyncio.Task[None]]:
    return [each for each in (session.task, session.workers) if each is not None]
