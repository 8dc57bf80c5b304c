"""Real control planes on 127.0.0.1: one etcd for all, an API server for each cluster.

Each cluster has its own etcd prefix, its own certificate authority and its own port, and on request
a controller manager, a scheduler and kwok (which plays the kubelets). Used by `stowage playground`
and by every test that needs an API server. Ports are chosen free, and chosen again when somebody
else was faster. What was started is ended in the one order that works: kwok, scheduler, controller
manager, API servers (killed: asked politely they wait a minute for their watches), etcd.
"""

from __future__ import annotations

import http.client
import json
import signal
import socket
import ssl
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from machinery.errors import ConfigurationError
from stowage.playground import binaries, pki
from stowage.playground.processes import Process, ProcessFailed, wait_until

if TYPE_CHECKING:
    from machinery.kubeconfig import Connection

_READY_SECONDS = 120.0
_PORT_TAKEN = "address already in use"
_ATTEMPTS = 3
_QPS = ["--kube-api-qps=500", "--kube-api-burst=1000"]
# The order in which the parts of a cluster are ended, and the signal that ends each soonest.
_END_ORDER = ("kwok", "kube-scheduler", "kube-controller-manager", "kube-apiserver")


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What runs beside a cluster's API server."""

    controller_manager: bool = False
    scheduler: bool = False
    kwok: bool = False


class Cluster:
    """One control plane. Its processes are in `processes`, by the name of their program."""

    def __init__(
        self, name: str, directory: Path, *, etcd: str, parts: Parts, detached: bool
    ) -> None:
        self.name = name
        self.directory = directory
        self.parts = parts
        self.port = 0
        self.processes: dict[str, Process] = {}
        self._etcd = etcd
        self._detached = detached

    @property
    def server(self) -> str:
        """The address of its API server."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, everything embedded."""
        return self.directory / "admin.kubeconfig"

    @property
    def admin_kubeconfig(self) -> str:
        """The text of `kubeconfig`."""
        return self.kubeconfig.read_text()

    @property
    def ca(self) -> bytes:
        """The certificate of its authority, PEM."""
        return (self.directory / "pki" / "ca.crt").read_bytes()

    def connection(self) -> Connection:
        """The administrator's connection, for our own client."""
        from machinery.kubeconfig import parse_kubeconfig  # noqa: PLC0415 - kubectl alone needs none

        return parse_kubeconfig(self.kubeconfig.read_bytes())

    def kubectl(self, *args: str, input: str | None = None, check: bool = True) -> str:  # noqa: A002 - subprocess's own word
        """Run kubectl as the administrator; its standard output.

        Raises ProcessFailed with kubectl's own words when it fails, unless `check` is False: then
        output and error are returned together.
        """
        done = subprocess.run(  # noqa: S603 - our own kubectl
            [
                str(binaries.path("kubectl")),
                f"--kubeconfig={self.kubeconfig}",
                f"--cache-dir={self.directory / 'kubectl'}",
                *args,
            ],
            input=input,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            return done.stdout
        if check:
            raise ProcessFailed(f"kubectl {' '.join(args)} on {self.name}: {done.stderr.strip()}")
        return done.stdout + done.stderr

    def launch(self) -> None:
        """Start the API server and return at once; `wait_ready` follows."""
        if not self.port:
            self._new_port()
        self._start("kube-apiserver", self._apiserver_flags())

    def wait_ready(self) -> None:
        """Return when the API server is ready and the other parts are started and at work."""
        for attempt in range(_ATTEMPTS):
            try:
                self._wait_api()
                break
            except ProcessFailed as fault:
                if _PORT_TAKEN not in str(fault) or attempt == _ATTEMPTS - 1:
                    raise
                self._new_port()
                self.launch()
        self._start_parts()

    def ready(self) -> bool:
        """Whether /readyz says ok now."""
        return _readyz(self.port, self.ca)

    def freeze(self) -> None:
        """SIGSTOP the API server: it accepts connections and never answers."""
        self.processes["kube-apiserver"].send(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT the API server."""
        self.processes["kube-apiserver"].send(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL the API server; everything it wrote is in etcd."""
        self.processes["kube-apiserver"].end(signal.SIGKILL)

    def restart(self, *, wait: bool = True) -> None:
        """Start the API server again, at the same address with the same data."""
        self.kill()
        self.launch()
        if wait:
            self._wait_api()

    def stop(self) -> None:
        """End all its processes. The data stays in etcd until that goes."""
        for name in _END_ORDER:
            if name in self.processes:
                self.processes[name].end(signal.SIGKILL)

    def add_nodes(
        self,
        count: int,
        *,
        cpu: str = "8",
        memory: str = "32Gi",
        pods: str = "110",
        prefix: str = "node",
        labels: Mapping[str, str] | None = None,
        extra: Mapping[str, str] | None = None,
        wait: bool = True,
    ) -> list[str]:
        """Create Nodes that kwok plays; their names. `extra` are further allocatable resources.

        With `wait`, returns when all are Ready, which needs the parts kwok and controller_manager.
        """
        room = {"cpu": cpu, "memory": memory, "pods": pods, **(extra or {})}
        names = [f"{prefix}-{number}" for number in range(count)]
        nodes = [node(name, room, labels or {}) for name in names]
        self.kubectl(
            "create",
            "-f",
            "-",
            input=json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes}),
        )
        if wait and names:
            self.kubectl(
                "wait", "--for=condition=Ready", "--timeout=60s", *(f"node/{n}" for n in names)
            )
            self.kubectl(
                "wait",
                "--timeout=60s",
                "--for=jsonpath={.spec.taints}=",
                *(f"node/{n}" for n in names),
                check=False,
            )
        return names

    def to_json(self) -> dict[str, Any]:
        """What a later command needs to find it again."""
        return {
            "name": self.name,
            "directory": str(self.directory),
            "port": self.port,
            "etcd": self._etcd,
            "parts": self.parts.__dict__,
            "processes": {name: process.to_json() for name, process in self.processes.items()},
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Cluster:
        """The inverse of `to_json`; only detached clusters are written down."""
        cluster = Cluster(
            data["name"],
            Path(data["directory"]),
            etcd=data["etcd"],
            parts=Parts(**data["parts"]),
            detached=True,
        )
        cluster.port = data["port"]
        cluster.processes = {n: Process.from_json(p) for n, p in data["processes"].items()}
        return cluster

    def _new_port(self) -> None:
        self.port = free_port()
        keys = self.directory / "pki"
        if not (keys / "ca.crt").exists():
            self._write_keys(keys)
        admin = pki.Pair((keys / "admin.crt").read_bytes(), (keys / "admin.key").read_bytes())
        pki.write_private(self.kubeconfig, pki.kubeconfig(self.name, self.server, self.ca, admin))

    def _write_keys(self, keys: Path) -> None:
        authority = pki.Authority(f"{self.name}-ca")
        server = authority.server()
        admin = authority.client("admin", "system:masters")
        files = {
            "tls.crt": server.certificate,
            "tls.key": server.key,
            "admin.crt": admin.certificate,
            "admin.key": admin.key,
            "sa.key": pki.signing_key(),
            "ca.crt": authority.certificate,
        }
        for name, data in files.items():
            pki.write_private(keys / name, data)

    def _start(self, name: str, flags: Sequence[str]) -> Process:
        log = self.directory / "logs" / f"{name}.log"
        process = Process(f"{name} of {self.name}", [str(binaries.path(name)), *flags], log)
        process.start(detached=self._detached)
        self.processes[name] = process
        return process

    def _wait_api(self) -> None:
        process = self.processes["kube-apiserver"]
        ca = self.ca

        def answered() -> bool:
            return not process.alive() or _readyz(self.port, ca)

        if not wait_until(answered, seconds=_READY_SECONDS):
            raise process.failure(f"was not ready within {_READY_SECONDS:.0f} s")
        if not process.alive():
            raise process.failure("ended")

    def _start_parts(self) -> None:
        wanted = {
            "kube-controller-manager": (self.parts.controller_manager, self._manager_flags),
            "kube-scheduler": (self.parts.scheduler, self._scheduler_flags),
            "kwok": (self.parts.kwok, self._kwok_flags),
        }
        for name, (asked, flags) in wanted.items():
            running = name in self.processes and self.processes[name].alive()
            if asked and not running:
                self._start(name, flags())
        if self.parts.controller_manager:
            self.kubectl("wait", "--for=create", "--timeout=60s", "serviceaccount/default")

    def _apiserver_flags(self) -> list[str]:
        keys = self.directory / "pki"
        return [
            f"--etcd-servers={self._etcd}",
            f"--etcd-prefix=/{self.name}",
            f"--secure-port={self.port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--tls-cert-file={keys / 'tls.crt'}",
            f"--tls-private-key-file={keys / 'tls.key'}",
            f"--client-ca-file={keys / 'ca.crt'}",
            f"--service-account-key-file={keys / 'sa.key'}",
            f"--service-account-signing-key-file={keys / 'sa.key'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--authorization-mode=Node,RBAC",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--endpoint-reconciler-type=none",
            "--allow-privileged",
            "--profiling=false",
        ]

    def _manager_flags(self) -> list[str]:
        keys = self.directory / "pki"
        return [
            f"--kubeconfig={self.kubeconfig}",
            f"--service-account-private-key-file={keys / 'sa.key'}",
            f"--root-ca-file={keys / 'ca.crt'}",
            "--use-service-account-credentials",
            "--leader-elect=false",
            "--secure-port=0",
            "--controllers=*,-nodeipam,-cloud-node-lifecycle-controller",
            *_QPS,
        ]

    def _scheduler_flags(self) -> list[str]:
        return [
            f"--kubeconfig={self.kubeconfig}",
            f"--authentication-kubeconfig={self.kubeconfig}",
            f"--authorization-kubeconfig={self.kubeconfig}",
            "--leader-elect=false",
            "--secure-port=0",
            *_QPS,
        ]

    def _kwok_flags(self) -> list[str]:
        return [
            f"--kubeconfig={self.kubeconfig}",
            "--manage-all-nodes=true",
            "--node-lease-duration-seconds=40",
            *(f"--config={stage}" for stage in binaries.stages()),
        ]


class ControlPlanes:
    """One etcd and the clusters on it."""

    def __init__(self, directory: Path, *, detached: bool = False) -> None:
        self.directory = directory
        self.clusters: dict[str, Cluster] = {}
        self.etcd: Process | None = None
        self.endpoint = ""
        self._detached = detached

    def start(self) -> None:
        """Start etcd, unless it runs. Raises ConfigurationError when the binaries are not built."""
        absent = binaries.missing(binaries.LOCAL)
        if absent:
            raise ConfigurationError(
                f"{', '.join(absent)} not found in {binaries.folder() / 'bin'}: "
                "build them with `stowage playground up`"
            )
        for attempt in range(_ATTEMPTS):
            try:
                self._start_etcd()
            except ProcessFailed as fault:
                if _PORT_TAKEN not in str(fault) or attempt == _ATTEMPTS - 1:
                    raise
            else:
                return

    def launch(self, name: str, parts: Parts) -> Cluster:
        """Start a cluster's API server without waiting; call its `wait_ready` afterwards."""
        if name in self.clusters:
            raise ValueError(f"there is a cluster {name} already")
        cluster = Cluster(
            name,
            self.directory / name,
            etcd=self.endpoint,
            parts=parts,
            detached=self._detached,
        )
        self.clusters[name] = cluster
        cluster.launch()
        return cluster

    def create(self, name: str, parts: Parts) -> Cluster:
        """Start a cluster and wait until it is ready."""
        cluster = self.launch(name, parts)
        cluster.wait_ready()
        return cluster

    def revive(self) -> None:
        """Start again whatever has died since, on the same data and at the same addresses."""
        if self.etcd is None or not self.etcd.alive():
            self._start_etcd()
        for cluster in self.clusters.values():
            if not cluster.processes["kube-apiserver"].alive():
                cluster.launch()
        for cluster in self.clusters.values():
            cluster.wait_ready()

    def stop(self) -> None:
        """End everything, etcd last; what fails to end is killed."""
        for cluster in self.clusters.values():
            cluster.stop()
        if self.etcd is not None:
            self.etcd.end(signal.SIGTERM)

    def to_json(self) -> dict[str, Any]:
        """What a later command needs to find all of it again."""
        return {
            "directory": str(self.directory),
            "endpoint": self.endpoint,
            "etcd": self.etcd.to_json() if self.etcd else None,
            "clusters": [cluster.to_json() for cluster in self.clusters.values()],
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> ControlPlanes:
        """The inverse of `to_json`."""
        planes = ControlPlanes(Path(data["directory"]), detached=True)
        planes.endpoint = data["endpoint"]
        planes.etcd = Process.from_json(data["etcd"]) if data["etcd"] else None
        planes.clusters = {c["name"]: Cluster.from_json(c) for c in data["clusters"]}
        return planes

    def _start_etcd(self) -> None:
        client = int(self.endpoint.rpartition(":")[2]) if self.endpoint else free_port()
        peer = f"http://127.0.0.1:{free_port()}"
        endpoint = f"http://127.0.0.1:{client}"
        process = Process(
            "etcd",
            [
                str(binaries.path("etcd")),
                f"--data-dir={self.directory / 'etcd'}",
                f"--listen-client-urls={endpoint}",
                f"--advertise-client-urls={endpoint}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=default={peer}",
                "--unsafe-no-fsync",
                "--log-level=warn",
            ],
            self.directory / "logs" / "etcd.log",
        )
        process.start(detached=self._detached)
        wait_until(lambda: not process.alive() or _etcd_healthy(client), seconds=30)
        if not process.alive():
            raise process.failure("ended")
        if not _etcd_healthy(client):
            process.end(signal.SIGKILL)
            raise process.failure("was not ready within 30 s")
        self.etcd, self.endpoint = process, endpoint


def node(name: str, room: Mapping[str, str], labels: Mapping[str, str]) -> dict[str, Any]:
    """The manifest of a Node that kwok plays, with that much room."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **labels},
        },
        "spec": {"providerID": f"kwok://{name}"},
        "status": {"allocatable": dict(room), "capacity": dict(room)},
    }


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _readyz(port: int, ca: bytes) -> bool:
    context = ssl.create_default_context(cadata=ca.decode())
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=2, context=context)
    return _says_ok(connection, "/readyz")


def _etcd_healthy(port: int) -> bool:
    return _says_ok(http.client.HTTPConnection("127.0.0.1", port, timeout=2), "/health")


def _says_ok(connection: http.client.HTTPConnection, path: str) -> bool:
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
