"""`stowage plan --diff` and `explain --rendered`: the objects as they would be sent to a member.

Both call the propagator's own render, without the marks that it adds. Values of Secrets are never
shown, only whether they differ.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import yaml

from controller.model.objects import MemberCluster
from crds.admission.reserved import strip
from crds.names import LABEL_TEMPLATE, LABEL_WORKLOAD_UID
from machinery.clock import SystemClock
from machinery.errors import ConfigurationError
from machinery.kinds.paths import InvalidTemplate
from machinery.overrides.override import (
    ClusterOverride,
    OverrideMisfit,
    UnreadableOverrides,
    matching,
)
from propagator.apply.render import MemberFacts, PatchMisfit, Piece, render
from propagator.types.hub_objects import HubSecret
from propagator.types.overrides import NOTHING, Override
from propagator.types.workload import Workload, workload_of
from stowage.console import output
from stowage.console.terminal import say
from stowage.kinds import Reference
from stowage.simulation import plan
from stowage.simulation.plan import Where

TEMPLATE = "template"
HIDDEN, CHANGED = "(not shown)", "(not shown, differs)"
NAMED = 10
"""Clusters that a line names."""
_SECRET_FIELDS = ("data", "stringData")

Json = Mapping[str, Any]
_NO_SECRETS: Mapping[str, HubSecret] = {}
Objects = dict[str, dict[str, Any]]
"""By kind and name."""


@dataclass(slots=True)
class _Alike:
    """Clusters on which a Workload has the same objects, or does not fit for the same reason."""

    said: tuple[str, ...] = ()
    """What makes the difference: overrides, a subset's patch, images."""
    objects: Objects = field(default_factory=dict)
    misfit: str = ""
    clusters: list[str] = field(default_factory=list)


def text(body: Json, clusters: Sequence[MemberCluster]) -> str:
    """Return what differs of a Workload on these clusters, each distinct result once.

    `body` is the Workload as JSON, with status.overrides as its placements would have them. Its
    shares are no difference: each cluster is rendered with the number of the template.
    """
    workload = _workload({**body, "status": {"overrides": _overrides(body)}})
    title = f"{workload.metadata.namespace}/{workload.metadata.name}"
    bare = msgspec.structs.replace(
        workload, spec=msgspec.structs.replace(workload.spec, overrides=msgspec.Raw())
    )
    plain = _objects(bare, None, NOTHING)
    groups = list(_groups(workload, clusters))
    lines = []
    for each in groups:
        if each.misfit:
            lines.append(f"{title} on {output.named(each.clusters, NAMED)}: {each.misfit}")
        elif each.objects != plain:
            share = f"{len(each.clusters)} of {len(clusters)} clusters"
            told = f" ({'; '.join(each.said)})" if each.said else ""
            lines.append(f"{title} on {output.named(each.clusters, NAMED)}{told}: {share}")
            lines += _diff(plain, each.objects, each.clusters[0])
    alike = [name for each in groups if each.objects == plain for name in each.clusters]
    if alike:
        which = f"{len(alike)} other clusters" if lines else f"all {len(alike)} clusters"
        which = alike[0] if len(alike) == 1 else which
        lines.append(f"{title} on {which}: as the template")
    return "\n".join(lines)


def kinds(body: Json) -> list[tuple[str, str]]:
    """Return kind and name of each object that is made of a Workload; none of a wrong one."""
    try:
        made = _objects(_workload(_without_overrides(body)), None, NOTHING)
    except ValueError:
        return []
    return [(each["kind"], each["metadata"]["name"]) for each in made.values()]


def _without_overrides(body: Json) -> Json:
    return {**body, "spec": {k: v for k, v in body["spec"].items() if k != "overrides"}}


def rendered(body: Json, cluster: MemberCluster) -> str:
    """Return all objects of a Workload on a cluster, as YAML. Raises ValueError for a misfit."""
    objects = objects_on(body, cluster)
    return "---\n".join(_yaml(hidden(each, each)) for each in objects).rstrip("\n")


def objects_on(
    body: Json, cluster: MemberCluster, secrets: Mapping[str, HubSecret] = _NO_SECRETS
) -> list[Json]:
    """Return all objects of a Workload on a cluster. Raises ValueError for a misfit.

    Secrets have the values that `secrets` has by their names, if any.
    """
    workload = _workload(body)
    try:
        override = workload.overrides.of(cluster.metadata.name)
        return [*_objects(workload, cluster, override, secrets).values()]
    except OverrideMisfit as e:
        raise ValueError(f"override {e.override}, cluster {cluster.metadata.name}: {e}") from e


def show_plan(files: Sequence[str], where: Where) -> None:
    """Print what differs between the clusters, of each Workload of the files.

    Raises as `stowage.simulation.plan.make` does.
    """
    made = plan.make(files, where, clock=SystemClock())
    for note in made.notes:
        say(f"note: {note}", err=True)
    placed = {each.decision.workload.key: each.decision for each in made.planned}
    for key, body in made.bodies.items():
        say(text(plan.overridden(body, placed.get(key)), made.clusters))


def show(about: Reference, where: Where, cluster: str) -> None:
    """Print the objects of a Workload on a cluster. Raises ConfigurationError, so for a misfit."""
    present = where.present()
    body = present.stored.get(about.key(where.namespace))
    if body is None:
        raise ConfigurationError(about.missing(where.namespace))
    found = next((each for each in present.clusters if each.metadata.name == cluster), None)
    if found is None:
        raise ConfigurationError(f"there is no MemberCluster {cluster}")
    try:
        say(rendered(body, found))
    except ValueError as e:
        raise ConfigurationError(str(e)) from e


def _overrides(body: Json) -> Any:
    return (body.get("status") or {}).get("overrides") or []


def _workload(body: Json) -> Workload:
    meta = {"uid": "", **body["metadata"]}
    return workload_of({**body, "metadata": meta})


def _groups(workload: Workload, clusters: Sequence[MemberCluster]) -> Iterator[_Alike]:
    """Yield the distinct results; clusters that cannot differ are rendered once."""
    found: dict[Any, _Alike] = {}
    for cluster in sorted(clusters, key=lambda each: each.metadata.name):
        override = workload.overrides.of(cluster.metadata.name)
        try:
            chosen = matching(workload.cluster_overrides, cluster.labels)
        except UnreadableOverrides as e:
            found.setdefault("", _Alike(misfit=str(e))).clusters.append(cluster.metadata.name)
            continue
        same = (
            tuple(each.name for each in chosen),
            override.patch,
            tuple(cluster.spec.images),
            cluster.metadata.name if any(each.varies for each in chosen) else "",
        )
        if same not in found:
            found[same] = _alike(workload, cluster, chosen, override)
        found[same].clusters.append(cluster.metadata.name)
    merged: dict[tuple[str, str], _Alike] = {}
    for each in found.values():
        key = (each.misfit, msgspec.json.encode(each.objects, order="deterministic").decode())
        known = merged.setdefault(key, each)
        if known is not each:
            known.clusters = sorted(known.clusters + each.clusters)
    yield from merged.values()


def _alike(
    workload: Workload,
    cluster: MemberCluster,
    chosen: Sequence[ClusterOverride],
    override: Override,
) -> _Alike:
    said = [f"override {each.name}" for each in chosen]
    said += [f"subset {override.subset}"] if override.patch else []
    said += ["images of the cluster"] if cluster.spec.images else []
    try:
        return _Alike(tuple(said), _objects(workload, cluster, override))
    except OverrideMisfit as e:
        return _Alike(misfit=f"override {e.override} does not fit: {e}")
    except PatchMisfit as e:
        return _Alike(misfit=f"the patch of subset {override.subset} does not fit: {e}")
    except InvalidTemplate as e:
        return _Alike(misfit=str(e))


def _objects(
    workload: Workload,
    cluster: MemberCluster | None,
    override: Override,
    known: Mapping[str, HubSecret] = _NO_SECRETS,
) -> Objects:
    """Return the objects of a share; without a cluster those of the plain template.

    Raises OverrideMisfit, PatchMisfit and InvalidTemplate.
    """
    name = cluster.metadata.name if cluster else ""
    member = MemberFacts(cluster.facts, cluster.spec.images) if cluster else _NOWHERE
    secrets = [
        known.get(each) or HubSecret(metadata=msgspec.structs.replace(_NO_META, name=each))
        for each in workload.secrets
    ]
    pieces = render(
        workload,
        replicas=workload.shares.get(name, workload.wanted),
        first_ordinal=workload.ranges.get(name),
        secrets=secrets,
        member=member,
        override=override,
    )
    return {f"{each.kind} {each.name}": _shown(each) for each in pieces}


_NO_META = HubSecret().metadata
_NOWHERE = MemberFacts(MemberCluster().facts)


def _shown(piece: Piece) -> dict[str, Any]:
    body: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(piece.body))
    strip(body)
    _unmark(body)
    return body


def _unlabel(holder: dict[str, Any]) -> None:
    labels = holder.get("labels")
    if isinstance(labels, dict):
        for label in (LABEL_WORKLOAD_UID, LABEL_TEMPLATE):
            labels.pop(label, None)


def _unmark(value: Any) -> None:
    """Remove our label on pods, and labels and annotations that are left empty."""
    if isinstance(value, list):
        for each in value:
            _unmark(each)
    elif isinstance(value, dict):
        _unlabel(value)  # some kinds have the labels of their pods beside them
        meta = value.get("metadata")
        if isinstance(meta, dict):
            _unlabel(meta)
            empty = [name for name in ("labels", "annotations") if not meta.get(name, True)]
            for name in empty:
                del meta[name]
        for each in value.values():
            _unmark(each)


def _diff(before: Objects, after: Objects, cluster: str) -> Iterator[str]:
    yield f"--- {TEMPLATE}"
    yield f"+++ {cluster}"
    for name, body in after.items():
        was = before.get(name, {})
        old, new = (_yaml(each).splitlines() for each in (hidden(was, was), hidden(body, was)))
        changed = [
            line
            for line in difflib.unified_diff(old, new, lineterm="", n=0)
            if not line.startswith(("---", "+++", "@@"))
        ]
        if changed:
            yield f"@@ {name}"
            yield from changed


def hidden(body: Json, before: Json) -> Json:
    """Return an object; the values of a Secret are words that say which differ from `before`."""
    if body.get("kind") != "Secret":
        return body
    found = dict(body)
    for part in _SECRET_FIELDS:
        values, was = body.get(part), before.get(part)
        if isinstance(values, Mapping):
            old = was if isinstance(was, Mapping) else {}
            found[part] = {k: HIDDEN if old.get(k) == v else CHANGED for k, v in values.items()}
    return found


def _yaml(body: Json) -> str:
    found: str = yaml.safe_dump(dict(body), sort_keys=False, default_flow_style=False)
    return found
