"""The ledger of Reservations loses no room and doubles none, in whatever order things happen.

The oracle is written as plain loops: it puts units into reservations one by one, and adds up.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from controller.features.reservation.ledger import ReservationLedger
from controller.model.objects import Workload
from machinery.types.workload_api import ReservedShare
from tests.controller.features.reservation.reservations import NS, Hall, owner, reservation
from tests.examples import examples

CLUSTERS = ("a", "b", "c")
NAMES, WORKLOADS = ("r1", "r2", "r3"), ("w1", "w2", "w3", "w4")
APPS = ("x", "y")
REQUESTS = ({"cpu": "4"}, {"cpu": "1500m", "memory": "1Gi"}, {"memory": "3Gi"}, {})
UNITS = ({"cpu": "1"}, {"cpu": "700m", "memory": "1Gi"}, {"memory": "512Mi"}, {})
OWNERS: tuple[list[dict[str, Any]], ...] = (
    [{"labelSelector": {}}],
    [{"labelSelector": {"matchLabels": {"app": "x"}}}],
    [{"object": {"name": "w1"}}, {"object": {"name": "w2"}}],
    [{"controller": {"kind": "Deployment", "name": "w3"}}],
)
PLACED = st.dictionaries(st.sampled_from(CLUSTERS), st.integers(1, 4), max_size=3)
SPECS: dict[str, Any] = {
    "request": st.integers(0, 3),
    "owners": st.integers(0, 3),
    "once": st.booleans(),
    "hours": st.integers(1, 3),
    "placed": PLACED,
}
ALLOCATABLE = {"cpu": 8000, "memory": 32 * 2**30, "pods": 110}

Shares = dict[tuple[str, str, str], int]
"""Units by (reservation, uid, cluster)."""


@dataclass
class Rsv:
    """A reservation, as the oracle knows it."""

    name: str
    number: int
    request: int
    owners: int
    once: bool
    hours: int
    placed: dict[str, int] = field(default_factory=dict)
    phase: str = ""

    @property
    def uid(self) -> str:
        return f"uid-{self.number}"

    @property
    def open(self) -> bool:
        return not self.phase

    @property
    def asks(self) -> dict[str, int]:
        return numbers(REQUESTS[self.request])

    def stored(self) -> Any:
        return reservation(
            self.name,
            uid=self.uid,
            created=f"2026-01-02T03:04:{self.number % 60:02}Z",
            phase=self.phase,
            placed=self.placed,
            template={
                "spec": {"containers": [{"resources": {"requests": REQUESTS[self.request]}}]}
            },
            owners=OWNERS[self.owners],
            allocateOnce=self.once,
            ttl=f"{self.hours}h",
        )

    def owned_by(self, workload: Wl) -> bool:
        return (
            self.owners == 0
            or (self.owners == 1 and workload.app == "x")
            or (self.owners == 2 and workload.name in ("w1", "w2"))
            or (self.owners == 3 and workload.name == "w3")
        )


@dataclass
class Wl:
    """A Workload, as the oracle knows it: what is stored, and what is decided and not stored."""

    name: str
    app: str
    request: int
    present: dict[str, int] = field(default_factory=dict)
    said: Shares = field(default_factory=dict)
    decided: dict[str, int] | None = None
    entered: Shares = field(default_factory=dict)

    @property
    def asks(self) -> dict[str, int]:
        return numbers(UNITS[self.request])

    @property
    def placements(self) -> dict[str, int]:
        return self.present if self.decided is None else self.decided

    def stored(self) -> Workload:
        shares = [
            ReservedShare(NS, name, uid, cluster, n)
            for (name, uid, cluster), n in self.said.items()
        ]
        return owner(
            self.name,
            UNITS[self.request],
            labels={"app": self.app},
            present=self.present,
            inside=shares,
            replicas=6,
        )


def numbers(request: Mapping[str, str]) -> dict[str, int]:
    sizes = {"4": 4000, "1500m": 1500, "1": 1000, "700m": 700}
    sizes |= {"1Gi": 2**30, "3Gi": 3 * 2**30, "512Mi": 2**29}
    return {**{r: sizes[text] for r, text in request.items()}, "pods": 1}


class Oracle:
    """Who is inside and what is left, by plain loops over everything."""

    def __init__(self, reservations: Iterable[Rsv], workloads: Iterable[Wl]) -> None:
        self.reservations = {r.name: r for r in reservations}
        self.workloads = {w.name: w for w in workloads}

    def counting(self, workload: Wl, claims: Shares, placements: Mapping[str, int]) -> Shares:
        """Of these claims, those that are true: in order, unit by unit."""
        free, found = dict(placements), {}
        for name, uid, cluster in sorted(claims, key=lambda claim: (claim[2], claim[0], claim[1])):
            held = self.reservations.get(name)
            if held is None or held.uid != uid or (held.open and cluster not in held.placed):
                continue
            for _ in range(claims[name, uid, cluster]):
                if free.get(cluster, 0):
                    free[cluster] -= 1
                    found[name, uid, cluster] = found.get((name, uid, cluster), 0) + 1
        return found

    def inside(self, workload: Wl) -> Shares:
        claims = dict(workload.said)
        for claim, n in workload.entered.items():
            claims[claim] = claims.get(claim, 0) + n
        return self.counting(workload, claims, workload.placements)

    def told(self, workload: Wl) -> Shares:
        """As it is told: of each reservation no unit beyond those that leave nothing of it."""
        found: Shares = {}
        for claim, units in self.inside(workload).items():
            held, most = self.reservations[claim[0]], 0
            left = {r: n * held.placed.get(claim[2], 0) for r, n in held.asks.items()}
            while any(n > 0 and workload.asks.get(r) for r, n in left.items()):
                left = {r: n - workload.asks.get(r, 0) for r, n in left.items()}
                most += 1
            if min(units, most) or not held.open:
                found[claim] = min(units, most) if held.open else units
        return found

    def users(self, held: Rsv, but: Wl | None = None) -> set[str]:
        return {
            w.name
            for w in self.workloads.values()
            if w is not but
            and any((name, uid) == (held.name, held.uid) for name, uid, _ in self.inside(w))
        }

    def left(self, held: Rsv, cluster: str, but: Wl | None = None) -> dict[str, int]:
        """What is reserved there, less what those inside take."""
        if not held.open or (held.once and self.users(held, but)):
            return {}
        left = {r: n * held.placed.get(cluster, 0) for r, n in held.asks.items()}
        for each in self.workloads.values():
            units = 0 if each is but else self.inside(each).get((held.name, held.uid, cluster), 0)
            left = {r: n - units * each.asks.get(r, 0) for r, n in left.items()}
        return {r: max(n, 0) for r, n in left.items()}

    def entering(self, workload: Wl, placements: Mapping[str, int]) -> Shares:
        """Its new units, one by one: where they fit whole, in order, then where they lack least."""
        new = {c: n - workload.present.get(c, 0) for c, n in placements.items()}
        kept = self.counting(workload, workload.said, placements)
        found: Shares = {}
        order = sorted(
            self.reservations.values(),
            key=lambda r: (r.number % 60 / 3600 + r.hours, r.number % 60, r.name),
        )
        rest: list[tuple[Rsv, str, dict[str, int]]] = []
        asks = workload.asks

        def lacking(left: Mapping[str, int]) -> list[Fraction]:
            """What one more unit takes of each resource beside what is left, as a part of it."""
            asked = [r for r in left if asks.get(r)]
            bounding = [r for r in asked if r != "pods"] or asked
            return [1 - Fraction(left[r], asks[r]) for r in bounding]

        def enters(held: Rsv, cluster: str, left: dict[str, int], *, whole: bool) -> None:
            while new.get(cluster, 0) > 0 and (lack := lacking(left)):
                if max(lack) > 0 if whole else min(lack) == 1:
                    break
                for resource, n in left.items():
                    left[resource] = max(n - asks.get(resource, 0), 0)
                new[cluster] -= 1
                claim = (held.name, held.uid, cluster)
                found[claim] = found.get(claim, 0) + 1

        for held in order:
            if not held.open or not held.owned_by(workload):
                continue
            own = {
                c: n for (name, uid, c), n in kept.items() if (name, uid) == (held.name, held.uid)
            }
            if held.once and own:
                continue
            for cluster in held.placed:
                left = self.left(held, cluster, workload)
                units = own.get(cluster, 0)
                left = {r: max(n - units * asks.get(r, 0), 0) for r, n in left.items()}
                enters(held, cluster, left, whole=True)
                rest.append((held, cluster, left))
        for held, cluster, left in sorted(rest, key=lambda r: max(lacking(r[2]), default=1)):
            enters(held, cluster, left, whole=False)
        return found


class Books(RuleBasedStateMachine):
    """Three reservations, four Workloads and three clusters."""

    def __init__(self) -> None:
        super().__init__()
        self.hall = Hall(*CLUSTERS)
        self.made = 0
        self.reservations: dict[str, Rsv] = {}
        self.workloads: dict[str, Wl] = {}

    @property
    def oracle(self) -> Oracle:
        return Oracle(self.reservations.values(), self.workloads.values())

    # --- reservations ---------------------------------------------------------------------------

    @initialize(
        reserved=st.lists(st.fixed_dictionaries(SPECS), min_size=3, max_size=3),
        requests=st.lists(st.integers(0, 3), min_size=4, max_size=4),
    )
    def begins(self, reserved: list[dict[str, Any]], requests: list[int]) -> None:
        """With everybody there: most steps find something to do."""
        for name, spec in zip(NAMES, reserved, strict=True):
            self.reserves(name, **spec)
        for n, (name, request) in enumerate(zip(WORKLOADS, requests, strict=True)):
            self.arrives(name, APPS[n % 2], request)

    @rule(
        name=st.sampled_from(NAMES),
        **SPECS,
    )
    def reserves(self, name: str, placed: dict[str, int], **fields: Any) -> None:
        """A new one; one of that name goes before."""
        self.releases(name)
        self.made += 1
        self.reservations[name] = Rsv(name, self.made, placed=placed, **fields)
        self.hall.reserve(self.reservations[name].stored())

    @rule(name=st.sampled_from(NAMES), placed=PLACED)
    def is_placed(self, name: str, placed: dict[str, int]) -> None:
        if name in self.reservations:
            self.reservations[name].placed = placed
            self.hall.reserve(self.reservations[name].stored())

    @rule(name=st.sampled_from(NAMES), owners=st.integers(0, 3), hours=st.integers(1, 3))
    def is_edited(self, name: str, owners: int, hours: int) -> None:
        if name in self.reservations:
            self.reservations[name].owners, self.reservations[name].hours = owners, hours
            self.hall.reserve(self.reservations[name].stored())

    @rule(name=st.sampled_from(NAMES), phase=st.sampled_from(("Failed", "Succeeded", "")))
    def ends(self, name: str, phase: str) -> None:
        """By its phase, or as somebody deletes it."""
        if name not in self.reservations:
            return
        if not phase:
            self.releases(name)
            return
        self.reservations[name].phase = phase
        self.hall.reserve(self.reservations[name].stored())

    def releases(self, name: str) -> None:
        if self.reservations.pop(name, None) is not None:
            self.hall.release(name)

    # --- Workloads ------------------------------------------------------------------------------

    def arrives(self, name: str, app: str, request: int) -> None:
        self.workloads[name] = Wl(name, app, request)
        self.hall.store(self.workloads[name].stored())

    @rule(name=st.sampled_from(WORKLOADS), app=st.sampled_from(APPS), request=st.integers(0, 3))
    def comes_anew(self, name: str, app: str, request: int) -> None:
        self.goes(name)
        self.arrives(name, app, request)

    @rule(
        decisions=st.lists(
            st.tuples(st.sampled_from(WORKLOADS), PLACED, st.sampled_from("wwwu-")),
            min_size=1,
            max_size=4,
        )
    )
    def are_decided(self, decisions: list[tuple[str, dict[str, int], str]]) -> None:
        """Assumed one after the other; each is written, or undone, or its write takes its time."""
        for name, placed, end in decisions:
            if name in self.workloads:
                self.is_decided(self.workloads[name], placed)
                self.all_room_is_reserved_or_used_or_free()
                if end == "w":
                    self.is_written(name)
                elif end == "u":
                    self.is_undone(name)

    def is_decided(self, workload: Wl, placed: dict[str, int]) -> None:
        entered = self.oracle.entering(workload, placed)
        told = self.hall.decide(self.hall.workloads[NS, workload.name], placed)
        workload.decided, workload.entered = placed, entered
        expected = self.oracle.told(workload)
        assert {(s.name, s.uid, s.cluster): s.replicas for s in told} == expected

    @rule(name=st.sampled_from(WORKLOADS))
    def is_written(self, name: str) -> None:
        """What is stored is what was assumed, and the books stay as they were."""
        workload = self.workloads.get(name)
        if workload is None or workload.decided is None:
            return
        before = self.hall.holds
        said = self.oracle.told(workload)
        workload.present, workload.said = workload.decided, said
        workload.decided, workload.entered = None, {}
        info = self.hall.store(workload.stored())
        again = self.hall.books.split(info, info.present)
        assert again == info.reservations, "what is told is told again"
        assert self.hall.holds == before

    def is_undone(self, name: str) -> None:
        workload = self.workloads.get(name)
        if workload is not None and workload.decided is not None:
            self.hall.undo(self.hall.workloads[NS, name], workload.decided)
            workload.decided, workload.entered = None, {}

    @rule(
        name=st.sampled_from(WORKLOADS),
        said=st.dictionaries(
            st.tuples(
                st.sampled_from(NAMES),
                st.integers(1, 4).map("uid-{}".format),
                st.sampled_from((*CLUSTERS, "zz")),
            ),
            st.integers(1, 9),
            max_size=3,
        ),
    )
    def is_meddled_with(self, name: str, said: Shares) -> None:
        workload = self.workloads.get(name)
        if workload is not None:
            workload.said, workload.decided, workload.entered = said, None, {}
            self.hall.store(workload.stored())

    def goes(self, name: str) -> None:
        if self.workloads.pop(name, None) is not None:
            self.hall.delete(name)

    # --- the process ----------------------------------------------------------------------------

    @rule(seed=st.integers(0, 99))
    def starts_again(self, seed: int) -> None:
        """From what is stored alone, in any order; what was only decided is gone."""
        for name in self.workloads:
            self.is_undone(name)
        old, new = self.hall, Hall(*CLUSTERS)
        steps = [(new.reserve, r.stored()) for r in self.reservations.values()]
        steps += [(new.store, w.stored()) for w in self.workloads.values()]
        random.Random(seed).shuffle(steps)
        for step, stored in steps:
            step(stored)
        assert new.holds == old.holds
        for name in NAMES:
            assert new.books.uses((NS, name)) == old.books.uses((NS, name))
        self.hall = new

    @rule(name=st.sampled_from(WORKLOADS), placed=PLACED)
    def is_tried(self, name: str, placed: dict[str, int]) -> None:
        """An overlay answers as the books would, and leaves them as they are."""
        workload = self.workloads.get(name)
        if workload is None:
            return
        before = self.hall.holds
        info = self.hall.workloads[NS, name].info
        over = self.hall.books.overlay({info.key: (info, placed)})
        kept = (workload.decided, workload.entered)
        workload.entered = self.oracle.entering(workload, placed)
        workload.decided = placed
        self.agrees(over)
        workload.decided, workload.entered = kept
        assert self.hall.holds == before
        self.agrees(self.hall.books)

    def agrees(self, books: ReservationLedger) -> None:
        for held in self.reservations.values():
            for cluster in CLUSTERS:
                expected = self.oracle.left(held, cluster) if cluster in held.placed else {}
                found = books.unused((NS, held.name), cluster)
                assert {r: n for r, n in found.items() if n} == {
                    r: n for r, n in expected.items() if n
                }

    @invariant()
    def all_room_is_reserved_or_used_or_free(self) -> None:
        oracle = self.oracle
        for cluster in CLUSTERS:
            reserved: dict[str, int] = {}
            for held in self.reservations.values():
                for resource, n in oracle.left(held, cluster).items():
                    reserved[resource] = reserved.get(resource, 0) + n
            used: dict[str, int] = {}
            for workload in self.workloads.values():
                for resource, n in workload.asks.items():
                    units = workload.placements.get(cluster, 0)
                    used[resource] = used.get(resource, 0) + n * units
            found = self.hall.amounts(cluster)
            for resource, whole in ALLOCATABLE.items():
                held_there = reserved.get(resource, 0)
                assert found.reserved.get(resource, 0) == held_there
                taken = held_there + used.get(resource, 0)
                assert found.requested.get(resource, 0) == taken
                assert taken + found.remaining[resource] == whole

    @invariant()
    def who_is_inside_is_told(self) -> None:
        for held in self.reservations.values():
            assert set(self.hall.books.uses((NS, held.name))) == {
                (NS, name) for name in self.oracle.users(held)
            }

    def teardown(self) -> None:
        for name in [*self.workloads]:
            self.goes(name)
        for name in [*self.reservations]:
            self.releases(name)
        assert self.hall.holds == {}
        kept = {k: v for k, v in vars(self.hall.books).items() if isinstance(v, dict) and v}
        assert kept == {}, "nothing is remembered of what is gone"


@pytest.mark.proves("E25", "E28", "E29")
class TestBooks(Books.TestCase):
    """As many courses as each run has the time for."""

    settings = examples(300, stateful_step_count=25, derandomize=True)
