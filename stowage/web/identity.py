"""Who a token belongs to, and what they may do: the hub's own answers, remembered for a moment.

A TokenReview is remembered by the token's hash, a SubjectAccessReview by who asks what. So the page
costs the hub little, and a right that is taken away ends soon.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

import msgspec

from machinery.api.resources import TOKEN_REVIEWS, Resource
from machinery.api.verbs import Verbs
from machinery.clock import Clock
from machinery.discovery import access_reviews
from machinery.errors import BadRequest, Invalid

TOKEN_SECONDS = 60.0
"""For so long a TokenReview holds."""
ACCESS_SECONDS = 30.0
"""For so long a SubjectAccessReview holds."""
MOST_TOKENS = 10_000
REVIEWS_PER_SECOND = 500
"""SubjectAccessReviews of all callers together; a second's worth may come at once."""
MOST_ANSWERS = REVIEWS_PER_SECOND * (int(ACCESS_SECONDS) + 1)
"""As many as can be asked while one holds, so that none is asked again before its time."""
IN_FLIGHT = 64
"""Questions of one caller that are before the hub at once."""
TOKENS_IN_FLIGHT = 32
"""Tokens that are before the hub at once."""
LONGEST_TOKEN = 16 * 1024

T = TypeVar("T")


class AnswerCache(Generic[T]):
    """Answers by question, for some seconds; a question that is under way is not asked again."""

    def __init__(self, clock: Clock, *, seconds: float, most: int) -> None:
        self._clock, self._seconds, self._most = clock, seconds, most
        self._kept: OrderedDict[Hashable, tuple[float, asyncio.Task[T]]] = OrderedDict()

    def known(self, question: Hashable) -> T | None:
        kept = self._kept.get(question)
        if kept is None or self._late(kept[0]) or not kept[1].done() or _failed(kept[1]):
            return None
        return kept[1].result()

    async def answer(self, question: Hashable, ask: Callable[[], Awaitable[T]]) -> T:
        """Return the answer, as old as it may be. Raises as `ask` does."""
        kept = self._kept.get(question)
        if kept is None or self._late(kept[0]):
            kept = self._asked(question, ask)
        # one caller that goes away takes no answer from the others
        return await asyncio.shield(kept[1])

    def _late(self, asked_at: float) -> bool:
        return self._clock.monotonic() - asked_at >= self._seconds

    def _asked(
        self, question: Hashable, ask: Callable[[], Awaitable[T]]
    ) -> tuple[float, asyncio.Task[T]]:
        async def asking() -> T:
            return await ask()

        made = (self._clock.monotonic(), asyncio.create_task(asking()))
        made[1].add_done_callback(lambda task: self._answered(question, task))
        self._kept[question] = made
        self._kept.move_to_end(question)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return made

    def _answered(self, question: Hashable, task: asyncio.Task[T]) -> None:
        if _failed(task) and (kept := self._kept.get(question)) is not None and kept[1] is task:
            del self._kept[question]


def _failed(task: asyncio.Task[Any]) -> bool:
    return task.cancelled() or task.exception() is not None


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose token it is, as the hub says.

    Args:
        name: of the user.
        subject: what a SubjectAccessReview says of them: user, uid, groups and extra.
        digest: of the subject.
    """

    name: str
    subject: Mapping[str, Any]
    digest: str


class Authenticator:
    """Asks the hub whose a token is."""

    def __init__(self, hub: Verbs, clock: Clock) -> None:
        self._hub = hub
        self._kept = AnswerCache[Caller | None](clock, seconds=TOKEN_SECONDS, most=MOST_TOKENS)
        self._free = asyncio.Semaphore(TOKENS_IN_FLIGHT)

    async def caller(self, token: str) -> Caller | None:
        """Return whose token it is; None for nobody's. Raises TransportError."""
        if not token or len(token) > LONGEST_TOKEN:
            return None
        digest = hashlib.sha256(token.encode()).digest()
        return await self._kept.answer(digest, lambda: self._reviewed(token))

    async def _reviewed(self, token: str) -> Caller | None:
        async with self._free:
            try:
                said = await access_reviews.review(self._hub, TOKEN_REVIEWS, {"token": token})
            except (BadRequest, Invalid):  # what the hub takes for no token at all
                return None
        user = said.get("user") or {}
        if not said.get("authenticated") or not user.get("username"):
            return None
        subject = {
            "user": user["username"],
            "uid": user.get("uid") or "",
            "groups": user.get("groups") or [],
            "extra": user.get("extra") or {},
        }
        digest = hashlib.sha256(msgspec.json.encode(subject, order="sorted")).hexdigest()
        return Caller(user["username"], subject, digest)


class AccessReviews:
    def __init__(self, hub: Verbs, clock: Clock) -> None:
        self._hub = hub
        self._kept = AnswerCache[bool](clock, seconds=ACCESS_SECONDS, most=MOST_ANSWERS)
        self._free = WeakValueDictionary[str, asyncio.Semaphore]()
        self._clock = clock
        self._turn = -math.inf

    def of(self, caller: Caller) -> CallerAuthorizer:
        return CallerAuthorizer(self, caller)

    def known(
        self, caller: Caller, verb: str, res: Resource, namespace: str, name: str
    ) -> bool | None:
        return self._kept.known((caller.digest, verb, res.group, res.plural, namespace, name))

    async def allows(
        self, caller: Caller, verb: str, res: Resource, namespace: str, name: str
    ) -> bool:
        question = (caller.digest, verb, res.group, res.plural, namespace, name)
        about = {
            "verb": verb,
            "group": res.group,
            "version": res.version,
            "resource": res.plural,
            "namespace": namespace,
            "name": name,
        }
        attributes = {key: value for key, value in about.items() if value}
        spec = {**caller.subject, "resourceAttributes": attributes}
        return await self._kept.answer(question, lambda: self._asked(caller.digest, spec))

    async def _asked(self, digest: str, spec: Mapping[str, Any]) -> bool:
        free = self._free.setdefault(digest, asyncio.Semaphore(IN_FLIGHT))
        # A caller has IN_FLIGHT questions in the line at the most, so that others come between.
        async with free:
            await self._paced()
            return await access_reviews.allowed(self._hub, spec)

    async def _paced(self) -> None:
        """Return when one more review may be sent."""
        now = self._clock.monotonic()
        self._turn = max(self._turn + 1 / REVIEWS_PER_SECOND, now - 1.0)
        if self._turn > now:
            await self._clock.sleep(self._turn - now)


@dataclass(frozen=True, slots=True)
class CallerAuthorizer:
    reviews: AccessReviews
    caller: Caller

    def known(self, verb: str, res: Resource, namespace: str = "", name: str = "") -> bool | None:
        return self.reviews.known(self.caller, verb, res, namespace, name)

    async def allows(self, verb: str, res: Resource, namespace: str = "", name: str = "") -> bool:
        """Whether the hub allows it. Raises TransportError."""
        return await self.reviews.allows(self.caller, verb, res, namespace, name)
