"""The local provider: control planes built from Go modules, found again from a file.

Everything starts at once and is waited for afterwards. After a crash or a reboot the same code
runs: a process that lives is left alone, any other is started again on its data.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from machinery.errors import ConfigurationError
from stowage.console.progress import Progress
from stowage.playground.cluster import Cluster, Parts
from stowage.playground.controlplanes import ControlPlanes
from stowage.playground.pki import write_private
from stowage.toolchain import build

NODES = 3
"""The Nodes of each member, of 8 cpu, 32Gi and 110 pods each."""
_FOLDER = "control-planes"
_STATE = "planes.json"
_HUB = Parts(controller_manager=True)
_MEMBER = Parts(controller_manager=True, scheduler=True, kwok=True)


def load_planes(directory: Path) -> ControlPlanes:
    """Return the control planes of the playground in that folder.

    Raises ConfigurationError where there are none.
    """
    state = directory / _FOLDER / _STATE
    if not state.exists():
        raise ConfigurationError(f"{directory} holds no local playground")
    return ControlPlanes.from_json(json.loads(state.read_text()))


def up(
    directory: Path, hub: str, zones: Mapping[str, Mapping[str, str]], *, progress: Progress
) -> None:
    """Start everything that is missing of the hub and the members, and write their kubeconfigs.

    `zones` are the members, each with the labels of its Nodes.
    """
    build.ensure(progress=progress)
    planes = _planes(directory)
    wanted = {hub: _HUB, **dict.fromkeys(zones, _MEMBER)}
    try:
        planes.start()
        planes.revive()
        for name, parts in wanted.items():
            if name not in planes.clusters:
                planes.launch(name, parts)
        _save(directory, planes)
        _wait(list(planes.clusters.values()), progress)
    finally:
        # Also after a failure: `down` must find every process that was started.
        _save(directory, planes)
    _add_nodes([(planes.clusters[name], labels) for name, labels in zones.items()])
    for name, cluster in planes.clusters.items():
        write_private(directory / f"{name}.kubeconfig", cluster.admin_kubeconfig)


def down(directory: Path) -> None:
    """End every control plane and remove its data; do nothing where there is none."""
    if (directory / _FOLDER / _STATE).exists():
        load_planes(directory).stop()
    shutil.rmtree(directory / _FOLDER, ignore_errors=True)


def _planes(directory: Path) -> ControlPlanes:
    if (directory / _FOLDER / _STATE).exists():
        return load_planes(directory)
    (directory / _FOLDER).mkdir(parents=True, exist_ok=True, mode=0o700)
    return ControlPlanes(directory / _FOLDER, detached=True)


def _save(directory: Path, planes: ControlPlanes) -> None:
    draft = directory / _FOLDER / f"{_STATE}.new"
    draft.write_text(json.dumps(planes.to_json(), indent=1))
    # an interrupted command never leaves half a file
    draft.rename(directory / _FOLDER / _STATE)


def _wait(clusters: Sequence[Cluster], progress: Progress) -> None:
    """Wait for all API servers first, then for the programs beside them."""
    progress.step("Clusters ready", 0, len(clusters))
    for cluster in clusters:
        cluster.start_parts()
    for number, cluster in enumerate(clusters, start=1):
        cluster.wait_ready()
        progress.step("Clusters ready", number, len(clusters))


def _add_nodes(members: Sequence[tuple[Cluster, Mapping[str, str]]]) -> None:
    bare = [(cluster, labels) for cluster, labels in members if not cluster.nodes()]
    for cluster, labels in bare:
        cluster.add_nodes(NODES, prefix=cluster.name, labels=labels, wait=False)
    for cluster, _ in bare:
        cluster.wait_nodes()
