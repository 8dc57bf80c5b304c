"""`stowage explain` on a hub: the recorded reasons, and beside them a decision of now.

The first part is read from the object and printed at once. The second part is computed with the
controller's own code from the hub's objects, or asked of a controller that is named. A user who may
not read all that a decision needs gets the first part and a note.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from controller.model.why import Why, of_status
from controller.planner.reasons import title_in_words
from machinery.api.resources import MEMBER_CLUSTERS, RESERVATIONS, WORKLOAD_GROUPS, WORKLOADS
from machinery.config.kubeconfig import Connection
from machinery.errors import ConfigurationError, Forbidden, StowageError
from machinery.kinds.table import profile_of_main
from machinery.kinds.templates import runs_once
from machinery.types import conditions
from machinery.types.api import PlacementReasons, ReasonCount
from machinery.types.bounds import clean
from stowage.console import output, words
from stowage.console.terminal import say
from stowage.console.words import count, inside
from stowage.hub import ObjectReader, reader
from stowage.kinds import Reference, titled
from stowage.report import advice, groups, rooms
from stowage.report.groups import Belongs, Gang
from stowage.report.history import stored

if TYPE_CHECKING:
    from stowage.simulation.explain import Explanation, GroupExplanation

_NO_FAILURE = (ConfigurationError, Forbidden)
"""Faults of the second part that end in a note: no right to read, or no decision to make."""
SHOWN = 20
"""Shares in the table, unless all are asked for."""
WIDTH = 160
"""Characters of one plugin's status fields, unless all are asked for."""


@dataclass(frozen=True, slots=True)
class ExplainRequest:
    """The object, its hub, and how the second part is computed.

    `controller` is one to ask; this process decides with the profiles of `config_file` and the
    plugins in `plugins`.
    """

    hub: Connection
    namespace: str
    about: Reference
    controller: Connection | None = None
    config_file: Path | None = None
    plugins: tuple[str, ...] = ()


def show(asked: ExplainRequest, *, form: str, everything: bool) -> None:
    """Print both parts. Raises ConfigurationError, TransportError.

    A fault of the second part is raised only after the first part is printed.
    """
    with reader(asked.hub) as api:
        found, beside = read(api, asked.namespace, asked.about)
    if form == "table":
        say(text(asked, found, beside, everything=everything))
    now, fault = _now(asked)
    if form != "table":
        told = now.to_dict() if now else untold(asked.namespace, asked.about, str(fault))
        output.show({**told, "recorded": recorded(asked.about, found, beside)}, form, text="")
    elif now is not None:
        say("\n" + now.beside(everything=everything))
    if fault is not None and not isinstance(fault, _NO_FAILURE):
        raise fault
    if fault is not None:
        say(f"note: {_remark(str(fault))}", err=True)


def _remark(fault: str) -> str:
    return f"what would be decided now is not told: {fault}"


def untold(namespace: str, about: Reference, fault: str) -> dict[str, Any]:
    """Return what `-o json` prints in place of a decision of now that could not be had."""
    head = {"namespace": namespace, "name": about.name, "kind": about.resource.kind}
    return {**head, "remarks": [_remark(fault)]}


def read(
    api: ObjectReader, namespace: str, about: Reference
) -> tuple[dict[str, Any], Gang | Belongs]:
    """Return the object, and its group or the group's members. Raises ConfigurationError."""
    if about.resource == WORKLOAD_GROUPS:
        return _group(api, namespace, about)
    found = stored(api, namespace, about)
    if about.resource == WORKLOADS:
        return found, groups.belongs(api, namespace, found)
    return found, Belongs()


def _group(api: ObjectReader, namespace: str, about: Reference) -> tuple[dict[str, Any], Gang]:
    """Return a group with its Workloads.

    Raises ConfigurationError where there is none, naming the Workloads that carry its label.
    """
    try:
        found = stored(api, namespace, about)
    except ConfigurationError as fault:
        waiting: list[str] = []
        with suppress(Forbidden):
            waiting = groups.naming(api, namespace, about.name)
        if not waiting:
            raise
        named = ", ".join(waiting[:SHOWN]) + (", …" if len(waiting) > SHOWN else "")
        who = f"{count(len(waiting), 'Workload')} of that label: {named}"
        raise ConfigurationError(f"{fault}: make it for the {who}; or take the label off") from None
    return found, groups.gang(api, namespace, found)


def _now(
    asked: ExplainRequest,
) -> tuple[Explanation | GroupExplanation | None, StowageError | None]:
    from stowage.simulation import explain, plan  # noqa: PLC0415 - slow: they decide

    where = plan.Where(asked.namespace, (), asked.hub, asked.config_file, asked.plugins)
    try:
        return explain.explained(asked.about, where, asked.controller), None
    except StowageError as e:
        return None, e


def recorded(about: Reference, found: Mapping[str, Any], beside: Gang | Belongs) -> dict[str, Any]:
    """Return the recorded part as `-o json` prints it below `recorded`."""
    if isinstance(beside, Gang):
        return groups.recorded(beside)
    status = found.get("status") or {}
    why, keys = of_status(status), ("state", "desired", "assigned", "pending")
    steps = {each.cluster: msgspec.to_builtins(each.steps) for each in why.reasons}
    return {
        **{key: status.get(key) for key in keys},
        "reason": _reason(status),
        "time": (status.get("decision") or {}).get("time"),
        "placements": [
            {**share, "steps": steps.get(share["cluster"], [])}
            for share in status.get("placements") or []
        ],
        "leaving": status.get("leaving") or [],
        "moving": conditions.find(status, "Moving") or None,
        "reasonCounts": msgspec.to_builtins(why.reason_counts),
        "plugins": status.get("plugins") or {},
        "dependencies": status.get("dependencies") or [],
        "rollout": status.get("rollout"),
        **_room(about, found),
        "group": groups.belonging(beside),
    }


def _room(about: Reference, found: Mapping[str, Any]) -> dict[str, Any]:
    if about.resource == RESERVATIONS:
        return {"reservation": rooms.recorded(found)}
    return {"reservations": (found.get("status") or {}).get("reservations") or []}


def text(
    asked: ExplainRequest, found: Mapping[str, Any], beside: Gang | Belongs, *, everything: bool
) -> str:
    """Return the recorded part for people: head, Reservations, group, shares, plugins' fields."""
    if isinstance(beside, Gang):
        return groups.text(beside, datetime.now(UTC), everything=everything)
    status = found.get("status") or {}
    shares = {each["cluster"]: each["replicas"] for each in status.get("placements") or []}
    head = f"{titled(asked.about.key(asked.namespace))}: {_head(status, shares)}"
    parts = ["\n".join(filter(None, (head, *_below_head(asked, found, beside))))]
    if asked.about.resource == RESERVATIONS:
        parts.append(rooms.text(found, datetime.now(UTC), everything=everything))
    if shares:
        parts.append(_table(of_status(status), shares, everything=everything))
    if waiting := _without_node(status.get("clusters") or ()):
        parts.append(waiting)
    if leaving := status.get("leaving"):
        parts.append(_leaving(leaving, datetime.now(UTC), everything=everything))
    if moves := _moving(found):
        parts.append(moves)
    if told := status.get("plugins"):
        parts.append(_told(told, everything=everything))
    return "\n\n".join(parts)


def _below_head(asked: ExplainRequest, found: Mapping[str, Any], beside: Belongs) -> Iterator[str]:
    """Yield a line for each: Reservations, group, rollout, what goes along; some may be empty."""
    status = found.get("status") or {}
    if asked.about.resource != RESERVATIONS:
        yield inside(status.get("reservations") or (), asked.namespace)
    yield groups.line(beside, found, datetime.now(UTC))
    yield words.rollout(status)
    yield from _brought_along(asked, found)


def _brought_along(asked: ExplainRequest, found: Mapping[str, Any]) -> list[str]:
    """Return a line for each distinct set of objects that go along, with their recorded states."""
    status = found.get("status") or {}
    if not status.get("dependencies"):
        return []
    from controller.model.objects import MemberCluster  # noqa: PLC0415 - slow
    from stowage.simulation import dependencies  # noqa: PLC0415 - as above

    names = {each["cluster"] for each in status.get("placements") or []}
    clusters = []
    with suppress(Forbidden), reader(asked.hub) as api:
        every = api.each(MEMBER_CLUSTERS, MemberCluster)
        clusters = [each for each in every if each.metadata.name in names]
    return dependencies.recorded(found, clusters)


def _without_node(shares: Sequence[Mapping[str, Any]]) -> str:
    """Return the shares that no node takes, with the member's words and what helps."""
    lines = []
    for each in shares:
        if stuck := each.get("unschedulable"):
            cause, helps = advice.without_node(clean(each.get("message") or ""))
            said = f": {cause}" if cause else ""
            lines.append(
                f"  {stuck} of {each.get('replicas', stuck)} on {each['name']}{said} ({helps})"
            )
    more = len(lines) - SHOWN
    shown = [*lines[:SHOWN], *([f"  … {more} more"] if more > 0 else [])]
    return "\n".join(["No node takes:", *shown]) if lines else ""


def _leaving(shares: Sequence[Mapping[str, Any]], now: datetime, *, everything: bool) -> str:
    lines = ["Stays until as many are ready elsewhere:"]
    for each in shares if everything else shares[:SHOWN]:
        why = words.departure(each["cluster"], each.get("cause", ""), each.get("name", ""))
        since = words.moment(each.get("since", ""), now)
        lost = ", until it answers" if each.get("cause") == "ClusterLost" else ""
        replicas = count(each["replicas"], "replica")
        lines.append(f"  {each['cluster']}: {replicas}, {why} at {since}{lost}")
    if len(shares) > len(lines) - 1:
        lines.append(f"  … {len(shares) - len(lines) + 1} more (--all shows them)")
    return "\n".join(lines)


def _moving(found: Mapping[str, Any]) -> str:
    """Return what its moves wait for, and its budgets; empty of one that does not move."""
    said = conditions.find(found.get("status") or {}, "Moving")
    if not said or said.get("reason") == "Settled":
        return ""
    from controller.model.moving import moving_state  # noqa: PLC0415 - slow
    from controller.model.objects import Workload  # noqa: PLC0415 - as above

    workload = msgspec.convert(found, Workload)
    spec = found.get("spec") or {}
    template = spec.get("targetDeployment") or spec.get("template") or {}
    once = runs_once(profile_of_main(spec), template)
    state = moving_state(workload, workload.placements, once=once)
    desired = workload.status.desired or 0
    way = state.under_way(workload.placements)
    surge, lacking = state.surge(desired), state.unavailable(desired)
    begins = max((surge or lacking) - way, 0)
    budget = (
        f"{surge} beyond {count(desired, 'replica')} at once (maxSurge), {lacking} may lack "
        f"(maxUnavailable); {way} under way, so {begins} may begin"
    )
    return f"Moving, {said.get('reason')}: {said.get('message')}\n  {budget}"


def _told(plugins: Mapping[str, Any], *, everything: bool) -> str:
    lines = ["What plugins told:"]
    for name, fields in sorted(plugins.items()):
        said = ", ".join(f"{key} {_value(value)}" for key, value in fields.items())
        cut = not everything and len(said) > WIDTH
        short = f"{said[:WIDTH]}… (--all shows the rest)" if cut else said
        lines.append(f"  {name}: {short}")
    return "\n".join(lines)


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _head(status: Mapping[str, Any], shares: Mapping[str, int]) -> str:
    desired, assigned = status.get("desired"), words.units(shares)
    if desired is None and not shares:
        return "not decided yet"
    of = f" of {count(desired, 'replica')}" if desired is not None else " replicas"
    waiting = f", {status['pending']} pending" if status.get("pending") else ""
    return f"{assigned}{of} placed{waiting} ({_reason(status) or 'by somebody else'})"


def _reason(status: Mapping[str, Any]) -> str:
    return str(conditions.find(status, "Scheduled").get("reason") or "")


def _table(why: Why, shares: Mapping[str, int], *, everything: bool) -> str:
    """Return a row for each share, the largest first, and the counts by rule below them."""
    now, known = datetime.now(UTC), {each.cluster: each for each in why.reasons}
    ranked = sorted(shares, key=lambda cluster: (-shares[cluster], cluster))
    shown = ranked if everything else ranked[:SHOWN]
    rows = [row for each in shown for row in _rows(each, shares[each], known.get(each), why, now)]
    table = output.table(rows, ("cluster", "replicas", "why"))
    lines = [table + output.left_out(len(ranked) - len(shown))]
    if why.reason_counts:
        lines += ["", "Not kept one by one:", *(_count(each) for each in why.reason_counts)]
    return "\n".join(lines)


def _rows(
    cluster: str, units: int, share: PlacementReasons | None, why: Why, now: datetime
) -> list[dict[str, Any]]:
    if share is None:
        steps = ["not kept, see below" if why.reason_counts else words.ELSEWHERE]
    else:
        steps = words.steps(share, now)
        if sum(step.units for step in share.steps) != units:
            steps.append(f"changed {words.ELSEWHERE} since")
    first, *others = steps
    rows: list[dict[str, Any]] = [{"cluster": cluster, "replicas": units, "why": first}]
    return rows + [{"cluster": "", "replicas": "", "why": step} for step in others]


def _count(each: ReasonCount) -> str:
    clusters = count(each.clusters, "cluster")
    return f"  {clusters} with {count(each.units, 'replica')}: {title_in_words(each.rule)}"
