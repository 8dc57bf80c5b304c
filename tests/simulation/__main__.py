"""`python -m tests.simulation SEED|FIRST-LAST... [--seconds N] [--most N] [--faults a,b] [-v]`.

Prints a line for each seed, and what happened in those that broke a promise. Exits with 1 if one
did. Strings hash the same each time, so a seed is the same run.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
import time

from .faults import KINDS
from .judge import Broken
from .run import Simulation


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.simulation")
    parser.add_argument("seeds", nargs="+")
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--most", type=int, default=8, help="Workloads at the same time")
    parser.add_argument("--faults", default=",".join(KINDS))
    parser.add_argument("-v", action="store_true", help="print what happened in all of them")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    broken = 0
    for text in given.seeds:
        first, _, last = text.partition("-")
        for seed in range(int(first), int(last or first) + 1):
            began, faults = time.monotonic(), given.faults.split(",")
            run = Simulation(seed, seconds=given.seconds, most=given.most, faults=faults)
            said = "held"
            try:
                asyncio.run(run.run())
            except Broken as e:
                broken += 1
                said = f"BROKEN: {e}"
            if said != "held" or given.v:
                print("\n".join(run.told))
            print(f"seed {seed}: {time.monotonic() - began:.1f} s, {said}", flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]])
    sys.exit(main())
