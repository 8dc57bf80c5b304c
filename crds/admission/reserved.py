"""Labels and annotations that are Stowage's own: no user may set them on what it writes.

By them the propagator knows its objects again: whose they are, whose replica a pod is, what was
last applied. A template that carried them could pass for another Workload's. So admission refuses
them wherever Kubernetes keeps metadata in an object that goes to a member, in CEL and in Python
alike; the propagator takes away what is left of them, at any depth (`strip`).

Two labels are the user's own word and stay: they bind a policy and name a group. So is one
annotation, which says when an object is kept, with the values that it may have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from crds.admission.overriding import CEL_HEADS, CEL_PATCHES, patches
from crds.fields.labels import KEEPS, RESERVED_TEXT, USERS_LABELS, cel_reserved, reserved
from crds.names import ANNOTATION_KEEP

Json = Mapping[str, Any]

SINGLE_PARTS = ("targetDeployment", "template", "targetService")

METADATA_PATHS: tuple[tuple[str, ...], ...] = (
    (),
    ("spec", "template"),
    ("spec", "jobTemplate"),
    ("spec", "jobTemplate", "spec", "template"),
    ("spec", "volumeClaimTemplates", "*"),
)
"""Where the built-in kinds keep metadata; `*` stands for the elements of a list."""


def violations(spec: Json) -> Iterator[str]:
    """`field: what to do` for the first object with such metadata at each of the paths."""
    for path in METADATA_PATHS:
        for place, body in bodies(spec):
            if any(_bears(each) for each in _metadata(body, path)):
                yield f"{'.'.join((place, *_shown(path)))}.metadata: {RESERVED_TEXT}"
                break


def strip(body: Any) -> None:
    """Remove our labels and annotations from all metadata in a JSON value, at any depth."""
    rest = [body]
    while rest:
        each = rest.pop()
        if isinstance(each, list):
            rest += each
        elif isinstance(each, dict):
            rest += each.values()
            _clean(each.get("metadata"))


def _clean(metadata: Any) -> None:
    for field in ("labels", "annotations") if isinstance(metadata, dict) else ():
        keys = metadata.get(field)
        if isinstance(keys, dict):
            metadata[field] = {k: v for k, v in keys.items() if not _ours(field, k, v)}


def bodies(spec: Json) -> Iterator[tuple[str, Json]]:
    """(field, object) of all that goes to members, and of the patches laid over it."""
    for part in SINGLE_PARTS:
        if spec.get(part):
            yield f"spec.{part}", spec[part]
    yield from patches(spec)
    for index, body in enumerate(spec.get("manifests") or ()):
        yield f"spec.manifests[{index}]", body


def _metadata(body: Any, path: tuple[str, ...]) -> Iterator[Any]:
    """The metadata at a path, as far as the object is of that form."""
    if not path:
        if isinstance(body, Mapping):
            yield body.get("metadata")
    elif path[0] == "*":
        for each in body if isinstance(body, list) else ():
            yield from _metadata(each, path[1:])
    elif isinstance(body, Mapping):
        yield from _metadata(body.get(path[0]), path[1:])


def _bears(metadata: Any) -> bool:
    return isinstance(metadata, Mapping) and any(
        _ours(field, key, value)
        for field in ("labels", "annotations")
        if isinstance(metadata.get(field), Mapping)
        for key, value in metadata[field].items()
    )


def _ours(field: str, key: str, value: object) -> bool:
    if field == "labels":
        return reserved(key) and key not in USERS_LABELS
    return reserved(key) and not (key == ANNOTATION_KEEP and value in KEEPS)


def _shown(path: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part for part in path if part != "*")


# --- the same in CEL ------------------------------------------------------------------------------


def cel_variables() -> list[dict[str, str]]:
    """The variables that the validations read.

    bodies: all that goes to members, and patches of it; heads: the fields of those before the
    manifests; and for each path, borneN: for each body whether it bears what is ours there.
    """
    bodies = [f"(has(object.spec.{p}) ? [object.spec.{p}] : [])" for p in SINGLE_PARTS]
    bodies += [CEL_PATCHES, "(has(object.spec.manifests) ? object.spec.manifests : [])"]
    heads = [f"(has(object.spec.{p}) ? ['spec.{p}'] : [])" for p in SINGLE_PARTS]
    heads.append(CEL_HEADS)
    borne = [
        {"name": f"borne{n}", "expression": f"variables.bodies.map(b, {_cel_bears('b', path)})"}
        for n, path in enumerate(METADATA_PATHS)
    ]
    return [
        {"name": "bodies", "expression": " + ".join(bodies)},
        {"name": "heads", "expression": " + ".join(heads)},
        *borne,
    ]


def cel_validations() -> list[dict[str, str]]:
    """One for each path; the message names the first field that is wrong."""
    return [_cel_validation(number, path) for number, path in enumerate(METADATA_PATHS)]


def _cel_validation(number: int, path: tuple[str, ...]) -> dict[str, str]:
    index = f"variables.borne{number}.indexOf(true)"
    inner = "".join(f".{part}" for part in _shown(path))
    field = (
        f"({index} < size(variables.heads) ? variables.heads[{index}]"
        f" : 'spec.manifests[' + string({index} - size(variables.heads)) + ']')"
    )
    return {
        "expression": f"!(true in variables.borne{number})",
        "messageExpression": f"{field} + '{inner}.metadata: {RESERVED_TEXT}'",
        "message": f"spec: {RESERVED_TEXT}",
    }


def _cel_bears(body: str, path: tuple[str, ...]) -> str:
    """CEL: whether an object bears what is ours at a path; a value of another form does not."""
    if not path:
        metadata = f"{body}.metadata"
        held = " || ".join(_cel_holds(metadata, field) for field in ("labels", "annotations"))
        return f"{_cel_is(metadata, 'map')} && ({held})"
    if path[0] == "*":
        return f"{body}.exists(e, type(e) == map && {_cel_bears('e', path[1:])})"
    inner = f"{body}.{path[0]}"
    form = "list" if path[1:2] == ("*",) else "map"
    return f"{_cel_is(inner, form)} && {_cel_bears(inner, path[1:])}"


def _cel_is(path: str, form: str) -> str:
    return f"has({path}) && type({path}) == {form}"


def _cel_holds(metadata: str, field: str) -> str:
    keys = f"{metadata}.{field}"
    users = f"k in {list(USERS_LABELS)}"
    if field == "annotations":
        users = f"k == '{ANNOTATION_KEEP}' && {keys}[k] in {list(KEEPS)}"
    return f"({_cel_is(keys, 'map')} && {keys}.exists(k, {cel_reserved('k')} && !({users})))"
