"""Koordinator: a Reservation, and the workloads whose pods may use it.

There a Reservation has no namespace, holds room on one node, and its owners are pods. Here it has
the namespace of its owners, holds room on member clusters, and its owners are Workloads. Rules
about the chosen node have no counterpart.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from crds.names import DEFAULT_SCHEDULER
from stowage.importing import pods, workloads
from stowage.importing.conversion import Conversion, System
from stowage.importing.fields import DocumentPart, Fate, keep, lost, walk
from stowage.importing.reading import Source, dig
from stowage.importing.systems import koordinator_owners as owners
from stowage.importing.workloads import Made, drop_status, metadata_of, ours

GROUP = "scheduling.koordinator.sh"
SCHEDULER = "koord-scheduler"
_OVER = ("Succeeded", "Failed")
_ORDER = ("template", "owners", "allocateOnce", "ttl", "expires")
_UNITS = {
    "h": Fraction(3600),
    "m": Fraction(60),
    "s": Fraction(1),
    "ms": Fraction(1, 10**3),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "ns": Fraction(1, 10**9),
}
_TERM = r"([0-9]{1,12}(?:\.[0-9]{1,9})?)(h|ms|us|µs|ns|m|s)"
_PLAIN = re.compile("([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?")
_INSIDE = "is for nodes inside of each member now"
_MEANT = {
    f"{GROUP}/reservation-order": "here the one that expires first is used first, then the oldest",
    f"{GROUP}/reservation-ignored": "an owner is inside of its Reservations first",
    f"{GROUP}/reservation-affinity": "an owner is of every Reservation that names it",
    f"{GROUP}/exact-match-reservation": "a unit is inside of any Reservation that names it",
    f"{GROUP}/reservation-restricted-options": "a unit takes what is short from the cluster",
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
    found = [owners.owner(into, each) for each in given.parts("owners")]
    told = [each for each in found if each is not None]
    namespace = owners.namespace(given, told, source.namespace)
    spec = {
        "template": _template(given),
        "owners": owners.bodies(given, told, namespace),
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
    if text != "0" and not re.fullmatch(f"({_TERM})+", text):
        raise part.document.error(f"{part.at(key)}: {text!r:.40} is no duration such as 24h")
    total = sum(Fraction(n) * _UNITS[unit] for n, unit in re.findall(_TERM, text))
    # rounded up
    seconds = -(-total.numerator // total.denominator)
    hours, rest = divmod(seconds, 3600)
    made[key] = text if _PLAIN.fullmatch(text) else f"{hours}h" if not rest else f"{seconds}s"
    if not seconds:
        made[key] = "0"
    if made[key] != text:
        part.note(key, f"{text} is {made[key]} now")


def _policy(part: DocumentPart, key: str, made: dict[str, Any]) -> None:
    del made
    name = part.get(key, str)
    if name == "Restricted":
        part.lost(key, "Restricted: here a unit takes what is short from the cluster")
    elif name in ("Aligned", "Default", ""):
        part.note(key, f"{name or 'the default'} is what a Reservation does: what is short is taken"
                       " from the cluster")  # fmt: skip
    else:
        raise part.document.error(f"{part.at(key)}: {name} is none of Aligned, Restricted")


_FIELDS: dict[str, Fate] = {
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


SYSTEM = System("Koordinator", (GROUP,), ("v1alpha1",), convert)
