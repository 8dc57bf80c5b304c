"""Priorities: one above 0 needs the verb `use` on priorities.stowage.dev.

The room of a fleet knows no namespaces. Who says a higher priority takes it first, and a
Reservation of the highest one would keep it. The question is asked in the namespace of the object,
so that a Role there answers it; only a change that raises a priority is checked, and 0 and less are
everybody's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crds.admission.policy import Manifest, policy
from crds.names import GROUP, PRIORITIES, PRIORITY_ADMISSION_POLICY, VERB_USE

FIELD = "spec.priority"
_BEFORE = "has(oldObject.spec.priority) && oldObject.spec.priority >= object.spec.priority"


def raised(thing: Mapping[str, Any]) -> bool:
    """Whether the author of a Workload or Reservation needs the right, as far as the form goes."""
    priority = (thing.get("spec") or {}).get("priority")
    return isinstance(priority, int) and priority > 0


def priority_policy() -> Manifest:
    """Workloads and Reservations with a priority above 0 that they did not have before."""
    spec = {
        "failurePolicy": "Fail",
        "matchConditions": [
            {
                "name": "priority-raised",
                "expression": "has(object.spec.priority) && object.spec.priority > 0"
                f" && !(request.operation == 'UPDATE' && {_BEFORE})",
            }
        ],
        "validations": [
            {
                "expression": f"authorizer.group('{GROUP}').resource('{PRIORITIES}')"
                f".namespace(request.namespace).check('{VERB_USE}').allowed()",
                "messageExpression": f"'{FIELD}: ' + request.userInfo.username + "
                "' may not set a priority above 0 in the namespace ' + request.namespace + "
                f"'; it needs the verb {VERB_USE} on {PRIORITIES}.{GROUP} there'",
                "message": f"{FIELD}: this user may not set a priority above 0 in that namespace",
                "reason": "Forbidden",
            }
        ],
    }
    plurals = ("workloads", "reservations")
    return policy("Validating", spec, name=PRIORITY_ADMISSION_POLICY, plurals=plurals)
