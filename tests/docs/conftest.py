"""The documentation site, built once for the tests that read it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = (sys.executable, "-m", "mkdocs", "build", "--strict")
"""As `make docs` builds. With --quiet no warning would be counted, and --strict would refuse none."""
QUIET = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
SITE = pytest.mark.xdist_group("site")
"""The tests of one worker, so that the site is built once."""


def built(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Build the site whose mkdocs.yml is in that folder; its return code is not looked at."""
    return subprocess.run(
        [*BUILD, *options], cwd=folder, env=QUIET, capture_output=True, text=True, check=False
    )


def one_page(folder: Path, text: str, **settings: Any) -> None:
    """Write the sources of a site with that one page, which has the settings of ours."""
    (folder / "docs").mkdir(exist_ok=True)
    (folder / "docs" / "README.md").write_text(text)
    ours = {"INHERIT": str(ROOT / "mkdocs.yml"), "hooks": [str(ROOT / "website/hooks.py")]}
    own = {"extra_css": [], "nav": [{"Start": "README.md"}]}
    (folder / "mkdocs.yml").write_text(json.dumps({**ours, **own, **settings}))


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site, as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site") / "site"
    done = built(ROOT, "--site-dir", str(folder))
    assert done.returncode == 0, done.stdout + done.stderr
    return folder
