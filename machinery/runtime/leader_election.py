"""Leader election: one process at a time, by a Lease that only a compare-and-swap changes.

No timestamp of another machine is compared with ours. A lease is free if we have not seen it change
for its duration, on our monotonic clock. We lead while the last successful renewal *began* less
than `renew_deadline` ago. Others wait the longer `lease_seconds`, and `lead` winds up within the
difference.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec

from machinery.api.lanes import LEASE
from machinery.api.resources import LEASES
from machinery.api.verbs import OF_NO_OBJECT, Verbs
from machinery.clock import Clock, microtime
from machinery.errors import Conflict, Forbidden, LeaseLost, NotFound, TransportError
from machinery.runtime.backoff import Jitter
from machinery.runtime.store import number, order
from machinery.tasks import end, within

log = logging.getLogger(__name__)

T = TypeVar("T")
Annotations: TypeAlias = Mapping[str, str | None]
_KNOWN_RENEWALS = 16
PAST_TERMS = "stowage.dev/past-terms"
"""The annotation of the Lease with the last terms, as JSON: `{"7": ["holder", "renewTime"]}`."""
MOST_PAST_TERMS = 32
_RELEASES = 3


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """What a Lease says."""

    version: str
    holder: str
    """Empty if it was released."""
    transitions: int
    """The number of the term."""
    seconds: float
    renewed: str
    past: Mapping[int, PastTerm]
    annotations: Mapping[str, str]

    @staticmethod
    def of(lease: Mapping[str, Any]) -> LeaseRecord:
        spec = lease.get("spec") or {}
        annotations = lease["metadata"].get("annotations") or {}
        return LeaseRecord(
            version=lease["metadata"]["resourceVersion"],
            holder=spec.get("holderIdentity") or "",
            transitions=spec.get("leaseTransitions") or 0,
            seconds=spec.get("leaseDurationSeconds") or 0,
            renewed=spec.get("renewTime") or "",
            past=_past(annotations.get(PAST_TERMS, "")),
            annotations=annotations,
        )

    @property
    def moment(self) -> Moment:
        return Moment(self.transitions, self.renewed)

    def same_term(self, other: LeaseRecord) -> bool:
        return (self.holder, self.transitions) == (other.holder, other.transitions)

    def news(self, before: LeaseRecord | None) -> bool:
        return before is None or not self.same_term(before) or self.renewed != before.renewed

    def before(self, other: LeaseRecord) -> bool:
        return order(self.version, other.version) == -1 or self.transitions < other.transitions


class Moment(NamedTuple):
    """The number of a term, and the last renewal by the holder's clock."""

    term: int
    renewed: str


NEVER = Moment(0, "")


class PastTerm(NamedTuple):
    holder: str
    renewed: str


def _past(text: str) -> dict[int, PastTerm]:
    try:
        return msgspec.json.decode(text, type=dict[int, PastTerm])
    except msgspec.DecodeError:  # also where there is none
        return {}


class LeaderElector:
    """One contender, `identity`, for the Lease `namespace`/`name`. All durations are in seconds.

    Others wait `lease_seconds` (rounded up) after a renewal. We lead `renew_deadline` after a
    renewal began. `retry_seconds` lie between renewals, and between checks of another's lease.
    `annotations` are put on the Lease when it is taken, and `taking` returns further ones from
    those that it has then; None removes one. Raises ValueError unless each duration is larger than
    the next.
    """

    def __init__(
        self,
        client: Verbs,
        *,
        namespace: str,
        name: str,
        identity: str,
        clock: Clock,
        lease_seconds: float = 10.0,
        renew_deadline: float = 7.0,
        retry_seconds: float = 2.0,
        jitter: Jitter = random.random,
        annotations: Mapping[str, str] | None = None,
        taking: Callable[[Mapping[str, str]], Annotations] = lambda _: {},
    ) -> None:
        if not lease_seconds > renew_deadline > retry_seconds > 0:
            raise ValueError("lease_seconds > renew_deadline > retry_seconds > 0 must hold")
        if not identity:
            raise ValueError("an empty identity means that nobody holds the lease")
        self.identity = identity
        self._client = client
        self._namespace = namespace
        self._name = name
        self._clock = clock
        self._lease_seconds = math.ceil(lease_seconds)
        self._renew_deadline = renew_deadline
        self._retry_seconds = retry_seconds
        self._request_seconds = (renew_deadline - retry_seconds) / 2  # room for two attempts
        self._jitter = jitter
        self._annotations = dict(annotations or {})
        self._taking = taking
        self._noting: dict[str, str | None] = {}  # on the Lease with the next renewal
        self._renewing = asyncio.Lock()
        self._seen: LeaseRecord | None = None
        self._last: LeaseRecord | None = (
            None  # `_seen`, or the last one of a lease that was deleted
        )
        self._history = client.history.number  # of `_last`
        self._led_in = self._history  # of the start of our last term
        self._seen_at = -math.inf  # when `_seen` last changed, as far as we could see
        self._looked_at = -math.inf  # when the server last showed the lease
        self._blind_seconds = renew_deadline - retry_seconds
        self._sent: deque[str] = deque(maxlen=_KNOWN_RENEWALS)
        self._alone = False
        self.past: Mapping[int, PastTerm] = {}
        self.moment = NEVER
        self.found = ""
        """The resourceVersion of the Lease that this term took: no younger than the term before.
        A server that was set back had no later one when it did."""
        self._until = -math.inf  # we lead until then
        self._trouble = ""

    @property
    def leading(self) -> bool:
        return self._clock.monotonic() < self._until

    @property
    def annotations(self) -> Mapping[str, str]:
        """Those of the Lease as the server last showed it; empty without one."""
        return self._seen.annotations if self._seen is not None else {}

    @property
    def version(self) -> int | None:
        """That of the Lease; None if the present history of the server has not shown it."""
        past = self._history != self._client.history.number
        return None if past or self._seen is None else number(self._seen.version)

    async def note(self, annotations: Annotations) -> None:
        """Renew the Lease with these annotations; None removes one.

        Raises TransportError; LeaseLost ends the term.
        """
        self._noting |= annotations
        try:
            await self._renew()
        except LeaseLost:
            self._until = -math.inf
            raise

    @property
    def alone(self) -> bool:
        """Whether no other process can have led between our last term and this one."""
        return self._alone

    @property
    def leader(self) -> str | None:
        if self.leading:
            return self.identity
        if self._seen is None or self._seen.holder == self.identity or self._free(self._seen):
            return None
        return self._seen.holder

    def check(self) -> float:
        """Return the seconds until our right to write ends, unless renewed; call before each write.

        Raises LeaseLost unless we lead now.
        """
        left = self._until - self._clock.monotonic()
        if left <= 0:
            raise LeaseLost(f"{self.identity} does not hold the lease {self._name}")
        return left

    def forsake(self) -> None:
        """Stop leading without releasing: the lease expires."""
        self._until = -math.inf
        self._sent.clear()

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Contend for the lease, and run `lead()` in each term, until cancelled.

        `lead` is cancelled when the lease is lost, before another process can hold it, and may be
        called again. When `lead` returns, `run` returns; a fault of `lead` during a term is raised.
        The lease is released on every way out.
        """
        while True:
            while not await self.attempt():
                await self._clock.sleep(self.patience())
            if await self.term(lead):
                return

    async def attempt(self) -> bool:
        """Take the Lease if it is free; return whether we lead. `term` has to follow then."""
        try:
            record = await self._read()
            self._trouble = ""
            if record is None or self._free(record):
                await self._take(record)
        except Conflict:
            return False  # another process was faster
        except TransportError as e:
            self._report(e)
        return self.leading

    def patience(self) -> float:
        """Return seconds until the next `attempt`: no later than the lease can expire."""
        wait = self._retry_seconds * (0.8 + 0.4 * self._jitter())
        if self._seen is not None and self._mine(self._seen):
            return wait / 4
        if self._seen is None or self._free(self._seen):
            return wait
        return min(wait, self._ends(self._seen) - self._clock.monotonic())

    def _free(self, record: LeaseRecord) -> bool:
        if not record.holder or self._mine(record):
            return True
        return self._clock.monotonic() >= self._ends(record)

    def _mine(self, record: LeaseRecord) -> bool:
        return record.holder == self.identity and record.renewed in self._sent

    def _ends(self, record: LeaseRecord) -> float:
        return self._seen_at + max(record.seconds, self._lease_seconds)

    async def _read(self) -> LeaseRecord | None:
        where: dict[str, Any] = {"namespace": self._namespace, "errand": LEASE}
        reading = self._client.get(LEASES, self._name, **where)
        try:
            return self._see(await self._within(reading))
        except NotFound:
            self._seen = None
            return None

    def _see(self, lease: dict[str, Any]) -> LeaseRecord:
        record = LeaseRecord.of(lease)
        before, self._seen = self._seen, record
        if self._last is not None and record.before(self._last):
            self._client.history.end(self._history)
        self._last, self._history = record, self._client.history.number
        now = self._clock.monotonic()
        # While we could not read the lease, the holder could most likely not renew it either.
        blind = now - self._looked_at > self._blind_seconds
        self._looked_at = now
        if record.news(before) or blind:
            self._seen_at = now
        return record

    async def _take(self, free: LeaseRecord | None) -> None:
        """Raises Conflict when another process was faster."""
        started, now = self._clock.monotonic(), microtime(self._clock.now())
        spec = self._spec(self.identity)
        spec |= {"acquireTime": now, "leaseTransitions": free.transitions + 1 if free else 1}
        # Not alone if a write of ours was stored without an answer: another term may lie between.
        alone = free is not None and self._mine(free) and free.transitions == self.moment.term
        alone = alone and self._led_in == self._history
        past = {} if free is None else _history(free, free.holder)
        self._noting = {}
        annotations = self._annotations | _noted(past)
        annotations |= self._taking(free.annotations if free is not None else {})
        if free is not None:
            await self._write(free, spec, annotations)
        else:
            meta: dict[str, Any] = {"name": self._name, "namespace": self._namespace}
            meta |= {"annotations": annotations}
            lease = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": meta}
            self._see(await self._within(self._create({**lease, "spec": spec})))
        self._alone, self._led_in = alone, self._history
        self.past = past
        self.found = free.version if free is not None else ""
        self.moment = self._held().moment
        self._until = started + self._renew_deadline
        log.info("%s leads now, term %d", self.identity, self._held().transitions)

    async def _create(self, lease: dict[str, Any]) -> dict[str, Any]:
        """Raises Conflict when another process was faster."""
        try:
            return await self._client.create(LEASES, lease, errand=LEASE)
        except Forbidden:
            # RBAC limits a create to names only where the request has one.
            lease["metadata"] |= {"resourceVersion": OF_NO_OBJECT}
            where: dict[str, Any] = {"namespace": self._namespace, "errand": LEASE}
            return await self._client.apply(LEASES, lease, name=self._name, force=True, **where)

    def _spec(self, holder: str) -> dict[str, Any]:
        renewed = microtime(self._clock.now())
        self._sent.append(renewed)
        return {
            "holderIdentity": holder,
            "leaseDurationSeconds": self._lease_seconds,
            "renewTime": renewed,
        }

    async def _write(
        self, on: LeaseRecord, spec: dict[str, Any], annotations: Annotations | None = None
    ) -> None:
        """Raises Conflict if the lease has changed since."""
        meta: dict[str, Any] = {"resourceVersion": on.version}
        if annotations:
            meta["annotations"] = dict(annotations)
        patch = {"metadata": meta, "spec": spec}
        where: dict[str, Any] = {"namespace": self._namespace, "errand": LEASE}
        writing = self._client.merge_patch(LEASES, self._name, patch, **where)
        self._see(await self._within(writing))

    async def term(self, lead: Callable[[], Awaitable[None]]) -> bool:
        """Run `lead` as `run` does, after an `attempt` that took the Lease.

        Return True if it returned, False if the Lease was lost.
        """
        working = asyncio.ensure_future(lead())
        keeping = [asyncio.create_task(self._keep()), asyncio.create_task(self._watchdog())]
        finished = False
        try:
            await asyncio.wait([working, *keeping], return_when=asyncio.FIRST_COMPLETED)
            finished = working.done() and self.leading
            if not finished:
                self._until = -math.inf  # from now on no write passes `check`
                log.warning("%s leads no more", self.identity)
        finally:
            await end([working])  # cancelled by our caller, we renew while `lead` winds up
            await end(keeping)
            await self._release()
            if not finished:
                _log_fault(working)
        if finished:
            working.result()
        return finished

    async def _keep(self) -> None:
        wait = self._retry_seconds
        while True:
            await self._clock.sleep(wait)
            if not self.leading:
                return
            try:
                await self._renew()
                self._trouble, wait = "", self._retry_seconds
            except LeaseLost as e:
                self._until = -math.inf
                log.warning("%s", e)
                return
            except TransportError as e:
                self._report(e)
                wait = self._retry_seconds / 4

    async def _renew(self) -> None:
        async with self._renewing:
            await self._renew_with(dict(self._noting))

    async def _renew_with(self, noting: Annotations) -> None:
        started, ours = self._clock.monotonic(), self._held()
        try:
            await self._write(ours, self._spec(self.identity), noting)
        except Conflict as e:  # an earlier renewal that seemed to fail, a label, or another holder
            record = await self._read()
            if record is None or not record.same_term(ours):
                raise LeaseLost(f"the lease {self._name} is held by another") from e
            if self._led_in != self._history:
                raise LeaseLost(f"the lease {self._name} went back in time with its server") from e
            await self._write(record, self._spec(self.identity), noting)
        except NotFound as e:
            raise LeaseLost(f"the lease {self._name} was deleted") from e
        if noting:
            said = self.annotations
            self._noting = {k: v for k, v in self._noting.items() if said.get(k) != v}
        self.moment = self._held().moment
        if self.leading:  # not after the watchdog: what it ended stays ended
            self._until = started + self._renew_deadline

    async def _watchdog(self) -> None:
        while (remaining := self._until - self._clock.monotonic()) > 0:
            await self._clock.sleep(remaining)

    async def _release(self) -> None:
        if not self.leading:
            return
        self._until, ours = -math.inf, self._held()
        try:
            for _ in range(_RELEASES):
                record = await self._read()  # a cancelled renewal may have been stored
                if record is None or not record.same_term(ours):
                    return
                with suppress(Conflict):  # a cancelled renewal may be stored only now
                    spec = self._spec("")
                    ended = replace(record, renewed=spec["renewTime"])
                    await self._write(record, spec, _noted(_history(ended, self.identity)))
                    return
        except TransportError as e:
            self._report(e)

    def _held(self) -> LeaseRecord:
        if self._seen is None:
            raise LeaseLost(f"the lease {self._name} was deleted")
        return self._seen

    async def _within(self, request: Coroutine[Any, Any, T]) -> T:
        return await within(self._request_seconds, request, clock=self._clock)

    def _report(self, fault: TransportError) -> None:
        if str(fault) != self._trouble:
            log.warning("the lease %s: %s", self._name, fault)
        self._trouble = str(fault)


def _history(record: LeaseRecord, holder: str) -> dict[int, PastTerm]:
    known = record.past.get(record.transitions)
    term = PastTerm(holder or (known.holder if known else ""), record.renewed)
    return dict(sorted({**record.past, record.transitions: term}.items())[-MOST_PAST_TERMS:])


def _noted(past: Mapping[int, PastTerm]) -> dict[str, str | None]:
    return {PAST_TERMS: msgspec.json.encode(past).decode()}


def _log_fault(task: asyncio.Future[None]) -> None:
    if not task.cancelled() and (fault := task.exception()) is not None:
        log.error("what led failed as it ended", exc_info=fault)
