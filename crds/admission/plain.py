"""Which Workloads need no further look: one cheap question in CEL about each new or edited spec.

Most Workloads bring a Deployment, a Service and some ConfigMaps into the namespace of their own
name. For these all that the validating policy asks has one answer, and asking it all costs the API
server more than everything else that it does for them. So the policy matches only what is not
plain. What is plain is decided narrowly: anything unusual (a custom kind, a namespace
that is named, a label that has our group in it, a field of another type than it should have) goes
the long way, and is judged there by the rules themselves.
"""

from __future__ import annotations

from crds.admission import selecting
from crds.admission.approving import cel_none
from crds.admission.placeholder import cel_free, cel_ours
from crds.names import FORBIDDEN_NAMESPACE_PREFIX, GROUP, SYSTEM_NAMESPACE

TEMPLATE_VERSIONS = ("apps/v1", "batch/v1")
MANIFEST_VERSIONS = ("v1", "apps/v1", "batch/v1", "autoscaling/v2", "policy/v1")
MANIFEST_KINDS = (
    "ConfigMap",
    "CronJob",
    "DaemonSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "Job",
    "PersistentVolumeClaim",
    "PodDisruptionBudget",
    "Secret",
    "Service",
    "ServiceAccount",
    "StatefulSet",
)
"""Kinds that are not guarded, in any of those versions."""


def cel_plain(spec: str) -> str:
    """Whether every rule of the validating policy holds, of an expression that is a spec."""
    namespace = (
        f"(!has({spec}.targetNamespace) || {spec}.targetNamespace in ['', request.namespace])"
        f" && !request.namespace.startsWith('{FORBIDDEN_NAMESPACE_PREFIX}')"
        f" && request.namespace != '{SYSTEM_NAMESPACE}'"
    )
    template, manifests = f"{spec}.template", f"{spec}.manifests"
    usual = f"{template}.apiVersion in {list(TEMPLATE_VERSIONS)} && {_body(template)}"
    each = (
        f"m.apiVersion in {list(MANIFEST_VERSIONS)} && m.kind in {list(MANIFEST_KINDS)}"
        f" && {_body('m')}"
    )
    return " && ".join(
        (
            namespace,
            f"!({cel_ours(spec)})",
            f"!has({spec}.overrides)",
            selecting.cel_plain(spec),
            (
                f"(!has({spec}.distribution) || {spec}.distribution != 'Divided'"
                f" || !has({template}) || !has({template}.spec) || type({template}.spec) != map"
                f" || !has({template}.spec.completionMode))"
            ),
            cel_none(spec),
            *(
                f"(!has({part}) || ({_body(part)}))"
                for part in (f"{spec}.targetDeployment", f"{spec}.targetService")
            ),
            f"(!has({template}) || ({usual}))",
            f"(!has({manifests}) || {manifests}.all(m, {each}))",
        )
    )


def _body(body: str) -> str:
    """Whether an object names no namespace, bears nothing of ours, and counts its replicas."""
    spec = f"{body}.spec"
    pods = f"{spec}.template"
    inside = f"{_metadata(pods)} && {cel_free(f'{pods}.spec')}"
    fields = " && ".join(
        (
            *(f"!has({spec}.{field})" for field in ("jobTemplate", "volumeClaimTemplates")),
            f"(!has({spec}.replicas) || (type({spec}.replicas) == int && {spec}.replicas >= 0))",
            f"(!has({spec}.ordinals) || type({spec}.ordinals) == map)",
            f"(!has({pods}) || (type({pods}) == map && {inside}))",
        )
    )
    return f"{_metadata(body)} && (!has({spec}) || (type({spec}) == map && {fields}))"


def _metadata(body: str) -> str:
    metadata = f"{body}.metadata"
    fields = " && ".join(
        (
            f"!has({metadata}.namespace)",
            *(_clean(f"{metadata}.{field}") for field in ("labels", "annotations")),
        )
    )
    return f"(!has({metadata}) || (type({metadata}) == map && {fields}))"


def _clean(keys: str) -> str:
    """No key of those labels or annotations has our group in it, be it ours or the user's."""
    ours = f"k.contains('{GROUP}/')"
    return f"(!has({keys}) || (type({keys}) == map && !{keys}.exists(k, {ours})))"
