"""The hub set back in time: its etcd is replaced by a copy that was taken while it ran.

All clusters use one etcd. A hub that was set back uses another one, which began with the copy: the
members' time goes on. The new endpoint is written down beside the control planes, for the next run
on the same clusters.
"""

from __future__ import annotations

import itertools
import json
import shutil
import signal
import ssl
import urllib.request
from pathlib import Path
from typing import Any

from stowage.playground import flags, pki, probes
from stowage.playground.cluster import ETCD_KEYS, Cluster
from stowage.playground.controlplanes import ControlPlanes
from stowage.playground.processes import Process, wait_until
from stowage.toolchain import binaries

_SECONDS = 120.0
_POINTER = "etcd-of-the-hub.json"


class HubEtcd:
    """The etcd of the hub of these control planes. For one thread at a time."""

    def __init__(self, planes: ControlPlanes) -> None:
        self._planes = planes
        self._keys = planes.directory / ETCD_KEYS
        self._pointer = planes.directory / _POINTER
        self._own: Process | None = None
        self._data = planes.directory / "etcd"
        if self._pointer.exists():
            told = json.loads(self._pointer.read_text())
            self._own, self._data = Process.from_json(told["process"]), Path(told["data"])
            self._hub.etcd = told["endpoint"]

    def copy(self) -> Path:
        """Return a copy of its data; etcd is stopped while it is taken."""
        folder = _unused(self._planes.directory)
        process = self._own or self._planes.etcd
        assert process is not None, "the control planes run"
        process.freeze()
        try:
            shutil.copytree(self._data, folder)
        finally:
            process.thaw()
        return folder

    def put_back(self, copy: Path) -> None:
        """Restart the hub on that copy. Raises ProcessFailed; may be repeated."""
        self._hub.kill()
        for name, process in self._hub.processes.items():  # their caches hold the later state
            if name != "kube-apiserver":
                process.end(signal.SIGKILL)
        if self._data != copy:
            self._stand_on(copy)
        self._hub.restart()

    def compact(self) -> None:
        """Drop every revision but the present one."""
        for endpoint in {self._planes.endpoint, self._hub.etcd}:
            revision = self._ask(endpoint, "maintenance/status", {})["header"]["revision"]
            self._ask(endpoint, "kv/compaction", {"revision": revision})

    def end(self) -> None:
        """End the hub's own etcd; the clusters cannot be used any more."""
        if self._own is not None:
            self._own.end(signal.SIGKILL)

    @property
    def _hub(self) -> Cluster:
        return self._planes.clusters["hub"]

    def _stand_on(self, copy: Path) -> None:
        before = self._own
        with probes.HeldPort() as client, probes.HeldPort() as peer:
            endpoint = f"https://127.0.0.1:{client.number}"
            arguments = flags.etcd(
                endpoint=endpoint,
                peer=f"https://127.0.0.1:{peer.number}",
                data=copy,
                keys=self._keys,
            )
            log = self._planes.directory / "logs" / f"{copy.name}.log"
            process = Process("etcd of the hub", [str(binaries.path("etcd")), *arguments], log)
            process.start(detached=True)
            if not wait_until(
                lambda: probes.etcd_healthy(client.number, self._context()), seconds=_SECONDS
            ):
                process.end(signal.SIGKILL)
                raise process.failure(f"was not ready within {_SECONDS:g} s")
        self._own, self._data, self._hub.etcd = process, copy, endpoint
        told = {"process": process.to_json(), "data": str(copy), "endpoint": endpoint}
        self._pointer.write_text(json.dumps(told))
        if before is not None:
            before.end(signal.SIGKILL)

    def _ask(self, endpoint: str, what: str, body: dict[str, Any]) -> Any:
        request = urllib.request.Request(
            f"{endpoint}/v3/{what}",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=10, context=self._context()) as answer:
            return json.load(answer)

    def _context(self) -> ssl.SSLContext:
        return pki.client_context(self._keys)


def _unused(directory: Path) -> Path:
    folders = (directory / f"etcd-of-the-hub-{number}" for number in itertools.count(1))
    return next(folder for folder in folders if not folder.exists())
