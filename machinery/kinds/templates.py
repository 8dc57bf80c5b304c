"""Reads a template by the profile of its kind: numbers, pods, claims.

A malformed one is an InvalidTemplate that names the path. Pure.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from machinery.kinds.expressions import EvaluationError, Scope, holds, read
from machinery.kinds.paths import InvalidTemplate, steps, value_at, values_at
from machinery.kinds.profile import Pods, Profile, kind_name, with_article
from machinery.types.bounds import MOST_UNITS, NAME, clean, quoted

FIELD = "spec.template"
Body = Mapping[str, Any]
MOST_ELEMENTS = 64
"""Elements of a list or map of pods."""
MOST_LOOKED_AT = 4096
"""Mappings and lists of an object in which a label is looked for."""
_PLACING = ("nodeSelector", "tolerations", "affinity")
_LABELS = ("metadata", "labels")
_FORMER = ("spec.template", "spec.jobTemplate.spec.template")


def replicas_in(profile: Profile, template: Body, asked: int | None = None) -> int:
    """Return the wanted replicas: `asked`, the template's own number, or one; capped by its work.

    Raises InvalidTemplate.
    """
    where = profile.replicas
    if where is None:
        return 1
    found = value_at(template, where.path) if asked is None else asked
    field = f"{FIELD}.{where.path}" if asked is None else "spec.replicas"
    wanted = 1 if found is None else number(field, found)
    total = completions_in(profile, template)
    return wanted if total is None else min(wanted, total)


def completions_in(profile: Profile, template: Body) -> int | None:
    """Return the work that is divided with the replicas, or None. Raises InvalidTemplate."""
    path = profile.replicas.total if profile.replicas is not None else ""
    found = value_at(template, path)
    return None if found is None else number(f"{FIELD}.{path}", found)


def is_whole(profile: Profile, template: Body) -> bool:
    return profile.replicas is not None and holds(profile.replicas.whole, template)


def number(field: str, value: Any) -> int:
    """Raises InvalidTemplate, naming the field."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidTemplate(f"{field}: {quoted(value)} is not a number of replicas")
    if value > MOST_UNITS:
        raise InvalidTemplate(f"{field}: {quoted(value)} is more than {MOST_UNITS} replicas")
    return value


class PodSet(msgspec.Struct, frozen=True):
    """One sort of pods of a replica, or of a whole object."""

    path: str
    name: str
    count: int
    template: Body
    made: bool = False
    """Of requests."""


def pods_in(profile: Profile, template: Body) -> Iterator[PodSet]:
    """Yield the pods of one replica, or of the whole object. Raises InvalidTemplate."""
    scope = Scope(template) if any(each.count or each.each for each in profile.pods) else None
    for at, sort in enumerate(profile.pods):
        if scope is None and sort.requests is None:
            for path in filter(None, (sort.template, sort.otherwise)):
                found = value_at(template, path)
                if isinstance(found, Mapping):
                    yield PodSet(path, sort.name or kind_of_pods(path), 1, found)
                    break
            continue
        yield from _pods_of(sort, f"pods[{at}]", scope or Scope(template))


def kind_of_pods(path: str) -> str:
    names = [each for each in steps(path) if each not in ("spec", "template")]
    return names[-1] if names else "pods"


def _pods_of(sort: Pods, field: str, scope: Scope) -> Iterator[PodSet]:
    where = ""
    try:
        for where, key, inner in _elements(sort, scope):
            name, count = _name(sort, key, inner), _count(sort, field, inner)
            if sort.requests is not None:
                yield PodSet(field, name, count, _made(sort, inner), made=True)
            elif (given := _given(sort, inner, where)) is not None:
                yield PodSet(given[0], name, count, given[1])
    except EvaluationError as e:
        at = ".".join(filter(None, (FIELD, where)))
        raise InvalidTemplate(f"{at}: {field} of its kind: {e}") from e


def _given(sort: Pods, scope: Scope, where: str) -> tuple[str, Body] | None:
    """Return the template and its path; None where the object has none.

    Raises InvalidTemplate.
    """
    for path in filter(None, (sort.template, sort.otherwise)):
        found = read(path, scope)
        at = path.replace("item", where, 1) if where else path
        if isinstance(found, Mapping):
            return at, found
        if found is not None:
            raise InvalidTemplate(f"{FIELD}.{at}: must be a mapping, and not {quoted(found)}")
    return None


def _count(sort: Pods, field: str, scope: Scope) -> int:
    found = read(sort.count, scope) if sort.count else None
    whole = int(found) if isinstance(found, float) and found.is_integer() else found
    return 1 if found is None else number(f"{FIELD}: {field}.count of its kind", whole)


def pods_each(profile: Profile, body: Body) -> int:
    """Return the pods of one replica of an object, or of a whole one; 1 if that is unknown."""
    if profile.pod_path or not profile.pods:
        return 1
    scope = Scope(body)
    seen = [sort for sort in profile.pods if sort.labels or sort.requests is None]
    try:
        counts = (
            _count(sort, "pods", inner)
            for sort in seen or profile.pods
            for where, _, inner in _elements(sort, scope)
            if sort.requests is not None or _given(sort, inner, where) is not None
        )
        return max(sum(counts), 1)
    except (EvaluationError, InvalidTemplate):
        return 1


def _elements(sort: Pods, scope: Scope) -> Iterator[tuple[str, str, Scope]]:
    """Yield (path of the element, key, scope); one with an empty path for pods of no list.

    Raises InvalidTemplate.
    """
    if not sort.each:
        yield "", "", scope
        return
    listed = read(sort.each, scope)
    if listed is None:
        return
    if not isinstance(listed, list | Mapping):
        raise InvalidTemplate(f"{FIELD}.{sort.each}: must be a list, and not {quoted(listed)}")
    if len(listed) > MOST_ELEMENTS:
        raise InvalidTemplate(f"{FIELD}.{sort.each}: has more than {MOST_ELEMENTS} elements")
    pairs = listed.items() if isinstance(listed, Mapping) else enumerate(listed)
    for key, item in pairs:
        if sort.template.startswith("item.") and not isinstance(item, Mapping):
            raise InvalidTemplate(
                f"{FIELD}.{sort.each}[{key}]: must be a mapping, and not {quoted(item)}"
            )
        yield f"{sort.each}[{key}]", str(key), scope.within(item, key)


def _name(sort: Pods, key: str, scope: Scope) -> str:
    if not sort.each:
        return sort.name or kind_of_pods(sort.template)
    found = read(sort.name, scope) if sort.name else None
    return clean(key if found is None else str(found), NAME)


def _made(sort: Pods, scope: Scope) -> Body:
    asks: dict[str, Any] = {}
    for name, text in (sort.requests or {}).items():
        amount = read(text, scope)
        if isinstance(amount, float):
            amount = f"{math.ceil(round(amount * 1000, 6))}m"
        if amount is not None:
            asks[name] = amount
    placing = read(sort.placing, scope) if sort.placing else None
    known = placing if isinstance(placing, Mapping) else {}
    kept = {each: known[each] for each in _PLACING if known.get(each)}
    return {"spec": {"containers": [{"name": "main", "resources": {"requests": asks}}], **kept}}


def pod_template(profile: Profile, template: Body) -> Body:
    """Return the template of the only sort of pods; empty if there is none, or several."""
    found = value_at(template, profile.pod_path)
    return found if isinstance(found, Mapping) else {}


Place = tuple[str | int, ...]


def label_places(profile: Profile, body: Body) -> list[Place]:
    """Return where the labels of the pods are set, each once, also if there are none yet."""
    alone = [profile.pod_path] if profile.known and profile.pod_path else []
    paths = alone if profile.known else _FORMER
    path = next((each for each in paths if isinstance(value_at(body, each), Mapping)), "")
    if path:
        return [(*steps(path), *_LABELS)]
    if not profile.known:
        return []
    found = (place for sort in profile.pods for place in _label_places(sort, body))
    return [*dict.fromkeys(found)]


def template_places(profile: Profile, body: Body) -> list[Place]:
    """Return where the pod templates are, each once; empty if some of its pods have none."""
    if not profile.known or any(each.requests is not None for each in profile.pods):
        return []
    return [place[: -len(_LABELS)] for place in label_places(profile, body)]


def labelled_places(body: Any, label: str) -> Iterator[Place]:
    """Yield the places of labels with that one in an object's spec, as far as it is looked at."""
    left: deque[tuple[Place, Any]] = deque([(("spec",), at_place(body, ("spec",)))])
    for _ in range(MOST_LOOKED_AT):
        if not left:
            return
        place, found = left.popleft()
        if place[-1] == _LABELS[-1] and isinstance(found, Mapping) and label in found:
            yield place
            continue
        if isinstance(found, Mapping):
            inner: Iterable[tuple[Any, Any]] = found.items()
        else:
            inner = enumerate(found) if isinstance(found, list) else ()
        left.extend(
            ((*place, key), each) for key, each in inner if isinstance(each, Mapping | list)
        )


def _label_places(sort: Pods, body: Body) -> Iterator[Place]:
    if sort.labels and not sort.each:
        yield steps(sort.labels)
        return
    listed = value_at(body, sort.each) if sort.each else None
    pairs: Iterator[tuple[Any, Any]] = iter([("", body)])
    if sort.each:
        known = listed if isinstance(listed, list | Mapping) else ()
        pairs = iter(known.items()) if isinstance(known, Mapping) else iter(enumerate(known))
    for key, item in itertools.islice(pairs, MOST_ELEMENTS):
        above = (*steps(sort.each), key) if sort.each else ()
        if sort.labels:
            yield (*above, *_below_item(sort.labels))
            continue
        for path in filter(None, (sort.template, sort.otherwise)):
            names = _below_item(path) if sort.each else steps(path)
            if isinstance(at_place(item, names), Mapping):
                yield (*above, *names, *_LABELS)
                break


def _below_item(path: str) -> tuple[str, ...]:
    first, *rest = steps(path)
    return tuple(rest) if first == "item" else (first, *rest)


def at_place(body: Any, place: Place) -> Any:
    """Return the value there; None without one."""
    for step in place:
        if isinstance(step, int):
            body = body[step] if isinstance(body, list) and step < len(body) else None
        else:
            body = body.get(step) if isinstance(body, Mapping) else None
    return body


def put(body: Any, place: Place, value: Any) -> None:
    """Set the value there, in place; all above it must exist."""
    at_place(body, place[:-1])[place[-1]] = value


def runs_once(profile: Profile, template: Body) -> bool:
    return profile.once or holds(profile.once_when, template)


def claims_in(profile: Profile, template: Body) -> tuple[str, ...]:
    """Return the names of the claims that each replica has, and that hold its data."""
    lists = values_at(template, profile.data.claims)
    claims = (each for listed in lists if isinstance(listed, list) for each in listed)
    return tuple(str(value_at(each, "metadata.name") or "") for each in claims)


def first_ordinal(profile: Profile, template: Body) -> int:
    """Return the first ordinal of an object, 0 without one."""
    found = value_at(template, profile.replicas.ordinals) if profile.replicas is not None else None
    return found if type(found) is int and found > 0 else 0


def run_of(kind: str, namespace: str, name: str) -> str:
    """Return the identity of a run: an object of another name is another run."""
    return f"{kind} {namespace}/{name}"


def made_of(profile: Profile, template: Body) -> str:
    """Return the digest of the immutable parts; empty for a kind without any."""
    if not profile.immutable:
        return ""
    parts = {path: value_at(template, path) for path in profile.immutable}
    encoded = msgspec.json.encode(parts, order="deterministic")
    return hashlib.blake2b(encoded, digest_size=8).hexdigest()


def check(profile: Profile, template: Body) -> None:
    """Raise InvalidTemplate, naming the path, if a part is malformed."""
    if profile.fault:
        raise InvalidTemplate(
            f"WorkloadKind {kind_name(profile.group, profile.kind)}: {profile.fault}"
        )
    _mapping(template, ("spec",))
    for path in _read(profile):
        _mapping(template, steps(path)[:-1])
    suspends = profile.suspends_when and value_at(template, profile.suspend_path) is True
    if suspends and not holds(profile.suspends_when, template):
        raise InvalidTemplate(
            f"{FIELD}.{profile.suspend_path}: {with_article(profile.kind)} would fail for good by "
            f"it, unless {profile.suspends_when}"
        )
    replicas_in(profile, template)
    ordinals = profile.replicas.ordinals if profile.replicas is not None else ""
    if ordinals and (start := value_at(template, ordinals)) is not None:
        number(f"{FIELD}.{ordinals}", start)
    for each in profile.pods:
        found = None if each.each else value_at(template, each.template)
        if found is not None and not isinstance(found, Mapping):
            raise _of_another_form(steps(each.template), found)


def _read(profile: Profile) -> Iterator[str]:
    yield from (each.template for each in profile.pods if not each.each)
    if profile.replicas is not None:
        where = profile.replicas
        yield from filter(None, (where.path, where.total, where.ordinals))


def _mapping(body: Any, names: tuple[str, ...]) -> None:
    """Raise InvalidTemplate unless each existing name leads to a mapping."""
    for at, name in enumerate(names, start=1):
        if not isinstance(body, Mapping) or name not in body:
            return
        body = body[name]
        if not isinstance(body, Mapping):
            raise _of_another_form(names[:at], body)


def _of_another_form(names: tuple[str, ...], found: Any) -> InvalidTemplate:
    where = ".".join((FIELD, *names))
    return InvalidTemplate(f"{where}: must be a mapping, and not {quoted(found)}")
