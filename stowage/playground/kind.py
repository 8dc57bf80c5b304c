"""The kind provider: clusters in containers, where a Docker engine answers.

The clusters' names carry a digest of the playground's folder, so that two playgrounds never touch
each other's, and kind never writes to the user's own kubeconfig. Members are registered by their
address inside the containers' network, which the hub's pods reach, and on Linux this machine, too.

A mark lies beside a cluster while it is being created: what `up` finds marked was interrupted and
is made anew, what it finds unmarked is never deleted by it.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from machinery.errors import StowageError
from stowage.playground import binaries, build
from stowage.playground.pki import write_private
from stowage.progress import Progress

_ENGINE_SECONDS = 10.0
_PULL_SECONDS = 300.0
_LAST_LINES = 8
_NODE_IMAGE = re.compile(rb"kindest/node:v[0-9.]+@sha256:[0-9a-f]{64}")


def unusable(progress: Progress) -> str:
    """Why kind cannot be used here; empty when it can. Builds kind only where an engine answers."""
    if shutil.which("docker") is None:
        return "there is no docker command"
    try:
        _run(["docker", "version", "--format", "{{.Server.Version}}"], seconds=_ENGINE_SECONDS)
    except StowageError as e:
        return f"no Docker engine answers ({e})"
    try:
        build.ensure(("kind", "kubectl"), progress=progress)
    except StowageError as e:
        return f"kind could not be built ({_end(str(e))})"
    return _image_missing(_node_image(), progress)


def up(directory: Path, hub: str, members: Sequence[str], *, progress: Progress) -> None:
    """Create the clusters that are missing, and write their kubeconfigs.

    The hub alone first, because it makes the network; then all members at once. Raises StowageError
    naming every cluster that could not be created; the others are kept.
    """
    build.ensure(("kind", "kubectl"), progress=progress)
    there = _standing(directory, [hub, *members])
    total = 1 + len(members)
    progress.step("Clusters ready", len(there), total)
    for batch in ([hub], members):
        missing = [name for name in batch if name not in there]
        for made in _create(directory, missing):
            there.add(made)
            progress.step("Clusters ready", len(there), total)
    for name in (hub, *members):
        text = _kind("get", "kubeconfig", "--name", _name(directory, name))
        write_private(directory / f"{name}.kubeconfig", text)


def down(directory: Path, names: Sequence[str], *, progress: Progress | None = None) -> None:
    """Delete the clusters of this folder; those that are gone already are no fault."""
    build.ensure(("kind",), progress=progress)
    for name in names:
        _delete(directory, name)


def require(image: str) -> None:
    """Raise StowageError where the Docker engine does not have that image."""
    _run(["docker", "image", "inspect", "--format", "{{.Id}}", image])


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


def _standing(directory: Path, names: Sequence[str]) -> set[str]:
    """Those that are there, and run; one whose creation was interrupted is deleted."""
    listed = set(_kind("get", "clusters").split())
    found = {name for name in names if _name(directory, name) in listed}
    for name in sorted(found):
        if _mark(directory, name).exists():
            _delete(directory, name)
            found.discard(name)
        else:
            # Does nothing to one that runs.
            _run(["docker", "start", container(directory, name)])
    return found


def _create(directory: Path, names: Sequence[str]) -> Iterator[str]:
    """Create them side by side; gives each name when it and those before it are done."""
    faults = []
    with ExitStack() as stack:
        started = {}
        for name in names:
            command = _creation(directory, name)
            _mark(directory, name).touch()
            process = subprocess.Popen(  # noqa: S603 - the binary that we built
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            stack.enter_context(process)
            # Left alone it would go on making what `down` has just deleted.
            stack.callback(process.terminate)
            started[name] = (command, process)
        for name, (command, process) in started.items():
            output, _ = process.communicate()
            if process.returncode:
                faults.append(_failure(command, process.returncode, output))
                continue
            _mark(directory, name).unlink()
            yield name
    if faults:
        raise StowageError("\n".join(faults))


def _creation(directory: Path, name: str) -> list[str]:
    command = [str(binaries.path("kind")), "create", "cluster", "--name", _name(directory, name)]
    # The image that was looked for, so that kind fetches no other.
    command += [f"--image={_node_image()}", "--wait=180s"]
    return [*command, f"--kubeconfig={directory / f'{name}.kubeconfig'}"]


def _delete(directory: Path, name: str) -> None:
    path = directory / f"{name}.kubeconfig"
    _kind("delete", "cluster", "--name", _name(directory, name), f"--kubeconfig={path}")
    _mark(directory, name).unlink(missing_ok=True)


def _mark(directory: Path, name: str) -> Path:
    """There while a cluster is being created, and stays when that is interrupted."""
    return directory / f"{name}.unfinished"


def _node_image() -> str:
    """The image that this kind was made for, digest included, as it stands in its binary."""
    found = _NODE_IMAGE.search(binaries.path("kind").read_bytes())
    if found is None:
        raise StowageError("kind's binary names no node image")
    return found[0].decode()


def _image_missing(image: str, progress: Progress) -> str:
    """Why the Docker engine does not have it and cannot fetch it; empty when it has it."""
    try:
        _run(["docker", "image", "inspect", image], seconds=_ENGINE_SECONDS)
    except StowageError:
        progress.say(f"Fetching {image}")
    else:
        return ""
    try:
        _run(["docker", "pull", "--quiet", image], seconds=_PULL_SECONDS)
    except StowageError as e:
        return f"the image of its nodes cannot be had ({e})"
    return ""


def _address(container: str) -> str:
    """In kind's network only: a container may have been connected to others as well."""
    network = os.environ.get("KIND_EXPERIMENTAL_DOCKER_NETWORK", "kind")
    template = (
        "{{with " + f'index .NetworkSettings.Networks "{network}"' + "}}{{.IPAddress}}{{end}}"
    )
    address = _run(["docker", "inspect", "--format", template, container]).strip()
    if not address:
        raise StowageError(f"the container {container} has no address in the network {network}")
    return address


def _kind(*arguments: str) -> str:
    return _run([str(binaries.path("kind")), *arguments])


def _run(command: Sequence[str], *, seconds: float | None = None) -> str:
    """Standard output. Raises StowageError with the command, its exit code and its last words."""
    try:
        done = subprocess.run(  # noqa: S603 - kind that we built, or docker
            command, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        raise StowageError(f"`{shlex.join(command)}` did not end within {seconds:g} s") from None
    except OSError as e:
        raise StowageError(f"`{shlex.join(command)}` could not be run: {e.strerror}") from e
    if done.returncode:
        raise StowageError(_failure(command, done.returncode, done.stdout + done.stderr))
    return done.stdout


def _failure(command: Sequence[str], code: int, output: str) -> str:
    return f"`{shlex.join(command)}` ended with exit code {code}: {_end(output) or 'no output'}"


def _end(output: str) -> str:
    """The last lines that say something, as one."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return " / ".join(lines[-_LAST_LINES:])
