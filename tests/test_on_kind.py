"""Which end-to-end tests are skipped on kind: those alone that stop API servers by themselves."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
E2E = ROOT / "e2e"
_COLLECT = """
import json, sys, pytest

class Plugin:
    def pytest_collection_finish(self, session):
        for item in session.items:
            print("\\n" + json.dumps([item.nodeid, bool(item.get_closest_marker("skip"))]))

sys.exit(pytest.main(["e2e", "--provider=kind", "--collect-only", "-q"], plugins=[Plugin()]))
"""


@pytest.mark.proves("Z1")
@pytest.mark.long
def test_on_kind_only_tests_that_stop_api_servers_are_skipped():
    done = subprocess.run(
        [sys.executable, "-c", _COLLECT],
        cwd=ROOT, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("[")]
    found = dict(json.loads(line) for line in lines)
    skipped = {node.partition("::")[0] for node, skips in found.items() if skips}
    assert skipped == {"e2e/test_chaos.py", "e2e/test_movement.py"}
    assert "e2e/test_placeholders.py" in {node.partition("::")[0] for node in found}
    assert len(found) > 100


@pytest.mark.proves("Z1")
def test_no_end_to_end_test_skips_itself():
    for path in E2E.rglob("*.py"):
        text = path.read_text()
        assert "pytest.skip(" not in text, path
        assert "skipif" not in text, path
