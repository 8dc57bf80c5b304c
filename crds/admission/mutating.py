"""The mutating policies: what admission adds to what a user wrote.

A new Workload gets its finalizer, so that the propagator need not write it before the first object
goes to a member. The scheduler's name is filled in, two labels are brought into their one form, and
a WorkloadPolicy gets its method. All with failurePolicy Ignore: where the policy is missing, or
fails, the controller does the same (`crds.admission.validation`), or the propagator.
"""

from __future__ import annotations

from crds.admission.policy import Manifest, policy, variable
from crds.fields.publishing import Delivery
from crds.names import (
    DEFAULT_SCHEDULER,
    FINALIZER,
    GROUP_ALIASES,
    LABEL_GROUP,
    LABEL_POLICY,
    NORMALISED_PREFIX,
    POLICY_ADMISSION_POLICY,
    POLICY_ALIASES,
)

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""Where a client-side apply notes what the user wrote."""

_FAMILIES = (
    ("policy", LABEL_POLICY, POLICY_ALIASES),
    ("group", LABEL_GROUP, GROUP_ALIASES),
)


def mutating_policy() -> Manifest:
    """The finalizer, the scheduler's name, and one name for each of two labels.

    All in one patch: a second mutation would have to know whether the first one made the maps.
    Labels are looked at only where there is an alias, or a mark that there was one.
    """
    variables = [
        variable("labels", "object.metadata.?labels.orValue({})"),
        variable("marks", "object.metadata.?annotations.orValue({})"),
        variable("fields", "object.metadata.?managedFields.orValue([])"),
        *(each for family in _FAMILIES for each in _label_variables(*family)),
        variable("sets", " || ".join(f"variables.{family}Set" for family, *_ in _FAMILIES)),
    ]
    relabelled = [
        _container("labels", "labels"),
        _container("annotations", "marks"),
        *(part for family, label, _ in _FAMILIES for part in _relabel(family, label)),
    ]
    labels = " +\n".join(relabelled)
    parts = [_finalizer(), _scheduler_name(), f"(({_ALIASED}) ? {labels} : [])"]
    concerned = f"request.operation == 'CREATE' || {_NAMELESS} || {_ALIASED}"
    spec = {
        "failurePolicy": "Ignore",
        "reinvocationPolicy": "IfNeeded",
        "matchConditions": [{"name": "something-to-add", "expression": concerned}],
        "variables": variables,
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": " +\n".join(parts)}}],
    }
    return policy("Mutating", spec)


def _has_key(field: str, keys: list[str]) -> str:
    path = f"object.metadata.{field}"
    return f"(has({path}) && {keys}.exists(k, k in {path}))"


def _mark(label: str) -> str:
    """The annotation that says of a label that it was copied."""
    return f"{NORMALISED_PREFIX}{label.rpartition('/')[2]}"


_ALIASED = " || ".join(
    (
        _has_key("labels", [alias for *_, aliases in _FAMILIES for alias in aliases]),
        _has_key("annotations", [_mark(label) for _, label, _ in _FAMILIES]),
    )
)
_UNDELIVERED = f"object.spec.?delivery.orValue('') == '{Delivery.NONE.value}'"
_NAMELESS = "object.spec.?schedulerName.orValue('') == ''"


def _label_variables(family: str, label: str, aliases: tuple[str, ...]) -> list[Manifest]:
    """Return the variables of `crds.admission.validation` said, ours, set and drop; see there."""
    mark = _mark(label)
    labels, values, value = "variables.labels", f"variables.{family}Values", f"variables.{family}Is"
    ours, sets = f"variables.{family}Ours", f"variables.{family}Set"
    here = f"'{label}' in {labels}"
    said = (
        f"variables.marks[?'{LAST_APPLIED}'].orValue('').contains('\"{label}\":')"
        " || variables.fields.exists(f, f.operation == 'Apply'"
        f" && f.?fieldsV1[?'f:metadata'][?'f:labels'][?'f:{label}'].hasValue())"
    )
    marked = f"variables.marks[?'{mark}'].orValue('') == {labels}['{label}']"
    return [
        variable(
            f"{family}Values",
            f"{list(aliases)}.filter(k, k in {labels}).map(k, {labels}[k])",
        ),
        variable(
            f"{family}Is",
            f"size({values}) > 0 && {values}.all(v, v == {values}[0]) ? {values}[0] : ''",
        ),
        variable(f"{family}Ours", f"!({here}) || ({marked} && !({said}))"),
        variable(
            f"{family}Set",
            f"{ours} && {value} != '' && (!({here}) || {labels}['{label}'] != {value})",
        ),
        variable(f"{family}Drop", f"{here} && {ours} && size({values}) == 0"),
        variable(
            f"{family}Unmark",
            f"'{mark}' in variables.marks && !{sets}"
            f" && (!({here}) || !{ours} || variables.{family}Drop)",
        ),
    ]


def _relabel(family: str, label: str) -> list[str]:
    mark = _mark(label)
    path, mark_path = _path("labels", label), _path("annotations", mark)
    value = f"variables.{family}Is"
    return [
        _patch(f"variables.{family}Set", _add(path, value), _add(mark_path, value)),
        _patch(f"variables.{family}Drop", f'JSONPatch{{op: "remove", path: {path}}}'),
        _patch(f"variables.{family}Unmark", f'JSONPatch{{op: "remove", path: {mark_path}}}'),
    ]


def _finalizer() -> str:
    """Set on new Workloads only: a finalizer taken off an older one was taken off for a reason.

    Not on one with delivery None: nothing of it is on a member.
    """
    path = "object.metadata.finalizers"
    first = _add('"/metadata/finalizers"', f"['{FINALIZER}']")
    one_more = _add('"/metadata/finalizers/-"', f"'{FINALIZER}'")
    return (
        f"(request.operation != 'CREATE' || {_UNDELIVERED} ? []"
        f" : !has({path}) || size({path}) == 0 ? [{first}]"
        f" : '{FINALIZER}' in {path} ? [] : [{one_more}])"
    )


def _scheduler_name() -> str:
    """The schema's default stands in for a missing name; an empty one is the same to us."""
    return _patch(
        _NAMELESS,
        _add('"/spec/schedulerName"', f"'{DEFAULT_SCHEDULER}'"),
    )


def _container(field: str, variable: str) -> str:
    return _patch(
        f"variables.sets && size(variables.{variable}) == 0", _add(f'"/metadata/{field}"', "{}")
    )


def _path(field: str, key: str) -> str:
    return f'"/metadata/{field}/{key.replace("~", "~0").replace("/", "~1")}"'


def _add(path: str, value: str) -> str:
    return f'JSONPatch{{op: "add", path: {path}, value: {value}}}'


def _patch(condition: str, *operations: str) -> str:
    return f"({condition} ? [{', '.join(operations)}] : [])"


# --- WorkloadPolicies -----------------------------------------------------------------------------


def method_policy() -> Manifest:
    """There always is an allocationMethod: from its alias scheduleStrategy, or Balance.

    An alias that is edited takes the method with it, unless the user wrote the method as well: then
    the schema refuses two that differ.
    """
    method, alias = "object.spec.?allocationMethod", "object.spec.?scheduleStrategy"
    said = (
        f"object.metadata.?annotations[?'{LAST_APPLIED}'].orValue('')"
        ".contains('\"allocationMethod\":')"
        " || object.metadata.?managedFields.orValue([]).exists(f, f.operation == 'Apply'"
        " && f.?fieldsV1[?'f:spec'][?'f:allocationMethod'].hasValue())"
    )
    old = "oldObject.spec.?allocationMethod.orValue('')"
    old_alias = "oldObject.spec.?scheduleStrategy.orValue('')"
    follows = (
        f"request.operation == 'UPDATE' && !variables.said && {alias}.orValue('') != {old_alias}"
        f" && {method}.orValue('') == {old}"
    )
    wanted = (
        f"{alias}.orValue('') != '' && ({method}.orValue('') == '' || ({follows}))"
        f" ? {alias}.orValue('')"
        f" : ({method}.orValue('') == '' ? 'Balance' : {method}.orValue(''))"
    )
    patch = _patch(
        f"{method}.orValue('') != variables.wanted",
        _add('"/spec/allocationMethod"', "variables.wanted"),
    )
    spec = {
        "failurePolicy": "Ignore",
        "reinvocationPolicy": "IfNeeded",
        "variables": [variable("said", said), variable("wanted", wanted)],
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}],
    }
    return policy("Mutating", spec, name=POLICY_ADMISSION_POLICY, plurals=("workloadpolicies",))
