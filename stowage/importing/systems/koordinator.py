"""Koordinator: a Reservation, and the workloads whose pods may use it.

There a Reservation has no namespace, holds room on one node, and its owners are pods of all
namespaces. Here it has the namespace of its owners, holds room on member clusters, and its owners
are Workloads; a Deployment takes the place of its ReplicaSet, whose name changes with each edit.
Rules about the chosen node have no counterpart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from crds.names import DEFAULT_SCHEDULER
from machinery.types.selectors import LabelSelector
from stowage.importing import pods, workloads
from stowage.importing.durations import seconds
from stowage.importing.fields import DocumentPart, FieldConverter, keep, lost, nothing, walk
from stowage.importing.reading import Source, dig
from stowage.importing.workloads import Conversion, Made, System, drop_status, metadata_of, ours

GROUP = "scheduling.koordinator.sh"
SCHEDULER = "koord-scheduler"
_OVER = ("Succeeded", "Failed")
_ORDER = ("template", "owners", "allocateOnce", "ttl", "expires")
_PLAIN = re.compile("([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?")
_INSIDE = "is for nodes inside of each member now"
_MEANT = {
    f"{GROUP}/reservation-order": "here the one that expires first is used first, then the oldest",
    f"{GROUP}/reservation-ignored": "an owner is inside of its Reservations first",
    f"{GROUP}/reservation-affinity": "an owner is of every Reservation that names it",
    f"{GROUP}/exact-match-reservation": "a replica is inside of any Reservation that names it",
    f"{GROUP}/reservation-restricted-options": "a replica takes what is short from the cluster",
}
"""Labels and annotations that decide which pod uses which Reservation, and why each is lost."""


def convert(into: Conversion) -> None:
    """Convert the Reservations that are not over, and the workloads that own them."""
    for source in into.bundle.of(GROUP, "Reservation"):
        source.taken = True
        phase = dig(source.document.body, "status", "phase")
        if phase in _OVER:
            text = f"is over there ({phase}) and holds nothing any more; it is left out"
            into.notes.note(source.document, "status.phase", text)
        else:
            _reservation(into, source)


def _reservation(into: Conversion, source: Source) -> None:
    part = DocumentPart(source.document, into.notes, source.document.body)
    part.skip("apiVersion", "kind")
    metadata = metadata_of(part)
    if metadata.pop("namespace", None):
        part.part("metadata").note("namespace", "is none of Koordinator's; the owners decide")
    part.demand("spec")
    given = part.part("spec")
    given.demand("template")
    given.demand("owners")
    found = [_owner(into, each) for each in given.parts("owners")]
    told = [each for each in found if each is not None]
    namespace = _namespace(given, told, source.namespace)
    spec = {
        "template": _template(given),
        "owners": _bodies(given, told, namespace),
        **walk(given, _FIELDS),
    }
    _said(part, "metadata", metadata)
    drop_status(part)
    part.account()
    body = ours("Reservation", source, metadata, {k: spec[k] for k in _ORDER if k in spec})
    named = {"name": source.name, **({"namespace": namespace} if namespace else {})}
    body["metadata"] = {**named, **{k: v for k, v in metadata.items() if k != "name"}}
    into.add(source, body)
    for each in dict.fromkeys(meant for owner in told for meant in owner.meant):
        _owner_workload(into, into.workloads.of(each))


# --- the template ---------------------------------------------------------------------------------


def _template(given: DocumentPart) -> dict[str, Any]:
    """Return the pod template without the choice of a node or a scheduler."""
    part = given.part("template")
    pods.look_at(part)
    template = part.all()
    metadata, spec = part.part("metadata"), part.part("spec")
    pod = template.get("spec")
    if isinstance(pod, dict):
        _scheduler(spec, pod)
        if pod.pop("nodeName", None):
            text = "names one node; clusters are chosen here, as by spec.targetCluster"
            spec.lost("nodeName", text)
    for key in ("tolerations", "priorityClassName", "priority"):
        if key in spec:
            spec.note(key, f"{_INSIDE}; spec.{_OWN_FIELD[key]} of the Reservation is for the hub")
    if "namespace" in metadata:
        template["metadata"].pop("namespace")
        metadata.note("namespace", "was that of the pod that reserves; it is left out")
    _said(part, "metadata", template.get("metadata"))
    return template


_OWN_FIELD = {"tolerations": "tolerations", "priorityClassName": "priority", "priority": "priority"}


def _scheduler(spec: DocumentPart, pod: dict[str, Any]) -> None:
    name = pod.pop("schedulerName", None)
    if name is None:
        return
    text = f"{name} is spec.schedulerName of the Reservation now, {DEFAULT_SCHEDULER} unless given"
    spec.note("schedulerName", text)


def _said(part: DocumentPart, field: str, metadata: Any) -> None:
    """Note labels and annotations that only Koordinator reads; they stay."""
    for kind in ("labels", "annotations"):
        given = dig(metadata, kind)
        inner = part.part(field)
        for key in given if isinstance(given, dict) else ():
            if key in _MEANT:
                part.notes.lost(part.document, inner.at(kind), f"{key}: {_MEANT[key]}")
            elif "koordinator.sh/" in key:
                text = f"{key}: has an effect only on members where Koordinator runs; it stays"
                inner.note(kind, text)


# --- fields ---------------------------------------------------------------------------------------


def _ttl(part: DocumentPart, key: str, made: dict[str, Any]) -> None:
    """Convert a duration of Go: ours are whole seconds, and "0" never ends."""
    text = part.need(key, str)
    if (length := seconds(text)) is None:
        raise part.document.error(f"{part.at(key)}: {text!r:.40} is no duration such as 24h")
    hours, rest = divmod(length, 3600)
    made[key] = text if _PLAIN.fullmatch(text) else f"{hours}h" if not rest else f"{length}s"
    if not length:
        made[key] = "0"
    if made[key] != text:
        part.note(key, f"{text} is {made[key]} now")


def _policy(part: DocumentPart, key: str, made: dict[str, Any]) -> None:
    del made
    name = part.get(key, str)
    if name == "Restricted":
        part.lost(key, "Restricted: here a replica takes what is short from the cluster")
    elif name in ("Aligned", "Default", ""):
        part.note(key, f"{name or 'the default'} is what a Reservation does: what is short is taken"
                       " from the cluster")  # fmt: skip
    else:
        raise part.document.error(f"{part.at(key)}: {name} is none of Aligned, Restricted")


_FIELDS: dict[str, FieldConverter] = {
    "ttl": _ttl,
    "expires": keep(str),
    "allocateOnce": keep(bool),
    "allocatePolicy": _policy,
    "preAllocation": lost("room that is not free yet cannot be held: it waits, Pending, for room"),
    "unschedulable": lost("a Reservation is open to its owners from the beginning"),
    "taints": lost("a Reservation has no taints: its owners alone say who may use it"),
}


# --- what the files have of its owners ------------------------------------------------------------


def _owner_workload(into: Conversion, made: Made) -> None:
    workloads.take_scheduler(into.notes, made, (SCHEDULER,))
    part = DocumentPart(made.source.document, into.notes, made.template["spec"], "spec").part(
        "template"
    )
    _said(part, "metadata", made.pod.get("metadata"))


# --- owners ---------------------------------------------------------------------------------------

SYSTEM_NAMESPACE = "stowage-system"
_OF_ONE_CLUSTER = "is of the cluster that it comes from; it is left out"
_ABOVE = "Deployment"
_HASHED = re.compile(r"(.+)-[bcdfghjklmnpqrstvwxz2456789]{5,10}")
"""The name of a ReplicaSet that a Deployment made."""


@dataclass(frozen=True, slots=True)
class ImportedOwner:
    """One entry: our body for it, the namespace of its Workloads, and their sources."""

    part: DocumentPart
    body: Mapping[str, Any]
    namespace: str | None
    """None where neither the entry nor the files name one."""
    meant: tuple[Source, ...]


def _owner(into: Conversion, part: DocumentPart) -> ImportedOwner | None:
    """Convert one entry; return None where it can name no Workload, which is noted as lost."""
    body: dict[str, Any] = {}
    named = {key: part.part(key).get("namespace", str) or "" for key in ("object", "controller")}
    if len(both := sorted(set(filter(None, named.values())))) > 1:
        text = f"object and controller are of two namespaces ({', '.join(both)}): no pod is in both"
        part.notes.lost(part.document, part.path, text)
        part.skip("object", "controller", "labelSelector")
        return None
    told = _object(part, body) and _controller(into, part, body)
    if "labelSelector" in part:
        body["labelSelector"] = part.get("labelSelector", dict)
    wanted = both[0] if both else None
    if told and not body:
        _of_anybody(part, body, wanted)
    if not told or not body:
        return None
    meant = tuple(_meant(into, body, wanted))
    spaces = {each.namespace for each in meant}
    if wanted is None and len(spaces) == 1:
        wanted = spaces.pop()
    return ImportedOwner(part, body, wanted, meant)


def _object(part: DocumentPart, body: dict[str, Any]) -> bool:
    given = part.part("object")
    name, kind, version = (given.get(key, str) for key in ("name", "kind", "apiVersion"))
    for key in ("uid", "resourceVersion", "fieldPath"):
        if given.get(key, str) and name:
            given.note(key, _OF_ONE_CLUSTER)
    if version:
        # It is compared with that of pods as the scheduler caches them, which have none there.
        part.lost("object", f"with an apiVersion ({version}) it matched no pod; it is left out")
        return False
    if name:
        other = f", as Koordinator compares no kind ({kind})" if kind not in (None, "Pod") else ""
        text = f"the Pod {name}{other} is the Workload {name} now: give this name to the one that"
        part.note("object", f"{text} runs it")
        body["object"] = {"kind": "Workload", "name": name}
    elif given.get("uid", str):
        part.lost("object", "names no pod; this owner is left out")
        return False
    return True


def _controller(into: Conversion, part: DocumentPart, body: dict[str, Any]) -> bool:
    given = part.part("controller")
    version, kind, name = (given.get(key, str) for key in ("apiVersion", "kind", "name"))
    if given.get("uid", str):
        given.note("uid", _OF_ONE_CLUSTER)
    flags = {key: given.get(key, bool) for key in ("controller", "blockOwnerDeletion")}
    if flags["controller"] is False:
        given.lost("controller", "here whoever controls a Workload owns it, and nobody else")
    elif flags["controller"]:
        given.note("controller", "whoever controls a Workload is asked for here; it is left out")
    if flags["blockOwnerDeletion"] is not None:
        given.note("blockOwnerDeletion", "says nothing of owners; it is left out")
    if not kind or not name:
        if kind or name or version:
            part.lost("controller", "needs a kind and a name here; this owner is left out")
        return not (kind or name or version)
    made = {"apiVersion": version, "kind": kind, "name": name}
    made = _deployment(into, given, made) or _form(into, given, made)
    body["controller"] = {key: value for key, value in made.items() if value}
    return True


def _deployment(
    into: Conversion, given: DocumentPart, made: Mapping[str, str | None]
) -> dict[str, str | None] | None:
    """Return the Deployment of that ReplicaSet, from the files or by its name."""
    name = str(made["name"])
    if made["kind"] != "ReplicaSet":
        return None
    there = [s for s in into.bundle.of("apps", "ReplicaSet") if s.name == name]
    above = [dig(ref, "name") for s in there for ref in _refs(s) if dig(ref, "kind") == _ABOVE]
    by_name = None if there else _HASHED.fullmatch(name)
    found = str(above[0]) if above else by_name[1] if by_name else ""
    if not found:
        return None
    text = f"ReplicaSet {name} is the Deployment {found} now, which makes a new one at each edit"
    given.note("kind", text)
    return {"apiVersion": "apps/v1", "kind": _ABOVE, "name": found}


def _refs(source: Source) -> list[Any]:
    refs = dig(source.document.body, "metadata", "ownerReferences")
    return refs if isinstance(refs, list) else []


def _form(
    into: Conversion, given: DocumentPart, made: dict[str, str | None]
) -> dict[str, str | None]:
    """Return the reference to the form that an object of that kind is imported as."""
    group = str(made["apiVersion"] or "").rpartition("/")[0]
    form = into.workloads.forms.get((group, str(made["kind"])))
    if form is None or [form.api_version, form.kind] == [made["apiVersion"], made["kind"]]:
        return made
    given.note("kind", f"{made['kind']} is {form.kind} of {form.api_version} once it is imported")
    return {"apiVersion": form.api_version, "kind": form.kind, "name": made["name"]}


def _of_anybody(part: DocumentPart, body: dict[str, Any], namespace: str | None) -> None:
    """Convert an entry that requires nothing, but perhaps a namespace."""
    if namespace:
        body["labelSelector"] = {}
        text = f"any pod of {namespace} was an owner: an empty labelSelector takes its Workloads"
        part.notes.note(part.document, part.path, text)
    else:
        text = "any pod of any namespace was an owner: name Workloads, or choose them by labels"
        part.notes.lost(part.document, part.path, text)


# --- what the files have --------------------------------------------------------------------------


def _meant(into: Conversion, body: Mapping[str, Any], namespace: str | None) -> Iterator[Source]:
    """Yield the sources that run pods and match this entry by controller and labels."""
    if "object" in body:
        return
    for source in into.bundle.sources:
        form = into.workloads.forms.get((source.group, source.kind))
        if form is None or namespace not in (None, source.namespace):
            continue
        ref, api_version = body.get("controller"), form.api_version
        wanted = {"apiVersion": api_version, "kind": form.kind, "name": source.name}
        if ref is not None and not ref.items() <= wanted.items():
            continue
        if _selects(body.get("labelSelector"), source):
            yield source


def _selects(selector: Any, source: Source) -> bool:
    if selector is None:
        return True
    labels = dig(source.document.body, "spec", "template", "metadata", "labels")
    try:
        return msgspec.convert(selector, LabelSelector).matches(
            msgspec.convert(labels or {}, dict[str, str])
        )
    except msgspec.ValidationError:  # admission refuses it with its own message
        return False


# --- the namespace --------------------------------------------------------------------------------


def _namespace(spec: DocumentPart, owners: Sequence[ImportedOwner], asked: str) -> str:
    """Return the namespace of the Reservation: that of its owners."""
    named = sorted({each.namespace for each in owners if each.namespace is not None})
    if len(named) > 1:
        text = f"are of several namespaces ({', '.join(named)}): the Reservation is in"
        spec.note("owners", f"{text} {SYSTEM_NAMESPACE}, which may name others")
        return SYSTEM_NAMESPACE
    if named:
        found, why = named[0], "that of its owners"
    else:
        found, why = asked or "default", "as its owners name none; -n names another"
    if found:
        text = f"the Reservation is in namespace {found}, {why}; only Workloads there can own it"
        spec.note("owners", text)
    return found


def _bodies(
    spec: DocumentPart, owners: Sequence[ImportedOwner], where: str
) -> list[dict[str, Any]]:
    """Return the entries as they stand in a Reservation of namespace `where`.

    Raises ConfigurationError if none is left.
    """
    made = []
    for each in owners:
        body = {key: dict(value) for key, value in each.body.items()}
        if where == SYSTEM_NAMESPACE and each.namespace not in (None, where):
            named = [body[key] for key in ("object", "controller") if key in body]
            for one in named:
                one["namespace"] = each.namespace
            if not named:
                text = f"labels alone choose Workloads of {where} only, and not of {each.namespace}"
                each.part.lost("labelSelector", f"{text}: make a Reservation there")
                continue
        made.append(body)
    if nothing(made):
        raise spec.document.error(f"{spec.at('owners')}: none of them can be told here")
    return made


SYSTEM = System("Koordinator", (GROUP,), ("v1alpha1",), convert)
