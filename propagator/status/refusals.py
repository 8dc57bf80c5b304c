"""Refusals to make pods that a member tells in Events alone.

The controllers of a StatefulSet, a Job and of custom kinds write a Warning Event FailedCreate about
their object, and no condition. A custom kind may leave its pods to such objects, as a JobSet does
to Jobs. So the Events of one object, or of what makes its pods, are read while replicas have been
missing for a while, at most once a minute.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from crds.fields.shares import ShareHealth
from machinery import logs
from machinery.api.lanes import LIST
from machinery.api.resources import USUAL, Resource, group_of
from machinery.api.responses import decode
from machinery.api.server_time import ServerClock
from machinery.api.verbs import query_of
from machinery.clock import Clock, stored_time
from machinery.errors import BadRequest, Forbidden, NotFound, TransportError
from machinery.kinds.table import MAKER_GROUPS
from machinery.runtime.workqueue import WorkQueue, work
from machinery.types.bounds import MESSAGE, clean
from machinery.types.metadata import Key, Meta, OwnerReference
from propagator.hub.workloads import HubWorkloads
from propagator.members.context import ControllerContext
from propagator.members.health import Contact
from propagator.members.objects import ManagedObject, Refused
from propagator.members.pods import Main, main_of
from propagator.members.session import MemberSession
from propagator.shares import Column
from propagator.types.workload import Workload

LOG = logs.get(__name__)
CORE_EVENTS: Final = Resource("", "v1", "events", "Event")
MISSING_SECONDS = 60.0
"""For how long replicas have been missing before the first look."""
LOOK_SECONDS = 60.0
"""The least seconds between two looks for one share."""
LONGEST_PAUSE = 300.0
"""The most of them while nothing is found."""
FRESH = timedelta(minutes=18)
"""An older Event tells nothing. The controllers of Kubernetes try again after 1000 s at the latest,
and each attempt that fails renews the Event.
"""
_MOST_EVENTS = 100
"""Kubernetes' own recorder makes fewer about one object in the hour for which Events are kept."""
_MOST_MAKERS = 8
"""Objects that are read at one look, to find those that make pods of the share."""
_WORKERS = 4


class _Series(msgspec.Struct, rename="camel"):
    last_observed_time: str | None = None


class _About(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""


class _Event(msgspec.Struct, rename="camel"):
    involved_object: _About = _About()
    type: str = ""
    message: str = ""
    event_time: str | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    series: _Series | None = None

    @property
    def first(self) -> datetime | None:
        return stored_time(self.event_time or self.first_timestamp or self.last_timestamp or "")

    @property
    def last(self) -> datetime | None:
        again = self.series.last_observed_time if self.series is not None else None
        return stored_time(again or self.last_timestamp or self.event_time or "")


class _Events(msgspec.Struct):
    items: list[_Event] = []


class _Template(msgspec.Struct, frozen=True):
    metadata: Meta = Meta()


class _MakerSpec(msgspec.Struct, frozen=True):
    template: _Template = _Template()


class _Maker(msgspec.Struct, frozen=True):
    """An object that makes pods."""

    metadata: Meta = Meta()
    spec: _MakerSpec = _MakerSpec()


_events = msgspec.json.Decoder(_Events)
_maker = msgspec.json.Decoder(_Maker)
_MAKERS: Final = {
    (each.api_version, each.kind): each for each in USUAL if each.group in MAKER_GROUPS
}


class ToldRefusal(NamedTuple):
    """What the Events of an object tell.

    `unread`: an earlier process told of a refusal, and this one has not read them yet.
    """

    refused: Refused | None = None
    unread: bool = False


NOTHING_TOLD = ToldRefusal()


@dataclass(slots=True)
class _Watched:
    """An object with missing replicas; times are monotonic."""

    uid: str
    due: float
    told: ToldRefusal
    pause: float = LOOK_SECONDS


class RefusalEvents:
    """By Workload (UID) and member. `changed` is called when the Events tell something else."""

    def __init__(
        self,
        context: ControllerContext,
        *,
        workloads: HubWorkloads,
        changed: Callable[[Key], None],
    ) -> None:
        self._clock = context.clock
        self._registry = context.registry
        self._workloads = workloads
        self._changed = changed
        self._watched: Column[_Watched] = context.shares.column(of_term=True)
        self._queue: WorkQueue[tuple[str, str]] = WorkQueue(name="refusals", clock=context.clock)

    def told(
        self, workload: Workload, member: str, main: ManagedObject | None, missing: int
    ) -> ToldRefusal:
        """Return what is known of a share of which `missing` replicas have no pod."""
        watched = self._watched.get(workload.uid, member)
        if main is None or missing <= 0 or not _may_tell(main):
            if watched is not None:
                self._watched.pop(workload.uid, member)
            return NOTHING_TOLD
        if watched is None or watched.uid != main.metadata.uid:
            unread = _was_refused(workload, member)
            wait = 0.0 if unread else MISSING_SECONDS
            due = self._clock.monotonic() + wait
            watched = _Watched(main.metadata.uid, due, ToldRefusal(unread=unread))
            self._watched.put(workload.uid, member, watched)
            self._queue.add_after((workload.uid, member), wait)
        return watched.told

    async def run(self) -> None:
        await work(self._queue, self._look, workers=_WORKERS, log=LOG)

    async def _look(self, share: tuple[str, str]) -> float | None:
        uid, member = share
        watched, workload = self._watched.get(uid, member), self._workloads.by_uid(uid)
        if watched is None:
            return None
        if workload is None or member not in workload.placements:
            self._watched.pop(uid, member)
            return None
        if (left := watched.due - self._clock.monotonic()) > 0:
            return left
        session = self._registry.get(member)
        if session is None or session.contact is not Contact.SERVING:
            return LOOK_SECONDS
        try:
            found = await _refusal_of(session, workload, watched.uid, self._clock)
        except (Forbidden, NotFound):
            found = None
        except TransportError:
            return LOOK_SECONDS  # what it told before may still be so
        if self._watched.get(uid, member) is not watched:
            return None  # nothing is missing any more
        before, watched.told = watched.told, ToldRefusal(found)
        watched.pause = LOOK_SECONDS if found else min(2 * watched.pause, LONGEST_PAUSE)
        watched.due = self._clock.monotonic() + watched.pause
        if before != watched.told:
            self._changed(workload.metadata.key)
        return watched.pause


def refusal_in(page: bytes, *, made: datetime | None, now: datetime) -> Refused | None:
    """`made` is when the newest pod was created: what was refused before counts for nothing.

    Raises TransportError for an answer of another form.
    """
    return _told_by(_counting(page, made=made, now=now), made)


def _counting(page: bytes, *, made: datetime | None, now: datetime) -> list[_Event]:
    """Return the Events that count, the newest first."""
    found = []
    for each in decode(page, _events).items[:_MOST_EVENTS]:
        first, last = each.first, each.last
        if each.type != "Warning" or first is None or last is None or last < now - FRESH:
            continue
        if made is None or last >= made:  # both have whole seconds
            found.append((last, each.message, each))
    return [each for *_, each in sorted(found, key=lambda told: told[:2], reverse=True)]


def _told_by(events: Sequence[_Event], made: datetime | None) -> Refused | None:
    if not events:
        return None
    since = min(first for each in events if (first := each.first) is not None)
    since = since if made is None else max(since, made)
    return Refused(since, clean(events[0].message, MESSAGE))


async def _refusal_of(
    session: MemberSession, workload: Workload, uid: str, clock: Clock
) -> Refused | None:
    """Raises TransportError."""
    main = main_of(workload)
    made = session.newest_pod(main)

    async def events(about: str) -> list[_Event]:
        client = session.client_for(main.namespace)
        page = await client.request(
            "GET",
            CORE_EVENTS.path(main.namespace),
            params=query_of({"field_selector": about}, limit=str(_MOST_EVENTS)),
            errand=LIST,
        )
        now = ServerClock(clock, client.server_time).now()
        return _counting(page, made=made, now=now)

    found = await events(f"involvedObject.uid={uid},reason=FailedCreate")
    if not found and main.group not in MAKER_GROUPS:
        others = await events("reason=FailedCreate")
        makers = dict.fromkeys(each.involved_object for each in others)
        known = (each for each in makers if (each.api_version, each.kind) in _MAKERS)
        ours = [e for e in islice(known, _MOST_MAKERS) if await _makes(session, main, e)]
        found = [each for each in others if each.involved_object in ours]
    return _told_by(found, made)


async def _makes(session: MemberSession, main: Main, about: _About) -> bool:
    """Raises TransportError."""
    resource = _MAKERS[about.api_version, about.kind]
    try:
        where = resource.path(main.namespace, about.name)
        answer = await session.client_for(main.namespace).request("GET", where, errand=LIST)
    except (BadRequest, Forbidden, NotFound):
        return False
    found = decode(answer, _maker)
    maker = OwnerReference(about.kind, about.name, about.uid, about.api_version, controller=True)
    labels = found.spec.template.metadata.labels
    pod = Meta(namespace=main.namespace, labels=labels, owner_references=[maker])
    return found.metadata.uid == about.uid and session.is_pod_of(main, pod)


def _may_tell(main: ManagedObject) -> bool:
    known = main.pods_uid or group_of(main.api_version) in MAKER_GROUPS
    held = main.judged.health is ShareHealth.SUSPENDED
    return bool(known) and not held and main.refused is None


def _was_refused(workload: Workload, member: str) -> bool:
    """Whether an earlier process has told so."""
    return any(e["name"] == member and e.get("refused") for e in workload.status.clusters)
