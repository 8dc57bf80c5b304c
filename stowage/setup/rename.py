"""Another name for a cluster: everything there goes on, and nothing on it is written for it.

The hub's objects are exchanged one by one, each step safe to die before and after:

1. a MemberCluster of the new name, with the spec of the old one and that name in
   `spec.formerNames`. The identity of the cluster is noted on it;
2. a Secret of the new name with the same data. Two MemberClusters lead to one cluster now, and the
   propagator serves the older one (`propagator.access.cluster_identity`);
3. the old Secret goes, or it would register the old name anew;
4. the old MemberCluster goes. From here on the new one is served, and the controller reads every
   share of the old name as one of the new name (`controller.cache.renames`), and writes it so.

The same command goes on where one was ended; the other way round it is undone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from crds.membercluster import MemberCluster
from crds.names import GROUP, LABEL_CLUSTER
from machinery.api.client import ApiClient
from machinery.api.resources import (
    MEMBER_CLUSTERS,
    RESERVATIONS,
    SECRETS,
    WORKLOAD_POLICIES,
    WORKLOAD_SPREADS,
    WORKLOADS,
    Resource,
)
from machinery.clock import SystemClock
from machinery.errors import AlreadyExists, ConfigurationError, Conflict, NotFound, StowageError
from machinery.tasks import patiently
from machinery.types import conditions
from stowage.console.output import show, table
from stowage.setup.member_side import Say

Json = Mapping[str, Any]
RENAMED_SECONDS = 120.0
MOST_FORMER = 16
"""As the schema has it."""
_RACES = 5
_NOT_CARRIED = (
    f"{GROUP}/registered",  # a digest by the UID of the Secret
    f"{GROUP}/counted",  # the new MemberCluster is searched once more
    "kubectl.kubernetes.io/last-applied-configuration",
)
_BODIES = frozenset({"template", "targetDeployment", "targetService", "manifests"})
"""What goes to members as it is; labels there are not those of clusters."""


@dataclass(frozen=True, kw_only=True)
class Rename:
    """Which cluster gets which name; `force` also where a spec says the old one."""

    old: str
    new: str
    namespace: str
    force: bool = False


@dataclass(frozen=True)
class Holder:
    """A Workload or a Reservation with units on the cluster, or what says its name in its spec."""

    kind: str
    name: str
    """`namespace/name`."""
    units: int = 0
    where: str = ""
    """The field of the spec that says the old name; empty where none does."""


@dataclass
class Found:
    """What there is of a rename before its next step."""

    before: dict[str, Any] | None
    after: dict[str, Any] | None
    holders: list[Holder] = field(default_factory=list)

    @property
    def naming(spec: Any, name: str, path: str = "spec") -> Iterator[str]:
    """The fields of a spec that say the name of a cluster."""
    if isinstance(spec, list):
        for index, each in enumerate(spec):
            yield from naming(each, name, f"{path}[{index}]")
    elif isinstance(spec, dict):
        yield from (f"{path}{field}" for field in _named_here(spec, name))
        for key, value in spec.items():
            if key not in _BODIES:
                yield from naming(value, name, f"{path}.{key}")


def _named_here(spec: Mapping[str, Any], name: str) -> Iterator[str]:
    """A name, a label, an expression or a domain, by the forms that our kinds have for them."""
    if (spec.get("targetCluster") or {}).get("name") == name:
        yield ".targetCluster"
    if spec.get(LABEL_CLUSTER) == name:
        yield f"[{LABEL_CLUSTER}]"
    if spec.get("key") == LABEL_CLUSTER and name in (spec.get("values") or ()):
        yield ".values"
    if spec.get("topologyKey") == LABEL_CLUSTER:
        domains = [each.get("name") for each in spec.get("allocationPolicy") or ()]
        if name in domains:
            yield f".allocationPolicy[{domains.index(name)}]"


def _note(holder: Holder, plan: Rename) -> str:
    if not holder.where:
        return ""
    stays = "keeps its units, and " if holder.units else ""
    return f"{holder.where} names {plan.old}: {stays}gets none on {plan.new} until it names that"


def _former(cluster: Json) -> list[str]:
    return list(cluster.get("spec", {}).get("formerNames") or [])


def _made(cluster: Json) -> str:
    return str(cluster["metadata"]["creationTimestamp"])
