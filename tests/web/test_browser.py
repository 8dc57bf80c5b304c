"""Pages in a browser: nothing from elsewhere, readable by all, worked by keyboard, on small screens."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from stowage.simulation.plan import Where
from stowage.web.app import UiSettings
from tests import chromium
from tests.web import fleets, reviews
from tests.web.conftest import Page, Window, in_thread, served
from tests.web.reviews import Reviewer

PATHS = (
    "/",
    "/clusters",
    "/clusters/member-4",
    "/workloads",
    "/workloads/shop/web-1",
    "/workloads/train/batch-1",
    "/workloads/shop/web-1/history",
    "/matrix",
    "/groups",
    "/groups/shop/gang",
    "/spreads",
    "/spreads/shop/spread",
    "/reservations",
    "/reservations/shop/pool",
    "/policies",
    "/policies/shop/policy",
    "/whatif",
    "/nowhere",
)
Open = Callable[..., Window]

BESIDE: list[dict[str, Any]] = [
    {
        "kind": "WorkloadGroup",
        "metadata": {"name": "gang"},
        "spec": {"minMember": 4},
        "status": {"phase": "Pending", "desired": 4, "scheduled": 2},
    },
    {
        "kind": "WorkloadSpread",
        "metadata": {"name": "spread"},
        "spec": {
            "targetRef": {
                "apiVersion": "stowage.dev/v1alpha1",
                "kind": "Workload",
                "name": "web-1",
            },
            "subsets": [{"name": "first", "maxReplicas": 2}, {"name": "rest"}],
        },
    },
    {
        "kind": "Reservation",
        "metadata": {"name": "pool"},
        "spec": {
            "template": {
                "spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]}
            },
            "owners": [{"labelSelector": {"matchLabels": {"app": "web"}}}],
        },
        "status": {
            "phase": "Available",
            "allocatable": {"cpu": "4"},
            "placements": [{"cluster": "member-1", "replicas": 4}],
        },
    },
    {
        "kind": "WorkloadPolicy",
        "metadata": {"name": "policy"},
        "spec": {
            "topologyKey": "zone",
            "labelSelector": {"matchLabels": {"app": "web"}},
            "allocationPolicy": [{"name": "zone-1", "replicas": 4}],
        },
    },
    {
        "kind": "WorkloadQuota",
        "metadata": {"name": "quota"},
        "spec": {"hard": {"units": 10, "requests.cpu": "12"}},
        "status": {"used": {"units": "4"}},
    },
]


@pytest.fixture(scope="session")
def troubled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """Lost clusters, Workloads that wait, and an object of each kind."""
    folder = tmp_path_factory.mktemp("troubled")
    others = [{"apiVersion": "stowage.dev/v1alpha1", **each} for each in BESIDE]
    (folder / "others.json").write_text(json.dumps(others))
    files = (fleets.troubled(folder), str(folder / "others.json"))
    with served(UiSettings(where=Where("shop", files), browser=False)) as page:
        page.open()
        yield page


@pytest.mark.proves("V2", "V17")
def test_nothing_comes_from_elsewhere_and_nothing_fails(troubled: Page, window: Open) -> None:
    shown = window(troubled)
    for path in PATHS[:-1]:
        shown.go(path)
        shown.tab.locator("#live").get_by_text("Live").or_(
            shown.tab.locator("#whatif")
        ).first.wait_for()
    assert shown.faults == []


@pytest.mark.proves("V17")
def test_a_hostile_name_breaks_no_rule_of_the_browser(
    tmp_path: Path, serve: Callable[..., Page], window: Open
) -> None:
    bad = '<script>alert(1)</script>"><img src=x onerror=alert(1)>'
    items = [fleets.cluster("m1", lost=bad), fleets.workload("web", {"m1": 1}, why=("Bad", bad))]
    (tmp_path / "bad.json").write_text(json.dumps(items))
    shown = window(serve(fleet=(str(tmp_path / "bad.json"),)))
    for path in ("/", "/clusters/m1", "/workloads/shop/web", "/workloads?q=%3Cscript%3E"):
        shown.go(path)
    assert shown.tab.locator("main script").count() == 0
    assert shown.faults == []


def violations(shown: Window, script: str) -> list[str]:
    shown.tab.evaluate(script)
    told = shown.tab.evaluate(
        "axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']})"
    )
    return [
        f"{each['id']}: {each['nodes'][0]['html']} {each['nodes'][0]['failureSummary']}"
        for each in told["violations"]
    ]


@pytest.fixture(scope="session")
def axe() -> str:
    return chromium.axe()


@pytest.mark.proves("V20")
@pytest.mark.parametrize(
    ("scheme", "width", "paths"),
    [
        ("light", 1280, PATHS[::2]),
        pytest.param("dark", 360, PATHS[1::2], marks=pytest.mark.long),
    ],
)
def test_no_rule_of_wcag_is_broken(
    troubled: Page, window: Open, axe: str, scheme: str, width: int, paths: tuple[str, ...]
) -> None:
    check(troubled, window, axe, scheme, width, paths)


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_no_rule_of_wcag_is_broken_on_any_page(
    troubled: Page, window: Open, axe: str, scheme: str, width: int
) -> None:
    check(troubled, window, axe, scheme, width, PATHS)


@pytest.mark.long
def test_no_rule_of_wcag_is_broken_by_an_answer(troubled: Page, window: Open, axe: str) -> None:
    for field, value in (("drain", "member-1"), ("each", "topology.kubernetes.io/zone")):
        shown = window(troubled)
        tab = shown.go("/whatif")
        tab.locator(f"[name={field}]").select_option(value)
        tab.get_by_role("button", name="Compute").click()
        tab.locator("#comes").wait_for()
        assert violations(shown, axe) == []


def test_a_broken_rule_is_seen(troubled: Page, window: Open, axe: str) -> None:
    shown = window(troubled)
    shown.go("/whatif").evaluate(
        "document.querySelector('textarea').parentElement.replaceWith(document.createElement('input'))"
    )
    assert [each.partition(":")[0] for each in violations(shown, axe)] == ["label"]


def check(
    page: Page, window: Open, axe: str, scheme: str, width: int, paths: tuple[str, ...]
) -> None:
    shown = window(
        page, color_scheme=scheme, viewport={"width": width, "height": 800}, reduced_motion="reduce"
    )
    found = {}
    for path in paths:
        shown.go(path)
        if wrong := violations(shown, axe):
            found[path] = wrong
    assert found == {}


@pytest.mark.proves("V12", "V20")
def test_a_token_is_pasted_and_opens_the_hosted_page(
    browser: Browser, axe: str, tmp_path: Path
) -> None:
    reviewer, file = Reviewer(), fleets.troubled(tmp_path)
    reviewer.rights = {("list", "workloads", "shop")}
    with in_thread(lambda opened: reviews.run(file, reviewer, opened)) as page:
        tab = browser.new_context().new_page()
        shown = Window(page, tab)
        shown.go("/workloads")
        assert tab.url == f"{page.origin}/login"
        assert violations(shown, axe) == []
        tab.get_by_label("Token").fill("nobody")
        tab.get_by_role("button", name="Log in").click()
        expect(tab.get_by_role("alert")).to_have_text("The hub does not know that token.")
        assert violations(shown, axe) == []
        tab.get_by_label("Token").fill("of-ann")
        tab.get_by_role("button", name="Log in").click()
        expect(tab.locator("#headline")).to_contain_text("of 40 Workloads")
        expect(tab.locator("#live")).to_have_text("Live")
        assert violations(shown, axe) == []
        tab.get_by_role("button", name="Log out").click()
        expect(tab).to_have_url(f"{page.origin}/login")
        shown.go("/")
        assert tab.url == f"{page.origin}/login"
        assert [each for each in shown.faults if "401" not in each] == []
        tab.context.close()


@pytest.mark.proves("V21")
def test_pages_are_worked_by_keyboard(troubled: Page, window: Open) -> None:
    shown = window(troubled, reduced_motion="reduce")
    for path in ("/", "/clusters", "/whatif"):
        tab = shown.go(path)
        tab.locator("body").press("Tab")
        every = tab.evaluate(
            """() => [...document.querySelectorAll(
                "a[href], button, input, select, textarea, summary, [tabindex='0']")]
              .filter((each) => each.checkVisibility()).length"""
        )
        places, bare = [], []
        for _ in range(every):
            at, outline = tab.evaluate(
                """() => { const each = document.activeElement;
                  const all = [...document.querySelectorAll("*")];
                  const style = getComputedStyle(each);
                  return [all.indexOf(each), style.outlineStyle + " " + style.outlineWidth]; }"""
            )
            places.append(at)
            if "none" in outline or outline.endswith(" 0px"):
                bare.append((path, at, outline))
            tab.keyboard.press("Tab")
        assert places == sorted(set(places)), path
        assert bare == []
    tab = shown.go("/clusters")
    tab.keyboard.press("Tab")
    tab.keyboard.press("Enter")
    assert tab.evaluate("document.activeElement.id") == "main"


OVER = """() => [
  ["page", document.documentElement.scrollWidth, innerWidth],
  ...[...document.querySelectorAll(".scroll")].map(
    (each) => [each.getAttribute("aria-label"), each.scrollWidth, each.clientWidth])
].filter(([, whole, seen]) => whole > seen)"""


@pytest.mark.proves("V22", "Q23")
def test_on_small_screens_no_page_and_no_table_is_cut_off(troubled: Page, window: Open) -> None:
    shown = window(troubled, viewport={"width": 320, "height": 640})
    wide = {path: over for path in PATHS if (over := shown.go(path).evaluate(OVER))}
    assert wide == {}
    cell = shown.go("/workloads/shop/web-1").locator("td[data-of=Replicas]").first
    title = "(cell) => getComputedStyle(cell, '::before').content"
    assert cell.evaluate(title) == '"Replicas"', "each cell has its column's title before it"
