"""Objects beside the workloads in the files: each goes along in the Workload that uses it.

These are a Service that selects its pods, and the ConfigMaps and ServiceAccounts that its pods
name. Secrets are copied from the hub instead. A note on every other object says what to do with it.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from crds.definition import KINDS
from crds.names import GROUP
from stowage.importing import pods
from stowage.importing.fields import DocumentPart
from stowage.importing.pieces import AUTOSCALERS, Placed
from stowage.importing.reading import Source, dig
from stowage.importing.workloads import BUILT_IN, Conversion, Made, System, drop_status, metadata_of

_Name: TypeAlias = tuple[str, str]
_USED = ("Service", "Secret", "ConfigMap", "ServiceAccount", "PersistentVolumeClaim")
_FOLLOWED = ("Secret", "ConfigMap", "ServiceAccount")
_GIVEN_OUT = ("clusterIP", "clusterIPs", "healthCheckNodePort")
_USERS = ("name", "namespace", "labels", "annotations")
_OURS = tuple(kind.__name__ for kind in KINDS)


def take_along(into: Conversion, systems: Sequence[System]) -> None:
    """Put every object that was not converted where it belongs, or note why it is left out.

    Runs after all systems have converted their own objects.
    """
    owners, there = _Owners(into.workloads.made.values()), defaultdict[str, set[_Name]](set)
    followed = _followed(into.placed)
    for source in into.bundle.sources:
        there[source.namespace].add((source.kind, source.name))
    for source in list(into.bundle.rest()):
        source.taken = True
        if source.of("", *_USED):
            _used(into, source, owners.of(source), followed.get(_key(source), ()))
        elif source.of(GROUP, *_OURS):
            into.add(source, _own(into, source))
        else:
            _left_out(into, source, systems)
    spread = _spread(into)
    for made in into.workloads.made.values():
        # all Workloads of the output are Single, which keeps all units on one cluster unless a
        # policy or a spread divides them
        divided = made.bound or (made.source.namespace, made.source.name) in spread
        _look_at(into, made, divided=divided)
        _missing(into, made, there[made.source.namespace])


class _Owners:
    """The Workloads, by the names that their pods ask for and by their pods' labels."""

    def __init__(self, made: Iterable[Made]) -> None:
        self._asking: dict[tuple[str, _Name], list[Made]] = {}
        self._labelled: dict[tuple[str, str, str], list[Made]] = {}
        for each in made:
            namespace = each.source.namespace
            for wanted in pods.references(each.pod.get("spec")):
                self._asking.setdefault((namespace, wanted), []).append(each)
            for key, value in each.labels.items():
                self._labelled.setdefault((namespace, str(key), str(value)), []).append(each)

    def of(self, source: Source) -> list[Made]:
        """Return the Workloads that need it: whose pods a Service selects, or name the object."""
        if source.kind != "Service":
            return self._asking.get((source.namespace, (source.kind, source.name)), [])
        selector = dig(source.document.body, "spec", "selector")
        if not isinstance(selector, dict) or not selector:
            return []
        key, value = next(iter(selector.items()))
        found = self._labelled.get((source.namespace, str(key), str(value)), [])
        return [each for each in found if selector.items() <= each.labels.items()]


def _followed(placed: Iterable[Placed]) -> dict[tuple[str, _Name], list[str]]:
    """Return the Workloads of rules that have what their pods name copied from the hub."""
    found: dict[tuple[str, _Name], list[str]] = defaultdict(list)
    for each in placed:
        if each.main is None or each.body["spec"].get("dependencies") != "Follow":
            continue
        specs = [template.get("spec") for template in pods.templates(each.main.body)]
        for kind, name in pods.references(specs):
            if kind in _FOLLOWED:
                asked = each.main.namespace, (kind, name)
                found[asked].append(each.body["metadata"]["name"])
    return found


def _key(source: Source) -> tuple[str, _Name]:
    return source.namespace, (source.kind, source.name)


# --- what goes along ------------------------------------------------------------------------------


def _used(
    into: Conversion, source: Source, owners: Sequence[Made], followed: Sequence[str]
) -> None:
    if followed:
        text = f"is copied from the hub by `dependencies: Follow` ({', '.join(followed)})"
        more = "apply it there, where its namespace has to be a tenant: stowage tenant add"
        into.notes.note(source.document, "", f"{text}: {more} {source.namespace}")
    elif not owners:
        _alone(into, source)
    elif source.kind == "Secret":
        for made in owners:
            made.spec.setdefault("resources", []).append({"name": source.name})
        text = "is not printed: apply it to the hub; the Workload names it in spec.resources"
        into.notes.note(
            source.document, "", f"{text} and has it copied to each member ({_names(owners)})"
        )
    else:
        owners[0].spec.setdefault("manifests", []).append(_carried(into, source))
        text = f"goes along in spec.manifests of the Workload {_named(owners)}"
        if source.kind == "PersistentVolumeClaim":
            text += "; each member gets an empty volume of its own, and nothing is shared"
            into.notes.lost(source.document, "", text)
        else:
            into.notes.note(source.document, "", text)


def _named(owners: Sequence[Made]) -> str:
    first, others = owners[0].source.name, owners[1:]
    return f"{first}, and is wanted by {_names(others)} too" if others else first


def _names(owners: Sequence[Made]) -> str:
    return ", ".join(each.source.name for each in owners)


def _carried(into: Conversion, source: Source) -> dict[str, Any]:
    """Return the object without the fields that a server wrote."""
    part = DocumentPart(source.document, into.notes, source.document.body)
    metadata = metadata_of(part)
    metadata.pop("namespace", None)
    drop_status(part)
    part.skip("metadata")
    body = {key: part.any(key) for key in part if key not in ("metadata", "status")}
    if source.kind == "Service":
        _without_addresses(part.part("spec"), body["spec"])
    return {
        "apiVersion": body.pop("apiVersion"),
        "kind": body.pop("kind"),
        "metadata": metadata,
    } | body


def _without_addresses(spec: DocumentPart, body: dict[str, Any]) -> None:
    if body.get("clusterIP") == "None":
        return
    given = [key for key in _GIVEN_OUT if body.pop(key, None) is not None]
    if given:
        spec.note(given[0], f"{', '.join(given)}: given out by one cluster, left to each member")


def _own(into: Conversion, source: Source) -> dict[str, Any]:
    """Return an object of our kinds without the fields that a hub wrote."""
    body = source.document.body
    metadata = {key: body["metadata"][key] for key in _USERS if body["metadata"].get(key)}
    text = "is one of Stowage already; it is printed as it is, without what a hub wrote"
    into.notes.note(source.document, "", text)
    made = {key: value for key, value in body.items() if key not in ("metadata", "status")}
    if source.namespace and source.kind != "MemberCluster":
        metadata = {"name": source.name, "namespace": source.namespace, **metadata}
    first = {"apiVersion": body["apiVersion"], "kind": body["kind"], "metadata": metadata}
    return copy.deepcopy({**first, **{k: v for k, v in made.items() if k not in first}})


# --- what does not --------------------------------------------------------------------------------


def _alone(into: Conversion, source: Source) -> None:
    text = "no Workload here asks for it; it is left out: put it into spec.manifests of one, or"
    into.notes.note(source.document, "", f"{text} apply it to the members yourself")


def _left_out(into: Conversion, source: Source, systems: Sequence[System]) -> None:
    system = next((s for s in systems if source.group in s.groups), None)
    if source.kind in AUTOSCALERS:
        text = "is left out: on the hub, let its scaleTargetRef name the Workload (stowage.dev)"
        into.notes.note(source.document, "", text)
    elif system:
        text = f"{system.name}'s {source.kind} has no counterpart on its own; it is left out"
        into.notes.lost(source.document, "", text)
    elif "." in source.group and not source.group.endswith(".k8s.io"):
        place = source.document.place
        text = f"{source.kind} of {source.group} is not a kind that can be imported ({place})"
        into.notes.lost(source.document, "", f"{text}; it is left out")
    elif (source.group, source.kind) in into.workloads.forms:
        text = "no policy, spread or group here names it; it is left out: `stowage wrap` makes a"
        into.notes.note(source.document, "", f"{text} Workload of it")
    else:
        _alone(into, source)


def _spread(into: Conversion) -> set[tuple[str, str]]:
    return {
        (source.namespace, str(dig(body, "spec", "targetRef", "name")))
        for source, body in into.others
        if body["kind"] == "WorkloadSpread"
    }


def _look_at(into: Conversion, made: Made, *, divided: bool) -> None:
    source = made.source
    if "replicasPath" in made.spec:  # the pods of a custom kind may stand anywhere in it
        return
    spec = DocumentPart(source.document, into.notes, made.template["spec"], "spec")
    pods.look_at(spec.part("template"))
    if (source.group, source.kind) in BUILT_IN:
        pods.look_at_counts(spec, source.kind, divided=divided)


def _missing(into: Conversion, made: Made, there: set[_Name]) -> None:
    missing = sorted(pods.references(made.pod.get("spec")) - there)
    if missing:
        names = ", ".join(f"{kind} {name}" for kind, name in missing)
        text = f"its pods ask for {names}, which these files do not have: make that on each member"
        more = "or put it into spec.manifests, and Secrets of the hub into spec.resources"
        into.notes.note(made.source.document, "spec.template.spec", f"{text}, {more}")
