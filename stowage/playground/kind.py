"""The kind provider: clusters in containers, where a Docker engine answers.

The clusters' names carry a digest of the playground's folder, so that two playgrounds never touch
each other's, and kind never writes to the user's own kubeconfig. Members are registered by their
address inside the containers' network, which the hub's pods reach, and on Linux this machine, too.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from machinery.errors import StowageError
from stowage.playground import binaries, build
from stowage.progress import Progress

_ENGINE_SECONDS = 10.0
_PULL_SECONDS = 300.0
_NODE_IMAGE = re.compile(rb"kindest/node:v[0-9.]+@sha256:[0-9a-f]{64}")


def unusable(progress: Progress) -> str:
    """Why kind cannot be used here; empty when it can. Builds kind only where an engine answers."""
    docker = shutil.which("docker")
    if docker is None:
        return "there is no docker command"
    if not _succeeds([docker, "version", "--format", "{{.Server.Version}}"]):
        return "no Docker engine answers"
    build.ensure(("kind", "kubectl"), progress=progress)
    image = _node_image()
    if _succeeds([docker, "image", "inspect", image]):
        return ""
    progress.say(f"Fetching {image}")
    if _succeeds([docker, "pull", "--quiet", image], seconds=_PULL_SECONDS):
        return ""
    return f"the image {image} cannot be had"


def up(directory: Path, hub: str, members: Sequence[str], *, progress: Progress) -> None:
    """Create the clusters that are missing, and write their kubeconfigs.

    The hub alone first, because it makes the network; then all members at once.
    """
    build.ensure(("kind", "kubectl"), progress=progress)
    there = set(_kind("get", "clusters").split())
    names = [hub, *members]
    progress.step("Clusters ready", 0, len(names))
    ready = 0
    for batch in ([hub], members):
        started = [(n, _create(directory, n)) for n in batch if _name(directory, n) not in there]
        ready += len(batch) - len(started)
        for name, creation in started:
            output, _ = creation.communicate()
            if creation.returncode:
                raise StowageError(f"kind could not create {name}:\n{output}")
            ready += 1
            progress.step("Clusters ready", ready, len(names))
    for name in names:
        path = directory / f"{name}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(_kind("get", "kubeconfig", "--name", _name(directory, name)))
    progress.step("Clusters ready", len(names), len(names))


def down(directory: Path, names: Sequence[str]) -> None:
    """Delete the clusters of this folder; those that are gone already are no fault."""
    for name in names:
        path = directory / f"{name}.kubeconfig"
        _kind("delete", "cluster", "--name", _name(directory, name), f"--kubeconfig={path}")


def load(directory: Path, name: str, image: str) -> None:
    """Copy an image from the Docker engine into a cluster's nodes."""
    _kind("load", "docker-image", image, "--name", _name(directory, name))


def internal(directory: Path, name: str) -> str:
    """The kubeconfig to register a member with.

    On Linux its container's address, which works from pods and from here; where containers run in
    a virtual machine only the name inside of their network is left, for processes on the hub.
    """
    cluster = _name(directory, name)
    text = _kind("get", "kubeconfig", "--internal", "--name", cluster)
    if sys.platform != "linux":
        return text
    node = container(directory, name)
    return text.replace(f"https://{node}:", f"https://{_address(node)}:")


def container(directory: Path, name: str) -> str:
    """The container that a cluster's control plane runs in."""
    return f"{_name(directory, name)}-control-plane"


def _name(directory: Path, name: str) -> str:
    digest = hashlib.sha256(str(directory.resolve()).encode()).hexdigest()[:6]
    return f"stowage-{digest}-{name}"


def _create(directory: Path, name: str) -> subprocess.Popen[str]:
    command = [str(binaries.path("kind")), "create", "cluster", "--wait=180s"]
    command += ["--name", _name(directory, name)]
    command += [f"--kubeconfig={directory / f'{name}.kubeconfig'}"]
    return subprocess.Popen(  # noqa: S603 - the binary that we built
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def _node_image() -> str:
    """The image that this kind was made for, digest included, as it stands in its binary."""
    found = _NODE_IMAGE.search(binaries.path("kind").read_bytes())
    if found is None:
        raise StowageError("kind's binary names no node image")
    return found[0].decode()


def _address(container: str) -> str:
    template = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
    return _run(["docker", "inspect", "--format", template, container]).strip()


def _kind(*arguments: str) -> str:
    return _run([str(binaries.path("kind")), *arguments])


def _run(command: Sequence[str]) -> str:
    """Standard output. Raises StowageError with what the command said."""
    done = subprocess.run(  # noqa: S603 - kind that we built, or docker
        command, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise StowageError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def _succeeds(command: Sequence[str], *, seconds: float = _ENGINE_SECONDS) -> bool:
    try:
        done = subprocess.run(  # noqa: S603 - docker as found on the PATH
            command, capture_output=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0
