"""Room of an exact size that is one test's own, on nodes of whatever kind.

What a node offers of cpu and memory is the host's own where a kubelet runs, and all tests share it.
An extended resource is nobody's but of who writes it into the node's status: a kubelet keeps what
it finds in the capacity, and copies it to what is allocatable. So each test offers a resource of a
name that no other test has.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from e2e.harness import Kubectl

_numbers = itertools.count(1)


class Room:
    """A resource that members offer, as much of it as the test says."""

    def __init__(self, members: Mapping[str, Kubectl]) -> None:
        self.resource = f"room.example.com/{os.getpid()}-{next(_numbers)}"
        self._members = members

    def nodes(self, member: str) -> list[str]:
        """The names of its nodes, in their order."""
        return sorted(each["metadata"]["name"] for each in self._members[member].items("nodes"))

    def offer(self, member: str, amounts: Sequence[int]) -> None:
        """So much on each of its nodes."""
        for node, amount in zip(self.nodes(member), amounts, strict=True):
            self._patch(member, node, str(amount))

    def close(self) -> None:
        """No member offers any of it any more."""
        for member in self._members:
            for node in self.nodes(member):
                self._patch(member, node, None)

    def takes(self, template: dict[str, Any], amount: int) -> dict[str, Any]:
        """A pod template whose first container asks for so much of it."""
        if amount:
            resources = template["spec"]["containers"][0]["resources"]
            for kind in ("requests", "limits"):
                resources.setdefault(kind, {})[self.resource] = str(amount)
        return template

    def _patch(self, member: str, node: str, amount: str | None) -> None:
        offered = {self.resource: amount}
        answer = self._members[member].api.patch(
            url=f"nodes/{node}/status",
            data=json.dumps({"status": {"capacity": offered, "allocatable": offered}}),
            headers={"Content-Type": "application/merge-patch+json"},
        )
        answer.raise_for_status()
