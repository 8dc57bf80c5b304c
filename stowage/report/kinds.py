"""`stowage kinds`: the profiles of all kinds; `kinds try`: what one makes of an object."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from controller.model.place import Part, together
from controller.model.podtemplate import check_pods
from controller.model.requests import parts_of
from machinery.api.resources import WORKLOAD_KINDS, WORKLOADS, group_version
from machinery.config.kubeconfig import Connection
from machinery.errors import ConfigurationError, NotFound
from machinery.kinds import table
from machinery.kinds.paths import InvalidTemplate
from machinery.kinds.profile import Profile
from machinery.kinds.readiness import counts_of, judge
from machinery.kinds.templates import FIELD, check, pods_in, replicas_in
from machinery.kinds.workloadkinds import WorkloadKind, use_stored
from machinery.types import hostports, quantities
from machinery.types.bounds import clean
from stowage.console import output
from stowage.console.terminal import say
from stowage.fleet import manifests
from stowage.fleet.inventory import kinds_of
from stowage.fleet.manifests import Document
from stowage.hub import ObjectReader, reader
from stowage.report.groups import mapping

COLUMNS = (
    *("kind", "group", "versions", "replicas", "pods", "ready", "ends", "once", "data"),
    *("origin", "workloads"),
)
Row = dict[str, Any]


def show(hub: Connection, namespace: str | None, form: str) -> bool:
    """Print all kinds; whether each kind of a Workload is known. Raises TransportError."""
    with reader(hub) as api:
        rows = listed(api, namespace)
    told = [{key: value for key, value in row.items() if key in COLUMNS} for row in rows]
    below = ([row["fault"]] if row["fault"] else [] for row in rows)
    output.show(rows, form, text=output.table(told, COLUMNS, below=below))
    return not any(row["fault"] or row["origin"] == "unknown" for row in rows if row["workloads"])


def listed(api: ObjectReader, namespace: str | None) -> list[Row]:
    """Return a row for each kind: those with Workloads first, and the unknown ones last."""
    with suppress(NotFound):  # an older hub
        use_stored(api.each(WORKLOAD_KINDS, WorkloadKind))
    counts: Counter[Profile] = Counter()
    versions: dict[Profile, str] = {}
    for each in api.each(WORKLOADS, dict[str, Any], namespace=namespace):
        spec = each.get("spec") or {}
        profile = table.profile_of_main(spec)
        template = spec.get("template") or {}
        versions[profile] = group_version(str(template.get("apiVersion") or ""))[1]
        counts[profile] += 1
    known = dict.fromkeys(table.known_kinds(), 0) | counts
    rows = [_row(profile, n, versions.get(profile, "")) for profile, n in known.items()]
    return sorted(rows, key=_order)


_ORIGINS = ("built-in", "hub", "unknown")


def _order(row: Row) -> tuple[bool, bool, int, str, str]:
    origin, unknown = _ORIGINS.index(row["origin"]), row["origin"] == _ORIGINS[-1]
    return unknown, not row["workloads"], origin, row["group"], row["kind"]


def _row(profile: Profile, workloads: int, version: str) -> Row:
    of_hub = profile in table.from_hub()
    usable = profile.known and not profile.fault
    said = {
        "kind": profile.kind,
        "group": profile.group,
        "versions": ",".join(profile.versions) or "*",
        "replicas": profile.replicas_path or "whole",
        "pods": len(profile.pods),
        "ready": True,
        "ends": profile.ended is not None,
        "once": profile.once,
        "data": profile.holds_data,
        "origin": "hub" if of_hub else "built-in",
        "workloads": workloads,
        "fault": profile.fault,
    }
    if usable:
        return said
    unsaid = {"replicas": "-", "pods": 0, "ready": False, "ends": False, "once": "-", "data": "-"}
    if of_hub:
        return {**said, **unsaid}
    others = ", ".join(profile.versions)
    fault = f"{version} is not one of its known versions: {others}" if others else ""
    return {**said, **unsaid, "versions": version or "-", "origin": "unknown", "fault": fault}


def try_(files: Sequence[str]) -> bool:
    """Print what is made of each object of the files; whether all of it can be read.

    Raises ConfigurationError.
    """
    documents = manifests.read(files)
    use_stored(kinds_of(documents))
    objects = [each for each in documents if each.kind != WORKLOAD_KINDS.kind]
    found = [tried(each) for document in objects for each in _placed(document)]
    if not found:
        raise ConfigurationError(f"{', '.join(files)}: no object in these files")
    say("\n\n".join("\n".join(lines) for lines, _ in found))
    return all(known for _, known in found)


Placed = tuple[Mapping[str, Any], Mapping[str, Any]]
"""An object, and the spec of the Workload that places it, which is empty without one."""


def _placed(document: Document) -> Iterator[Placed]:
    if document.kind != WORKLOADS.kind:
        yield document.body, {}
        return
    spec = mapping(document.body.get("spec"))
    if main := mapping(spec.get("template")):
        yield main, spec
    elif main := mapping(spec.get("targetDeployment")):
        yield {"apiVersion": "apps/v1", "kind": "Deployment", **main}, spec
    else:
        alone = spec.get("manifests")
        yield from ((mapping(each), {}) for each in (alone if isinstance(alone, list) else ()))


def tried(placed: Placed) -> tuple[list[str], bool]:
    """Return what the profile of its kind makes of an object, and whether it has one."""
    body, spec = placed
    profile = table.profile_in(body, spec.get("replicasPath"))
    title = " ".join(clean(str(body.get(each) or "")) for each in ("kind", "apiVersion"))
    if not profile.known:
        others = ", ".join(profile.versions)
        known = f"known are {others}" if others else "no WorkloadKind says what it is"
        return [f"{title}: unknown, {known}"], False
    try:
        check(profile, body)
        for each in pods_in(profile, body):
            check_pods(each.template, f"{FIELD}.{each.path}")
        replicas, parts = replicas_in(profile, body, spec.get("replicas")), parts_of(profile, body)
    except (InvalidTemplate, ValueError) as fault:
        return [f"{title}: {clean(str(fault))}"], False
    size = "whole" if profile.whole else f"{replicas} replica{'' if replicas == 1 else 's'}"
    lines = [f"{title}: {', '.join([size, *_sum(parts, 1 if profile.whole else replicas)])}"]
    if parts:
        lines.append(" · ".join(map(_part, parts)))
    return [*lines, *_state(profile, body, replicas)], True


def _sum(parts: Sequence[Part], replicas: int) -> Iterator[str]:
    """Yield the pods and the amounts of all replicas."""
    request, _ = together(parts)
    total = {resource: n * replicas for resource, n in request.items()}
    if pods := total.pop("pods", 0):
        yield f"{pods} pod{'' if pods == 1 else 's'}"
    yield from _amounts(total)


def _part(part: Part) -> str:
    return f"{part.name} {part.count} x {', '.join(_amounts(dict(part.request)))}"


def _amounts(amounts: Mapping[str, int]) -> Iterator[str]:
    for resource, n in sorted(amounts.items()):
        if resource != "pods" and not resource.startswith(hostports.PREFIX):
            yield f"{resource} {quantities.render(resource, n)}"


def _state(profile: Profile, body: Mapping[str, Any], replicas: int) -> Iterator[str]:
    meta = mapping(body.get("metadata"))
    generation = meta.get("generation")
    judged = judge(
        profile,
        {**body, "metadata": meta},
        generation=generation if isinstance(generation, int) else 0,
        deleting=bool(meta.get("deletionTimestamp")),
    )
    counts = counts_of(judged, replicas)
    if counts.ready >= replicas and counts.observed:
        yield "ready: yes"
    else:
        counted = judged.ready is not None and not profile.whole
        told = f"{counts.ready} of {replicas}" if counted else "no"
        why = judged.message or ("" if counted else judged.health.value)
        why = why if counts.observed else "its status is of an older generation"
        yield f"ready: {', '.join(filter(None, (told, why)))}"
    if judged.result is not None:
        yield f"ended: {judged.result.value}"
