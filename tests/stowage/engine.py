"""A Docker engine and kind to test against where there is neither.

`docker`, `kind` and `kubectl` are real programs: they write down how they were called, keep the clusters in a folder, and answer and fail in the words of the real ones.
`Hub` is the API server of the hub that they pretend to have made: real TLS and HTTP on a port, which
records what is applied to it.
"""

from __future__ import annotations

import ast
import functools
import json
import ssl
import sys
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from stowage.playground import kind, pki
from stowage.setup import install, member_rights

NODE_IMAGE = kind.NODE_IMAGE
NO_ENGINE = (
    "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. "
    "Is the docker daemon running?"
)

_PROGRAM = """#!{python} -IS
import os, sys  # what else it imported would be most of its time

HERE = {folder!r}
TOOL, ARGS = os.path.basename(sys.argv[0]), sys.argv[1:]
LINE = " ".join([TOOL, *ARGS])

def end(code=0, out="", err=""):
    print(out, end="")
    print(err, end="", file=sys.stderr)
    sys.stdout.flush()
    sys.exit(code)

def read(name):
    with open(os.path.join(HERE, name)) as file:
        return file.read()

def add(name, text):
    with open(os.path.join(HERE, name), "a") as file:
        file.write(text)

def option(name):
    for number, argument in enumerate(ARGS):
        if argument == name:
            return ARGS[number + 1]
        if argument.startswith(name + "="):
            return argument.partition("=")[2]
    return ""

def node(name):
    return name + "-control-plane"

def kubeconfig(name, server):
    text = read("kubeconfig")
    return text.replace("SERVER", server).replace("NAME", "kind-" + name) + "\\n"

add("calls", repr([TOOL, *ARGS]) + "\\n")
for wanted, (code, text) in eval(read("faults")).items():
    if wanted in LINE:
        end(code, err=text + "\\n")
there, images = sorted(os.listdir(os.path.join(HERE, "clusters"))), set(read("images").split())
name = option("--name")

if TOOL == "kind" and ARGS[:2] == ["get", "clusters"]:
    if not there:
        end(err="No kind clusters found.\\n")
    end(out="".join(each + "\\n" for each in there))
if TOOL == "kind" and ARGS[:2] == ["create", "cluster"]:
    if name in there:
        end(1, err="ERROR: failed to create cluster: node(s) already exist for a cluster with "
            + 'the name "' + name + '"\\n')
    add("clusters/" + name, str(len(there) + 2))
    if os.path.exists(os.path.join(HERE, "slow")):
        import time

        add("pids", str(os.getpid()) + "\\n")
        time.sleep(600)
    with open(option("--kubeconfig"), "w") as file:
        file.write(kubeconfig(name, "https://127.0.0.1:1"))
    end(err='Creating cluster "' + name + '" ...\\nHave a nice day!\\n')
if TOOL == "kind" and ARGS[:2] == ["get", "kubeconfig"]:
    if name not in there:
        end(1, err="ERROR: could not locate any control plane nodes for cluster named '" + name
            + "'. Use the --name option to select a different cluster\\n")
    if "--internal" in ARGS:
        end(out=kubeconfig(name, "https://" + node(name) + ":6443"))
    end(out=kubeconfig(name, "https://127.0.0.1:" + read("port")))
if TOOL == "kind" and ARGS[:2] == ["delete", "cluster"]:
    if name in there:
        os.unlink(os.path.join(HERE, "clusters", name))
    end(err='Deleting cluster "' + name + '" ...\\n')
if TOOL == "kind" and ARGS[:2] == ["load", "docker-image"]:
    if ARGS[2] not in images:
        end(1, err='ERROR: image: "' + ARGS[2] + '" not present locally\\n')
    end(err='Image: "' + ARGS[2] + '" not yet present on node "' + node(name) + '", loading...\\n')
if TOOL == "kubectl" and ARGS[-1] == "--raw=/readyz":
    end(out="ok\\n")
if TOOL == "docker" and ARGS[0] == "version":
    end(out="29.1.3\\n")
if TOOL == "docker" and ARGS[:2] == ["image", "inspect"]:
    if ARGS[-1] in images:
        end(out="sha256:" + "c" * 64 + "\\n")
    end(1, out="\\n", err="Error response from daemon: No such image: " + ARGS[-1] + "\\n")
if TOOL == "docker" and ARGS[0] in ("inspect", "start"):
    for each in there:
        if node(each) == ARGS[-1]:
            address = "172.18.0." + read("clusters/" + each)
            end(out=(address if ARGS[0] == "inspect" else ARGS[-1]) + "\\n")
    end(1, out="\\n", err="Error: No such object: " + ARGS[-1] + "\\n")
if TOOL == "docker" and ARGS[0] == "pull":
    add("images", ARGS[-1] + "\\n")
    end(out="docker.io/" + ARGS[-1] + "\\n")
if TOOL == "docker" and ARGS[0] == "build":
    end(out="sha256:" + "b" * 64 + "\\n")
end(64, err="the test's " + TOOL + " does not know " + LINE + "\\n")
"""


class Engine:
    """A fake of docker and kind; the test looks into it and makes it fail."""

    def __init__(self, folder: Path, tools: Path) -> None:
        self.folder = folder
        (folder / "clusters").mkdir(parents=True)
        (folder / "images").write_text(f"{NODE_IMAGE}\n")
        (folder / "calls").touch()
        self.fail({})
        program = _PROGRAM.format(python=sys.executable, folder=str(folder))
        for tool in ("docker", "kind", "kubectl"):
            (tools / tool).write_text(program)
            (tools / tool).chmod(0o755)

    @property
    def clusters(self) -> list[str]:
        """The clusters that exist, by the name that kind knows them by."""
        return sorted(each.name for each in (self.folder / "clusters").iterdir())

    def calls(self, *beginning: str) -> list[list[str]]:
        """The calls that began so, in their order; the program's name first."""
        lines = (self.folder / "calls").read_text().splitlines()
        calls: list[list[str]] = [ast.literal_eval(line) for line in lines]
        return [call for call in calls if call[: len(beginning)] == list(beginning)]

    def forget(self) -> None:
        """Forget the calls until now."""
        (self.folder / "calls").write_text("")

    def fail(self, faults: Mapping[str, tuple[int, str]]) -> None:
        """Let every call whose line holds that text end with that code and these words."""
        (self.folder / "faults").write_text(repr(dict(faults)))

    def add_image(self, image: str) -> None:
        """Have that image."""
        with (self.folder / "images").open("a") as images:
            images.write(f"{image}\n")

    def add_cluster(self, name: str) -> None:
        """Have a cluster that somebody else made."""
        (self.folder / "clusters" / name).write_text("250")


class Hub:
    """An API server that takes everything, and remembers it.

    Members become Ready when their Secret is there. A process holds its lease when its Deployment
    is there, but only from the third time that it is asked about: pods take a while to start.
    """

    def __init__(self, folder: Path) -> None:
        authority = pki.Authority("kind")
        pair = authority.server()
        (folder / "server.pem").write_bytes(pair.certificate + pair.key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "server.pem")
        self.applied: dict[str, dict[str, Any]] = {}
        self.asked: dict[str, int] = {}
        self._installed = _installed()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        (folder / "port").write_text(str(self._server.server_port))
        user = authority.client("kubernetes-admin")
        (folder / "kubeconfig").write_text(
            pki.kubeconfig("NAME", "SERVER", authority.certificate, user)
        )
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def stop(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def objects(self, kind: str) -> list[dict[str, Any]]:
        """The applied objects of that kind, sorted by name."""
        found = [each for each in self.applied.values() if each["kind"] == kind]
        return sorted(found, key=lambda each: each["metadata"]["name"])

    def answer(self, path: str) -> dict[str, Any] | None:
        """The object at that path; None without one."""
        resource, _, name = path.rpartition("/")
        self.asked[path] = self.asked.get(path, 0) + 1
        if resource.endswith("/customresourcedefinitions"):
            return _with_condition(self.applied.get(path), "Established")
        if resource.endswith("/memberclusters"):
            there = name in {each["metadata"]["name"] for each in self.objects("Secret")}
            return _with_condition({}, "Ready") if there else None
        if resource.endswith("/deployments"):
            return _at_work(self.applied.get(path))
        if resource.endswith("/leases"):
            there = name in {each["metadata"]["name"] for each in self.objects("Deployment")}
            held = there and self.asked[path] > 2
            return {"spec": {"holderIdentity": name}} if held else None
        if resource.endswith("/priorityclasss"):  # as the discovery here makes plurals
            return self.applied.get(path)
        return self._discovery(path.removeprefix("/apis/").removeprefix("/api/"))

    def _discovery(self, version: str) -> dict[str, Any]:
        """The kinds of that version that are installed, but for the admission policies."""
        resources = {
            each["kind"]: {
                "kind": each["kind"],
                "name": each["kind"].lower() + "s",
                "namespaced": "namespace" in each["metadata"],
            }
            for each in self._installed
            if each["apiVersion"] == version and "Admission" not in each["kind"]
        }
        return {"resources": list(resources.values())}


@functools.cache
def _installed() -> list[dict[str, Any]]:
    """The Deployments that are installed on a hub, for its kinds."""
    whole = install.manifests(namespace="any", image="any")
    return [*whole, member_rights.placeholder_class()]


def _at_work(found: dict[str, Any] | None) -> dict[str, Any] | None:
    """A Deployment as it stands when all its pods run."""
    if found is None:
        return None
    pods = found["spec"]["replicas"]
    counts = dict.fromkeys(("replicas", "updatedReplicas", "availableReplicas"), pods)
    about = {**found["metadata"], "generation": 1}
    return {**found, "metadata": about, "status": {"observedGeneration": 1, **counts}}


def _with_condition(found: dict[str, Any] | None, type_: str) -> dict[str, Any] | None:
    if found is None:
        return None
    return {**found, "status": {"conditions": [{"type": type_, "status": "True"}]}}


def _handler(hub: Hub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one packet for head and body, or each answer waits for an acknowledgement

        def do_GET(self) -> None:
            found = hub.answer(self.path.partition("?")[0])
            missing = {"code": 404, "reason": "NotFound", "message": "not found"}
            self._send(200 if found is not None else 404, found or missing)

        def do_PATCH(self) -> None:
            sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            hub.applied[self.path.partition("?")[0]] = sent
            self._send(200, sent)

        def _send(self, code: int, answer: dict[str, Any]) -> None:
            body = json.dumps(answer).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its base's name
            pass

    return Handler
