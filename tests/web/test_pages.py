"""Pages without scripts: who may open them, and that they say what the commands say."""

from __future__ import annotations

import hashlib
import json
import re
import signal
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from controller.model.objects import MemberCluster
from machinery.api.resources import LEASES, WORKLOADS
from machinery.clock import SystemClock
from machinery.kinds.revisions import digest_of, revision_data
from stowage.cli import cli
from stowage.report import status
from stowage.simulation import differences, plan
from stowage.simulation.plan import Where
from stowage.web import pictures, render, source
from stowage.web.pages import POLICY
from stowage.web.views import Views
from tests.examples import examples
from tests.web import fleets
from tests.web.conftest import FLEET, ROOT, Page, Serve
from tests.web.crawl import PAGES, crawl

EXAMPLES = str(ROOT / "examples")


class Cells(HTMLParser):
    """The text of the rows of all tables, by the first cell of each."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, _: Any) -> None:
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data

    def row(self, *begin: str) -> list[str]:
        """The row that begins so."""
        told = [[" ".join(cell.split()) for cell in row] for row in self.rows]
        return next(row for row in told if tuple(row[: len(begin)]) == begin)


@pytest.mark.proves("V1")
def test_the_printed_key_opens_the_page_once(serve: Serve) -> None:
    page = serve()
    key = page.address.removeprefix(page.origin)
    assert page.origin.startswith("http://127.0.0.1:")
    assert page.ask("/").status == 200
    assert "<h1" in page.ask("/").text
    stranger = Page(page.address)
    assert stranger.ask("/").status == 401
    assert stranger.ask(key).status == 401
    assert "<h1" in stranger.ask(key).text
    assert stranger.ask("/", Accept="application/json").json.keys() == {"message"}
    forged = page.cookie[:-1] + ("0" if page.cookie[-1] != "0" else "1")
    assert Page(page.address, forged).ask("/").status == 401
    assert page.ask("/", Host="evil.example").status == 421


@pytest.mark.long
@pytest.mark.proves("V3", "V17", "V25", "V27")
def test_every_page_and_every_link_answers(fleet: Page) -> None:
    found = crawl(fleet)
    assert len(found) > 60
    assert {path: a.status for path, a in found.items() if a.status != 200} == {}
    assert {a.headers["content-security-policy"] for a in found.values()} == {POLICY}
    pages = [a.text for a in found.values() if "text/html" in a.headers["content-type"]]
    assert all(text.count("<h1") == 1 for text in pages)
    files = {path: a for path, a in found.items() if path.startswith("/static/")}
    assert len(files) == 3
    for path, answer in files.items():
        assert hashlib.sha256(answer.body).hexdigest()[:16] in path
        assert "immutable" in answer.headers["cache-control"]
    assert found["/"].headers["cache-control"] == "no-store"


@pytest.mark.proves("V1", "V25")
@pytest.mark.long
def test_the_command_prints_one_address_and_ends_when_interrupted(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "stowage", "ui", "--no-browser", "--port", "0"]
    given = ["--fleet", FLEET, "-f", f"{EXAMPLES}/01-deployment-service-secret.yaml"]
    pipe, log = subprocess.PIPE, (tmp_path / "errors").open("w+")
    with log, subprocess.Popen([*command, *given], stdout=pipe, stderr=log, text=True) as page:
        assert page.stdout is not None
        line = page.stdout.readline()
        assert (
            Page(re.search(r"http://127\.0\.0\.1:\d+/\?key=\S+$", line.strip())[0]).open().status
            == 200
        )
        page.send_signal(signal.SIGINT)
        assert page.wait(60) == 0
        assert page.stdout.read() == ""
        log.seek(0)
        assert "Traceback" not in log.read()


@pytest.mark.proves("V25")
def test_files_need_no_network(monkeypatch: pytest.MonkeyPatch, serve: Serve) -> None:
    asked = []
    connect = socket.socket.connect

    def local(self: socket.socket, address: Any) -> None:
        asked.append(address)
        assert address[0] == "127.0.0.1"
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", local)
    page = serve(f"{EXAMPLES}/12-divided-by-weight.yaml")
    for path in (*PAGES, "/workloads/demo/weighted"):
        assert page.ask(path).status == 200
    assert {host for host, _ in asked} == {"127.0.0.1"}


@pytest.mark.proves("V27")
def test_a_changed_file_has_another_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(render, "FOLDER", tmp_path)
    names = []
    for text in ("a", "b", "a"):
        (tmp_path / "x.css").write_text(text)
        render.addresses.cache_clear()
        names.append(render.addresses()["x.css"])
    render.addresses.cache_clear()
    assert names[0] == names[2] != names[1]


@pytest.mark.proves("V27")
def test_the_image_is_made_of_the_whole_package() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    assert "COPY stowage stowage" in lines
    left_out = (ROOT / ".dockerignore").read_text().split()
    assert not [each for each in left_out if "stowage" in each or each.endswith((".html", ".js"))]


@pytest.mark.proves("V4")
def test_a_workload_says_what_explain_says(fleet: Page) -> None:
    made = plan.make([EXAMPLES], Where("default", (FLEET,)), clock=SystemClock())
    assert len(made.planned) > 20
    for each in made.planned:
        record = json.loads(json.dumps(plan.recorded(each.decision, each.kind)))
        if each.kind != "Workload":
            continue
        path = f"/workloads/{record['namespace']}/{record['name']}"
        told = fleet.json(path)
        assert told.pop("remarks") == [source.PLANNED]
        assert {**told, "time": ""} == {**record, "time": ""}
        cells = Cells(fleet.ask(path).text)
        for cluster in record["clusters"]:
            row = cells.row(cluster["name"], "fits" if cluster["fits"] else "refused")
            assert row[2] == str(cluster["replicas"])
            assert row[3] == ("\N{EN DASH}" if cluster["score"] is None else str(cluster["score"]))
            assert row[4:-1] == [str(n) for n in cluster["scores"].values()] or not cluster["fits"]
            for said in [reason["text"] for reason in cluster["reasons"]] or [cluster["reason"]]:
                assert said in row[-1]
        for note in (*record["pendingReasons"], *record["remedies"]):
            assert note["text"] in fleet.ask(path).text.replace("&#39;", "'")


@pytest.mark.proves("V4")
def test_what_is_stored_says_what_explain_says(serve: Serve, tmp_path: Path) -> None:
    file = fleets.troubled(tmp_path)
    page = serve(fleet=(file,))
    for name, namespace in (("web-1", "shop"), ("batch-1", "train")):
        asked = ["explain", f"wl/{name}", "-n", namespace, "--fleet", file, "-o", "json"]
        told = json.loads(CliRunner().invoke(cli, asked, catch_exceptions=False).output)
        assert {**page.json(f"/workloads/{namespace}/{name}"), "time": told["time"]} == told


FLEETS = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 3)), min_size=1, max_size=6)


@pytest.mark.proves("V5")
@examples(200)
@given(
    FLEETS,
    st.integers(1, 30),
    st.sampled_from(["Divided", "Single", "Duplicated"]),
    st.sampled_from(["Proportional", "Fewest"]),
)
def test_each_number_has_rules_that_add_up_to_it(
    tmp_path_factory: pytest.TempPathFactory,
    rooms: list[tuple[int, int]],
    units: int,
    distribution: str,
    packing: str,
) -> None:
    folder = tmp_path_factory.mktemp("fleet")
    rows = [
        {
            "name": f"m{n}",
            "nodes": nodes,
            "allocatable": {"cpu_milli": cpu * 1000, "memory_bytes": 10**11, "pods": 500},
        }
        for n, (cpu, nodes) in enumerate(rooms)
    ]
    (folder / "fleet.json").write_text(json.dumps(rows))
    body = fleets.workload("web", {}, desired=units)
    body["spec"] |= {"distribution": distribution, "packing": packing}
    if distribution != "Divided":
        del body["spec"]["packing"]
    (folder / "web.json").write_text(json.dumps({k: body[k] for k in body if k != "status"}))
    where = Where("shop", (str(folder / "fleet.json"),))
    found = source.of_files([str(folder / "web.json")], where)
    views = Views(found.snapshot, system="", clock=SystemClock())
    now = datetime.now(UTC)
    recorded = views.recorded("shop", "web")
    for share in recorded["placements"]:
        assert sum(step["units"] for step in share["steps"]) == share["replicas"]
        told = render.page(
            "workload.html",
            now,
            {
                "title": "",
                "notes": [],
                "release": "",
                "path": "/",
                "query": {},
                "read": "",
                "data": found.planned["shop", "web"],
                "recorded": recorded,
                "stored": views.stored(WORKLOADS, "shop", "web"),
                "objects": {"spec": {}, "made": [], "differs": "", "rendered": ""},
                "rollout": None,
                "events": [],
                "pods": None,
            },
        ).decode()
        row = Cells(told).row(share["cluster"], str(share["replicas"]))
        assert row[-1].startswith(f"{share['replicas']} at ")
        assert ": " in row[-1]
    assert sum(share["replicas"] for share in recorded["placements"]) == recorded["assigned"]


@pytest.mark.proves("V4")
def test_what_is_sent_to_a_cluster_is_shown_without_secrets(serve: Serve, tmp_path: Path) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s"},
        "stringData": {"password": "hunter2"},
    }
    web = fleets.workload("web", {"m1": 2, "m2": 2})
    web["spec"] |= {
        "manifests": [secret],
        "overrides": [
            {
                "name": "other",
                "clusterSelector": {"matchLabels": {"topology.kubernetes.io/zone": "zone-2"}},
                "patch": {"metadata": {"labels": {"only": "there"}}},
            }
        ],
    }
    file = tmp_path / "fleet.json"
    file.write_text(json.dumps([fleets.cluster("m1"), fleets.cluster("m2", zone="zone-2"), web]))
    page = serve(fleet=(str(file),))
    text = page.ask("/workloads/shop/web").text
    sent = page.ask("/workloads/shop/web?rendered=m2").text
    assert "hunter2" not in text + sent
    assert "(not shown)" in text
    assert "(not shown)" in sent
    assert "kind: Deployment" in sent
    assert "What differs between its clusters" in text
    assert "only: there" in text
    assert page.ask("/workloads/shop/web?rendered=nobody").status == 404


@pytest.mark.proves("Q23")
def test_what_differs_is_no_number_of_replicas() -> None:
    """Clusters that differ by their shares alone are alike; none gets the number of another."""
    labels = {"m1": "zone-1", "m2": "zone-2", "m3": "zone-2"}
    clusters = [
        msgspec.convert(fleets.cluster(name, zone=zone), MemberCluster)
        for name, zone in labels.items()
    ]
    web = fleets.workload("web", {"m1": 2, "m2": 5, "m3": 1}, desired=8)
    assert differences.text(web, clusters) == "shop/web on all 3 clusters: as the template"
    selector = {"matchLabels": {"topology.kubernetes.io/zone": "zone-2"}}
    patch = {"metadata": {"labels": {"only": "there"}}}
    web["spec"]["overrides"] = [{"name": "other", "clusterSelector": selector, "patch": patch}]
    told = differences.text(web, clusters)
    assert "shop/web on m2, m3 (override other): 2 of 3 clusters" in told
    assert "replicas" not in told


def rolling() -> dict[str, Any]:
    """A Workload whose canary is done, and whose second wave has a cluster that failed."""
    made = fleets.workload("web", {"m1": 2, "m2": 2, "m3": 2})
    by_zone = {"matchLabels": {"topology.kubernetes.io/zone": "zone-1"}}
    waves = [
        {"name": "canary", "clusterSelector": by_zone, "approval": True},
        {"name": "second", "clusterSelector": {}, "maxConcurrent": 1},
    ]
    made["spec"]["rollout"] = {"waves": waves}
    revision = digest_of(revision_data(made["spec"]))
    made["spec"]["rollout"]["approvals"] = [{"revision": revision, "wave": "canary"}]
    made["status"]["rollout"] = {
        "revision": revision,
        "stable": "a" * 16,
        "phase": "Progressing",
        "wave": "second",
        "message": "m2: 1 of 2 replicas are Ready",
        "waves": [
            {"name": "canary", "clusters": 1, "healthy": 1},
            {"name": "second", "clusters": 2, "healthy": 0, "updating": ["m2"]},
            {"name": "rest", "clusters": 0, "healthy": 0},
        ],
    }
    return made


@pytest.mark.proves("Q23")
def test_a_rollout_is_shown_as_waves_with_what_they_wait_for(serve: Serve, tmp_path: Path) -> None:
    file = tmp_path / "fleet.json"
    clusters = [fleets.cluster(f"m{n}", zone=f"zone-{n}") for n in (1, 2, 3)]
    plain = fleets.workload("plain", {"m1": 1})
    along = {"kind": "ConfigMap", "name": "settings", "state": "Synced"}
    plain["status"]["dependencies"] = [along, {**along, "kind": "Secret", "state": "Missing"}]
    file.write_text(json.dumps([*clusters, rolling(), plain]))
    page = serve(fleet=(str(file),))
    text = page.ask("/workloads/shop/web").text
    waves = re.findall(
        r'<li class="wave (\w+)"><h3>.*?</span> (\w+)</h3>(.*?)</li>', text, re.DOTALL
    )
    assert [(tone, name) for tone, name, _ in waves] == [
        ("good", "canary"),
        ("calm", "second"),
        ("calm", "rest"),
    ]
    said = [" ".join(re.sub("<[^>]+>", " ", each).split()) for _, _, each in waves]
    assert said == [
        "1 of 1 cluster healthy complete",
        "0 of 2 clusters healthy 1 of at most 1 at once Updating: m2",
        "no clusters",
    ]
    assert "Progressing, wave 2 of 3" in text
    assert "m2: 1 of 2 replicas are Ready" in text
    assert "Along with its pods" not in text
    told = page.ask("/workloads/shop/plain").text
    assert 'class="waves"' not in told
    assert "Along with its pods: ConfigMap settings (Synced), Secret settings (Missing)<" in told
    objects = text.partition("Its objects on each cluster")[2].partition("</table>")[0]
    assert '<td data-of="Kind">Deployment</td><th scope="row">web</th>' in objects
    assert "stowage pods wl/web -n shop" in page.ask("/workloads/shop/web?pods=yes").text


@pytest.mark.proves("Q23")
def test_the_matrix_has_each_share(serve: Serve, tmp_path: Path) -> None:
    shares = {f"m{n:02}": n for n in range(1, 23)}
    items = [fleets.workload("wide", shares, desired=300), fleets.workload("web", {"m22": 3})]
    file = tmp_path / "fleet.json"
    file.write_text(json.dumps([*map(fleets.cluster, shares), *items]))
    page = serve(fleet=(str(file),))
    told = page.json("/matrix")
    assert (len(told["columns"]), told["others"]) == (20, 2)
    assert told["columns"] == sorted(told["columns"])
    by = {row["name"]: row for row in told["workloads"]}
    assert (by["wide"]["elsewhere"], by["web"]["elsewhere"]) == (1 + 2, 0)
    row = Cells(page.ask("/matrix").text).row("shop/web")
    assert (row[2], row[-3:]) == ("4", ["3", "", "1"])
    bars = page.ask("/matrix?q=shop/web").text
    assert '<rect width="75" height="8"/>' in bars
    assert page.json("/matrix?q=shop/web")["columns"] == ["m22"]


@pytest.mark.proves("Q23")
def test_the_time_line_has_an_axis_and_levels_as_long_as_they_held() -> None:
    now = datetime(2026, 6, 1, 12, 0).astimezone()

    def change(hours: int, desired: int, assigned: int) -> dict[str, Any]:
        at = (now - timedelta(hours=hours)).isoformat()
        return {"time": at, "desired": desired, "assigned": assigned}

    drawn = pictures.timeline([change(8, 4, 2), change(2, 4, 4), change(0, 0, 0)], now)
    assert drawn is not None
    whole = pictures.RIGHT - pictures.LEFT
    first, second, last = drawn.levels
    assert (first.x, second.x) == (pictures.LEFT, pictures.LEFT + 0.75 * whole)
    assert (first.width, second.width) == (0.75 * whole, 0.25 * whole)
    assert last.width == pictures.THIN
    assert (first.desired, first.assigned, second.assigned) == (120, 60, 120)
    assert [(tick.text, tick.at) for tick in drawn.numbers] == [("0", 130), ("2", 70), ("4", 10)]
    assert [tick.text for tick in drawn.times] == ["06:00", "08:00", "10:00", "12:00"]
    assert drawn.times[0].at == pictures.LEFT + 0.25 * whole
    week = pictures.timeline([change(24 * 7, 1, 1)], now)
    assert week is not None
    assert [tick.text for tick in week.times] == ["05-27", "05-29", "05-31"]
    assert pictures.timeline([{"time": "never"}], now) is None
    assert pictures.timeline([], now) is None


@pytest.mark.proves("Q23")
@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"fits": False, "replicas": 2}, "no more: insufficient cpu (Room)"),
        ({"fits": False, "replicas": 0}, "insufficient cpu (Room)"),
        ({"fits": False, "replicas": 0, "reason": ""}, "Room"),
        ({"fits": True, "replicas": 2, "reasons": [{"text": "a"}, {"text": "b"}]}, "a; b"),
        (
            {"fits": False, "replicas": 2, "reasons": [{"text": "a"}]},
            "a; no more: insufficient cpu (Room)",
        ),
        ({"fits": True, "replicas": 0}, ""),
    ],
)
def test_why_begins_with_a_word(row: dict[str, Any], told: str) -> None:
    whole = {"reasons": [], "reason": "insufficient cpu", "plugin": "Room", **row}
    assert render.verdict(whole) == told


@pytest.mark.proves("Q23")
def test_what_is_as_it_should_be_is_not_red(serve: Serve, tmp_path: Path) -> None:
    limits = ("QuotaExceeded", "ReplicasReached")
    kept = [
        fleets.workload(f"w-{n}", {"m1": 2}, why=(why, "the limit")) for n, why in enumerate(limits)
    ]
    done = fleets.workload("job", {"m1": 4})
    done["status"]["state"] = "Complete"
    file = tmp_path / "fleet.json"
    file.write_text(json.dumps([fleets.cluster("m1"), *kept, done]))
    page = serve(fleet=(str(file),))
    told = page.json("/")
    assert (told["tone"], told["needsAPerson"]) == ("good", 0)
    text = page.ask("/").text + page.ask("/workloads").text
    assert not re.findall(
        r'class="(?:state|tile|headline|finding)? ?bad"', text.partition('class="key"')[0]
    )
    assert "needs a person" in text
    approval = fleets.condition("RolledOut", "False", "AwaitingApproval", "wave canary is done")
    done["status"]["conditions"].append(approval)
    file.write_text(json.dumps([fleets.cluster("m1"), done]))
    assert serve(fleet=(str(file),)).json("/")["tone"] == "wait"


@pytest.mark.proves("V6")
def test_history_is_that_of_the_command(serve: Serve, tmp_path: Path) -> None:
    page = serve(fleet=(fleets.troubled(tmp_path),))
    told = page.json("/workloads/shop/web-0/history")
    assert told["kind"] == "Workload"
    assert [each["cause"] for each in told["history"]] == ["Placed"]
    shown = Cells(page.ask("/workloads/shop/web-0/history").text).rows[-1]
    assert "member-1: \N{EN DASH} to 3" in " ".join(shown[-1].split())


@pytest.mark.proves("V16")
def test_pages_are_read_and_nothing_else(fleet: Page) -> None:
    for path in (*PAGES, "/workloads/a/b", "/api/v1/live", "/api/v1/fleet.columns", "/static/x"):
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
            if (path, method) != ("/whatif", "POST"):
                assert fleet.ask(path, method=method).status == 405, (path, method)
    form = {"Content_Type": "application/x-www-form-urlencoded"}
    for foreign in (
        {"Origin": "https://evil.example"},
        {"Origin": "https://evil.example", "Sec_Fetch_Site": "same-origin"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ):
        assert fleet.ask("/whatif", method="POST", body="cordon=m", **form, **foreign).status == 403
    assert fleet.ask("/clusters", method="HEAD").body == b""
    assert Page(fleet.address).ask("/whatif", method="POST", body="a=b", **form).status == 401


@pytest.mark.proves("V17")
def test_names_and_messages_are_text(serve: Serve, tmp_path: Path) -> None:
    bad = '<script>alert(1)</script>"><img src=x onerror=alert(1)>\x1b[31m\u202e'
    items = [fleets.cluster("m1", lost=bad), fleets.workload("web", {"m1": 1}, why=("Bad", bad))]
    items[1]["metadata"]["annotations"] = {"note": bad}
    items[1]["metadata"]["labels"] = {"note": "x"}
    file = tmp_path / "bad.json"
    file.write_text(json.dumps(items))
    page = serve(fleet=(str(file),))
    for path in (
        "/",
        "/clusters/m1",
        "/workloads",
        "/workloads/shop/web",
        "/clusters?q=%22%3E%3Cimg",
    ):
        text = page.ask(path).text
        assert "<img" not in text, path
        assert text.count("<script") == 1, path  # our own
        assert "\x1b" not in text, path
        assert "\u202e" not in text, path
    assert "&lt;script&gt;" in page.ask("/clusters/m1").text
    assert "\\x1b[31m" in page.ask("/clusters/m1").text


@pytest.mark.proves("V28")
def test_the_first_page_names_what_needs_a_person(serve: Serve, tmp_path: Path) -> None:
    page = serve(fleet=(fleets.troubled(tmp_path),))
    told, text = page.json("/"), page.ask("/").text
    assert told["needsAPerson"] == 14
    assert told["headline"] in text
    assert told["headline"].startswith("7 of 9 clusters ready, 40 of 52 Workloads running")
    for each in (*told["clustersNotReady"], *told["pending"]):
        assert each["urgent"]
        assert f">{each['name']}</a>" in text
        assert each["message"] in text
        assert f"What helps: {each['help']}" in text
    assert [row["reason"] for row in told["reasons"]] == [
        "InsufficientCapacity",
        "FailedToSchedule",
    ]
    assert sum(row["units"] for row in told["reasons"]) == 48


@pytest.mark.proves("V28")
def test_a_process_that_nobody_leads_is_named() -> None:
    found = source.FileSource("", [])
    spec = {"holderIdentity": "vm_1", "leaseDurationSeconds": 10, "renewTime": fleets.AGO}
    for name in ("stowage-controller", "stowage-propagator"):
        metadata = {"name": name, "namespace": "stowage-system"}
        found.snapshot.put(LEASES, {"metadata": metadata, "spec": spec})
    views = Views(found.snapshot, system="stowage-system", clock=SystemClock())
    data = views.overview()
    values = {"title": "", "notes": [], "release": "", "path": "/", "query": {}, "read": ""}
    text = render.page("overview.html", datetime.now(UTC), {**values, "data": data}).decode()
    assert data["needsAPerson"] == 2
    assert re.findall(r"<b>(stowage-\w+)</b>: vm_1: nobody leads now", text) == [
        "stowage-controller",
        "stowage-propagator",
    ]
    assert status.headline(views.fleet.report()) in text


@pytest.mark.proves("V3")
@pytest.mark.parametrize("path", ["/workloads?limit=0", "/clusters?after=x", "/groups?limit=abc"])
def test_a_wrong_page_is_told(fleet: Page, path: str) -> None:
    answer = fleet.ask(path)
    assert answer.status == 400
    assert "<h1" in answer.text
    assert fleet.ask("/clusters/none").status == 404
    assert fleet.ask("/workloads/a/%2e%2e").status in (400, 404)


@pytest.mark.proves("V3")
def test_tables_are_paged_sorted_and_filtered(serve: Serve, tmp_path: Path) -> None:
    page = serve(fleet=(fleets.troubled(tmp_path),))
    names, path = [], "/workloads?limit=20&sort=name"
    while path:
        told = page.json(path)
        names += [each["name"] for each in told["workloads"]]
        path = told["next"] and f"/workloads?limit=20&sort=name&after={told['next']}"
    assert names == sorted(names)
    assert len(names) == told["total"] == 52
    fullest = page.json("/clusters?sort=-cpu")["clusters"]
    assert [row["name"] for row in fullest[:2]] == ["member-9", "member-8"]
    assert page.json("/clusters?ready=false")["total"] == 2
    assert page.json("/clusters?label=topology.kubernetes.io/zone%3Dzone-1")["total"] == 3
    assert page.json("/workloads?state=Pending&ns=train")["total"] == 12
    assert page.json("/workloads?cluster=member-1")["total"] == 11
    columns = page.json("/api/v1/fleet.columns")
    assert columns["n"] == len(columns["name"]) == 9
    assert sum(columns["ready"]) == 7
    etag = page.ask("/api/v1/fleet.columns").headers["etag"]
    assert page.ask("/api/v1/fleet.columns", If_None_Match=etag).status == 304
