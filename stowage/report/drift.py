"""`stowage drift`: what others changed on members, from the statuses of Workloads alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import msgspec

from machinery.api.resources import WORKLOADS
from machinery.config.kubeconfig import Connection
from machinery.errors import ConfigurationError
from machinery.types.metadata import Meta
from stowage.console import output, words
from stowage.hub import ObjectReader, reader
from stowage.kinds import Reference
from stowage.report.history import stored

COLUMNS = ("workload", "cluster", "object", "path", "hub", "member", "by", "since", "state")
STANDING = ("Reported", "Contended", "Dropped")
NOTHING = "nobody has changed anything of Stowage's on a member, as far as their statuses tell"


class _Field(msgspec.Struct):
    path: str
    hub: str = ""
    member: str = ""
    manager: str = ""


class _Object(msgspec.Struct):
    cluster: str
    kind: str
    name: str
    since: str
    state: str
    namespace: str = ""
    paths: list[_Field] = []


class _Status(msgspec.Struct):
    drift: list[_Object] = []


class DriftedWorkload(msgspec.Struct):
    """A Workload, as far as it tells of drift."""

    metadata: Meta
    status: _Status = msgspec.field(default_factory=_Status)


def show(hub: Connection, namespace: str | None, about: Reference | None, form: str) -> bool:
    """Print a row for each field; return whether any stands.

    `namespace` None: of all namespaces. Raises ConfigurationError, TransportError.
    """
    with reader(hub) as api:
        rows = list(rows_of(_found(api, namespace, about)))
    now = datetime.now(UTC)
    shown = [{**row, "since": words.age(row["since"], now)} for row in rows]
    text = output.table(shown, COLUMNS) if rows else NOTHING
    output.show({"drift": rows}, form, text=text)
    return any(row["state"] in STANDING for row in rows)


def rows_of(workloads: Iterable[DriftedWorkload]) -> Iterator[dict[str, str]]:
    """Yield a row for each field that the statuses tell of; `since` is the moment."""
    for workload in workloads:
        for each in workload.status.drift:
            where = "/".join(filter(None, (each.namespace, each.name)))
            for field in each.paths:
                yield {
                    "workload": "/".join(workload.metadata.key),
                    "cluster": each.cluster,
                    "object": f"{each.kind} {where}",
                    "path": field.path,
                    "hub": field.hub,
                    "member": field.member,
                    "by": field.manager,
                    "since": each.since,
                    "state": each.state,
                }


def _found(
    api: ObjectReader, namespace: str | None, about: Reference | None
) -> Iterator[DriftedWorkload]:
    if about is None:
        yield from api.each(WORKLOADS, DriftedWorkload, namespace)
        return
    if about.resource != WORKLOADS:
        raise ConfigurationError("drift is told of Workloads: name one as wl/NAME")
    yield stored(api, namespace or "", about, DriftedWorkload)
