"""What Workloads bring along by `spec.dependencies: Follow`.

The propagator's own render and finder give the names, on each cluster. The hub says which of the
objects it has, as far as the user may read them. No value is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from controller.model.objects import MemberCluster
from crds.fields.dependencies import MOST_DEPENDENCIES
from machinery.errors import Forbidden, NotFound
from machinery.kinds.paths import InvalidTemplate
from machinery.overrides.override import OverrideMisfit, UnreadableOverrides, matching
from machinery.types.bounds import clean
from machinery.types.metadata import Key
from machinery.types.pod_references import Reference, once, pull_secrets
from propagator.apply.render import MemberFacts, PatchMisfit, render
from propagator.dependencies.copies import FOLLOWED, refusal, refusal_of_name
from propagator.dependencies.named import named_in
from propagator.types.hub_objects import HubObject, HubServiceAccount
from propagator.types.workload import Workload, workload_of
from stowage.console import output
from stowage.hub import Reader

FOUND, GIVEN, MISSING = "found", "in these files", "missing on the hub"
Given: TypeAlias = Mapping[tuple[str, Key], Mapping[str, Any]]
"""Objects of files, by kind and key."""
NAMED = 10
"""Clusters that a line names."""


@dataclass(frozen=True, slots=True)
class Along:
    """An object that a Workload brings along; the state is empty if unknown."""

    kind: str
    name: str
    state: str = ""

    def __str__(self) -> str:
        name = f"{self.kind} {clean(self.name)}"
        return f"{name} ({self.state})" if self.state else name

    def to_dict(self) -> dict[str, str]:
        return {"kind": self.kind, "name": self.name, "state": self.state}


def line(found: Iterable[Along], *, on: Sequence[str] = ()) -> str:
    """Return `brings along: …`, with clusters if given; empty without any object."""
    told = ", ".join(map(str, found))
    where = f" on {output.named(on, NAMED)}" if on else ""
    return f"brings along{where}: {told}" if told else ""


def of_plan(
    body: Mapping[str, Any],
    clusters: Iterable[MemberCluster],
    api: Reader | None,
    given: Given,
) -> list[Along]:
    """Return what a Workload brings to these clusters, with what the hub says of each object.

    `body` is the Workload as JSON, with status.overrides as its placements would have them; `given`
    are the objects of the plan's files. Without `api` they alone are known. Raises TransportError.
    """
    workload = _workload(body)
    if not workload.follows:
        return []
    named = once(each for _, found in _named(workload, clusters) for each in found)
    namespace = workload.metadata.namespace
    return [*_looked_up(api, given, namespace, named, workload)][:MOST_DEPENDENCIES]


def recorded(body: Mapping[str, Any], clusters: Iterable[MemberCluster]) -> list[str]:
    """Return a line for each distinct set of objects, with their recorded states.

    `body` is the stored Workload, `clusters` are those of its placements.
    """
    workload = _workload(body)
    states = {
        (said["kind"], said["name"]): str(said["state"]) for said in workload.status.dependencies
    }
    if not workload.follows or not states:
        return []
    groups = [*_named(workload, clusters)]
    everywhere = {each[:2] for _, found in groups for each in found}
    accounts = [name for name in states if name not in everywhere]  # named by an account
    lines = []
    for names, found in groups:
        told = [Along(*each[:2], states.get(each[:2], "")) for each in found]
        if any(each.kind == "ServiceAccount" for each in found):
            told += [Along(*name, states[name]) for name in accounts]
        lines.append(line(told, on=names if len(groups) > 1 else ()))
    if not groups:
        lines.append(line(Along(*name, state) for name, state in states.items()))
    return [each for each in lines if each]


def _workload(body: Mapping[str, Any]) -> Workload:
    return workload_of({**body, "metadata": {"uid": "", **body["metadata"]}})


def _named(
    workload: Workload, clusters: Iterable[MemberCluster]
) -> Iterable[tuple[list[str], list[Reference]]]:
    """Return the distinct results, each with its clusters; none for a cluster that does not fit."""
    known: dict[Any, list[Reference]] = {}
    groups: dict[tuple[Reference, ...], list[str]] = {}
    for cluster in sorted(clusters, key=lambda each: each.metadata.name):
        name = cluster.metadata.name
        try:
            chosen = matching(workload.cluster_overrides, cluster.labels)
            varies = name if any(each.varies for each in chosen) else ""
            patch = workload.overrides.of(name).patch
            same = (tuple(each.name for each in chosen), patch, varies)
            if same not in known:
                known[same] = _names(workload, cluster)
        except (InvalidTemplate, OverrideMisfit, UnreadableOverrides, PatchMisfit):
            continue
        groups.setdefault(tuple(known[same]), []).append(name)
    return [(names, [*found]) for found, names in groups.items()]


def _names(workload: Workload, cluster: MemberCluster) -> list[Reference]:
    pieces = render(
        workload,
        replicas=workload.wanted,
        first_ordinal=0,
        secrets=(),
        member=MemberFacts(cluster.facts),
        override=workload.overrides.of(cluster.metadata.name),
    )
    own = {("Secret", name) for name in workload.secrets}
    return [each for each in named_in(workload, pieces) if each[:2] not in own]


def _looked_up(
    api: Reader | None,
    given: Given,
    namespace: str,
    named: Sequence[Reference],
    workload: Workload,
) -> Iterable[Along]:
    asked, rest = set[tuple[str, str]](), [*named]
    own = {("Secret", name) for name in workload.secrets}
    while rest:
        each = rest.pop(0)
        if each[:2] in asked or each[:2] in own:
            continue
        asked.add(each[:2])
        found, state = _state(api, given, namespace, each)
        yield Along(each.kind, each.name, state)
        if isinstance(found, HubServiceAccount) and state in (FOUND, GIVEN):
            rest = [*pull_secrets({"imagePullSecrets": found.image_pull_secrets}), *rest]


def _state(
    api: Reader | None, given: Given, namespace: str, each: Reference
) -> tuple[HubObject | None, str]:
    if why := refusal_of_name(each, namespace):
        return None, why
    resource, type_ = FOLLOWED[each.kind]
    if (body := given.get((each.kind, (namespace, each.name)))) is not None:
        with suppress(msgspec.ValidationError):  # the hub will say what is wrong with it
            there: HubObject = msgspec.convert(body, type_)
            return there, refusal(there) or GIVEN
        return None, GIVEN
    if api is None:
        return None, ""
    try:
        found: HubObject = api.read(resource, each.name, namespace, type_)
    except NotFound:
        return None, MISSING
    except Forbidden:
        return None, ""
    return found, refusal(found) or FOUND
