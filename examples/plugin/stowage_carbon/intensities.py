"""How much carbon a kilowatt hour costs on each cluster, as a column of the fleet.

A number that stands on the MemberCluster as a label counts; without one the table of the arguments
does. So a decision reads the fleet alone, and `stowage explain`, which knows the hub's objects and
no more, says the same as the controller.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from controller.model.objects import MemberCluster
from controller.snapshot.columns import Column, Ints
from controller.snapshot.snapshot import Snapshot
from stowage_carbon.arguments import MOST_GRAMS, CarbonArgs

GRAMS_LABEL = "carbon.example.com/grams-per-kwh"
"""On a MemberCluster. Our own controller writes it, or any other one."""
UNKNOWN = -1
_DIGITS = re.compile(r"[0-9]{1,5}")


class Intensity(NamedTuple):
    """The grams of one cluster, or UNKNOWN, and where the number comes from."""

    region: str
    grams: int
    source: str


def number(text: str | None) -> int:
    """A label's value as grams; UNKNOWN for a value that is no such number."""
    if text is None or not (
        text.isascii() and text.isdigit() and len(text) <= len(str(MOST_GRAMS))
    ):
        return UNKNOWN
    grams = int(text)
    return grams if grams <= MOST_GRAMS else UNKNOWN


def column(snapshot: Snapshot, args: CarbonArgs) -> Ints:
    """The grams of each cluster or UNKNOWN, shape (n,).

    A label is a code for each row and a list of words: each distinct word is read once, however
    many clusters there are.
    """
    told = _each_word(snapshot.column(GRAMS_LABEL), number)
    table = _each_word(
        snapshot.column(args.region_label), lambda word: args.regions.get(word or "", UNKNOWN)
    )
    return np.where(told != UNKNOWN, told, table)


def of(cluster: MemberCluster, args: CarbonArgs) -> Intensity:
    """The same of one cluster, for people."""
    region = cluster.labels.get(args.region_label, "")
    told = number(cluster.labels.get(GRAMS_LABEL))
    if told != UNKNOWN:
        return Intensity(region, told, "label")
    table = args.regions.get(region, UNKNOWN)
    return Intensity(region, table, "" if table == UNKNOWN else "args")


def _each_word(column: Column, value: Callable[[str | None], int]) -> Ints:
    words = column.vocabulary.values
    table = np.fromiter(map(value, words), dtype=np.int64, count=len(words))
    grams: Ints = table[column.codes]
    return grams
