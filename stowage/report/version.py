"""`stowage version`: the releases of the command and of the processes on a hub, by their Leases."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from machinery.api.resources import LEASES
from machinery.config.kubeconfig import Connection
from machinery.errors import ConfigurationError, TransportError
from machinery.release import release
from stowage.console import output
from stowage.console.terminal import say
from stowage.hub import reader
from stowage.report import fleet
from stowage.report.findings import Report


def show(hub: Callable[[], Connection] | None, system: str, form: str) -> bool:
    """Print the releases; return False where no hub could be asked: then the client's is printed.

    `hub` is how it is reached, None where it is not to be asked.
    """
    rows: list[dict[str, Any]] = [{"name": "client", "release": release() or "?", "leads": ""}]
    why = ""
    try:
        rows += _processes(hub(), system) if hub is not None else []
    except (ConfigurationError, TransportError) as e:
        why = f"error: the releases on the hub are not known: {e}"
    data = {each["name"]: each["release"] for each in rows}
    output.show(data, form, text=output.table(rows, ("name", "release", "leads"), head=False))
    if why:
        say(why, err=True)
    return not why


def _processes(hub: Connection, system: str) -> list[dict[str, Any]]:
    """Return a row for each process. Raises ConfigurationError, TransportError."""
    report = Report()
    with reader(hub) as api:
        fleet.take_leases(report, api.each(LEASES, fleet.Lease, system), datetime.now(UTC))
    return [
        {
            "name": each.name.removeprefix("stowage-"),
            "release": each.release or "?",
            "leads": "" if each.leads else "nobody leads now",
        }
        for each in report.processes
    ]
