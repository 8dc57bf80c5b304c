"""Whatever single change turns a refusal into a placement is announced, and awaited.

A fleet, Workloads and policies at random, one Workload that was refused or that got less than it
wants, and one change of any kind. Where the pass would place more of it now, the queue must have it
ready: nobody looks again by the clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, TypeAlias

import msgspec
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from controller.config import default_profile
from controller.eventhandlers import SchedulerCache, known
from controller.features.workloadpolicy.counts import WorkloadPolicy
from controller.features.workloadpolicy.feature import WorkloadPolicies
from controller.model.objects import ClusterShare, Workload
from controller.plugins.defaults import PrioritySort
from controller.queue.scheduling_queue import LONGEST_DELAY_SECONDS, SchedulingQueue
from controller.queue.unschedulable import Hints
from controller.scheduler import awaited
from controller.scheduling.batch import decide_set
from controller.scheduling.decision import Decision
from controller.scheduling.steps import at_once
from crds.names import ANNOTATION_COST, LABEL_POLICY
from machinery.types.metadata import Key
from machinery.types.workload_api import ClusterLimit
from tests.controller import make
from tests.controller.make import NOW, REQUIRED, ZONE, flush
from tests.examples import examples
from tests.fakeclock import FakeClock

Fields: TypeAlias = dict[str, Any]
Kinds: TypeAlias = dict[str, st.SearchStrategy[Any]]
PROFILE = default_profile()
HINTS = Hints(PROFILE)
SHOP = "shop"
TIER = "tier"
OURS = (SHOP, "x")
CLUSTERS = ("c0", "c1", "c2", "c3")
OTHERS = ("y0", "y1", "y2")
CLUSTER_ROLE = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
TAINT = {"key": "gpu", "value": "yes"}


def rarely(*values: Any) -> st.SearchStrategy[Any]:
    """The first one three times in four."""
    return st.one_of(st.just(values[0]), st.just(values[0]), st.sampled_from(values))


CLUSTER: Kinds = {
    "zone": st.sampled_from(["a", "b", None]),
    "tier": st.sampled_from([None, "gold"]),
    "ready": rarely(True, False),
    "deleting": rarely(False, True),
    "unschedulable": rarely(False, True),
    "taint": rarely(None, "NoSchedule", "PreferNoSchedule"),
    "cpu": st.integers(0, 5),
    "nodes": st.integers(1, 2),
    "virtual": rarely(False, False, True),
    "namespaces": rarely("*", "prod"),
    "kinds": rarely((), ("rbac.authorization.k8s.io/ClusterRole",)),
    "given": rarely(None, (), ("prod",), ("shop", "prod")),
    "refused": rarely((), ("shop",), ("prod",)),
    "version": rarely("1.36", "1.35"),
    "provider": rarely("kind", "cloud"),
    "secret": rarely("stowage-system", "elsewhere"),
    "cost": rarely(None, "3"),
    "used": st.integers(0, 8),
}
TERM = st.sampled_from([None, None, ("x", ZONE), ("y", ZONE), ("y", make.CLUSTER), ("x", TIER)])
WORKLOAD: Kinds = {
    "replicas": st.integers(0, 7),
    "app": st.sampled_from(["x", "y"]),
    "policy": st.sampled_from([None, None, "p0", "p1"]),
    "cpu": st.integers(1, 3),
    "kind": rarely("Deployment", "DaemonSet", "Job"),
    "distribution": st.sampled_from(["Single", "Divided", "Divided", "Duplicated"]),
    "packing": st.sampled_from(["Proportional", "Fewest"]),
    "weights": st.lists(
        st.tuples(
            st.sampled_from([None, "a", "b"]),
            st.integers(0, 3),
            st.integers(0, 2),
            st.sampled_from([None, 2, 4]),
        ),
        max_size=2,
    ),
    "spread": st.lists(
        st.tuples(
            st.sampled_from([ZONE, TIER, make.CLUSTER]),
            st.sampled_from([None, 1, 2]),
            st.sampled_from([None, 2, 3]),
        ),
        max_size=2,
    ),
    "beside": TERM,
    "away": TERM,
    "target": rarely(None, ("c0", ""), ("c1", "elsewhere")),
    "selector": rarely(
        {}, {ZONE: "a"}, {"cloudProvider": "cloud"}, {"clusterVersion": "1.35"}, {TIER: "gold"}
    ),
    "affinity": rarely(None, ("a",), ("a", "b")),
    "tolerates": rarely(False, True),
    "namespace": rarely("", "prod"),
    "carries": rarely(False, True),
}
PLAIN_CLUSTER: Fields = {
    "zone": "a",
    "tier": None,
    "ready": True,
    "deleting": False,
    "unschedulable": False,
    "taint": None,
    "cpu": 2,
    "nodes": 1,
    "virtual": False,
    "namespaces": "*",
    "kinds": (),
    "given": None,
    "refused": (),
    "version": "1.36",
    "provider": "kind",
    "secret": "stowage-system",
    "cost": None,
    "used": 0,
}
PLAIN_WORKLOAD: Fields = {
    "replicas": 3,
    "app": "x",
    "policy": None,
    "cpu": 1,
    "kind": "Deployment",
    "distribution": "Divided",
    "packing": "Proportional",
    "weights": [],
    "spread": [],
    "beside": None,
    "away": None,
    "target": None,
    "selector": {},
    "affinity": None,
    "tolerates": False,
    "namespace": "",
    "carries": False,
    "present": {},
    "finished": 0,
    "deleting": False,
    "limits": {},
}
PLAIN_POLICY: Fields = {
    "zones": {"a": 2, "b": 1},
    "key": ZONE,
    "app": "x",
    "type": "Required",
    "method": "Fill",
}
SHARES = st.dictionaries(st.sampled_from(CLUSTERS), st.integers(0, 4), max_size=3)
STATUS: Kinds = {
    "present": SHARES,
    "finished": rarely(0, 1, 2),
    "deleting": rarely(False, True),
    "limits": st.one_of(st.just({}), st.dictionaries(st.sampled_from(CLUSTERS), st.integers(0, 2))),
}
POLICY: Kinds = {
    "zones": st.dictionaries(st.sampled_from("ab"), st.integers(0, 5), min_size=1),
    "key": rarely(ZONE, TIER, ""),
    "app": rarely("x", "y"),
    "type": rarely("Required", "Preferred"),
    "method": st.sampled_from(["Fill", "Balance"]),
}


@st.composite
def varied(draw: st.DrawFn, plain: Fields, kinds: Kinds, most: int) -> Fields:
    """An object that differs from a plain one in a few fields.

    Where everything is drawn, no single change is enough.
    """
    names = draw(st.lists(st.sampled_from(sorted(kinds)), max_size=most, unique=True))
    return plain | {name: draw(kinds[name]) for name in names}


def cluster_of(name: str, fields: Fields) -> Any:
    """The MemberCluster of these fields."""
    labels = {ZONE: fields["zone"], TIER: fields["tier"]}
    cost = {} if fields["cost"] is None else {ANNOTATION_COST: fields["cost"]}
    free = {"cpu": str(fields["cpu"]), "memory": "64Gi", "pods": "110"}
    offers = {"cpu": "8", "memory": "64Gi"}
    status = {
        "version": fields["version"],
        "provider": fields["provider"],
        "namespaces": {"given": fields["given"], "refused": fields["refused"]},
        "capacity": {
            "nodes": 1,
            "allocatable": offers,
            "requested": {"cpu": str(fields["used"])},
        },
    }
    return make.cluster(
        name,
        {key: value for key, value in labels.items() if value is not None},
        ready=fields["ready"],
        groups=[{"count": fields["nodes"], "free": free}],
        annotations=cost,
        deleting=fields["deleting"],
        status=status,
        unschedulable=fields["unschedulable"],
        taints=[{**TAINT, "effect": fields["taint"]}] if fields["taint"] else [],
        virtual=fields["virtual"],
        namespaces={"allow": [fields["namespaces"]]},
        allowedKinds=list(fields["kinds"]),
        secretRef={"name": name, "namespace": fields["secret"]},
    )


def term(drawn: tuple[str, str] | None) -> dict[str, Any]:
    """A required term that selects by the label app."""
    return {REQUIRED: [make.beside(drawn[0], drawn[1])]} if drawn else {}


def spec_of(fields: Fields) -> dict[str, Any]:
    """spec of these fields, in JSON spelling."""
    target = fields["target"]
    zones = fields["affinity"]
    return {
        "distribution": fields["distribution"],
        "packing": fields["packing"],
        "distributionWeights": [
            {
                "weight": weight,
                "minReplicas": least,
                "clusterSelector": {"matchLabels": {ZONE: zone}} if zone else {},
                **({} if most is None else {"maxReplicas": most}),
            }
            for zone, weight, least, most in fields["weights"]
        ],
        "spreadConstraints": [
            {
                "topologyKey": key,
                **({} if least is None else {"minDomains": least}),
                **({} if most is None else {"maxDomains": most}),
            }
            for key, least, most in fields["spread"]
        ],
        "workloadAffinity": term(fields["beside"]),
        "workloadAntiAffinity": term(fields["away"]),
        "clusterSelector": fields["selector"],
        "clusterAffinity": (
            make.required_terms([make.expression(ZONE, "In", *zones)]) if zones else {}
        ),
        "tolerations": [{"key": "gpu", "operator": "Exists"}] if fields["tolerates"] else [],
        "targetNamespace": fields["namespace"],
        **({"targetCluster": {"name": target[0], "namespace": target[1]}} if target else {}),
        **({"manifests": [CLUSTER_ROLE]} if fields["carries"] else {}),
    }


def workload_of(name: str, fields: Fields, *, generation: int = 1, decided: str = "") -> Workload:
    """The Workload of these fields; `decided` is the hash that its shares were decided on."""
    pods = {"requests": {"cpu": str(fields["cpu"])}}
    body = make.workload(
        name,
        namespace=SHOP,
        replicas=fields["replicas"],
        labels={"app": fields["app"]},
        pod={"containers": [{"name": "main", "resources": pods}]},
        kind=fields["kind"],
        present=fields["present"],
        decided=decided,
        **spec_of(fields),
    )
    meta = msgspec.structs.replace(
        body.metadata,
        labels={LABEL_POLICY: fields["policy"]} if fields["policy"] else {},
        generation=generation,
        deletion_timestamp="2026-01-02T00:00:00Z" if fields["deleting"] else None,
    )
    shares = [
        ClusterShare(cluster, replicas=units, finished=min(fields["finished"], units))
        for cluster, units in fields["present"].items()
    ]
    limits = [
        ClusterLimit(cluster, units, until=NOW + timedelta(hours=1), hold_seconds=60)
        for cluster, units in fields["limits"].items()
    ]
    status = msgspec.structs.replace(body.status, clusters=shares, limits=limits)
    return known(msgspec.structs.replace(body, metadata=meta, status=status))


def policy_of(name: str, fields: Fields, generation: int) -> WorkloadPolicy:
    """The WorkloadPolicy of these fields."""
    spec = {
        "topologyKey": fields["key"],
        "labelSelector": {"matchLabels": {"app": fields["app"]}},
        "allocationPolicy": [{"name": n, "replicas": r} for n, r in fields["zones"].items()],
        "allocationType": fields["type"],
        "allocationMethod": fields["method"],
    }
    meta = {"namespace": SHOP, "name": name, "uid": name, "generation": generation}
    return msgspec.convert({"metadata": meta, "spec": spec}, WorkloadPolicy)


@dataclass
class Scene:
    """The world as the informers feed it, and the Workload that is looked at."""

    clusters: dict[str, Fields] = field(default_factory=dict)
    workloads: dict[str, Fields] = field(default_factory=dict)
    policies: dict[str, Fields] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.clock = FakeClock()
        self.queue = SchedulingQueue(clock=self.clock)
        self.holder, self.plugins = "me", list(PROFILE.plugins.values())
        self.feature = WorkloadPolicies()
        self.world = SchedulerCache(
            {"stowage"},
            sort=PrioritySort(),
            reviewed=lambda _: True,
            ledgers=self.feature.ledgers,
        )
        self.snapshot, self.announce = self.world.snapshot, self.world.announce
        self.feature.attach(self)
        self._objects: dict[str, Any] = {}
        self._hashes: dict[str, str] = {}
        self._generation = 0

    def controls(self, _plugin: str) -> bool:
        """As of `Handle`: whose quota is claimed."""
        return True

    def cluster(self, name: str, fields: Fields | None) -> None:
        """What its informer would say; None for one that is gone."""
        keep(self.clusters, name, fields)
        new = cluster_of(name, fields) if fields else None
        self._tell(name, new, self.world.cluster_changed, self.feature.cluster_changed)

    def policy(self, name: str, fields: Fields | None) -> None:
        """As `cluster`."""
        keep(self.policies, name, fields)
        self._generation += 1
        new = policy_of(name, fields, self._generation) if fields else None
        self._tell(name, new, self.feature.watches[0].handler)

    def workload(self, name: str, fields: Fields | None, *, current: bool = False) -> None:
        """As `cluster`; `current` where its shares are decided on what it is now."""
        before = self.workloads.get(name)
        keep(self.workloads, name, fields)
        if fields is None:
            self._hashes.pop(name, None)
            self._told(name, None)
            return
        if current:
            self._hashes[name] = workload_of(name, fields).info.hash
        spec = set(WORKLOAD) - {"policy"}
        if before is None or any(before[each] != fields[each] for each in spec):
            self._generation += 1
        number, decided = self._generation, self._hashes.get(name, "")
        if before is not None and (old := self._objects.get(name)) is not None:
            same = not any(before[each] != fields[each] for each in spec)
            number = old.metadata.generation if same else number
        new = workload_of(name, fields, generation=number, decided=decided)
        self._told(name, new)

    def _told(self, name: str, new: Workload | None) -> None:
        self._tell(name, new, self.world.workload_changed, self.feature.workload_changed)

    def _tell(self, name: str, new: Any, *handlers: Callable[[Any, Any], None]) -> None:
        old = self._objects.pop(name, None)
        if new is not None:
            self._objects[name] = new
        if old is not None or new is not None:
            for handler in handlers:
                handler(old, new)

    def decide(self) -> list[Decision]:
        """What the scheduler decides of ours, alone or as one of a set."""
        info = self.world.info(OURS)
        assert info is not None
        return at_once(decide_set(self.world, info, {"stowage": PROFILE}, NOW)).decisions

    def carry_out(self, decisions: list[Decision]) -> None:
        """Count, park and write them, as the scheduler does."""
        for decision in decisions:
            info = decision.workload
            self.world.assume(info, decision.placements)
            awaits = awaited(decision, HINTS, alone=len(decisions) == 1)
            if awaits is None:
                self.queue.remove_unschedulable(info.key)
            else:
                self.queue.add_unschedulable(self.world.rank(info), info, awaits)
        for decision in decisions:
            fields = {
                **self.workloads[decision.workload.name],
                "present": dict(decision.placements),
            }
            self.workload(decision.workload.name, fields, current=True)

    async def ready(self) -> set[Key]:
        """Who can be worked on, after so long that nobody waits for the clock."""
        await self.clock.advance(2 * LONGEST_DELAY_SECONDS)
        flush(self.queue)
        found = set()
        while len(self.queue.active):
            key = await self.queue.active.get()
            self.queue.active.done(key)
            found.add(key)
        return found


def keep(held: dict[str, Fields], name: str, fields: Fields | None) -> None:
    """Remember the fields of what exists."""
    if fields is None:
        held.pop(name, None)
    else:
        held[name] = fields


def ours(decisions: list[Decision]) -> Decision:
    """The decision of the Workload that is looked at."""
    return next(each for each in decisions if each.workload.key == OURS)


def better(before: Decision, after: Decision) -> bool:
    """Whether more of it has a place."""
    return after.assigned > before.assigned or (after.scheduled and not before.scheduled)


@dataclass(frozen=True)
class Happens:
    """A change: of what, and its fields before and after; None where it does not exist."""

    kind: str
    name: str
    before: Fields | None
    after: Fields | None

    def undone(self) -> Happens:
        """The change in the other direction."""
        return Happens(self.kind, self.name, self.after, self.before)

    def possible(self) -> bool:
        """What is being deleted can only go."""
        old, new = self.before or {}, self.after
        return not old.get("deleting") or new is None or bool(new.get("deleting"))


@dataclass(frozen=True)
class Plot:
    """Everything that exists, by kind and name."""

    cluster: dict[str, Fields]
    policy: dict[str, Fields]
    workload: dict[str, Fields]
    edited: bool

    def with_change(self, change: Happens) -> Plot:
        """What exists after it."""
        there = dict(getattr(self, change.kind))
        keep(there, change.name, change.after)
        return replace(self, **{change.kind: there})

    def staged(self) -> Scene:
        """The world of it; the shares of ours were decided on another spec where it was edited."""
        scene = Scene()
        scene.world.lead(scene.queue)
        for kind in ("cluster", "policy", "workload"):
            for name, fields in getattr(self, kind).items():
                more = {"current": name != "x" or not self.edited} if kind == "workload" else {}
                getattr(scene, kind)(name, fields, **more)
        return scene


def some(names: Collection[str], one: st.SearchStrategy[Fields], least: int = 0) -> Any:
    """Objects of these names."""
    chosen = st.sampled_from(sorted(names))
    return st.dictionaries(chosen, one, min_size=least, max_size=len(names))


OBJECTS: dict[str, tuple[Collection[str], st.SearchStrategy[Fields], Kinds]] = {
    "cluster": (CLUSTERS, varied(PLAIN_CLUSTER, CLUSTER, 3), CLUSTER),
    "policy": (("p0", "p1"), varied(PLAIN_POLICY, POLICY, 2), POLICY),
    "workload": (OTHERS, varied(PLAIN_WORKLOAD, WORKLOAD | STATUS, 4), WORKLOAD | STATUS),
}
MINE = {name: drawn for name, drawn in (WORKLOAD | STATUS).items() if name != "deleting"}


@st.composite
def plots(draw: st.DrawFn) -> Plot:
    """A fleet, Workloads and policies, ours among them."""
    there = {kind: draw(some(names, one)) for kind, (names, one, _) in OBJECTS.items()}
    there["workload"]["x"] = draw(varied(PLAIN_WORKLOAD, MINE, 4))
    return Plot(**there, edited=draw(rarely(False, True)))


@st.composite
def changes(draw: st.DrawFn, plot: Plot) -> Happens:
    """One change of any kind to one object."""
    if draw(st.integers(0, 5)) == 0:
        kind, name, one, kinds = "workload", "x", st.nothing(), MINE
    else:
        kind = draw(st.sampled_from(sorted(OBJECTS)))
        names, one, kinds = OBJECTS[kind]
        name = draw(st.sampled_from(sorted(names)))
    before = getattr(plot, kind).get(name)
    if before is None:
        return Happens(kind, name, None, draw(one))
    if name != "x" and draw(st.integers(0, 5)) == 0:
        return Happens(kind, name, before, None)
    part = draw(st.sampled_from(sorted(kinds)))
    value = draw(kinds[part].filter(lambda value: value != before[part]))
    return Happens(kind, name, before, {**before, part: value})


@pytest.mark.long
@pytest.mark.proves("L2", "L17")
@examples(300)
@given(st.data())
def test_what_places_more_of_it_wakes_it(data: st.DataObject) -> None:
    plot = data.draw(plots())
    for change in data.draw(st.lists(changes(plot), min_size=1, max_size=4)):
        for start, what in ((plot, change), (plot.with_change(change), change.undone())):
            if what.possible():
                asyncio.run(_holds(start, what))


async def _holds(plot: Plot, change: Happens) -> None:
    scene = plot.staged()
    scene.carry_out(decisions := scene.decide())
    while OURS in await scene.ready():  # what is written may itself wake it
        scene.carry_out(decisions := scene.decide())
    before = ours(decisions)
    assert not better(before, ours(scene.decide())), "it was not through with it"
    getattr(scene, change.kind)(change.name, change.after)
    after = ours(scene.decide())
    if better(before, after):
        event(f"places more: {change.kind} {_what(change)}")
        told = f"{change}: from {before.message!r} to {after.message!r}"
        assert OURS in await scene.ready(), told


@pytest.mark.long
@pytest.mark.proves("C25")
@examples(300)
@given(st.data())
def test_what_changes_its_reason_wakes_it_or_is_noted(data: st.DataObject) -> None:
    plot = data.draw(plots())
    for change in data.draw(st.lists(changes(plot), min_size=1, max_size=4)):
        for start, what in ((plot, change), (plot.with_change(change), change.undone())):
            if what.possible() and asyncio.run(_noted(start, what)):
                event(f"says something else: {what.kind} {_what(what)}")


FULL = {name: PLAIN_CLUSTER | {"cpu": 1, "zone": name[-1]} for name in ("c0", "c1", "c2")}
TWO_OF_THEM = PLAIN_WORKLOAD | {"replicas": 5, "spread": [(make.CLUSTER, None, 2)]}
UNDER_QUOTA = PLAIN_WORKLOAD | {"replicas": 5, "policy": "p0"}
NEIGHBOUR = PLAIN_WORKLOAD | {"app": "y", "replicas": 2, "present": {"c1": 2}}
QUOTA = PLAIN_POLICY | {"zones": {"0": 1, "1": 2, "2": 3}}
WORSE = {
    "room that another one takes": (
        Plot(FULL, {}, {"x": TWO_OF_THEM}, edited=False),
        Happens("workload", "y0", None, PLAIN_WORKLOAD | {"app": "y", "present": {"c2": 1}}),
    ),
    "room that a cluster has no more": (
        Plot(FULL, {}, {"x": TWO_OF_THEM}, edited=False),
        Happens("cluster", "c2", FULL["c2"], FULL["c2"] | {"cpu": 0}),
    ),
    "quota that another one is counted against": (
        Plot(FULL, {"p0": QUOTA}, {"x": UNDER_QUOTA, "y0": NEIGHBOUR}, edited=False),
        Happens("workload", "y0", NEIGHBOUR, NEIGHBOUR | {"app": "x"}),
    ),
}


@pytest.mark.proves("C25")
@pytest.mark.parametrize("case", WORSE)
async def test_what_gets_worse_changes_its_reason_and_is_noted(case: str) -> None:
    assert await _noted(*WORSE[case])


async def _noted(plot: Plot, change: Happens) -> bool:
    """Whether the change gave it another reason; AssertionError where that is not noted."""
    scene = plot.staged()
    scene.carry_out(decisions := scene.decide())
    while OURS in await scene.ready():
        scene.carry_out(decisions := scene.decide())
    if not scene.queue.unschedulable:
        return False
    scene.queue.message_written(OURS)  # what is written is told already
    since = scene.queue.event_seq
    before = ours(decisions)
    getattr(scene, change.kind)(change.name, change.after)
    after = ours(scene.decide())
    other = (before.reason, before.message) != (after.reason, after.message)
    if other:
        told = f"{change}: from {before.message!r} to {after.message!r}"
        assert scene.queue.message_outdated(OURS, since) or OURS in await scene.ready(), told
    return other


def _what(change: Happens) -> str:
    """The field that changed."""
    if change.before is None or change.after is None:
        return "comes" if change.after else "goes"
    old, new = change.before, change.after
    return ", ".join(key for key in old if old[key] != new[key])
