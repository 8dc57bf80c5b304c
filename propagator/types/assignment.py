"""Assignment and MemberReport as the hub side and the agent read them."""

from __future__ import annotations

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


class MemberReport(Object, frozen=True):
    status: MemberReportStatus = MemberReportStatus()
