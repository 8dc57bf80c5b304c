"""The documentation site, built once for the tests that read it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = (sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet")
QUIET = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
SITE = pytest.mark.xdist_group("site")
"""The tests of one worker, so that the site is built once."""


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site, as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site") / "site"
    built = subprocess.run(
        [*BUILD, "--site-dir", str(folder)],
        cwd=ROOT,
        env=QUIET,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder
