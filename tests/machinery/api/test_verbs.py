"""What each verb puts on the wire, and what it makes of the answer."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from aiohttp import web

from machinery.api import verbs
from machinery.api.acting import Acting
from machinery.api.client import ApiClient
from machinery.api.resources import NAMESPACES, PODS, SERVICES, WORKLOADS
from machinery.api.responses import decode
from machinery.api.verbs import METADATA_LIST, PAGE, query_of
from machinery.config.kubeconfig import Connection
from machinery.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    TransportError,
)
from machinery.types import bounds

JSON = "application/json"
OBJECT = {
    "metadata": {"name": "web", "namespace": "demo"},
    "spec": {"unknown": {"kept": [1, None]}},
}
ONE = "/apis/stowage.dev/v1alpha1/namespaces/demo/workloads/web"
ALL = "/apis/stowage.dev/v1alpha1/namespaces/demo/workloads"


@dataclass
class Asked:
    """One request as the server saw it."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    headers: Mapping[str, str] = field(repr=False)

    @property
    def summary(self) -> tuple[str, str, dict[str, str]]:
        return self.method, self.path, self.query


Answer = Callable[[Asked], web.Response]


class Server:
    """Answers what it is told to, `OBJECT` by default, and remembers what it was asked."""

    def __init__(self, client: ApiClient) -> None:
        self.client = client
        self.asked: list[Asked] = []
        self.answer: Answer = lambda _: web.json_response(OBJECT)

    @property
    def last(self) -> Asked:
        return self.asked[-1]


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with running() as server:
        yield server


@asynccontextmanager
async def running() -> AsyncIterator[Server]:
    async def handle(request: web.Request) -> web.Response:
        body = await request.read()
        query = dict(request.query)
        if request.method != "GET":
            assert query.pop("timeout"), "each change tells its time"
        asked = Asked(
            request.method,
            request.raw_path.partition("?")[0],
            query,
            json.loads(body) if body else None,
            request.headers,
        )
        server.asked.append(asked)
        return server.answer(asked)

    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        async with ApiClient(Connection(url)) as client:
            server = Server(client)
            yield server
    finally:
        await runner.cleanup()


def refused(code: int, reason: str) -> web.Response:
    status = {"kind": "Status", "reason": reason, "message": f"no: {reason}"}
    return web.json_response(status, status=code)


def items(*names: str) -> list[dict[str, Any]]:
    return [{"metadata": {"name": name}} for name in names]


class Pages:
    """A list in pages; forgets the moment that they show when it is asked for one of `forgets`."""

    def __init__(self, *pages: list[dict[str, Any]], forgets: tuple[int, ...] = ()) -> None:
        self.pages = pages
        self.forgets = forgets

    def __call__(self, asked: Asked) -> web.Response:
        if "limit" not in asked.query:
            return self.page([each for page in self.pages for each in page], "", version="200")
        number = int(asked.query.get("continue", "0"))
        if number in self.forgets:
            return refused(410, "Expired")
        onward = str(number + 1) if number + 1 < len(self.pages) else ""
        return self.page(self.pages[number], onward, version="100")

    def page(
        self, listed: list[dict[str, Any]] | None, onward: str, *, version: str
    ) -> web.Response:
        metadata = {"resourceVersion": version, **({"continue": onward} if onward else {})}
        return web.json_response({"kind": "WorkloadList", "metadata": metadata, "items": listed})


def names(listed: Mapping[str, Any]) -> list[str]:
    return [each["metadata"]["name"] for each in listed["items"]]


# --- one object


async def test_get_asks_for_the_object_and_gives_it_whole(server: Server) -> None:
    assert await server.client.get(WORKLOADS, "web", namespace="demo") == OBJECT
    assert server.last.summary == ("GET", ONE, {})
    assert server.last.body is None
    assert "Content-Type" not in server.last.headers
    assert server.last.headers["Accept"] == JSON


async def test_what_is_not_there_is_found_to_be_nothing_and_a_refusal_is_raised(
    server: Server,
) -> None:
    assert await server.client.find(WORKLOADS, "web", namespace="demo") == OBJECT
    server.answer = lambda _: refused(404, "NotFound")
    assert await server.client.find(WORKLOADS, "web", namespace="demo") is None
    server.answer = lambda _: refused(403, "Forbidden")
    with pytest.raises(Forbidden):
        await server.client.find(WORKLOADS, "web", namespace="demo")


async def test_a_subresource_and_a_kind_of_no_namespace_have_their_paths(server: Server) -> None:
    await server.client.get(WORKLOADS, "web", namespace="demo", subresource="status")
    assert server.last.path == f"{ONE}/status"
    await server.client.get(NAMESPACES, "demo")
    assert server.last.path == "/api/v1/namespaces/demo"
    with pytest.raises(ValueError, match="cluster-scoped"):
        await server.client.get(NAMESPACES, "demo", namespace="demo")


async def test_a_name_cannot_lead_elsewhere(server: Server) -> None:
    await server.client.get(PODS, "a?b#c", namespace="demo x")
    assert server.last.path == "/api/v1/namespaces/demo%20x/pods/a%3Fb%23c"
    assert server.last.query == {}
    for name, namespace in (("../../secrets", "demo"), ("", "demo"), ("a", "demo/x")):
        with pytest.raises(BadRequest):
            await server.client.delete(PODS, name, namespace=namespace)


async def test_create_posts_to_the_namespace_of_the_object(server: Server) -> None:
    assert await server.client.create(WORKLOADS, OBJECT) == OBJECT
    assert server.last.summary == ("POST", ALL, {})
    assert server.last.body == OBJECT
    assert server.last.headers["Content-Type"] == JSON
    await server.client.create(WORKLOADS, OBJECT, namespace="other")
    assert server.last.path == ALL.replace("demo", "other")
    await server.client.create(NAMESPACES, {"metadata": {"name": "a", "namespace": "no"}})
    assert server.last.path == "/api/v1/namespaces"


async def test_delete_says_what_it_means(server: Server) -> None:
    await server.client.delete(WORKLOADS, "web", namespace="demo")
    assert server.last.summary == ("DELETE", ONE, {})
    plain = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
    assert server.last.body == plain
    await server.client.delete(WORKLOADS, "web", namespace="demo", uid="u-1", resource_version="7")
    told = {"uid": "u-1", "resourceVersion": "7"}
    assert server.last.body == {**plain, "preconditions": told}


# --- patches


async def test_each_kind_of_patch_has_its_content_type(server: Server) -> None:
    client = server.client
    merge = {"spec": {"gone": None}}
    assert await client.merge_patch(WORKLOADS, "web", merge, namespace="demo") == OBJECT
    assert server.last.summary == ("PATCH", ONE, {})
    assert server.last.headers["Content-Type"] == "application/merge-patch+json"
    assert server.last.body == merge, "null is what deletes a field: it must arrive"

    await client.apply(WORKLOADS, OBJECT, name="web")
    assert server.last.summary == ("PATCH", ONE, {"fieldManager": "stowage"})
    assert server.last.headers["Content-Type"] == "application/apply-patch+yaml"
    assert server.last.body == OBJECT


async def test_an_apply_names_its_manager_and_forces_only_when_told(server: Server) -> None:
    await server.client.apply(
        WORKLOADS,
        OBJECT,
        name="web",
        namespace="other",
        field_manager="someone",
        force=True,
        subresource="status",
    )
    path = ONE.replace("demo", "other") + "/status"
    assert server.last.summary == ("PATCH", path, {"fieldManager": "someone", "force": "true"})


@pytest.mark.proves("RB26")
@pytest.mark.parametrize(
    ("metadata", "sent"),
    [
        ({}, True),
        ({"uid": "u-1"}, True),
        ({"uid": "u-1", "resourceVersion": "7"}, True),
        ({"resourceVersion": verbs.OF_NO_OBJECT}, True),
        ({"resourceVersion": "7"}, False),
        ({"resourceVersion": "7", "uid": ""}, False),
    ],
)
async def test_an_apply_that_names_a_version_names_the_object_too(
    server: Server, metadata: dict[str, str], sent: bool
) -> None:
    body = {"metadata": {"name": "web", "namespace": "demo", **metadata}}
    with nullcontext() if sent else pytest.raises(ValueError, match="and no UID"):
        await server.client.apply(WORKLOADS, body, name="web")
    assert len(server.asked) == sent


async def test_a_dry_run_is_told_to_the_server(server: Server) -> None:
    await server.client.create(WORKLOADS, OBJECT, dry_run=True)
    assert server.last.summary == ("POST", ALL, {"dryRun": "All"})
    await server.client.apply(WORKLOADS, OBJECT, name="web", dry_run=True)
    assert server.last.query == {"fieldManager": "stowage", "dryRun": "All"}


async def test_a_conflict_and_a_refusal_are_told_apart(server: Server) -> None:
    server.answer = lambda _: refused(409, "Conflict")
    with pytest.raises(Conflict):
        await server.client.merge_patch(
            WORKLOADS, "web", {"metadata": {"resourceVersion": "1"}}, namespace="demo"
        )
    server.answer = lambda _: refused(422, "Invalid")
    with pytest.raises(Invalid):
        await server.client.merge_patch(WORKLOADS, "web", {"spec": 1}, namespace="demo")


# --- lists


async def test_a_list_is_asked_for_in_pages_and_given_as_one(server: Server) -> None:
    server.answer = Pages(items("a", "b"), items("c"), items("d"))
    listed = await server.client.list(
        WORKLOADS, namespace="demo", label_selector="app in (x, y),!z", field_selector="a=b&c"
    )
    assert names(listed) == ["a", "b", "c", "d"]
    assert listed["metadata"] == {"resourceVersion": "100"}
    assert listed["kind"] == "WorkloadList"
    same = {
        "labelSelector": "app in (x, y),!z",
        "fieldSelector": "a=b&c",
        "limit": str(PAGE),
    }
    assert [asked.summary for asked in server.asked] == [
        ("GET", ALL, same),
        ("GET", ALL, {**same, "continue": "1"}),
        ("GET", ALL, {**same, "continue": "2"}),
    ]


async def test_a_continue_token_comes_back_as_it_was(server: Server) -> None:
    token = "eyJ2IjoibWV0YS5rOHMuaW8vdjEi+/=&?%"

    def two(asked: Asked) -> web.Response:
        onward = "" if "continue" in asked.query else token
        return Pages().page(items("a"), onward, version="1")

    server.answer = two
    assert names(await server.client.list(PODS)) == ["a", "a"]
    assert server.last.query["continue"] == token


async def test_an_empty_list_is_one_whether_as_null_or_as_nothing(server: Server) -> None:
    for empty in ([], None):
        server.answer = Pages(empty)  # type: ignore[arg-type]  # Go writes a nil slice as null
        assert (await server.client.list(PODS))["items"] == []
    server.answer = lambda _: web.json_response({"metadata": {"resourceVersion": "1"}})
    assert await server.client.list(PODS) == {"metadata": {"resourceVersion": "1"}, "items": []}


async def test_a_list_over_all_namespaces_or_of_metadata_only(server: Server) -> None:
    server.answer = Pages(items("a"))
    await server.client.list(WORKLOADS)
    assert server.last.path == "/apis/stowage.dev/v1alpha1/workloads"
    await server.client.list(WORKLOADS, metadata_only=True)
    assert server.last.headers["Accept"] == METADATA_LIST
    assert "as=PartialObjectMetadataList" in METADATA_LIST


async def test_a_list_forgotten_half_way_is_asked_for_in_one_piece(server: Server) -> None:
    server.answer = Pages(items("a"), items("b"), items("c"), forgets=(2,))
    listed = await server.client.list(WORKLOADS, namespace="demo", label_selector="app=x")
    assert names(listed) == ["a", "b", "c"], "each once, though two pages had come already"
    assert listed["metadata"]["resourceVersion"] == "200", "the moment of what is given"
    assert len(server.asked) == 4
    assert server.last.query == {"labelSelector": "app=x"}


async def test_a_list_that_is_gone_at_once_and_in_one_piece_is_gone(server: Server) -> None:
    server.answer = lambda _: refused(410, "Expired")
    with pytest.raises(Gone):
        await server.client.list(WORKLOADS)
    assert len(server.asked) == 2


async def test_pages_come_undecoded_one_by_one_and_gone_comes_out(server: Server) -> None:
    server.answer = Pages(items("a"), items("b"), items("c"), forgets=(2,))
    pages = server.client.pages(WORKLOADS, namespace="demo", limit=1)
    assert server.asked == [], "nothing is asked for before it is wanted"
    first = await anext(pages)
    assert names(json.loads(first)) == ["a"]
    assert len(server.asked) == 1, "nor a page more than is wanted"
    assert server.last.query["limit"] == "1"
    assert names(json.loads(await anext(pages))) == ["b"]
    with pytest.raises(Gone):
        await anext(pages)
    with pytest.raises(StopAsyncIteration):
        await anext(pages)


async def test_a_limit_of_0_asks_for_everything_at_once(server: Server) -> None:
    server.answer = Pages(items("a"), items("b"))
    pages = [page async for page in server.client.pages(WORKLOADS, limit=0)]
    assert len(pages) == 1
    assert server.last.query == {}


async def test_a_list_that_is_forbidden_is_not_asked_for_twice(server: Server) -> None:
    server.answer = lambda _: refused(404, "NotFound")
    with pytest.raises(NotFound):
        await server.client.list(WORKLOADS)
    assert len(server.asked) == 1


def always_onward(token: Callable[[int], str]) -> Answer:
    """A server of pages without a last one."""
    numbers = itertools.count()
    return lambda _: Pages().page(items("a"), token(next(numbers)), version="1")


@pytest.mark.parametrize(
    ("token", "asked"), [(lambda _: "x", 2), (lambda n: "xyz"[n % 3], 4)], ids=["same", "circle"]
)
async def test_a_list_that_leads_back_to_a_page_it_had_is_a_fault(
    server: Server, token: Callable[[int], str], asked: int
) -> None:
    server.answer = always_onward(token)
    with pytest.raises(TransportError, match="leads back") as caught:
        await asyncio.wait_for(server.client.list(PODS), 60)
    assert "/api/v1/pods" in str(caught.value)
    assert len(server.asked) == asked, "and is not asked for once more in one piece"


async def test_a_list_that_never_ends_is_given_up(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verbs, "MOST_PAGES", 20)
    server.answer = always_onward(str)
    with pytest.raises(TransportError, match="no end after 20 pages"):
        await asyncio.wait_for(server.client.list(PODS), 60)
    assert len(server.asked) == 20


async def test_a_list_may_have_as_many_pages_as_the_bound(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert verbs.MOST_PAGES * PAGE >= 1_000_000, "more objects than any server holds of a kind"
    monkeypatch.setattr(verbs, "MOST_PAGES", 3)
    server.answer = Pages(items("a"), items("b"), items("c"))
    assert names(await server.client.list(PODS)) == ["a", "b", "c"]


# --- answers that are none


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b'{"a":', b"\xef\xbb\xbf{}", b'{"a":"\xff"}', b'{"a":' + b"[" * 100_000],
    ids=["nothing", "a page", "half", "a mark", "no UTF-8", "no end"],
)
async def test_an_answer_that_is_no_json_is_a_fault_of_transport(
    server: Server, body: bytes
) -> None:
    server.answer = lambda _: web.Response(body=body, content_type=JSON)
    with pytest.raises(TransportError, match=r"not the JSON|more than"):
        await server.client.get(WORKLOADS, "web", namespace="demo")
    with pytest.raises(TransportError, match=r"not the JSON|more than"):
        await server.client.list(WORKLOADS)


@pytest.mark.parametrize("answer", [[], "text", {"metadata": []}, {"metadata": {"continue": 5}}])
async def test_a_list_of_another_shape_is_a_fault_of_transport(server: Server, answer: Any) -> None:
    server.answer = lambda _: web.json_response(answer)
    with pytest.raises(TransportError, match=r"not the JSON|more than"):
        await server.client.list(WORKLOADS)


@pytest.mark.parametrize("answer", [[], "text", 5, None])
async def test_an_object_that_is_none_is_a_fault_of_transport(server: Server, answer: Any) -> None:
    server.answer = lambda _: web.json_response(answer)
    with pytest.raises(TransportError, match=r"not the JSON|more than"):
        await server.client.get(WORKLOADS, "web", namespace="demo")


@pytest.mark.parametrize("listed", ["text", {"a": 1}, 5, ["text"], [None]])
async def test_items_that_are_none_are_a_fault_of_transport(server: Server, listed: Any) -> None:
    server.answer = lambda _: web.json_response({"metadata": {}, "items": listed})
    with pytest.raises(TransportError, match=r"not the JSON|more than"):
        await server.client.list(WORKLOADS)


def test_decode_takes_a_shape_of_ones_own() -> None:
    numbers = msgspec.json.Decoder(list[int])
    assert decode(b"[1, 2]", numbers) == [1, 2]
    with pytest.raises(TransportError, match=r"not the JSON|more than"):
        decode(b'["a"]', numbers)


def test_a_selection_holds_only_what_is_given() -> None:
    assert query_of({}) == {}
    assert query_of({"label_selector": "", "field_selector": None}, watch="true") == {
        "watch": "true"
    }
    assert query_of({"label_selector": "a=b", "field_selector": "c=d"}, limit="5") == {
        "labelSelector": "a=b",
        "fieldSelector": "c=d",
        "limit": "5",
    }


# --- discovery


def discovering(*kinds: dict[str, Any]) -> Answer:
    return lambda _: web.json_response({"kind": "APIResourceList", "resources": list(kinds)})


SERVICE = {"name": "services", "kind": "Service", "namespaced": True, "verbs": ["get"]}
STATUS = {"name": "services/status", "kind": "Service", "namespaced": True}
NAMESPACE = {"name": "namespaces", "kind": "Namespace", "namespaced": False}


async def test_discovery_lists_kinds_without_subresources_and_is_remembered(
    server: Server,
) -> None:
    server.answer = discovering(STATUS, SERVICE, NAMESPACE)
    assert await server.client.discover("v1") == [SERVICES, NAMESPACES]
    assert server.last.path == "/api/v1"
    assert await server.client.discover("v1") == [SERVICES, NAMESPACES]
    assert len(server.asked) == 1
    await server.client.discover("apps/v1")
    assert server.last.path == "/apis/apps/v1"


@pytest.mark.proves("S3")
async def test_what_the_server_lacks_is_asked_for_again_after_a_moment_only(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answer = lambda _: refused(404, "NotFound")
    for _ in range(20):
        with pytest.raises(NotFound):
            await server.client.discover("no.example/v1")
    assert len(server.asked) == 1
    monkeypatch.setattr(bounds, "UNKNOWN_SECONDS", 0)
    server.answer = discovering(SERVICE)
    assert len(await server.client.discover("no.example/v1")) == 1


async def test_the_resource_of_a_kind_comes_from_what_is_known(server: Server) -> None:
    server.answer = discovering(STATUS, SERVICE, NAMESPACE)
    for _ in range(2):
        assert await server.client.resource("v1", "Service") == SERVICES
    assert await server.client.resource("v1", "Namespace") == NAMESPACES
    assert len(server.asked) == 1


async def test_a_kind_that_has_just_arrived_is_found(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answer = discovering(NAMESPACE)
    await server.client.discover("v1")
    with pytest.raises(NotFound):
        await server.client.resource("v1", "Service")
    assert len(server.asked) == 1
    monkeypatch.setattr(bounds, "UNKNOWN_SECONDS", 0)
    server.answer = discovering(NAMESPACE, SERVICE)
    assert await server.client.resource("v1", "Service") == SERVICES
    assert len(server.asked) == 2


@pytest.mark.proves("B16")
@pytest.mark.parametrize("verb", ["apply", "list"])
async def test_a_kind_whose_path_is_not_found_is_asked_for_again(
    server: Server, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """A CRD that was made again with another scope has other paths."""
    here = {"name": "widgets", "kind": "Widget", "namespaced": True}
    server.answer = discovering(here)
    found = await server.client.resource("example.com/v1", "Widget")
    acting = Acting(server.client, "somebody")
    server.answer = lambda _: refused(404, "NotFound")
    asking = acting.apply(found, OBJECT, name="web") if verb == "apply" else acting.list(found)
    with pytest.raises(NotFound):
        await asking
    server.answer = discovering({**here, "namespaced": False})
    asked = len(server.asked)
    for _ in range(20):
        assert await server.client.resource("example.com/v1", "Widget") == found
    assert len(server.asked) == asked, "not at each refusal"
    monkeypatch.setattr(bounds, "UNKNOWN_SECONDS", 0)
    assert not (await server.client.resource("example.com/v1", "Widget")).namespaced
    assert not (await acting.resource("example.com/v1", "Widget")).namespaced
    assert len(server.asked) == asked + 1


@pytest.mark.proves("S3")
@pytest.mark.parametrize(
    "odd", ["a/b/c", "apps?x=y/v1", "../v1", "%2e%2e/v1", "", "a\nb/v1", "/", "x" * 999 + "/v1"]
)
async def test_no_manifest_can_have_another_address_asked(server: Server, odd: str) -> None:
    server.answer = lambda _: refused(404, "NotFound")
    with pytest.raises(NotFound):
        await server.client.resource(odd, "Odd")
    for asked in server.asked:  # what can be quoted may be asked for, in its place
        assert re.fullmatch(r"/apis/[^/]+/v1", asked.path)
        assert not asked.query


@pytest.mark.proves("S3")
async def test_names_that_a_server_makes_up_are_not_used_and_its_kinds_are_bounded(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("", "..", "a%2f", "x" * 300, "services")
    server.answer = discovering(*[{**SERVICE, "name": name} for name in names])
    assert await server.client.discover("v1") == [SERVICES]
    for number in range(bounds.DISCOVERED + 5):
        await server.client.discover(f"v{number + 1}")
    asked = len(server.asked)
    await server.client.discover("v1")  # forgotten long since
    await server.client.discover(f"v{bounds.DISCOVERED}")  # remembered still
    assert len(server.asked) == asked + 1


@pytest.mark.proves("S3")
async def test_many_who_want_to_know_ask_once(server: Server) -> None:
    server.answer = discovering(SERVICE)
    await asyncio.gather(*(server.client.resource("v1", "Service") for _ in range(50)))
    assert len(server.asked) == 1


async def test_a_kind_that_there_is_not_is_not_found_by_name(server: Server) -> None:
    server.answer = discovering(NAMESPACE)
    with pytest.raises(NotFound, match=r"Gadget.*v1"):
        await server.client.resource("v1", "Gadget")


async def test_the_version_is_as_the_server_tells_it(server: Server) -> None:
    server.answer = lambda _: web.json_response({"major": "1", "gitVersion": "v1.36.3"})
    assert await server.client.version() == "v1.36.3"
    assert server.last.summary == ("GET", "/version", {})
