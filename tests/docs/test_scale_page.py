"""docs/scale.md shows what the benchmark of many members wrote, and nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from benchmarks import scale
from machinery import loopwatch, metrics

RUNS = json.loads(scale.DATA.read_text())
PAGE = (Path(__file__).parents[2] / "docs/scale.md").read_text()
FIGURES = PAGE.partition("## Figures\n")[2].partition("\n## ")[0]


@pytest.mark.proves("SC32")
def test_the_page_has_each_run_with_machine_commit_and_command() -> None:
    assert RUNS
    assert scale.table(RUNS).strip() in FIGURES
    assert len(re.findall(r"(?m)^`python -m benchmarks\.", FIGURES)) == len(RUNS)
    for run in RUNS:
        head = f"`{run['command']}` at {run['commit']}, on {run['machine']}, load {run['load']}:"
        assert head in FIGURES
        sizes = dict(re.findall(r"--(\w+) (\d+)", run["command"]))
        assert sizes == {n: str(run[n]) for n in ("members", "workloads", "shards")}
        assert not run["commit"].endswith("+"), "files differed from the commit"


@pytest.mark.proves("SC32")
def test_a_slope_is_that_of_the_second_half() -> None:
    """What each process needs anyway, and what its first members bring, is in neither."""
    kib, mib = 1024, 1 << 20
    bare = {"a": 90 * mib, "b": 70 * mib}
    half = {"a": 90 * mib + 300 * kib, "b": 71 * mib}
    full = {"a": 90 * mib + 1300 * kib, "b": 73 * mib}
    samples = [
        {"members": 10, "shares": 0, "resident": bare},
        {"members": 20, "shares": 0, "resident": half},
        {"members": 20, "shares": 50, "resident": half},
        {"members": 20, "shares": 100, "resident": full},
    ]
    run = {"samples": samples, "shards": 1}
    assert scale.slope(run, "members") == (300 + 1024) / 10
    assert scale.slope(run, "shares") == (1000 + 2048) / 50
    assert scale.largest(run) == pytest.approx(90 + 1300 / 1024)


@pytest.mark.proves("SC28")
def test_each_step_above_the_limit_is_counted() -> None:
    """By the metrics as a process gives them."""
    before = scale.long_steps(metrics.exposition().decode())
    for seconds in (0.01, 0.2, 0.3, 7.0):
        loopwatch.STEPS.observe(seconds)
    assert scale.long_steps(metrics.exposition().decode()) == before + 2
