"""The pictures of docs/: each page that docs/ui.md names has one, and shows what is recorded beside it.

`make screenshots` writes them, and what a screen reader is told of each page to `aria/`. Tests compare
the latter: pixels differ from one machine's fonts to the next.
"""

from __future__ import annotations

import contextlib
import os
import re
import struct
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from unittest import mock

import pytest

from machinery.clock import SystemClock
from stowage.simulation.plan import Where
from stowage.web.app import UiSettings
from tests.web import showcase
from tests.web.conftest import ROOT, Page, Window, served

WRITE = "WRITE_PICTURES" in os.environ
PICTURES = ROOT / "docs" / "images" / "ui"
ARIA = Path(__file__).parent / "aria"
SIZE = {"width": 1280, "height": 800}
MOST_BYTES = 200 * 1024
PAGES = {
    "overview": "/",
    "clusters": "/clusters",
    "cluster": "/clusters/eu-paris",
    "workloads": "/workloads",
    "workload": "/workloads/shop/web",
    "history": "/workloads/shop/web/history",
    "matrix": "/matrix",
    "groups": "/groups",
    "spreads": "/spreads",
    "reservations": "/reservations",
    "policies": "/policies",
    "whatif": "/whatif",
}
NAMES = {"NAME": "eu-paris", "NS/NAME": "shop/web"}
"""What stands in PAGES where docs/ui.md has these words."""
SHOWN = re.compile(
    r'<picture>\n<source media="\(prefers-color-scheme: dark\)" srcset="(?P<dark>[^"]+)">\n'
    r'<img src="(?P<light>[^"]+)" alt="(?P<alt>[^"]+)">\n</picture>'
)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    folder = tmp_path_factory.mktemp("showcase")
    showcase.written(folder)

    def now(_: SystemClock) -> datetime:
        return showcase.NOW

    with mock.patch.object(SystemClock, "now", now):
        settings = UiSettings(where=Where("shop", (showcase.FILE,)), browser=False)
        with contextlib.chdir(folder), served(settings) as page:  # the page names the file
            page.open()
            yield page


def told(window: Window) -> str:
    """What a screen reader is told, without the version."""
    return re.sub(r"Stowage \d\S*", "Stowage VERSION", window.tab.locator("body").aria_snapshot())


@pytest.mark.proves("DOC7", "V29")
@pytest.mark.parametrize("name", PAGES)
def test_a_page_shows_what_is_recorded(
    name: str, shown: Page, window: Callable[..., Window]
) -> None:
    for scheme in ("light", "dark") if WRITE else ("light",):
        looked = window(shown, color_scheme=scheme, viewport=SIZE)
        tab = looked.go(PAGES[name])
        if name == "whatif":
            tab.get_by_label("Lose", exact=True).select_option("eu-paris")
            tab.get_by_role("button", name="Compute").click()
            tab.locator("#comes").wait_for()
        else:
            tab.locator("#live").get_by_text("Live").wait_for()
        if WRITE:
            PICTURES.mkdir(parents=True, exist_ok=True)
            tab.screenshot(path=PICTURES / f"{name}-{scheme}.png")
            ARIA.mkdir(exist_ok=True)
            (ARIA / f"{name}.yaml").write_text(told(looked) + "\n")
        assert told(looked) + "\n" == (ARIA / f"{name}.yaml").read_text()


CUT = """() => {
  const chart = document.querySelector(".chart").getBoundingClientRect();
  return [...document.querySelectorAll(".chart text")]
    .filter((each) => each.getBoundingClientRect().right > chart.right)
    .map((each) => each.textContent); }"""


@pytest.mark.proves("Q23")
def test_a_small_screen_cuts_no_label_of_a_time_line(
    shown: Page, window: Callable[..., Window]
) -> None:
    tab = window(shown, viewport={"width": 390, "height": 844}).go(PAGES["history"])
    assert tab.locator(".chart .below").count() > 2
    assert tab.evaluate(CUT) == []


@pytest.mark.proves("Q23")
def test_no_choice_of_a_what_if_is_cut(shown: Page, window: Callable[..., Window]) -> None:
    tab = window(shown, viewport=SIZE).go(PAGES["whatif"])
    lists = tab.locator("select[multiple]")
    assert lists.count() > 2
    cut = "all => all.filter(each => each.scrollWidth > each.clientWidth).map(each => each.name)"
    assert lists.evaluate_all(cut) == []


@pytest.mark.proves("V29")
def test_each_page_that_is_named_has_its_pictures() -> None:
    text = (ROOT / "docs" / "ui.md").read_text()
    table = text.partition("## What it shows")[2].partition("\n## ")[0]
    named = {
        path
        for row in re.findall(r"^\| (`/.+?) \|", table, re.MULTILINE)
        for path in re.findall(r"`(/[^`]*)`", row)
    }
    given = {_path(each) for each in named if each != "/NS/NAME"}
    assert given == set(PAGES.values())
    for each in PAGES:
        assert f"images/ui/{each}-light.png" in text, each


def _path(named: str) -> str:
    for word in sorted(NAMES, key=len, reverse=True):
        named = named.replace(word, NAMES[word])
    return named


@pytest.mark.proves("DOC7")
@pytest.mark.parametrize("page", ["README.md", "docs/ui.md"])
def test_pictures_are_small_and_are_told_to_who_cannot_see(page: str) -> None:
    text = (ROOT / page).read_text()
    found = list(SHOWN.finditer(text))
    assert len(found) == text.count("<img ") == text.count("<picture>") > 0
    for each in found:
        assert len(each["alt"]) > 20
        assert each["dark"] == each["light"].replace("-light.png", "-dark.png")
        for link in (each["light"], each["dark"]):
            picture = (ROOT / page).parent / link
            head = picture.read_bytes()[:24]
            assert struct.unpack(">II", head[16:]) == tuple(SIZE.values())
            assert picture.stat().st_size <= MOST_BYTES
    if page == "README.md":
        assert text.index("<picture>") < text.index("## ")


def test_no_picture_is_left_over() -> None:
    there = {each.name for each in PICTURES.iterdir()}
    assert there == {f"{name}-{scheme}.png" for name in PAGES for scheme in ("light", "dark")}
    assert {each.stem for each in ARIA.iterdir()} == set(PAGES)
