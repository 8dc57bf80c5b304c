"""Commands begin at once: which packages each of them loads before it has told something."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

READING = {"click", "msgspec", "typing_extensions", "yaml"}
"""What a command that reads a hub loads of other packages. Any other may take from 40 ms to a second
to import, as asyncio does, which is the one part of the standard library that is so slow."""
PROBE = """
import sys
from stowage import cli
def stop(*_, **__):
    raise KeyboardInterrupt  # as soon as a request would leave, or the slow part would begin
import http.client
http.client.HTTPConnection.request = stop
try:
    cli.cli({args!r}, standalone_mode=False)
except BaseException as e:
    if not isinstance(e, KeyboardInterrupt) and type(e).__name__ not in ("Abort", "Exit"):
        raise
files = {{name: getattr(each, "__file__", None) or "" for name, each in sys.modules.items()}}
others = {{name.partition(".")[0] for name, file in files.items() if "site-packages" in file}}
print(*others, *{{"asyncio"}} & files.keys(), file=sys.stderr)
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
    "args",
    [
        "--help",
        "status",
        "explain wl/demo",
        pytest.param("history wl/demo", marks=pytest.mark.long),
        pytest.param("drift", marks=pytest.mark.long),
    ],
)
def test_a_command_loads_only_what_it_needs(args: str, kubeconfig: Path) -> None:
    hub = [] if args == "--help" else ["--kubeconfig", str(kubeconfig)]
    code = PROBE.format(args=[*args.split(), *hub])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.strip().splitlines()[-1].split())
    assert "click" in loaded
    assert loaded <= ({"click"} if args == "--help" else READING)


@pytest.mark.long
@pytest.mark.proves("U2", "L7")
def test_the_library_of_graphs_is_loaded_for_sets_alone_and_before_a_controller_decides() -> None:
    code = """
import sys
import stowage.simulation.explain, stowage.simulation.rehearsal
assert not {"aiohttp", "networkx"} & sys.modules.keys()
import controller.scheduler
assert "networkx" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
