"""Members of a WorkloadGroup, read from the hub's objects for `stowage explain`.

A decision is released where the group's status names the digest of the placements that the Workload
has now; the propagator uses the same rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crds.groups.gate import GateState, decision_of
from crds.groups.membership import labels_in
from machinery.api.resources import WORKLOAD_GROUPS, WORKLOADS
from machinery.errors import BadRequest, Forbidden, NotFound
from machinery.kinds.groups import groups_of
from machinery.types import conditions
from machinery.types.bounds import clean
from stowage.hub.reader import ObjectReader
from stowage.planning.words import count, shares
from stowage.reading import words

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
            "placements": [{"cluster": c, "replicas": n} for c, n in self.placements.items()],
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
    """Return the names of the Workloads that name that group."""
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
    return f"no node for {count(sum(stuck.values()), 'unit')}: {shares(stuck)}" if stuck else ""


def status_of(found: Json) -> Json:
    return mapping(found.get("status"))


def scheduled_of(status: Json) -> Json:
    """Return the condition Scheduled of a status; empty without one."""
    return conditions.find(status, "Scheduled")
