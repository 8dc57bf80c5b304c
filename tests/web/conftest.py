"""The page, served by a thread of this process, and one browser for all tests of it.

`serve` starts a page over files or over a hub; `fleet` is the one of `examples/`, for tests that
only read. The browser is a module's, which has no test of its own event loop; each test has a
window of its own.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
from playwright.sync_api import Browser, Response, Route, expect, sync_playwright
from playwright.sync_api import Page as Tab

from stowage.console.progress import Lines
from stowage.simulation.plan import Where
from stowage.web import app
from stowage.web.app import UiSettings, run
from tests import chromium
from tests.patience import PATIENCE

expect.set_options(timeout=30_000)
"""A busy machine takes its time; what must come sooner says so itself."""
ROOT = Path(__file__).resolve().parents[2]
FLEET = str(ROOT / "examples/fleet/three-zones.yaml")


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


@dataclass
class Page:
    """A page that is served, and who has opened it."""

    address: str
    cookie: str = ""
    stop: Callable[[], None] = lambda: None
    call: Callable[[Callable[[], object]], None] = lambda _: None
    """Has a function called in the server's loop."""

    @property
    def origin(self) -> str:
        url = urlsplit(self.address)
        return f"{url.scheme}://{url.netloc}"

    def ask(
        self, path: str, *, method: str = "GET", body: str | bytes = b"", **headers: str
    ) -> Answer:
        """Ask as whoever has opened the page; names of headers have `_` for `-`."""
        connection = HTTPConnection(urlsplit(self.address).netloc, timeout=60)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.cookie:
            given.setdefault("Cookie", self.cookie)
        try:
            connection.request(method, path, body or None, given)
            got = connection.getresponse()
            return Answer(got.status, {k.lower(): v for k, v in got.getheaders()}, got.read())
        finally:
            connection.close()

    def json(self, path: str) -> Any:
        answer = self.ask(path, Accept="application/json")
        assert answer.status == 200, (path, answer.text)
        return answer.json

    def open(self) -> Answer:
        """Use the key."""
        url = urlsplit(self.address)
        answer = self.ask(f"{url.path}?{url.query}")
        self.cookie = answer.headers.get("set-cookie", "").partition(";")[0]
        return answer


@contextmanager
def served(settings: UiSettings) -> Iterator[Page]:
    """Serve in a thread until the end, or until `stop`."""
    with in_thread(lambda opened: run(settings, opened=opened)) as page:
        yield page


@contextmanager
def in_thread(
    serving: Callable[[Callable[[str], None]], Coroutine[Any, Any, None]],
) -> Iterator[Page]:
    """Run `serving(opened)`, which calls `opened` with the address, until the end, or `stop`."""
    addresses: list[str] = []
    loops: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []
    there, faults = threading.Event(), list[BaseException]()

    async def whole() -> None:
        task = asyncio.current_task()
        assert task is not None
        loops.append((asyncio.get_running_loop(), task))
        await serving(lambda address: (addresses.append(address), there.set()))

    def serve() -> None:
        try:
            asyncio.run(whole())
        except asyncio.CancelledError:
            pass
        except BaseException as e:  # noqa: BLE001 - raised in the test's thread
            faults.append(e)
        finally:
            there.set()

    thread = threading.Thread(target=serve)
    thread.start()

    def stop() -> None:
        for loop, task in loops:
            if not loop.is_closed():
                loop.call_soon_threadsafe(task.cancel)
        thread.join()

    try:
        assert there.wait(240)
        if faults:
            raise faults[0]
        yield Page(addresses[0], stop=stop, call=loops[0][0].call_soon_threadsafe)
    finally:
        stop()


@pytest.fixture(scope="session", autouse=True)
def _own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The page keeps its state in a folder of the tests, and gives a busy machine time to compute."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app, "SECONDS", PATIENCE * app.SECONDS)
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


Serve = Callable[..., Page]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """serve(*files, fleet=(FLEET,), hub=None, port=0) gives a page that has been opened."""
    with ExitStack() as stack:

        def begin(
            *files: str, fleet: tuple[str, ...] = (FLEET,), hub: Any = None, port: int = 0
        ) -> Page:
            where = Where("default", () if hub else fleet, hub)
            settings = UiSettings(where=where, files=files, port=port, browser=False)
            page = stack.enter_context(served(settings))
            page.open()
            return page

        yield begin


@pytest.fixture(scope="session")
def fleet() -> Iterator[Page]:
    """The examples as they would be placed on three clusters."""
    where = Where("default", (FLEET,))
    settings = UiSettings(where=where, files=(str(ROOT / "examples"),), browser=False)
    with served(settings) as page:
        page.open()
        yield page


@pytest.fixture(scope="module")  # while it lives, no other event loop runs in this thread
def browser(pytestconfig: pytest.Config) -> Iterator[Browser]:
    """A browser without a window, fetched by the first run."""
    with pytestconfig.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        found = chromium.browser(Lines())
    environment = {**os.environ, **found.variables}
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found.program, env=environment)
        yield started
        started.close()


@pytest.fixture
def window(browser: Browser) -> Iterator[Callable[..., Window]]:
    """window(page, **options) opens a window that has the page's session, and notes what goes wrong.

    At the end nothing may have been asked of another host, failed, or been written to the console.
    """
    opened: list[Window] = []

    def make(page: Page, **options: Any) -> Window:
        context = browser.new_context(**options)
        name, _, value = page.cookie.partition("=")
        context.add_cookies([{"name": name, "value": value, "url": page.origin}])
        made = Window(page, context.new_page())
        opened.append(made)
        return made

    yield make
    for each in opened:
        each.tab.context.close()


class Window:
    """A browser's window on a page. `faults` are failed requests and messages of the console."""

    def __init__(self, page: Page, tab: Tab) -> None:
        self.page, self.tab = page, tab
        self.faults: list[str] = []
        tab.set_default_timeout(60_000)
        tab.route(lambda url: not url.startswith(page.origin), self._foreign)
        tab.on("console", lambda message: self.faults.append(f"console: {message.text}"))
        tab.on("pageerror", lambda fault: self.faults.append(f"fault: {fault}"))
        tab.on("response", self._answered)

    def _foreign(self, route: Route) -> None:
        self.faults.append(f"another host: {route.request.url}")
        route.abort()

    def _answered(self, response: Response) -> None:
        if response.status >= 400:
            self.faults.append(f"{response.status}: {response.url}")

    def go(self, path: str) -> Tab:
        """Load that path, and return the tab."""
        self.tab.goto(f"{self.page.origin}{path}")
        return self.tab
