"""`stowage status`: counts and findings on one hub, printed once or again and again.

Only the hub's objects are read, page by page: leases, MemberClusters, Workloads, and the kinds of
`features.LISTED`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import click

from controller.model.objects import MemberCluster
from crds.names import PROPAGATOR_CONFIG
from machinery.api.resources import LEASES, MEMBER_CLUSTERS, WORKLOADS
from machinery.config.kubeconfig import Connection
from machinery.errors import ConfigurationError, Forbidden, NotFound, TransportError
from stowage.console import output, words
from stowage.console.terminal import say
from stowage.console.words import count, seconds
from stowage.hub import ObjectReader, reader
from stowage.report import advice, features, fleet
from stowage.report.findings import Finding, ProcessSummary, Report

SHOWN = 10
"""Rows of each list, unless all are asked for."""
NAMED = 5
"""Clusters of one state that are named beside their number."""
PAUSE_SECONDS = 2.0
PAUSE_FACTOR = 10
"""The pause as a multiple of the time that one read takes, so that watching costs a hub little."""
_GOOD_FIRST = (*fleet.SERVING, "Running", "Creating", "Scheduled", "Finished", "Available")


def show(
    hub: Connection, namespace: str | None, system: str, form: str, *, everything: bool
) -> int:
    """Print the report once; return how much needs a person.

    Raises ConfigurationError, TransportError.
    """
    report, now = _of_hub(hub, namespace, system)
    output.show(report.to_dict(), form, text=text(report, now, everything=everything))
    return report.urgent


def keep(hub: Connection, namespace: str | None, system: str, *, everything: bool) -> int:
    """Print the report again and again until interrupted; return how much needed a person.

    A hub that does not answer is reported and asked again. Raises its TransportError if the last
    read before the interrupt failed.
    """
    urgent: int | TransportError = 0
    try:
        while True:
            started = time.monotonic()
            try:
                report, now = _of_hub(hub, namespace, system)
                told, urgent = text(report, now, everything=everything), report.urgent
            except TransportError as e:
                told, urgent = f"the hub does not answer: {e}", e
            click.clear()
            say(told)
            took = time.monotonic() - started
            time.sleep(max(PAUSE_SECONDS, PAUSE_FACTOR * took))
    except KeyboardInterrupt:
        if isinstance(urgent, TransportError):
            raise urgent from None
        return urgent


def _of_hub(hub: Connection, namespace: str | None, system: str) -> tuple[Report, datetime]:
    """Return what `read` does and the time, with the ConfigMap of shards, which no snapshot has."""
    with reader(hub) as api:
        report = read(api, namespace, system, now := datetime.now(UTC))
        try:
            fleet.take_shards(report, api, system)
        except Forbidden:
            report.not_shown.append(f"ConfigMap {PROPAGATOR_CONFIG} of {system}")
    return report, now


def read(api: ObjectReader, namespace: str | None, system: str, now: datetime) -> Report:
    """Return the report. A kind that may not be read is named in `not_shown`, but for Workloads.

    Raises ConfigurationError where the hub does not know our kinds, or shows no Workloads.
    """
    report = Report()

    def take(what: str, taken: Callable[[], None]) -> None:
        try:
            taken()
        except Forbidden:
            report.not_shown.append(what)

    def take_kinds(*, after: bool) -> None:
        for resource, kind in features.LISTED:
            objects = api.each(resource, kind.type_, namespace)
            if kind.after == after:
                report.findings[kind.name] = []
                report.counts |= {kind.counts: {}} if kind.counts else {}
                take(f"{resource.kind}s", partial(kind.take, report, objects, now))

    try:
        leases = api.each(LEASES, fleet.Lease, system)
        clusters = api.each(MEMBER_CLUSTERS, MemberCluster)
        take(f"Leases of {system}", partial(fleet.take_leases, report, leases, now))
        names = set[str]()
        take("MemberClusters", partial(fleet.take_clusters, report, clusters, names))
        shown = None if "MemberClusters" in report.not_shown else names
        take_kinds(after=False)
        workloads = api.each(WORKLOADS, fleet.WorkloadSummary, namespace)
        fleet.take_workloads(report, workloads, now, shown)
        take_kinds(after=True)
    except NotFound as e:
        raise ConfigurationError("the hub does not know our kinds: run stowage install") from e
    except Forbidden as e:
        raise ConfigurationError(f"{e}; with -n it asks for those of one namespace") from e
    return report


def text(report: Report, now: datetime, *, everything: bool) -> str:
    """Return the headline, the processes, the counts, and each list that is not empty."""
    most = None if everything else SHOWN
    parts = [headline(report), _counts(report)]
    processes = _processes(report.processes) if report.processes else ""
    told = [each for each in (processes, report.releases_apart, report.shards_fault) if each]
    if told:
        parts.insert(1, "\n".join(told))
    parts += [f"{title}:\n{_table(each, now, most)}" for title, each in lists(report)]
    if report.not_shown:
        parts.append(f"Not shown, as you may not read them: {', '.join(report.not_shown)}")
    return "\n\n".join(parts)


def lists(report: Report) -> list[tuple[str, list[Finding]]]:
    """Return the title of each list that is not empty, and its findings."""
    every = (
        ("Clusters that are not ready", report.clusters_not_ready),
        ("Removals from clusters that wait for a person", report.sweeps_held),
        ("Clusters that are left, or were lost a short while ago", report.evacuating),
        *_of_kinds(report, before=True),
        ("Pending", report.pending),
        ("Placed, and not running as they should", report.failing),
        *_of_kinds(report, before=False),
        ("Moves that are blocked", report.moves_blocked),
        ("Being moved", report.moving),
        ("Being rolled out", report.rollouts),
        ("Being removed", report.removing),
    )
    return [(title, findings) for title, findings in every if findings]


def _of_kinds(report: Report, *, before: bool) -> Iterator[tuple[str, list[Finding]]]:
    for _, kind in features.LISTED:
        if kind.before == before:
            yield kind.title, report.findings.get(kind.name, [])


def headline(report: Report) -> str:
    """Return `2 of 3 clusters ready, 5 of 7 Workloads running; 3 things need a person`."""
    clusters, running = sum(report.clusters.values()), report.workloads.get("Running", 0)
    good = sum(report.clusters.get(state, 0) for state in fleet.SERVING)
    ready = f"{good} of {count(clusters, 'cluster')} ready, " if _seen(report) else ""
    what = f"{ready}{running} of {count(sum(report.workloads.values()), 'Workload')}"
    if not report.urgent:
        return f"{what} running; nothing needs a person"
    needs = "needs" if report.urgent == 1 else "need"
    return f"{what} running; {count(report.urgent, 'thing')} {needs} a person"


def _processes(processes: Sequence[ProcessSummary]) -> str:
    columns = ("process", "release", "renewed", "leader")
    return output.table([_process(each) for each in processes], columns)


def _process(process: ProcessSummary) -> dict[str, Any]:
    silent = process.silent_seconds
    holder = process.holder or "nobody"
    return {
        "process": process.name.removeprefix("stowage-"),
        "release": process.release or "?",
        "renewed": "never" if silent < 0 else f"{seconds(silent)} ago",
        "leader": holder
        if process.leads
        else f"{holder}: nobody leads now".removeprefix("nobody: "),
    }


def _counts(report: Report) -> str:
    units = report.units
    of = (
        f"; {units['assigned']} of {count(units['desired'], 'replica')} have a cluster, "
        f"{units['ready']} are ready"
        if units.get("desired")
        else ""
    )
    states = _states(report.clusters, report.cluster_names)
    clusters = f"Clusters: {states}{_late(report)}\n" if _seen(report) else ""
    lines = [f"{clusters}Workloads: {_states(report.workloads)}{of}"]
    for resource, kind in features.LISTED:
        if counts := report.counts.get(kind.counts):
            lines.append(f"{resource.kind}s: {_states(counts)}")
    lines += [f"Most is held by {report.holds_most}"] if report.holds_most else []
    return "\n".join(lines)


def _late(report: Report) -> str:
    """Return within what time a lost cluster is noticed, where the size of the fleet delays it."""
    from propagator.settings import SessionSettings  # noqa: PLC0415 - slow

    sessions, members = SessionSettings(), sum(report.clusters.values())
    late = sessions.noticed_within(members)
    told = f"; one that stops answering is noticed within {seconds(math.ceil(late))}"
    return told if late > sessions.noticed_within(0) else ""


def _seen(report: Report) -> bool:
    return "MemberClusters" not in report.not_shown


def _states(counts: Mapping[str, int], names: Mapping[str, Sequence[str]] | None = None) -> str:
    """Return `2 Ready (a, b), 1 Unreachable (c)`: good states first, then by number."""
    if not counts:
        return "none"
    rank = {state: place for place, state in enumerate(_GOOD_FIRST)}
    order = sorted(counts, key=lambda state: (rank.get(state, len(rank)), -counts[state], state))
    of = {state: f" ({output.named(sorted(n), NAMED)})" for state, n in (names or {}).items()}
    return ", ".join(f"{counts[state]} {state}{of.get(state, '')}" for state in order)


def _table(findings: Sequence[Finding], now: datetime, most: int | None) -> str:
    ranked = in_order(findings)
    shown = ranked[:most]
    rows = [row for each in shown for row in _rows(each, now)]
    columns = [key for key in ("name", "units", "state", "since") if any(row[key] for row in rows)]
    return output.table(rows, (*columns, "why")) + output.left_out(len(ranked) - len(shown))


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda each: (not each.urgent, each.since or "~", each.name))


def _rows(finding: Finding, now: datetime) -> list[dict[str, Any]]:
    row = {
        "name": finding.name,
        "units": finding.units,
        "state": finding.state,
        "since": words.age(finding.since, now) if finding.since else "",
        "why": finding.message,
    }
    if not finding.help:
        return [row]
    helps = advice.named(finding.help, finding.name)
    return [row, {**dict.fromkeys(row, ""), "why": f"what helps: {helps}"}]
