"""Assignment and MemberReport as the hub side and the agent read them."""

from __future__ import annotations

from crds.assignment import AssignmentOrder, AssignmentState
from machinery.types.api import AssignmentSpec, AssignmentStatus, MemberReportStatus
from machinery.types.metadata import Key, Object

BY_WORKLOAD = "workload"
"""The index of Assignments by the Workload's namespace and name, with a slash between."""


class Assignment(Object, frozen=True, kw_only=True):
    spec: AssignmentSpec
    status: AssignmentStatus = AssignmentStatus()

    @property
    def uid(self) -> str:
        """That of the Workload."""
        return self.metadata.name

    @property
    def workload(self) -> Key:
        return self.spec.workload.namespace, self.spec.workload.name

    @property
    def carried_out(self) -> bool:
        """Whether the status is about this very order."""
        return bool(self.spec.digest) and self.status.digest == self.spec.digest

    @property
    def removed(self) -> bool:
        """Whether the agent has removed the share; what a rule keeps, as claims, stays there."""
        ends = self.spec.order == AssignmentOrder.REMOVE and self.carried_out
        over = self.status.state in (AssignmentState.KEPT, AssignmentState.REMOVED)
        return ends and over and not self.status.reason


class MemberReport(Object, frozen=True):
    status: MemberReportStatus = MemberReportStatus()
