"""The page of the kinds that are built in, from their profiles in `machinery/kinds/`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from crds.names import Edits, TtlWhen
from machinery.kinds.builtin import PROFILES
from machinery.kinds.profile import Pods, Profile
from machinery.kinds.wellknown import WELL_KNOWN
from website.markdown import code, page, table

_COLUMNS = ("kind", "replicas", "pods", "ready", "ends", "once", "more")


def known_kinds() -> str:
    """Return the page."""
    ours = [each for each in PROFILES if not each.ready.exists or each.pods]
    exist = sorted(each.kind for each in PROFILES if each not in ours)
    return page(
        "Known kinds",
        "The kinds that are built in, from their profiles. A [WorkloadKind](kinds/workloadkind.md)"
        " of the hub takes the place of one of others. [What a kind is](../kinds.md) tells what"
        " the words mean.",
        [
            "## Of Kubernetes",
            table(_COLUMNS, map(_row, sorted(ours, key=_name))),
            f"Ready when they exist, whole and without room: {', '.join(exist)}.",
            "## Of others",
            table(_COLUMNS, map(_row, sorted(WELL_KNOWN, key=_name))),
        ],
    )


def _name(profile: Profile) -> tuple[str, str]:
    return profile.kind, profile.group


def _row(profile: Profile) -> tuple[str, ...]:
    group = profile.group or "core"
    return (
        f"{profile.kind} {group}/{', '.join(profile.versions)}",
        _replicas(profile),
        ", ".join(dict.fromkeys(map(_pods, profile.pods))),
        _ready(profile),
        _end(profile),
        "yes" if profile.once else "",
        "; ".join(_more(profile)),
    )


def _replicas(profile: Profile) -> str:
    if profile.replicas is None:
        return "whole, on every cluster that matches" if profile.everywhere else "whole"
    total = profile.replicas.total
    return code(profile.replicas.path) + (f", at most {code(total)}" if total else "")


def _pods(pods: Pods) -> str:
    if pods.each:
        return f"each of {code(pods.each)}"
    return code(pods.template) if pods.template else f"{pods.name}, by its requests"


def _ready(profile: Profile) -> str:
    ready = profile.ready
    if ready.exists:
        return "when it exists"
    said = [*filter(None, (ready.replicas,)), *ready.when]
    return " and ".join(map(code, said)) or "its condition `Ready`"


def _end(profile: Profile) -> str:
    end = profile.ended
    if end is None:
        return ""
    when = {TtlWhen.ENDED: "once its end is stored", TtlWhen.CREATED: "when it is made"}
    ttl = f"; {code(end.ttl)} is sent {when[end.ttl_when]}" if end.ttl else ""
    gone = "; what failed is deleted once that is stored" if end.delete_failed else ""
    return f"{code(end.succeeded)} or {code(end.failed)}{ttl}{gone}"


def _more(profile: Profile) -> Iterator[str]:
    let_go = profile.orphan and not profile.adopts
    said = (
        (profile.data.always, "holds data always"),
        (profile.data.claims, f"data in {code(profile.data.claims)}"),
        (profile.suspended, f"suspended: {code(profile.suspended)}"),
        (profile.suspends_when, f"suspended only if {code(profile.suspends_when)}"),
        (profile.degraded, f"Degraded: {code(profile.degraded)}"),
        (profile.edits is Edits.NEW_PODS, "pods keep the template that they were made of"),
        (profile.edits is Edits.RESTARTS, "an edited template runs it anew"),
        (profile.immutable, f"as created: {_codes(profile.immutable)}"),
        (profile.strip, f"never sent: {_codes(profile.strip)}"),
        (profile.ignore_fields, f"the member's: {_codes(profile.ignore_fields)}"),
        (profile.adopts, "takes up the pods that an object of its name left"),
        (let_go, f"let go and made again: {profile.orphan}"),
    )
    yield from (text for holds, text in said if holds)
    yield from (each.text for each in profile.warns)


def _codes(paths: Iterable[str]) -> str:
    return ", ".join(map(code, paths))
