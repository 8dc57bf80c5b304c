"""Reads a template by the profile of its kind: numbers, pods, claims.

The hub stores templates unchecked. A malformed one is an InvalidTemplate that names the path. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from machinery.kinds.paths import InvalidTemplate, steps, value_at
from machinery.kinds.profile import Pods, Profile
from machinery.types.bounds import MOST_UNITS, quoted

FIELD = "spec.template"
Body = Mapping[str, Any]
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
    case = profile.replicas.whole if profile.replicas is not None else None
    return case is not None and case.holds(template)


def number(field: str, value: Any) -> int:
    """Return a number of replicas. Raises InvalidTemplate, naming the field."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidTemplate(f"{field}: {quoted(value)} is not a number of replicas")
    if value > MOST_UNITS:
        raise InvalidTemplate(f"{field}: {quoted(value)} is more than {MOST_UNITS} replicas")
    return value


def pods_in(profile: Profile, template: Body) -> Iterator[tuple[Pods, Body]]:
    for each in profile.pods:
        found = value_at(template, each.template)
        if isinstance(found, Mapping):
            yield each, found


def pod_template(profile: Profile, template: Body) -> Body:
    """Return the template of the only sort of pods; empty if there is none, or several."""
    found = value_at(template, profile.pod_path)
    return found if isinstance(found, Mapping) else {}


def labelled_path(profile: Profile, body: Body) -> str:
    """Return the path of the pod template with the Workload's label; empty for none.

    Earlier releases set the label in any kind with a built-in kind's path. An existing object keeps
    it, because another label would restart its pods.
    """
    if profile.known:
        return profile.pod_path
    return next((each for each in _FORMER if isinstance(value_at(body, each), Mapping)), "")


def runs_once(profile: Profile, template: Body) -> bool:
    case = profile.once_when
    return profile.once or (case is not None and case.holds(template))


def claims_in(profile: Profile, template: Body) -> tuple[str, ...]:
    """Return the names of the claims that each replica has, and that hold its data."""
    found = value_at(template, profile.claims)
    listed = found if isinstance(found, list) else ()
    return tuple(str(value_at(each, "metadata.name") or "") for each in listed)


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
    """Raise InvalidTemplate, naming the path, if a part that is read or written is malformed."""
    if not profile.known:
        _mapping(template, ("spec",))
    for path in _read(profile):
        _mapping(template, steps(path)[:-1])
    replicas_in(profile, template)
    ordinals = profile.replicas.ordinals if profile.replicas is not None else ""
    if ordinals and (start := value_at(template, ordinals)) is not None:
        number(f"{FIELD}.{ordinals}", start)
    for each in profile.pods:
        found = value_at(template, each.template)
        if found is not None and not isinstance(found, Mapping):
            raise _of_another_form(steps(each.template), found)


def _read(profile: Profile) -> Iterator[str]:
    yield from (each.template for each in profile.pods)
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
