"""The users of staged rollouts in a chaos run: authors who edit, and an approver.

Each Workload runs on all members, the one of the first zone in a wave of its own that awaits an
approval. A bad image is one whose pods no scheduler takes, so that they never start. No image is
used twice, so that each belongs to one revision.
"""

from __future__ import annotations

import base64
import itertools
import random
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from e2e.chaos.churn import insist
from e2e.chaos.engine import Editors
from e2e.chaos.stage import ZONE, ChaosStage
from e2e.harness import pod_template
from machinery.api.resources import NAMESPACES as NAMESPACE_KIND
from machinery.api.resources import SECRETS, WORKLOADS
from machinery.clock import SystemClock, timestamp
from machinery.errors import AlreadyExists, NotFound

NAMESPACE = "rollouts"
FIRST_WAVE = "first"
SECRET = "canary"
SECRET_VALUE = "what-nobody-may-read-7391"
VARIABLE = "CLUSTER"
"""The override gives each cluster its own name by it."""
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Wish:
    """What its author wants of a Workload."""

    image: str
    bad: bool = False
    replicas: int = 2
    rollback: bool = False
    paused: bool = False
    said: Mapping[str, Any] = field(default_factory=dict)
    """What the rollout says beside that: approvals, aborted, retryAfter."""


def new_image() -> str:
    return f"registry.k8s.io/pause:1.{next(_numbers)}"


def workload(name: str, wish: Wish) -> dict[str, Any]:
    """Return the Workload that its author applies."""
    how = {"schedulerName": "nobody"} if wish.bad else {}
    pods = pod_template(name, image=wish.image, **how)
    main = {"name": "main", "env": [{"name": VARIABLE, "value": "$(stowage.cluster)"}]}
    patch = {"spec": {"template": {"spec": {"containers": [main]}}}}
    rollout = {
        "waves": [
            {
                "name": FIRST_WAVE,
                "clusterSelector": {"matchLabels": {ZONE: "zone-1"}},
                "soakSeconds": 1,
                "approval": True,
            }
        ],
        "minReadySeconds": 1,
        "progressDeadlineSeconds": 15,
        "onFailure": "Rollback" if wish.rollback else "Pause",
        "paused": wish.paused,
        **wish.said,
    }
    return {
        "apiVersion": WORKLOADS.api_version,
        "kind": "Workload",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "replicas": wish.replicas,
            "distribution": "Duplicated",
            "targetDeployment": {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": name},
                "spec": {"selector": {"matchLabels": {"app": name}}, "template": pods},
            },
            "overrides": [{"name": "where", "clusterSelector": {}, "patch": patch}],
            "resources": [{"name": SECRET}],
            "rollout": rollout,
        },
    }


class Authors(Editors):
    """`wanted` holds the Workloads that must exist, as their authors want them."""

    def __init__(self, stage: ChaosStage, *, seed: int, most: int) -> None:
        super().__init__(random.Random(f"authors {seed}"), least=0.2, most=1.2)
        self.wanted: dict[str, Wish] = {}
        self.edits = self.approvals = self.bad = 0
        self._stage = stage
        self._most = most
        self._stable: dict[str, str] = {}

    async def prepare(self) -> None:
        """Create the namespace, the Secret and the Workloads."""
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        with suppress(AlreadyExists):
            await self._stage.hub.create(NAMESPACE_KIND, body)
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": SECRET, "namespace": NAMESPACE},
            "data": {"token": base64.b64encode(SECRET_VALUE.encode()).decode()},
        }
        with suppress(AlreadyExists):
            await self._stage.hub.create(SECRETS, secret)
        for number in range(self._most):
            self.wanted[f"r{number}"] = Wish(new_image(), rollback=number % 2 == 0)
            await self._apply(f"r{number}")

    async def finished(self) -> None:
        """Return when each Workload wants a good image."""
        for name, wish in self.wanted.items():
            image = new_image() if wish.bad or wish.said.get("aborted") else wish.image
            self.wanted[name] = Wish(image, replicas=wish.replicas, rollback=wish.rollback)
            await self._apply(name)

    async def approve(self) -> None:
        """Approve whatever awaits it, and begin anew what failed only for want of members."""
        for found in await self._stage.lists("hub", "wl", namespace=NAMESPACE):
            name, status = found["metadata"]["name"], found.get("status", {}).get("rollout", {})
            if name not in self.wanted:
                continue
            if status.get("phase") == "AwaitingApproval":
                given = {"revision": status["revision"], "wave": status["wave"]}
                await self._say(name, approvals=[given])
                self.approvals += 1
            elif status.get("phase") == "Failed" and not self.wanted[name].bad:
                await self._say(name, retryAfter=timestamp(SystemClock().now()))
            elif status.get("phase") == "RolledBack" and not self.wanted[name].bad:
                self.wanted[name] = replace(self.wanted[name], image=new_image(), said={})
                await self._apply(name)

    async def end(self) -> None:
        for name in list(self.wanted):
            del self.wanted[name]

            async def once(name: str = name) -> bool:
                with suppress(NotFound):
                    await self._stage.hub.delete(WORKLOADS, name, namespace=NAMESPACE)
                return True

            await insist(once)

    async def _edit(self) -> None:
        name = self._chance.choice(sorted(self.wanted))
        wish, what = self.wanted[name], self._chance.random()
        if what < 0.35:
            self.wanted[name] = replace(wish, image=new_image(), bad=False, said={})
        elif what < 0.5:
            self.wanted[name] = replace(wish, image=new_image(), bad=True, said={})
            self.bad += 1
        elif what < 0.6:
            self.wanted[name] = replace(wish, replicas=self._chance.randint(1, 3))
        elif what < 0.7:
            self.wanted[name] = replace(wish, paused=not wish.paused)
        elif what < 0.75:
            await self._abort(name)
        else:
            await self.approve()
        await self._apply(name)
        self.edits += 1

    async def _abort(self, name: str) -> None:
        async def once() -> bool:
            found = await self._stage.hub.get(WORKLOADS, name, namespace=NAMESPACE)
            status = found.get("status", {}).get("rollout", {})
            if status.get("stable") and status["stable"] != status["revision"]:
                said = {**self.wanted[name].said, "aborted": status["revision"]}
                self.wanted[name] = replace(self.wanted[name], said=said)
            return True

        await insist(once)

    async def _say(self, name: str, **said: Any) -> None:
        wish = self.wanted[name]
        self.wanted[name] = replace(wish, said={**wish.said, **said})
        await self._apply(name)

    async def _apply(self, name: str) -> None:
        async def once() -> bool:
            body = workload(name, self.wanted[name])
            where = {"name": name, "namespace": NAMESPACE}
            await self._stage.hub.apply(WORKLOADS, body, **where, field_manager="chaos", force=True)
            return True

        await insist(once, of=name)


def container_of(deployment: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the container of a Deployment, or of a template of one."""
    found: Mapping[str, Any] = deployment["spec"]["template"]["spec"]["containers"][0]
    return found


def placed_on(workload: Mapping[str, Any]) -> Iterator[str]:
    """Yield the clusters that a Workload has, or still has, a share on."""
    status = workload["status"]
    yield from (each["cluster"] for each in status.get("placements", []))
    yield from (each["cluster"] for each in status.get("leaving", []))
