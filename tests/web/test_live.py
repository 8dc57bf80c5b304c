"""An open page follows a hub: real API server, controller and browser."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner
from playwright.sync_api import expect

from machinery.api.resources import EVENTS, MEMBER_CLUSTERS, WORKLOADS
from stowage.cli import cli
from stowage.report.memberpods import Members
from stowage.simulation.plan import Where
from stowage.web.app import UiSettings
from tests.patience import PATIENCE
from tests.web.conftest import Page, Window, served
from tests.web.hubs import Hub, reading_as


@pytest.fixture(scope="module")
def followed(hub: Any) -> Iterator[Hub]:
    made = Hub(hub)
    made.begin()
    made.do(made.decide())
    yield made
    made.end()


def settings(hub: Hub, port: int = 0) -> UiSettings:
    where = Where("shop", (), hub.cluster.connection())
    file = str(hub.cluster.kubeconfig)
    members = Members(file, {"m1": file})  # the hub itself stands in for its member
    return UiSettings(where=where, port=port, browser=False, members=members)


@pytest.fixture(scope="module")
def page(followed: Hub) -> Iterator[Page]:
    with served(settings(followed)) as made:
        assert "<h1" in made.open().text
        yield made


@pytest.mark.proves("V1", "V7")
def test_a_scaled_workload_changes_its_row_in_the_open_page(
    followed: Hub, page: Page, window: Callable[..., Window]
) -> None:
    shown = window(page, viewport={"width": 900, "height": 300})
    tab = shown.go("/workloads")
    row = tab.locator("#w-shop-web")
    expect(row.locator("td").nth(1)).to_have_text("2")
    tab.locator("input[name=cluster]").fill("m")
    tab.locator("input[name=cluster]").focus()
    tab.evaluate("scrollTo(0, 40)")
    tab.evaluate("window.same = true")
    followed.cluster.kubectl("scale", "-n", "shop", "wl/web", "--replicas=5")
    expect(row.locator("td").nth(1)).to_have_text("5", timeout=PATIENCE * 20_000)
    assert tab.evaluate(
        "[window.same, document.activeElement.name, scrollY, document.activeElement.value]"
    ) == [
        True,
        "cluster",
        40,
        "m",
    ]
    assert shown.faults == []
    followed.cluster.kubectl("scale", "-n", "shop", "wl/web", "--replicas=2")


@pytest.mark.long
@pytest.mark.proves("V1")
def test_a_change_is_shown_while_others_have_the_table_from_before_it(
    followed: Hub, page: Page, window: Callable[..., Window]
) -> None:
    over = threading.Event()

    def read() -> None:
        while not over.wait(0.05):
            page.ask("/workloads")

    desired = window(page).go("/workloads").locator("#w-shop-web td").nth(1)
    others = threading.Thread(target=read)
    others.start()
    try:
        for replicas in (3, 4, 2):
            expect(desired).not_to_have_text(str(replicas))
            followed.cluster.kubectl("scale", "-n", "shop", "wl/web", f"--replicas={replicas}")
            expect(desired).to_have_text(str(replicas), timeout=PATIENCE * 20_000)
    finally:
        over.set()
        others.join()


@pytest.mark.proves("V4", "V6")
def test_a_hub_says_what_the_commands_say(followed: Hub, page: Page) -> None:
    asked = [f"--kubeconfig={followed.cluster.kubeconfig}", "-n", "shop", "-o", "json"]
    for command, path in (
        ("explain", "/workloads/shop/web"),
        ("history", "/workloads/shop/web/history"),
    ):
        done = CliRunner().invoke(cli, [command, "wl/web", *asked], catch_exceptions=False)
        told, shown = json.loads(done.stdout), page.json(path)
        assert {**shown, "time": ""} == {**told, "time": ""}


@pytest.mark.long
@pytest.mark.proves("V10")
def test_a_what_if_changes_nothing_on_the_hub(followed: Hub, page: Page) -> None:
    def versions() -> dict[str, str]:
        return {
            each["metadata"]["name"]: each["metadata"]["resourceVersion"]
            for res in (WORKLOADS, MEMBER_CLUSTERS)
            for each in followed.do(followed.world.client.list(res))["items"]
        }

    before = versions()
    form = {"Content_Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
    for body in ("cordon=m1", "scale=shop/web%3D9", "lose=m2"):
        answer = page.ask("/whatif", method="POST", body=body, **form)
        assert answer.status == 200, answer.text
        assert answer.json["snapshot"]["rev"] > 0
    assert versions() == before


@pytest.mark.proves("V9")
def test_a_page_says_when_the_server_is_gone_and_goes_on_when_it_is_back(
    followed: Hub, window: Callable[..., Window]
) -> None:
    with served(settings(followed)) as first:
        first.open()
        port = int(first.origin.rpartition(":")[2])
        shown = window(first)
        tab = shown.go("/workloads")
        tab.evaluate("window.same = true")
        expect(tab.locator("#live")).to_have_text("Live")
        first.stop()
        expect(tab.locator("#live")).to_have_text("Not connected", timeout=PATIENCE * 15_000)
        with served(settings(followed, port)):
            expect(tab.locator("#live")).to_have_text("Live", timeout=PATIENCE * 20_000)
            followed.cluster.kubectl("scale", "-n", "shop", "wl/web", "--replicas=3")
            desired = tab.locator("#w-shop-web td").nth(1)
            expect(desired).to_have_text("3", timeout=20_000)
            assert tab.evaluate("window.same")


def test_events_of_a_cluster_are_shown(followed: Hub, page: Page) -> None:
    event = {
        "metadata": {"name": "m1.1", "namespace": "default"},
        "regarding": {"apiVersion": "stowage.dev/v1alpha1", "kind": "MemberCluster", "name": "m1"},
        "reason": "Drained",
        "note": "nothing is left",
        "type": "Normal",
        "action": "Drain",
        "eventTime": "2099-01-01T00:00:00.000000Z",
        "reportingController": "test",
        "reportingInstance": "test",
    }
    followed.do(followed.world.client.create(EVENTS, event))
    told = page.json("/clusters/m1")["events"]
    assert ("Drained", "nothing is left") in [(each["reason"], each["note"]) for each in told]
    assert "nothing is left" in page.ask("/clusters/m1").text


@pytest.mark.proves("Q23")
def test_a_workload_shows_its_events_and_its_pods_as_the_reader_may_see_them(
    followed: Hub, page: Page
) -> None:
    shares = page.json("/workloads/shop/web")["recorded"]["placements"]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web-1", "namespace": "shop", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "web:1"}]},
    }
    followed.cluster.kubectl("create", "serviceaccount", "default", "-n", "shop")
    followed.cluster.kubectl("apply", "-f", "-", input=json.dumps(pod))
    plain = page.ask("/workloads/shop/web").text
    assert "assigned m" in plain.partition("<caption>Events</caption>")[2]
    assert "<caption>As its members show them to you</caption>" not in plain
    asked = page.ask("/workloads/shop/web?pods=yes").text
    there = {each["cluster"] for each in shares}
    assert ('<th scope="row">web-1</th><td data-of="Cluster">m1</td>' in asked) == ("m1" in there)
    assert ("m2 is not shown: your credentials" in asked) == ("m2" in there)


@pytest.mark.proves("V19")
def test_who_may_list_one_namespace_sees_that_one(followed: Hub) -> None:
    kinds = "workloads.stowage.dev"
    connection = reading_as(followed, "tenant", f"get,list,watch {kinds} shop")
    with served(UiSettings(where=Where("shop", (), connection), browser=False)) as page:
        page.open()
        assert page.json("/workloads")["total"] == 1
        text = page.ask("/workloads/shop/web").text
        assert "Only of shop" in text
        assert "Where its replicas are" in text
