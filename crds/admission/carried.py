"""The kinds that a Workload may bring along: one table, read in three places.

The propagator writes with rights of its own, so that an object which reaches beyond a namespace, or
hands out rights, would lend those rights to every writer of a Workload. Such kinds are guarded:
their author needs the verb `use` on clusterscopedobjects.stowage.dev, resource name
`<group>/<kind>` (`core/Namespace`, as no group is called core), and the MemberCluster has to list
them in spec.allowedKinds.

The table stands here once. Admission asks it in CEL (`admission`), the controller in Python where
the hub has no policies (`validation`), and the propagator once more. The propagator alone can ask
a member whether a kind has a namespace: a kind without one is guarded there, whatever its group.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crds.names import GROUP

Json = Mapping[str, Any]

CORE = "core"
"""Stands for the group that has no name."""

GUARDED_GROUPS = (
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "certificates.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "node.k8s.io",
    "rbac.authorization.k8s.io",
    "storagemigration.k8s.io",
    GROUP,
)
"""Every kind of these groups: they rule a whole cluster, or hand out rights.

Of our own group, because a hub may be a member of its own fleet: a Workload that came by the
propagator would have the propagator for its author.
"""

GUARDED_KINDS = (
    "core/ComponentStatus",
    "core/Namespace",
    "core/Node",
    "core/PersistentVolume",
    "networking.k8s.io/IPAddress",
    "networking.k8s.io/IngressClass",
    "networking.k8s.io/ServiceCIDR",
    "resource.k8s.io/DeviceClass",
    "resource.k8s.io/DeviceTaintRule",
    "resource.k8s.io/ResourcePoolStatusRequest",
    "resource.k8s.io/ResourceSlice",
    "scheduling.k8s.io/PriorityClass",
    "storage.k8s.io/CSIDriver",
    "storage.k8s.io/CSINode",
    "storage.k8s.io/StorageClass",
    "storage.k8s.io/VolumeAttachment",
    "storage.k8s.io/VolumeAttributesClass",
)
"""Cluster-scoped kinds of groups that have namespaced ones too."""

KIND_LIMIT = 6
"""How many guarded kinds one Workload may bring along: each costs a question to the authorizer."""

KIND_LIMIT_TEXT = f"at most {KIND_LIMIT} kinds that are cluster-scoped or hand out rights; split it"

CARRIED_FIELDS = (
    "template",
    "manifests",
    "overrides",
    "targetNamespace",
    "adoption",
    "replicasPath",
)
"""The parts of the spec that say what is brought along, where to, and over what.

Who edits one of them answers for all guarded kinds of the Workload, also those that it had.
"""


def kind_name(api_version: str, kind: str) -> str:
    """`<group>/<kind>`, as RBAC and allowedKinds name it: `core/Node`, `apps/Deployment`."""
    group, slash, _ = api_version.partition("/")
    return f"{group if slash else CORE}/{kind}"


def guarded(kind: str) -> bool:
    """Return whether a `<group>/<kind>` needs the right, by name alone, as `cel_guarded` does."""
    return kind in GUARDED_KINDS or kind.partition("/")[0] in GUARDED_GROUPS


def guarded_kinds(spec: Json) -> dict[str, str]:
    """The guarded kinds that a Workload's spec brings along, each with the field that names it.

    The kinds of a targetDeployment and a targetService are never guarded.
    """
    named: dict[str, str] = {}
    for field, body in carried(spec):
        kind = kind_name(str(body.get("apiVersion", "")), str(body.get("kind", "")))
        if guarded(kind):
            named.setdefault(kind, f"{field}.kind")
    return named


def carried(spec: Json) -> list[tuple[str, Json]]:
    """Return (field, object) of everything in the spec that can be of any kind."""
    template = spec.get("template")
    first = [("spec.template", template)] if template else []
    bodies = enumerate(spec.get("manifests") or ())
    return first + [(f"spec.manifests[{index}]", body) for index, body in bodies]


# --- the same in CEL ------------------------------------------------------------------------------


def cel_guarded(kind: str) -> str:
    """Of a CEL expression that is a `<group>/<kind>`."""
    groups = f"{kind}.split('/')[0] in {list(GUARDED_GROUPS)}"
    return f"{kind} in {list(GUARDED_KINDS)} || {groups}"


def cel_kind_name(body: str) -> str:
    """Of a CEL expression that is an object."""
    group = f"{body}.apiVersion.contains('/') ? {body}.apiVersion.split('/')[0] : '{CORE}'"
    return f"({group}) + '/' + {body}.kind"


def cel_kinds(spec: str) -> str:
    """The `<group>/<kind>` of everything that can be of any kind, the template first."""
    template = f"has({spec}.template) ? [{cel_kind_name(f'{spec}.template')}] : []"
    manifests = f"{spec}.manifests.map(m, {cel_kind_name('m')})"
    return f"({template}) + (has({spec}.manifests) ? {manifests} : [])"


def cel_field(kind: str, kinds: str, spec: str) -> str:
    """The field that first names a kind among `kinds`, the variable that holds `cel_kinds`."""
    head = f"(has({spec}.template) ? 1 : 0)"
    return (
        f"({kinds}.indexOf({kind}) < {head} ? 'spec.template.kind'"
        f" : 'spec.manifests[' + string({kinds}.indexOf({kind}) - {head}) + '].kind')"
    )


def cel_changed(new: str, old: str) -> str:
    """Whether an update edits anything of what is brought along."""
    return " || ".join(f"{new}.?{field} != {old}.?{field}" for field in CARRIED_FIELDS)
