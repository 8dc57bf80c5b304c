"""The health and the counts of a member's object, by the profile of its kind.

`judge` reads an object once, when it arrives. The order is that of kstatus: end, deletion, observed
generation, Stalled, Reconciling, then the profile. Silence is not readiness: a kind without a
profile is ready while its condition Ready is True, and Unknown without one. A member's status may
have any form, and is bounded here. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

from crds.fields.shares import ShareHealth
from machinery.kinds.paths import steps
from machinery.kinds.profile import Profile, When
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

    `health` is Healthy if nothing contradicts it. `counts_of` compares the numbers with a share.
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
    """Whether its own controller has given up replacing outdated pods."""


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


class _Plan(msgspec.Struct, frozen=True, eq=False, gc=False):
    observed: tuple[str, ...]
    ready: tuple[str, ...]
    updated: tuple[str, ...]
    present: tuple[str, ...]
    wanted: tuple[str, ...]
    replicas: tuple[str, ...]
    done: tuple[str, ...]
    total: tuple[str, ...]
    suspended: tuple[str, ...]
    by_condition: bool
    """Whether only the condition Ready tells its readiness."""
    says: Mapping[str, frozenset[str]]
    """The conditions that are read, with their relevant statuses."""


_ANY = frozenset({"True", "False", "Unknown"})


@lru_cache(maxsize=1024)
def _plan_of(profile: Profile) -> _Plan:
    ready, where, end = profile.ready, profile.replicas, profile.ended
    when = [*ready.when, *ready.unless, *profile.degraded]
    when += [end.succeeded, end.failed] if end is not None else []
    by_condition = not (ready.replicas or ready.when or ready.exists)
    says: defaultdict[str, set[str]] = defaultdict(set)
    for each in (When("Stalled"), When("Reconciling"), *when):
        says[each.condition].add(each.status)
    if ready.at_rest:
        says["Progressing"] |= _ANY - {"True"}
    if by_condition:
        says["Ready"] = says["Available"] = set(_ANY)
    return _Plan(
        observed=steps(ready.observed_generation),
        ready=steps(ready.replicas),
        updated=steps(ready.updated),
        present=steps(ready.present),
        wanted=steps(ready.wanted),
        replicas=steps(profile.replicas_path) if profile.scales else (),
        done=steps(end.done) if end is not None else (),
        total=steps(where.total) if where is not None else (),
        suspended=steps(profile.suspended),
        by_condition=by_condition,
        says={kind: frozenset(statuses) for kind, statuses in says.items()},
    )


def judge(profile: Profile, body: Body, *, generation: int = 0, deleting: bool = False) -> Judged:
    """Return the kept part of an object.

    Args:
        profile: that of its kind.
        body: the object, of which `spec` and `status` are read.
        generation: its metadata.generation.
        deleting: whether its deletion was requested.
    """
    plan, status = _plan_of(profile), body.get("status")
    held = _NOTHING
    if type(status) is dict and (listed := status.get("conditions")):
        held = _conditions(listed, generation, plan.says)
    observed = not plan.observed or _observed(body, plan.observed, generation)
    message = ""
    if deleting or not observed:
        health = _PROGRESSING
    elif held or plan.suspended or plan.by_condition:
        health, message = _health(profile, plan, body, held)
    else:
        health = _HEALTHY
    replicas = _said(body, plan.replicas) if plan.replicas else None
    if not plan.ready:
        return Judged(health, observed, replicas=replicas, message=message)
    ready = _number(body, plan.ready)
    updated = _number(body, plan.updated) if plan.updated else ready
    if plan.wanted or profile.ended is not None:
        counts = ready, updated
        return _of_its_own(profile, plan, body, held, counts, (health, observed, message))
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

    A scaled Deployment loses ProgressDeadlineExceeded for one more deadline (1.36.3), although
    nothing has changed. `given_up` stays until nothing is outdated.
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
    """Return how much of a part of the work is done; None for all the work of the object.

    An object that stands while its part is cut to what was left of it has done the rest before.
    """
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


def _of_its_own(
    profile: Profile,
    plan: _Plan,
    body: Body,
    held: _Conditions,
    counts: tuple[int, int],
    found: _Found,
) -> Judged:
    """Return the state of a kind whose own controller decides the number, or that ends."""
    (ready, updated), (health, observed, message) = counts, found
    if plan.wanted:
        wanted = _number(body, plan.wanted)
        # Until its controller has observed it, the counts are 0 of 0.
        seen = not plan.observed or _at(body, plan.observed) is not None
        whole = int(observed and seen and ready >= wanted)
        stands = whole if wanted and health is _HEALTHY else 0
        outdated = max(wanted - updated, 0)
        return Judged(health, observed, whole, whole, outdated, stands, None, message, wanted)
    result = _result(profile, held)
    if result is Result.SUCCEEDED:
        health, message = _HEALTHY, ""
    elif result is Result.FAILED:
        health, message = _DEGRADED, _words(profile, held)
    done = _number(body, plan.done) if plan.done else 0
    total = _said(body, plan.total) if plan.total else None
    lasting = ready if health is _HEALTHY else 0
    return Judged(
        health, observed, ready, ready, 0, lasting, None, message, None, done, total, result
    )


def _health(
    profile: Profile, plan: _Plan, body: Body, held: _Conditions
) -> tuple[ShareHealth, str]:
    if plan.suspended and _at(body, plan.suspended) is True:
        return _SUSPENDED, ""
    if held:
        if _holds(held, "Stalled"):
            return _DEGRADED, _message(held["Stalled"])
        if _holds(held, "Reconciling"):
            return _PROGRESSING, _message(held["Reconciling"])
        for each in profile.degraded:
            if _is(each, held):
                return _DEGRADED, _message(held[each.condition])
    if plan.by_condition:
        return _by_condition(held)
    ready = profile.ready
    if (ready.when and not all(_is(each, held) for each in ready.when)) or (
        ready.unless and any(_is(each, held) for each in ready.unless)
    ):
        return _PROGRESSING, ""
    return _HEALTHY, ""


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


def _result(profile: Profile, held: _Conditions) -> Result | None:
    end = profile.ended
    if end is None or not held:
        return None
    if _is(end.succeeded, held):
        return Result.SUCCEEDED
    return Result.FAILED if _is(end.failed, held) else None


def _words(profile: Profile, held: _Conditions) -> str:
    end = profile.ended
    return _message(held.get(end.failed.condition, _NOTHING)) if end is not None else ""


def _rests(profile: Profile, held: _Conditions) -> bool:
    return held.get("Progressing", _NOTHING).get("reason") in profile.ready.at_rest


def _conditions(listed: Any, generation: int, says: Mapping[str, frozenset[str]]) -> _Conditions:
    """Return the relevant conditions, without those of an older generation."""
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


def _is(when: When, held: _Conditions) -> bool:
    found = held.get(when.condition)
    if found is None or found.get("status") != when.status:
        return False
    return not when.reason or found.get("reason") == when.reason


def _holds(held: _Conditions, kind: str) -> bool:
    found = held.get(kind)
    return found is not None and found.get("status") == "True"


def _message(condition: Body) -> str:
    said = condition.get("message")
    return clean(said, MESSAGE) if isinstance(said, str) else ""


def _observed(body: Body, path: tuple[str, ...], generation: int) -> bool:
    """Whether the status is of the present generation; True for a kind without one."""
    about = _at(body, path)
    if type(about) is int:
        return about >= generation
    if type(about) is str and len(about) <= _DIGITS and about.isascii() and about.isdigit():
        return int(about) >= generation
    return True


def _number(body: Any, path: tuple[str, ...]) -> int:
    """Return a count within its bounds; 0 if it is missing: Kubernetes omits a 0."""
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
