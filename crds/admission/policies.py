"""The admission that a schema cannot do, by policies that the API server itself evaluates.

There is no webhook: nothing of ours has to be running for an apply to go through. The mutating
policy (`mutating`, failurePolicy Ignore) gives a new Workload its finalizer, fills in the
scheduler's name and brings older names of two labels into their one form; where it is missing, or
fails, our processes do the same later. The validating
policy (failurePolicy Fail, evaluated inside the API server) is a boundary of trust: it asks the
hub's authorizer for the verb `use` on targetnamespaces.stowage.dev, by resource name, for every
namespace other than the Workload's own that the Workload would write to, and on
clusterscopedobjects.stowage.dev for every guarded kind that it brings along (`carried`). These
checks are made at the cluster's level: a Role in a tenant's own namespace cannot grant them. It
asks who lets Secrets of a namespace be read in another one (`following`) and who approves a rollout
(`approving`), and it refuses labels and annotations that are Stowage's own (`reserved`), the
PriorityClass of placeholders (`placeholder`), and what is no selector of clusters (`selecting`).

A second validating policy keeps the propagator's notes on a Workload from being invented. Another
one keeps a tenant's Reservation from naming owners of other tenants, whose replicas would be drawn
to where it is, another one asks who raises a priority above 0 (`priorities`), and another one lets
a MemberCluster go only once a command has looked at what runs there (`membership`). Three keep what
belongs to members in mode Pull in its namespaces, and all else out (`pull`). One keeps the
definitions of our kinds (`guard`). A last one brings a WorkloadPolicy's allocationMethod and its
alias together (Ignore).

All look at the objects themselves, never at their status or scale, so that no write of our own
processes depends on them; an update that leaves the spec alone is not looked at, and one that keeps
its namespaces needs no right to them. What is as most Workloads are is let through by one question
(`plain`): all the others together would cost the API server more than the Workload itself.
Guarded kinds are asked for with every edit of what is brought along: an object that an
administrator put there is not for others to rewrite. `crds.admission.validation` is the same in
Python.
"""

from __future__ import annotations

from crds.admission import (
    approving,
    carried,
    following,
    guard,
    membership,
    mutating,
    overriding,
    placeholder,
    plain,
    priorities,
    pull,
    reserved,
    selecting,
)
from crds.admission.carried import KIND_LIMIT, KIND_LIMIT_TEXT
from crds.admission.policy import Manifest, binding, policy, variable
from crds.base import FORBIDDEN_TEXT
from crds.names import (
    ANNOTATION_CLUSTERS,
    ANNOTATION_KINDS,
    ANNOTATION_ORDINALS,
    CLUSTER_SCOPED_OBJECTS,
    FORBIDDEN_NAMESPACE_PREFIX,
    GROUP,
    GUARD_ADMISSION_POLICY,
    MARKS_ADMISSION_POLICY,
    MEMBERSHIP_ADMISSION_POLICY,
    POLICY_ADMISSION_POLICY,
    PRIORITY_ADMISSION_POLICY,
    RESERVATION_ADMISSION_POLICY,
    SYSTEM_NAMESPACE,
    TARGET_NAMESPACES,
    VERB_USE,
)

FOREIGN_LIMIT = 6
"""How many foreign namespaces one Workload may write to: each costs a question to the authorizer,
and the API server allows two for an expression and bounds the sum."""

MARKS = (ANNOTATION_KINDS, ANNOTATION_CLUSTERS, ANNOTATION_ORDINALS)
"""Annotations on a Workload by which the propagator remembers what it did."""

NAMESPACE_TEXT = "the object's namespace must be the target namespace; leave it out"
INDEXED_TEXT = "an Indexed Job counts from 0 on each cluster: set distribution to Single"
REPLICAS_TEXT = "must be a whole number that is not negative"
ORDINALS_TEXT = "must be a mapping"
LIMIT_TEXT = f"at most {FOREIGN_LIMIT} namespaces other than the Workload's own; split the Workload"
OWNER_TEXT = (
    "owners are Workloads of the Reservation's own namespace; leave the namespace out, or make the "
    f"Reservation in {SYSTEM_NAMESPACE}"
)

_WORTH_A_LOOK = {
    "name": "worth-a-look",
    "expression": "(request.operation != 'UPDATE'"
    " || object.metadata.generation != oldObject.metadata.generation)"
    f" && !({plain.cel_plain('object.spec')})",
}
"""By its generation, which the API server raises with each change of the spec: to compare two specs
costs more than all else here."""
_FOREIGN = "variables.fresh.filter(n, n != request.namespace)"
_TEMPLATES = ("targetDeployment", "template")


def manifests() -> list[Manifest]:
    """Return the policies of our objects, each with its binding, in the order of their applies."""
    return [
        mutating.mutating_policy(),
        binding("Mutating"),
        validating_policy(),
        binding("Validating"),
        marks_policy(),
        binding("Validating", MARKS_ADMISSION_POLICY),
        mutating.method_policy(),
        binding("Mutating", POLICY_ADMISSION_POLICY),
        reservation_policy(),
        binding("Validating", RESERVATION_ADMISSION_POLICY),
        priorities.priority_policy(),
        binding("Validating", PRIORITY_ADMISSION_POLICY),
        membership.membership_policy(),
        binding("Validating", MEMBERSHIP_ADMISSION_POLICY),
        *(part for each in pull.pull_policies() for part in _bound(each)),
    ]


def _bound(validating: Manifest) -> list[Manifest]:
    return [validating, binding("Validating", validating["metadata"]["name"])]


def guard_manifests() -> list[Manifest]:
    """The policy that keeps our kinds, and its binding, which come after the kinds."""
    return [guard.guard_policy(), binding("Validating", GUARD_ADMISSION_POLICY)]


def validating_policy() -> Manifest:
    """Which namespaces a Workload may write to, and what its templates may say."""
    spec = {
        "failurePolicy": "Fail",
        "matchConditions": [_WORTH_A_LOOK],
        "variables": [
            *_namespace_variables(),
            *_distinct("foreign", _FOREIGN, FOREIGN_LIMIT),
            *_kind_variables(),
            *reserved.cel_variables(),
            *placeholder.cel_variables(),
            *overriding.cel_variables(),
        ],
        "validations": [
            _never_forbidden(),
            *reserved.cel_validations(),
            *placeholder.cel_validations(),
            *overriding.cel_validations(),
            *selecting.cel_validations("object.spec"),
            *(_stays_in_target(part) for part in (*_TEMPLATES, "targetService")),
            *(_not_negative(part) for part in _TEMPLATES),
            _with_ordinals(),
            _not_divided(),
            {
                "expression": f"size(variables.foreign{FOREIGN_LIMIT}) == 0",
                "message": f"spec.manifests: {LIMIT_TEXT}",
            },
            {
                "expression": f"size(variables.guarded{KIND_LIMIT}) == 0",
                "message": f"spec.manifests: {KIND_LIMIT_TEXT}",
            },
            *(_may_use(index) for index in range(FOREIGN_LIMIT)),
            *(_may_bring(index) for index in range(KIND_LIMIT)),
            following.cel_validation(),
            approving.cel_validation(),
        ],
    }
    return policy("Validating", spec)


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
        variable("target", _target("object.spec")),
        variable("wanted", f"[variables.target] + ({_manifest_namespaces('object.spec')})"),
        variable("held", f"{update} ? {held} : []"),
        variable("fresh", "variables.wanted.filter(n, !(n in variables.held))"),
    ]


def _kind_variables() -> list[Manifest]:
    """kinds: those of all that is brought along; guarded0 …: the different guarded ones."""
    changed = carried.cel_changed("object.spec", "oldObject.spec")
    asked = f"(request.operation != 'UPDATE' || {changed}) ? variables.kinds : []"
    return [
        variable("kinds", carried.cel_kinds("object.spec")),
        variable("asked", asked),
        *_distinct("guarded", f"variables.asked.filter(k, {carried.cel_guarded('k')})", KIND_LIMIT),
    ]


def _distinct(name: str, found: str, limit: int) -> list[Manifest]:
    """name0: what an expression finds; nameN: that without the N different ones before."""
    rest = [
        variable(
            f"{name}{index}",
            f"variables.{name}{index - 1}.filter(n, n != variables.{name}{index - 1}[0])",
        )
        for index in range(1, limit + 1)
    ]
    return [variable(f"{name}0", found), *rest]


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
        f" || type({path}.spec) != map || !has({path}.spec.replicas)"
        f" || (type({path}.spec.replicas) == int && {path}.spec.replicas >= 0)",
        "message": f"spec.{part}.spec.replicas: {REPLICAS_TEXT}",
    }


def _with_ordinals() -> Manifest:
    """Of a StatefulSet, whose first ordinal is set in there."""
    path = "object.spec.template"
    return {
        "expression": f"!has({path}) || {path}.apiVersion.contains('.') || !has({path}.spec)"
        f" || type({path}.spec) != map || !has({path}.spec.ordinals)"
        f" || type({path}.spec.ordinals) == map",
        "message": f"spec.template.spec.ordinals: {ORDINALS_TEXT}",
    }


def _not_divided() -> Manifest:
    """Of a Job whose pods are numbered: each cluster would count them from 0."""
    template = "object.spec.template"
    return {
        "expression": "!has(object.spec.distribution) || object.spec.distribution != 'Divided'"
        f" || !has({template}) || {template}.apiVersion != 'batch/v1' || !has({template}.spec)"
        f" || type({template}.spec) != map || !has({template}.spec.completionMode)"
        f" || {template}.spec.completionMode != 'Indexed'",
        "message": f"spec.distribution: {INDEXED_TEXT}",
    }


def _may_use(index: int) -> Manifest:
    foreign = f"variables.foreign{index}"
    field = f"({foreign}[0] == variables.target ? 'targetNamespace' : 'manifests')"
    return {
        "expression": _empty_or_allowed(foreign, TARGET_NAMESPACES),
        "messageExpression": f"'spec.' + {field} + ': ' + request.userInfo.username + "
        f"' may not deploy into the namespace ' + {foreign}[0] + "
        f"'; it needs the verb {VERB_USE} on {TARGET_NAMESPACES}.{GROUP} ' + {foreign}[0]",
        "message": "spec.targetNamespace: this user may not deploy into that namespace",
        "reason": "Forbidden",
    }


def _may_bring(index: int) -> Manifest:
    guarded = f"variables.guarded{index}"
    field = carried.cel_field(f"{guarded}[0]", "variables.kinds", "object.spec")
    return {
        "expression": _empty_or_allowed(guarded, CLUSTER_SCOPED_OBJECTS),
        "messageExpression": f"{field} + ': ' + request.userInfo.username + "
        f"' may not bring along ' + {guarded}[0] + "
        f"'; it needs the verb {VERB_USE} on {CLUSTER_SCOPED_OBJECTS}.{GROUP} ' + {guarded}[0]",
        "message": "spec.manifests: this user may not bring along an object of that kind",
        "reason": "Forbidden",
    }


def _empty_or_allowed(names: str, resource: str) -> str:
    """Whether the list is empty, or the author may use its first name."""
    return (
        f"size({names}) == 0 || authorizer.group('{GROUP}')"
        f".resource('{resource}').name({names}[0]).check('{VERB_USE}').allowed()"
    )


def marks_policy() -> Manifest:
    """Return the policy that only a writer of a Workload's status notes what it has on members.

    The propagator remembers by these annotations what it has to take away. One may be taken off, as
    happens to who replaces a whole object: the propagator notes again what it writes.
    """
    new, old = "object.metadata.annotations", "oldObject.metadata.?annotations[?k].orValue('')"
    held = f"request.operation == 'UPDATE' && {old} == {new}[k]"
    claimed = f"k in {new} && {new}[k] != '' && !({held})"
    may = (
        f"authorizer.group('{GROUP}').resource('workloads').subresource('status')"
        ".namespace(request.namespace).check('patch').allowed()"
    )
    spec = {
        "failurePolicy": "Fail",
        "matchConditions": [
            {
                "name": "marks-claimed",
                "expression": f"has({new}) && {list(MARKS)}.exists(k, {claimed})",
            }
        ],
        "validations": [
            {
                "expression": may,
                "message": f"metadata.annotations: {', '.join(MARKS)} are written by Stowage; "
                "leave them out",
                "reason": "Forbidden",
            }
        ],
    }
    return policy("Validating", spec, name=MARKS_ADMISSION_POLICY)


def reservation_policy() -> Manifest:
    """Return the policy that a tenant's Reservation names owners of its own namespace alone.

    Its selectors of clusters are judged as those of a Workload.
    """
    foreign = " || ".join(
        f"(has(o.{field}) && has(o.{field}.namespace) && o.{field}.namespace != request.namespace)"
        for field in ("object", "controller")
    )
    spec = {
        "failurePolicy": "Fail",
        "validations": [
            {
                "expression": f"request.namespace == '{SYSTEM_NAMESPACE}'"
                f" || !object.spec.owners.exists(o, {foreign})",
                "message": f"spec.owners: {OWNER_TEXT}",
            },
            *selecting.cel_validations("object.spec", ("distributionWeights",)),
        ],
    }
    return policy("Validating", spec, name=RESERVATION_ADMISSION_POLICY, plurals=("reservations",))
