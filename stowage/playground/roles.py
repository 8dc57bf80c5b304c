"""Controller and propagators of a playground, as processes in the background."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from crds.names import SYSTEM_NAMESPACE
from machinery.api.client import ApiClient
from machinery.api.resources import LEASES, MEMBER_CLUSTERS
from machinery.clock import SystemClock
from machinery.errors import StowageError, TransportError
from machinery.tasks import patiently
from machinery.types import conditions
from stowage.console.progress import Progress
from stowage.playground.processes import Process

ROLES = ("controller", "propagator")
READY_SECONDS = 120.0
_LISTENING = re.compile(r"listening on \S+:(\d+)")

# role -> {"process": …}, as it is written to the playground's state
State = Mapping[str, Mapping[str, Any]]


def start(
    directory: Path, known: State, kubeconfig: Path, progress: Progress, *, shards: int | None
) -> dict[str, Mapping[str, Any]]:
    """Start what does not run: with `shards`, a propagator more than these. End what is too many.

    Return all that run.
    """
    wanted = {role: role for role in ROLES}
    if shards is not None:
        wanted |= {f"propagator-{number}": "propagator" for number in range(2, shards + 2)}
    running: dict[str, Mapping[str, Any]] = {}
    for name, role in wanted.items():
        if name in known and _process(known[name]).alive():
            running[name] = known[name]
            continue
        arguments = [sys.executable, "-m", "stowage", role]
        arguments += [f"--kubeconfig={kubeconfig}", "--http-port=0"]
        process = Process(name, arguments, directory / "logs" / f"{name}.log")
        process.start(detached=True)
        progress.say(f"{name} started, its log is {process.log}")
        running[name] = {"process": process.to_json()}
    end({name: entry for name, entry in known.items() if name not in wanted})
    return running


def end(known: State) -> None:
    """End them; on SIGTERM they release their lease."""
    for entry in known.values():
        _process(entry).end(signal.SIGTERM, seconds=5.0)


def status(known: State) -> list[dict[str, Any]]:
    return [
        {
            "name": role,
            "running": _process(entry).alive(),
            "http": _address(listening(_process(entry).log)),
            "log": str(_process(entry).log),
        }
        for role, entry in known.items()
    ]


def wait_ready(client: ApiClient, names: Sequence[str], known: State, progress: Progress) -> None:
    """Return when both leases are held, wherever they run, and all members are Ready.

    Raises StowageError with what is missing, and why.
    """
    asyncio.run(_wait_ready(client, names, known, progress))


async def _wait_ready(
    client: ApiClient, names: Sequence[str], known: State, progress: Progress
) -> None:
    async with client as hub:

        async def missing() -> str:
            waiting = {name: why for name in names if (why := await _unready(hub, name))}
            progress.step("Members ready", len(names) - len(waiting), len(names))
            idle = {role: "leads nowhere" for role in ROLES if not await _leads(hub, role)}
            ended = [_process(entry) for entry in known.values() if not _process(entry).alive()]
            if (waiting or idle) and ended:
                raise ended[0].failure("ended")
            return "; ".join(f"{name}: {why}" for name, why in {**waiting, **idle}.items())

        clock = SystemClock()
        if reasons := await patiently(missing, seconds=READY_SECONDS, every=0.2, clock=clock):
            raise StowageError(f"after {READY_SECONDS:.0f} s still waiting for {reasons}")


async def _leads(hub: ApiClient, role: str) -> bool:
    with suppress(TransportError):
        lease = await hub.get(LEASES, f"stowage-{role}", namespace=SYSTEM_NAMESPACE)
        return bool(lease["spec"].get("holderIdentity"))
    return False


async def _unready(hub: ApiClient, name: str) -> str:
    with suppress(TransportError):
        found = await hub.get(MEMBER_CLUSTERS, name)
        if ready := conditions.find(found.get("status", {}), "Ready"):
            fine = ready["status"] == "True"
            return "" if fine else f"{ready['reason']}: {ready['message']}"
    return "the propagator has not looked at it"


def listening(log: Path) -> int:
    """Return the port of a role, by the last line of its log that names one; else 0."""
    text = log.read_text(errors="replace") if log.exists() else ""
    *_, port = (0, *_LISTENING.findall(text))
    return int(port)


def _address(port: int) -> str:
    return f"http://127.0.0.1:{port}" if port else ""


def _process(entry: Mapping[str, Any]) -> Process:
    return Process.from_json(entry["process"])
