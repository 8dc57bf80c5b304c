"""All tests in two lanes beside each other, for a machine with cores to spare: `make test LANES=2`.

Most of the time goes by waiting for API servers, so that two lanes take little more than half of
it. Each is a run of pytest of its own, with control planes of its own; what it says is printed
when it has ended. Arguments go to both.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence

LANES: tuple[tuple[str, ...], ...] = (
    ("tests", "--ignore=tests/stowage"),
    ("e2e", "tests/stowage"),
)
"""Together everything that pytest collects by itself, each test once."""
NONE_COLLECTED = 5


def run(lanes: Sequence[Sequence[str]], options: Sequence[str]) -> int:
    """Run each lane. The worst exit code of all, 0 where all is well.

    SIGTERM is for them: they stop what they have started.
    """
    begun = []
    for lane in lanes:
        said = tempfile.TemporaryFile()  # noqa: SIM115 - closed below, when it has been read
        command = [sys.executable, "-m", "pytest", *lane, *options]
        begun.append((lane, said, subprocess.Popen(command, stdout=said, stderr=said)))
    before = signal.signal(signal.SIGTERM, lambda *_: [p.terminate() for _, _, p in begun])
    worst = 0
    for lane, said, process in begun:
        code = process.wait()
        worst = max(worst, 0 if code == NONE_COLLECTED else abs(code))
        said.seek(0)
        print(f"== pytest {' '.join(lane)}", said.read().decode(errors="replace"), sep="\n")
        said.close()
    signal.signal(signal.SIGTERM, before)
    return worst


if __name__ == "__main__":
    sys.exit(run(LANES, sys.argv[1:]))
