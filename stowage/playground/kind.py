"""The kind provider: clusters in containers, where a Docker engine answers.

The clusters' names carry a digest of the playground's folder, so two playgrounds never touch each
other's clusters. kind never writes to the user's own kubeconfig. Members are registered by their
address inside the containers' network. A mark lies beside a cluster while it is being created: an
`up` that is interrupted deletes what it had begun, and if it was killed, the next one makes marked
clusters again. It never deletes an unmarked one.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from machinery.errors import ConfigurationError, StowageError
from stowage.console.progress import Progress
from stowage.playground.commands import Job, cause, run, watch
from stowage.playground.pki import write_private
from stowage.playground.processes import wait_until
from stowage.toolchain import binaries, build

RELEASE = "v0.33.0"
"""The release of kind in the Go module. Its notes name the node image of Kubernetes 1.36."""
NODE_IMAGE = (
    "kindest/node:v1.36.4@sha256:099e049362a1526b2db71494e1947aae99bd16290d7c895f2b7ea312e3cbfaed"
)
_ENGINE_SECONDS = 10.0
_PULL_SECONDS = 900.0
_CREATE_SECONDS = 900.0
_LOAD_SECONDS = 600.0
_TOOLS = ("kind", "kubectl")


def unusable(clusters: int, image: str, progress: Progress) -> str:
    """Return why kind cannot make so many clusters here; empty when it can.

    Builds kind, and fetches the image of its nodes, only where an engine answers.
    """
    if shutil.which("docker") is None:
        return "there is no docker command"
    try:
        run(["docker", "version", "--format", "{{.Server.Version}}"], seconds=_ENGINE_SECONDS)
    except StowageError as e:
        return f"no Docker engine answers ({e})"
    try:
        build.ensure(_TOOLS, progress=progress)
    except StowageError as e:
        return f"kind could not be built ({cause(str(e))})"
    if short := shortage(len(_listed()) + clusters):
        return short
    return _image_missing(image, progress)


def up(
    directory: Path, hub: str, members: Sequence[str], *, image: str, progress: Progress
) -> None:
    """Create the clusters that are missing, and write their kubeconfigs.

    Raises StowageError naming every cluster that could not be created; the others are kept.
    """
    build.ensure(_TOOLS, progress=progress)
    names = [hub, *members]
    there = _standing(directory, names)
    others = _listed() - {_name(directory, name) for name in names}
    if short := shortage(len(others) + len(names)):
        raise ConfigurationError(short)
    # the hub alone first, because it makes the network; then all members at once
    for batch in ([hub], members):
        missing = [name for name in batch if name not in there]
        there |= _create(directory, missing, image, progress, before=len(there), of=len(names))
    for name in names:
        text = _kind("get", "kubeconfig", "--name", _name(directory, name))
        write_private(directory / f"{name}.kubeconfig", text)


def down(directory: Path, names: Sequence[str], *, progress: Progress | None = None) -> None:
    """Delete the clusters of this folder; a cluster that is gone already is no fault."""
    build.ensure(("kind",), progress=progress)
    for name in names:
        _delete(directory, name)


def require(image: str) -> None:
    """Raise StowageError where the Docker engine does not have that image."""
    run(["docker", "image", "inspect", "--format", "{{.Id}}", image])


def load(directory: Path, name: str, image: str, *, progress: Progress) -> None:
    """Copy an image from the Docker engine into a cluster's nodes."""
    command = [str(binaries.path("kind")), "load", "docker-image", image]
    job = Job.start([*command, "--name", _name(directory, name)], _log(directory, "load"))
    watch(job, lambda: progress.step(f"Copying {image} to {name}", 0), seconds=_LOAD_SECONDS)


def internal(directory: Path, name: str) -> str:
    """Return the kubeconfig to register a member with.

    On Linux it has the container's address, which works from pods and from this machine; where
    containers run in a virtual machine it has the name inside of their network, for processes on
    the hub alone.
    """
    cluster = _name(directory, name)
    text = _kind("get", "kubeconfig", "--internal", "--name", cluster)
    if sys.platform != "linux":
        return text
    node = container(directory, name)
    return text.replace(f"https://{node}:", f"https://{_address(node)}:")


def container(directory: Path, name: str) -> str:
    """Return the name of the container of a cluster's control plane."""
    return f"{_name(directory, name)}-control-plane"


def _name(directory: Path, name: str) -> str:
    digest = hashlib.sha256(str(directory.resolve()).encode()).hexdigest()[:6]
    return f"stowage-{digest}-{name}"


def _listed() -> set[str]:
    """Return all clusters that this engine has of kind, ours or not."""
    return set(_kind("get", "clusters").split())


def _standing(directory: Path, names: Sequence[str]) -> set[str]:
    """Return the clusters that exist, and start them; delete one whose creation was interrupted."""
    listed = _listed()
    found = {name for name in names if _name(directory, name) in listed}
    for name in sorted(found):
        if _mark(directory, name).exists():
            _delete(directory, name)
            found.discard(name)
        else:
            # Does nothing to a container that runs.
            run(["docker", "start", container(directory, name)])
    return found


def _create(
    directory: Path, names: Sequence[str], image: str, progress: Progress, *, before: int, of: int
) -> set[str]:
    """Create clusters side by side; return their names. Leaves none half-made, whatever happens."""
    jobs: dict[str, Job] = {}
    faults: dict[str, str] = {}

    def all_done() -> bool:
        made = sum(job.done() for job in jobs.values())
        progress.step("Clusters created", before + made, of)
        return made == len(jobs)

    progress.step("Clusters created", before, of)
    try:
        for name in names:
            jobs[name] = _started(directory, name, image)
        wait_until(all_done, seconds=_CREATE_SECONDS, every=0.2)
    finally:
        late = {name: job for name, job in jobs.items() if not job.done()}
        _give_up(directory, late)
    for name, job in jobs.items():
        if fault := job.overdue(_CREATE_SECONDS) if name in late else job.fault():
            faults[name] = fault
    for name in jobs.keys() - faults.keys():
        _mark(directory, name).unlink()
    if faults:
        raise StowageError("\n".join(faults.values()))
    return set(jobs)


def _give_up(directory: Path, jobs: Mapping[str, Job]) -> None:
    """End the jobs and delete their clusters; one that cannot be deleted stays marked."""
    for job in jobs.values():
        # all of them first, so that no job goes on making a cluster that is deleted here
        job.end()
    for name in jobs:
        with suppress(StowageError):
            _delete(directory, name)


def _started(directory: Path, name: str, image: str) -> Job:
    command = [str(binaries.path("kind")), "create", "cluster", "--name", _name(directory, name)]
    command += [f"--image={image}", "--wait=180s", f"--kubeconfig={directory / name}.kubeconfig"]
    _mark(directory, name).touch()
    return Job.start(command, _log(directory, name))


def _log(directory: Path, what: str) -> Path:
    return directory / "logs" / f"kind-{what}.log"


def _delete(directory: Path, name: str) -> None:
    path = directory / f"{name}.kubeconfig"
    _kind("delete", "cluster", "--name", _name(directory, name), f"--kubeconfig={path}")
    _mark(directory, name).unlink(missing_ok=True)


def _mark(directory: Path, name: str) -> Path:
    """Return the file that exists while a cluster is being created, or was interrupted."""
    return directory / f"{name}.unfinished"


def _image_missing(image: str, progress: Progress) -> str:
    """Return why the Docker engine can neither have nor fetch the image; empty when it has it."""
    try:
        run(["docker", "image", "inspect", image], seconds=_ENGINE_SECONDS)
    except StowageError:
        pass
    else:
        return ""
    job = Job.start(["docker", "pull", "--quiet", image], binaries.cache_root() / "kind-pull.log")
    try:
        watch(job, lambda: progress.step(f"Fetching {image}", 0), seconds=_PULL_SECONDS)
    except StowageError as e:
        hint = "--node-image names another" if image == NODE_IMAGE else "is that what it is called?"
        return f"the image {image} of its nodes cannot be had ({e}); {hint}"
    return ""


def _address(container: str) -> str:
    """Return the address in kind's network: a container may be connected to others as well."""
    network = os.environ.get("KIND_EXPERIMENTAL_DOCKER_NETWORK", "kind")
    template = (
        "{{with " + f'index .NetworkSettings.Networks "{network}"' + "}}{{.IPAddress}}{{end}}"
    )
    address = run(["docker", "inspect", "--format", template, container]).strip()
    if not address:
        raise StowageError(f"the container {container} has no address in the network {network}")
    return address


def _kind(*arguments: str) -> str:
    return run([str(binaries.path("kind")), *arguments])


KERNEL = Path("/proc/sys/fs/inotify")
# What one node takes, rounded up. With the kernel's default of 128 instances the fifth fails.
_A_NODE = {"max_user_instances": 32, "max_user_watches": 4096}
# What kind's own page on known issues says to set: enough for a dozen nodes.
_ROOMY = {"max_user_instances": 512, "max_user_watches": 524288}


def shortage(nodes: int) -> str:
    """Return the limits that are too low and the command that raises them; empty for none.

    Always empty where the Docker engine runs on another machine, or in a virtual one with limits of
    its own.
    """
    if not _engine_is_here():
        return ""
    return "; ".join(filter(None, (_short(name, each * nodes) for name, each in _A_NODE.items())))


def _engine_is_here() -> bool:
    host = os.environ.get("DOCKER_HOST", "")
    return KERNEL.is_dir() and (not host or host.startswith("unix://"))


def _short(name: str, needed: int) -> str:
    limit = int((KERNEL / name).read_text())
    if limit >= needed:
        return ""
    wanted = max(_ROOMY[name], needed)
    return (
        f"fs.inotify.{name} is {limit}, and {needed // _A_NODE[name]} nodes of kind on this host "
        f"need {needed}: `sudo sysctl -w fs.inotify.{name}={wanted}`"
    )
