"""This hub's Lease on a member: of a hub and its copy, only one serves the member.

The Lease holds the term and last renewal of the hub's own Lease. A hub that finds a later moment
than it has seen is a copy, or an old leader. It serves the member only after the Lease was
unchanged for `HELD_SECONDS`, by its own clock, and marks it until it has judged what the member
holds of forgotten Workloads. A successor learns from the mark that the hub was set back, and to
which version.

A Lease with another UID is another hub's: both serve the member, and the holder keeps the Lease.
That of the hub from whose backup this one was restored is as a copy's. The Lease is read before
each removal. A member that forbids Leases is served without one.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec

from crds.membercluster import ReadyReason
from crds.names import ANNOTATION_SHARD, ANNOTATION_WENT_BACK
from machinery import logs
from machinery.api.client import ApiClient
from machinery.api.lanes import LEASE
from machinery.api.resources import LEASES
from machinery.api.responses import Unreadable, shaped
from machinery.api.verbs import OF_NO_OBJECT
from machinery.clock import Clock
from machinery.errors import Conflict, Forbidden, Invalid, LeaseLost, NotFound
from machinery.runtime.leader_election import NEVER, Moment, PastTerm
from machinery.types.bounds import NAME, clean
from machinery.types.metadata import Object
from propagator.members.health import MemberHealth

LOG = logs.get(__name__)
HUB_LEASE = "stowage-hub"
AGENT_MARK = "agent/"
"""Begins the name of an agent that holds it, in place of that of a propagator's process."""
RENEW_SECONDS = 30.0
AGENT_SECONDS = 5.0
"""Seconds between two looks while an agent holds it, which lets go once the mode is Push."""
HELD_SECONDS = 300
"""How long other hubs leave the member alone after a renewal."""
VALID_SECONDS = 240.0
"""How long after the start of a renewal objects may be removed: less, because clocks differ."""
RETRY_SECONDS = 600.0
"""Seconds until a member that forbids Leases is tried again."""


async def _no_history(_: int) -> Mapping[int, PastTerm]:
    return {}


async def no_former() -> str:
    return ""


@dataclass(frozen=True, slots=True)
class HubHolder:
    uid: str = ""
    """The UID of the hub's kube-system; if it may not be read, it is empty and there is no Lease.
    """
    address: str = ""
    instance: str = ""
    moment: Moment = NEVER
    """The present term, and its last answered renewal."""
    past: Mapping[int, PastTerm] = field(default_factory=dict)
    """Earlier terms that the hub's own Lease records."""
    shard: int = 0
    """Whose Lease on the hub that is."""
    history: Callable[[int], Awaitable[Mapping[int, PastTerm]]] = _no_history
    """Returns the terms of another shard, the present one included. Raises TransportError."""
    version: str = ""
    """A resourceVersion of the hub that it had when this term began."""
    former: Callable[[], Awaitable[str]] = no_former
    """Returns the UID of the hub from whose backup this one was restored; "" unless it was."""

    def __str__(self) -> str:
        return clean(f"{self.uid} {self.address} {self.instance}", NAME)


Holder: TypeAlias = Callable[[], Awaitable[HubHolder]]


async def no_holder() -> HubHolder:
    return HubHolder()


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    holder_identity: str | None = ""
    renew_time: str | None = ""
    lease_transitions: int | None = 0


class _Lease(Object, frozen=True):
    spec: _Spec = _Spec()

    @property
    def holder(self) -> str:
        return clean(self.spec.holder_identity or "", NAME)

    @property
    def instance(self) -> str:
        """The process that held it; empty if another release wrote the holder."""
        return "".join(self.holder.split(" ", 2)[2:])

    @property
    def version(self) -> str:
        return self.metadata.resource_version

    @property
    def shard(self) -> int:
        said = self.metadata.annotations.get(ANNOTATION_SHARD, "")
        return int(said) if said.isascii() and said.isdecimal() and len(said) < 3 else 0


def _later(found: _Lease, ours: HubHolder, others: Mapping[int, PastTerm] | None) -> bool:
    """Whether the Lease holds a moment that our hub has not seen.

    `others` are the terms of another shard of ours that held it; None if it was this one.
    """
    if not found.holder.startswith(ours.uid):
        return True  # the hub that ours was restored from: their terms do not compare
    # One term is one process, so its renewals compare by its own clock.
    term, renewed = found.spec.lease_transitions or 0, found.spec.renew_time or ""
    if others is None and term == ours.moment.term:
        return found.holder != str(ours)
    # Both a hub and its copy start the next term, with different holders. A hub with too short a
    # history for a member that was away waits until the Lease is free.
    known = (ours.past if others is None else others).get(term)
    if known is None or (known.holder and not known.holder.startswith(found.instance)):
        return True
    return renewed > known.renewed


def _of_agent(found: _Lease) -> bool:
    return found.instance.startswith(AGENT_MARK)


class HubLease:
    """`before_write` raises LeaseLost outside of a term."""

    def __init__(
        self,
        client: ApiClient,
        *,
        home: str,
        holder: Holder,
        before_write: Callable[[], float | None],
        clock: Clock,
    ) -> None:
        self._client = client
        self._home = home
        self._holder = holder
        self._before_write = before_write
        self._clock = clock
        self._without = False
        self._due = -math.inf
        self._until = -math.inf  # until when objects may be removed
        self._version = ""  # of our last renewal
        self._seen = ("", "")
        self._seen_at = -math.inf
        self._refusal: MemberHealth | None = None
        self.was_later = False
        """Whether the Lease held a later moment of this hub than the hub has seen.

        So it is for this process, and for later ones until one has called `settled`.
        """
        self.went_back_to = ""
        """The resourceVersion that the hub had then; empty if no process has noted it."""
        self._former = ""
        self._settled = False

    def settled(self) -> None:
        """Take the mark off at the next renewal: what lies there that is younger is judged."""
        self._settled = True

    async def check(self) -> MemberHealth | None:
        """Renew the Lease if it is due, in a term; return why the member is not served, or None.

        Raises TransportError if the member does not answer.
        """
        now = self._clock.monotonic()
        try:
            self._before_write()
        except LeaseLost:
            return self._refusal
        if now < self._due:
            return self._refusal
        self._due = now + RENEW_SECONDS
        try:
            self._without = await self._renew()
        except (Forbidden, Invalid, NotFound) as e:
            if not self._without:
                LOG.info("%s: no Lease %s there: %s", self._client.name, HUB_LEASE, e)
            self._without = True
        except Conflict:
            self._due = -math.inf  # another writer was first: renew at the next check
        except LeaseLost:
            return self._refusal
        if self._without:
            self._refusal, self._due = None, now + RETRY_SECONDS
        return self._refusal

    async def let_go(self) -> None:
        """End our hold, so that others may take the Lease at once. Raises TransportError."""
        ours, found = await self._holder(), await self._read()
        if found is not None and ours.uid and found.holder == str(ours):
            await self._write(found, ours, holder="")
        self._until = -math.inf

    async def unheld(self) -> str:
        """Return why a removal has to wait, or "". Call it right before. Raises TransportError."""
        if self._without:
            return ""
        if self._clock.monotonic() < self._until:
            found = await self._read()
            if found is not None and found.version == self._version:
                return ""
        self._due = -math.inf
        return f"the Lease {self._home}/{HUB_LEASE} there is renewed before anything is removed"

    async def _renew(self) -> bool:
        """Take the Lease, or observe its holder; return True to serve the member without one."""
        started = self._clock.monotonic()
        ours = await self._holder()
        if not ours.uid:
            return True
        found = await self._read()
        if found is not None and found.holder and not self._same_hub(found, ours):
            self._former = await ours.former()
        self._refusal = None if found is None else await self._judge(found, ours)
        if found is not None and found.holder.startswith(ours.uid) and not _of_agent(found):
            self._learn(found, ours)
        if self._refusal is not None and found is not None and _of_agent(found):
            self._until, self._due = -math.inf, started + AGENT_SECONDS
            return False
        if self._refusal is not None:
            self._until, self.was_later, self._settled = -math.inf, True, False
            return False
        if found is not None and not self._same_hub(found, ours) and not self._free(found):
            return True
        written = await self._write(found, ours)
        self._version, self._until = written.version, started + VALID_SECONDS
        return False

    def _learn(self, found: _Lease, ours: HubHolder) -> None:
        """Note whether the hub was set back, and the version that it had then."""
        mark = found.metadata.annotations.get(ANNOTATION_WENT_BACK)
        if mark is not None:
            self.was_later = True
            self.went_back_to = self.went_back_to or (mark if mark.isdigit() else "")
        if self._refusal is not None:
            # Set back twice: what was written after the earlier moment is younger in any case.
            known = [int(each) for each in (self.went_back_to, ours.version) if each.isdigit()]
            self.went_back_to = str(min(known)) if known else ""

    async def _judge(self, found: _Lease, ours: HubHolder) -> MemberHealth | None:
        if not self._same_hub(found, ours) or self._free(found):
            return None
        if _of_agent(found):
            return MemberHealth(
                ReadyReason.HELD_BY_ANOTHER_HUB,
                f"the agent of this cluster serves it: it lets go of it once the mode is Push. "
                f"{HELD_SECONDS} s after the end of an agent that died this goes on by itself",
            )
        others = None if found.shard == ours.shard else await ours.history(found.shard)
        if not _later(found, ours, others):
            return None
        at = "".join(found.holder.split(" ")[1:2])
        ours_too = found.holder.startswith(ours.uid)
        which = "a copy of this hub" if ours_too else "the hub that this one was restored from"
        return MemberHealth(
            ReadyReason.HELD_BY_ANOTHER_HUB,
            f"{which}, at {at}, serves this cluster: nothing is done there "
            f"by this one, at {ours.address}. Stop the propagator of the hub that is not to serve "
            f"it; {HELD_SECONDS} s later this one goes on by itself",
        )

    def _same_hub(self, found: _Lease, ours: HubHolder) -> bool:
        """Also of the hub that ours was restored from."""
        uid = found.holder.partition(" ")[0]
        return uid == ours.uid or (bool(uid) and uid == self._former)

    def _free(self, found: _Lease) -> bool:
        seen = found.holder, found.version
        if seen != self._seen:
            self._seen, self._seen_at = seen, self._clock.monotonic()
        return not found.holder or self._clock.monotonic() - self._seen_at >= HELD_SECONDS

    async def _read(self) -> _Lease | None:
        try:
            answer = await self._client.get(LEASES, HUB_LEASE, namespace=self._home, errand=LEASE)
        except NotFound:
            return None
        found = shaped(answer, _Lease)
        if not found.metadata.uid or not found.version:  # a renewal could make another Lease
            raise Unreadable(f"the Lease {self._home}/{HUB_LEASE} there has no uid or version")
        return found

    async def _write(
        self, on: _Lease | None, ours: HubHolder, *, holder: str | None = None
    ) -> _Lease:
        """Raises Conflict."""
        spec: dict[str, Any] = {
            "holderIdentity": str(ours) if holder is None else holder,
            "leaseDurationSeconds": HELD_SECONDS,
            "leaseTransitions": ours.moment.term,
            "renewTime": ours.moment.renewed,
        }
        metadata: dict[str, Any] = {"name": HUB_LEASE, "namespace": self._home}
        going = self.was_later and not self._settled
        noted = {ANNOTATION_WENT_BACK: self.went_back_to or "true"} if going else {}
        if ours.shard:
            noted |= {ANNOTATION_SHARD: str(ours.shard)}
        if noted:
            metadata |= {"annotations": noted}
        if on is None:
            metadata |= {"resourceVersion": OF_NO_OBJECT}
        else:
            metadata |= {"resourceVersion": on.version, "uid": on.metadata.uid}
        kind = {"apiVersion": LEASES.api_version, "kind": LEASES.kind}
        answer = await self._client.apply(
            LEASES,
            {**kind, "metadata": metadata, "spec": spec},
            name=HUB_LEASE,
            namespace=self._home,
            force=True,
            errand=LEASE,
        )
        return shaped(answer, _Lease)
