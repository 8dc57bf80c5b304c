"""The PriorityClass of placeholders: for pods that the controller makes for a Reservation alone.

A pod of that class counts for nothing in the books of both processes, as it gives way to every
other one. So no tenant may use it: a tenant's pods of that class would ask for nothing, and take
room all the same. Admission refuses the class wherever the built-in kinds keep a pod's spec, unless
the Workload is one of `PLACEHOLDER_SCHEDULER`, which only a writer of the status of Workloads
makes. The controller and the propagator look once more (`named`, `keeps_room`), as a hub may have
no policies, and an object of another kind may keep its pods anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from crds.names import API_VERSION, GROUP, PLACEHOLDER_CLASS, PLACEHOLDER_SCHEDULER

Json = Mapping[str, Any]

CLASS_TEXT = (
    f"the PriorityClass {PLACEHOLDER_CLASS} is for pods that keep the room of a Reservation; "
    "name another one"
)
SCHEDULER_TEXT = (
    f"spec.schedulerName: {PLACEHOLDER_SCHEDULER} is for what Stowage makes for a Reservation; "
    "name another one"
)
FIELD = "priorityClassName"
POD_PATHS: tuple[tuple[str, ...], ...] = (
    ("spec",),
    ("template", "spec"),
    ("spec", "template", "spec"),
    ("spec", "jobTemplate", "spec", "template", "spec"),
)
"""Where the built-in kinds keep the spec of a pod."""


class PlaceholderOwner(Protocol):
    """An owner reference, as both processes read it."""

    @property
    def api_version(self) -> str:
        """The version of its kind."""

    @property
    def kind(self) -> str:
        """Its kind."""

    @property
    def controller(self) -> bool:
        """Whether this owner controls the object."""


def keeps_room(scheduler: str, owners: Iterable[PlaceholderOwner]) -> bool:
    """Whether a Workload of that schedulerName and these owners is a Reservation's placeholder."""
    return scheduler == PLACEHOLDER_SCHEDULER and any(
        owner.controller and (owner.api_version, owner.kind) == (API_VERSION, "Reservation")
        for owner in owners
    )


def named(body: Any) -> bool:
    """Return whether a JSON value names the class, at any depth."""
    rest = [body]
    while rest:
        each = rest.pop()
        if isinstance(each, list):
            rest += each
        elif isinstance(each, Mapping):
            if each.get(FIELD) == PLACEHOLDER_CLASS:
                return True
            rest += each.values()
    return False


def violations(spec: Json, bodies: Iterable[tuple[str, Json]]) -> Iterator[str]:
    """`field: what to do` for the first body that names the class at each of the paths."""
    if spec.get("schedulerName") == PLACEHOLDER_SCHEDULER:
        return
    found = [*bodies]
    for path in POD_PATHS:
        for place, body in found:
            if _at(body, path) == PLACEHOLDER_CLASS:
                yield f"{'.'.join((place, *path, FIELD))}: {CLASS_TEXT}"
                break


def _at(body: Any, path: Iterable[str]) -> Any:
    for part in (*path, FIELD):
        body = body.get(part) if isinstance(body, Mapping) else None
    return body


# --- the same in CEL ------------------------------------------------------------------------------


def cel_variables() -> list[dict[str, str]]:
    """yieldsN: for each of `variables.bodies` whether it names the class at that path."""
    return [
        {"name": f"yields{n}", "expression": f"variables.bodies.map(b, {_cel_names('b', path)})"}
        for n, path in enumerate(POD_PATHS)
    ]


def cel_validations() -> list[dict[str, str]]:
    """Return the rules: only a placeholder names the class, and only the controller makes one."""
    may = (
        f"authorizer.group('{GROUP}').resource('workloads').subresource('status')"
        ".namespace(request.namespace).check('patch').allowed()"
    )
    alone = {
        "expression": f"!({_CEL_OURS}) || {may}",
        "message": SCHEDULER_TEXT,
        "reason": "Forbidden",
    }
    return [alone, *(_cel_validation(number, path) for number, path in enumerate(POD_PATHS))]


def cel_free(pods: str) -> str:
    """Whether a pod's spec, if there is any, is a map that does not name the class."""
    name = f"{pods}.{FIELD}"
    return (
        f"(!has({pods}) || (type({pods}) == map"
        f" && (!has({name}) || {name} != '{PLACEHOLDER_CLASS}')))"
    )


def cel_ours(spec: str) -> str:
    """Whether a Workload's spec is that of a placeholder."""
    name = f"{spec}.schedulerName"
    return f"has({name}) && {name} == '{PLACEHOLDER_SCHEDULER}'"


_CEL_OURS = cel_ours("object.spec")


def _cel_validation(number: int, path: tuple[str, ...]) -> dict[str, str]:
    index = f"variables.yields{number}.indexOf(true)"
    field = (
        f"({index} < size(variables.heads) ? variables.heads[{index}]"
        f" : 'spec.manifests[' + string({index} - size(variables.heads)) + ']')"
    )
    return {
        "expression": f"({_CEL_OURS}) || !(true in variables.yields{number})",
        "messageExpression": f"{field} + '.{'.'.join((*path, FIELD))}: {CLASS_TEXT}'",
        "message": f"spec: {CLASS_TEXT}",
    }


def _cel_names(body: str, path: tuple[str, ...]) -> str:
    """CEL: whether an object names the class at a path; a value of another form does not."""
    tests, inner = [], body
    for part in path:
        inner = f"{inner}.{part}"
        tests.append(f"has({inner}) && type({inner}) == map")
    name = f"{inner}.{FIELD}"
    return " && ".join((*tests, f"has({name})", f"{name} == '{PLACEHOLDER_CLASS}'"))
