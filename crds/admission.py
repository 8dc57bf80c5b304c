"""The admission that a schema cannot do, by policies that the API server itself evaluates.

There is no webhook: nothing of ours has to be running for an apply to go through. The mutating
policy (failurePolicy Ignore) fills in the scheduler's name and brings older names of two labels
into their one form; where it is missing, or fails, the controller does the same. The validating
policy (failurePolicy Fail, evaluated inside the API server) is a boundary of trust: it asks the
hub's authorizer for the verb `use` on targetnamespaces.stowage.dev, by resource name, for every
namespace other than the Workload's own that the Workload would write to. That check is made at the
cluster's level: a Role in a tenant's own namespace cannot grant it.

A third policy brings a WorkloadPolicy's allocationMethod and its alias together (Ignore).

All look at the objects themselves, never at their status or scale, so that no write of our own
processes depends on them; an update that leaves the spec alone is not looked at, and one that keeps
its namespaces needs no right to them. `crds.validation` is the same in Python.
"""

from __future__ import annotations

from typing import Any

from crds.base import FORBIDDEN_TEXT
from crds.names import (
    ADMISSION_POLICY,
    DEFAULT_SCHEDULER,
    FORBIDDEN_NAMESPACE_PREFIX,
    GROUP,
    GROUP_ALIASES,
    LABEL_GROUP,
    LABEL_POLICY,
    NORMALISED_PREFIX,
    POLICY_ADMISSION_POLICY,
    POLICY_ALIASES,
    SYSTEM_NAMESPACE,
    TARGET_NAMESPACES,
    VERB_USE,
    VERSION,
)

Manifest = dict[str, Any]

FOREIGN_LIMIT = 6
"""How many foreign namespaces one Workload may write to: each costs a question to the authorizer,
and the API server allows two for an expression and bounds the sum."""

NAMESPACE_TEXT = "the object's namespace must be the target namespace; leave it out"
REPLICAS_TEXT = "must be a whole number that is not negative"
LIMIT_TEXT = f"at most {FOREIGN_LIMIT} namespaces other than the Workload's own; split the Workload"

_API_VERSION = "admissionregistration.k8s.io/v1"
_TEMPLATES = ("targetDeployment", "template")
_SPEC_CHANGED = {
    "name": "spec-changed",
    "expression": "request.operation != 'UPDATE' || object.spec != oldObject.spec",
}


def manifests() -> list[Manifest]:
    """Both policies, each with its binding, in the order in which they are applied."""
    return [
        mutating_policy(),
        _binding("Mutating"),
        validating_policy(),
        _binding("Validating"),
        method_policy(),
        _binding("Mutating", POLICY_ADMISSION_POLICY),
    ]


def _policy(
    flavour: str, spec: Manifest, *, name: str = ADMISSION_POLICY, plural: str = "workloads"
) -> Manifest:
    constraints = {
        "resourceRules": [
            {
                "apiGroups": [GROUP],
                "apiVersions": [VERSION],
                "operations": ["CREATE", "UPDATE"],
                "resources": [plural],
            }
        ]
    }
    return {
        "apiVersion": _API_VERSION,
        "kind": f"{flavour}AdmissionPolicy",
        "metadata": {"name": name},
        "spec": {"matchConstraints": constraints} | spec,
    }


def _binding(flavour: str, name: str = ADMISSION_POLICY) -> Manifest:
    actions = {"validationActions": ["Deny"]} if flavour == "Validating" else {}
    return {
        "apiVersion": _API_VERSION,
        "kind": f"{flavour}AdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name} | actions,
    }


# --- validating -----------------------------------------------------------------------------------


def validating_policy() -> Manifest:
    """Which namespaces a Workload may write to, and what its templates may say."""
    spec = {
        "failurePolicy": "Fail",
        "matchConditions": [_SPEC_CHANGED],
        "variables": [*_namespace_variables(), *_foreign_variables()],
        "validations": [
            _never_forbidden(),
            *(_stays_in_target(part) for part in (*_TEMPLATES, "targetService")),
            *(_not_negative(part) for part in _TEMPLATES),
            {
                "expression": f"size(variables.foreign{FOREIGN_LIMIT}) == 0",
                "message": f"spec.manifests: {LIMIT_TEXT}",
            },
            *(_may_use(index) for index in range(FOREIGN_LIMIT)),
        ],
    }
    return _policy("Validating", spec)


def _target(spec: str) -> str:
    return (
        f"has({spec}.targetNamespace) && {spec}.targetNamespace != '' "
        f"? {spec}.targetNamespace : request.namespace"
    )


def _manifest_namespaces(spec: str) -> str:
    return (
        f"has({spec}.manifests) ? {spec}.manifests"
        ".filter(m, has(m.metadata.namespace)).map(m, m.metadata.namespace) : []"
    )


def _namespace_variables() -> list[Manifest]:
    """target; wanted: all namespaces it names; fresh: those that it did not name before."""
    update = "request.operation == 'UPDATE'"
    held = f"[{_target('oldObject.spec')}] + ({_manifest_namespaces('oldObject.spec')})"
    return [
        _variable("target", _target("object.spec")),
        _variable("wanted", f"[variables.target] + ({_manifest_namespaces('object.spec')})"),
        _variable("held", f"{update} ? {held} : []"),
        _variable("fresh", "variables.wanted.filter(n, !(n in variables.held))"),
    ]


def _foreign_variables() -> list[Manifest]:
    """foreign0: fresh ones other than our own; foreignN: without the N different ones before."""
    first = _variable("foreign0", "variables.fresh.filter(n, n != request.namespace)")
    rest = [
        _variable(
            f"foreign{index}",
            f"variables.foreign{index - 1}.filter(n, n != variables.foreign{index - 1}[0])",
        )
        for index in range(1, FOREIGN_LIMIT + 1)
    ]
    return [first, *rest]


def _variable(name: str, expression: str) -> Manifest:
    return {"name": name, "expression": expression}


def _never_forbidden() -> Manifest:
    forbidden = f"n.startsWith('{FORBIDDEN_NAMESPACE_PREFIX}') || n == '{SYSTEM_NAMESPACE}'"
    return {
        "expression": f"!variables.fresh.exists(n, {forbidden})",
        "message": f"spec.targetNamespace: {FORBIDDEN_TEXT}",
    }


def _stays_in_target(part: str) -> Manifest:
    path = f"object.spec.{part}.metadata.namespace"
    return {
        "expression": f"!has(object.spec.{part}) || !has(object.spec.{part}.metadata)"
        f" || !has({path}) || {path} == variables.target",
        "message": f"spec.{part}.metadata.namespace: {NAMESPACE_TEXT}",
    }


def _not_negative(part: str) -> Manifest:
    """Of the built-in kinds; what a custom kind keeps under this name is its own affair."""
    path = f"object.spec.{part}"
    return {
        "expression": f"!has({path}) || {path}.apiVersion.contains('.') || !has({path}.spec)"
        f" || !has({path}.spec.replicas)"
        f" || (type({path}.spec.replicas) == int && {path}.spec.replicas >= 0)",
        "message": f"spec.{part}.spec.replicas: {REPLICAS_TEXT}",
    }


def _may_use(index: int) -> Manifest:
    foreign = f"variables.foreign{index}"
    field = f"({foreign}[0] == variables.target ? 'targetNamespace' : 'manifests')"
    return {
        "expression": f"size({foreign}) == 0 || authorizer.group('{GROUP}')"
        f".resource('{TARGET_NAMESPACES}').name({foreign}[0]).check('{VERB_USE}').allowed()",
        "messageExpression": f"'spec.' + {field} + ': ' + request.userInfo.username + "
        f"' may not deploy into the namespace ' + {foreign}[0] + "
        f"'; it needs the verb {VERB_USE} on {TARGET_NAMESPACES}.{GROUP} ' + {foreign}[0]",
        "message": "spec.targetNamespace: this user may not deploy into that namespace",
        "reason": "Forbidden",
    }


# --- mutating -------------------------------------------------------------------------------------

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""Where a client-side apply notes what the user wrote."""

_FAMILIES = (
    ("policy", LABEL_POLICY, POLICY_ALIASES),
    ("group", LABEL_GROUP, GROUP_ALIASES),
)


def mutating_policy() -> Manifest:
    """The scheduler's name, and one name for each of two labels.

    All in one patch: a second mutation would have to know whether the first one made the maps.
    """
    variables = [
        _variable("labels", "object.metadata.?labels.orValue({})"),
        _variable("marks", "object.metadata.?annotations.orValue({})"),
        _variable("fields", "object.metadata.?managedFields.orValue([])"),
        *(variable for family in _FAMILIES for variable in _label_variables(*family)),
        _variable("sets", " || ".join(f"variables.{family}Set" for family, *_ in _FAMILIES)),
    ]
    parts = [
        _scheduler_name(),
        _container("labels", "labels"),
        _container("annotations", "marks"),
        *(part for family, label, _ in _FAMILIES for part in _relabel(family, label)),
    ]
    spec = {
        "failurePolicy": "Ignore",
        "reinvocationPolicy": "IfNeeded",
        "variables": variables,
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": " +\n".join(parts)}}],
    }
    return _policy("Mutating", spec)


def _label_variables(family: str, label: str, aliases: tuple[str, ...]) -> list[Manifest]:
    """What `crds.validation` calls said, ours, set and drop; the reasons stand there."""
    mark = f"{NORMALISED_PREFIX}{label.rpartition('/')[2]}"
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
        _variable(
            f"{family}Values",
            f"{list(aliases)}.filter(k, k in {labels}).map(k, {labels}[k])",
        ),
        _variable(
            f"{family}Is",
            f"size({values}) > 0 && {values}.all(v, v == {values}[0]) ? {values}[0] : ''",
        ),
        _variable(f"{family}Ours", f"!({here}) || ({marked} && !({said}))"),
        _variable(
            f"{family}Set",
            f"{ours} && {value} != '' && (!({here}) || {labels}['{label}'] != {value})",
        ),
        _variable(f"{family}Drop", f"{here} && {ours} && size({values}) == 0"),
        _variable(
            f"{family}Unmark",
            f"'{mark}' in variables.marks && !{sets}"
            f" && (!({here}) || !{ours} || variables.{family}Drop)",
        ),
    ]


def _relabel(family: str, label: str) -> list[str]:
    mark = f"{NORMALISED_PREFIX}{label.rpartition('/')[2]}"
    path, mark_path = _path("labels", label), _path("annotations", mark)
    value = f"variables.{family}Is"
    return [
        _patch(f"variables.{family}Set", _add(path, value), _add(mark_path, value)),
        _patch(f"variables.{family}Drop", f'JSONPatch{{op: "remove", path: {path}}}'),
        _patch(f"variables.{family}Unmark", f'JSONPatch{{op: "remove", path: {mark_path}}}'),
    ]


def _scheduler_name() -> str:
    """The schema's default stands in for a missing name; an empty one is the same to us."""
    return _patch(
        "object.spec.?schedulerName.orValue('') == ''",
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
        "variables": [_variable("said", said), _variable("wanted", wanted)],
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}],
    }
    return _policy("Mutating", spec, name=POLICY_ADMISSION_POLICY, plural="workloadpolicies")
