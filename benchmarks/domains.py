"""The choice of domains under any eight constraints: the worst of a few hundred cases.

    uv run python -m benchmarks.domains

Eight keys with values at random on each of 1,000 (then 5,000) clusters, two to four beside a bound
on single clusters, levels that nest, bounds that cannot be met, rooms that are all equal: the cases
that the tests hold against the budget of steps. Milliseconds are CPU time of one choice; the steps
are the same on every machine. "cut" counts cases in which not every choice was tried, "none" those
of them for which no choice was found.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from controller.planner.domains import Effort, largest_capacity
from controller.planner.levels import STEPS
from tests.controller.planner.crossings import Asked, nasty

AIM_MILLISECONDS = 50
WORST = 5
SIZES = (1000, 5000)


def measured(cases: Iterator[Asked]) -> Iterator[tuple[float, int, str, bool, bool]]:
    """Yield milliseconds, steps, name, whether the choice was cut, whether none was found."""
    for asked in cases:
        effort, begun = Effort(), time.process_time_ns()
        used = largest_capacity(asked.levels, asked.held, asked.room, asked.need, effort)
        taken = (time.process_time_ns() - begun) / 1e6
        yield taken, STEPS - effort.left, asked.name, effort.short, used is None


def main() -> None:
    """Print the most expensive cases, and the number of cut ones."""
    for size in SIZES:
        # A warm-up: loading at the first use is not a cost of the choice.
        next(measured(nasty(size)))
        found = sorted(measured(nasty(size)), reverse=True)
        cut = [each for each in found if each[3]]
        none = sum(each[4] for each in cut)
        print(f"{size} clusters, {len(found)} cases: {len(cut)} cut, {none} of them none")
        middle = found[len(found) // 2]
        print(f"  half of them below {middle[0]:.1f} ms; the worst (aim {AIM_MILLISECONDS} ms):")
        for taken, steps, name, short, _ in found[:WORST]:
            print(f"  {taken:6.1f} ms {steps:9} steps{'  cut' if short else '     '}  {name}")


if __name__ == "__main__":
    main()
