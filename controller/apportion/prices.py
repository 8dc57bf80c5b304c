"""Two nested levels of domains: the roomiest choice by a price on each inner domain (Lagrange).

With a price, outer domains no longer compete for the number of inner ones: each takes its inner
domains that are worth more than the price, and the outer ones of the greatest value are taken. The
value of that, and the price times the inner ones allowed, is more than any choice has; the choice
that the price suggests, filled up or cut down to the number allowed, is one of them. Where the two
differ, most outer domains cannot be part of a better choice, or of none without them. What is left
open goes through a table (`controller.apportion.tables`).

So the answer is exact, as long as the table for what is left has at most `TABLE` entries. Beyond
that it is the best of those that prices suggest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from controller.apportion.divisor import Ints, Mask
from controller.apportion.tables import TABLE, Leaves, Row, joined, work

_NONE = -1
_TRIED = 3
"""Offers that are filled up, if one of them can be: those at the prices next to the best one."""


@dataclass(frozen=True)
class Bids:
    """The inner domains sorted by outer domain, what is held first, then the roomiest.

    Args:
        least, most: bounds on the outer and on the inner domains.
        leaf: each inner domain's number; of each outer one no more than can be used.
        room: what it has.
        must: held, or the first of its outer domain: used wherever that is.
        outer: the outer domain, from 0 on without gaps.
        held: shape (outer domains,), those that are used in any case.
    """

    least: tuple[int, int]
    most: tuple[int, int]
    leaf: Ints
    room: Ints
    must: Mask
    outer: Ints
    held: Mask

    @cached_property
    def starts(self) -> Ints:
        """Where each outer domain begins."""
        return np.searchsorted(self.outer, np.arange(len(self.held)))

    @cached_property
    def line(self) -> Ints:
        """All of them: what must be, then the roomiest."""
        return np.lexsort((-self.room, ~self.must))


@dataclass(frozen=True, slots=True)
class Offer:
    """What one price suggests: the outer domains, each one's value, and the bound that it gives."""

    taken: Mask
    value: Ints
    inner: int
    bound: int


def bids_of(least: tuple[int, int], most: tuple[int, int], leaves: Leaves) -> Bids:
    """The bids of the inner domains; they may be used more than once, with more that is held."""
    (outer,) = leaves.parents
    top = int(leaves.room.max()) + 1
    line = np.argsort((2 * outer + ~leaves.held) * top - leaves.room, kind="stable")
    outer = outer[line]
    starts = np.searchsorted(outer, outer)
    place = np.arange(len(line)) - starts
    few = place < most[1]
    held = np.bincount(outer, weights=leaves.held[line]) > 0
    must = leaves.held[line] | (place == 0)
    return Bids(least, most, line[few], leaves.room[line[few]], must[few], outer[few], held)


def priced(bids: Bids, leaves: Leaves) -> Ints | None:
    """The inner domains to use, or None where no choice keeps to the bounds."""
    offers = sorted(_search(bids), key=lambda offer: offer.bound)
    best, room = None, _NONE
    for number, offer in enumerate(offers):
        if number >= _TRIED and best is not None:
            break
        found = _filled(bids, offer.taken)
        if found is not None and int(bids.room[found].sum()) > room:
            best, room = bids.leaf[found], int(bids.room[found].sum())
    if room == offers[0].bound:
        return best
    better = _remaining(bids, leaves, offers[0], room)
    if better is not None and int(leaves.room[better].sum()) > room:
        return better
    return best


def _search(bids: Bids) -> list[Offer]:
    """Offers at falling and rising prices until they close in on the number of inner domains."""
    low, high = 0, int(bids.room.max()) + 1
    offers = [_offer(bids, high), _offer(bids, low)]
    if offers[-1].inner < bids.least[1]:
        low, high = -int(bids.room.sum()) - 1, 0
    while high - low > 1:
        price = (low + high) // 2
        offer = _offer(bids, price)
        offers.append(offer)
        wanted = bids.most[1] if price >= 0 else bids.least[1]
        if offer.inner == wanted:
            break
        low, high = (price, high) if offer.inner > wanted else (low, price)
    return offers


def _offer(bids: Bids, price: int) -> Offer:
    gain = bids.room - price
    used = bids.must | (gain > 0)
    value = np.add.reduceat(np.where(used, gain, 0), bids.starts)
    line = np.lexsort((-value, ~bids.held))
    held, worth = int(bids.held.sum()), int(np.count_nonzero((value > 0) & ~bids.held))
    number = min(max(held + worth, bids.least[0]), bids.most[0])
    taken = np.zeros(len(value), dtype=np.bool_)
    taken[line[:number]] = True
    bound = int(value[taken].sum()) + price * (bids.most[1] if price >= 0 else bids.least[1])
    return Offer(taken, value, int(np.count_nonzero(used & taken[bids.outer])), bound)


def _filled(bids: Bids, taken: Mask) -> Ints | None:
    """The best inner domains of these outer ones; None where that does not keep to the bounds."""
    found = bids.line[taken[bids.outer[bids.line]]]
    must = int(np.count_nonzero(bids.must[found]))
    if must > bids.most[1] or len(found) < bids.least[1]:
        return None
    return found[: bids.most[1]]


def _remaining(bids: Bids, leaves: Leaves, offer: Offer, room: int) -> Ints | None:
    """The best choice with more than this room, over the outer domains that are open still."""
    sure, never = _settled(bids, offer, offer.bound - room)
    inside = bids.line[sure[bids.outer[bids.line]]][: bids.most[1]]
    base = Row.of(leaves, bids.leaf[inside], int(np.count_nonzero(bids.must & sure[bids.outer])))
    rows = bids.leaf[~(sure | never)[bids.outer]]
    taken = int(np.count_nonzero(sure))
    most = (bids.most[0] - taken, bids.most[1])
    if work(most, len(rows)) > TABLE:
        return None
    table = joined(most, leaves, rows, base)
    return table.best((max(bids.least[0] - taken, 0), bids.least[1]))


def _settled(bids: Bids, offer: Offer, gap: int) -> tuple[Mask, Mask]:
    """The outer domains without which, and those with which, a choice falls short by the gap.

    Leaving out one that was taken costs its value, less that of the best one that can come in for
    it; the other way round it is the same.
    """
    number = int(np.count_nonzero(offer.taken))
    mine, others = offer.value[offer.taken & ~bids.held], offer.value[~offer.taken]
    instead = int(others.max()) if len(others) else None
    for_it = int(mine.min()) if len(mine) else None
    if number > bids.least[0]:
        instead = max(instead or 0, 0)
    if number < bids.most[0]:
        for_it = min(for_it or 0, 0)
    never_out = instead is None or offer.value - instead >= gap
    never_in = for_it is None or for_it - offer.value >= gap
    return bids.held | (offer.taken & never_out), ~offer.taken & never_in
