"""MemberReport: what the agent of a member in mode Pull tells of the member, and its public key.

There is one, named `member`, in the namespace of each such member. The propagator makes it empty,
and its status has one writer, the agent. The first agent that comes with the invitation writes its
public key into `claim`, and nobody changes it after that. The rule stands on the root of the kind:
on the field, or on the status, a patch to null and another key after it would pass.
`crds/memberreport.yaml` is generated from this module.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from crds.base import ATOMIC, Count, Kind, Model, Rule, Timestamp, Transition, atomic
from crds.membercluster import (
    MOST_HELD,
    MOST_QUOTAS,
    MOST_SERVED,
    Capacity,
    HeldWorkload,
    MemberNamespaces,
    NodeGroup,
    QuotaLeft,
    Served,
)
from crds.names import MEMBER_REPORT

CLAIM = r"^[A-Za-z0-9+/]{43}=$"
"""32 bytes in base64."""


class UnassignedWorkload(HeldWorkload):
    """A Workload of which the member has objects, and no Assignment."""

    version: Annotated[str, Field(max_length=20, pattern=r"^[0-9]*$")] = ""
    """The newest resourceVersion of the hub that its objects were written for."""
    made: Timestamp | None = None
    """When the first of its objects was made."""


class Unassigned(Model):
    """Workloads of which the member has objects of this hub, and no Assignment."""

    count: Count
    """How many."""
    workloads: list[UnassignedWorkload] = atomic(MOST_HELD)
    """The first of them, by namespace and name."""


class MemberReportStatus(Model):
    """The member as its agent sees it. Writer of every field: the agent."""

    claim: Annotated[str, Field(max_length=44, pattern=CLAIM)] | None = None
    """The agent's public key for X25519, in base64: its first token is sealed for it.
    Writer: agent."""
    release: Annotated[str, Field(max_length=63)] | None = None
    """The agent's release. Writer: agent."""
    started: Timestamp | None = None
    """When the agent started, by its own clock. Writer: agent."""
    upgrade: Annotated[str, Field(max_length=1024)] = ""
    """Why the image that the hub names does not start; empty where it does. Writer: agent."""
    # The generated alias would be clusterId; Kubernetes writes ID.
    cluster_id: Annotated[str | None, Field(alias="clusterID", max_length=128)] = None
    """As status.clusterID of the MemberCluster. Writer: agent."""
    cluster_uid: Annotated[str | None, Field(alias="clusterUID", max_length=128)] = None
    """The UID of the member's kube-system. Writer: agent."""
    version: Annotated[str, Field(max_length=63)] | None = None
    """As the member's API server reports it, such as v1.36.3. Writer: agent."""
    provider: Annotated[str, Field(max_length=63)] | None = None
    """From its nodes' providerID, in lower case. Writer: agent."""
    node_groups: list[NodeGroup] = atomic(64)
    """Free room, by nodes that are alike. Writer: agent."""
    capacity: Capacity | None = None
    """The sums over all nodes. Writer: agent."""
    namespaces: MemberNamespaces | None = None
    """Which target namespaces the member takes, with narrow rights. Writer: agent."""
    kinds: (
        Annotated[list[Served], Field(max_length=MOST_SERVED, json_schema_extra=ATOMIC)] | None
    ) = None
    """The kinds that it serves, of groups with a dot; unset while that is not known.
    Writer: agent."""
    kinds_omitted: Count = 0
    """How many more there are, or may be. Writer: agent."""
    quotas: list[QuotaLeft] = atomic(MOST_QUOTAS)
    """Its ResourceQuotas without scopes that bound pods. Writer: agent."""
    unassigned: Unassigned | None = None
    """What stands on the member without an Assignment. Writer: agent."""


def _claim(report: MemberReport) -> str | None:
    return report.status.claim if report.status is not None else None


class MemberReport(Kind):
    """What the agent of a member tells of it."""

    plural = "memberreports"
    short = "mr"
    columns = (
        ("Release", "string", ".status.release", 0),
        ("Version", "string", ".status.version", 0),
        ("Nodes", "integer", ".status.capacity.nodes", 0),
        ("Unassigned", "integer", ".status.unassigned.count", 0),
        ("Age", "date", ".metadata.creationTimestamp", 0),
    )

    rules = (
        Rule(
            field="metadata.name",
            text=f"is {MEMBER_REPORT}: a member has one report",
            cel=f"self.metadata.name == '{MEMBER_REPORT}'",
            holds=lambda r: r.metadata.get("name", "") == MEMBER_REPORT,
            located=False,
        ),
    )
    transitions = (
        Transition(
            field="status.claim",
            text="was claimed by another agent: run `stowage invite --renew` and look for who it "
            "was",
            cel="!has(oldSelf.status) || !has(oldSelf.status.claim) || (has(self.status)"
            " && has(self.status.claim) && self.status.claim == oldSelf.status.claim)",
            holds=lambda new, old: _claim(old) is None or _claim(new) == _claim(old),
        ),
    )

    api_version: Literal["stowage.dev/v1alpha1"] = "stowage.dev/v1alpha1"
    kind: Literal["MemberReport"] = "MemberReport"
    status: MemberReportStatus | None = None
    """The member as its agent sees it."""
