"""A Workload on a few clusters of a hub in memory, whose members do what the status tells them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from controller.app import Controller
from controller.features.rollout.revisions import CONTROLLER_REVISIONS
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOADS
from machinery.kinds.revisions import digest_of, revision_data
from tests.controller.live import condition, deployment
from tests.controller.memory import Stage

NAME = "web"
CANARY = {"name": "canary", "clusterSelector": {"matchLabels": {"tier": "canary"}}}
UNITS = 2


class RolloutFleet(Stage):
    """Clusters `c1…` of the tier canary and `m1…` of none; the Workload web on each of them."""

    def __init__(self, *, canaries: int = 2, others: int = 3) -> None:
        super().__init__()
        self.canaries = [f"c{n}" for n in range(1, canaries + 1)]
        self.others = [f"m{n}" for n in range(1, others + 1)]
        for name in self.canaries:
            self.cluster(name, tier="canary")
        for name in self.others:
            self.cluster(name)
        self.sick: set[str] = set()
        """Clusters whose new units do not become ready."""
        self.suspended: set[str] = set()
        """Clusters that spec.suspend selects."""
        self.given: dict[str, list[str]] = {}
        """Each revision that a cluster was given, in order."""

    def web(self, image: str = "v1", **rollout: Any) -> None:
        """Make the Workload, on every cluster, with that rollout of the waves canary and rest."""
        spec: dict[str, Any] = {"waves": [CANARY], **rollout}
        template = pictured(image)
        self.workload(
            NAME,
            replicas=UNITS,
            distribution="Duplicated",
            targetDeployment=template,
            rollout=spec,
        )

    def edit(self, **spec: Any) -> None:
        """A user's edit of the spec."""
        self.hub.edit(WORKLOADS, NAME, {"spec": spec})

    def suspend(self, *names: str) -> None:
        """A user's edit of spec.suspend: these clusters, or none."""
        self.suspended = {*names}
        among = {"key": "stowage.dev/cluster", "operator": "In", "values": [*names]}
        held = {"clusterSelector": {"matchExpressions": [among]}}
        self.edit(suspend=held if names else None)

    def pace(self, **rollout: Any) -> None:
        """A user's edit of spec.rollout."""
        self.edit(rollout=rollout)

    def image(self, image: str) -> str:
        """Edit the image; return the new revision."""
        self.edit(targetDeployment=pictured(image))
        return self.revision

    @property
    def revision(self) -> str:
        """That of the spec."""
        return digest_of(revision_data(self.read()["spec"]))

    def read(self) -> dict[str, Any]:
        return self.hub.read(WORKLOADS, NAME)

    @property
    def rollout(self) -> dict[str, Any]:
        """status.rollout; empty without."""
        return self.read().get("status", {}).get("rollout") or {}

    @property
    def phase(self) -> str:
        return str(self.rollout.get("phase", ""))

    def said(self) -> tuple[str, str, str]:
        """(status, reason, message) of RolledOut."""
        return self.says(NAME, "RolledOut")

    def targets(self) -> dict[str, str]:
        """The revision that each cluster gets, by the one rule of the propagator."""
        status = self.read().get("status", {})
        if not status.get("rollout"):
            return {}
        exceptions = {c: e["revision"] for e in status.get("revisions", []) for c in e["clusters"]}
        left = [each["cluster"] for each in status.get("leaving", [])]
        held = [each["cluster"] for each in status.get("placements", [])]
        revision = status["rollout"]["revision"]
        return {name: exceptions.get(name, revision) for name in (*held, *left)}

    def with_revision(self, revision: str) -> set[str]:
        return {name for name, target in self.targets().items() if target == revision}

    def kept(self) -> set[str]:
        """The revisions of which there is a ControllerRevision."""
        found = self.hub.all(CONTROLLER_REVISIONS)
        return {each["metadata"]["name"].rpartition("-")[2] for each in found}

    def loses(self, name: str, *, ready: bool = False) -> None:
        """A cluster stops to answer, or answers again."""
        status = {"conditions": [{"type": "Ready", "status": str(ready)}]}
        self.hub.edit(MEMBER_CLUSTERS, name, {"status": status}, status=True)

    def report(self) -> None:
        """The members have done what the status says, and the propagator tells it."""
        body = self.read()
        status = body.get("status", {})
        before = {each["name"]: each for each in status.get("clusters", [])}
        shares = {each["cluster"]: each["replicas"] for each in status.get("placements", [])}
        heard = {
            each["metadata"]["name"]
            for each in self.hub.all(MEMBER_CLUSTERS)
            if condition(each["status"], "Ready")["status"] == "True"
        }
        told = []
        for name, target in sorted(self.targets().items()):
            seen = self.given.setdefault(name, [])
            if name not in heard:
                told += [before[name]] if name in before else []
                continue
            if name in self.suspended:
                told.append({**before[name], "state": "Suspended"})
                continue
            if not seen or seen[-1] != target:
                seen.append(target)
            told.append(self._entry(name, target, shares.get(name, 0)))
        if told != status.get("clusters", []):
            self.hub.edit(WORKLOADS, NAME, {"status": {"clusters": told}}, status=True)

    def _entry(self, name: str, target: str, units: int) -> dict[str, Any]:
        well = 0 if name in self.sick and target == self.revision else units
        entry = {
            "name": name,
            "revision": target,
            "replicas": units,
            "updated": units,
            "ready": well,
            "scheduled": units,
            "state": "Running" if well == units else "Creating",
        }
        return entry if well == units else {**entry, "message": "ImagePullBackOff"}

    async def goes_on(self, seconds: float, *, every: float = 1.0) -> None:
        """Let time pass while members act."""
        end = self.clock.monotonic() + seconds
        while self.clock.monotonic() < end:
            self.report()
            self.hub.bookmark()
            await self.calm(min(every, max(end - self.clock.monotonic(), 0.1)))

    async def comes_to(self, phase: str, *, seconds: float = 60.0) -> None:
        """Let members act until the rollout has that phase."""
        end = self.clock.monotonic() + seconds
        while self.phase != phase:
            assert self.clock.monotonic() < end, (self.rollout, self.said())
            await self.goes_on(1.0)

    @asynccontextmanager
    async def at_rest(self, **rollout: Any) -> AsyncIterator[Controller]:
        """The Workload with that rollout, Complete with its first revision."""
        self.web(**rollout)
        async with self.leading() as controller:
            await self.comes_to("Complete")
            yield controller


def pictured(image: str, *, cpu: str = "1") -> dict[str, Any]:
    """A Deployment of that image."""
    body = deployment(NAME, cpu)
    body["spec"]["template"]["spec"]["containers"][0]["image"] = image
    return body
