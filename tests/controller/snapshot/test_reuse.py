"""What was computed of one snapshot and is used for the next ones: it is what they say themselves.

`replace(fleet)` is the same snapshot with nothing kept, so that everything of it is computed anew.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.cache.placements import PlacementIndex
from controller.config import default_profile
from controller.framework.interface import CycleState
from controller.model.load import Load
from controller.model.place import Place
from controller.plugins.clusterresources import NAME
from controller.scheduling.decision import Decision
from controller.snapshot.columns import DerivedColumns, Ints
from controller.snapshot.inflight import MOST_PLACES
from controller.snapshot.snapshot import Snapshot
from machinery.types import hostports
from machinery.types.taints import Toleration
from tests.controller.features.workloadgroup.ganging import Yard, group, member
from tests.controller.make import builder, cluster, info
from tests.examples import examples

pytestmark = pytest.mark.proves("G3")

PORTS = [hostports.resource("TCP", 8080), hostports.resource("UDP", 9090)]
ZONES: list[dict[str, str]] = [{}, {"zone": "a"}, {"zone": "b"}]
TAINT = {"key": "spare", "effect": "NoSchedule"}
BORNE = (Toleration(key="spare", operator="Exists"),)
SCORING = next(each for each in default_profile().score if each.name == NAME)


def free(dice: random.Random) -> dict[str, str]:
    amounts = {"cpu": str(dice.randint(0, 9)), "memory": f"{dice.randint(0, 9)}Gi", "pods": "20"}
    return amounts | ({"example.com/gpu": "2"} if dice.random() < 0.3 else {})


def drawn(dice: random.Random) -> Load:
    request = {"cpu": dice.choice([500, 1000, 1700]), "pods": 1}
    if dice.random() < 0.4:
        request |= {"memory": dice.choice([2**29, 2**30])}
    if dice.random() < 0.2:
        request |= {dice.choice([*PORTS, "example.com/gpu"]): 1}
    zone = dice.choice([*ZONES, {"zone": str(dice.randrange(2 * MOST_PLACES))}])
    return Load.of(request, Place(tuple(zone.items()), dice.choice([(), BORNE])))


def fleet_of(dice: random.Random, loads: list[Load], size: int = 24) -> Snapshot:
    """Some of its room is on its way already, and some is held."""
    made = builder(
        cluster(
            f"c{number}",
            groups=[
                {
                    "count": dice.randint(1, 3),
                    "free": free(dice),
                    "labels": dice.choice(ZONES),
                    "taints": dice.choice([[], [TAINT]]),
                }
                for _ in range(dice.randint(0, 3))
            ],
            virtual=dice.random() < 0.1,
        )
        for number in range(size)
    )
    for count in (made.assume, *([made.hold] if dice.random() < 0.5 else [])):
        for _ in range(dice.choice([0, 1, 6, 50])):
            count(f"c{dice.randrange(size)}", dice.choice(loads), dice.randint(1, 4))
    return made.snapshot()


def told(snapshot: Snapshot, load: Load) -> list[list[int]]:
    """Everything that is kept, as the fleet says it."""
    place = load.place or Place()
    asks = info("asks", replicas=2)
    asks = replace(asks, request=dict(load.request), place=place)
    scores = SCORING.score(CycleState(), asks, snapshot, PlacementIndex())
    fits = snapshot.fitting(dict(load.request), place)
    return [
        each.tolist() for each in (fits, snapshot.coming("cpu"), snapshot.coming("pods"), scores)
    ]


@examples(150)
@given(st.integers(0, 2**32))
def test_each_snapshot_of_a_course_says_what_it_says_alone(seed: int) -> None:
    dice = random.Random(seed)
    loads = [drawn(dice) for _ in range(dice.choice([1, 2, 5, 4 * MOST_PLACES]))]
    fleets = [fleet_of(dice, loads)]
    for _ in range(14):
        # mostly the last one goes on; at times one before it, as in another attempt
        before = fleets[-1] if dice.random() < 0.8 else dice.choice(fleets)
        taken = {f"c{dice.randrange(26)}": dice.randint(0, 5) for _ in range(dice.randint(0, 3))}
        fleets.append(before.assuming(dice.choice(loads), taken))
        for asked in (fleets[-1], dice.choice(fleets)):
            load = dice.choice(loads)
            assert told(asked, load) == told(replace(asked), load)


def test_nor_does_it_where_more_places_are_told_than_are_looked_at() -> None:
    """Which of them are hangs on how many loads are on their way, and how many are held."""

    def load(zone: str, cpu: int = 1000) -> Load:
        return Load.of({"cpu": cpu, "pods": 1}, Place((("zone", zone),)))

    room = {"count": 1, "free": {"cpu": "9", "pods": "99"}, "labels": {"zone": "a"}}
    made = builder(cluster(name, groups=[room]) for name in ("here", *"abcdefghijklmnop"))
    made.assume("here", load("b"), 5)
    for number in range(MOST_PLACES + 4):
        made.hold(f"{chr(97 + number % 16)}", load(f"held {number}"), 1)
    snapshot = made.snapshot()
    asks = load("a")
    assert told(snapshot, asks)[0][snapshot.row["here"]] == 4, (
        "it is not seen that they cannot lie there"
    )
    for number in range(2 * MOST_PLACES):
        snapshot = snapshot.assuming(load(f"coming {number}"), {"a": 1})
        assert told(snapshot, asks) == told(replace(snapshot), asks)
    assert told(snapshot, asks)[0][snapshot.row["here"]] == 9


@examples(25)
@given(st.integers(0, 2**32))
def test_a_gang_is_decided_as_if_nothing_were_kept(seed: int) -> None:
    """Verdict by verdict and share by share."""
    dice = random.Random(seed)
    rooms = (cluster(f"c{n:02}", groups=[{"count": 2, "free": free(dice)}]) for n in range(20))
    yard, size = Yard(*rooms), dice.randint(2, 9)
    yard.group(group(min_member=dice.randint(1, 2 * size)))
    for number in range(size):
        how = dice.choice([{}, {}, {"distribution": "Single"}])
        yard.store(member(f"w{number}", dice.randint(1, 3), cpu=dice.choice("1123"), **how))
    fast = [seen(each) for each in yard.batch("w0").decisions]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DerivedColumns, "column", lambda _self, _name, compute: compute(None))
        patch.setattr(DerivedColumns, "fixed", lambda _self, _name, compute: compute())
        assert [seen(each) for each in yard.batch("w0").decisions] == fast


def test_the_room_of_all_clusters_is_computed_once_for_members_that_are_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    computed: list[int] = []

    def counted(
        self: DerivedColumns, name: Hashable, compute: Callable[[Ints | None], Ints]
    ) -> Ints:
        def told(rows: Ints | None) -> Ints:
            computed.append(40 if rows is None else len(rows))
            return compute(rows)

        return column(self, name, told)

    column = DerivedColumns.column
    monkeypatch.setattr(DerivedColumns, "column", counted)
    yard = Yard(*(cluster(f"c{n:02}") for n in range(40)))
    yard.group(group(min_member=20))
    for number in range(20):
        yard.store(member(f"w{number:02}", 1, cpu="3"))
    assert sum(len(each.placements) for each in yard.batch("w00").decisions) == 20
    columns = {40: computed.count(40), 1: computed.count(1)}
    assert columns[40] <= 3, "what is free, for the estimate and for them, and the score"
    assert columns[1] + columns[40] == len(computed)


def seen(decision: Decision) -> tuple[Any, ...]:
    arrays = (decision.verdicts, decision.totals, decision.ranking, *decision.scores.values())
    words = (decision.reason, decision.state, decision.message, decision.refusals)
    return (decision.workload.key, decision.placements, words, [each.tolist() for each in arrays])
