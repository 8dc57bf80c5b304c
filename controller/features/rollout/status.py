"""The fields of a Workload's status that tell of its rollout, from typed values to a patch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from controller.model.rollout import RevisionException, RolloutState, RolloutStatus
from crds.fields.rollout import MOST_WAVES

_NAMES = RolloutStatus.__struct_encode_fields__


def revisions_of(exceptions: Mapping[str, str], otherwise: str) -> list[RevisionException]:
    """Return exceptions as status.revisions has them, of the most frequent revisions.

    Clusters of a rarer one get `otherwise`: the schema limits how many revisions there are.
    """
    named: dict[str, list[str]] = {}
    for cluster, revision in sorted(exceptions.items()):
        named.setdefault(revision, []).append(cluster)
    if len(named) > MOST_WAVES:
        named.setdefault(otherwise, [])
        order = sorted(named, key=lambda each: (each == otherwise, len(named[each]), each))
        for rare in order[:-MOST_WAVES]:
            named[otherwise] += named.pop(rare)
    return [RevisionException(each, sorted(named[each])) for each in sorted(named)]


def changes_of(
    state: RolloutState, status: RolloutStatus, exceptions: Mapping[str, str]
) -> dict[str, Any]:
    """Return what a merge patch of the status has to say; nothing where all of it is stored."""
    fields: dict[str, Any] = {}
    if rollout := _changed(state.stored, status):
        fields["rollout"] = rollout
    revisions = revisions_of(exceptions, status.stable or status.revision)
    if revisions != state.listed:
        fields["revisions"] = msgspec.to_builtins(revisions)
    return fields


def _changed(stored: RolloutStatus | None, status: RolloutStatus) -> dict[str, Any]:
    """Return the fields of status.rollout that differ; None takes one off."""
    if stored == status:
        return {}
    before = {} if stored is None else msgspec.to_builtins(stored)
    after = msgspec.to_builtins(status)
    return {n: after.get(n) for n in _NAMES if before.get(n) != after.get(n)}


def named_by(status: RolloutStatus | None, exceptions: Iterable[str]) -> frozenset[str]:
    """Return the revisions of which a ControllerRevision is kept."""
    known: Sequence[str] = () if status is None else (status.revision, status.stable)
    return frozenset({*known, *exceptions} - {""})
