"""The images of a cluster: MemberCluster.spec.images, which rewrite image references.

A rule matches whole parts of the normalised reference (`nginx` is `docker.io/library/nginx`). The
longest `from` wins. Tag and digest stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from machinery.types.api import ImageRule
from machinery.types.strategic_merge import CONTAINER_LISTS

DOCKER_HUB = "docker.io"
_ALSO_DOCKER_HUB = "index.docker.io"
_LIBRARY = "library"


def rewritten(image: str, rules: Sequence[ImageRule]) -> str:
    if not image:
        return image
    path, rest = _parts(image)
    best = max((rule for rule in rules if _below(path, rule.from_)), key=_length, default=None)
    if best is None:
        return image
    return "/".join((best.to.rstrip("/"), *path[_length(best) :])) + rest


def rewrite(body: Any, rules: Sequence[ImageRule]) -> None:
    """Change the images of all containers in a JSON value, at any depth."""
    if not rules:
        return
    todo = [body]
    while todo:
        each = todo.pop()
        if isinstance(each, list):
            todo += each
        elif isinstance(each, dict):
            todo += each.values()
            for field in CONTAINER_LISTS:
                _rewrite_all(each.get(field), rules)


def _rewrite_all(containers: Any, rules: Sequence[ImageRule]) -> None:
    for each in containers if isinstance(containers, list) else ():
        image = each.get("image") if isinstance(each, dict) else None
        if isinstance(image, str):
            each["image"] = rewritten(image, rules)


def _parts(image: str) -> tuple[list[str], str]:
    """Return the parts of the normalised name, the registry first, and tag and digest as text."""
    name, at, digest = image.partition("@")
    head, slash, last = name.rpartition("/")
    last, colon, tag = last.partition(":")
    path = [*head.split("/"), last] if slash else [last]
    registry = path[0]
    named = len(path) > 1 and ("." in registry or ":" in registry or registry == "localhost")
    if not named:
        path = [DOCKER_HUB, *path]
    elif registry == _ALSO_DOCKER_HUB:
        path[0] = DOCKER_HUB
    if path[0] == DOCKER_HUB and len(path) == 2:
        path.insert(1, _LIBRARY)
    return path, f"{colon}{tag}{at}{digest}"


def _below(path: Sequence[str], prefix: str) -> bool:
    parts = _split(prefix)
    return list(path[: len(parts)]) == parts


def _split(prefix: str) -> list[str]:
    return prefix.rstrip("/").split("/")


def _length(rule: ImageRule) -> int:
    return len(_split(rule.from_))
