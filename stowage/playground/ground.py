"""The playground: a hub and members on this machine, registered, with both processes running.

`up` brings up what is missing, `down` ends everything and removes its data. What runs is
written to `playground.json` in the folder, so that a later command finds it again; only processes
that were started from here are ever ended.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crds.names import SYSTEM_NAMESPACE
from machinery.errors import ConfigurationError, NotFound, StowageError
from machinery.kubeconfig import parse_kubeconfig
from machinery.resources import MEMBER_CLUSTERS, SECRETS
from machinery.transport import ApiClient
from stowage import install, membership
from stowage.playground import build, kind, probes
from stowage.playground.cluster import Cluster, Parts
from stowage.playground.controlplanes import ControlPlanes
from stowage.playground.processes import Process
from stowage.progress import Progress

STATE = "playground.json"
HUB = "hub"
NODES = 3
READY_SECONDS = 60.0
ROLES = ("controller", "propagator")
ZONE = "topology.kubernetes.io/zone"


def up(directory: Path, *, members: int, provider: str, run: bool, progress: Progress) -> None:
    """Bring the playground up. Raises StowageError saying what is in the way."""
    state = _load(directory)
    chosen = _provider(provider, state, progress)
    names = [f"member-{number}" for number in range(1, members + 1)]
    directory.mkdir(parents=True, exist_ok=True)
    if chosen == "kind":
        build.ensure(("kind", "kubectl"), progress=progress)
        kind.up(directory, [HUB, *names], progress=progress)
        state = {**state, "provider": chosen}
    else:
        state = _local_up(directory, state, names, progress)
    state["members"] = sorted({*names, *state.get("members", [])})
    _save(directory, state)
    asyncio.run(_register(directory, names, provider=chosen))
    if run:
        state["processes"] = _start_processes(directory, state, progress)
        _save(directory, state)
        asyncio.run(_until_ready(directory, names, progress))


def down(directory: Path) -> None:
    """End all processes and remove the folder's content. Does nothing where nothing is up."""
    state = _load(directory)
    for data in state.get("processes", {}).values():
        Process.from_json(data).end(signal.SIGKILL)
    if state.get("provider") == "kind":
        kind.down([HUB, *state["members"]])
    elif state.get("planes"):
        ControlPlanes.from_json(state["planes"]).stop()
    if state:
        for name in [HUB, *state.get("members", [])]:
            (directory / f"{name}.kubeconfig").unlink(missing_ok=True)
        for folder in ("control-planes", "logs"):
            shutil.rmtree(directory / folder, ignore_errors=True)
        (directory / STATE).unlink()


def planes(directory: Path) -> ControlPlanes:
    """The control planes of a local playground. Raises ConfigurationError where there are none."""
    state = _load(directory)
    if not state.get("planes"):
        raise ConfigurationError(f"{directory} holds no local playground")
    return ControlPlanes.from_json(state["planes"])


def summary(directory: Path) -> str:
    """What is up, in words."""
    state = _load(directory)
    if not state:
        return f"no playground in {directory}: `stowage playground up --dir {directory}`"
    lines = [f"provider    {state['provider']}", f"hub         {kubeconfig(directory, HUB)}"]
    lines += [f"{name:<11} {kubeconfig(directory, name)}" for name in state["members"]]
    for role in ROLES:
        data = state.get("processes", {}).get(role)
        alive = data is not None and Process.from_json(data).alive()
        log = f", log in {directory / 'logs' / f'{role}.log'}" if data else ""
        lines.append(f"{role:<11} {'running' if alive else 'not running'}{log}")
    return "\n".join(lines)


def kubeconfig(directory: Path, name: str) -> Path:
    """Where the administrator's kubeconfig of a cluster lies."""
    return directory / f"{name}.kubeconfig"


def _provider(asked: str, state: Mapping[str, Any], progress: Progress) -> str:
    standing = state.get("provider")
    if standing and asked not in ("auto", standing):
        raise ConfigurationError(
            f"a {standing} playground stands here: `stowage playground down` first"
        )
    if standing:
        return str(standing)
    if asked == "auto":
        reason = kind.unusable()
        if not reason:
            return "kind"
        progress.say(f"Not using kind: {reason}. Using control planes built from Go modules.")
        return "local"
    if asked == "kind" and (reason := kind.unusable()):
        raise ConfigurationError(f"kind cannot be used: {reason}")
    return asked


def _local_up(
    directory: Path, state: dict[str, Any], names: list[str], progress: Progress
) -> dict[str, Any]:
    build.ensure(progress=progress)
    if state.get("planes"):
        planes = ControlPlanes.from_json(state["planes"])
        planes.revive()
    else:
        planes = ControlPlanes(directory / "control-planes", detached=True)
        planes.start()
    try:
        fresh = _launch(planes, names, progress)
    finally:
        state = {**state, "provider": "local", "planes": planes.to_json()}
        _save(directory, {"members": [], **state})
    for name in fresh:
        if name != HUB:
            planes.clusters[name].add_nodes(NODES, prefix=name, labels={ZONE: _zone(name)})
    for name, cluster in planes.clusters.items():
        shutil.copyfile(cluster.kubeconfig, kubeconfig(directory, name))
        kubeconfig(directory, name).chmod(0o600)
    return {**state, "planes": planes.to_json()}


def _launch(planes: ControlPlanes, names: list[str], progress: Progress) -> list[str]:
    """Start the clusters that are missing, all at once; their names."""
    member = Parts(controller_manager=True, scheduler=True, kwok=True)
    wanted = {HUB: Parts(controller_manager=True), **dict.fromkeys(names, member)}
    fresh: list[Cluster] = []
    for name, parts in wanted.items():
        if name not in planes.clusters:
            fresh.append(planes.launch(name, parts))
    for number, cluster in enumerate(fresh):
        progress.step("Clusters ready", number, len(fresh))
        cluster.wait_ready()
    progress.step("Clusters ready", len(fresh), len(fresh))
    return [cluster.name for cluster in fresh]


def _zone(member: str) -> str:
    return f"zone-{member.rpartition('-')[2]}"


async def _register(directory: Path, names: list[str], *, provider: str) -> None:
    """Kinds onto the hub, and a Secret for each member."""
    async with _client(directory) as hub:
        objects = install.manifests(namespace=SYSTEM_NAMESPACE, crds_only=True)
        await install.apply(hub, objects, say=lambda _: None)
        await install.ensure_namespace(hub, SYSTEM_NAMESPACE)
        for name in names:
            text = kind.internal(name) if provider == "kind" else _text(directory, name)
            secret = membership.secret(name, SYSTEM_NAMESPACE, text, {ZONE: _zone(name)})
            await hub.apply(
                SECRETS,
                secret,
                name=name,
                namespace=SYSTEM_NAMESPACE,
                field_manager="stowage-playground",
                force=True,
            )


def _text(directory: Path, name: str) -> str:
    return kubeconfig(directory, name).read_text()


def _client(directory: Path) -> ApiClient:
    return ApiClient(parse_kubeconfig(kubeconfig(directory, HUB).read_bytes()), name="playground")


def _start_processes(
    directory: Path, state: Mapping[str, Any], progress: Progress
) -> dict[str, Any]:
    started: dict[str, Any] = {}
    for role in ROLES:
        data = state.get("processes", {}).get(role)
        if data and Process.from_json(data).alive():
            started[role] = data
            continue
        arguments = [sys.executable, "-m", "stowage", role, f"--http-port={probes.free_port()}"]
        arguments += ["--kubeconfig", str(kubeconfig(directory, HUB))]
        process = Process(role, arguments, directory / "logs" / f"{role}.log")
        process.start(detached=True)
        progress.say(f"{role} started")
        started[role] = process.to_json()
    return started


async def _until_ready(directory: Path, names: list[str], progress: Progress) -> None:
    deadline = asyncio.get_running_loop().time() + READY_SECONDS
    async with _client(directory) as hub:
        while True:
            ready = [name for name in names if await _is_ready(hub, name)]
            progress.step("Members ready", len(ready), len(names))
            if len(ready) == len(names):
                return
            if asyncio.get_running_loop().time() > deadline:
                missing = ", ".join(sorted(set(names) - set(ready)))
                raise StowageError(
                    f"{missing} not Ready after {READY_SECONDS:.0f} s: see "
                    f"{directory / 'logs' / 'propagator.log'}"
                )
            await asyncio.sleep(0.2)


async def _is_ready(hub: ApiClient, name: str) -> bool:
    try:
        found = await hub.get(MEMBER_CLUSTERS, name)
    except NotFound:
        return False
    conditions = found.get("status", {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _load(directory: Path) -> dict[str, Any]:
    path = directory / STATE
    state: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return state


def _save(directory: Path, state: Mapping[str, Any]) -> None:
    """By a rename: a command that is interrupted never leaves half a file."""
    draft = directory / f"{STATE}.new"
    draft.write_text(json.dumps(state, indent=1))
    draft.rename(directory / STATE)
