"""`stowage version`: the releases of the command and of the processes on a hub, by their Leases.

Of the hub it tells the versions in which it serves our kinds, and its own.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from crds.names import GROUP
from machinery.api.resources import LEASES
from machinery.api.responses import decode
from machinery.config.kubeconfig import Connection
from machinery.errors import ConfigurationError, NotFound, TransportError
from machinery.release import release
from machinery.types.bounds import VERSION_TEXT, clean
from stowage.console import output
from stowage.console.terminal import say
from stowage.hub import Reader, reader
from stowage.report import fleet
from stowage.report.findings import Report


class _Server(msgspec.Struct, rename="camel"):
    git_version: str = ""


class _Served(msgspec.Struct):
    version: str = ""


class _Group(msgspec.Struct):
    versions: list[_Served] = []


_server, _group = msgspec.json.Decoder(_Server), msgspec.json.Decoder(_Group)


def show(hub: Callable[[], Connection] | None, system: str, form: str) -> bool:
    """Print the releases; return False where no hub could be asked: then the client's is printed.

    `hub` is how it is reached, None where it is not to be asked.
    """
    rows = [_row("client", release() or "?")]
    data: dict[str, Any] = {"client": rows[0]["release"]}
    why = ""
    try:
        if hub is not None:
            processes, kinds, server = _asked(hub(), system)
            rows += [*processes, _row("kinds", kinds or "none"), _row("hub", server)]
            releases = {each["name"]: each["release"] for each in processes}
            data |= {"processes": releases, "kinds": kinds, "hub": server}
    except (ConfigurationError, TransportError) as e:
        why = f"error: the releases on the hub are not known: {e}"
    output.show(data, form, text=output.table(rows, ("name", "release", "leads"), head=False))
    if why:
        say(why, err=True)
    return not why


def _row(name: str, release: str, leads: str = "") -> dict[str, str]:
    return {"name": name, "release": release, "leads": leads}


def _asked(hub: Connection, system: str) -> tuple[list[dict[str, str]], str, str]:
    """Return a row for each process, the versions of our kinds, and that of the server.

    Raises ConfigurationError, TransportError.
    """
    report = Report()
    with reader(hub) as api:
        fleet.take_leases(report, api.each(LEASES, fleet.Lease, system), datetime.now(UTC))
        server = clean(decode(api.get("/version"), _server).git_version, VERSION_TEXT)
        kinds = _kinds(api)
    processes = [
        _row(
            each.name.removeprefix("stowage-"),
            each.release or "?",
            "" if each.leads else "nobody leads now",
        )
        for each in report.processes
    ]
    return processes, kinds, server or "?"


def _kinds(api: Reader) -> str:
    """Return the versions in which our kinds are served, such as `v1alpha1`; empty for none."""
    try:
        found = decode(api.get(f"/apis/{GROUP}"), _group)
    except NotFound:
        return ""
    return clean(", ".join(each.version for each in found.versions), VERSION_TEXT)
