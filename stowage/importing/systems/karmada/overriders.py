"""Karmada's overriders, applied to one object as its override manager does (v1.18.1).

They count by the kind's name alone: an image, command or args override changes the containers of a
Pod, ReplicaSet, Deployment, DaemonSet, Job and StatefulSet of any group, and of no other kind; init
containers are reached by a predicate's path alone. An image has a tag or a digest there: of
`tag@digest` the digest is dropped, and here it is kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import jsonpointer
import yaml

from stowage.importing.differing import Body, Misfit, operated
from stowage.importing.reading import dig

Json = Mapping[str, Any]
_WITH_TEMPLATE = ("ReplicaSet", "Deployment", "DaemonSet", "Job", "StatefulSet")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_TAGGED = re.compile(r":[^/@:]+@")
_DIGEST = re.compile(r"[A-Za-z][A-Za-z0-9]*([-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}")
KEPT_DIGEST = "the digest of the image stays, which Karmada drops"
DROPPED_DIGEST = "the digest of the image goes with its tag, as there"


def applied(body: Body, overriders: Json, said: Callable[[str, str], None]) -> Body:
    """Return the object with one rule's overriders applied, in their order.

    `said` gets the path of an overrider and what is otherwise here. Raises Misfit where Karmada
    would apply nothing at all.
    """
    for n, each in enumerate(overriders.get("imageOverrider") or ()):
        body = _images(body, each, partial(said, f"imageOverrider[{n}]"))
    for field in ("command", "args"):
        for each in overriders.get(f"{field}Overrider") or ():
            _arguments(body, field, each)
    for field in ("labels", "annotations"):
        for each in overriders.get(f"{field}Overrider") or ():
            body = operated(body, list(_metadata(body, field, each)))
    for each in overriders.get("fieldOverrider") or ():
        _inside(body, each)
    plain = [_operation(each, "path") for each in overriders.get("plaintext") or ()]
    return operated(body, plain)


def _operation(said: Json, path: str) -> dict[str, Any]:
    made = {"op": str(said.get("operator") or ""), "path": str(said.get(path) or "")}
    return made if said.get("value") is None else {**made, "value": said["value"]}


# --- images ---------------------------------------------------------------------------------------


def _images(body: Body, said: Json, note: Callable[[str], None]) -> Body:
    predicate = said.get("predicate")
    if isinstance(predicate, dict):
        paths: Sequence[str] = [str(predicate.get("path") or "")]
    else:
        paths = [f"/{'/'.join(at)}/{n}/image" for at, n in _containers(body)]
    for path in paths:
        before = jsonpointer.resolve_pointer(body, path, None) if path.startswith("/") else None
        if not isinstance(before, str):
            raise Misfit(f"{path}: there is no image")
        after = overridden_image(before, said)
        if "@" in before and _TAGGED.search(before):
            note(KEPT_DIGEST if "@" in after else DROPPED_DIGEST)
        body = operated(body, [{"op": "replace", "path": path, "value": after}])
    return body


def _containers(body: Body) -> Iterator[tuple[tuple[str, ...], int]]:
    kind = body.get("kind")
    at: tuple[str, ...] = ("spec", "containers")
    if kind in _WITH_TEMPLATE:
        at = ("spec", "template", "spec", "containers")
    elif kind != "Pod":
        return
    listed = dig(body, *at)
    for n in range(len(listed) if isinstance(listed, list) else 0):
        yield at, n


def overridden_image(image: str, said: Json) -> str:
    """Return the image that an imageOverrider makes; a digest beside a tag stays with the tag."""
    host, repository, tag, digest = _parts(image)
    value, operator = str(said.get("value") or ""), said.get("operator")
    component = said.get("component")
    both = bool(tag and digest)
    if component == "Registry":
        host = {"add": host + value, "replace": value, "remove": ""}.get(str(operator), host)
    elif component == "Repository":
        other = {"add": repository + value, "replace": value, "remove": ""}
        repository = other.get(str(operator), repository)
    elif component == "Tag":
        other = {"add": (tag or digest) + value, "replace": value}
        if operator == "remove":
            tag, digest = "", digest if both else ""
        elif operator in other:
            tag, digest = _tag_or_digest(other[str(operator)], tag, digest)
    else:
        raise Misfit(f"{component!r} is no component of an image")
    name = f"{host}/{repository}" if host else repository
    return name + (f":{tag}" if tag else "") + (f"@{digest}" if digest else "")


def _tag_or_digest(value: str, tag: str, digest: str) -> tuple[str, str]:
    if _TAG.fullmatch(value):
        return value, ""
    if _DIGEST.fullmatch(value):
        return "", value
    return tag, "" if tag else digest


def _parts(image: str) -> tuple[str, str, str, str]:
    """Return registry, repository, tag and digest."""
    name, _, digest = image.partition("@")
    head, slash, last = name.rpartition("/")
    last, _, tag = last.partition(":")
    name = f"{head}{slash}{last}"
    first, slash, rest = name.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return first, rest, tag, digest
    return "", name, tag, digest


# --- commands, labels, documents in fields --------------------------------------------------------


def _arguments(body: Body, field: str, said: Json) -> None:
    values = list(said.get("value") or ())
    for at, n in _containers(body):
        container = dig(body, *at)[n]
        if not isinstance(container, dict) or container.get("name") != said.get("containerName"):
            continue
        now = list(container.get(field) or ())
        if said.get("operator") == "add":
            now += values
        elif said.get("operator") == "remove":
            now = [each for each in now if each not in values]
        container[field] = now


def _metadata(body: Body, field: str, said: Json) -> Iterator[dict[str, Any]]:
    operator = str(said.get("operator") or "")
    metadata = body.setdefault("metadata", {})
    there = metadata.get(field)
    if operator == "add" and there is None:
        metadata[field] = {}
    for key, value in (said.get("value") or {}).items():
        if operator != "add" and key not in (there or {}):
            continue
        path = f"/metadata/{field}/{key.replace('/', '~1')}"
        yield {"op": operator, "path": path, "value": value}


def _inside(body: Body, said: Json) -> None:
    """Patch the JSON or YAML document that a text of the object is."""
    path = str(said.get("fieldPath") or "")
    text = jsonpointer.resolve_pointer(body, path, None) if path.startswith("/") else None
    if not isinstance(text, str):
        raise Misfit(f"{path}: there is no text")
    as_yaml = bool(said.get("yaml"))
    try:
        document = yaml.safe_load(text) if as_yaml else json.loads(text)
    except (yaml.YAMLError, ValueError) as e:
        raise Misfit(f"{path}: is no {'YAML' if as_yaml else 'JSON'}") from e
    listed = said.get("yaml") or said.get("json") or ()
    made = operated({"in": document}, [_below(_operation(each, "subPath")) for each in listed])
    if as_yaml:
        now = yaml.safe_dump(made["in"], default_flow_style=False, width=2**16, allow_unicode=True)
    else:
        now = json.dumps(made["in"], separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    jsonpointer.set_pointer(body, path, now)


def _below(operation: dict[str, Any]) -> dict[str, Any]:
    return {**operation, "path": f"/in{operation['path']}"}
