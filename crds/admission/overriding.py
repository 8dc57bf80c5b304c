"""What an override may not touch: what its object is, how many replicas it has, how it finds them.

Operations of a JSON patch are judged by the schema, which knows their paths. A merge patch may hold
anything, so that it is judged here, in CEL and in Python alike. What neither sees, as where a
custom kind keeps its number of replicas, is found when the patch is laid over the object.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from crds.fields.overrides import KEPT, KEPT_TEXT, MOST_BYTES
from crds.fields.template import number_path

Json = Mapping[str, Any]

SIZE_TEXT = f"more than {MOST_BYTES // 1024} KiB as JSON; make several Workloads of it"
_REPLICAS, _PARALLELISM = ("spec", "replicas"), ("spec", "parallelism")


def patches(spec: Json) -> Iterator[tuple[str, Json]]:
    """(field, patch) of each override that has a merge patch."""
    for each in spec.get("overrides") or ():
        if isinstance(each.get("patch"), Mapping):
            yield f"spec.overrides[{each.get('name')}].patch", each["patch"]


def violations(spec: Json) -> Iterator[str]:
    """`field: what to do` for each merge patch that touches what it may not."""
    overrides = spec.get("overrides") or ()
    for override in overrides:
        patch = override.get("patch") or {}
        kept = [*KEPT] if override.get("target") else [*KEPT, *_units(spec)]
        touched = next((path for path in kept if _touches(patch, path)), None)
        if touched is not None:
            field = f"spec.overrides[{override['name']}].patch"
            yield f"{'.'.join((field, *touched))}: {KEPT_TEXT}"
    if overrides and len(msgspec.json.encode(overrides)) > MOST_BYTES:
        yield f"spec.overrides: {SIZE_TEXT}"


def _units(spec: Json) -> Iterator[tuple[str, ...]]:
    template = spec.get("template") or spec.get("targetDeployment") or {}
    own = number_path(template.get("apiVersion", ""), template.get("kind", ""))
    path = spec.get("replicasPath") or own
    if path:
        yield tuple(path.split("."))


def _touches(patch: Any, path: Sequence[str]) -> bool:
    """Whether a merge patch has a value at a path; of one above it, whether that is a mapping."""
    for part in path:
        if not isinstance(patch, Mapping):
            return True
        if part not in patch:
            return False
        patch = patch[part]
    return True


# --- the same in CEL ------------------------------------------------------------------------------

_OVERRIDES = "(has(object.spec.overrides) ? object.spec.overrides : [])"
CEL_PATCHES = f"{_OVERRIDES}.filter(o, has(o.patch)).map(o, o.patch)"
CEL_HEADS = f"{_OVERRIDES}.filter(o, has(o.patch)).map(o, 'spec.overrides[' + o.name + '].patch')"


def cel_variables() -> list[dict[str, str]]:
    """touched: for each override the path that it may not touch, as text; empty without one."""
    path = "''"
    for each in reversed(KEPT):
        path = f"{_cel_touches('o.patch', each)} ? '.{'.'.join(each)}' : {path}"
    for each, holds in ((_PARALLELISM, _CEL_JOB), (_REPLICAS, _CEL_COUNTED)):
        said = f"!has(o.target) && {holds} && {_cel_touches('o.patch', each)}"
        path = f"{said} ? '.{'.'.join(each)}' : {path}"
    found = f"has(o.patch) ? ({path}) : ''"
    return [
        {"name": "touched", "expression": f"{_OVERRIDES}.map(o, {found})"},
        {
            "name": "touching",
            "expression": f"{_OVERRIDES}.map(o, 'spec.overrides[' + o.name + '].patch')",
        },
    ]


def cel_validations() -> list[dict[str, str]]:
    """Return the rule; its message names the override and the path."""
    first = "variables.touched.filter(t, t != '')[0]"
    return [
        {
            "expression": "variables.touched.all(t, t == '')",
            "messageExpression": f"variables.touching[variables.touched.indexOf({first})] + {first}"
            f" + ': {KEPT_TEXT}'",
            "message": f"spec.overrides: {KEPT_TEXT}",
        }
    ]


_CEL_JOB = "has(object.spec.template) && object.spec.template.kind == 'Job'"
_CEL_COUNTED = (
    f"(has(object.spec.replicasPath) ? object.spec.replicasPath == 'spec.replicas' : !({_CEL_JOB}))"
)


def _cel_touches(patch: str, path: Sequence[str]) -> str:
    """Whether a merge patch has a value at a path; of one above it, whether that is a mapping."""
    inner, said = patch, ""
    for part in path[:-1]:
        inner = f"{inner}.{part}"
        said += f"has({inner}) && (type({inner}) != map || "
    return f"({said}has({inner}.{path[-1]}){')' * (len(path) - 1)})"
