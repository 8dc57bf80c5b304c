"""scheduler-plugins: a PodGroup, of its present API group or the older one, and its members.

There a gang is the pods that name it, on the nodes of one cluster. Here it is the Workloads that
name it, and a topology keeps them in one cluster. Koordinator reads the same PodGroups, and more of
their annotations.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from crds.groups.workloadgroup import MOST_SECONDS, TopologyMode
from crds.names import GROUP, GROUP_ALIASES, LABEL_CLUSTER, LABEL_GROUP
from machinery.kinds.profile import with_article
from stowage.importing import pods, workloads
from stowage.importing.fields import DocumentPart, FieldConverter, keep, lost, walk
from stowage.importing.reading import Source, dig
from stowage.importing.workloads import Conversion, Made, System, drop_status, metadata_of, ours

GROUPS = ("scheduling.x-k8s.io", "scheduling.sigs.k8s.io")
"""The present API group and the earlier one, with the same fields."""
SCHEDULERS = ("scheduler-plugins-scheduler", "koord-scheduler")
_KOORDINATOR = "gang.scheduling.koordinator.sh"
_MEANT = {
    f"{_KOORDINATOR}/groups": "each WorkloadGroup starts on its own: give them one name",
    f"{_KOORDINATOR}/mode": "a NonStrict gang keeps what fits; here more than a tenth missing gives"
    " all of it back",
    f"{_KOORDINATOR}/match-policy": "a gang that lost replicas may wait there again; here none does"
    " whose quorum ran once",
}
"""Annotations by which Koordinator decides otherwise than Stowage."""
_SAME = ((f"{_KOORDINATOR}/mode", "Strict"), (f"{_KOORDINATOR}/match-policy", "once-satisfied"))
"""Their values with which Koordinator decides as Stowage does."""


@dataclass(frozen=True, slots=True)
class _Beside:
    """Objects of the files beside the members, by namespace."""

    groups: Collection[tuple[str, str]]
    services: Collection[tuple[str, str]]
    """The labels that name a group and by which Services select pods."""


def convert(into: Conversion) -> None:
    """Convert the PodGroups, and the workloads that name one of them."""
    groups: dict[tuple[str, str], Source] = {}
    for source in list(into.bundle.sources):
        if source.kind == "PodGroup" and source.group in GROUPS:
            source.taken = True
            before = groups.setdefault((source.namespace, source.name), source)
            if before is not source:
                place = before.document.place
                raise source.document.error(f"metadata.name: a PodGroup of that name is in {place}")
            into.add(source, _group(into, source))
    beside = _Beside(groups, _services(into))
    for source in into.bundle.sources:
        if source in into.workloads.made or not (source.taken or _is_made(into, source)):
            _look_at(into, source, beside)


# --- the group ------------------------------------------------------------------------------------


def _group(into: Conversion, source: Source) -> dict[str, Any]:
    part = DocumentPart(source.document, into.notes, source.document.body)
    part.skip("apiVersion", "kind")
    metadata = metadata_of(part)
    _said(part, metadata)
    given = part.part("spec")
    spec = {"minMember": _members(given), **walk(given, _FIELDS)}
    spec["topology"] = {"topologyKey": LABEL_CLUSTER, "mode": TopologyMode.REQUIRED.value}
    text = (
        "is one cluster there, and spec.topology keeps the gang in one here; remove that where its"
        " replicas need not see each other"
    )
    into.notes.note(source.document, "", text)
    drop_status(part)
    part.account()
    return ours("WorkloadGroup", source, metadata, spec)


def _members(given: DocumentPart) -> int:
    number = given.get("minMember", int) or 0
    if number == 0:
        given.note("minMember", "0, or none, waits for nobody; it is 1 now, which is the same")
    return number or 1


def _seconds(part: DocumentPart, key: str, made: dict[str, Any]) -> None:
    seconds = part.get(key, int) or 0
    made[key] = min(max(seconds, 1), MOST_SECONDS)
    if seconds > MOST_SECONDS:
        text = (
            f"{seconds} is {MOST_SECONDS} now, the longest that replicas are held for missing ones"
        )
        part.note(key, f"{text}; then they are given back, and all is tried again")
    elif seconds < 1:
        part.note(key, f"{seconds} gave up at once; it is 1 now")


_FIELDS: dict[str, FieldConverter] = {
    "minResources": keep(dict),
    "scheduleTimeoutSeconds": _seconds,
    "queue": lost("there are no queues: a WorkloadPolicy bounds what Workloads may take"),
    "priorityClassName": lost("write spec.priority of each Workload that is a member"),
    "minTaskMember": lost("minMember counts the replicas of all members together"),
    "networkTopology": lost("write spec.topology: it keeps a gang in one domain of clusters"),
}
"""The last four are fields of other systems' PodGroups."""


def _said(part: DocumentPart, metadata: dict[str, Any]) -> None:
    """Note annotations that only Koordinator reads."""
    annotations = metadata.get("annotations", {})
    inner = part.part("metadata")
    for key, value in annotations.items():
        if not str(key).startswith(f"{_KOORDINATOR}/") or (key, value) in _SAME:
            continue
        if key in _MEANT:
            part.notes.lost(part.document, inner.at("annotations"), f"{key}: {_MEANT[key]}")
        else:
            inner.note("annotations", f"{key}: only Koordinator reads it; it stays")


# --- its members ----------------------------------------------------------------------------------


def _look_at(into: Conversion, source: Source, beside: _Beside) -> None:
    if (source.group, source.kind) in into.workloads.forms or source in into.workloads.made:
        if name := workloads.named(source, GROUP_ALIASES, "PodGroups"):
            _member(into, source, name, beside)
    else:
        _no_member(into, source)


def _services(into: Conversion) -> set[tuple[str, str]]:
    found = set()
    for source in into.bundle.of("", "Service"):
        selector = dig(source.document.body, "spec", "selector")
        keys = selector if isinstance(selector, dict) else ()
        found |= {(source.namespace, key) for key in GROUP_ALIASES if key in keys}
    return found


def _is_made(into: Conversion, source: Source) -> bool:
    """Take a ReplicaSet or Pod that another object of the files makes: it would count twice.

    Return whether it is one.
    """
    refs = dig(source.document.body, "metadata", "ownerReferences")
    above = [ref for ref in refs if dig(ref, "controller")] if isinstance(refs, list) else []
    for ref in above if any(_names(source)) else ():
        version, kind, name = (str(dig(ref, key)) for key in ("apiVersion", "kind", "name"))
        if into.bundle.find(version.rpartition("/")[0], kind, source.namespace, name):
            source.taken = True
            text = f"the {kind} {name} makes it, and is among the files; it is left out"
            into.notes.note(source.document, "metadata.ownerReferences", text)
            return True
    return False


def _names(source: Source) -> Iterator[str]:
    """Yield the PodGroups that an object names on itself or its pods, if it runs pods."""
    if source.group == GROUP:
        return
    body = source.document.body
    running = list(pods.templates(body))
    # common labels stand on Services and ConfigMaps too, which are no members
    if not running and not source.of("", "Pod"):
        return
    for each in (*running, body):
        labels = dig(each, "metadata", "labels")
        keys = GROUP_ALIASES if isinstance(labels, dict) else ()
        yield from (str(labels[key]) for key in keys if labels.get(key))


def _member(into: Conversion, source: Source, name: str, beside: _Beside) -> None:
    made, notes = into.workloads.of(source), into.notes
    services = [key for key in GROUP_ALIASES if (source.namespace, key) in beside.services]
    selectors = (made.template["spec"].get("selector"), services)
    workloads.bind(notes, made, LABEL_GROUP, name, GROUP_ALIASES, selectors)
    on_pods = workloads.labels_of(source, "spec", "template")
    if not any(on_pods.get(key) for key in GROUP_ALIASES):
        text = "binds the Workload; scheduler-plugins reads this label from pods alone"
        notes.note(source.document, "metadata.labels", text)
    _scheduler(into, made)
    if (source.namespace, name) not in beside.groups:
        text = f"no PodGroup {name} is among the files: bring it, or the replicas wait for it"
        notes.note(source.document, "", text)


def _scheduler(into: Conversion, made: Made) -> None:
    notes, document = into.notes, made.source.document
    name = workloads.take_scheduler(notes, made, SCHEDULERS)
    if name not in ("", "default-scheduler", *SCHEDULERS):
        text = f"{name} has to run on each member; the gang is decided on the hub, whatever it does"
        notes.note(document, workloads.POD_SCHEDULER, text)
    for key in ("priorityClassName", "priority"):
        if dig(made.pod, "spec", key) is not None:
            text = "is for nodes inside of each member now; spec.priority of the Workload is for"
            text += " the queue of the hub"
            notes.note(document, f"spec.template.spec.{key}", text)


def _no_member(into: Conversion, source: Source) -> None:
    """Note a Pod of a gang as lost, or a kind without a known field for its number of units."""
    name = next(_names(source), "")
    if not name:
        return
    source.taken = True
    instead = (
        "put what it runs into a Job or a Deployment"
        if source.group in ("", "apps", "batch")
        else "put it into spec.template of a Workload, with replicasPath"
    )
    text = f"is of the PodGroup {name}, and {with_article(source.kind)} cannot be imported; it is"
    text += f" left out: {instead}, with the label {LABEL_GROUP}"
    into.notes.lost(source.document, "", text)


SYSTEM = System("scheduler-plugins", GROUPS, ("v1alpha1",), convert)
