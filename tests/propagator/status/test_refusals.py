"""Refusals to make pods that a member tells in Events alone, and when they are read."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from crds.names import LABEL_WORKLOAD_UID
from machinery.api.server_time import ServerTime
from machinery.clock import timestamp
from machinery.errors import Forbidden, TransportError, Unreachable
from machinery.kinds.readiness import Judged
from machinery.tasks import end
from machinery.types.metadata import Meta
from propagator.members.health import Contact
from propagator.members.objects import ManagedObject
from propagator.members.pods import claim_of, made_by
from propagator.status import refusals
from propagator.status.refusals import (
    CORE_EVENTS,
    FRESH,
    LONGEST_PAUSE,
    LOOK_SECONDS,
    MISSING_SECONDS,
    NOTHING_TOLD,
    RefusalEvents,
    ToldRefusal,
    refusal_in,
)
from propagator.types.workload import workload_of
from tests.fakeclock import FakeClock
from tests.propagator.contexts import Context
from tests.propagator.stage import KINDS, MakeStage, Stage, deployment
from tests.propagator.waits import until

SETS, JOBS = KINDS["StatefulSet"], KINDS["Job"]
NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)
WORDS = 'create Pod db-2 in StatefulSet db failed error: pods "db-2" is forbidden: exceeded quota'


def event(*, first: float = 300, last: float = 60, **more: Any) -> dict[str, Any]:
    """An Event of so many seconds before NOW, as kube-controller-manager writes them."""
    moments = {"firstTimestamp": before(first), "lastTimestamp": before(last), "eventTime": None}
    return {"type": "Warning", "reason": "FailedCreate", "message": WORDS, **moments, **more}


def before(seconds: float) -> str:
    return timestamp(NOW - timedelta(seconds=seconds))


def read(*items: Any, made: float | None = None) -> Any:
    newest = NOW - timedelta(seconds=made) if made is not None else None
    return refusal_in(json.dumps({"items": items}).encode(), made=newest, now=NOW)


@pytest.mark.proves("KD62")
def test_the_newest_event_has_the_words_and_the_oldest_the_time() -> None:
    older = event(first=600, last=400, message="of before")
    assert read(older, event()) == (NOW - timedelta(seconds=600), WORDS)
    assert read(event(), older) == read(older, event())
    assert read(older, event(), made=500) == (NOW - timedelta(seconds=500), WORDS)
    assert read(event(), made=60).words == WORDS, "in the second of its newest pod"
    new = {"eventTime": before(90), "firstTimestamp": None, "lastTimestamp": None}
    assert read(event(**new)).since == NOW - timedelta(seconds=90)
    again = {**new, "eventTime": before(4000), "series": {"lastObservedTime": before(30)}}
    assert read(event(**again)).since == NOW - timedelta(seconds=4000)
    assert len(read(event(message="x" * 100_000)).words) < 5_000


@pytest.mark.proves("KD62")
@pytest.mark.parametrize(
    ("told", "made"),
    [
        (event(type="Normal"), None),
        (event(first=5000, last=FRESH.total_seconds() + 1), None),
        (event(last=60), 59),
        (event(lastTimestamp="soon"), None),
        (event(firstTimestamp=None, lastTimestamp=None), None),
    ],
    ids=["no Warning", "old", "before its newest pod", "no time", "without a time"],
)
def test_what_is_over_or_no_refusal_counts_for_nothing(told: Any, made: float | None) -> None:
    assert read(told, made=made) is None
    assert read() is None


def test_an_answer_of_another_form_is_a_fault_of_the_member() -> None:
    for answer in (b'{"items": 7}', b"[]", b"no"):
        with pytest.raises(TransportError):
            refusal_in(answer, made=None, now=NOW)


class Fleet:
    """One share on m1, whose Events are what `answers` says; `asked` are the requests."""

    def __init__(self, entry: dict[str, Any] | None = None) -> None:
        self.clock = FakeClock()
        self.answer: Exception | list[Any] = []
        self.asked: list[tuple[float, str, Any]] = []
        self.news: list[Any] = []
        self.client = SimpleNamespace(request=self._request, server_time=ServerTime(self.clock))
        self.session = SimpleNamespace(
            contact=Contact.SERVING,
            client_for=lambda _: self.client,
            newest_pod=lambda _: None,
        )
        main = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}}
        meta = {"namespace": "shop", "name": "db", "uid": "u"}
        status = {
            "placements": [{"cluster": "m1", "replicas": 3}],
            "clusters": [{"name": "m1", **entry}] if entry else [],
        }
        body = {"metadata": meta, "spec": {"template": main}, "status": status}
        self.workload = workload_of(body)
        self.refusals = RefusalEvents(
            cast("Any", Context(clock=self.clock, registry={"m1": self.session})),
            workloads=cast("Any", SimpleNamespace(by_uid=lambda _: self.workload)),
            changed=self.news.append,
        )

    async def _request(self, method: str, path: str, *, params: Any, errand: Any) -> bytes:
        self.asked.append((self.clock.monotonic(), path, params))
        if isinstance(self.answer, Exception):
            raise self.answer
        return json.dumps({"items": self.answer}).encode()

    def told(self, missing: int = 1, uid: str = "o", **main: Any) -> ToldRefusal:
        found = ManagedObject(
            metadata=Meta(name="db", uid=uid), kind="StatefulSet", api_version="apps/v1", **main
        )
        return self.refusals.told(self.workload, "m1", found, missing)

    def refuses(self) -> None:
        now = timestamp(self.clock.now())
        self.answer = [event(firstTimestamp=now, lastTimestamp=now)]


@asynccontextmanager
async def looking(fleet: Fleet) -> AsyncIterator[None]:
    running = asyncio.create_task(fleet.refusals.run())
    try:
        yield
    finally:
        await end([running])


@pytest.mark.proves("KD62")
async def test_events_are_read_once_a_minute_while_replicas_have_been_missing_for_one() -> None:
    fleet = Fleet()
    async with looking(fleet):
        assert fleet.told() == NOTHING_TOLD
        await fleet.clock.advance(MISSING_SECONDS - 1)
        assert not fleet.asked
        fleet.refuses()
        await fleet.clock.advance(2)
        ((_, path, params),) = fleet.asked
        assert path == "/api/v1/namespaces/shop/events"
        assert params == {
            "fieldSelector": "involvedObject.uid=o,reason=FailedCreate",
            "limit": "100",
        }
        told = fleet.told().refused
        assert told is not None
        assert told.words == WORDS
        assert fleet.news == [("shop", "db")]
        await fleet.clock.advance(10 * LOOK_SECONDS)
        assert len(fleet.asked) == 11
        assert len(fleet.news) == 1, "it tells the same"
        assert fleet.told(missing=0) == NOTHING_TOLD
        await fleet.clock.advance(10 * LOOK_SECONDS)
        assert len(fleet.asked) == 11, "none is missing"


@pytest.mark.proves("KD62")
@pytest.mark.parametrize("answer", [[], Forbidden(code=403, reason="Forbidden", message="no")])
async def test_what_tells_nothing_is_asked_less_and_less(answer: Any) -> None:
    fleet = Fleet()
    fleet.answer = answer
    async with looking(fleet):
        fleet.told()
        await fleet.clock.advance(3600)
        assert fleet.told() == NOTHING_TOLD
        moments = [moment for moment, *_ in fleet.asked]
        pauses = [round(b - a) for a, b in itertools.pairwise(moments)]
        assert pauses == [120, 240, *[LONGEST_PAUSE] * 10]


@pytest.mark.proves("KD62")
async def test_a_member_that_does_not_answer_has_refused_what_it_refused_before() -> None:
    fleet = Fleet()
    fleet.refuses()
    async with looking(fleet):
        fleet.told()
        await fleet.clock.advance(MISSING_SECONDS + 1)
        told = fleet.told()
        assert told.refused is not None
        fleet.answer = Unreachable("it is away")
        await fleet.clock.advance(2 * LOOK_SECONDS)
        assert fleet.told() == told
        fleet.session.contact = Contact.AWAY
        asked = len(fleet.asked)
        await fleet.clock.advance(5 * LOOK_SECONDS)
        assert len(fleet.asked) == asked
        assert fleet.told(uid="another object") == NOTHING_TOLD


@pytest.mark.proves("KD62")
async def test_a_new_process_reads_at_once_what_the_one_before_told() -> None:
    fleet = Fleet({"replicas": 3, "refused": 1, "state": "Creating"})
    fleet.refuses()
    async with looking(fleet):
        assert fleet.told() == ToldRefusal(unread=True)
        await fleet.clock.advance(1)
        told = fleet.told()
        assert told.refused is not None
        assert not told.unread


@pytest.mark.proves("KD62")
async def test_only_what_nothing_else_explains_is_asked_about() -> None:
    fleet = Fleet()
    suspended = Judged(health=cast("Any", refusals.ShareHealth.SUSPENDED))
    refused = refusals.Refused(NOW, "its condition says so")
    async with looking(fleet):
        for main in ({"judged": suspended}, {"refused": refused}):
            assert fleet.told(**main) == NOTHING_TOLD
            await fleet.clock.advance(2 * MISSING_SECONDS)
        unknown = ManagedObject(kind="Widget", api_version="example.com/v1")
        assert fleet.refusals.told(fleet.workload, "m1", unknown, 1) == NOTHING_TOLD
        await fleet.clock.advance(2 * MISSING_SECONDS)
        assert not fleet.asked
        fleet.told()
        fleet.workload = workload_of(
            {"metadata": {"namespace": "shop", "name": "db", "uid": "u"}, "spec": {}}
        )
        await fleet.clock.advance(2 * MISSING_SECONDS)
        assert not fleet.asked, "it is placed there no more"


def about(name: str, uid: str, kind: str = "Job") -> dict[str, Any]:
    return {"apiVersion": "batch/v1", "kind": kind, "name": name, "uid": uid}


@pytest.mark.proves("KD62")
async def test_of_a_custom_kind_the_objects_that_make_its_pods_tell_of_them() -> None:
    """Those whose pods would count as its own; what others in its namespace tell is not its own."""
    fleet = Fleet()
    main = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "fit"}}
    status = {"placements": [{"cluster": "m1", "replicas": 1}]}
    meta = {"namespace": "shop", "name": "fit", "uid": "u"}
    fleet.workload = workload_of({"metadata": meta, "spec": {"template": main}, "status": status})
    now = timestamp(fleet.clock.now())
    moments = {"firstTimestamp": now, "lastTimestamp": now}
    told = [
        event(**moments, message="a stranger's", involvedObject=about("other", "o2")),
        event(**moments, message="of no maker", involvedObject=about("x", "o3", kind="Thing")),
        event(**moments, message="of one that was made anew", involvedObject=about("old", "o4")),
        event(**moments, involvedObject=about("fit-a-0", "o1")),
    ]
    uids = {"fit-a-0": "o1", "other": "o2", "old": "o5"}

    async def request(method: str, path: str, *, params: Any = None, errand: Any) -> bytes:
        fleet.asked.append((fleet.clock.monotonic(), path, params))
        name = path.rpartition("/jobs/")[2]
        if name not in uids:
            own = "involvedObject" in params["fieldSelector"]
            return json.dumps({"items": [] if own else told}).encode()
        labels = {LABEL_WORKLOAD_UID: "u" if name != "other" else "another's"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": []}}
        body = {"metadata": {"name": name, "uid": uids[name]}, "spec": {"template": template}}
        return json.dumps(body).encode()

    fleet.client.request = request
    fleet.session.is_pod_of = lambda where, pod: made_by(cast("Any", claim_of(pod)), where)
    found = ManagedObject(
        metadata=Meta(name="fit", uid="o"),
        kind="JobSet",
        api_version=main["apiVersion"],
        pods_uid="u",
    )
    async with looking(fleet):
        assert fleet.refusals.told(fleet.workload, "m1", found, 1) == NOTHING_TOLD
        await fleet.clock.advance(MISSING_SECONDS + 1)
        refused = fleet.refusals.told(fleet.workload, "m1", found, 1).refused
    assert refused is not None
    assert refused.words == WORDS
    asked = [path.rpartition("/")[2] for _, path, _ in fleet.asked]
    assert asked == ["events", "events", "old", "fit-a-0", "other"]


def stateful(name: str = "db") -> dict[str, Any]:
    return {**deployment(name, serviceName=name), "kind": "StatefulSet"}


async def _told(stage: Stage, name: str) -> dict[str, Any]:
    """Wait until the share says that replicas are refused; its entry."""
    found: dict[str, Any] = {}

    async def said() -> bool:
        found.clear()
        found.update(await stage.share(name, "m1"))
        return "refused" in found

    await until(said, seconds=120, what=lambda: found)
    return found


@pytest.mark.proves("KD62")
async def test_a_real_server_is_asked_for_the_events_of_that_one_object(
    stage_on: MakeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusals, "MISSING_SECONDS", 0.2)
    monkeypatch.setattr(refusals, "LOOK_SECONDS", 0.2)
    async with stage_on() as stage:
        for name in ("db", "other"):
            await stage.run(name, {"m1": 2}, template=stateful(name))
        found = await stage.appears("m1", "db", kind=SETS)
        await stage.appears("m1", "other", kind=SETS)
        about = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"}
        about |= {"namespace": stage.namespace, "uid": found["metadata"]["uid"]}
        now = timestamp(datetime.now(UTC))
        told = event(firstTimestamp=now, lastTimestamp=now, involvedObject=about)
        for name, more in (
            ("db.1", {}),
            ("db.2", {"reason": "FailedDelete", "message": "of another reason"}),
            ("db.3", {"type": "Normal", "message": "no fault"}),
        ):
            meta = {"name": name, "namespace": stage.namespace}
            body = {"apiVersion": "v1", "kind": "Event", "metadata": meta, **told, **more}
            await stage.members["m1"].create(CORE_EVENTS, body)
        entry = await _told(stage, "db")
        assert (entry["refused"], entry["unschedulableSince"]) == (2, now)
        assert entry["message"] == f"pods are refused: {WORDS}"
        assert "refused" not in await stage.share("other", "m1")
        await stage.restarted()
        assert await _told(stage, "db") == entry
