"""What `stowage plan` says of an edit and of letting go, in the words of the kind. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from crds.names import Edits
from crds.workload import Adoption, OnDelete
from machinery.kinds.paths import InvalidTemplate, value_at
from machinery.kinds.profile import Profile, with_article
from machinery.kinds.table import profile_of_main
from machinery.kinds.templates import claims_in, pods_in, replicas_in

_EDITS: Mapping[Edits, str] = {
    Edits.NEW_PODS: "the edited template is not rolled out: pods that run keep the one of before",
    Edits.RESTARTS: "the edited template runs the whole object anew",
}
Spec = Mapping[str, Any]


def notes(spec: Spec, before: Spec | None) -> Iterator[str]:
    """Yield a line for each; `before` is the spec on the hub, None without one."""
    profile = profile_of_main(spec)
    lets_go = spec.get("onDelete") == OnDelete.ORPHAN.value
    takes_over = spec.get("adoption") not in (None, Adoption.NEVER.value)
    if (lets_go or takes_over) and profile.lets_go:
        yield f"orphan: {profile.lets_go}"
    if before is None or profile_of_main(before) is not profile:
        return
    now, then = (each.get("template") or {} for each in (spec, before))
    if profile.data.go_with_replicas and claims_in(profile, now):
        wanted, had = _replicas(profile, spec), _replicas(profile, before)
        if wanted is not None and had is not None and wanted < had:
            deletes = f"{with_article(profile.kind)} deletes the claims"
            yield f"data: {deletes} of the {had - wanted} that go"
    if _pods(profile, now) != _pods(profile, then) and (words := _EDITS.get(profile.edits)):
        yield f"edits: {words}"
    for each in profile.warns:
        if value_at(now, each.path) != value_at(then, each.path):
            yield f"edits: {each.text}"


def _replicas(profile: Profile, spec: Spec) -> int | None:
    try:
        return replicas_in(profile, spec.get("template") or {}, spec.get("replicas"))
    except InvalidTemplate:
        return None


def _pods(profile: Profile, template: Spec) -> list[tuple[str, Any]]:
    try:
        return [(each.name, each.template) for each in pods_in(profile, template)]
    except InvalidTemplate:
        return []
