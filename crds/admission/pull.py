"""Mode Pull: what lives in the namespaces of members, and what a MemberCluster in it must name.

A namespace with the label `LABEL_MEMBER_NAMESPACE` is served to one agent, which may read what is
in it. So a Workload, whose author would be read there, is never made in one, and Assignments and
MemberReports are made nowhere else. Both are told by the label alone, which costs a request on any
other namespace nothing. That a MemberCluster is in mode Pull says nothing without the namespace,
and that it is in mode Push nothing without a Secret: `stowage join` and `stowage invite` write
both at once.
"""

from __future__ import annotations

from crds.admission.policy import Manifest, policy
from crds.names import (
    ANNOTATION_MEMBER_NAMESPACE,
    LABEL_MEMBER_NAMESPACE,
    MEMBER_NAMESPACE_PREFIX,
    MODE_ADMISSION_POLICY,
    PULL_ADMISSION_POLICY,
    PULLED_ADMISSION_POLICY,
)

ELSEWHERE_TEXT = (
    f"only in the namespace of a member, which has the label {LABEL_MEMBER_NAMESPACE}; "
    "`stowage invite` makes it"
)
WORKLOAD_TEXT = "the namespace is that of a member, whose agent reads it; use another one"
PULL_TEXT = "run `stowage join --pull` or `stowage invite`, which make what the agent needs"
PUSH_TEXT = "run `stowage join` without --pull, which makes the Secret that Push needs"

OURS = ("assignments", "memberreports")
_NOTED = f"object.metadata.?annotations[?'{ANNOTATION_MEMBER_NAMESPACE}'].orValue('')"


def pull_policies() -> list[Manifest]:
    """The policies about namespaces of members, and the one of spec.mode."""
    return [
        _never(PULL_ADMISSION_POLICY, OURS, "DoesNotExist", ELSEWHERE_TEXT),
        _never(PULLED_ADMISSION_POLICY, ("workloads",), "Exists", WORKLOAD_TEXT),
        _mode_policy(),
    ]


def _never(name: str, plurals: tuple[str, ...], label: str, text: str) -> Manifest:
    """Nothing of these kinds is made in a namespace that has, or has not, the label."""
    spec = {
        "failurePolicy": "Fail",
        "validations": [
            {
                "expression": "false",
                "message": f"metadata.namespace: {text}",
                "reason": "Forbidden",
            }
        ],
    }
    made = policy("Validating", spec, name=name, plurals=plurals, operations=("CREATE",))
    selector = {"matchExpressions": [{"key": LABEL_MEMBER_NAMESPACE, "operator": label}]}
    made["spec"]["matchConstraints"]["namespaceSelector"] = selector
    return made


def _mode_policy() -> Manifest:
    """A MemberCluster in mode Pull names its namespace, and one that leaves it a Secret."""
    pull = "object.spec.?mode.orValue('') == 'Pull'"
    left = "request.operation == 'UPDATE' && oldObject.spec.?mode.orValue('') == 'Pull'"
    spec = {
        "failurePolicy": "Fail",
        "matchConditions": [{"name": "pulls-or-did", "expression": f"{pull} || ({left})"}],
        "validations": [
            {
                "expression": f"!({pull}) || {_NOTED}.startsWith('{MEMBER_NAMESPACE_PREFIX}')",
                "message": f"spec.mode: {PULL_TEXT}",
                "reason": "Forbidden",
            },
            {
                "expression": f"{pull} || has(object.spec.secretRef)",
                "message": f"spec.mode: {PUSH_TEXT}",
                "reason": "Forbidden",
            },
        ],
    }
    return policy("Validating", spec, name=MODE_ADMISSION_POLICY, plurals=("memberclusters",))
