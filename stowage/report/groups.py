"""The part of `stowage explain` about a WorkloadGroup: quorum, gate, and units by Workload.

It is read from the group and the Workloads that name it. A decision is released where the group's
status names the digest of the Workload's present placements, as for the propagator.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from crds.groups.gate import GateState, decision_of
from crds.groups.membership import labels_in
from machinery.api.resources import WORKLOAD_GROUPS, WORKLOADS
from machinery.errors import BadRequest, Forbidden, NotFound
from machinery.kinds.groups import groups_of
from machinery.types import conditions
from machinery.types.bounds import NAME, clean
from stowage.console import output, words
from stowage.console.words import count, seconds, shares, time
from stowage.hub import ObjectReader
from stowage.report import advice

Json = Mapping[str, Any]


def names_of(workload: Json) -> tuple[str, ...]:
    """Return the groups that a Workload names: in its own labels, its template's and its pods'.

    The rule is that of `controller.model.unit.WorkloadInfo.groups`, without importing the
    scheduler.
    """
    spec = mapping(workload.get("spec"))
    template = mapping(spec.get("targetDeployment") or spec.get("template"))
    return groups_of(labels_in(workload), template)


def mapping(value: Any) -> Json:
    """Return the object; an empty one for any other JSON value."""
    return value if isinstance(value, Mapping) else {}


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A Workload of a group, its placements, and whether these are released.

    `reason` and `message` are about units without a cluster; `trouble` says what keeps placed units
    from running. `desired` is None before the first decision.
    """

    name: str
    desired: int | None
    placements: Mapping[str, int]
    released: bool
    ready: int
    reason: str
    message: str
    trouble: str = ""

    @property
    def placed(self) -> int:
        return words.units(self.placements)

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "desired": self.desired,
            "assigned": self.placed,
            "placements": words.listed(self.placements),
            "released": self.released,
            "ready": self.ready,
            "reason": self.reason,
            "message": self.message,
            "trouble": self.trouble,
        }


@dataclass(frozen=True, slots=True)
class Gang:
    """A group as it stands on the hub, and the Workloads that name it alone.

    `unclear` Workloads name other groups as well, and are members of none.
    """

    namespace: str
    name: str
    found: Json
    members: Sequence[GroupMember]
    unclear: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Belongs:
    """The groups that a Workload names; its group, or in `unread` why that was not read."""

    names: tuple[str, ...] = ()
    found: Json = field(default_factory=dict)
    unread: str = ""


def gang(api: ObjectReader, namespace: str, found: Json) -> Gang:
    """Return the group with its members: one list of the Workloads of its namespace."""
    name, released = found["metadata"]["name"], released_of(found)
    members: list[GroupMember] = []
    unclear: list[str] = []
    for body in api.each(WORKLOADS, dict[str, Any], namespace):
        named = names_of(body)
        if named == (name,):
            members.append(member(body, released))
        elif name in named:
            unclear.append(body["metadata"]["name"])
    return Gang(namespace, name, found, members, unclear)


def naming(api: ObjectReader, namespace: str, name: str) -> list[str]:
    listed = api.each(WORKLOADS, dict[str, Any], namespace)
    return [body["metadata"]["name"] for body in listed if name in names_of(body)]


def belongs(api: ObjectReader, namespace: str, workload: Json) -> Belongs:
    """Return the group of a Workload; a group that is missing or forbidden is no error."""
    names = names_of(workload)
    if len(names) != 1:
        return Belongs(names)
    try:
        found = api.read(WORKLOAD_GROUPS, names[0], namespace, dict[str, Any])
    except NotFound:
        return Belongs(names, unread="which is not there: nothing of it is placed until it is")
    except BadRequest:  # in a template the hub takes any text for a label
        why = "which is not there: no WorkloadGroup can have that name, give the label another"
        return Belongs(names, unread=why)
    except Forbidden:
        return Belongs(names, unread="which you may not read")
    return Belongs(names, found)


def released_of(found: Json) -> dict[str, str]:
    """Return the released decision of each Workload, by uid; none while the gate is not open."""
    status = status_of(found)
    if status.get("gate") != GateState.OPEN:
        return {}
    return {**mapping(status.get("decisions"))}


def member(body: Json, released: Mapping[str, str]) -> GroupMember:
    """Return a Workload as a member; `released` is that of `released_of`."""
    status, meta = status_of(body), body["metadata"]
    placements = {each["cluster"]: each["replicas"] for each in status.get("placements") or []}
    said = scheduled_of(status)
    good = said.get("status") == "True"
    return GroupMember(
        name=meta["name"],
        desired=status.get("desired"),
        placements=placements,
        released=bool(placements) and released.get(meta.get("uid", "")) == decision_of(placements),
        ready=status.get("ready") or 0,
        reason="" if good else str(said.get("reason") or ""),
        message="" if good else str(said.get("message") or ""),
        trouble=_trouble(status) if placements else "",
    )


def _trouble(status: Json) -> str:
    """Return what its clusters refuse, or where units find no node; empty for neither."""
    said = conditions.find(status, "Propagated")
    if said.get("status") == "False":
        return clean(f"{said.get('reason')}: {said.get('message') or ''}")
    told = [each for each in status.get("clusters") or [] if each.get("unschedulable")]
    stuck = {each["name"]: each["unschedulable"] for each in told}
    return f"no node for {count(sum(stuck.values()), 'replica')}: {shares(stuck)}" if stuck else ""


def status_of(found: Json) -> Json:
    return mapping(found.get("status"))


def scheduled_of(status: Json) -> Json:
    return conditions.find(status, "Scheduled")


SHOWN = 20
"""Workloads in the table, unless all are asked for."""
COLUMNS = ("workload", "units", "placed", "clusters", "released", "ready", "says")
DEFAULT_TIMEOUT = 60


def recorded(told: Gang) -> dict[str, Any]:
    """Return the group and its members as `-o json` prints them."""
    spec, status = told.found["spec"], status_of(told.found)
    keys = ("scheduled", "waiting", "running", "succeeded", "failed", "failures")
    times = ("scheduleStartTime", "quorumTime", "retryTime", "lastFailureTime")
    said = scheduled_of(status)
    return {
        "phase": status.get("phase") or "",
        "min": spec.get("minMember"),
        "desired": status.get("desired") or 0,
        **{key: status.get(key) or 0 for key in keys},
        "gate": status.get("gate"),
        **{key: status.get(key) for key in times},
        "reason": said.get("reason") or "",
        "message": said.get("message") or "",
        "workloads": [each.to_dict() for each in told.members],
        "ambiguous": list(told.unclear),
    }


def belonging(told: Belongs) -> dict[str, Any] | None:
    """Return a Workload's group for `-o json`, as far as it could be read; None without one."""
    if not told.names:
        return None
    spec, status = mapping(told.found.get("spec")), status_of(told.found)
    said = scheduled_of(status)
    return {
        "names": list(told.names),
        "found": bool(told.found),
        "phase": status.get("phase") or "",
        "min": spec.get("minMember"),
        "scheduled": status.get("scheduled") or 0,
        "waiting": status.get("waiting") or 0,
        "gate": status.get("gate"),
        "reason": said.get("reason") or "",
        "message": said.get("message") or "",
    }


def line(told: Belongs, workload: Json, now: datetime) -> str:
    """Return a line or two below the head of a Workload; empty for one that is in no group."""
    if not told.names:
        return ""
    if len(told.names) > 1:
        return f"its labels name several groups, so it is in none: {_named(told)}"
    where = f"in wg/{_named(told)}"
    if told.unread:
        return f"{where}, {told.unread}"
    own = member(workload, released_of(told.found))
    units = "its replicas are released" if own.released else "its replicas are not released"
    told_own = f", {units}" if own.placements else ""
    lines = [f"{where}: {_head(told.found)}{told_own}"]
    below = [*_lacks(told.found, now), *([own.trouble] if own.trouble else [])]
    return "\n".join((*lines, *(f"  {each}" for each in below)))


def _named(told: Belongs) -> str:
    # labels in a template may hold any text
    return ", ".join(clean(each, NAME) for each in told.names)


def text(told: Gang, now: datetime, *, everything: bool) -> str:
    """Return the quorum, the gate, unmet needs, and a row for each member, for people."""
    title = f"{told.namespace}/wg/{told.name}"
    lines = [f"{title}: {_head(told.found)}", *_counts(told), *_gate(told, now)]
    lines += [*_terms(told.found["spec"]), *_lacks(told.found, now, helps=True)]
    if told.unclear:
        named = ", ".join(told.unclear[:SHOWN])
        lines.append(f"In no group, as they name several: {named}")
    theirs = scheduled_of(status_of(told.found))
    rows = [_row(each, theirs) for each in _ranked(told.members)]
    shown = rows if everything else rows[:SHOWN]
    if shown:
        columns = [each for each in COLUMNS if each != "says" or any(row["says"] for row in shown)]
        lines += ["", output.table(shown, columns) + output.left_out(len(rows) - len(shown))]
    return "\n".join(lines)


def _head(found: Json) -> str:
    status, least = status_of(found), found["spec"].get("minMember")
    placed, held = status.get("scheduled") or 0, status.get("waiting") or 0
    have, are = ("has" if placed == 1 else "have"), ("is" if least == 1 else "are")
    text = f"{status.get('phase') or 'Undecided'}, {count(placed, 'replica')} {have} a cluster"
    return f"{text}, {f'{held} held, ' if held else ''}{least} {are} needed"


def _counts(told: Gang) -> Iterator[str]:
    status = status_of(told.found)
    wanted = sum(each.desired or 0 for each in told.members)
    ran = [f"{status.get(key) or 0} {key}" for key in ("running", "succeeded", "failed")]
    of = count(len(told.members), "Workload")
    yield f"{count(wanted, 'replica')} wanted by {of}; {', '.join(ran)}"


def _gate(told: Gang, now: datetime) -> Iterator[str]:
    status = status_of(told.found)
    if status.get("gate") == GateState.CLOSED:
        failures = count(status.get("failures") or 0, "failure")
        again = _again(status, now) or "; tried again as soon as it has"
        leaves = f"all of it leaves the members{_but_retained(status)}"
        yield f"Gate closed after {failures} in a row: {leaves}{again}"
    elif status.get("gate") == GateState.OPEN:
        released = sum(each.released for each in told.members)
        yield f"Gate open: {released} of {count(len(told.members), 'Workload')} released"
        if ran := status.get("quorumTime"):
            since = words.moment(ran, now)
            yield f"The quorum ran at {since}: no failure takes the others away any more"
        elif status.get("phase") == "Failed":
            yield "So many replicas failed that the quorum cannot run: what is there stays"
        else:
            takes = f"takes all of it away again{_but_retained(status)}"
            yield f"The quorum has not run yet: a failure before that {takes}"
    else:
        shut = "Gate shut: nothing of it goes to a member before the quorum is placed"
        yield f"{shut}{_again(status, now)}"


def _but_retained(status: Json) -> str:
    """Return the exception for units that ran before; empty without any."""
    units = sum(sum(shares.values()) for shares in (status.get("retained") or {}).values())
    return f", but for {count(units, 'replica')} that ran before" if units else ""


def _again(status: Json, now: datetime) -> str:
    """Return when the group is tried again; empty without a time in the future."""
    at = time(status.get("retryTime") or "")
    left = (at - now).total_seconds() if at else 0.0
    if at is None or left < 1:
        return ""
    return f"; tried again at {words.moment(at.isoformat(), now)} (in {seconds(left)})"


def _terms(spec: Json) -> Iterator[str]:
    if topology := spec.get("topology"):
        mode = topology.get("mode") or "Required"
        within = "in one domain" if mode == "Required" else "in one domain, or few"
        yield f"All of it {within} of {topology.get('topologyKey')} ({mode})"


def _lacks(found: Json, now: datetime, *, helps: bool = False) -> Iterator[str]:
    status = status_of(found)
    said = scheduled_of(status)
    if said.get("status") != "False":
        return
    age = words.age(said.get("lastTransitionTime") or "", now)
    yield f"{said.get('reason')} since {age}: {said.get('message') or ''}"
    cure = advice.GROUPS.get(str(said.get("reason")), advice.UNKNOWN)
    if status.get("waiting"):
        longest = found["spec"].get("scheduleTimeoutSeconds") or DEFAULT_TIMEOUT
        yield f"Held for {longest} s at most: then the room is given back, and it is tried again"
        cure = advice.GROUPS["ScheduleTimeout"]
    if helps and cure:
        yield f"What helps: {cure.partition(';')[0]}"


def _ranked(members: Iterable[GroupMember]) -> list[GroupMember]:
    return sorted(members, key=lambda m: ((m.desired or 0) <= m.placed, m.name))


def _row(member: GroupMember, theirs: Json) -> dict[str, Any]:
    """Return the row of a member, without a message that `theirs`, the group's condition, has."""
    said = theirs.get("status") == "False" and member.reason in advice.WITH_GROUP
    says = ": ".join(filter(None, (member.reason, "" if said else member.message)))
    says = "; ".join(filter(None, (says, member.trouble)))
    return {
        "workload": member.name,
        "units": "?" if member.desired is None else member.desired,
        "placed": member.placed,
        "clusters": shares(member.placements),
        "released": "-" if not member.placements else "yes" if member.released else "no",
        "ready": member.ready,
        "says": says,
    }
