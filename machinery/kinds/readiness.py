"""The health and the counts of a member's object, by the profile of its kind.

The order is that of kstatus: end, deletion, observed generation, Stalled, Reconciling, then the
profile. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from enum import StrEnum
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

from crds.fields.shares import ShareHealth
from machinery.kinds.expressions import (
    Comparison,
    EvaluationError,
    Path,
    Scope,
    read,
    value,
    why_not,
)
from machinery.kinds.fieldpaths import as_text
from machinery.kinds.paths import steps
from machinery.kinds.profile import Profile, conditions_of
from machinery.types.bounds import CONDITIONS, MESSAGE, MOST_UNITS, clean

Body: TypeAlias = Mapping[str, Any]
_Conditions: TypeAlias = Mapping[str, Body]
_NOTHING: Body = {}
_HEALTHY, _PROGRESSING, _DEGRADED = (
    ShareHealth.HEALTHY,
    ShareHealth.PROGRESSING,
    ShareHealth.DEGRADED,
)
_SUSPENDED, _UNKNOWN = ShareHealth.SUSPENDED, ShareHealth.UNKNOWN
_DIGITS = 19
"""A generation is a number of 64 bits."""


class Result(StrEnum):
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class Judged(msgspec.Struct, frozen=True, gc=False):
    """The kept part of an object's status.

    `health` is Healthy if nothing contradicts it.
    """

    health: ShareHealth = _UNKNOWN
    observed: bool = True
    """Whether the status is of the present generation."""
    ready: int | None = None
    """The number of ready replicas; None if all or none are ready."""
    updated: int = 0
    outdated: int = 0
    lasting: int = 0
    """The ready replicas that are not being replaced: other replicas may rely on them."""
    replicas: int | None = None
    """The number in its spec; None of a kind that does not scale by it."""
    message: str = ""
    wanted: int | None = None
    """The pods that its own controller wants, if that decides."""
    done: int = 0
    total: int | None = None
    """Pods that must succeed, if its spec has a number."""
    result: Result | None = None
    given_up: bool = False
    """Whether its controller has given up replacing outdated pods."""
    holds: str = ""
    """Why it stays where it is."""


class Readiness(msgspec.Struct, frozen=True, gc=False):
    """The counts of a share.

    Succeeded replicas count as ready. `updated` and `outdated` tell the template; outdated ones may
    be ready. `observed`: the numbers are of the present generation. `lasting`: ready replicas that
    other replicas may rely on.
    """

    ready: int
    updated: int
    observed: bool = True
    succeeded: int = 0
    failed: int = 0
    outdated: int = 0
    lasting: int = 0
    health: ShareHealth = _PROGRESSING

    @property
    def finished(self) -> int:
        return self.succeeded + self.failed


ABSENT = Readiness(0, 0)
"""That of a missing object."""


class _Test(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A condition of a profile; `kind` and `status` if it asks for a condition of the object."""

    text: str
    kind: str = ""
    status: str = ""


_NEVER = _Test("")


class _Plan(msgspec.Struct, frozen=True, eq=False, gc=False):
    observed: tuple[str, ...]
    ready: tuple[str, ...]
    updated: tuple[str, ...]
    present: tuple[str, ...]
    wanted: tuple[str, ...]
    replicas: tuple[str, ...]
    done: tuple[str, ...]
    total: tuple[str, ...]
    suspended: _Test
    degraded: _Test
    when: tuple[_Test, ...]
    succeeded: _Test
    failed: _Test
    holds: _Test
    by_condition: bool
    """Whether only the condition Ready tells its readiness."""
    says: Mapping[str, frozenset[str]]
    computed: Mapping[str, str]
    """The numbers that are expressions, by the field `_COMPUTED` of their name."""
    asks: bool
    """Whether its health depends on more than Stalled and Reconciling."""
    scoped: bool
    """Whether anything is asked of more than conditions and paths of numbers."""
    sizes: bool


_ANY = frozenset({"True", "False", "Unknown"})
_COMPUTED = "$"


@lru_cache(maxsize=1024)
def _plan_of(profile: Profile) -> _Plan:
    ready, where, end = profile.ready, profile.replicas, profile.ended
    by_condition = not (ready.replicas or ready.when or ready.exists)
    computed: dict[str, str] = {}
    tests = {field: _test(text) for field, text in conditions_of(profile)}
    says: defaultdict[str, set[str]] = defaultdict(set)
    for kind, status in (("Stalled", "True"), ("Reconciling", "True"), *_asked(tests.values())):
        says[kind].add(status)
    if ready.at_rest or ready.gives_up:
        says["Progressing"] |= _ANY - {"True"}
    if by_condition:
        says["Ready"] = says["Available"] = set(_ANY)

    def number(text: str) -> tuple[str, ...]:
        if text and not isinstance(value(text), Path):
            computed[text] = text
            return (_COMPUTED, text)
        return steps(text)

    numbers = (number(ready.replicas), number(ready.updated))
    programs = [each.text for each in tests.values() if each.text and not each.kind]
    return _Plan(
        observed=steps(ready.observed_generation),
        ready=numbers[0],
        updated=numbers[1],
        present=steps(ready.present),
        wanted=steps(ready.wanted),
        replicas=steps(profile.replicas_path) if profile.scales else (),
        done=steps(end.done) if end is not None else (),
        total=steps(where.total) if where is not None else (),
        suspended=tests["suspended"],
        degraded=tests["degraded"],
        when=tuple(each for field, each in tests.items() if field.startswith("ready.when")),
        succeeded=tests.get("ended.succeeded", _NEVER),
        failed=tests.get("ended.failed", _NEVER),
        holds=tests.get("holds.when", _NEVER),
        by_condition=by_condition,
        says={kind: frozenset(statuses) for kind, statuses in says.items()},
        computed=computed,
        asks=by_condition or any(each.text for each in tests.values()),
        scoped=bool(computed or programs or profile.holds),
        sizes=bool(computed)
        or any(not isinstance(value(each), Path | Comparison) for each in programs),
    )


def reads_whole(profile: Profile) -> bool:
    """Whether spec and metadata of an object are read, too."""
    asked = bool(profile.pods or profile.status_fields) or not profile.known
    return asked or _plan_of(profile).scoped


def fields_of(profile: Profile, body: Body) -> dict[str, str]:
    """Return the values that a profile wants told of an object; one that fails is left out."""
    if not profile.status_fields:
        return {}
    meta, status = body.get("metadata"), body.get("status")
    generation = meta.get("generation") if isinstance(meta, Mapping) else None
    listed = status.get("conditions") if isinstance(status, Mapping) else None
    said = _statuses(listed, generation if type(generation) is int else 0)
    scope, found = Scope(body, conditions=said), {}
    for each in profile.status_fields:
        with suppress(EvaluationError):
            found[each.name] = as_text(read(each.value, scope))
    return found


def _test(text: str) -> _Test:
    found = value(text) if text else None
    if (
        isinstance(found, Comparison)
        and found.equal
        and found.names[0] == "conditions"
        and len(found.names) == 2
    ):
        return _Test(text, found.names[1], str(found.literal))
    return _Test(text)


def _asked(tests: Iterable[_Test]) -> Iterator[tuple[str, str]]:
    """Yield the (condition, status) of tests. Its absence is told, so each status counts."""
    for each in tests:
        if each.kind:
            yield from ((each.kind, status) for status in _ANY | {each.status})


class _Asked:
    __slots__ = ("body", "held", "scope")

    def __init__(self, body: Body, held: _Conditions, scope: Scope | None) -> None:
        self.body, self.held, self.scope = body, held, scope

    def why_not(self, test: _Test) -> str:
        """Return why a condition does not hold; empty if it does. Raises TooCostly."""
        if test.kind:
            found = self.held.get(test.kind)
            if found is None:
                return f"conditions.{test.kind} is missing"
            if found.get("status") == test.status:
                return ""
            return _message(found) or f"conditions.{test.kind} is not {test.status}"
        if not test.text:
            return "nothing says so"
        return why_not(test.text, self.scope or Scope(self.body))

    def holds(self, test: _Test) -> bool:
        return bool(test.text) and not self.why_not(test)

    def says(self, kind: str) -> bool:
        found = self.held.get(kind)
        return found is not None and found.get("status") == "True"

    def message(self, test: _Test) -> str:
        return _message(self.held.get(test.kind, _NOTHING)) if test.kind else ""


def judge(
    profile: Profile,
    body: Body,
    *,
    generation: int = 0,
    deleting: bool = False,
) -> Judged:
    """Return the kept part of an object.

    Args:
        profile: that of its kind.
        body: the object, of which `spec` and `status` are read, and `metadata` by expressions.
        generation: its metadata.generation.
        deleting: whether its deletion was requested.
    """
    if profile.fault:
        return Judged(message=profile.fault)
    plan, status = _plan_of(profile), body.get("status")
    held, scope = _NOTHING, None
    if type(status) is dict and (listed := status.get("conditions")):
        held = _conditions(listed, generation, plan.says)
    if not plan.scoped:
        return _judged(profile, plan, body, held, scope, generation, deleting)
    try:
        scope = _scope(plan, body, generation)
        body = {**body, _COMPUTED: {name: read(name, scope) for name in plan.computed}}
        found = _judged(profile, plan, body, held, scope, generation, deleting)
        stays = _Asked(body, held, scope).holds(plan.holds)
    except EvaluationError as e:
        return Judged(_UNKNOWN, message=str(e), ready=0 if plan.ready else None)
    holds = profile.holds.text if profile.holds is not None and stays else ""
    return msgspec.structs.replace(found, holds=holds) if holds else found


def _scope(plan: _Plan, body: Body, generation: int) -> Scope:
    """Raises TooCostly."""
    status = body.get("status")
    listed = status.get("conditions") if type(status) is dict else None
    scope = Scope({"metadata": {}, **body})
    if plan.sizes:
        scope.check()
    return Scope(scope.values, inside=scope, conditions=_statuses(listed, generation))


def _statuses(listed: Any, generation: int) -> dict[str, str]:
    """Return the status of each condition by its type, without those of an older generation."""
    found: dict[str, str] = {}
    for each in listed[:CONDITIONS] if type(listed) is list else ():
        if type(each) is not dict or _is_older(each, generation):
            continue
        kind, status = each.get("type"), each.get("status")
        if type(kind) is str and type(status) is str:
            found.setdefault(kind, status)
    return found


def _is_older(condition: Body, generation: int) -> bool:
    about = condition.get("observedGeneration")
    return type(about) is int and about < generation


def _judged(
    profile: Profile,
    plan: _Plan,
    body: Body,
    held: _Conditions,
    scope: Scope | None,
    generation: int,
    deleting: bool,
) -> Judged:
    """Raises EvaluationError."""
    observed = not plan.observed or _observed(body, plan.observed, generation)
    message = ""
    if deleting or not observed:
        health = _PROGRESSING
    elif held or plan.asks:
        health, message = _health(profile, plan, _Asked(body, held, scope))
    else:
        health = _HEALTHY
    replicas = _said(body, plan.replicas) if plan.replicas else None
    if not plan.ready and profile.ended is None:
        return Judged(health, observed, replicas=replicas, message=message)
    ready = _number(body, plan.ready)
    if plan.when and health is _PROGRESSING and observed:
        ready = 0  # its profile says when it is ready
    updated = _number(body, plan.updated) if plan.updated else ready
    if plan.wanted or profile.ended is not None:
        counts = ready, updated
        asked = _Asked(body, held, scope)
        return _of_its_own(plan, asked, counts, (health, observed, message))
    outdated = max(_number(body, plan.present) - updated, 0) if plan.present else 0
    # Ready pods stay ready if something newer has failed, or if another number is requested.
    stands = not observed or health is _HEALTHY or health is _DEGRADED
    lasting = ready if stands and not deleting else 0
    rests = profile.ready.replaces and _rests(profile, held)
    if outdated and lasting and profile.ready.replaces and not rests:
        lasting = max(lasting - outdated, 0)
    given_up = rests and health is _DEGRADED
    return Judged(
        health, observed, ready, updated, outdated, lasting, replicas, message, given_up=given_up
    )


def of_same_template(before: Judged, now: Judged) -> Judged:
    """Return `now` for an object whose template is that of `before`.

    A scaled Deployment loses ProgressDeadlineExceeded for one more deadline (1.36.3).
    """
    if not before.given_up or now.given_up or now.ready is None:
        return now
    if not now.observed:
        return msgspec.structs.replace(now, given_up=True, message=before.message)
    if not now.outdated:
        return now
    return msgspec.structs.replace(
        now, given_up=True, health=_DEGRADED, message=before.message, lasting=now.ready
    )


def done_of(judged: Judged, part: int | None) -> int:
    """Return how much of a part of the work is done; None for all the work of the object."""
    total = judged.total
    before = max(total - part, 0) if total is not None and part is not None else 0
    return max(judged.done - before, 0)


def counts_of(judged: Judged | None, asked: int) -> Readiness:
    """Return the counts of a share of `asked` replicas; without numbers all or none are ready."""
    if judged is None:
        return ABSENT
    health, ready = judged.health, judged.ready
    if judged.result is not None or judged.done:
        return _of_what_ends(judged, asked)
    if ready is None:
        ready = asked if health is _HEALTHY else 0
        return Readiness(ready, ready, judged.observed, 0, 0, 0, ready, health)
    if not judged.observed:
        ready = min(ready, asked)
        return Readiness(ready, 0, False, 0, 0, 0, min(judged.lasting, ready), health)
    outdated = judged.outdated
    if health is _HEALTHY and (ready < asked or outdated):
        health = _PROGRESSING
    return Readiness(ready, judged.updated, True, 0, 0, outdated, judged.lasting, health)


def crashed(profile: Profile, readiness: Readiness) -> Readiness:
    """Return the counts of a share of which pods that were ready wait for a failing container."""
    runs_on = profile.made_by is not None and profile.ended is None and profile.ready.replicas
    if not runs_on or readiness.health not in (_HEALTHY, _PROGRESSING):
        return readiness
    return msgspec.structs.replace(readiness, health=_DEGRADED)


def available_in(
    profile: Profile, judged: Judged | None, readiness: Readiness, *, pods: int, seen: int
) -> int:
    """Return the replicas that have been ready for long enough.

    Args:
        profile: that of the object's kind.
        judged: the kept part of the object.
        readiness: its counts.
        pods: its pods that have been ready for long enough.
        seen: all its pods. Those of a custom kind may be unknown: then its own counts apply.
    """
    if judged is None:
        return 0
    if judged.wanted is not None:
        return min(readiness.ready, int(pods >= judged.wanted))
    if profile.ready.exists or (profile.made_by is None and not seen):
        return readiness.ready
    return min(readiness.ready, pods + readiness.succeeded)


def _of_what_ends(judged: Judged, asked: int) -> Readiness:
    # With more completions than parallel pods, each success makes room for the next pod.
    done, total, health = judged.done, judged.total, judged.health
    if judged.result is Result.SUCCEEDED:
        return Readiness(asked, asked, succeeded=asked, lasting=asked, health=health)
    ready = min((judged.ready or 0) + done, asked)
    missing = total - done if total is not None and total > asked else asked - done
    succeeded = asked - min(max(missing, 0), asked)
    failed = asked - succeeded if judged.result is Result.FAILED else 0
    if ready < asked and health is _HEALTHY:
        health = _PROGRESSING
    return Readiness(ready, ready, True, succeeded, failed, lasting=ready, health=health)


_Found: TypeAlias = tuple[ShareHealth, bool, str]
"""Its health, whether its status is of the present generation, and a message."""


def _of_its_own(plan: _Plan, asked: _Asked, counts: tuple[int, int], found: _Found) -> Judged:
    body, (ready, updated), (health, observed, message) = asked.body, counts, found
    if plan.wanted:
        wanted = _number(body, plan.wanted)
        # Until its controller has observed it, the counts are 0 of 0.
        seen = not plan.observed or _at(body, plan.observed) is not None
        whole = int(observed and seen and ready >= wanted)
        stands = whole if wanted and health is _HEALTHY else 0
        outdated = max(wanted - updated, 0)
        return Judged(health, observed, whole, whole, outdated, stands, None, message, wanted)
    result = _result(plan, asked)
    if result is Result.SUCCEEDED:
        health, message = _HEALTHY, ""
    elif result is Result.FAILED:
        health, message = _DEGRADED, asked.message(plan.failed)
    done = _number(body, plan.done) if plan.done else 0
    total = _said(body, plan.total) if plan.total else None
    if not plan.ready:
        return Judged(health, observed, message=message, result=result)
    lasting = ready if health is _HEALTHY else 0
    return Judged(
        health, observed, ready, ready, 0, lasting, None, message, None, done, total, result
    )


def _health(profile: Profile, plan: _Plan, asked: _Asked) -> tuple[ShareHealth, str]:
    """Raises EvaluationError."""
    held = asked.held
    if plan.suspended.text and asked.holds(plan.suspended):
        return _SUSPENDED, ""
    if held and (found := _by_the_usual(profile, asked)) is not None:
        return found
    if plan.degraded.text and asked.holds(plan.degraded):
        return _DEGRADED, asked.message(plan.degraded)
    if plan.by_condition:
        return _by_condition(held)
    for each in plan.when:
        if why := asked.why_not(each):
            return _PROGRESSING, why
    return _HEALTHY, ""


def _by_the_usual(profile: Profile, asked: _Asked) -> tuple[ShareHealth, str] | None:
    held = asked.held
    if asked.says("Stalled"):
        return _DEGRADED, _message(held["Stalled"])
    if asked.says("Reconciling"):
        return _PROGRESSING, _message(held["Reconciling"])
    stuck, found = profile.ready.gives_up, held.get("Progressing", _NOTHING)
    if stuck and (found.get("status"), found.get("reason")) == ("False", stuck):
        return _DEGRADED, _message(found)
    return None


def _by_condition(held: _Conditions) -> tuple[ShareHealth, str]:
    ready, available = held.get("Ready"), held.get("Available")
    if ready is None:
        if available is None or available.get("status") != "False":
            return _UNKNOWN, ""
        return _PROGRESSING, _message(available)
    if ready.get("status") != "True":
        return _PROGRESSING, _message(ready)
    if available is not None and available.get("status") == "False":
        return _PROGRESSING, _message(available)
    return _HEALTHY, ""


def _result(plan: _Plan, asked: _Asked) -> Result | None:
    if asked.holds(plan.succeeded):
        return Result.SUCCEEDED
    return Result.FAILED if asked.holds(plan.failed) else None


def _rests(profile: Profile, held: _Conditions) -> bool:
    return held.get("Progressing", _NOTHING).get("reason") in profile.ready.at_rest


def _conditions(listed: Any, generation: int, says: Mapping[str, frozenset[str]]) -> _Conditions:
    found: dict[str, Body] = {}
    for each in listed[:CONDITIONS] if type(listed) is list else ():
        if type(each) is not dict or type(kind := each.get("type")) is not str:
            continue
        statuses = says.get(kind)
        if statuses is None or type(status := each.get("status")) is not str:
            continue
        if status in statuses and kind not in found:
            about = each.get("observedGeneration")
            if type(about) is not int or about >= generation:
                found[kind] = each
    return found


def _message(condition: Body) -> str:
    said = condition.get("message")
    return clean(said, MESSAGE) if isinstance(said, str) else ""


def _observed(body: Body, path: tuple[str, ...], generation: int) -> bool:
    """True for a kind without one."""
    about = _at(body, path)
    if type(about) is int:
        return about >= generation
    if type(about) is str and len(about) <= _DIGITS and about.isascii() and about.isdigit():
        return int(about) >= generation
    return True


def _number(body: Any, path: tuple[str, ...]) -> int:
    """0 if it is missing."""
    for name in path:
        if type(body) is not dict:
            return 0
        body = body.get(name)
    if type(body) is int and body > 0:
        return min(body, MOST_UNITS)
    return 0


def _said(body: Any, path: tuple[str, ...]) -> int | None:
    return _number(body, path) if type(_at(body, path)) is int else None


def _at(body: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if type(body) is not dict:
            return None
        body = body.get(name)
    return body
