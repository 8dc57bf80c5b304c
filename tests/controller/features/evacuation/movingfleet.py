"""Members that follow what a hub in memory says, as the propagator would have them do it.

A share grows at once, and its units are ready after a while; it is lowered as the propagator's
guard lets it. Each look is noted, so that a test can say what never happened.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from controller.model.moving import BrakeConfiguration, MovementConfiguration
from crds.fields.shares import ShareState
from crds.names import TAINT_OUT_OF_SERVICE
from machinery.api.resources import LEASES, MEMBER_CLUSTERS, WORKLOADS
from machinery.clock import microtime, timestamp
from machinery.kinds.readiness import Readiness
from propagator.removal.guard import least
from propagator.status.failover import Patience, of_seen, of_silent
from tests.controller.make import ZONE, expression, required_terms
from tests.controller.memory import Stage

QUICK = MovementConfiguration(
    not_ready_toleration_seconds=5,
    dwell_seconds=5,
    max_moving="100%",
    brake=BrakeConfiguration(max_lost="50%", topology_key=ZONE),
)
THREE = ("m1", "m2", "m3")
LOOK_SECONDS = 0.25
READY_SECONDS = 1.0


@dataclass
class Share:
    """One Workload on one member: its units, and since when they are there."""

    units: int = 0
    ready: int = 0
    since: float = 0.0


@dataclass
class Look:
    """What was so at one moment, of one Workload."""

    ready: int
    pods: int
    placements: dict[str, int]
    leaving: dict[str, int]


@dataclass
class Members:
    """The members of a stage.

    `stuck` are those on which nothing becomes ready, `sick` those on which nothing stays so.
    `fields` are the values that each tells, `holds` why what runs there stays.
    """

    stage: Stage
    names: tuple[str, ...]
    shares: dict[str, dict[str, Share]] = field(default_factory=dict)
    away: set[str] = field(default_factory=set)
    stuck: set[str] = field(default_factory=set)
    sick: set[str] = field(default_factory=set)
    fields: dict[str, dict[str, str]] = field(default_factory=dict)
    holds: dict[str, str] = field(default_factory=dict)
    renewing: bool = True
    term: int = 1
    _began: int = 0
    looks: dict[str, list[Look]] = field(default_factory=dict)

    def lose(self, *names: str, reason: str = "Unreachable") -> None:
        """The members stop answering, and the hub says so."""
        for name in names:
            self.away.add(name)
            self._ready(name, reason)

    def back(self, *names: str) -> None:
        for name in names:
            self.away.discard(name)
            self._ready(name, "")

    def unregister(self, *names: str) -> dict[str, dict[str, Any]]:
        """kubectl delete membercluster; returns what applies them again."""
        found = {name: self.stage.hub.read(MEMBER_CLUSTERS, name) for name in names}
        for name in names:
            self.away.add(name)
            self.stage.hub.remove(MEMBER_CLUSTERS, name)
        return found

    def register(self, *bodies: dict[str, Any], name: str = "") -> None:
        """Apply MemberClusters, without a status, as a propagator finds them; they answer."""
        for body in bodies:
            old, new = body["metadata"]["name"], name or body["metadata"]["name"]
            meta = {"name": new, "labels": body["metadata"]["labels"]}
            spec = {**body["spec"], **({"formerNames": [old]} if new != old else {})}
            self.stage.hub.put(MEMBER_CLUSTERS, {"metadata": meta, "spec": spec, "status": {}})
            room = {key: body["status"][key] for key in ("nodeGroups", "capacity")}
            said = {"status": {**room, "conditions": []}}
            self.stage.hub.edit(MEMBER_CLUSTERS, new, said, status=True)
            if new != old:
                for shares in self.shares.values():
                    if old in shares:
                        shares[new] = shares.pop(old)
            self.back(new)

    def _ready(self, name: str, reason: str) -> None:
        stored = self.stage.hub.read(MEMBER_CLUSTERS, name)
        others = [c for c in stored["status"]["conditions"] if c["type"] != "Ready"]
        status = "False" if reason else "True"
        mine = {"type": "Ready", "status": status, "reason": reason or "Connected", "message": ""}
        mine["lastTransitionTime"] = timestamp(self.stage.clock.now())
        body = {"status": {"conditions": [mine, *others]}}
        self.stage.hub.edit(MEMBER_CLUSTERS, name, body, status=True)

    def taint(self, name: str, *keys: str, value: str = "") -> None:
        """kubectl taint, with the effect NoExecute; without keys all are taken off."""
        taints = [{"key": k, "value": value, "effect": "NoExecute"} for k in keys]
        for each in taints:
            if not each["value"]:
                del each["value"]
        self.stage.hub.edit(MEMBER_CLUSTERS, name, {"spec": {"taints": taints}})

    def evacuation(self, name: str) -> tuple[str, str, str]:
        """(status, reason, message) of the condition Evacuating."""
        found = self.stage.hub.read(MEMBER_CLUSTERS, name)["status"]["conditions"]
        for each in found:
            if each["type"] == "Evacuating":
                return each["status"], each["reason"], each["message"]
        return "", "", ""

    def least_ready(self, name: str) -> int:
        return min(each.ready for each in self.looks[name])

    def most_pods(self, name: str) -> int:
        return max(each.pods for each in self.looks[name])

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self._follow())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _follow(self) -> None:
        while True:
            self.look()
            await self.stage.clock.sleep(LOOK_SECONDS)

    def look(self) -> None:
        self.stage.hub.bookmark()
        if self.renewing:
            self._renew()
        for workload in self.stage.hub.stored(WORKLOADS):
            self._bring(workload)
        for cluster in self.stage.hub.stored(MEMBER_CLUSTERS):
            if (name := cluster["metadata"]["name"]) not in self.away:
                self._room(name, cluster["status"])

    def _room(self, name: str, stored: dict[str, Any]) -> None:
        """Report what is free beside the units; each asks for one cpu."""
        (group,) = stored["nodeGroups"]
        units = sum(s[name].units for s in self.shares.values() if name in s)
        whole = int(stored["capacity"]["allocatable"]["cpu"])
        free = {**group["free"], "cpu": str(max(whole - units, 0))}
        if free != group["free"]:
            body = {"status": {"nodeGroups": [{**group, "free": free}]}}
            self.stage.hub.edit(MEMBER_CLUSTERS, name, body, status=True)

    def _renew(self) -> None:
        now = self.stage.clock.now()
        spec = {
            "holderIdentity": f"propagator-{self.term}",
            "leaseDurationSeconds": 15,
            "renewTime": microtime(now),
        }
        at, here = ("stowage-propagator", "stowage-system"), self.stage.hub
        if not self._began:
            here.put(LEASES, {"metadata": {"name": at[0], "namespace": at[1]}, "spec": {}})
        if self._began != self.term:
            self._began = self.term
            spec["acquireTime"] = microtime(now)
        here.edit(LEASES, at[0], {"spec": spec}, namespace=at[1])

    def _fenced(self) -> list[str]:
        """Members of which a person says that nothing runs there."""
        return [
            each["metadata"]["name"]
            for each in self.stage.hub.stored(MEMBER_CLUSTERS)
            if any(t["key"] == TAINT_OUT_OF_SERVICE for t in each["spec"].get("taints", ()))
        ]

    def _bring(self, workload: dict[str, Any]) -> None:
        name, status = workload["metadata"]["name"], workload.get("status", {})
        placed = {each["cluster"]: each["replicas"] for each in status.get("placements", ())}
        leaving = {each["cluster"]: each["replicas"] for each in status.get("leaving", ())}
        assert sum(placed.values()) + status.get("pending", 0) == status.get("desired", 0)
        shares = self.shares.setdefault(name, {})
        for each in placed:
            shares.setdefault(each, Share())
        now = self.stage.clock.monotonic()
        seen = {c: s for c, s in shares.items() if c not in self.away}
        for cluster, share in seen.items():
            if cluster not in self.stuck and now - share.since >= READY_SECONDS:
                share.ready = share.units
            if cluster in self.sick:
                share.ready = 0
        goal, once = status.get("desired", 0) - status.get("pending", 0), _once(workload)
        for cluster, share in seen.items():
            target = placed.get(cluster, 0)
            elsewhere = sum(min(s.ready, placed.get(c, 0)) for c, s in seen.items() if c != cluster)
            if target > share.units:
                excess = sum(
                    max(s.units - placed.get(c, 0), 0)
                    for c, s in shares.items()
                    if c not in (cluster, *self._fenced())
                )
                grown = max(target - excess, share.units) if once else target
                if grown > share.units:
                    share.units, share.since = grown, now
            elif target < share.units:
                # What `leaving` names stays, ready or not.
                kept = least(
                    target=target,
                    present=share.units,
                    ready=share.units if cluster in self.sick and not once else share.ready,
                    elsewhere=elsewhere,
                    goal=goal - (1 if once else 0),
                    ordered=False,
                )
                share.units, share.ready = kept, min(share.ready, kept)
        self._report(workload, placed, shares)
        alive = [s for c, s in shares.items() if c not in self.away]
        look = Look(sum(s.ready for s in alive), sum(s.units for s in alive), placed, leaving)
        self.looks.setdefault(name, []).append(look)

    def _report(
        self, workload: dict[str, Any], placed: dict[str, int], shares: dict[str, Share]
    ) -> None:
        status = workload.get("status", {})
        before = {each["name"]: each for each in status.get("clusters", ())}
        clusters = []
        seconds = workload["spec"].get("movement", {}).get("unhealthySeconds")
        patience = Patience(seconds, "a revision", self.stage.clock.now()) if seconds else None
        for cluster in _sorted({*placed, *shares}):
            share = shares.get(cluster, Share())
            stored = before.get(cluster, {}).get("failover")
            if cluster in self.away:
                old = before.get(cluster, {"name": cluster, "replicas": placed.get(cluster, 0)})
                told = {**old, "state": "Unreachable"}
                if patience is not None and stored is not None:
                    told["failover"] = of_silent(patience, stored)
                clusters.append(told)
            elif share.units or cluster in placed:
                clusters.append(
                    {
                        "name": cluster,
                        "replicas": placed.get(cluster, 0),
                        "scheduled": share.units,
                        "ready": share.ready,
                        "capacityVersion": 1,
                        "state": "Running" if cluster in placed else "Leaving",
                        **({"fields": self.fields[cluster]} if cluster in self.fields else {}),
                        **({"holds": self.holds[cluster]} if cluster in self.holds else {}),
                        **self._failover(patience, stored, share, placed.get(cluster)),
                    }
                )
        if clusters != status.get("clusters", []):
            body = {"status": {"clusters": clusters}}
            self.stage.hub.edit(WORKLOADS, workload["metadata"]["name"], body, status=True)

    def _failover(
        self, patience: Patience | None, stored: Any, share: Share, asked: int | None
    ) -> dict[str, Any]:
        if patience is None or asked is None:
            return {}
        state = ShareState.RUNNING if share.ready >= asked else ShareState.CREATING
        counts = Readiness(share.ready, share.units)
        found = of_seen(
            patience, stored, counts, asked=asked, available=None, state=state, written=True
        )
        return {} if found is None else {"failover": found}


@asynccontextmanager
async def fleet(
    *names: str, cpu: str = "100", movement: Any = QUICK
) -> AsyncIterator[tuple[Stage, Members]]:
    stage, members = unled(*names, cpu=cpu)
    async with stage.leading(movement=movement), members.following():
        yield stage, members


def unled(*names: str, cpu: str = "100") -> tuple[Stage, Members]:
    """Clusters, each a zone of its own, that no controller knows yet; nobody follows them."""
    stage = Stage()
    members = Members(stage, names or THREE)
    for name in members.names:
        stage.cluster(name, cpu=cpu, **{ZONE: name})
    return stage, members


async def web(stage: Stage, members: Members, replicas: int = 6, **spec: Any) -> None:
    """`web` of 6 over three clusters, all of it ready."""
    stage.workload("web", replicas=replicas, **{"distribution": "Divided", **spec})
    await stage.until(lambda: sum(stage.placed("web").values()) == replicas)
    await all_ready(stage, members, "web", replicas)
    members.looks["web"].clear()
    await stage.calm(1)


@asynccontextmanager
async def running(
    *names: str, replicas: int = 6, cpu: str = "100", brakes: Any = QUICK, **spec: Any
) -> AsyncIterator[tuple[Stage, Members]]:
    """A fleet on which all of `web` is ready."""
    async with fleet(*names, cpu=cpu, movement=brakes) as (stage, members):
        await web(stage, members, replicas, **spec)
        yield stage, members


@asynccontextmanager
async def running_on_m1(replicas: int = 6, **spec: Any) -> AsyncIterator[tuple[Stage, Members]]:
    """`web` is ready on m1 alone, and m2 takes it from now on."""
    async with fleet("m1", "m2") as (stage, members):
        cordon(stage, "m2")
        await web(stage, members, replicas, **spec)
        cordon(stage, "m2", on=False)
        yield stage, members


def cordon(stage: Stage, name: str, *, on: bool = True) -> None:
    """kubectl cordon, and uncordon where it is not `on`."""
    stage.hub.edit(MEMBER_CLUSTERS, name, {"spec": {"unschedulable": on}})


async def all_ready(stage: Stage, members: Members, name: str, units: int) -> None:
    """Wait until so many units of it are ready."""
    await stage.until(lambda: name in members.looks and members.looks[name][-1].ready == units)


async def tolerated_loss(stage: Stage, members: Members, name: str, **how: str) -> None:
    """The member is lost, and Workloads tolerate that for now."""
    members.lose(name, **how)
    await stage.until(lambda: members.evacuation(name)[1] == "Tolerating", seconds=15)


def rebalance(stage: Stage) -> str:
    """Ask for a rebalance of `web`; returns the moment that stands there."""
    moment = timestamp(stage.clock.now())
    stage.hub.edit(WORKLOADS, "web", {"spec": {"movement": {"rebalanceAfter": moment}}})
    return moment


def keep_from_m1(stage: Stage) -> None:
    """The rules of `web` name every zone but that of m1."""
    rules = required_terms([expression(ZONE, "NotIn", "m1")])
    stage.hub.edit(WORKLOADS, "web", {"spec": {"clusterAffinity": rules}})


def _sorted(names: Iterable[str]) -> list[str]:
    return sorted(names)


def _once(workload: dict[str, Any]) -> bool:
    template = workload["spec"].get("template") or {}
    return template.get("kind") in ("StatefulSet", "Job", "CronJob")


def leaving(stage: Stage, name: str) -> dict[str, tuple[int, str]]:
    """{cluster: (units, cause)} of status.leaving."""
    status = stage.hub.read(WORKLOADS, name)["status"]
    return {e["cluster"]: (e["replicas"], e.get("cause", "")) for e in status.get("leaving", ())}


def causes(stage: Stage, name: str) -> list[str]:
    """The causes of the history, the oldest first."""
    status = stage.hub.read(WORKLOADS, name)["status"]
    return [each["cause"] for each in status.get("history", ())]
