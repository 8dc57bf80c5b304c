"""A process that a test starts finds compiled what another one compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import bytecode


def test_what_is_compiled_is_kept_and_not_beside_the_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    made = {"PYTHONDONTWRITEBYTECODE": "1", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    bytecode.keep(made)
    source = tmp_path / "source" / "compiled_here.py"
    source.parent.mkdir()
    source.write_text("said = 'hello'\n")
    subprocess.run(
        [sys.executable, "-c", "import compiled_here"],
        env={**os.environ, **made, "PYTHONPATH": str(source.parent)},
        check=True,
    )
    assert list(source.parent.iterdir()) == [source]
    assert list((tmp_path / "cache" / "stowage" / "bytecode").rglob("compiled_here.*.pyc"))
    assert sys.pycache_prefix == made["PYTHONPYCACHEPREFIX"]


def test_where_bytecode_is_written_all_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "pycache_prefix", "somewhere")
    made: dict[str, str] = {}
    bytecode.keep(made)
    assert (made, sys.pycache_prefix) == ({}, "somewhere")
