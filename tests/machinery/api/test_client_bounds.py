"""What one server may take of this process: by large answers, long lines, and many questions."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest
from aiohttp import web

from machinery import metrics
from machinery.api.client import ApiClient
from machinery.api.lanes import FACT, NO_WORKLOAD, FairQueue, working_for
from machinery.api.resources import CRDS, PODS
from machinery.clock import SystemClock
from machinery.config.kubeconfig import Connection
from machinery.errors import Invalid, NotFound, TooManyRequests, TransportError, Unreachable
from machinery.pace import TimeSlice
from machinery.runtime.informer import Informer
from machinery.runtime.leader_election import LeaderElector
from machinery.types import bounds
from machinery.types.bounds import KIB, MIB, TooMuch
from machinery.types.metadata import Object
from tests.fakeclock import settle
from tests.machinery.api.test_client import serving, status
from tests.patience import PATIENCE, until

ONE = {"metadata": {"name": "a", "namespace": "b", "resourceVersion": "1", "uid": "u"}}


def refused(client: str, what: str) -> float:
    return (
        metrics.REGISTRY.get_sample_value(
            "stowage_refused_input_total", {"client": client, "what": what}
        )
        or 0.0
    )


@pytest.mark.proves("S5")
@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "gzip, gzip", "x"])
async def test_an_answer_that_would_have_to_be_inflated_is_refused_unread(encoding: str) -> None:
    bomb = gzip.compress(b"\0" * 50 * MIB)

    async def inflating(request: web.Request) -> web.StreamResponse:
        assert request.headers["Accept-Encoding"] == "identity"
        code = 200 if request.path != "/no" else 403
        return web.Response(status=code, body=bomb, headers={"Content-Encoding": encoding})

    async with serving(inflating) as url, ApiClient(Connection(url), name="bomb") as client:
        for path in ("/api", "/no"):
            with pytest.raises(TooMuch, match="encoded"):
                await client.request("GET", path)
        with pytest.raises(TooMuch, match="encoded"):
            async with client.watch(PODS, resource_version="1"):
                raise AssertionError
        assert client.requests == 3, "asking again would bring it again"
        assert refused("bomb", "answer") == 2


@pytest.mark.proves("S5")
@pytest.mark.parametrize("announced", [True, False])
async def test_each_question_has_its_own_size_of_answer(announced: bool) -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        if announced:
            response.content_length = 1 << 40
        await response.prepare(request)
        try:
            while True:
                await response.write(b" " * 16 * KIB)
        except ConnectionError:
            return response

    async with serving(endless) as url, ApiClient(Connection(url), timeout=60) as client:
        questions = (
            (client.request("GET", "/readyz", errand=FACT), bounds.FACT_BYTES),
            (client.version(), bounds.FACT_BYTES),
            (client.discover("a.b/v1"), bounds.DISCOVERY_BYTES),
            (client.get(PODS, "a", namespace="b"), bounds.OBJECT_BYTES),
            (client.list(PODS), bounds.PAGE_BYTES),
        )
        for question, most in questions:
            with pytest.raises(TooMuch, match=f"larger than {most} bytes"):
                await question


@pytest.mark.proves("S5")
async def test_of_all_that_one_server_sends_at_a_time_one_thing_may_be_large() -> None:
    """None of the others is read beyond what is modest before that one has ended."""
    go = asyncio.Event()

    sent, reading = 0, set[asyncio.Task[object] | None]()

    async def large(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        if request.path == "/readyz":
            return web.json_response({})
        response = web.StreamResponse()
        await response.prepare(request)
        sent += 1
        await response.write(b" " * bounds.MODEST_BYTES * 2)
        await go.wait()
        await response.write(b"{}")
        return response

    class Noting(asyncio.Lock):
        async def acquire(self) -> Any:
            await super().acquire()
            reading.add(asyncio.current_task())
            return True

    async with serving(large) as url, ApiClient(Connection(url)) as client:
        client._large = Noting()
        tasks = [asyncio.create_task(client.request("GET", "/x")) for _ in range(16)]
        await until(lambda: reading and sent == len(tasks))
        await client.request("GET", "/readyz", errand=FACT)
        assert len(reading) == 1
        go.set()
        answers = await asyncio.gather(*tasks)
        assert len(reading) == 16
    assert {len(each) for each in answers} == {2 * bounds.MODEST_BYTES + 2}


@pytest.mark.proves("S5")
@pytest.mark.parametrize("drip", [False, True])
async def test_a_line_of_a_watch_has_an_end(drip: bool) -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            await response.write(b"x" * 128 * KIB)
            while True:
                await response.write(b"x" if drip else b"x" * 64 * KIB)
                await asyncio.sleep(0.01 if drip else 0)
        except ConnectionError:
            return response

    timeout = 0.5 if drip else 60
    async with (
        serving(endless) as url,
        ApiClient(Connection(url), name="l", timeout=timeout) as client,
    ):
        with pytest.raises(TransportError, match=r"longer than|in time"):
            async with client.watch(PODS, resource_version="1") as lines:
                await anext(lines)
        assert refused("l", "watch") == (not drip)
        assert not client._large.locked()


@pytest.mark.proves("S5")
async def test_pages_that_are_too_large_are_asked_for_smaller_and_grow_again() -> None:
    limits: list[int] = []
    bodies = [b"x" * 700 * KIB] * 9 + [b"x"] * 991

    async def listing(request: web.Request) -> web.StreamResponse:
        start, limit = int(request.query.get("continue", 0)), int(request.query["limit"])
        limits.append(limit)
        part = bodies[start : start + limit]
        onward = str(start + limit) if start + limit < len(bodies) else ""
        items = [
            {"metadata": {"name": f"p{start + n}", "resourceVersion": "1"}, "data": body.decode()}
            for n, body in enumerate(part)
        ]
        meta = {"resourceVersion": "7", "continue": onward}
        return web.json_response({"metadata": meta, "items": items})

    async with serving(listing) as url, ApiClient(Connection(url), timeout=60) as client:
        found = await client.list(PODS)
        assert [each["metadata"]["name"] for each in found["items"]] == [
            f"p{n}" for n in range(1000)
        ]
        assert max(limits) == 500
        assert len(limits) < 40, limits
        informer = Informer(client, PODS, Object)
        await informer._list()
        assert len(informer) == 1000


@pytest.mark.proves("S5")
async def test_a_list_of_junk_costs_little_and_an_object_of_junk_spoils_no_other() -> None:
    junk = b"[" + b"{}," * 200_000 + b"{}]"
    good = json.dumps(ONE).encode()
    answers = iter(
        [
            b'{"metadata":{"resourceVersion":"5"},"items":' + junk + b"}",
            b'{"metadata":{"resourceVersion":"5","continue":"x"},"items":['
            b'{"metadata":{"name":"odd"},"spec":' + junk + b"}]}",
            b'{"metadata":{"resourceVersion":"5"},"items":[' + good + b"]}",
        ]
    )

    async def listing(_: web.Request) -> web.StreamResponse:
        return web.Response(body=next(answers))

    async with serving(listing) as url, ApiClient(Connection(url)) as client:
        client_pages = client.pages(PODS, limit=8)
        informer = Informer(client, PODS, Object)
        await informer._take_pages(client_pages)
        assert ("b", "a") in informer


@pytest.mark.proves("S3", "R7")
async def test_probes_and_discovery_pass_by_what_hangs() -> None:
    async def hanging(request: web.Request) -> web.StreamResponse:
        if "hang" in request.path:
            await asyncio.Event().wait()
        return web.json_response({"resources": [], "gitVersion": "v1\x1b[31m" + "x" * 10_000})

    async with serving(hanging) as url, ApiClient(Connection(url), timeout=120) as client:
        tasks = [
            asyncio.create_task(client.request("PATCH", f"/hang/{n}", body={})) for n in range(600)
        ]
        await settle()
        async with asyncio.timeout(PATIENCE * 60):
            await client.request("GET", "/readyz", errand=FACT)
            version = await client.version()
            with pytest.raises(NotFound):
                await client.resource("a.b/v1", "Kind")
        assert version == "v1 [31m" + "x" * (bounds.VERSION_TEXT - 8) + "…"
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.proves("R7")
async def test_who_leads_goes_on_whatever_waits_in_line() -> None:
    """Two terms of a lease: it is read, taken, renewed and released while 600 requests hang."""
    lease: dict[str, Any] = {}
    versions = itertools.count(1)

    async def hanging(request: web.Request) -> web.StreamResponse:
        if "hang" in request.path:
            await asyncio.Event().wait()
        if request.method == "GET" and not lease:
            return status(404, "NotFound")
        if request.method != "GET":
            given = await request.json()
            lease["spec"] = lease.get("spec", {}) | given["spec"]
            lease["metadata"] = given["metadata"] | {"resourceVersion": str(next(versions))}
        return web.json_response(lease)

    async with serving(hanging) as url, ApiClient(Connection(url), timeout=120) as client:
        tasks = [
            asyncio.create_task(client.request("PATCH", f"/hang/{n}", body={})) for n in range(600)
        ]
        await settle()
        elector = LeaderElector(
            client,
            namespace="stowage-system",
            name="stowage-propagator",
            identity="a",
            clock=SystemClock(),
            lease_seconds=60.0,
            renew_deadline=50.0,
            retry_seconds=0.1,
        )

        async def lead() -> None:
            taken = elector.moment
            await until(lambda: elector.moment.renewed > taken.renewed)

        async with asyncio.timeout(60):
            await elector.run(lead)
            await elector.run(lead)
        assert lease["spec"]["leaseTransitions"] == 2
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.proves("S3")
async def test_what_hangs_of_one_workload_and_of_one_namespace_leaves_room_for_others() -> None:
    waiting: Counter[str] = Counter()
    release = asyncio.Event()

    async def slow(request: web.Request) -> web.StreamResponse:
        namespace = request.path.split("/")[4]
        if namespace == "honest":
            return web.json_response({})
        waiting[namespace] += 1
        await release.wait()
        return web.json_response({})

    async def ask(client: ApiClient, namespace: str, workload: int, times: int) -> None:
        with working_for((namespace, f"w{workload}")):
            await asyncio.gather(
                *(client.get(PODS, f"p{n}", namespace=namespace) for n in range(times))
            )

    async def come_to(client: ApiClient, expected: dict[str, int]) -> None:
        """So many wait there, and no more come."""
        await until(lambda: sum(waiting.values()) >= sum(expected.values()), what=lambda: waiting)
        await ask(client, "honest", 0, 1)  # what was sent before has come
        assert waiting == expected

    async with serving(slow) as url, ApiClient(Connection(url), limit=32, timeout=120) as client:
        tasks = [asyncio.create_task(ask(client, "one", 0, 40))]
        await come_to(client, {"one": bounds.FOR_ONE_WORKLOAD})
        tasks += [asyncio.create_task(ask(client, "one", n, 40)) for n in range(1, 9)]
        await come_to(client, {"one": 16})  # half of all
        tasks += [asyncio.create_task(ask(client, "two", n, 40)) for n in range(9)]
        await come_to(client, {"one": 16, "two": 8})
        async with asyncio.timeout(60):
            await ask(client, "honest", 0, 20)
        release.set()
        await asyncio.gather(*tasks)
        assert waiting == {"one": 360, "two": 360}


async def test_who_gives_up_in_line_leaves_no_hole() -> None:
    line = FairQueue(2, each=1)
    order: list[str] = []

    async def go(name: str, hold: asyncio.Event) -> None:
        with working_for(("ns", name)):
            async with line.turn():
                order.append(name)
                await hold.wait()

    first, hold = asyncio.Event(), asyncio.Event()
    hold.set()
    a = asyncio.create_task(go("a", first))
    await asyncio.sleep(0)
    b, c = (asyncio.create_task(go(name, hold)) for name in ("a", "b"))
    await settle()
    b.cancel()
    await asyncio.gather(b, return_exceptions=True)
    assert order == ["a"]
    first.set()
    await asyncio.gather(a, c)
    assert order == ["a", "b"]
    assert (line._total, line._held, line._waiting) == (0, Counter(), {})
    async with line.turn():
        assert line._held == {NO_WORKLOAD: 1}


async def test_one_let_in_at_the_moment_it_gives_up_passes_its_place_on() -> None:
    line = FairQueue(1)
    async with line.turn():
        waiting = [asyncio.create_task(line._enter(NO_WORKLOAD)) for _ in range(2)]
        await asyncio.sleep(0)
    waiting[0].cancel()  # its ticket is called already
    await asyncio.wait_for(waiting[1], 60)
    line._release(NO_WORKLOAD)
    assert line._total == 0


@pytest.mark.proves("S5")
async def test_a_year_of_waiting_is_not_for_a_server_to_ask() -> None:
    async def later(_: web.Request) -> web.StreamResponse:
        return status(429, "TooManyRequests", **{"Retry-After": str(365 * 24 * 3600)})

    async with serving(later) as url, ApiClient(Connection(url)) as client:
        with pytest.raises(TooManyRequests) as caught:
            await client.request("GET", "/x")
        assert caught.value.retry_after == bounds.RETRY_AFTER_SECONDS
        informer = Informer(client, CRDS, Object, jitter=lambda: 0.0)
        informer._failures = 1
        assert informer._pause(caught.value, spoke=False) <= bounds.RETRY_AFTER_SECONDS


@pytest.mark.proves("S10")
async def test_the_words_of_a_refusal_are_one_short_plain_line() -> None:
    words = "\x1b[2Jno\nway " + "x" * 100_000

    async def no(_: web.Request) -> web.StreamResponse:
        return status(422, "In\x1b[31mvalid" * 100, words)

    async with serving(no) as url, ApiClient(Connection(url)) as client:
        with pytest.raises(Invalid) as caught:
            await client.request("GET", "/x")
    told = caught.value
    assert str(told).startswith("[2Jno way xxx")
    assert len(str(told)) == bounds.MESSAGE
    assert "\x1b" not in told.reason
    assert len(told.reason) <= bounds.WORD


async def test_a_server_that_only_drips_is_given_up() -> None:
    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b" ")
                await asyncio.sleep(0.05)
        except ConnectionError:
            return response

    async with serving(drip) as url, ApiClient(Connection(url), timeout=0.3) as client:
        with pytest.raises(Unreachable, match="in time"):
            await client.request("PATCH", "/x", body={})


async def test_a_client_that_is_closed_between_two_reads_is_an_answer_that_never_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reading, closed = asyncio.Event(), asyncio.Event()

    async def pause(self: TimeSlice, *, besides: float = 0.0) -> None:
        """As a long stint makes it: others have their turn, and one of them closes the client."""
        reading.set()
        await closed.wait()

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        with suppress(ConnectionError):
            await response.write(b" " * (bounds.MODEST_BYTES + 1))
            await asyncio.sleep(60)
        return response

    monkeypatch.setattr("machinery.api.connections.CRUMB_BYTES", bounds.MIB)
    monkeypatch.setattr(TimeSlice, "pause", pause)
    async with serving(endless) as url:
        client = ApiClient(Connection(url))
        request = asyncio.create_task(client.request("PATCH", "/x", body={}))
        await reading.wait()
        await client.close()
        closed.set()
        with pytest.raises(Unreachable):
            await request
