"""The last changes of a Workload's placement with their causes, newest last.

If space is short, older changes lose moved shares, down to counts.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from controller.explain.steps import MOST_RULES, Occasion, Rules, ShareDifference
from machinery.types.api import PlacementChange, PlacementMove, UntoldMoves
from machinery.types.bounds import MOST_UNITS

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
