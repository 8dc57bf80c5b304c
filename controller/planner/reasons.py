"""Why a share has the size that it has: data with its numbers, a sentence for each on demand.

A `Reason` belongs to one cluster's number, an `Obstacle` to the replicas that have no cluster.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias


class RuleKind(Enum):
    """The rules that make a share; the value is the sentence without its numbers."""

    KEPT = "{number} stay where they are"
    WHOLE = "all {number} go to the best cluster"
    EVERYWHERE = "{number} on every matching cluster"
    PACKED = "{number} here, on as few clusters as hold them all"
    WEIGHT = "its weight's share is {number}"
    NO_WEIGHT = "its weight is 0"
    LOWER = "at its lower bound of {number}"
    GROUP_LOWER = "{name} has a lower bound of {number}, which goes before the weights"
    UPPER = "at its upper bound of {number}"
    ROOM = "it has room for {number}"
    LEARNT = "it was seen to run {number} and no more"
    DOMAIN = "domain {name} holds {number} of its {of}"
    DOMAIN_QUOTA = "domain {name} is at its quota of {number}"
    SUBSET_CAP = "subset {name} is at its cap of {number}"
    SUBSET = "{number} in subset {name}"
    EXCESS = "{number} beyond the cap of subset {name}"
    NO_SUBSET = "{number} in no subset"
    OVERFLOW = "{number} wait for room here, as subset {name} is filled whatever its room"
    WAITING = "{number} wait here for a node, as no other cluster takes them"
    SUBSET_CLOSED = "subset {name} takes no more while its replicas wait for a node"
    REMAINDER = "rounded up by {number}: its exact share is 0.{of:02} larger"
    TIE = "as high in line as {number} more, and first in the order"
    MIN_DOMAINS = "at least {number} domains of {name} are used"
    MAX_DOMAINS = "at most {number} domains of {name} are used"
    CONTRADICTION = "{name} contradict each other"

    @property
    def title(self) -> str:
        """Return the name as records hold it, such as DomainQuota."""
        return self.name.title().replace("_", "")


_WITH_SECOND = {
    RuleKind.WEIGHT: "its weight's share of {of} replicas is {number}",
    RuleKind.LOWER: "{number} of its lower bound of {of}",
}
"""Sentences with the second number, for reasons that have one."""
_OF_ONE = {
    RuleKind.KEPT: "1 stays where it is",
    RuleKind.WHOLE: "1 goes to the best cluster",
    RuleKind.OVERFLOW: "1 waits for room here, as subset {name} is filled whatever its room",
    RuleKind.WAITING: "1 waits here for a node, as no other cluster takes it",
    RuleKind.MIN_DOMAINS: "at least 1 domain of {name} is used",
    RuleKind.MAX_DOMAINS: "at most 1 domain of {name} is used",
}
"""Sentences where the number is 1."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One rule that made a share.

    Args:
        kind: the rule.
        number: in replicas; for TIE the other clusters that stood level.
        name: the domain, subset or policy that the rule belongs to, if any.
        of: a second number. WEIGHT: the replicas divided by weight among the clusters that nothing
            else stopped. LOWER: the whole bound, where only `number` of it could be served.
            REMAINDER: hundredths of a replica by which the exact share passes a whole number.
    """

    kind: RuleKind
    number: int
    name: str = ""
    of: int = 0

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind.title,
            "number": self.number,
            "of": self.of,
            "name": self.name,
            "text": str(self),
        }

    def to_rule(self) -> dict[str, Any]:
        """Return the reason as a Workload's status stores it; `worded` reads it again."""
        numbers = {"number": self.number, **({"of": self.of} if self.of else {})}
        return {"rule": self.kind.title, "numbers": numbers, "name": self.name}

    def __str__(self) -> str:
        text = _WITH_SECOND.get(self.kind, self.kind.value) if self.of else self.kind.value
        if self.number == 1:
            text = _OF_ONE.get(self.kind, text)
        if self.of == 1:
            text = text.replace("{of} replicas", "1 replica")
        return text.format(number=self.number, name=self.name, of=self.of)


_NAMED = {
    RuleKind.LOWER: "minReplicas {number} of cluster {name}",
    RuleKind.UPPER: "maxReplicas {number} of cluster {name}",
    RuleKind.LEARNT: "the limit {number} of cluster {name}",
    RuleKind.DOMAIN_QUOTA: "quota {number} of {name}",
    RuleKind.SUBSET_CAP: "cap {number} of {name}",
    RuleKind.MIN_DOMAINS: "minDomains {number} of {name}",
    RuleKind.MAX_DOMAINS: "maxDomains {number} of {name}",
}
"""The names of bounds in a contradiction."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two bounds that cannot both be kept: `one` was given up, or keeps replicas out with `other`.

    `row` is the cluster whose share is meant; -1 where all are.
    """

    one: Reason
    other: Reason
    row: int = -1

    @property
    def reason(self) -> Reason:
        """Return the pair as a rule of a share, with the number of the bound that was kept."""
        return Reason(
            RuleKind.CONTRADICTION,
            self.other.number,
            f"{_named(self.one)} and {_named(self.other)}",
        )

    def __str__(self) -> str:
        """Return `minReplicas 4 of cluster a and quota 2 of zone-1 contradict each other`."""
        return str(self.reason)


def _named(reason: Reason) -> str:
    return _NAMED[reason.kind].format(number=reason.number, name=reason.name)


_BY_TITLE = {kind.title: kind for kind in RuleKind}


def worded(rule: str, numbers: Mapping[str, int], name: str = "") -> str:
    """Return a stored rule as text; one unknown to this release by its name and numbers."""
    kind, number = _BY_TITLE.get(rule), numbers.get("number", 0)
    if kind is not None:
        return str(Reason(kind, number, name, numbers.get("of", 0)))
    told = ", ".join(f"{key} {value}" for key, value in numbers.items())
    return " ".join(filter(None, (rule, name, f"({told})" if told else "")))


def title_in_words(rule: str) -> str:
    """Return the title of a rule as text: `domain quota`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", rule).lower()


_STOPS = {
    RuleKind.ROOM: "clusters that could take more have room for {number} in all",
    RuleKind.UPPER: "clusters that could take more are at their upper bounds, {number} in all",
    RuleKind.LEARNT: "clusters that could take more were seen to run {number} in all and no more",
    RuleKind.NO_WEIGHT: "{number} clusters have weight 0",
}
_STOP_OF_ONE = {
    RuleKind.NO_WEIGHT: "1 cluster has weight 0",
    RuleKind.MIN_DOMAINS: _OF_ONE[RuleKind.MIN_DOMAINS],
    RuleKind.MAX_DOMAINS: _OF_ONE[RuleKind.MAX_DOMAINS],
}


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One bound that keeps pending replicas out, and how many would be placed without it alone.

    `reason` carries the bound: for ROOM, UPPER and LEARNT the sum over the clusters that stand at
    it, for NO_WEIGHT the count of those that could take some, for a group its upper bound and name.
    A `gain` of 0 means that another bound stops these replicas as well.
    """

    reason: Reason
    gain: int

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.reason.kind.title,
            "number": self.reason.number,
            "name": self.reason.name,
            "gain": self.gain,
            "text": str(self),
        }

    def __str__(self) -> str:
        if self.reason.kind is RuleKind.CONTRADICTION:
            return str(self.reason)
        kind = self.reason.kind
        text = _STOPS.get(kind, kind.value)
        if self.reason.number == 1:
            text = _STOP_OF_ONE.get(kind, text)
        told = text.format(number=self.reason.number, name=self.reason.name)
        if not self.gain:
            return f"{told}; to lift this alone would not help"
        return f"{told}; without that, {self.gain} more could be placed"


Reasons: TypeAlias = Callable[[int], tuple[Reason, ...]]
"""Returns the reasons of a row's number; empty for a row that holds nothing."""


def no_reasons(_row: int) -> tuple[Reason, ...]:
    return ()


Binding: TypeAlias = Callable[[], tuple[Obstacle, ...]]
"""Returns the bounds that keep pending replicas out."""


def nothing_binds() -> tuple[Obstacle, ...]:
    return ()


AssignmentOrder: TypeAlias = Callable[[], list[str]]
"""Returns the domains that took replicas, one after the other; the first `TURNS` alone."""


def no_order() -> list[str]:
    return []
