"""The objects that a Workload carries to the members, as far as the hub looks into them.

Everything in them that is not named here goes through untouched: a member may know fields and kinds
that the hub has never heard of. What is named is what the hub decides by; and `Override` says
what differs between clusters.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from crds.base import (
    NAME,
    PRESERVE,
    Count,
    DnsName,
    Int32,
    LabelValue,
    Model,
    Rule,
    TargetNamespace,
    atomic,
)
from crds.names import GROUP, LONGEST_NAMES

APPS_KINDS = ("Deployment", "StatefulSet", "ReplicaSet", "DaemonSet")
BATCH_KINDS = ("Job", "CronJob")

_DEPLOYMENT = ("apps/v1", "Deployment")
_LABEL = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_API_VERSION = rf"^({NAME}(\.{NAME})*/)?{_LABEL}$"
_KIND = r"^[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?$"
"""As a CustomResourceDefinition may name groups, versions and kinds."""

_CUSTOM = r"^[a-z0-9-]+(\.[a-z0-9-]+)+/v[a-z0-9]+$"
_CEL_CUSTOM = _CUSTOM.replace("\\", "\\\\")
_ANY_NAME = 253


def _cel_longest(at: str) -> str:
    cases = (
        f"{at}.apiVersion == '{version}' && {at}.kind == '{kind}' ? {most} : "
        for (version, kind), most in LONGEST_NAMES.items()
    )
    return f"({''.join(cases)}{_ANY_NAME})"


def _name_fits(carried: Any, otherwise: str = "") -> bool:
    name = (carried.metadata and carried.metadata.name) or otherwise
    return len(name) <= LONGEST_NAMES.get((carried.api_version, carried.kind), _ANY_NAME)


_NAME_TEXT = (
    "is too long: a member makes no pod for a StatefulSet or CronJob of over 52 characters, and "
    "takes no Job or Service of over 63"
)
NAME_RULE = Rule(
    field="metadata.name",
    text=_NAME_TEXT,
    cel="!has(self.metadata) || !has(self.metadata.name)"
    f" || size(self.metadata.name) <= {_cel_longest('self')}",
    holds=_name_fits,
)


def unnamed_rule(field: str) -> Rule:
    """Return the rule of a Workload whose template has the Workload's own name."""
    template = f"self.spec.{field}"
    return Rule(
        field="metadata.name",
        text=f"{_NAME_TEXT}; spec.{field} may have another name",
        cel=f"!has({template}) || (has({template}.metadata) && has({template}.metadata.name))"
        f" || size(self.metadata.name) <= {_cel_longest(template)}",
        holds=lambda w: (
            (found := getattr(w.spec, _SNAKE[field])) is None
            or _name_fits(found, str(w.metadata.get("name") or ""))
        ),
        located=False,
    )


_SNAKE = {"template": "template", "targetService": "target_service"}


class Open(Model):
    """A part that keeps what it does not know."""

    model_config = ConfigDict(extra="allow")


class TemplateMeta(Open):
    """metadata of an object that goes to the members."""

    name: DnsName | None = None
    """Its name there."""
    namespace: TargetNamespace | None = None
    """Its namespace there; may be left out."""


class ManifestMeta(TemplateMeta):
    """metadata of an object that goes along."""

    name: DnsName
    """Its name there."""


class Carried(Open):
    """The fields that every object that goes to the members must have."""

    api_version: Annotated[str, Field(min_length=1, max_length=317, pattern=_API_VERSION)]
    """Group and version, such as apps/v1."""
    kind: Annotated[str, Field(min_length=1, max_length=63, pattern=_KIND)]
    """The kind, such as Deployment."""


def well_formed(api_version: str, kind: str) -> bool:
    """Whether they can name a kind at all; objects from before the schema said so may not."""
    return (
        len(api_version) <= 317
        and len(kind) <= 63
        and re.fullmatch(_API_VERSION, api_version) is not None
        and re.fullmatch(_KIND, kind) is not None
    )


def _runs_units(template: Carried) -> bool:
    if template.api_version == "apps/v1":
        return template.kind in APPS_KINDS
    if template.api_version == "batch/v1":
        return template.kind in BATCH_KINDS
    return is_custom(template)


def is_custom(template: Carried) -> bool:
    """True for a kind of a custom group; the built-in groups that run replicas have no dot."""
    custom = re.fullmatch(_CUSTOM, template.api_version)
    return bool(custom) and not template.api_version.startswith(f"{GROUP}/")


class Template(Carried):
    """The object that runs the replicas."""

    rules = (
        Rule(
            field="kind",
            text="must be a Deployment, StatefulSet, ReplicaSet or DaemonSet of apps/v1, a Job or "
            "CronJob of batch/v1, or a custom kind of a group with a dot in its name",
            cel=f"self.apiVersion == 'apps/v1' ? self.kind in {list(APPS_KINDS)}"
            f" : self.apiVersion == 'batch/v1' ? self.kind in {list(BATCH_KINDS)}"
            f" : self.apiVersion.matches('{_CEL_CUSTOM}')"
            f" && !self.apiVersion.startsWith('{GROUP}/')",
            holds=_runs_units,
        ),
        NAME_RULE,
    )

    metadata: TemplateMeta | None = None
    """Its metadata; without a name it gets the Workload's."""


class TargetDeployment(Carried):
    """A Deployment to run."""

    rules = (
        Rule(
            field="kind",
            text="must be a Deployment of apps/v1; other kinds go into spec.template",
            cel="self.apiVersion == 'apps/v1' && self.kind == 'Deployment'",
            holds=lambda t: (t.api_version, t.kind) == _DEPLOYMENT,
        ),
    )

    metadata: TemplateMeta | None = None
    """Its metadata; without a name it gets the Workload's."""


class Service(Carried):
    """A Service beside the replicas."""

    rules = (
        Rule(
            field="kind",
            text="must be a Service of v1; other kinds go into spec.manifests",
            cel="self.apiVersion == 'v1' && self.kind == 'Service'",
            holds=lambda s: (s.api_version, s.kind) == ("v1", "Service"),
        ),
        NAME_RULE,
    )

    metadata: TemplateMeta | None = None
    """Its metadata; without a name it gets the Workload's."""


class Manifest(Carried):
    """An object of any kind that goes along."""

    rules = (NAME_RULE,)

    metadata: ManifestMeta
    """Its metadata; a namespace other than the target needs the verb `use` as well."""


class Footprint(Model):
    """Where members may hold something of it; a name stands here before the first of it is sent."""

    clusters: Annotated[str, Field(max_length=262144)] | None = None
    """Clusters that were ever given a share and have not confirmed that nothing is left there.

    Names by commas, digests of names beyond 16 KiB. Writer: who places adds, in the write of the
    placements (a scheduler that does not leaves it to the propagator, as an annotation); the
    propagator takes off.
    """
    kinds: Annotated[str, Field(max_length=4096)] | None = None
    """The kinds that were written of its first spec. Writer: propagator."""


class DeletionCost(Model):
    """Replicas of one cluster that cost the same to lose."""

    cost: Int32
    """Their pods' controller.kubernetes.io/pod-deletion-cost; the lowest goes first."""
    replicas: Count
    """How many replicas."""


class OverriddenCluster(Model):
    """A cluster whose share an override is about."""

    name: DnsName
    """The MemberCluster's name."""
    deletion_costs: list[DeletionCost] = atomic(128)
    """The deletion costs of its replicas, the highest first."""


class Override(Model):
    """The differences of the replicas on some clusters, as a WorkloadSpread's subset gives them."""

    name: Annotated[LabelValue, Field(min_length=1)] | None = None
    """The subset; nothing for clusters of none."""
    patch: Annotated[Any, Field(json_schema_extra={PRESERVE: True})] = None
    """A strategic merge patch of the pods' template; its JSON as text where it holds null.

    A merge patch of the status would lose each null in it.
    """
    clusters: list[OverriddenCluster] = atomic(10000)
    """The clusters of the shares; no cluster is in two overrides."""


class ConnectionResource(Model):
    """A Secret that travels with the Workload."""

    name: DnsName
    """The name of the resource, and of the Secret, unless secretName gives another one."""
    secret_name: DnsName | None = None
    """The Secret in the Workload's namespace; it keeps this name on the members."""

    @property
    def secret(self) -> str:
        """The name of the Secret that is meant."""
        return self.secret_name or self.name


def number_path(api_version: str, kind: str) -> str:
    """Return where a built-in kind has its number of replicas; empty for none, and any other kind.

    That is all that the schema itself has to know of a kind; `machinery.kinds` knows the rest.
    """
    if (api_version, kind) == ("batch/v1", "Job"):
        return "spec.parallelism"
    return "spec.replicas" if api_version == "apps/v1" and kind != "DaemonSet" else ""


def replicas_path_fits(template: Template | None, path: str | None) -> bool:
    """Whether spec.replicasPath is right for the template; None stands for a targetDeployment."""
    if path is None or (template is not None and is_custom(template)):
        return True
    api_version, kind = (template.api_version, template.kind) if template else _DEPLOYMENT
    return path == number_path(api_version, kind)
