"""The reasons of shares, and the last changes of placement, within bounds.

A changed share gets a step with the rules of its pass, so steps add up to the share. Replicas from
another writer become a step without rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, zip_longest

import msgspec

from machinery.types.api import (
    PlacementChange,
    PlacementMove,
    PlacementReasons,
    PlacementRule,
    PlacementStep,
    ReasonCount,
    UntoldMoves,
)
from machinery.types.bounds import MOST_UNITS

MOST_SHARES = 100
MOST_STEPS = 4
"""Steps of a share. The oldest of more are merged."""
MOST_RULES = 3
"""Rules of a step."""
MOST_COUNTS = 16
MOST_READ = 1000
"""Other shares whose rules one decision reads, because each takes time."""
MOST_STEP_BYTES = 10 * 1024
"""Bytes of the listed shares as JSON."""
MOST_COUNT_BYTES = 900
"""Bytes of the counts as JSON. With history and names the total stays below 16 KiB."""
UNTOLD = "Unrecorded"

Rules = Callable[[str], Sequence[PlacementRule]]
"""Returns the rules of a cluster's number, most significant first."""


@dataclass(frozen=True, slots=True)
class Occasion:
    time: str
    cause: str
    name: str = ""
    id: str = ""

    def step(self, replicas: int, rules: Sequence[PlacementRule]) -> PlacementStep:
        return PlacementStep(replicas, self.time, self.cause, self.name, list(rules[:MOST_RULES]))


@dataclass(frozen=True, slots=True)
class ShareDifference:
    """The shares before and after a decision. `ranking` are the clusters, best first."""

    before: Mapping[str, int]
    after: Mapping[str, int]
    ranking: Sequence[str] = ()

    def grown(self, cluster: str) -> int:
        return self.after.get(cluster, 0) - self.before.get(cluster, 0)

    def touched(self, cluster: str) -> bool:
        return cluster not in self.before or bool(self.grown(cluster))


def carried(
    kept: Iterable[PlacementReasons],
    counts: Sequence[ReasonCount],
    shares: ShareDifference,
    occasion: Occasion,
    rules: Rules,
) -> tuple[list[PlacementReasons], list[ReasonCount]]:
    """Return the steps of the listed shares, and the counts of the others."""
    known = {each.cluster: each.steps for each in kept}
    listed: list[PlacementReasons] = []
    size = 0
    for cluster in _worth_telling(shares):
        steps = _steps(known.get(cluster), cluster, shares, occasion, rules)
        size += len(msgspec.json.encode(steps)) + len(cluster) + 32
        if size > MOST_STEP_BYTES:
            break
        listed.append(PlacementReasons(cluster, steps))
    names = {each.cluster for each in listed}
    others = [cluster for cluster in shares.after if cluster not in names]
    listed.sort(key=lambda each: each.cluster)
    return listed, _counted(counts, others, shares, rules) if others else []


def _worth_telling(shares: ShareDifference) -> list[str]:
    """Return the largest first; of too many, the largest and the best ranked in turn."""
    largest = sorted(shares.after, key=lambda cluster: (-shares.after[cluster], cluster))
    if len(largest) <= MOST_SHARES:
        return largest
    best = (cluster for cluster in shares.ranking if cluster in shares.after)
    turns = chain.from_iterable(zip_longest(largest, best))
    return list(dict.fromkeys(each for each in turns if each is not None))[:MOST_SHARES]


def _steps(
    known: Sequence[PlacementStep] | None,
    cluster: str,
    shares: ShareDifference,
    occasion: Occasion,
    rules: Rules,
) -> list[PlacementStep]:
    steps = _as_they_stand(known or (), shares.before.get(cluster, 0))
    if shares.touched(cluster):
        steps.append(occasion.step(shares.grown(cluster), rules(cluster)))
    return _folded(steps)


def _as_they_stand(steps: Sequence[PlacementStep], replicas: int) -> list[PlacementStep]:
    # Impossible steps are dropped. Their sum could be a number that makes the hub refuse the write,
    # including the placements.
    sums = list(accumulate(step.units for step in steps))
    if any(not 0 <= each <= MOST_UNITS for each in sums):
        return [PlacementStep(replicas)] if replicas else []
    missing = replicas - sums[-1] if sums else replicas
    return [*steps, PlacementStep(missing)] if missing else list(steps)


def _folded(steps: list[PlacementStep]) -> list[PlacementStep]:
    while len(steps) > MOST_STEPS:
        at = next((n for n, step in enumerate(steps) if n and step.units < 0), 1)
        before, after = steps[at - 1], steps[at]
        replicas = before.units + after.units
        rules = before.because
        if after.units > 0:
            rules = [*rules, *after.because][:MOST_RULES]
        one = msgspec.structs.replace(before, units=replicas, because=rules)
        steps[at - 1 : at + 1] = [one] if replicas else []
    return steps


def _counted(
    counts: Sequence[ReasonCount], others: Sequence[str], shares: ShareDifference, rules: Rules
) -> list[ReasonCount]:
    clusters = Counter({each.rule: each.clusters for each in counts})
    replicas = Counter({each.rule: each.units for each in counts})
    changed = [cluster for cluster in others if shares.touched(cluster)]
    for at, cluster in enumerate(changed):
        rule = _first(rules(cluster)) if at < MOST_READ else UNTOLD
        clusters[rule] += cluster not in shares.before
        replicas[rule] += shares.grown(cluster)
    _fit(clusters, len(others))
    _fit(replicas, sum(shares.after[cluster] for cluster in others))
    ranked = sorted(
        (rule for rule in clusters.keys() | replicas.keys() if clusters[rule] or replicas[rule]),
        key=lambda rule: (-replicas[rule], -clusters[rule], rule),
    )
    return _fitting([ReasonCount(rule, clusters[rule], replicas[rule]) for rule in ranked])


def _fitting(counts: Sequence[ReasonCount]) -> list[ReasonCount]:
    # Another writer may have stored a rule as long as the schema allows.
    most = [msgspec.structs.replace(each, units=min(each.units, MOST_UNITS)) for each in counts]
    if len(most) <= MOST_COUNTS and sum(map(_room, most)) <= MOST_COUNT_BYTES:
        return most
    listed: list[ReasonCount] = []
    left = MOST_COUNT_BYTES - _room(ReasonCount(UNTOLD, MOST_UNITS, MOST_UNITS))
    for each in (count for count in most if count.rule != UNTOLD):
        left -= _room(each)
        if left < 0 or len(listed) == MOST_COUNTS - 1:
            break
        listed.append(each)
    names = {each.rule for each in listed}
    rest = [each for each in counts if each.rule not in names]
    clusters, replicas = sum(each.clusters for each in rest), sum(each.units for each in rest)
    return [*listed, ReasonCount(UNTOLD, clusters, min(replicas, MOST_UNITS))]


def _room(count: ReasonCount) -> int:
    return len(msgspec.json.encode(count)) + 1


def _fit(counts: Counter[str], total: int) -> None:
    for rule in counts:
        counts[rule] = max(counts[rule], 0)
    over = counts.total() - total
    greatest = sorted(counts, key=lambda rule: (-counts[rule], rule)) or [UNTOLD]
    counts[greatest[0]] += max(-over, 0)
    for rule in greatest:
        taken = min(max(over, 0), counts[rule])
        counts[rule] -= taken
        over -= taken


def _first(rules: Sequence[PlacementRule]) -> str:
    return rules[0].rule if rules else UNTOLD


MOST_CHANGES = 20
MOST_MOVES = 20
"""Shares that a change lists."""
FEW_MOVES = 3
"""Shares that an older change lists if space is short."""
MOST_BYTES = 5 * 1024
"""Bytes of the history as JSON."""


def lengthened(
    history: Sequence[PlacementChange],
    shares: ShareDifference,
    occasion: Occasion,
    rules: Rules,
    desired: int,
) -> list[PlacementChange]:
    moves, more = _moves(shares, rules)
    newest = PlacementChange(
        time=occasion.time,
        cause=occasion.cause,
        name=occasion.name,
        desired=min(desired, MOST_UNITS),
        assigned=min(sum(shares.after.values()), MOST_UNITS),
        moves=moves,
        more=more,
        id=occasion.id,
    )
    return _bounded([*history, newest][-MOST_CHANGES:])


def _moves(shares: ShareDifference, rules: Rules) -> tuple[list[PlacementMove], UntoldMoves | None]:
    before, after = shares.before, shares.after
    moved = [c for c in {**before, **after} if before.get(c, -1) != after.get(c, -1)]
    moved.sort(key=lambda cluster: (-abs(shares.grown(cluster)), cluster))
    listed, rest = moved[:MOST_MOVES], moved[MOST_MOVES:]
    moves = [
        PlacementMove(
            cluster,
            before.get(cluster),
            after.get(cluster),
            list(rules(cluster)[:MOST_RULES]) if cluster in after else [],
        )
        for cluster in listed
    ]
    return moves, _untold(None, [shares.grown(cluster) for cluster in rest])


def _untold(before: UntoldMoves | None, grown: Sequence[int]) -> UntoldMoves | None:
    if not grown:
        return before
    more = before or UntoldMoves(0)
    came = more.came + sum(replicas for replicas in grown if replicas > 0)
    went = more.went - sum(replicas for replicas in grown if replicas < 0)
    clusters = min(more.clusters + len(grown), MOST_UNITS)
    return UntoldMoves(clusters, min(came, MOST_UNITS), min(went, MOST_UNITS))


def _bounded(history: list[PlacementChange]) -> list[PlacementChange]:
    """Shorten the moves, oldest change first, then drop moves, then changes."""
    for most in (FEW_MOVES, 0):
        for at in range(len(history)):
            if _size(history) <= MOST_BYTES:
                return history
            history[at] = _shortened(history[at], most)
    while _size(history) > MOST_BYTES:
        history = history[1:]
    return history


def _shortened(change: PlacementChange, most: int) -> PlacementChange:
    listed, rest = change.moves[:most], change.moves[most:]
    bare = [msgspec.structs.replace(move, because=[]) for move in listed]
    grown = [(move.now or 0) - (move.before or 0) for move in rest]
    return msgspec.structs.replace(change, moves=bare, more=_untold(change.more, grown))


def _size(history: list[PlacementChange]) -> int:
    return len(msgspec.json.encode(history))
