"""Room of an exact size for one test, on nodes of any kind.

The cpu and memory of a node are the host's own where a kubelet runs, and all tests share them. An
extended resource belongs to the client that writes it into the node's status: a kubelet keeps it in
the capacity, and copies it to allocatable. So each test offers a resource with a name of its own.
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
    """A resource that members offer, in the amounts of one test."""

    def __init__(self, members: Mapping[str, Kubectl]) -> None:
        self.resource = f"room.example.com/{os.getpid()}-{next(_numbers)}"
        self._members = members

    def nodes(self, member: str) -> list[str]:
        return sorted(each["metadata"]["name"] for each in self._members[member].items("nodes"))

    def offer(self, member: str, amounts: Sequence[int]) -> None:
        """Offer these amounts, one on each of its nodes."""
        for node, amount in zip(self.nodes(member), amounts, strict=True):
            self._patch(member, node, str(amount))

    def close(self) -> None:
        """Remove the resource from all members."""
        for member in self._members:
            for node in self.nodes(member):
                self._patch(member, node, None)

    def takes(self, template: dict[str, Any], amount: int) -> dict[str, Any]:
        """Make the first container of a pod template ask for so much of it; return the template."""
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
