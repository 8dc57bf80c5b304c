"""The built site in a browser that has no network: opened from the disk, searched, and judged by axe."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests import chromium
from tests.docs.conftest import SITE
from tests.web.conftest import browser

__all__ = ["browser"]
pytestmark = SITE
SAMPLED = (
    "index.html",
    "stowage.html",
    "ui.html",
    "gangs.html",
    "explain.html",
    "import.html",
    "alerts.html",
    "reference/kinds/workloadgroup.html",
    "reference/configuration.html",
    "decisions/index.html",
)
WCAG = (
    "axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'], preload: false})"
)
Open = Callable[..., Page]


@pytest.fixture
def tab(browser: Browser) -> Iterator[Open]:
    """tab(**options) opens a tab without network; at the end nothing has failed."""
    opened: list[list[str]] = []

    def make(**options: Any) -> Page:
        context = browser.new_context(offline=True, **options)
        made, faults = context.new_page(), list[str]()
        made.set_default_timeout(60_000)
        made.on("requestfailed", lambda request: faults.append(f"failed: {request.url}"))
        made.on("request", lambda request: faults.extend(_foreign(request.url)))
        made.on("console", lambda message: faults.append(f"console: {message.text}"))
        made.on("pageerror", lambda fault: faults.append(f"fault: {fault}"))
        opened.append(faults)
        return made

    yield make
    assert [each for faults in opened for each in faults] == []


def _foreign(url: str) -> list[str]:
    return [] if url.startswith(("file:", "data:", "blob:")) else [f"another host: {url}"]


@pytest.mark.proves("DOC2")
def test_the_search_finds_without_a_network(site: Path, tab: Open) -> None:
    page = tab(viewport={"width": 1280, "height": 800})
    page.goto((site / "index.html").as_uri())
    page.get_by_placeholder("Search").fill("Reservation")
    results = page.locator(".md-search-result__link")
    expect(results.first).to_be_visible()
    assert any("reservations.html" in each.get_attribute("href") for each in results.all())
    results.locator("xpath=self::*[contains(@href, '/reservations.html')]").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Reservation")


@pytest.mark.proves("DOC8")
@pytest.mark.parametrize(
    ("scheme", "pages"),
    [
        ("light", SAMPLED[::2]),
        pytest.param("dark", SAMPLED[1::2], marks=pytest.mark.long),
    ],
)
def test_no_rule_of_wcag_is_broken(
    site: Path, tab: Open, scheme: str, pages: tuple[str, ...]
) -> None:
    page = tab(color_scheme=scheme, reduced_motion="reduce")
    script, found = chromium.axe(), {}
    for each in pages:
        page.goto((site / each).as_uri())
        page.evaluate(script)
        wrong = [
            f"{rule['id']}: {rule['nodes'][0]['html']} {rule['nodes'][0]['failureSummary']}"
            for rule in page.evaluate(WCAG)["violations"]
        ]
        if wrong:
            found[each] = wrong
    assert found == {}
