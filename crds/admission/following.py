"""Who may have the objects that pods name go along into a namespace of another name.

The author of a Workload can read on the members whatever its pods mount, which is no more than
whoever creates pods in that namespace can. With a foreign targetNamespace others read there as
well. So its author needs the right to read the Secrets of the Workload's own namespace, with each
edit: any of them may name another Secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crds.fields.dependencies import Dependencies

FIELD = "spec.dependencies"
_FOLLOW = Dependencies.FOLLOW.value


def shown_elsewhere(spec: Mapping[str, Any], namespace: str) -> bool:
    """Whether what the pods name goes into another namespace than the Workload's own."""
    target = spec.get("targetNamespace") or namespace
    return spec.get("dependencies") == _FOLLOW and target != namespace


def cel_validation() -> dict[str, str]:
    """Return the rule; `variables.target` is the namespace on the members."""
    follows = f"has(object.spec.dependencies) && object.spec.dependencies == '{_FOLLOW}'"
    may = (
        "authorizer.group('').resource('secrets').namespace(request.namespace)"
        ".check('get').allowed()"
    )
    return {
        "expression": f"!({follows}) || variables.target == request.namespace || {may}",
        "messageExpression": f"'{FIELD}: ' + request.userInfo.username + "
        "' may not let Secrets of the namespace ' + request.namespace + ' be read in ' + "
        "variables.target + '; it needs the verb get on secrets in ' + request.namespace",
        "message": f"{FIELD}: this user may not let Secrets be read in another namespace",
        "reason": "Forbidden",
    }
