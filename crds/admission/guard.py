"""The end of our kinds: only `stowage uninstall` deletes their definitions.

A definition takes all objects of its kind along, and so would a command that takes an installation
back, such as `kubectl delete -f`. No policy can guard policies, and kubectl deletes the objects of
a file or a folder in their order: this one comes after the kinds wherever both are, so it is in
force when their turn comes. Where it is missing, the propagator lets go of what Workloads run
(`propagator.hub.own_kind`).
"""

from __future__ import annotations

from crds.admission.policy import Manifest, policy
from crds.names import ANNOTATION_UNINSTALL, GROUP, GUARD_ADMISSION_POLICY, UNINSTALL

_NOTES = "oldObject.metadata.annotations"
_ADVICE = f'run "stowage uninstall", or annotate the CRD with {ANNOTATION_UNINSTALL}={UNINSTALL}'


def guard_policy() -> Manifest:
    """The definitions of our kinds stay until a person has said that they may go."""
    rule = {
        "apiGroups": ["apiextensions.k8s.io"],
        "apiVersions": ["*"],
        "operations": ["DELETE"],
        "resources": ["customresourcedefinitions"],
    }
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "failurePolicy": "Fail",
        # Not by their names in the rule: the request that deletes a collection has none.
        "matchConditions": [
            {"name": "is-ours", "expression": f"oldObject.spec.group == '{GROUP}'"}
        ],
        "validations": [
            {
                "expression": f"has({_NOTES}) && '{ANNOTATION_UNINSTALL}' in {_NOTES}"
                f" && {_NOTES}['{ANNOTATION_UNINSTALL}'] == '{UNINSTALL}'",
                "messageExpression": f"oldObject.metadata.name + ': {_ADVICE}'",
                "message": _ADVICE,
                "reason": "Forbidden",
            }
        ],
    }
    return policy("Validating", spec, name=GUARD_ADMISSION_POLICY)
