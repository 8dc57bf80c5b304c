"""The page of conditions, their reasons, and Events: the enums of `crds/`, and who writes them.

What helps is the advice of `stowage status`, so no page repeats it.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path

import crds
from stowage.report import advice
from website.markdown import attribute_docs, code, page, sentence, table

ROOT = Path(__file__).resolve().parent.parent
_WRITERS = ("controller", "propagator")
_EVENTS = "EventReason"
HELPS: Mapping[str, Mapping[str, str]] = {
    "ScheduledReason": advice.SCHEDULED,
    "GroupScheduledReason": advice.GROUPS,
    "MovingReason": advice.MOVING,
    "RolledOutReason": advice.ROLLED_OUT,
    "PropagatedReason": advice.PROPAGATED,
    "ReadyReason": advice.CLUSTERS,
    "SweepHeldReason": advice.SWEEPS,
    "EvacuatingReason": advice.EVACUATING,
    "ReservationReadyReason": advice.RESERVATIONS,
    "SpreadReadyReason": advice.SPREADS,
}
"""The advice by reason, by the name of the enum."""


def reasons() -> str:
    """Return the page."""
    found = list(enums())
    conditions = [each for each in found if each.__name__.endswith("Condition")]
    events = [each for each in found if each.__name__.endswith(_EVENTS)]
    causes = [each for each in found if each.__name__.endswith("Cause")]
    others = [each for each in found if each.__name__.endswith("Reason") and each not in events]
    return page(
        "Conditions and Events",
        "The types of conditions, the reasons that they have, and the Events, from the enums of"
        " `crds/`. A message says the details; programs read the reason. `stowage status` says what"
        " helps, too.",
        [
            "## Conditions",
            *(_section(each, "type") for each in conditions),
            "## Reasons",
            *(_section(each, "reason") for each in others),
            "## Causes in the history of a Workload",
            *(_section(each, "cause") for each in causes),
            "## Events",
            *(_section(each, "reason", writers=True) for each in events),
        ],
    )


def enums() -> Iterator[type[StrEnum]]:
    """Yield each enum of a condition's types or reasons, of causes, or of reasons of Events."""
    for found in pkgutil.walk_packages(crds.__path__, "crds."):
        module = importlib.import_module(found.name)
        for value in vars(module).values():
            ours = isinstance(value, type) and issubclass(value, StrEnum)
            if (
                ours
                and value.__module__ == found.name
                and value.__name__.endswith(("Reason", "Condition", "Cause"))
            ):
                yield value


def _section(of: type[StrEnum], column: str, *, writers: bool = False) -> str:
    words, helps = attribute_docs(of), HELPS.get(of.__name__)
    columns = [column, *(["by"] if writers else []), "tells", *(["what helps"] if helps else [])]
    rows = []
    for each in of:
        by = [", ".join(p for p in _WRITERS if f"{of.__name__}.{each.name}" in _named(p))]
        help_ = [] if helps is None else [helps.get(each.value, "")]
        rows.append([code(each.value), *(by if writers else []), words.get(each.name, ""), *help_])
    return f"### {of.__name__}\n\n{sentence(of.__doc__)}\n\n{table(columns, rows)}"


@cache
def _named(package: str) -> frozenset[str]:
    """Return the reasons of Events that a package's modules name, such as `EventReason.MOVED`."""
    texts = (path.read_text(encoding="utf-8") for path in (ROOT / package).rglob("*.py"))
    return frozenset(found for text in texts for found in re.findall(r"\w*EventReason\.\w+", text))
