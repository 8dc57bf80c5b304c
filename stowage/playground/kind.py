"""The kind provider: clusters in containers, where a Docker engine answers.

Registration uses each cluster's internal address where the hub's pods have to reach it, and the
external one for people on this machine.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from machinery.errors import StowageError
from stowage.playground import binaries
from stowage.progress import Progress

PREFIX = "stowage"
NODE_IMAGE = "kindest/node"
_ENGINE_SECONDS = 10


def unusable() -> str:
    """Why kind cannot be used here; empty when it can."""
    docker = shutil.which("docker")
    if docker is None:
        return "there is no docker command"
    if not _answers([docker, "version", "--format", "{{.Server.Version}}"]):
        return "no Docker engine answers"
    have = subprocess.run(  # noqa: S603 - docker as found on the PATH
        [docker, "images", "--quiet", NODE_IMAGE], capture_output=True, text=True, check=False
    ).stdout
    if have.strip() or _answers([docker, "pull", "--quiet", f"{NODE_IMAGE}:latest"], seconds=120):
        return ""
    return f"the image {NODE_IMAGE} cannot be had"


def up(directory: Path, names: Sequence[str], *, progress: Progress) -> None:
    """Create the clusters that are missing, and write their kubeconfigs."""
    there = set(_kind("get", "clusters").split())
    for number, name in enumerate(names):
        progress.step("Clusters ready", number, len(names))
        if f"{PREFIX}-{name}" not in there:
            _kind("create", "cluster", "--name", f"{PREFIX}-{name}", "--wait", "120s")
        path = directory / f"{name}.kubeconfig"
        path.write_text(_kind("get", "kubeconfig", "--name", f"{PREFIX}-{name}"))
        path.chmod(0o600)
    progress.step("Clusters ready", len(names), len(names))


def down(names: Sequence[str]) -> None:
    """Delete the clusters."""
    for name in names:
        _kind("delete", "cluster", "--name", f"{PREFIX}-{name}")


def internal(name: str) -> str:
    """The kubeconfig that works from inside the containers' network, and from Linux hosts."""
    return _kind("get", "kubeconfig", "--internal", "--name", f"{PREFIX}-{name}").replace(
        f"https://{PREFIX}-{name}-control-plane", f"https://{_address(name)}"
    )


def _address(name: str) -> str:
    docker = shutil.which("docker") or "docker"
    template = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
    done = subprocess.run(  # noqa: S603 - docker as found on the PATH
        [docker, "inspect", "--format", template, f"{PREFIX}-{name}-control-plane"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise StowageError(f"docker inspect {name}: {done.stderr.strip()}")
    return done.stdout.strip()


def _answers(command: Sequence[str], *, seconds: float = _ENGINE_SECONDS) -> bool:
    try:
        return not subprocess.run(  # noqa: S603 - docker as found on the PATH
            command, capture_output=True, timeout=seconds, check=False
        ).returncode
    except subprocess.TimeoutExpired:
        return False


def _kind(*arguments: str) -> str:
    done = subprocess.run(  # noqa: S603 - the binary that we built
        [str(binaries.path("kind")), *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise StowageError(f"kind {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout
