"""Claims: what a scheduler takes of a quota before it writes placements, in the quota's status."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from crds.base import ATOMIC, Count, Model, Timestamp

MOST_CLAIMS = 4096


class ClaimedShare(Model):
    """A share of a claim."""

    cluster: Annotated[str, Field(max_length=253)]
    """The MemberCluster."""
    replicas: Count
    """Replicas."""


class Claim(Model):
    """Quota that a scheduler has taken for placements that it is about to write."""

    workload: Annotated[str, Field(max_length=512)]
    """namespace/name."""
    uid: Annotated[str, Field(max_length=64)]
    """The Workload's UID."""
    placements: Annotated[list[ClaimedShare], Field(max_length=8192, json_schema_extra=ATOMIC)] = (
        Field(default_factory=list)
    )
    """Its shares, all of them."""
    holder: Annotated[str, Field(max_length=512)]
    """The process that took it."""
    time: Timestamp
    """When; only told apart by it, never compared with a clock."""
