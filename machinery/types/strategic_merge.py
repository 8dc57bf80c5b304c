"""Strategic merge patches, as Kubernetes' API server applies them. Pure.

Lists with a merge key merge item by item in the server's order, because `$(NAME)` in an env refers
to earlier entries. `$patch: delete`, `$patch: replace` and `$retainKeys` work as in Kubernetes;
directives of tools (`$setElementOrder` …) are refused.

Differences from the API server: ports of one number are also told apart by protocol, and spread
constraints of one topologyKey by whenUnsatisfiable (the server loses one, 1.36.3). Refused are a
value of another type, a new container without an image, and a template without containers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from machinery.types.bounds import NAME, clean, quoted

DEPTH = 32
"""Nesting of a patch."""
MOST_VALUES = 10_000
"""Values, lists and mappings in one patch."""
MOST_TEXT = 64 * 1024
"""Characters in one patch, keys included."""
MOST_FAULTS = 10

CONTAINER_LISTS = ("containers", "initContainers", "ephemeralContainers")

_DIRECTIVE, _RETAIN = "$patch", "$retainKeys"
_IN_CONTAINERS = {
    "env": ("name",),
    "ports": ("containerPort", "protocol"),
    "volumeDevices": ("devicePath",),
    "volumeMounts": ("mountPath",),
}
_CLAIM = ("spec", "volumes", "ephemeral", "volumeClaimTemplate")
_MERGE_KEYS: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ("metadata", "ownerReferences"): ("uid",),
    (*_CLAIM, "metadata", "ownerReferences"): ("uid",),
    ("spec", "hostAliases"): ("ip",),
    ("spec", "imagePullSecrets"): ("name",),
    ("spec", "resourceClaims"): ("name",),
    ("spec", "schedulingGates"): ("name",),
    ("spec", "topologySpreadConstraints"): ("topologyKey", "whenUnsatisfiable"),
    ("spec", "volumes"): ("name",),
    ("Service", "spec", "ports"): ("port", "protocol"),
    ("ServiceAccount", "secrets"): ("name",),
    **{("spec", each): ("name",) for each in CONTAINER_LISTS},
    **{
        ("spec", each, inner): keys
        for each in CONTAINER_LISTS
        for inner, keys in _IN_CONTAINERS.items()
    },
}
"""The merge keys of lists in the schema of a PodTemplateSpec; below a kind's name, of that kind. A
second key distinguishes items with the same first one, if the patch has it.
"""
_UNITED = ("metadata", "finalizers")
_OF_META = {("metadata", "labels"), ("metadata", "annotations")}
_WORDS = {*_OF_META, ("spec", "nodeSelector")}
"""Mappings whose values are all strings."""
_MAPPINGS = {
    ("metadata",),
    ("spec",),
    ("spec", "affinity"),
    ("spec", "securityContext"),
    *_WORDS,
    *(
        ("spec", each, *inner)
        for each in CONTAINER_LISTS
        for inner in (
            ("resources",),
            ("resources", "limits"),
            ("resources", "requests"),
            ("securityContext",),
        )
    ),
}
"""Fields that must be mappings even if the template lacks them."""


class _Place(NamedTuple):
    """A field: its path in the schema, and the path for messages.

    A path begins at a pod template or with an object's kind; `pods` is where the pod template
    begins in that kind.
    """

    path: tuple[str, ...] = ()
    shown: str = ""
    pods: tuple[str, ...] = ()

    def __truediv__(self, key: str) -> _Place:
        name = clean(key, NAME)
        path = (*self.path, key)
        shown = f"{self.shown}.{name}" if self.shown else name
        return _Place(() if path == self.pods else path, shown, self.pods)

    @property
    def words(self) -> bool:
        return self.path in _WORDS or self.path[1:] in _OF_META

    def item(self, index: int) -> _Place:
        return self._replace(shown=f"{self.shown}[{index}]")

    def fault(self, text: str) -> ValueError:
        return ValueError(f"{self.shown or 'the patch'}: {text}")


def merge_keys() -> Mapping[tuple[str, ...], tuple[str, ...]]:
    """Return the merge keys of lists, by path in the template."""
    return _MERGE_KEYS


def faults(patch: object) -> list[str]:
    """Return the faults of a patch for any template: `field: text`, at most MOST_FAULTS."""
    try:
        check_size(patch)
    except ValueError as fault:
        return [str(fault)]
    return [str(fault) for fault in islice(_faults(patch, _Place()), MOST_FAULTS)]


def merge(template: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of the pod template with the patch applied.

    `template` may be a skeleton (without images, say): other fields are only copied. Raises
    ValueError that names the field, as `spec.containers[0].ports: …`.
    """
    if wrong := faults(patch):
        raise ValueError("; ".join(wrong))
    merged: dict[str, Any] = _mapping(template, patch, _Place())
    _check_containers(template, merged)
    return merged


def merge_object(
    body: Mapping[str, Any], patch: Mapping[str, Any], *, pods: Sequence[str] = ()
) -> dict[str, Any]:
    """Return a copy of an object of a built-in kind with the patch applied.

    `pods` is the path of its pod template, such as ("spec", "template"). Raises ValueError that
    names the field.
    """
    kind = str(body.get("kind"))
    place = _Place((kind,), pods=(kind, *pods) if pods else ())
    check_size(patch)
    if wrong := list(islice(_faults(patch, place), MOST_FAULTS)):
        raise ValueError("; ".join(map(str, wrong)))
    merged = _mapping(body, patch, place)
    if pods:
        _check_containers(_inner(body, pods), _inner(merged, pods), at=".".join(pods))
    return merged


def _inner(body: Any, path: Sequence[str]) -> Mapping[str, Any]:
    for part in path:
        body = body.get(part) if isinstance(body, Mapping) else None
    return body if isinstance(body, Mapping) else {}


def check_size(patch: object) -> None:
    """Raise ValueError if a patch is too deep or too large to be walked."""
    # No recursion: this check guards the functions that have one.
    todo: list[tuple[object, int]] = [(patch, 1)]
    values = text = 0
    while todo:
        value, depth = todo.pop()
        values += 1
        inner: Iterable[object] = ()
        if isinstance(value, Mapping):
            text += sum(map(len, filter(_is_word, value)))
            inner = value.values()
        elif isinstance(value, list):
            inner = value
        elif isinstance(value, str):
            text += len(value)
        if depth > DEPTH:
            raise ValueError(f"the patch: nested deeper than {DEPTH} levels")
        if values > MOST_VALUES or text > MOST_TEXT:
            most = f"{MOST_VALUES} values or {MOST_TEXT // 1024} KiB of text"
            raise ValueError(f"the patch: more than {most}")
        todo += [(each, depth + 1) for each in inner]


def _is_word(value: object) -> bool:
    return isinstance(value, str)


def _faults(value: object, place: _Place) -> Iterator[ValueError]:
    if value is None and place.path:
        return  # removes the key
    must_map = not place.path or place.path in _MAPPINGS
    if isinstance(value, Mapping):
        yield from _faults_of_mapping(value, place)
    elif must_map:
        yield place.fault(f"must be a mapping, not {_kind(value)}")
    elif isinstance(value, list):
        yield from _faults_of_list(value, place)
    elif place.path in _MERGE_KEYS or place.path == _UNITED:
        yield place.fault(f"must be a list, not {_kind(value)}")
    elif place._replace(path=place.path[:-1]).words and not isinstance(value, str):
        yield place.fault(f"must be a string: put {_kind(value)} in quotes")


def _faults_of_mapping(value: Mapping[Any, Any], place: _Place) -> Iterator[ValueError]:
    if place.path in _MERGE_KEYS and not place.shown.endswith("]"):
        yield place.fault("must be a list, not a mapping")
        return
    for key, inner in value.items():
        if not isinstance(key, str):
            yield place.fault("has a key that is no string")
        elif key.startswith("$"):
            yield from _faults_of_directive(key, value, place)
        elif not place.path and key not in ("metadata", "spec"):
            yield (place / key).fault("a pod template has metadata and spec alone")
        else:
            yield from _faults(inner, place / key)


def _faults_of_directive(key: str, value: Mapping[str, Any], place: _Place) -> Iterator[ValueError]:
    here, said = place / key, value[key]
    if key == _DIRECTIVE:
        if said not in ("delete", "replace"):
            yield here.fault("must be delete or replace")
    elif key != _RETAIN:
        yield here.fault(f"is not taken: of the directives there are {_DIRECTIVE} and {_RETAIN}")
    elif not isinstance(said, list) or not set(value) - {key} <= {s for s in said if _is_word(s)}:
        yield here.fault("must be a list of the keys that stay, all of the patch's among them")


def _faults_of_list(items: Sequence[object], place: _Place) -> Iterator[ValueError]:
    keys = _MERGE_KEYS.get(place.path)
    for index, item in enumerate(items):
        here = place.item(index)
        if keys is None:
            yield from _faults_of_plain(item, here)
        elif not isinstance(item, Mapping):
            yield here.fault(f"must be a mapping, not {_kind(item)}")
        elif item.get(_DIRECTIVE) == "replace":
            if len(item) > 1:
                yield here.fault("$patch: replace stands for the whole list, as an item of its own")
        elif _named(item, keys) is None:
            yield here.fault(f"has no {keys[0]}, by which items of this list are merged")
        else:
            yield from _faults_of_mapping(item, here)


def _faults_of_plain(value: object, place: _Place) -> Iterator[ValueError]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if isinstance(key, str) and key.startswith("$"):
                yield (place / key).fault("this list is replaced as a whole: take it out")
            yield from _faults_of_plain(inner, place / str(key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _faults_of_plain(inner, place.item(index))


def _merged(base: Any, value: Any, place: _Place) -> Any:
    if base is not None and _shape(base) is not _shape(value):
        raise place.fault(f"the template has {_kind(base)} there, the patch {_kind(value)}")
    if isinstance(value, Mapping):
        return _mapping(base or {}, value, place)
    if not isinstance(value, list):
        return value
    if place.path in _MERGE_KEYS:
        return _keyed(base or [], value, place)
    if place.path == _UNITED:
        return [*(base or []), *(each for each in value if each not in (base or []))]
    return [_fresh(each) for each in value]


def _mapping(base: Mapping[str, Any], patch: Mapping[str, Any], place: _Place) -> dict[str, Any]:
    directive = patch.get(_DIRECTIVE)
    if directive == "delete":
        return {}
    kept = {} if directive == "replace" else dict(base)
    if _RETAIN in patch:
        kept = {key: value for key, value in kept.items() if key in patch[_RETAIN]}
    for key, value in patch.items():
        if value is None:
            kept.pop(key, None)
        elif not key.startswith("$"):
            kept[key] = _merged(kept.get(key), value, place / key)
    return kept


def _keyed(base: Sequence[Any], patch: Sequence[Any], place: _Place) -> list[Any]:
    """Deletions come first."""
    keys = _MERGE_KEYS[place.path]
    replaces = any(item.get(_DIRECTIVE) == "replace" for item in patch)
    kept = [] if replaces else list(base)
    gone = {_named(item, keys) for item in patch if item.get(_DIRECTIVE) == "delete"}
    kept = [each for each in kept if not gone & _names(each, keys)]
    at, stood, patched = _index(kept, keys), len(kept), dict[int, None]()
    for index, item in enumerate(patch):
        if item.get(_DIRECTIVE) in ("delete", "replace"):
            continue
        name = _named(item, keys)
        found = at.get(name)
        if found is not None:
            kept[found] = _mapping(kept[found], item, place.item(index))
            patched[found] = None
            continue
        if place.path[1:] in {(each,) for each in CONTAINER_LISTS} and not item.get("image"):
            said = f"no container {quoted(item.get('name'))} in the template, and no image"
            raise place.item(index).fault(said)
        kept.append(_mapping({}, item, place.item(index)))
        patched[len(kept) - 1] = None
        at.update(_index(kept[-1:], keys, begin=len(kept) - 1))
    return [kept[index] for index in _order([*patched], stood)]


def _order(patched: Sequence[int], stood: int) -> Iterator[int]:
    """Yield indices in the order that the API server gives items without `$setElementOrder`.

    Patched items keep their order, and so do the others among the `stood` existing ones.
    """
    named, others = set(patched), 0
    for index in patched:
        while index < stood and others < index:
            if others not in named:
                yield others
            others += 1
        yield index
    yield from (index for index in range(others, stood) if index not in named)


def _index(
    items: Sequence[Any], keys: Sequence[str], begin: int = 0
) -> dict[tuple[Any, ...] | None, int]:
    at: dict[tuple[Any, ...] | None, int] = {}
    for index, item in enumerate(items, begin):
        for name in _names(item, keys):
            at.setdefault(name, index)
    return at


def _names(item: object, keys: Sequence[str]) -> set[tuple[Any, ...] | None]:
    whole = _named(item, keys, whole=True)
    return set() if whole is None else {whole, (whole[0], None)}


def _named(item: object, keys: Sequence[str], *, whole: bool = False) -> tuple[Any, Any] | None:
    if not isinstance(item, Mapping):
        return None
    first, second = item.get(keys[0]), item.get(keys[1]) if len(keys) > 1 else None
    if isinstance(first, bool) or not isinstance(first, str | int) or first == "":
        return None
    if whole and second is None and keys[-1] == "protocol":
        second = "TCP"
    return first, second if isinstance(second, str) else None


def _check_containers(template: Mapping[str, Any], merged: Mapping[str, Any], at: str = "") -> None:
    if _containers(template) and not _containers(merged):
        where = f"{at}.spec.containers" if at else "spec.containers"
        raise ValueError(f"{where}: the patch leaves no container")


def _containers(template: Mapping[str, Any]) -> object:
    spec = template.get("spec")
    return spec.get("containers") if isinstance(spec, Mapping) else None


def _fresh(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _fresh(inner) for key, inner in value.items() if inner is not None}
    return [_fresh(inner) for inner in value] if isinstance(value, list) else value


def _shape(value: object) -> type:
    if isinstance(value, Mapping):
        return dict
    return list if isinstance(value, list) else str


def _kind(value: object) -> str:
    match value:
        case Mapping():
            return "a mapping"
        case list():
            return "a list"
        case str():
            return "a string"
        case None:
            return "nothing"
        case bool():
            return "a truth value"
    return "a number"
