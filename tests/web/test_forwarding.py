"""The hosted page by `stowage ui --hosted`: real API server, and kwok's kubelet for the last step."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from machinery.api.resources import WORKLOADS
from machinery.config.kubeconfig import Connection
from machinery.errors import ConfigurationError, Forbidden
from stowage.playground import flags
from stowage.playground.processes import Process
from stowage.setup import install
from stowage.simulation.plan import Where
from stowage.toolchain import binaries
from stowage.web import forwarding, hosted
from stowage.web.forwarding import ForwardingSettings
from stowage.web.hosted import HostedSettings
from tests.inforce import until_may
from tests.patience import hold_on
from tests.web import fleets
from tests.web.conftest import Page, in_thread
from tests.web.hubs import Hub, put, reading_as

SYSTEM = "stowage-system"
POD = "stowage-ui-1"


@pytest.fixture(scope="module")
def followed(hub: Any) -> Iterator[Hub]:
    made = Hub(hub)
    made.begin()
    try:
        made.do(put(made, WORKLOADS, fleets.workload("web", {"m1": 2})))
        yield made
    finally:
        made.end()


@pytest.fixture(scope="module")
def page(followed: Hub) -> Iterator[Page]:
    """The hosted page, where the pod would serve it."""
    where = Where("default", (), followed.cluster.connection())
    settings = HostedSettings(where=where, host="127.0.0.1", port=0)

    def serving(opened: Callable[[str], None]) -> Any:
        return hosted.run(settings, listening=lambda port: opened(f"http://127.0.0.1:{port}/"))

    with in_thread(serving) as made:
        yield made


def kubelet(hub: Hub, target: int, folder: Path) -> tuple[Process, int]:
    """kwok as the kubelet of all nodes, which hands port 8080 of the pod to that port."""
    forwards = [{"ports": [8080], "target": {"address": "127.0.0.1", "port": target}}]
    given = {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "PortForward",
        "metadata": {"name": POD, "namespace": SYSTEM},
        "spec": {"forwards": forwards},
    }
    file = folder / "forward.yaml"
    file.write_text(yaml.safe_dump(given))
    for attempt in range(5):  # it cannot be given a port that is held for it
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = int(free.getsockname()[1])
        at = [f"--server-address=127.0.0.1:{port}", "--node-ip=127.0.0.1", f"--node-port={port}"]
        argv = [str(binaries.path("kwok")), *flags.kwok(hub.cluster.kubeconfig), *at]
        made = Process("kwok", [*argv, f"--config={file}"], folder / f"kwok-{attempt}.log")
        made.start(detached=False)
        hold_on(lambda made=made, port=port: not made.alive() or listens(port))
        if made.alive():
            return made, port
    raise AssertionError("kwok found no port")


def listens(port: int) -> bool:
    with socket.socket() as asked:
        return asked.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def pod(followed: Hub, page: Page, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A pod of `stowage-ui` that is ready, on a node of kwok."""
    kubectl = followed.cluster.kubectl
    every = install.page_manifests(namespace=SYSTEM, image="any")
    account = next(each for each in every if each["kind"] == "ServiceAccount")
    deployment = next(each for each in every if each["kind"] == "Deployment")
    template = deployment["spec"]["template"]
    named = {**template["metadata"], "name": POD, "namespace": SYSTEM}
    spec = {**template["spec"], "nodeName": "n1", "priorityClassName": ""}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": named, "spec": spec}
    target = urlsplit(page.address).port
    assert target is not None
    process, _ = kubelet(followed, target, tmp_path_factory.mktemp("kwok"))
    try:
        followed.cluster.add_nodes(1, wait=False)
        kubectl("apply", "-f", "-", input=json.dumps(account))
        name = kubectl("get", "nodes", "-o", "name").split()[0].partition("/")[2]
        body["spec"]["nodeName"] = name
        kubectl("create", "-f", "-", input=json.dumps(body))
        kubectl("wait", "--for=condition=Ready", f"pod/{POD}", "-n", SYSTEM, "--timeout=60s")
        yield POD
    finally:
        kubectl("delete", "pod", POD, "-n", SYSTEM, "--force", "--wait=false", check=False)
        kubectl("delete", "nodes", "--all", "--wait=false", check=False)
        process.end()


@pytest.fixture(scope="module")
def reader(followed: Hub) -> Connection:
    """Who may list the Workloads of `shop`, and go through the API server to the page's pods."""
    rights = (
        "get,list,watch workloads.stowage.dev shop",
        f"get,list pods {SYSTEM}",
        f"get,create pods/portforward {SYSTEM}",
    )
    made = reading_as(followed, "walker", *rights[:2])
    role = ("role", "walker-2", "--verb=get,create", "--resource=pods/portforward", "-n", SYSTEM)
    followed.cluster.kubectl("create", *role)
    followed.cluster.kubectl(
        *("create", "rolebinding", "walker-2", "--role=walker-2", "-n", SYSTEM),
        "--serviceaccount=shop:walker",
    )
    user = "system:serviceaccount:shop:walker"
    until_may(followed.cluster, user, f"get pods --subresource=portforward -n {SYSTEM}")
    return made


def through(connection: Connection, **more: Any) -> Any:
    settings = ForwardingSettings(hub=connection, browser=False, **more)
    return in_thread(lambda opened: forwarding.run(settings, opened=opened))


@pytest.mark.long
@pytest.mark.proves("V26")
@pytest.mark.usefixtures("pod")
def test_the_hosted_page_is_reached_through_the_api_server_alone(
    followed: Hub, page: Page, reader: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    direct, connect = urlsplit(page.address).port, socket.socket.connect

    def blocked(self: socket.socket, address: Any) -> None:
        if address[1] == direct:
            raise ConnectionRefusedError("past the API server")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", blocked)
    with pytest.raises(ConnectionRefusedError):
        page.ask("/")
    with through(reader) as local:
        assert local.ask("/").status == 401, "without the key"
        assert local.ask("/", Host="evil.example").status == 421
        assert "<h1" in local.open().text
        told = local.json("/workloads")
        assert [each["name"] for each in told["workloads"]] == ["web"]
        assert local.ask("/workloads", method="HEAD").body == b""
        assert local.ask("/workloads/other/web").status == 403
        assert "walker" in local.ask("/").text
        form = {"Content_Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        foreign = {**form, "Origin": "https://evil.example"}
        assert local.ask("/whatif", method="POST", body="scale=a", **foreign).status == 403
        told = local.ask("/whatif", method="POST", body="{}", Accept="application/json")
        assert (told.status, "send a form" in told.text) == (400, True)
        assert local.ask("/static/stowage.css").status == 404
        with closing(HTTPConnection(urlsplit(local.address).netloc, timeout=60)) as stream:
            stream.request("GET", "/api/v1/live", headers={"Cookie": local.cookie})
            answer = stream.getresponse()
            assert answer.readline() == b"retry: 1000\n"
            followed.cluster.kubectl("annotate", "wl", "web", "-n", "shop", "seen=1", "--overwrite")
            assert any(b"shop/web" in line for line in iter(answer.readline, b""))


@pytest.mark.long
@pytest.mark.proves("V26")
@pytest.mark.usefixtures("pod", "reader")
def test_a_client_certificate_reads_as_a_service_account(followed: Hub) -> None:
    admin = followed.cluster.connection()
    assert admin.token is None
    with (
        pytest.raises(ConfigurationError, match="--service-account NAMESPACE/NAME"),
        through(admin),
    ):
        pass
    with through(admin, service_account=("shop", "walker")) as local:
        local.open()
        assert local.json("/workloads")["total"] == 1


@pytest.mark.proves("V26")
def test_what_is_lacking_is_said(followed: Hub, reader: Connection) -> None:
    nothing = Connection(server=reader.server, ca=reader.ca, token=token_of_nobody(followed))
    with pytest.raises(Forbidden), through(nothing):
        pass
    with (
        pytest.raises(ConfigurationError, match="no pod of stowage-ui is ready in shop"),
        through(
            followed.cluster.connection(), namespace="shop", service_account=("shop", "walker")
        ),
    ):
        pass


def token_of_nobody(hub: Hub) -> str:
    hub.cluster.kubectl("create", "serviceaccount", "nobody", "-n", "shop")
    return str(hub.cluster.kubectl("create", "token", "nobody", "-n", "shop")).strip()
