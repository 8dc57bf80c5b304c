"""A thousand members on four shards, as `benchmarks.scale` measures them. By hand and nightly."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import scale

SERVE_SECONDS = 300
MOST_MIB = 400


@pytest.mark.perf
@pytest.mark.proves("SC28")
def test_four_shards_serve_a_thousand_members(tmp_path: Path) -> None:
    file = tmp_path / "runs.json"
    sizes = ["--members=1000", "--workloads=10", "--shards=4"]
    command = [sys.executable, "-m", "benchmarks.scale", *sizes, f"--json={file}"]
    subprocess.run(command, check=True, cwd=Path(__file__).parents[2])
    (run,) = json.loads(file.read_text())
    assert run["serveSeconds"] <= SERVE_SECONDS
    assert run["longSteps"] == 0
    assert scale.largest(run) <= MOST_MIB
