"""Commands begin at once: which modules each of them loads before it has told something."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

HEAVY = (
    "aiohttp",
    "asyncio",
    "cryptography",
    "kubernetes",
    "networkx",
    "numpy",
    "prometheus_client",
    "pydantic",
    "rich",
    "tenacity",
)
"""Each takes from 40 ms to a second to import."""

PROBE = """
import sys
from stowage import cli
from stowage.planning import words
def stop(*_, **__):
    raise KeyboardInterrupt  # as soon as a request would leave, or the slow part would begin
import http.client
http.client.HTTPConnection.request = stop
try:
    cli.cli({args!r}, standalone_mode=False)
except BaseException as e:
    if not isinstance(e, KeyboardInterrupt) and type(e).__name__ not in ("Abort", "Exit"):
        raise
print(sorted(m for m in {heavy!r} if m in sys.modules), len(sys.modules), file=sys.stderr)
"""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    file = tmp_path / "hub.kubeconfig"
    document = {
        "current-context": "hub",
        "clusters": [{"name": "hub", "cluster": {"server": "https://127.0.0.1:9"}}],
        "users": [{"name": "hub", "user": {"token": "secret"}}],
        "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "hub"}}],
    }
    file.write_text(yaml.safe_dump(document))
    return file


@pytest.mark.proves("U2")
@pytest.mark.parametrize(
    ("args", "modules"),
    [
        (["--help"], 220),
        (["status"], 350),
        (["history", "wl/demo"], 350),
        (["drift"], 350),
        (["explain", "wl/demo"], 350),
    ],
    ids=lambda args: args[0] if isinstance(args, list) else None,
)
def test_a_command_begins_at_once(args: list[str], modules: int, kubeconfig: Path) -> None:
    given = args if args == ["--help"] else [*args, "--kubeconfig", str(kubeconfig)]
    code = PROBE.format(args=given, heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded, _, number = done.stderr.strip().splitlines()[-1].rpartition(" ")
    assert loaded == "[]"
    assert int(number) < modules


@pytest.mark.proves("U2", "L7")
def test_the_library_of_graphs_is_loaded_for_sets_alone_and_before_a_controller_decides() -> None:
    code = """
import sys
import stowage.planning.explain, stowage.planning.simulator
assert not {"aiohttp", "networkx"} & sys.modules.keys()
import controller.scheduler
assert "networkx" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
