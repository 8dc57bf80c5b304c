"""Gangs in end-to-end tests: room of an exact size on each member, groups, and their members.

A unit asks for six of the room that members offer (`e2e.room`). Each node of a member offers room
for whole units, and two more, which fit no unit. The objects on a member are read from the member,
by kubectl.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from crds.names import LABEL_GROUP
from e2e.harness import deployment, wait, workload
from e2e.room import Room
from e2e.stage import MEMBERS, Stage

UNIT = 6
"""The room that a replica asks for."""
SPARE = 2
"""The room on each node beside whole units: that of three nodes together would fit one."""
KINDS = (
    "deploy", "statefulsets", "replicasets", "jobs", "pods", "services", "configmaps", "secret",
)  # fmt: skip


class Yard:
    """A stage whose members have as much room as a test says, and one namespace for its gangs."""

    def __init__(self, stage: Stage, space: str) -> None:
        self.stage = stage
        self.hub = stage.hub
        self.space = space
        self._room = Room(stage.members)

    # --- room -------------------------------------------------------------------------------------

    @property
    def resource(self) -> str:
        return self._room.resource

    def room(self, first: int, second: int, third: int) -> None:
        """Offer room for so many units on each member; return once the controller counts it."""
        for member, units in zip(MEMBERS, (first, second, third), strict=True):
            self.offer(member, units)

    def offer(self, member: str, units: int) -> None:
        """Offer room for so many units on a member; return once the controller counts it."""
        nodes = self.nodes(member)
        whole = [units // nodes + (n < units % nodes) for n in range(nodes)]
        amounts = [UNIT * each + SPARE for each in whole]
        self._room.offer(member, amounts)
        wait(f"{amounts} of {member} to be known", lambda: self.known(member) == sum(amounts))

    def nodes(self, member: str) -> int:
        return len(self._room.nodes(member))

    def known(self, member: str) -> int:
        """Return the room that the controller counts on a member, used or not."""
        return int(self.stage.ask(f"/apis/v1/clusters/{member}")["allocatable"][self.resource])

    def free(self, member: str) -> int:
        """Return the room that the controller counts as free on a member."""
        told = self.stage.ask(f"/apis/v1/plugins/ClusterResources/available/{member}")
        return int(told["available"][self.resource])

    def free_units(self) -> int:
        """Return the units that still fit, where each node offers room for one at most."""
        return sum((self.free(m) - SPARE * self.nodes(m)) // UNIT for m in MEMBERS)

    # --- groups and Workloads ---------------------------------------------------------------------

    def group(self, least: int, name: str = "batch", **spec: Any) -> None:
        """Apply a WorkloadGroup with that minMember."""
        self.hub.apply(self.manifest(least, name, **spec))

    def manifest(self, least: int, name: str = "batch", **spec: Any) -> dict[str, Any]:
        return {
            "apiVersion": "stowage.dev/v1alpha1",
            "kind": "WorkloadGroup",
            "metadata": {"name": name, "namespace": self.space},
            "spec": {"minMember": least, **spec},
        }

    def workers(self, name: str, units: int, group: str = "batch", **how: Any) -> None:
        """Apply a Workload of that group, divided over the members."""
        self.hub.apply(self.member(name, units, group, **how))

    def member(
        self,
        name: str,
        units: int,
        group: str = "batch",
        *,
        takes: int = UNIT,
        labels: dict[str, str] | None = None,
        tag: str = "3.10",
        template: dict[str, Any] | None = None,
        **spec: Any,
    ) -> dict[str, Any]:
        body = template
        if body is None:
            body = deployment(name, image=f"registry.k8s.io/pause:{tag}")
            self._room.takes(body["spec"]["template"], takes)
        made = workload(
            name, self.space, template=body, replicas=units,
            **{"distribution": "Divided", **spec},
        )  # fmt: skip
        made["metadata"]["labels"] |= {LABEL_GROUP: group, **(labels or {})}
        return made

    def delete(self, kind: str, name: str) -> None:
        """Delete an object of this namespace on the hub, and wait until it is gone."""
        self.hub("-n", self.space, "delete", kind, name, timeout=120)

    def clear(self) -> None:
        """Delete all of this namespace's Workloads and groups, and remove the room."""
        for kind in ("wl", "wg"):
            self.hub("-n", self.space, "delete", kind, "--all", timeout=180)
        self._room.close()

    # --- what is told -----------------------------------------------------------------------------

    def told(self, name: str = "batch") -> dict[str, Any]:
        """Return the group's status."""
        found: dict[str, Any] = self.hub.get("wg", name, self.space)
        return dict(found.get("status", {}))

    def gang(self, name: str = "batch") -> dict[str, Any]:
        """Return the controller's answer about the group."""
        found: dict[str, Any] = self.stage.ask(
            f"/apis/v1/plugins/Coscheduling/gang/{self.space}/{name}"
        )
        return found

    def until(self, name: str = "batch", *, timeout: float = 60, **fields: Any) -> dict[str, Any]:
        """Return the group's status, as soon as it has these fields; a count of 0 may be absent."""

        def found() -> dict[str, Any]:
            status = self.told(name)
            if any((status.get(field) or 0) != (value or 0) for field, value in fields.items()):
                raise ValueError(json.dumps(status))
            return status

        return wait(f"group {name} to tell {fields}", found, timeout=timeout)

    def until_reason(self, reason: str, name: str = "batch", *, timeout: float = 60) -> str:
        """Return the message of the group's Scheduled, as soon as it has that reason."""

        def found() -> dict[str, Any]:
            said = scheduled(self.told(name))
            if said.get("reason") != reason:
                raise ValueError(json.dumps(said))
            return said

        return str(wait(f"group {name} to say {reason}", found, timeout=timeout)["message"])

    def says(self, name: str) -> dict[str, Any]:
        """Return the condition Scheduled of a Workload."""
        return self.stage.condition(self.space, name, "Scheduled")

    def until_refused(self, name: str, words: str) -> dict[str, Any]:
        """Return the condition Scheduled of a Workload, as soon as it is False with these words."""

        def found() -> dict[str, Any]:
            said = self.says(name)
            if said.get("status") != "False" or words not in said["message"]:
                raise ValueError(json.dumps(said))
            return said

        return wait(f"{name} to say `{words}`", found)

    def placed(self, name: str) -> dict[str, int]:
        """Return the units by cluster in a Workload's status."""
        return self.stage.placements(self.space, name)

    # --- what is there ----------------------------------------------------------------------------

    def there(self, member: str) -> list[str]:
        """Return all objects on a member in this namespace, but those that come with it."""
        api = self.stage.members[member]
        found = [
            f"{kind}/{each['metadata']['name']}"
            for kind in KINDS
            for each in api.items(kind, self.space)
        ]
        return [each for each in found if each != "configmaps/kube-root-ca.crt"]

    def nothing(self, *names: str) -> bool:
        """Return whether no member has an object, or no unit of the Workloads `names`."""
        if names:
            return not any(self.units(name) for name in names)
        return not any(self.there(member) for member in MEMBERS)

    def units(self, name: str) -> dict[str, int]:
        """Return spec.replicas of the Deployment of that name on each member that has it."""
        found = {member: self.stage.seen(member, self.space, name) for member in MEMBERS}
        return {member: it["spec"]["replicas"] for member, it in found.items() if it}

    def pods(self, name: str) -> Counter[str]:
        """Return the number of running pods of that name, by member."""
        found: Counter[str] = Counter()
        for member, api in self.stage.members.items():
            for pod in api.items("pods", self.space, labels=f"app={name}"):
                runs = pod["status"].get("phase") == "Running"
                found[member] += runs and not pod["metadata"].get("deletionTimestamp")
        return +found

    def until_running(self, name: str, units: int) -> dict[str, int]:
        """Return the units by member once that many run, read from the members."""

        def run() -> bool:
            pods = self.pods(name)
            if pods.total() != units or self.units(name) != dict(pods):
                raise ValueError(f"{dict(pods)} run of {self.units(name)}")
            return True

        wait(f"{units} units of {name} to run", run)
        return self.units(name)

    def uids(self, name: str) -> dict[str, str]:
        """Return the UID of the Deployment of that name on each member that has it."""
        found = {m: self.stage.seen(m, self.space, name) for m in MEMBERS}
        return {member: it["metadata"]["uid"] for member, it in found.items() if it}


def scheduled(status: dict[str, Any]) -> dict[str, Any]:
    return next((c for c in status.get("conditions", []) if c["type"] == "Scheduled"), {})


@pytest.fixture
def yard(running: Stage, space: str) -> Iterator[Yard]:
    """Yield the members with room of this test's own; they are empty again afterwards."""
    made = Yard(running, space)
    yield made
    made.clear()
