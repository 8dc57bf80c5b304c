"""The admission rules of a Workload in Python: for hubs without the policies, and for files.

`violations` covers the schema and its rules, and the validating policy except for the questions
that only an authorizer can answer; `rights_needed` says what to ask it. `normalised` is the
mutating policy. All pure: a Workload as JSON in, text or a merge patch out. The tests put the same
objects to these functions and to a real API server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from crds.admission import approving, following, overriding, placeholder, priorities, reserved
from crds.admission.carried import KIND_LIMIT, KIND_LIMIT_TEXT, guarded_kinds
from crds.admission.mutating import LAST_APPLIED
from crds.admission.policies import (
    FOREIGN_LIMIT,
    INDEXED_TEXT,
    LIMIT_TEXT,
    NAMESPACE_TEXT,
    ORDINALS_TEXT,
    OWNER_TEXT,
    REPLICAS_TEXT,
)
from crds.base import FORBIDDEN_TEXT, Kind
from crds.definition import KINDS
from crds.faults import fault_place, worded
from crds.fields.placing import Distribution
from crds.fields.publishing import Delivery
from crds.names import (
    CLUSTER_SCOPED_OBJECTS,
    DEFAULT_SCHEDULER,
    FINALIZER,
    GROUP,
    GROUP_ALIASES,
    LABEL_GROUP,
    LABEL_POLICY,
    NORMALISED_PREFIX,
    POLICY_ALIASES,
    PRIORITIES,
    SYSTEM_NAMESPACE,
    TARGET_NAMESPACES,
    VERB_APPROVE,
    VERB_USE,
    forbidden_namespace,
)
from crds.reservation import Reservation
from crds.workload import Workload
from crds.workloadpolicy import AllocationMethod, WorkloadPolicy

Json = Mapping[str, Any]

_TEMPLATES = ("targetDeployment", "template")
_LONGEST_KEY = 317
_QUOTED = 40
"""The characters of a wrong value that a fault quotes."""
_MODELS = {each.__name__: each for each in KINDS}


@dataclass(frozen=True, slots=True)
class Right:
    """A resource that a Workload's author needs a verb for, and the field that names it.

    Without a name it is asked for in the Workload's own namespace, with one in the whole cluster.
    """

    resource: str
    name: str
    field: str
    verb: str = VERB_USE
    group: str = GROUP

    def __str__(self) -> str:
        resource = f"{self.resource}.{self.group}".rstrip(".")
        return f"{self.verb} {resource} {self.name}".rstrip()


def violations(workload: Json) -> list[str]:
    """Everything that is wrong with it, each as `spec.field: what to do`; empty when nothing is.

    The status is not looked at. An object whose form is wrong is not judged any further, so that
    the rest may rely on the form.
    """
    return _wrong_form(workload) or [
        *_wrong_namespaces(workload),
        *reserved.violations(workload["spec"]),
        *placeholder.violations(workload["spec"], reserved.bodies(workload["spec"])),
        *overriding.violations(workload["spec"]),
        *_wrong_numbers(workload),
        *_wrong_kinds(workload),
    ]


def foreign_namespaces(workload: Json) -> dict[str, str]:
    """The namespaces other than its own that it would write to, each with the field that names it.

    For each of them its author needs the verb `use` on targetnamespaces.stowage.dev.
    """
    own, spec = _own_namespace(workload), workload.get("spec", {})
    named = dict.fromkeys(_manifest_namespaces(spec), "spec.manifests")
    named[target_namespace(workload)] = "spec.targetNamespace"
    return {namespace: field for namespace, field in named.items() if namespace != own}


def rights_needed(workload: Json) -> list[Right]:
    """Everything that only an authorizer can allow, in the order in which it is asked for."""
    namespaces = foreign_namespaces(workload).items()
    kinds = guarded_kinds(workload.get("spec", {})).items()
    return [
        *(Right(TARGET_NAMESPACES, name, field) for name, field in namespaces),
        *(Right(CLUSTER_SCOPED_OBJECTS, name, field) for name, field in kinds),
        *([Right(PRIORITIES, "", priorities.FIELD)] if priorities.raised(workload) else ()),
        *(
            [Right("secrets", "", following.FIELD, verb="get", group="")]
            if following.shown_elsewhere(workload.get("spec", {}), _own_namespace(workload))
            else ()
        ),
        *(
            [Right(approving.RESOURCE, "", approving.FIELD, verb=VERB_APPROVE)]
            if approving.approves(workload.get("spec", {}))
            else ()
        ),
    ]


def target_namespace(workload: Json) -> str:
    """The namespace on the members: what the spec says, or the Workload's own."""
    return workload.get("spec", {}).get("targetNamespace") or _own_namespace(workload)


def admitted(workload: Json) -> dict[str, Any]:
    """The merge patch that the mutating policy would have made at its creation; or nothing."""
    metadata, patch = workload.get("metadata", {}), normalised(workload)
    finalizers = metadata.get("finalizers") or []
    delivered = workload.get("spec", {}).get("delivery") != Delivery.NONE.value
    if FINALIZER in finalizers or "deletionTimestamp" in metadata or not delivered:
        return patch
    return patch | {
        "metadata": patch.get("metadata", {}) | {"finalizers": [*finalizers, FINALIZER]}
    }


def normalised(workload: Json) -> dict[str, Any]:
    """Of that, what changes what the Workload says: the scheduler's name and two labels."""
    patch: dict[str, Any] = {}
    if not workload.get("spec", {}).get("schedulerName"):
        patch["spec"] = {"schedulerName": DEFAULT_SCHEDULER}
    labels: dict[str, str | None] = {}
    marks: dict[str, str | None] = {}
    for label, aliases in ((LABEL_POLICY, POLICY_ALIASES), (LABEL_GROUP, GROUP_ALIASES)):
        _relabel(workload.get("metadata", {}), label, aliases, labels, marks)
    changed = {key: value for key, value in (("labels", labels), ("annotations", marks)) if value}
    return patch | ({"metadata": changed} if changed else {})


def _own_namespace(workload: Json) -> str:
    namespace: str = workload.get("metadata", {}).get("namespace") or "default"
    return namespace


def _manifest_namespaces(spec: Json) -> Iterator[str]:
    for manifest in spec.get("manifests") or ():
        if namespace := manifest["metadata"].get("namespace"):
            yield namespace


def object_violations(kind: str, thing: Json, before: Json | None = None) -> list[str]:
    """Everything that is wrong with an object of that kind, also as an edit of the one before.

    Of a kind that is not ours nothing is known.
    """
    if kind == Workload.__name__:
        return violations(thing)
    model = _MODELS.get(kind)
    if model is None:
        return []
    wrong = _wrong_form(thing, model) or _wrong_edit(model, thing, before)
    return wrong or ([*_foreign_owners(thing)] if model is Reservation else [])


def fault_of(kind: str, spec: Any) -> str:
    """The first fault of a stored spec, as `spec.field: what is wrong`; empty when there is none.

    A field that the schema does not know is no fault: the object may be
    younger than this process.
    """
    try:
        _MODELS[kind].model_validate({"spec": spec}, extra="ignore")
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        return _described(fault) + _found(fault["input"])
    return ""


def object_defaults(kind: str, thing: Json) -> dict[str, Any]:
    """The merge patch with the defaults that the hub would have set on a new object."""
    if kind == WorkloadPolicy.__name__:
        return normalised_policy(thing)
    if kind == Reservation.__name__ and "schedulerName" not in thing["spec"]:
        return {"spec": {"schedulerName": DEFAULT_SCHEDULER}}
    return {}


def normalised_policy(policy: Json) -> dict[str, Any]:
    """The merge patch that admission would have made of a new WorkloadPolicy; empty for none."""
    spec = policy.get("spec", {})
    if spec.get("allocationMethod"):
        return {}
    method = spec.get("scheduleStrategy") or AllocationMethod.BALANCE.value
    return {"spec": {"allocationMethod": method}}


def _wrong_form(thing: Json, kind: type[Kind] = Workload) -> list[str]:
    try:
        kind.model_validate({key: value for key, value in thing.items() if key != "status"})
    except ValidationError as error:
        return [f"{_path(loc)}: {text}" for loc, text in worded(error, kind)]
    return []


def _wrong_edit(kind: Any, thing: Json, before: Json | None) -> list[str]:
    if before is None:
        return []
    old = {**thing, "spec": before["spec"]}  # the one before may be known in part
    if _wrong_form(old, kind):
        return []
    new, was = (
        kind.model_validate({key: each[key] for key in each if key != "status"}).spec
        for each in (thing, old)
    )
    return [
        f"spec.{rule.field}: {rule.text}" for rule in new.transitions if not rule.holds(new, was)
    ]


def _foreign_owners(reservation: Json) -> Iterator[str]:
    own = _own_namespace(reservation)
    if own == SYSTEM_NAMESPACE:
        return
    for owner in reservation["spec"]["owners"]:
        named = ((owner.get(field) or {}).get("namespace") for field in ("object", "controller"))
        if any(name not in (None, own) for name in named):
            yield f"spec.owners: {OWNER_TEXT}"
            return


def _described(fault: Any) -> str:
    path = _path(fault_place(fault))
    text = fault["ctx"]["text"] if fault["type"] == "rule" else fault["msg"]
    text = "Input should be an object" if fault["type"] == "model_type" else text
    return f"{path}: {text}"


def _path(loc: Sequence[Any]) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{_key(part)}" for part in loc)
    return "".join(parts).removeprefix(".")


def _key(name: str) -> str:
    """The name of a field, or the key of a map: that may be any text."""
    safe = name.isprintable() and len(name) <= _LONGEST_KEY
    return name if safe else f"{name[:_QUOTED]!r}"


def _found(value: Any) -> str:
    if not isinstance(value, str | int | float):
        return ""
    text = repr(value)
    return f", not {text if len(text) <= _QUOTED else text[:_QUOTED] + '…'}"


def _wrong_namespaces(workload: Json) -> Iterator[str]:
    """The schema has refused what the spec names; the Workload's own namespace it cannot see."""
    spec, target = workload["spec"], target_namespace(workload)
    if forbidden_namespace(target):
        yield f"spec.targetNamespace: {FORBIDDEN_TEXT}"
    for part in (*_TEMPLATES, "targetService"):
        metadata = (spec.get(part) or {}).get("metadata") or {}
        if metadata.get("namespace", target) != target:
            yield f"spec.{part}.metadata.namespace: {NAMESPACE_TEXT}"
    if len(foreign_namespaces(workload)) > FOREIGN_LIMIT:
        yield f"spec.manifests: {LIMIT_TEXT}"


def _wrong_kinds(workload: Json) -> Iterator[str]:
    if len(guarded_kinds(workload["spec"])) > KIND_LIMIT:
        yield f"spec.manifests: {KIND_LIMIT_TEXT}"


def _wrong_numbers(workload: Json) -> Iterator[str]:
    for part in _TEMPLATES:
        template = workload["spec"].get(part) or {}
        inner = template.get("spec")
        if "." in template.get("apiVersion", ".") or not isinstance(inner, Mapping):
            continue
        replicas = inner.get("replicas", 0)
        if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 0:
            yield f"spec.{part}.spec.replicas: {REPLICAS_TEXT}"
    template = workload["spec"].get("template") or {}
    inner = template.get("spec")
    ordinals = inner.get("ordinals", {}) if isinstance(inner, Mapping) else {}
    if "." not in template.get("apiVersion", ".") and not isinstance(ordinals, Mapping):
        yield f"spec.template.spec.ordinals: {ORDINALS_TEXT}"
    indexed = isinstance(inner, Mapping) and inner.get("completionMode") == "Indexed"
    divided = workload["spec"].get("distribution") == Distribution.DIVIDED
    if indexed and divided and template.get("apiVersion") == "batch/v1":
        yield f"spec.distribution: {INDEXED_TEXT}"


def _relabel(
    metadata: Json,
    label: str,
    aliases: tuple[str, ...],
    new_labels: dict[str, str | None],
    new_marks: dict[str, str | None],
) -> None:
    """One label of its aliases: set, followed, or dropped with them.

    A label that was copied is marked with its value; as long as it is not the user's own word it
    follows the alias. Aliases that differ are left alone: the controller says AmbiguousPolicy.
    """
    labels = metadata.get("labels") or {}
    marks = metadata.get("annotations") or {}
    mark = f"{NORMALISED_PREFIX}{label.rpartition('/')[2]}"
    values = {labels[alias] for alias in aliases if alias in labels}
    ours = label not in labels or (
        marks.get(mark) == labels[label] and not _said_by_user(metadata, label)
    )
    value = next(iter(values)) if len(values) == 1 else ""
    drop = label in labels and ours and not values
    if ours and value and labels.get(label) != value:
        new_labels[label] = new_marks[mark] = value
    elif mark in marks and (label not in labels or not ours or drop):
        new_marks[mark] = None
    if drop:
        new_labels[label] = None


def _said_by_user(metadata: Json, label: str) -> bool:
    """Whether an apply, of the client's kind or the server's, wrote the label itself."""
    applied = (metadata.get("annotations") or {}).get(LAST_APPLIED, "")
    return f'"{label}":' in applied or any(
        f"f:{label}" in entry.get("fieldsV1", {}).get("f:metadata", {}).get("f:labels", {})
        for entry in metadata.get("managedFields") or ()
        if entry.get("operation") == "Apply"
    )
