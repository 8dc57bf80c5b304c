"""`stowage restart`, `pods` and `logs`."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from machinery.api.resources import WORKLOADS
from machinery.clock import SystemClock, parse_timestamp, timestamp
from stowage.commands import running
from stowage.report.memberpods import state
from stowage.setup.restart import RESTARTED
from tests.memoryhub import MemoryHub
from tests.stowage.plain_hub import kubeconfig

from .conftest import Stowage

pytestmark = pytest.mark.proves("Q13")
Body = dict[str, Any]
POD = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main"}]}}


def _workload(field: str, kind: str, **spec: Any) -> Body:
    api = "batch/v1" if kind.endswith("Job") else "apps/v1"
    selector = {"matchLabels": {"app": "web"}}
    body = {"apiVersion": api, "kind": kind, "spec": {"selector": selector, "template": POD}}
    if kind == "CronJob":
        body["spec"] = {"jobTemplate": {"spec": {"template": POD}}}
    if kind == "ConfigMap":
        body = {"apiVersion": "v1", "kind": kind, "data": {}}
    return {
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {field: body, **spec},
        "status": {"placements": [{"cluster": "m1", "replicas": 2}]},
    }


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MemoryHub:
    """A hub to which `restart` talks."""
    made = MemoryHub(clock=SystemClock(), admission=False)
    monkeypatch.setattr(running, "with_hub", lambda _, use: asyncio.run(use(made)))
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path, "http://127.0.0.1:9")))
    return made


@pytest.mark.parametrize(
    ("field", "kind"),
    [("targetDeployment", "Deployment"), ("template", "StatefulSet"), ("template", "DaemonSet")],
)
def test_a_restart_writes_the_time_into_the_pod_template_and_nothing_else(
    hub: MemoryHub, stowage: Stowage, field: str, kind: str
) -> None:
    before = _workload(field, kind)
    hub.put(WORKLOADS, before)
    done = stowage("restart", "wl/web", "-n", "shop")
    assert (done.code, done.out) == (0, "workload.stowage.dev/web restarted\n"), done.err
    spec = hub.read(WORKLOADS, "web")["spec"]
    noted = spec[field]["spec"]["template"]["metadata"].pop("annotations")
    assert noted.keys() == {RESTARTED}
    assert datetime.now(UTC) - parse_timestamp(noted[RESTARTED]) < timedelta(minutes=5)
    assert spec == before["spec"]


@pytest.mark.parametrize(
    ("workload", "says"),
    [
        (
            _workload("template", "Job"),
            "shop/web is a Job, which cannot be restarted: its pods run to their end",
        ),
        (_workload("template", "CronJob"), "is a CronJob, which cannot be restarted: each of its"),
        (_workload("template", "ReplicaSet"), "delete them on the members"),
        (
            _workload("template", "ConfigMap"),
            "is a ConfigMap, which cannot be restarted: it has no pod template",
        ),
        (None, "there is no Workload shop/web"),
    ],
)
def test_what_has_no_pods_to_replace_is_refused_in_plain_words(
    hub: MemoryHub, stowage: Stowage, workload: Body | None, says: str
) -> None:
    if workload:
        hub.put(WORKLOADS, workload)
    done = stowage("restart", "wl", "web", "-n", "shop")
    assert (done.code, done.out) == (1, "")
    assert says in done.err


def test_a_restart_says_what_comes_of_it(hub: MemoryHub, stowage: Stowage) -> None:
    hub.put(WORKLOADS, _workload("template", "StatefulSet", rollout={"waves": []}))
    assert stowage.succeed("restart", "workload/web", "-n", "shop") == (
        "workload.stowage.dev/web restarted, wave by wave: "
        "`stowage rollout status wl/web -n shop` shows it\n"
    )
    away = {"spec": {"rollout": None}, "status": {"placements": None}}
    hub.edit(WORKLOADS, "web", away)
    hub.edit(WORKLOADS, "web", away, status=True)
    hub.edit(
        WORKLOADS,
        "web",
        {"spec": {"template": {"spec": {"template": POD | {"metadata": {"annotations": None}}}}}},
    )
    assert "nothing runs that would be replaced" in stowage.succeed(
        "restart", "wl/web", "-n", "shop"
    )


# --- pods and logs --------------------------------------------------------------------------------


def _pod(name: str, *containers: str, seconds: int = 0, **more: Any) -> Body:
    meta = {
        "name": name,
        "namespace": "web",
        "creationTimestamp": timestamp(datetime.now(UTC) - timedelta(seconds=seconds)),
    }
    states = [
        {"ready": each == "run", "restartCount": at, "state": STATES[each]}
        for at, each in enumerate(containers)
    ]
    return {
        "metadata": meta | more.pop("metadata", {}),
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": f"c{at}"} for at in range(len(containers))],
        },
        "status": {"phase": "Running", "podIP": "10.0.0.7", "containerStatuses": states} | more,
    }


STATES = {
    "run": {"running": {}},
    "crash": {"waiting": {"reason": "CrashLoopBackOff"}},
    "done": {"terminated": {"reason": "Completed", "exitCode": 0}},
    "making": {"waiting": {"reason": "PodInitializing"}},
}


class Servers:
    """A hub and members at paths of one server; `asked` are the requests of the members."""

    def __init__(self) -> None:
        self.workload = _workload("targetDeployment", "Deployment", targetNamespace="web")
        self.workload["metadata"]["uid"] = "u-1"
        shares = [{"cluster": name, "replicas": 1} for name in ("m2", "m1")]
        self.workload["status"] = {"placements": shares, "clusters": [{"name": "m3"}]}
        self.pods: dict[str, list[Body]] = {}
        self.texts: dict[str, str] = {}
        self.refuses: set[str] = set()
        self.asked: list[tuple[str, dict[str, list[str]]]] = []

    def answer(self, path: str, query: dict[str, list[str]]) -> tuple[int, str]:
        _, server, rest = path.split("/", 2)
        if server == "hub":
            found = rest.endswith("/workloads/web")
            return (200, json.dumps(self.workload)) if found else (404, '{"reason": "NotFound"}')
        self.asked.append((f"{server}/{rest}", query))
        if server in self.refuses:
            said = {"reason": "Forbidden", "message": "user may not list pods"}
            return 403, json.dumps(said)
        if rest.endswith("/log"):
            return 200, self.texts[rest.split("/")[-2]]
        assert rest == "api/v1/namespaces/web/pods"
        labelled = query["labelSelector"] == ["stowage.dev/workload-uid=u-1"]
        items = [
            e for e in self.pods.get(server, []) if e["metadata"].get("old", False) != labelled
        ]
        return 200, json.dumps({"items": items, "metadata": {}})


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Servers]:
    there = Servers()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            code, body = there.answer(url.path, parse_qs(url.query))
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    names = ("hub", "m1", "m2", "lone")
    at = f"http://127.0.0.1:{server.server_port}"
    own, lone = tmp_path / "own", tmp_path / "lone"
    for file, listed in ((own, names[:3]), (lone, names[3:])):
        document = {
            "current-context": listed[0],
            "clusters": [{"name": n, "cluster": {"server": f"{at}/{n}"}} for n in listed],
            "users": [{"name": "me", "user": {}}],
            "contexts": [{"name": n, "context": {"cluster": n, "user": "me"}} for n in listed],
        }
        file.write_text(yaml.safe_dump(document))
    monkeypatch.setenv("KUBECONFIG", str(own))
    try:
        yield there
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


OF_M3 = "--member-kubeconfig"


def test_the_pods_of_all_members_are_one_table(
    served: Servers, stowage: Stowage, tmp_path: Path
) -> None:
    served.pods = {
        "m1": [_pod("web-b", "run", "crash", seconds=7200), _pod("web-a", "run", seconds=300)],
        "lone": [_pod("web-c", "run", seconds=259200, metadata={"old": True})],
    }
    asked = ("wl/web", "-n", "shop", OF_M3, f"m3={tmp_path / 'lone'}")
    assert stowage.succeed("pods", *asked) == (
        "NAME    CLUSTER   READY   STATUS             RESTARTS   AGE   NODE\n"
        "web-a   m1        1/1     Running            0          5m    n1\n"
        "web-b   m1        1/2     CrashLoopBackOff   1          2h    n1\n"
        "web-c   m3        1/1     Running            0          3d    n1\n"
    )
    wide = stowage.succeed("pods", *asked, "-o", "wide")
    assert wide.splitlines()[0].endswith("NODE   IP")
    assert stowage.succeed("pods", *asked, "-o", "name") == "pod/web-a\npod/web-b\npod/web-c\n"
    told = json.loads(stowage.succeed("pods", *asked, "--cluster", "mc/m1", "-o", "json"))
    assert [each["name"] for each in told["pods"]] == ["web-a", "web-b"]


def test_a_member_that_cannot_be_asked_keeps_no_other_back(
    served: Servers, stowage: Stowage
) -> None:
    served.pods = {"m1": [_pod("web-a", "run")]}
    served.refuses = {"m2"}
    done = stowage("pods", "wl/web", "-n", "shop")
    assert done.code == 1
    assert done.out.splitlines()[1].startswith("web-a   m1")
    refused, unknown = done.err.splitlines()
    assert refused.startswith("m2 is not shown: ")
    assert "user may not list pods" in refused
    assert unknown.startswith(
        "m3 is not shown: your credentials of a member are the context of its name, or "
        "--member-kubeconfig m3=FILE: "
    )


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["wl/none"], 1, "there is no Workload shop/none"),
        (["wl/web", "--cluster", "m9"], 1, "shop/web is not on m9: it is on m1, m2, m3"),
        (["wl/web", "--cluster", "m1"], 0, "shop/web has no pods"),
        (["wl/web", OF_M3, "m1"], 2, "'m1' is not of the form NAME=FILE"),
        (["rsv/web"], 2, "only Workloads"),
    ],
)
def test_what_cannot_be_shown_is_said(
    served: Servers, stowage: Stowage, args: list[str], code: int, says: str
) -> None:
    done = stowage("pods", *args, "-n", "shop")
    assert (done.code, done.out) == (code, "")
    assert says in done.err


@pytest.mark.parametrize(
    ("pod", "word"),
    [
        (_pod("a", "run", "done"), "Running"),
        (_pod("a", "done", phase="Succeeded"), "Completed"),
        (_pod("a", phase="Failed", reason="Evicted"), "Evicted"),
        (_pod("a", phase="Pending"), "Pending"),
        (_pod("a", "run", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), "Terminating"),
        (
            _pod(
                "a",
                "making",
                initContainerStatuses=[{"state": STATES["done"]}, {"state": STATES["run"]}],
            ),
            "Init:1/2",
        ),
        (
            _pod("a", "making", initContainerStatuses=[{"state": STATES["crash"]}]),
            "Init:CrashLoopBackOff",
        ),
        (
            _pod("a", "run", initContainerStatuses=[{"started": True, "state": STATES["run"]}]),
            "Running",
        ),
    ],
)
def test_the_state_of_a_pod_is_one_word(pod: Body, word: str) -> None:
    assert state(pod) == word


@pytest.mark.parametrize("follow", [False, True])
def test_each_line_of_a_log_begins_with_its_cluster_and_pod(
    served: Servers, stowage: Stowage, follow: bool
) -> None:
    annotated = {"annotations": {"kubectl.kubernetes.io/default-container": "c1"}}
    served.pods = {
        "m1": [_pod("web-a", "run", "run", metadata=annotated)],
        "m2": [_pod("web-b", "run", "run")],
    }
    served.texts = {"web-a": "one\ntwo\x1b[2J\n", "web-b": "three"}
    more = ["-f"] if follow else []
    done = stowage("logs", "wl/web", "-n", "shop", "--tail", "5", *more)
    lines = done.out.splitlines()
    assert (sorted(lines) if follow else lines) == [
        "m1/web-a one",
        "m1/web-a two?[2J",
        "m2/web-b three",
    ]
    assert "m3 is not shown" in done.err
    assert done.code == 1
    read = {path: query for path, query in served.asked if path.endswith("/log")}
    assert [query["container"] for _, query in sorted(read.items())] == [["c1"], ["c0"]]
    for query in read.values():
        assert query["tailLines"] == ["5"]
        assert query.get("follow") == (["true"] if follow else None)


def test_one_container_of_one_cluster(served: Servers, stowage: Stowage) -> None:
    served.pods = {"m1": [_pod("web-a", "run", "run")]}
    served.texts = {"web-a": "here\n"}
    asked = ("wl/web", "-n", "shop", "--cluster", "m1", "-c", "c1")
    assert stowage.succeed("logs", *asked) == "m1/web-a here\n"
    assert served.asked[-1][1] == {"container": ["c1"]}
