"""The hosted page on a real API server: each caller sees what the hub lets them list, and no more."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from socket import SHUT_RDWR
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from machinery.api.resources import (
    EVENTS,
    MEMBER_CLUSTERS,
    WORKLOAD_GROUPS,
    WORKLOAD_QUOTAS,
    WORKLOADS,
)
from machinery.config.kubeconfig import Connection
from stowage.setup import install
from stowage.simulation.plan import Where
from stowage.web import hosted
from stowage.web.hosted import HostedSettings
from tests.inforce import until_may
from tests.patience import hold_on
from tests.web import fleets
from tests.web.conftest import Answer, Page, in_thread
from tests.web.crawl import PAGES, crawl
from tests.web.hubs import Hub, put, reading_as

KINDS = ("workloads", "workloadgroups", "workloadspreads", "reservations", "workloadpolicies")
HIDDEN = re.compile(rb"zq[a-z]*")
"""Begins every name that a tenant of `shop` may not see."""
OTHER = "zqtenant"
FORM = "application/x-www-form-urlencoded"


async def fill(hub: Hub) -> None:
    """Two tenants on two clusters; whatever could name the other one does."""
    told = f"{OTHER}/zqweb of namespace {OTHER} is on zqcluster"
    await hub.world.space(OTHER)
    for name in ("m1", "zqcluster", "zqroomy"):
        cluster = fleets.cluster(name, lost="zqlost" if name == "zqcluster" else "")
        blocked = [{"namespace": OTHER, "name": "zqweb", "units": 1, "message": told}]
        cluster["status"]["evacuation"] = {"units": 1, "left": 1, "blocked": blocked}
        cluster["metadata"]["labels"]["tier"] = "zqlabel"
        await put(hub, MEMBER_CLUSTERS, cluster)
    web = fleets.workload("web", {"m1": 2}, why=("InsufficientCapacity", told))
    web["status"]["reservations"] = [
        {"namespace": OTHER, "name": "zqroom", "uid": "1", "cluster": "m1", "replicas": 2}
    ]
    await put(hub, WORKLOADS, web)
    await put(hub, WORKLOADS, fleets.workload("db", {"m1": 1}, desired=1))
    for n in range(3):
        other = fleets.workload(
            f"zqweb{'x' * n}", {"zqcluster": 1, "m1": 2}, namespace=OTHER, why=("Bad", told)
        )
        await put(hub, WORKLOADS, other)
    for space, mark in (("shop", ""), (OTHER, "zq")):
        meta = {"namespace": space}
        spec: dict[str, Any] = {"minMember": 2}
        await put(hub, WORKLOAD_GROUPS, {"metadata": {**meta, "name": f"{mark}gang"}, "spec": spec})
        spec = {"hard": {"requests.cpu": "40"}}
        await put(
            hub, WORKLOAD_QUOTAS, {"metadata": {**meta, "name": f"{mark}quota"}, "spec": spec}
        )
    event = {
        "metadata": {"name": "m1.hosted", "namespace": "default"},
        "regarding": {"apiVersion": "stowage.dev/v1alpha1", "kind": "MemberCluster", "name": "m1"},
        "reason": "Drained",
        "note": told,
        "type": "Normal",
        "action": "Drain",
        "eventTime": "2099-01-01T00:00:00.000000Z",
        "reportingController": "test",
        "reportingInstance": "test",
    }
    await hub.world.client.create(EVENTS, event)


@pytest.fixture(scope="module")
def filled(hub: Any) -> Iterator[Hub]:
    made = Hub(hub)
    made.begin()
    try:
        made.do(fill(made))
        yield made
    finally:
        made.end()


ACCOUNT = "system:serviceaccount:stowage-system:stowage-ui"


@pytest.fixture(scope="module")
def account(filled: Hub) -> Connection:
    """The page's own account, with the rights of `deploy/ui.yaml`."""
    kubectl, admin = filled.cluster.kubectl, filled.cluster.connection()
    kinds = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    every = install.page_manifests(namespace="stowage-system", image="any")
    given = [each for each in every if each["kind"] in kinds]
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": given})
    kubectl("apply", "-f", "-", input=listed)
    for what in (
        "list workloads.stowage.dev",
        "list leases.coordination.k8s.io -n stowage-system",
        "list events.events.k8s.io -n default",
    ):
        until_may(filled.cluster, ACCOUNT, what)
    token = kubectl("create", "token", "stowage-ui", "-n", "stowage-system").strip()
    return Connection(server=admin.server, ca=admin.ca, token=token)


@pytest.fixture(scope="module")
def page(account: Connection) -> Iterator[Page]:
    where = Where("default", (), account)
    settings = HostedSettings(where=where, host="127.0.0.1", port=0)

    def serving(opened: Callable[[str], None]) -> Any:
        return hosted.run(settings, listening=lambda port: opened(f"http://127.0.0.1:{port}/"))

    with in_thread(serving) as made:
        yield made


def token_of(hub: Hub, name: str, *rights: str) -> str:
    return str(reading_as(hub, name, *rights).token)


@pytest.fixture(scope="module")
def tenant(filled: Hub) -> str:
    """The token of who has the kinds of `shop`, and may create Workloads there."""
    rights = [f"get,list,watch {kind}.stowage.dev shop" for kind in KINDS]
    token = token_of(filled, "seller", *rights, "create workloads.stowage.dev shop")
    user = "system:serviceaccount:shop:seller"
    until_may(filled.cluster, user, "create workloads.stowage.dev -n shop")
    return token


class Reader(Page):
    """A page as asked with a token."""

    def __init__(self, page: Page, token: str) -> None:
        super().__init__(page.address)
        self.token = token

    def ask(
        self, path: str, *, method: str = "GET", body: str | bytes = b"", **headers: str
    ) -> Answer:
        given = {"Authorization": f"Bearer {self.token}", **headers}
        return super().ask(path, method=method, body=body, **given)

    def suppose(self, accept: str = "application/json", **fields: str | list[str]) -> Answer:
        body = urlencode(fields, doseq=True)
        return self.ask("/whatif", method="POST", body=body, Content_Type=FORM, Accept=accept)


@pytest.mark.proves("V18")
@pytest.mark.usefixtures("account")
@pytest.mark.parametrize("namespace", ["shop", "stowage-system", "default", "kube-system"])
def test_the_pages_account_reads_no_secret_and_writes_nothing(filled: Hub, namespace: str) -> None:
    listed = filled.cluster.kubectl(
        "auth", "can-i", "--list", "--no-headers", f"--as={ACCOUNT}", "-n", namespace
    )
    asks = ("reviews", "selfsubject")
    for line in listed.splitlines():
        if line.startswith(" "):
            continue  # no object: /healthz, /openapi and their like
        resource = line.split()[0]
        verbs = line[line.rindex("[") + 1 : -1].split()
        if not any(each in resource for each in asks):
            assert set(verbs) <= {"get", "list", "watch"}, line
        assert "secrets" not in resource
        assert "*" not in resource
    assert "workloads.stowage.dev" in listed
    assert "tokenreviews.authentication.k8s.io" in listed
    for what in ("list secrets", "get secrets", "patch workloads.stowage.dev"):
        verb, kind = what.split()
        may = filled.cluster.kubectl(
            "auth", "can-i", verb, kind, f"--as={ACCOUNT}", "-n", namespace, check=False
        )
        assert may.strip() == "no", what


@pytest.mark.proves("V12", "Q29")
def test_a_stranger_is_led_to_the_login(page: Page) -> None:
    for path in ("/api/v1/live", "/api/v1/fleet.columns"):
        for accept in ("text/event-stream", "text/html"):
            assert page.ask(path, Accept=accept).status == 401, path
    for path in ("/", "/workloads/shop/web", "/nothing"):
        answer = page.ask(path, Accept="text/html")
        assert (answer.status, answer.headers["location"]) == (303, "/login"), path
        assert answer.body == b""
        answer = page.ask(path, Accept="application/json")
        assert answer.status == 401, path
        assert answer.json.keys() == {"message"}
    for given in ("Bearer not-a-token", "Bearer ", "Basic YTpi", "Bearer " + "x" * 20_000):
        for accept in ("text/html", "application/json"):
            answer = page.ask("/", Authorization=given, Accept=accept)
            if len(given) > 10_000 and answer.status == 400:
                continue  # more than the server takes in a header
            assert answer.status == 401, given[:20]
            assert not re.search("unauth|invalid|jwt|review", answer.text, re.IGNORECASE)
    forwarded = {"X_Forwarded_User": "system:admin", "X_Forwarded_Groups": "system:masters"}
    assert page.ask("/", Accept="application/json", **forwarded).status == 401
    assert page.ask("/healthz").status == 200
    assert page.ask("/login").status == 200


@pytest.mark.long
@pytest.mark.proves("V12")
def test_a_pasted_token_becomes_a_cookie(page: Page, tenant: str) -> None:
    def login(token: str, **headers: str) -> Answer:
        body = urlencode({"token": token})
        return page.ask("/login", method="POST", body=body, Content_Type=FORM, **headers)

    refused = login("not-a-token")
    assert refused.status == 401
    assert "set-cookie" not in refused.headers
    assert login(tenant, Origin="https://evil.example").status == 403
    done = login(tenant, Sec_Fetch_Site="same-origin")
    assert (done.status, done.headers["location"]) == (303, "/")
    cookie = done.headers["set-cookie"]
    assert cookie.startswith("__Host-stowage=")
    assert set(cookie.split("; ")[1:-1]) == {"Path=/", "Secure", "HttpOnly", "SameSite=Strict"}
    assert tenant[:20] not in cookie
    session = Page(page.address, cookie.partition(";")[0])
    assert session.json("/workloads")["total"] == 2
    assert session.ask("/", Authorization="Bearer other").status == 401, "a header goes first"
    out = session.ask("/logout", method="POST", Sec_Fetch_Site="same-origin")
    assert "Max-Age=0" in out.headers["set-cookie"]
    assert session.ask("/logout", method="POST", Sec_Fetch_Site="cross-site").status == 403
    assert session.ask("/logout").status == 405
    name, _, value = session.cookie.partition("=")
    forged = f"{name}={value[:40]}{'A' if value[40] != 'A' else 'B'}{value[41:]}"
    assert Page(page.address, forged).ask("/", Accept="application/json").status == 401


def new() -> dict[str, Any]:
    """A Workload that fits on any cluster that is ready."""
    body = fleets.workload("new", {})
    del body["status"]
    pod = body["spec"]["targetDeployment"]["spec"]["template"]["spec"]
    pod["containers"][0]["resources"] = {}
    return body


def everything(reader: Reader) -> dict[str, Answer]:
    """Every answer: all pages and their links as HTML and JSON, and what a curious one would try."""
    found = crawl(reader)
    tried = [
        *(f"/{each}/{OTHER}/zqweb" for each in ("workloads", "groups", "spreads", "policies")),
        f"/reservations/{OTHER}/zqroom",
        f"/groups/{OTHER}/zqgang",
        f"/workloads/{OTHER}/zqweb/history",
        "/clusters/zqcluster",
        "/clusters/m1",
        "/workloads/shop/web/history",
        "/workloads/shop/web?rendered=m1",
        "/workloads/shop/web?rendered=zqcluster",
        f"/workloads?ns={OTHER}",
        f"/zqnothing/{OTHER}",
        "/metrics",
        "/readyz",
        "/api/v1/fleet.columns",
        "/api/v1/workloads.columns",
        f"/api/v1/workloads.columns?ns={OTHER}",
    ]
    found |= {path: reader.ask(path) for path in tried}
    paths = [path for path in found if not path.startswith("/static/")]
    found |= {f"{path} as JSON": reader.ask(path, Accept="application/json") for path in paths}
    workload = json.dumps(new())
    for accept in ("text/html", "application/json"):
        for fields in (
            {"yaml": workload},
            {"scale": "shop/web=9"},
            {"scale": f"{OTHER}/zqweb=1"},
            {"yaml": workload.replace("shop", OTHER)},
            {"cordon": "zqcluster"},
            {"lose": "m1"},
            {"each": "topology.kubernetes.io/zone"},
            {"yaml": "zq: ["},
        ):
            found[f"{accept} {fields}"] = reader.suppose(accept, **fields)
    return found


@pytest.mark.long
@pytest.mark.proves("V13")
def test_a_tenant_sees_no_name_of_others(page: Page, tenant: str) -> None:
    found = everything(Reader(page, tenant))
    seen = {path: set(HIDDEN.findall(answer.body)) for path, answer in found.items()}
    # what the caller has pasted comes back to them
    assert {path: names for path, names in seen.items() if names and "zq: [" not in path} == {}
    assert {path for path, answer in found.items() if answer.status >= 500} == set()
    by = {path: answer.status for path, answer in found.items()}
    assert by["/"] == by["/clusters/m1"] == by["/workloads/shop/web"] == 200
    assert by[f"/workloads/{OTHER}/zqweb"] == by[f"/workloads?ns={OTHER}"] == 403
    assert by["/clusters/zqcluster"] == 404
    told = found["/workloads/shop/web as JSON"].json
    assert [each["name"] for each in told["clusters"]] == ["m1"]
    assert "others" in found["/workloads/shop/web"].text


@pytest.mark.proves("V13")
def test_what_is_hidden_is_answered_as_what_is_not_there(page: Page, tenant: str) -> None:
    reader = Reader(page, tenant)
    for hidden, absent in (
        ("/clusters/zqcluster", "/clusters/nothing"),
        (f"/workloads/{OTHER}/zqweb", f"/workloads/{OTHER}/nothing"),
        (f"/workloads/{OTHER}/zqweb", "/workloads/nowhere/nothing"),
        (f"/workloads?ns={OTHER}", "/workloads?ns=nowhere"),
        ("/workloads/shop/web?rendered=zqcluster", "/workloads/shop/web?rendered=nothing"),
    ):
        one, other = reader.ask(hidden), reader.ask(absent)
        assert (one.status, one.body) == (other.status, other.body), hidden


@pytest.mark.proves("V14")
def test_counts_are_those_of_what_may_be_listed(filled: Hub, page: Page, tenant: str) -> None:
    listed = json.loads(filled.cluster.kubectl("get", "wl", "-n", "shop", "-o", "json"))["items"]
    told = Reader(page, tenant).json("/")
    assert sum(told["workloads"].values()) == len(listed)
    for key in ("desired", "assigned", "ready"):
        assert told["units"][key] == sum(each["status"][key] for each in listed)
    assert told["clusters"] == {"Ready": 1}
    assert sum(row["units"] for row in told["reasons"]) == sum(
        each["status"]["pending"] for each in listed
    )
    assert all(row["allocatable"] == 0 for row in told["capacity"])


@pytest.mark.proves("V13")
def test_a_what_if_takes_the_rights_of_what_it_supposes(page: Page, tenant: str) -> None:
    reader = Reader(page, tenant)
    assert reader.suppose(scale="shop/web=9").status == 200
    (planned,) = reader.suppose(yaml=json.dumps(new())).json["workloads"]
    shares = {each["cluster"]: each["replicas"] for each in planned["placements"]}
    assert shares == {"m1": 2, "another cluster": 2}
    for fields in (
        {"scale": f"{OTHER}/zqweb=9"},
        {"scale": ["shop/web=9", "nowhere/web=1"]},
        {"cordon": "m1"},
        {"drain": "m1"},
        {"lose": "m1"},
        {"label": "a=b"},
        {"each": "zone"},
    ):
        assert reader.suppose(**fields).status == 403, fields


@pytest.mark.proves("V13")
def test_who_may_list_all_sees_all(filled: Hub, page: Page) -> None:
    every = [f"get,list,watch {kind}.stowage.dev" for kind in (*KINDS, "workloadquotas")]
    rights = [*every, "get,list,watch memberclusters.stowage.dev"]
    reader = Reader(page, token_of(filled, "overseer", *rights))
    assert reader.json("/workloads")["total"] == 5
    assert f"{OTHER}/zqweb" in reader.ask("/workloads/shop/web").text
    assert reader.ask(f"/workloads/{OTHER}/zqweb").status == 200
    assert reader.json("/clusters/m1")["labels"]["tier"] == "zqlabel"
    assert "may not list events" in reader.json("/clusters/m1")["eventsFault"]
    also = ("list memberclusters.stowage.dev", "list events.events.k8s.io default")
    told = Reader(page, token_of(filled, "watcher", *also)).json("/clusters/m1")
    assert "zqweb" not in told["events"][0]["note"], "who lists no Workloads there"


def test_who_may_get_one_object_sees_that_one(filled: Hub, page: Page) -> None:
    reader = Reader(page, token_of(filled, "visitor"))
    assert reader.ask("/").status == 403
    kubectl, scope = filled.cluster.kubectl, ("-n", "shop")
    role = ("role", "one", "--verb=get", "--resource=workloads.stowage.dev", "--resource-name=web")
    kubectl("create", *role, *scope)
    account = "--serviceaccount=shop:visitor"
    kubectl("create", "rolebinding", "one", "--role=one", account, *scope)
    until_may(
        filled.cluster,
        "system:serviceaccount:shop:visitor",
        "get workloads.stowage.dev/web -n shop",
    )
    told = reader.ask("/workloads/shop/web")
    assert told.status == 200
    assert not HIDDEN.findall(told.body)
    assert reader.ask("/workloads/shop/db").status == 403
    assert reader.ask("/workloads").status == 403


class Stream:
    """The live stream of a reader, read in a thread. `pieces` are what came."""

    def __init__(self, reader: Reader) -> None:
        self.pieces: list[bytes] = []
        self.ended = False
        self._connection = HTTPConnection(urlsplit(reader.address).netloc, timeout=90)
        self._connection.connect()
        self._socket = self._connection.sock
        self._connection.request(
            "GET", "/api/v1/live", headers={"Authorization": f"Bearer {reader.token}"}
        )
        self._answer = self._connection.getresponse()
        assert self._answer.status == 200

    def close(self) -> None:
        self._socket.shutdown(SHUT_RDWR)

    def read(self) -> None:
        while piece := self._answer.readline():
            self.pieces.append(piece)
        self.ended = True
        self._connection.close()


@pytest.mark.long  # an answer of the hub holds for half a minute
@pytest.mark.proves("V15")
def test_a_right_that_is_taken_away_ends_the_session(filled: Hub, page: Page) -> None:
    reader = Reader(page, token_of(filled, "leaver", "get,list,watch workloads.stowage.dev shop"))
    assert reader.ask("/workloads").status == 200
    stream = Stream(reader)
    with ThreadPoolExecutor(1) as threads:
        threads.submit(stream.read)
        assert reader.ask("/workloads").status == 200
        filled.cluster.kubectl("delete", "rolebinding", "leaver-0", "-n", "shop")
        hold_on(lambda: reader.ask("/workloads").status == 403, seconds=35, every=0.5)
        hold_on(lambda: stream.ended, seconds=35)
    assert {path: reader.ask(path).status for path in PAGES} == dict.fromkeys(PAGES, 403)
