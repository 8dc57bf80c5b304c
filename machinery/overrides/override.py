"""A Workload's spec.overrides: patches of its objects on the clusters that a selector matches.

A patch that does not fit affects its clusters alone: `OverrideMisfit` names override and field.
Identity, number of replicas and selector cannot be patched.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import jsonpatch
import msgspec
from msgspec import UNSET, UnsetType

from crds.fields.overrides import KEPT, KEPT_TEXT, MOST_BYTES
from machinery.overrides.variables import ClusterFacts, carried_named, filled, variable
from machinery.types import strategic_merge, workload_api
from machinery.types.api import ImageRule
from machinery.types.bounds import MESSAGE, clean
from machinery.types.merge_patch import merged
from machinery.types.selectors import ClusterSelector, label_selector
from machinery.types.strategic_merge import CONTAINER_LISTS

_BUILT_IN = frozenset(
    f"{group}.k8s.io"
    for group in (
        "admissionregistration",
        "apiextensions",
        "apiregistration",
        "certificates",
        "coordination",
        "discovery",
        "events",
        "flowcontrol.apiserver",
        "networking",
        "node",
        "rbac.authorization",
        "resource",
        "scheduling",
        "storage",
    )
)
"""Groups of built-in kinds that have a dot in their name."""


class OverrideTarget(workload_api.OverrideTarget, frozen=True, gc=False):
    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class Operation(msgspec.Struct, frozen=True):
    """One operation of a JSON patch (RFC 6902)."""

    op: str
    path: str
    value: Any | UnsetType = UNSET


class ClusterOverride(msgspec.Struct, frozen=True, rename="camel"):
    """A patch of one object, on the clusters that the selector matches."""

    name: str
    cluster_selector: ClusterSelector
    target: OverrideTarget | None = None
    patch: dict[str, Any] | None = None
    json_patch: list[Operation] | None = None

    @property
    def varies(self) -> bool:
        return variable(self.said)

    @property
    def carries(self) -> frozenset[str]:
        """The names of the carried values without which it is left out."""
        return carried_named(self.said) if self.varies else frozenset()

    @property
    def said(self) -> list[Any]:
        values = (each.value for each in self.json_patch or ())
        return [self.patch, *(each for each in values if each is not UNSET)]


class OverrideMisfit(ValueError):
    def __init__(self, override: str, text: str) -> None:
        super().__init__(clean(text, MESSAGE))
        self.override = override


class UnreadableOverrides(ValueError):
    """spec.overrides does not have the form of the schema."""


@lru_cache(maxsize=256)
def cluster_overrides_of(raw: bytes) -> tuple[ClusterOverride, ...]:
    """Return the overrides of a spec's JSON, in order. Raises UnreadableOverrides."""
    if not raw:
        return ()
    if len(raw) > MOST_BYTES:
        raise UnreadableOverrides(f"spec.overrides: {len(raw)} bytes as JSON, {MOST_BYTES} at most")
    try:
        return tuple(_decoder.decode(raw) or ())
    except (msgspec.MsgspecError, RecursionError) as e:
        raise UnreadableOverrides(f"spec.overrides: {e}") from e


_decoder = msgspec.json.Decoder(list[ClusterOverride] | None)


def matching(
    overrides: Sequence[ClusterOverride], labels: Mapping[str, str]
) -> tuple[ClusterOverride, ...]:
    return tuple(
        each for each in overrides if label_selector(each.cluster_selector).matches(labels)
    )


def overridden(
    body: dict[str, Any],
    overrides: Sequence[ClusterOverride],
    cluster: ClusterFacts,
    *,
    pods: Sequence[str] = (),
    replicas_path: str = "",
) -> dict[str, Any]:
    """Return a copy of one object with the overrides applied. Raises OverrideMisfit.

    Those that name a carried value are left out where there is none.

    `pods` is the path of its pod template, if known, and `replicas_path` that of its number of
    replicas.
    """
    found = body
    for each in overrides:
        try:
            found = _laid(found, each, cluster, pods)
            _check_kept(body, found, replicas_path)
            _check_metadata(found, pods)
            check_selector(found, pods)
        except ValueError as e:
            raise OverrideMisfit(each.name, str(e)) from e
        except RecursionError as e:
            raise OverrideMisfit(each.name, "the object is nested too deep for it") from e
    return found


def _laid(
    body: dict[str, Any], override: ClusterOverride, cluster: ClusterFacts, pods: Sequence[str]
) -> dict[str, Any]:
    for said in override.said:
        strategic_merge.check_size(said)
    if not override.carries <= cluster.carried.keys():
        return body
    if override.json_patch is not None:
        return _operated(body, override.json_patch, cluster)
    patch = filled(override.patch or {}, cluster)
    if built_in(str(body.get("apiVersion"))):
        return strategic_merge.merge_object(body, patch, pods=pods)
    return merged(body, patch)


def built_in(api_version: str) -> bool:
    """Whether a kind of that group is Kubernetes' own, whose lists have known merge keys."""
    group = api_version.rpartition("/")[0]
    return "." not in group or group in _BUILT_IN


def _operated(
    body: dict[str, Any], operations: Sequence[Operation], cluster: ClusterFacts
) -> dict[str, Any]:
    found = copy.deepcopy(body)
    for each in operations:
        said: dict[str, Any] = {"op": each.op, "path": each.path}
        if each.value is not UNSET:
            said["value"] = filled(each.value, cluster)
        found = _operate(found, said)
    return found


def _operate(body: dict[str, Any], said: dict[str, Any]) -> dict[str, Any]:
    # The library's own messages quote the document, which may hold a secret.
    path = said["path"]
    try:
        found = jsonpatch.JsonPatch([said]).apply(body, in_place=True)
    except jsonpatch.JsonPatchTestFailed as e:
        raise ValueError(f"{path}: is not what the test says") from e
    except (jsonpatch.JsonPatchConflict, jsonpatch.JsonPointerException) as e:
        raise ValueError(f"{path}: no such item") from e
    except (jsonpatch.JsonPatchException, TypeError) as e:
        raise ValueError(f"{path}: {said['op']} cannot be done there") from e
    if not isinstance(found, dict):
        raise ValueError(f"{path or 'the whole object'}: {KEPT_TEXT}")  # noqa: TRY004 - it is input
    return found


def _check_kept(before: Mapping[str, Any], after: Mapping[str, Any], replicas_path: str) -> None:
    for path in kept(replicas_path):
        if _at(before, path) != _at(after, path):
            raise ValueError(f"{'.'.join(path)}: {KEPT_TEXT}")


def _check_metadata(body: Mapping[str, Any], pods: Sequence[str]) -> None:
    for place in ((), pods) if pods else ((),):
        for path in (("metadata",), ("metadata", "labels"), ("metadata", "annotations")):
            value = _at(body, (*place, *path))
            if value is not None and not isinstance(value, Mapping):
                raise ValueError(f"{'.'.join((*place, *path))}: must be a mapping")


def kept(replicas_path: str) -> Iterator[tuple[str, ...]]:
    yield from KEPT
    if replicas_path:
        yield tuple(replicas_path.split("."))


def check_selector(body: Mapping[str, Any], pods: Sequence[str]) -> None:
    """Raise ValueError if an object does not select the pods of its template."""
    if not pods:
        return
    selector = _at(body, (*pods[:-1], "selector"))
    wanted = selector.get("matchLabels") if isinstance(selector, Mapping) else None
    labels = _at(body, (*pods, "metadata", "labels"))
    for key, value in wanted.items() if isinstance(wanted, Mapping) else ():
        if not isinstance(labels, Mapping) or labels.get(key) != value:
            where = ".".join((*pods, "metadata", "labels", key))
            raise ValueError(f"{where}: must stay {value}, by it pods are selected")


def _at(body: Any, path: Sequence[str]) -> Any:
    for part in path:
        body = body.get(part) if isinstance(body, Mapping) else None
    return body


DOCKER_HUB = "docker.io"
_ALSO_DOCKER_HUB = "index.docker.io"
_LIBRARY = "library"


def rewritten(image: str, rules: Sequence[ImageRule]) -> str:
    """Return the image as the rules of its cluster rewrite it (MemberCluster.spec.images).

    A rule matches whole parts of the normalised reference (`nginx` is `docker.io/library/nginx`).
    The longest `from` wins.
    """
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
