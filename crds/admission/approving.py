"""Who may approve that a rollout goes on: a change of approvals needs the verb `approve`.

The question is about that Workload, by its name and in its namespace, so that a Role there answers
it. Whoever edits a Workload may do so without the verb as long as the approvals stay as they are;
what is taken away is a change as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crds.names import GROUP, VERB_APPROVE

FIELD = "spec.rollout.approvals"
RESOURCE = "workloads"


def approves(spec: Mapping[str, Any]) -> bool:
    """Whether the spec holds approvals, as far as the form goes."""
    return bool((spec.get("rollout") or {}).get("approvals"))


def cel_none(spec: str) -> str:
    """Whether a spec has no rollout, and had none: the question of `plain`, which is cheap."""
    had = "has(oldObject.spec.rollout)"
    return f"!has({spec}.rollout) && (request.operation != 'UPDATE' || !{had})"


def cel_validation() -> dict[str, str]:
    """Return the rule."""
    may = (
        f"authorizer.group('{GROUP}').resource('{RESOURCE}').namespace(request.namespace)"
        f".name(object.metadata.name).check('{VERB_APPROVE}').allowed()"
    )
    new, old = (f"{each}.spec.?rollout.?approvals.orValue([])" for each in ("object", "oldObject"))
    return {
        "expression": f"{new} == (request.operation == 'UPDATE' ? {old} : []) || {may}",
        "messageExpression": f"'{FIELD}: ' + request.userInfo.username + "
        "' may not approve the rollout of ' + object.metadata.name + "
        f"'; it needs the verb {VERB_APPROVE} on {RESOURCE}.{GROUP} ' + object.metadata.name + "
        "' in the namespace ' + request.namespace",
        "message": f"{FIELD}: this user may not approve the rollout of that Workload",
        "reason": "Forbidden",
    }
