"""Endpoints of plugins: served once, as ours are, and harming nobody."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import msgspec
import pytest

from controller.app import Controller
from controller.framework.runtime import services
from controller.framework.runtime.arguments import Plain
from controller.framework.runtime.services import Endpoint, Route, failure
from controller.http.server import DeniedRequest, Flags, Guard, install
from machinery.http_messages import Request, Response
from machinery.http_server import BODY_LIMIT, HttpServer
from tests.controller.memory import Stage

TWO_PROFILES = """apiVersion: stowage.dev/v1alpha1
kind: SchedulerConfiguration
profiles:
- schedulerName: stowage
  plugins: {postBind: {enabled: [{name: Prices}, {name: Plain}]}}
- schedulerName: second
  plugins: {postBind: {enabled: [{name: Prices}]}}
"""
PRICES = "/apis/v1/plugins/Prices"


class Prices:
    """A plugin with endpoints, and nothing else to do."""

    name = "Prices"

    def post_bind(self, state: Any, info: Any, placements: Any) -> None:
        """Nothing depends on it."""

    def routes(self) -> Sequence[Route]:
        return (
            Route("GET", "/of/:cluster", self._of),
            Route("PUT", "/of/:cluster", self._put),
            Route("GET", "/broken", self._broken),
            Route("GET", "/odd", self._odd),
            Route("GET", "/vast", self._vast),
            Route("GET", "/slow", self._slow),
            Route("GET", "/of/:other", self._of),
            Route("FETCH", "/of", self._of),
            Route("GET", "of", self._of),
            Route("GET", "/:a/:a", self._of),
            "GET /of",  # type: ignore[return-value]  # a mistake that Python lets pass
        )

    async def _of(self, request: Request) -> Mapping[str, Any] | Response:
        cluster = request.params["cluster"]
        return {"price": 3} if cluster == "a" else failure(404, f"no price of {cluster}")

    async def _put(self, request: Request) -> Response:
        return Response(201, request.body)

    async def _broken(self, _request: Request) -> None:
        raise LookupError("no such price")

    async def _odd(self, _request: Request) -> object:
        return object()

    async def _vast(self, _request: Request) -> str:
        return "x" * services.ANSWER_LIMIT

    async def _slow(self, _request: Request) -> None:
        await asyncio.Event().wait()


class Unmarked(Prices):
    """The same without endpoints."""

    routes = None  # type: ignore[assignment]  # whatever it is, it is no method


PLUGINS = {"Prices": Plain(Prices), "Plain": Plain(Unmarked)}


async def ask(
    controller: Controller | int, path: str, *, method: str = "GET", body: bytes | None = None
) -> tuple[int, Any]:
    port = controller if isinstance(controller, int) else controller.port
    url = f"http://127.0.0.1:{port}{path}"
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url, data=BytesIO(body) if body else None) as answer,
    ):
        assert answer.content_type == "application/json"
        return answer.status, json.loads(await answer.read())


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "scheduler.yaml"
    file.write_text(TWO_PROFILES)
    return file


@pytest.mark.proves("E3", "E5", "E6", "E8", "E31")
async def test_a_plugin_serves_its_endpoints_once_beside_ours(config: Path) -> None:
    stage = Stage()
    async with stage.configured(config, plugins=PLUGINS) as controller:
        assert await ask(controller, f"{PRICES}/of/a") == (200, {"price": 3})
        assert await ask(controller, f"{PRICES}/of/b") == (404, {"message": "no price of b"})
        put = await ask(controller, f"{PRICES}/of/a", method="PUT", body=b'{"a": 1}')
        assert put == (201, {"a": 1})
        for path, says in (
            (f"{PRICES}/none", "plugin Prices has no such endpoint"),
            ("/apis/v1/plugins/Nobody/of/a", "no plugin Nobody has endpoints"),
            ("/apis/v1/plugins/Plain/of/a", "no plugin Plain has endpoints"),
            (f"/apis/v1/plugins/{'x' * 999}", f"no plugin {'x' * 100} has endpoints"),
            ("/apis/v1/plugins//", "no plugin  has endpoints"),
        ):
            for method in ("GET", "DELETE"):
                said = {"message": f"{says}; see /apis/v1/__services__"}
                assert await ask(controller, path, method=method) == (404, said)
        assert (await ask(controller, f"{PRICES}/of/a", method="DELETE"))[0] == 405
        assert await ask(controller, "/apis/v1/plugin") == (404, {"message": "Not Found"})
        status, listed = await ask(controller, "/apis/v1/__services__")
    assert status == 200
    assert listed == {method: sorted(set(paths)) for method, paths in listed.items()}
    assert listed["PUT"] == [f"{PRICES}/of/:cluster"]
    assert [path for path in listed["GET"] if "Prices" in path] == [
        f"{PRICES}/{name}" for name in ("broken", "odd", "of/:cluster", "slow", "vast")
    ]
    assert "/apis/v1/__services__" in listed["GET"]
    assert "/apis/v1/plugins/ClusterResources/available/:name" in listed["GET"]


@pytest.mark.proves("E5", "E8")
async def test_a_handler_that_fails_harms_nobody(
    config: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(services, "ANSWER_SECONDS", 0.2)
    stage = Stage("a")
    async with stage.configured(config, plugins=PLUGINS) as controller:
        for path, status, message in (
            ("broken", 500, "internal error, see the log"),
            ("odd", 500, "internal error, see the log"),
            ("vast", 500, f"the answer is larger than {services.ANSWER_LIMIT} bytes"),
            ("slow", 504, "no answer within 0 s"),
        ):
            assert await ask(controller, f"{PRICES}/{path}") == (status, {"message": message})
        long = await ask(controller, f"{PRICES}/of/a", method="PUT", body=b"x" * (BODY_LIMIT + 1))
        assert long[0] == 413
        stage.workload("demo")
        await stage.until(lambda: stage.placed("demo"))
    for fault in ("FETCH", "no such path: of", "stands twice in /:a/:a", "str is no Route"):
        assert fault in caplog.text


@pytest.mark.proves("E11")
async def test_only_the_leader_answers(config: Path) -> None:
    stage = Stage()
    async with (
        stage.configured(config, plugins=PLUGINS),
        stage.configured(config, plugins=PLUGINS, identity="two", standby=True) as standby,
    ):
        await stage.until(lambda: standby.port > 0)
        no = (503, {"message": "the instance is not leader"})
        for path in (
            f"{PRICES}/of/a",
            "/apis/v1/plugins/ClusterResources/available/a",
            "/apis/v1/plugins/Nobody/x",
        ):
            assert await ask(standby, path) == no


@pytest.mark.proves("E7", "E10")
async def test_the_room_of_a_cluster_is_that_of_the_next_decision(config: Path) -> None:
    stage = Stage("a", cpu="8")
    async with stage.configured(config, plugins=PLUGINS) as controller:
        stage.workload("demo", replicas=3, cpu="2")
        await stage.until(lambda: stage.placed("demo"))
        _, told = await ask(controller, "/apis/v1/clusters/a")
        _, left = await ask(controller, "/apis/v1/plugins/ClusterResources/available/a")
        assert left == {"name": "a", "available": told["remaining"]}
        assert left["available"]["cpu"] == "2"
        gone = await ask(controller, "/apis/v1/plugins/ClusterResources/available/b")
        assert gone == (404, {"message": "cannot find node b"})


class Nobody:
    """A guard that lets nobody in."""

    async def refusal(self, *, authorization: str, method: str, path: str) -> DeniedRequest:
        return DeniedRequest(403, f"{authorization} may not {method} {path}")


@pytest.mark.proves("E5", "E8")
async def test_the_guard_stands_before_them() -> None:
    server = HttpServer()
    install(
        server,
        cache=cast("Any", None),
        leading=lambda: True,
        unready=str,
        diagnosis=cast("Any", None),
        flags=Flags(),
        guard=cast("Guard", Nobody()),
        services=services.services([Twice(1)]),
    )
    port = await server.start("127.0.0.1", 0)
    try:
        for path in ("/apis/v1/plugins/Twice/told", "/apis/v1/plugins/Nobody/x"):
            said = {"message": f" may not GET {path}"}
            assert await ask(port, path) == (403, said), "who may not ask learns nothing"
    finally:
        await server.stop()


class Twice:
    """Two of one name."""

    name = "Twice"

    def __init__(self, answer: int) -> None:
        self.answer = answer

    def routes(self) -> Sequence[Route]:
        async def told(_request: Request) -> int:
            return self.answer

        return [Route("GET", "/", told), Route("GET", "/told", told)]


class Fails(Twice):
    """It cannot even say what it answers."""

    name = "Fails"

    def routes(self) -> Sequence[Route]:
        raise RuntimeError("out of order")


@pytest.mark.proves("E31")
async def test_of_two_with_one_name_the_first_answers(caplog: pytest.LogCaptureFixture) -> None:
    odd = Twice(3)
    odd.name = "a/b"
    found: list[Endpoint] = services.services([Twice(1), Twice(2), Fails(4), odd])
    assert [each.path for each in found] == ["/apis/v1/plugins/Twice/told"]
    answer = await found[0].handler(Request("GET", found[0].path))
    assert msgspec.json.decode(answer.body) == 1
    assert "plugin Fails has no endpoints" in caplog.text
    assert "does not fit into a path" in caplog.text


async def test_a_book_is_read_page_by_page_in_the_order_of_keys() -> None:
    keys = [("shop", f"n{n:03}") for n in range(2 * services.PAGE + 1)]
    kept = {key: SimpleNamespace(key=key) for key in reversed(keys)}

    def told(found: Any) -> dict[str, str]:
        return {"name": found.key[1]}

    book = services.Book("nodes", "node", kept.values, kept.get, told, told)
    pages, one = (route.answer for route in book.routes())

    def asked(query: dict[str, str], **params: str) -> Request:
        return Request(method="GET", path="/", query=query, params=params, headers={}, body=b"")

    seen, query = [], dict[str, str]()
    for size in (services.PAGE, services.PAGE, 1):
        page = await pages(asked(query))
        assert len(page["nodes"]) == size
        seen += [("shop", each["name"]) for each in page["nodes"]]
        query = {"continue": page.get("continue", "")}
    assert (seen, query) == (keys, {"continue": ""})
    assert await one(asked({}, namespace="shop", name="n007")) == {"name": "n007"}
    none = await one(asked({}, namespace="shop", name="other"))
    assert (none.status, none.body) == (404, b'{"message":"cannot find node shop/other"}')
