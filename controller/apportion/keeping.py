"""Of the choices of domains that have room enough, the one that keeps the best domains.

Domains are numbered the best first. The best is kept if any choice with it has what is needed, then
the next one, and so on: only as many of the best give way to roomier ones as must. Where nothing
has what is needed, the most room counts and nothing else.

Two levels keep outer domains first, then, within those, a run of inner ones from the best on; the
places that are left go to the roomiest. After `LOOKS` domains that were tried one by one the rest
is not tried, but taken by room.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from controller.apportion.divisor import Ints, Mask
from controller.apportion.prices import Bids, bids_of, priced
from controller.apportion.tables import Leaves, first_of_each

LOOKS = 32
"""How many domains are tried one by one."""


def one_level(most: int, leaves: Leaves, need: int) -> Ints:
    """So many domains, what is held among them."""
    line = leaves.line()
    if int(leaves.room[line[:most]].sum()) < need:
        return line[:most]
    held = np.flatnonzero(leaves.held)
    kept, places, need = held, most - len(held), need - int(leaves.room[held].sum())
    line = line[len(held) :]
    open_ = ~leaves.held
    for _ in range(min(places, LOOKS)):
        others = int(leaves.room[line[: places - 1]].sum())
        fitting = np.flatnonzero(open_ & (leaves.room >= need - others))
        if not len(fitting):
            break
        best = fitting[:1]
        kept = np.concatenate((kept, best))
        open_[: best[0] + 1] = False
        line = line[line != best[0]]
        places, need = places - 1, need - int(leaves.room[best[0]])
    return np.concatenate((kept, line[:places]))


def two_levels(
    least: tuple[int, int], most: tuple[int, int], leaves: Leaves, need: int
) -> Ints | None:
    """The inner domains to use; None where no choice keeps to the bounds."""
    bids = bids_of(least, most, leaves)
    chosen = priced(bids, leaves)
    if chosen is None or int(leaves.room[chosen].sum()) < need:
        return chosen
    kept, chosen = _outer(bids, leaves, chosen, need)
    return _inner(most[1], leaves, kept, need, chosen)


def _outer(bids: Bids, leaves: Leaves, chosen: Ints, need: int) -> tuple[Mask, Ints]:
    """The outer domains to keep, and a choice with all of them that has what is needed."""
    kept, (parent,) = bids.held, leaves.parents
    for best in np.flatnonzero(~kept)[:LOOKS].tolist():
        if int(np.count_nonzero(kept)) == bids.most[0]:
            break
        more = kept.copy()
        more[best] = True
        if not (parent[chosen] == best).any():
            found = priced(replace(bids, held=more), leaves)
            if found is None or int(leaves.room[found].sum()) < need:
                continue
            chosen = found
        kept = more
    used = np.zeros_like(kept)
    used[parent[chosen]] = True
    return used, chosen


def _inner(most: int, leaves: Leaves, kept: Mask, need: int, chosen: Ints) -> Ints:
    """The longest run of the best inner domains that can be kept, and the roomiest beside it."""
    (parent,) = leaves.parents
    inside = np.flatnonzero(kept[parent])
    inside = inside[np.lexsort((inside, ~_leading(parent[inside]), ~leaves.held[inside]))]
    roomy = inside[np.argsort(-leaves.room[inside], kind="stable")]
    low, high = int(np.count_nonzero(leaves.held[inside])), min(most, len(inside)) + 1
    while high - low > 1:
        run = (low + high) // 2
        found = _filled(most, parent, inside[:run], roomy)
        if len(found) <= most and int(leaves.room[found].sum()) >= need:
            low, chosen = run, found
        else:
            high = run
    return chosen


def _leading(parent: Ints) -> Mask:
    """The first one of each parent."""
    mask = np.zeros(len(parent), dtype=np.bool_)
    mask[first_of_each(parent)] = True
    return mask


def _filled(most: int, parent: Ints, run: Ints, roomy: Ints) -> Ints:
    """The run, the roomiest one of each outer domain that is not in it, and the roomiest others."""
    taken = np.zeros(len(parent), dtype=np.bool_)
    taken[run] = True
    covered = np.zeros(int(parent.max()) + 1, dtype=np.bool_)
    covered[parent[run]] = True
    others = roomy[~taken[roomy]]
    lead = _leading(parent[others]) & ~covered[parent[others]]
    return np.concatenate((run, others[lead], others[~lead]))[
        : max(most, len(run) + int(lead.sum()))
    ]
