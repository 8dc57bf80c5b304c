"""One control plane on 127.0.0.1: an API server, and on request the programs beside it.

It can be frozen, killed and started again with its data; a later command finds it by a file.
"""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from machinery.config.kubeconfig import Connection, parse_kubeconfig
from machinery.types import conditions
from stowage.playground import flags, pki, probes
from stowage.playground.processes import Process, ProcessFailed, wait_until
from stowage.toolchain import binaries

ETCD_KEYS = "etcd-pki"
"""The folder, beside those of the clusters, with the keys of the one etcd of all clusters."""
_READY_SECONDS = 120.0
_NOT_READY = "node.kubernetes.io/not-ready"
# The order in which the processes end: those that watch before the one that is watched.
_END_ORDER = ("kwok", "kube-scheduler", "kube-controller-manager", "kube-apiserver")


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The programs that run beside a cluster's API server."""

    controller_manager: bool = False
    scheduler: bool = False
    kwok: bool = False
    server_flags: tuple[str, ...] = ()
    """Further flags of the API server itself."""


class Cluster:
    """One control plane. Its processes are in `processes`, by the name of their program.

    `etcd` is the address of its API server's etcd, and takes effect at the server's next start.
    """

    def __init__(
        self, name: str, directory: Path, *, etcd: str, parts: Parts, detached: bool
    ) -> None:
        self.name = name
        self.directory = directory
        self.parts = parts
        self.port = 0
        self._held: probes.HeldPort | None = None
        self.processes: dict[str, Process] = {}
        self.etcd = etcd
        self._detached = detached

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, with keys and certificates embedded."""
        return self.directory / "admin.kubeconfig"

    @property
    def admin_kubeconfig(self) -> str:
        return self.kubeconfig.read_text()

    @property
    def ca(self) -> bytes:
        return (self.directory / "pki" / "ca.crt").read_bytes()

    def connection(self) -> Connection:
        """Return the administrator's connection, for our own client."""
        return parse_kubeconfig(self.kubeconfig.read_bytes())

    def kubectl(self, *args: str, input: str | None = None, check: bool = True) -> str:  # noqa: A002 - subprocess's own word
        """Run kubectl as the administrator; return its standard output.

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
        """Start the API server and return at once; call `wait_ready` afterwards."""
        if not self.port:
            self._new_port()
        keys = self.directory / "pki"
        etcd_keys = self.directory.parent / ETCD_KEYS
        arguments = flags.apiserver(
            self.name, port=self.port, etcd=self.etcd, etcd_keys=etcd_keys, keys=keys
        )
        self._start("kube-apiserver", [*arguments, *self.parts.server_flags])

    def wait_ready(self) -> None:
        """Return when the API server is ready and the other programs are started and at work."""
        self.start_parts()
        if self.parts.controller_manager:
            self.kubectl("wait", "--for=create", "--timeout=240s", "serviceaccount/default")

    def start_parts(self) -> None:
        """Wait for the API server, then start the programs beside it that do not run."""
        for attempt in range(probes.ATTEMPTS):
            try:
                self._wait_api()
                break
            except ProcessFailed as fault:
                # a detached cluster does not hold its port after the first start
                if probes.PORT_TAKEN not in str(fault) or attempt == probes.ATTEMPTS - 1:
                    raise
                self._new_port()
                self.launch()
        if self._detached:
            self.release_port()  # the server listens on it now, and outlives this process
        self._start_parts()

    def revive(self) -> None:
        """Start programs beside the API server again if one has ended; does not wait for them."""
        if any(not process.alive() for process in self._beside()):
            self._start_parts()

    def _beside(self) -> list[Process]:
        return [it for name, it in self.processes.items() if name != "kube-apiserver"]

    def ready(self) -> bool:
        return probes.api_ready(self.port, self.ca)

    def freeze(self) -> None:
        """Stop the API server: the kernel accepts connections, and none is answered."""
        self.processes["kube-apiserver"].freeze()

    def thaw(self) -> None:
        self.processes["kube-apiserver"].thaw()

    def kill(self) -> None:
        self.processes["kube-apiserver"].end(signal.SIGKILL)

    def restart(self, *, wait: bool = True) -> None:
        """Start the API server again, at the same address with the same data."""
        self.kill()
        self.launch()
        if wait:
            self._wait_api()

    def stop(self) -> None:
        """End all its processes. The data stays in etcd."""
        for name in _END_ORDER:
            if name in self.processes:
                self.processes[name].end(signal.SIGKILL)
        self.release_port()

    def hold_port(self) -> None:
        """Keep the port for this cluster while its API server is down, until `release_port`.

        Clusters that end with this process hold their port from their first start.
        """
        if self._held is None:
            self._held = probes.HeldPort(self.port)

    def release_port(self) -> None:
        """Hold the port no longer. The API server keeps it while it runs."""
        if self._held is not None:
            self._held.release()
            self._held = None

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
        """Create Nodes that kwok plays; return their names. `extra` are more allocatable resources.

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
        if wait:
            self.wait_nodes()
        return names

    def wait_nodes(self) -> None:
        """Return when every Node is Ready and the controller manager has untainted it."""
        if not wait_until(self._nodes_ready, seconds=_READY_SECONDS, every=0.1, grow=1.2):
            raise self.processes["kwok"].failure(f"left Nodes not ready for {_READY_SECONDS:.0f} s")

    def nodes(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.kubectl("get", "nodes", "-o", "json"))[
            "items"
        ]
        return found

    def _nodes_ready(self) -> bool:
        return all(
            conditions.holds(each["status"], "Ready")
            and all(t["key"] != _NOT_READY for t in each["spec"].get("taints", ()))
            for each in self.nodes()
        )

    def to_json(self) -> dict[str, Any]:
        """Return the data by which a later command finds the cluster again."""
        return {
            "name": self.name,
            "directory": str(self.directory),
            "port": self.port,
            "etcd": self.etcd,
            "parts": asdict(self.parts),
            "processes": {name: process.to_json() for name, process in self.processes.items()},
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Cluster:
        """Return the cluster that `to_json` wrote; only detached clusters are written."""
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
        self.release_port()
        self._held = probes.HeldPort()
        self.port = self._held.number
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

    def _start(self, name: str, arguments: Sequence[str]) -> Process:
        log = self.directory / "logs" / f"{name}.log"
        process = Process(f"{name} of {self.name}", [str(binaries.path(name)), *arguments], log)
        process.start(detached=self._detached)
        self.processes[name] = process
        return process

    def _wait_api(self) -> None:
        process = self.processes["kube-apiserver"]
        ca = self.ca

        def answered() -> bool:
            return not process.alive() or probes.api_ready(self.port, ca)

        if not wait_until(answered, seconds=_READY_SECONDS, every=0.1, grow=1.1):
            raise process.failure(f"was not ready within {_READY_SECONDS:.0f} s")
        if not process.alive():
            raise process.failure("ended")

    def _start_parts(self) -> None:
        admin, keys = self.kubeconfig, self.directory / "pki"
        wanted = {
            "kube-controller-manager": (
                self.parts.controller_manager,
                flags.controller_manager(admin, keys),
            ),
            "kube-scheduler": (self.parts.scheduler, flags.scheduler(admin)),
            "kwok": (self.parts.kwok, flags.kwok(admin)),
        }
        for name, (asked, arguments) in wanted.items():
            running = name in self.processes and self.processes[name].alive()
            if asked and not running:
                self._start(name, arguments)


def node(name: str, room: Mapping[str, str], labels: Mapping[str, str]) -> dict[str, Any]:
    """Return the manifest of a Node that kwok plays, with these resources."""
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
