"""The end of a MemberCluster: only `stowage unjoin` and `stowage rename` delete one.

What runs on a cluster goes on when its MemberCluster goes, and nobody sees it any more. So one that
has ever led to a cluster is deleted only with the annotation that these commands set before, once
they have looked at what runs there. On a hub that serves no such policies the deletion goes
through; then the cluster is away (`controller.cache.away`), and `stowage status` says so.
"""

from __future__ import annotations

from crds.admission.policy import Manifest, policy
from crds.names import (
    ANNOTATION_UNJOIN,
    GIVEN_UP,
    MEMBERSHIP_ADMISSION_POLICY,
    RENAMED,
)

_NOTES = "oldObject.metadata.annotations"
_STATUS = "oldObject.status"


def membership_policy() -> Manifest:
    """MemberClusters that a command has not let go of stay."""
    spec = {
        "failurePolicy": "Fail",
        "matchConditions": [
            {
                "name": "has-led-to-a-cluster",
                "expression": f"has({_STATUS}) && (has({_STATUS}.clusterID)"
                f" || has({_STATUS}.version))",
            }
        ],
        "validations": [
            {
                "expression": f"has({_NOTES}) && '{ANNOTATION_UNJOIN}' in {_NOTES}"
                f" && {_NOTES}['{ANNOTATION_UNJOIN}'] in ['{GIVEN_UP}', '{RENAMED}']",
                "messageExpression": "'what runs on ' + oldObject.metadata.name + ' would go on "
                "unseen: run `stowage unjoin ' + oldObject.metadata.name + '`, which looks first, "
                "or `stowage rename`'",
                "message": "what runs on the cluster would go on unseen: run `stowage unjoin`",
                "reason": "Forbidden",
            }
        ],
    }
    name, plurals = MEMBERSHIP_ADMISSION_POLICY, ("memberclusters",)
    return policy("Validating", spec, name=name, plurals=plurals, operations=("DELETE",))
