"""Real control planes on 127.0.0.1, for the playground and for tests.

There is one etcd for all. Each cluster has an API server with its own etcd prefix, certificate
authority and port. Ports are held from their choice until the server listens. The processes end in
the one order that works: kwok, scheduler, controller manager, API servers (killed: on SIGTERM they
wait a minute for their watches), etcd.
"""

from __future__ import annotations

import signal
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from machinery.errors import ConfigurationError
from stowage.playground import flags, pki, probes
from stowage.playground.cluster import ETCD_KEYS, Cluster, Parts
from stowage.playground.processes import Process, wait_until
from stowage.toolchain import binaries

__all__ = ["Cluster", "ControlPlanes", "Parts"]

_ETCD_SECONDS = 120.0


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
        if self.etcd is not None and self.etcd.alive():
            return
        self._start_etcd()

    def etcd_client(self) -> ssl.SSLContext:
        """Return the TLS context for a client of etcd at `endpoint`."""
        return pki.client_context(self._etcd_keys)

    @property
    def _etcd_keys(self) -> Path:
        return self.directory / ETCD_KEYS

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
        cluster = self.launch(name, parts)
        cluster.wait_ready()
        return cluster

    def revive(self) -> None:
        """Start API servers that have died again, with their data, at their addresses.

        Does not wait; call each cluster's `wait_ready` afterwards.
        """
        for cluster in self.clusters.values():
            server = cluster.processes.get("kube-apiserver")
            if server is None or not server.alive():
                cluster.launch()

    def hold_ports(self) -> None:
        """Hold the ports of all clusters: see `Cluster.hold_port`."""
        for cluster in self.clusters.values():
            cluster.hold_port()

    def release_ports(self) -> None:
        for cluster in self.clusters.values():
            cluster.release_port()

    def stop(self) -> None:
        """End everything, etcd last; a process that does not end is killed."""
        for cluster in self.clusters.values():
            cluster.stop()
        if self.etcd is not None:
            self.etcd.end(signal.SIGTERM)

    def to_json(self) -> dict[str, Any]:
        return {
            "directory": str(self.directory),
            "endpoint": self.endpoint,
            "etcd": self.etcd.to_json() if self.etcd else None,
            "clusters": [cluster.to_json() for cluster in self.clusters.values()],
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> ControlPlanes:
        planes = ControlPlanes(Path(data["directory"]), detached=True)
        planes.endpoint = data["endpoint"]
        planes.etcd = Process.from_json(data["etcd"]) if data["etcd"] else None
        planes.clusters = {c["name"]: Cluster.from_json(c) for c in data["clusters"]}
        return planes

    def _start_etcd(self) -> None:
        known = int(self.endpoint.rpartition(":")[2]) if self.endpoint else 0
        with probes.HeldPort(known) as client, probes.HeldPort() as peer:
            endpoint = f"https://127.0.0.1:{client.number}"
            pki.write_etcd_keys(self._etcd_keys)
            arguments = flags.etcd(
                endpoint=endpoint,
                peer=f"https://127.0.0.1:{peer.number}",
                data=self.directory / "etcd",
                keys=self._etcd_keys,
            )
            log = self.directory / "logs" / "etcd.log"
            process = Process("etcd", [str(binaries.path("etcd")), *arguments], log)
            process.start(detached=self._detached)
            context = self.etcd_client()
            healthy = wait_until(
                lambda: not process.alive() or probes.etcd_healthy(client.number, context),
                seconds=_ETCD_SECONDS,
            )
        if not process.alive():
            raise process.failure("ended")
        if not healthy:
            process.end(signal.SIGKILL)
            raise process.failure(f"was not ready within {_ETCD_SECONDS:g} s")
        self.etcd, self.endpoint = process, endpoint
