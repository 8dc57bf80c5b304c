"""What-ifs: the answers of plan and simulate, within their bounds, and nobody else waits for them."""

from __future__ import annotations

import base64
import functools
import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml
from click.testing import CliRunner
from playwright.sync_api import expect

from stowage.cli import cli
from stowage.simulation.plan import Where
from stowage.web import app, worker
from stowage.web.app import UiSettings
from stowage.web.worker import DecisionRequest
from stowage.web.workers import Workers
from tests.patience import hold_on
from tests.web import fleets
from tests.web.conftest import Answer, Page, Serve, Window, served

JSON = "application/json"
ZONE = "topology.kubernetes.io/zone"


def post(page: Page, accept: str = JSON, **fields: str | list[str]) -> Answer:
    body = urlencode(fields, doseq=True)
    kind = "application/x-www-form-urlencoded"
    return page.ask("/whatif", method="POST", body=body, Content_Type=kind, Accept=accept)


def said(*args: str) -> Any:
    return json.loads(CliRunner().invoke(cli, [*args, "-o", "json"], catch_exceptions=False).stdout)


def placements(told: Any) -> Any:
    return [(each["namespace"], each["name"], each["placements"]) for each in told["workloads"]]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    return fleets.troubled(tmp_path_factory.mktemp("whatif"))


@pytest.fixture(scope="module")
def page(file: str) -> Iterator[Page]:
    with served(UiSettings(where=Where("default", (file,)), browser=False)) as made:
        made.open()
        yield made


@pytest.mark.long
@pytest.mark.proves("V10")
def test_the_answers_are_those_of_plan_and_simulate(page: Page, file: str, tmp_path: Path) -> None:
    new = fleets.workload("new", {}, desired=2)
    del new["status"]
    new["spec"]["targetDeployment"]["spec"]["template"]["spec"]["containers"][0]["resources"] = {}
    (tmp_path / "new.yaml").write_text(yaml.safe_dump(new))
    planned = said("plan", "-f", str(tmp_path / "new.yaml"), "--fleet", file)
    answer = post(page, yaml=yaml.safe_dump(new))
    assert answer.status == 200, answer.text
    assert placements(answer.json) == placements(planned)
    assert planned["workloads"][0]["assigned"] == 2

    for fields, options in (
        ({"drain": "member-1"}, ["--drain", "member-1"]),
        ({"cordon": "member-1"}, ["--cordon", "member-1"]),
        (
            {
                "scale": "shop/web-1=9",
                "drain": "member-2",
                "lose": "member-3",
                "label": f"{ZONE}=zone-3",
            },
            [
                "--scale",
                "shop/web-1=9",
                "--drain",
                "member-2",
                "--lose",
                "member-3",
                "--lose",
                f"{ZONE}=zone-3",
            ],
        ),
        ({"each": ZONE}, ["--each", ZONE]),
    ):
        told, simulated = post(page, **fields).json, said("simulate", *options, "--fleet", file)
        assert {key: told[key] for key in simulated} == simulated, fields
    shown = post(page, "text/html", drain="member-1").text
    assert "Drain member-1" in shown
    assert "shop/web-0" in shown


@pytest.mark.proves("Q23")
def test_the_form_lists_what_there_is_to_choose(page: Page) -> None:
    text = page.ask("/whatif?drain=member-2&lose=gone&scale=shop/web-1%3D7").text
    assert text.count("<option>member-1</option>") == 3
    assert "<option selected>member-2</option>" in text
    assert '<option value="gone" selected>gone</option>' in text, "what is asked for is never lost"
    assert "<option>topology.kubernetes.io/zone=zone-1</option>" in text
    assert "<option>topology.kubernetes.io/zone</option>" in text
    assert "<option selected>shop/web-1</option>" in text
    assert 'name="to" min="0" value="7"' in text
    chosen = post(page, of="shop/web-1", to="9").json
    assert chosen["title"] == post(page, scale="shop/web-1=9").json["title"]
    assert post(page, of="shop/web-1").status == 400


@pytest.mark.proves("Q23")
def test_an_answer_names_no_option_of_the_command(page: Page) -> None:
    for fields in ({"lose": "nobody"}, {"each": "nothing"}, {"scale": "shop/none=1"}):
        told = post(page, **fields)
        assert told.status == 400
        assert "--" not in told.json["message"], told.json
    assert "--" not in str(post(page, lose="member-1").json["notes"])


@pytest.mark.proves("V10")
def test_wrong_input_is_told(page: Page) -> None:
    for fields, fault in (
        ({}, "nothing is another than now"),
        ({"cordon": "nobody"}, "there is no cluster nobody"),
        ({"scale": "a=b=c"}, "not of the form"),
        ({"yaml": "kind: [", "lose": ""}, "pasted.yaml:2: not YAML"),
    ):
        answer = post(page, **fields)
        assert answer.status == 400, fields
        assert fault in answer.json["message"]
    html = post(page, "text/html", cordon="nobody")
    assert html.status == 400
    assert 'value="nobody"' in html.text
    assert page.ask("/whatif", method="POST", body="{}", Content_Type=JSON).status == 400


@pytest.mark.proves("V11")
def test_a_long_input_is_refused(page: Page) -> None:
    kind = "application/x-www-form-urlencoded"
    body = "yaml=" + "a" * (2**20 - 4)
    assert len(body) == 2**20 + 1
    assert page.ask("/whatif", method="POST", body=body, Content_Type=kind).status == 413


@pytest.mark.proves("V11")
def test_what_takes_long_ends_and_nobody_else_waits(
    monkeypatch: pytest.MonkeyPatch, serve: Serve, file: str, tmp_path: Path
) -> None:
    ended, asked = tmp_path / "ended", []

    class Silent(Workers):
        async def ask(
            self, request: DecisionRequest, caller: str = ""
        ) -> tuple[dict[str, Any], int]:
            asked.append(request)
            return await super().ask(request, caller)

    silent = functools.partial(
        Silent, command=("sh", "-c", f"until [ -e {ended} ]; do sleep 0.1; done")
    )
    monkeypatch.setattr(app, "Workers", silent)
    monkeypatch.setattr(app, "SECONDS", 600.0)
    page = serve(fleet=(file,))
    with ThreadPoolExecutor(2) as threads:
        two = [threads.submit(post, page, drain="member-1") for _ in range(2)]
        hold_on(lambda: len(asked) == 2)
        third = post(page, drain="member-1")
        assert third.status == 429
        assert int(third.headers["retry-after"]) > 0
        for path in ("/", "/clusters", "/workloads"):
            assert page.ask(path).status == 200
        assert not any(each.done() for each in two), "they are computed all this time"
        ended.touch()
        assert {each.result().status for each in two} == {503}
    ended.unlink()
    monkeypatch.setattr(app, "SECONDS", 0.2)
    page = serve(fleet=(file,))
    answer = post(page, drain="member-1")
    assert answer.status == 503
    assert "takes longer than 0.2 s" in answer.json["message"]
    told = page.ask("/workloads/shop/web-1").text  # its own worker is silent too
    assert "what would be decided now is not told: it takes longer than 0.2 s" in told
    assert "Where its replicas are" in told


@pytest.mark.proves("V11")
@pytest.mark.long
def test_a_worker_that_ends_is_replaced(page: Page) -> None:
    assert post(page, drain="member-1").status == 200
    killed = _kill_workers()
    assert killed
    assert post(page, drain="member-1").status in (200, 503)
    assert post(page, drain="member-1").status == 200


def _kill_workers() -> int:
    """Kill the workers of this process, by their ids."""
    killed = 0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            line = (entry / "cmdline").read_bytes().split(b"\0")
            parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
        if b"stowage.web.worker" in line and int(parent) == os.getpid():
            os.kill(int(entry.name), signal.SIGKILL)
            killed += 1
    return killed


def test_long_answers_are_cut() -> None:
    found = worker.bounded({"workloads": list(range(worker.MOST_ROWS + 3)), "title": "x"})
    assert len(found["workloads"]) == worker.MOST_ROWS
    assert found["more"] == {"workloads": 3}


def test_the_input_stands_behind_the_address(page: Page, window: Callable[..., Window]) -> None:
    shown = window(page)
    tab = shown.go("/whatif")
    tab.get_by_label("Drain").select_option("member-1")
    tab.get_by_role("button", name="Compute").click()
    expect(tab.locator("#comes")).to_contain_text("Drain member-1")
    expect(tab).to_have_url(re.compile("#."))  # the script sets it behind the new content
    address = tab.url
    packed = address.partition("#")[2]
    fields = json.loads(base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4)))
    assert fields == [["drain", "member-1"]]
    again = window(page).tab
    again.goto(address)
    expect(again.locator("#comes")).to_contain_text("Drain member-1")
    assert shown.faults == []
