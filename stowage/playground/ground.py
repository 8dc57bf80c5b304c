"""The playground: a hub and members on this machine, registered, with both processes running.

`up` brings up what is missing, however the last one ended; `down` ends everything and removes its
data. What runs is written into the folder, so that a later command finds it again; only processes
and containers that were started from here are ever ended.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crds.names import SYSTEM_NAMESPACE
from machinery.errors import ConfigurationError, StowageError
from machinery.kubeconfig import parse_kubeconfig
from machinery.resources import SECRETS
from machinery.transport import ApiClient
from stowage import install, membership
from stowage.lock import alone
from stowage.playground import binaries, kind, local, roles
from stowage.playground.processes import wait_until
from stowage.progress import Progress

STATE = "playground.json"
HUB = "hub"
ZONE = "topology.kubernetes.io/zone"
_ANSWER_SECONDS = 120.0


def up(
    directory: Path,
    *,
    members: int,
    provider: str,
    run: bool,
    progress: Progress,
    image: str | None = None,
) -> None:
    """Bring the playground up. Raises StowageError saying what is in the way.

    `run` starts controller and propagator in the background; with `image`, which is of this
    machine's Docker engine, they run on the hub instead (kind only), and stay there when a later
    `up` names no image.
    """
    if image and not run:
        raise ConfigurationError("--image runs both on the hub: leave out --no-run")
    directory.mkdir(parents=True, exist_ok=True)
    with alone(directory / "lock", progress, waiting="Another command is at work here: waiting"):
        state = _load(directory)
        chosen = _provider(provider, state, progress)
        if image and chosen != "kind":
            raise ConfigurationError("--image needs kind: local control planes run no containers")
        if image:
            # Not after the minutes that making clusters takes.
            kind.require(image)
        names = [f"member-{number}" for number in range(1, members + 1)]
        state["provider"] = chosen
        state["members"] = sorted({*names, *state.get("members", [])}, key=_number)
        _save(directory, state)
        _clusters_up(directory, chosen, names, progress)
        if image:
            kind.load(directory, HUB, image)
        on_hub = bool(image or "image" in state)
        registered = {n: _registration(directory, n, chosen, on_hub=on_hub) for n in names}
        asyncio.run(_prepare(directory, registered, image=image))
        if image:
            # They would hold the leases that the hub's own are to have.
            roles.end(state.pop("processes", {}))
            state["image"] = image
        elif run and "image" not in state:
            state["processes"] = roles.start(
                directory, state.get("processes", {}), kubeconfig(directory, HUB), progress
            )
        _save(directory, state)
        if run:
            roles.wait_ready(_client(directory), names, state.get("processes", {}), progress)


def down(directory: Path, *, progress: Progress) -> None:
    """End all processes and remove what was made. Does nothing where nothing is up."""
    if not (directory / STATE).exists():
        return
    with alone(directory / "lock", progress, waiting="Another command is at work here: waiting"):
        state = _load(directory)
        roles.end(state.get("processes", {}))
        if state.get("provider") == "kind":
            kind.down(directory, [HUB, *state["members"]], progress=progress)
        local.down(directory)
        for name in [HUB, *state.get("members", [])]:
            kubeconfig(directory, name).unlink(missing_ok=True)
        shutil.rmtree(directory / "logs", ignore_errors=True)
        (directory / STATE).unlink(missing_ok=True)
    (directory / "lock").unlink(missing_ok=True)
    if not any(directory.iterdir()):
        directory.rmdir()


def status(directory: Path) -> dict[str, Any]:
    """What is there, as plain data. Raises ConfigurationError where nothing is."""
    state = _load(directory)
    if not state:
        raise ConfigurationError(
            f"no playground in {directory}: `stowage playground up --dir {directory}`"
        )
    clusters = [
        {
            "name": name,
            "role": "hub" if name == HUB else "member",
            "ready": _answers(kubeconfig(directory, name)),
            "kubeconfig": str(kubeconfig(directory, name)),
        }
        for name in [HUB, *state["members"]]
    ]
    processes = roles.status(state.get("processes", {}))
    return {"provider": state["provider"], "clusters": clusters, "processes": processes}


def kubeconfig(directory: Path, name: str) -> Path:
    """Where the administrator's kubeconfig of a cluster lies."""
    return directory / f"{name}.kubeconfig"


def _provider(asked: str, state: Mapping[str, Any], progress: Progress) -> str:
    standing = state.get("provider")
    if standing and asked not in ("auto", standing):
        raise ConfigurationError(
            f"a {standing} playground stands here: `stowage playground down` first"
        )
    if standing or asked == "local":
        return str(standing or asked)
    reason = kind.unusable(progress)
    if not reason:
        return "kind"
    if asked == "kind":
        raise ConfigurationError(f"kind cannot be used: {reason}")
    progress.say(f"Not using kind: {reason}. Using control planes built from Go modules.")
    return "local"


def _clusters_up(directory: Path, provider: str, names: list[str], progress: Progress) -> None:
    if provider == "kind":
        kind.up(directory, HUB, names, progress=progress)
        for name in (HUB, *names):
            _wait_answer(directory, name)
    else:
        zones = {name: {ZONE: _zone(name)} for name in names}
        local.up(directory, HUB, zones, progress=progress)


def _wait_answer(directory: Path, name: str) -> None:
    """Return when it answers: at once, but for a container that was just started again."""
    path = kubeconfig(directory, name)
    if not wait_until(lambda: _answers(path), seconds=_ANSWER_SECONDS, every=0.5):
        node = kind.container(directory, name)
        raise StowageError(
            f"{name} does not answer after {_ANSWER_SECONDS:g} s: look with `docker logs {node}`"
        )


def _registration(directory: Path, name: str, provider: str, *, on_hub: bool) -> str:
    """The kubeconfig by which the propagator reaches a member from where it runs."""
    if provider == "kind" and (on_hub or sys.platform == "linux"):
        return kind.internal(directory, name)
    return kubeconfig(directory, name).read_text()


async def _prepare(directory: Path, members: Mapping[str, str], *, image: str | None) -> None:
    """What a hub needs, and a Secret for each member: its name, and its kubeconfig's text."""
    async with _client(directory) as hub:
        await install.apply(hub, _objects(image), say=lambda _: None)
        await install.ensure_namespace(hub, SYSTEM_NAMESPACE)
        for name, text in members.items():
            secret = membership.secret(name, SYSTEM_NAMESPACE, text, {ZONE: _zone(name)})
            await hub.apply(
                SECRETS, secret, name=name, field_manager="stowage-playground", force=True
            )


def _objects(image: str | None) -> list[dict[str, Any]]:
    """The kinds; with an image, also both processes, from what was loaded into the hub's node."""
    if not image:
        return install.manifests(namespace=SYSTEM_NAMESPACE, crds_only=True)
    objects = install.manifests(namespace=SYSTEM_NAMESPACE, image=image)
    for each in objects:
        if each["kind"] == "Deployment":
            for container in each["spec"]["template"]["spec"]["containers"]:
                # By default the tag `latest` is looked for in a registry, which has none.
                container["imagePullPolicy"] = "IfNotPresent"
    return objects


def _client(directory: Path) -> ApiClient:
    return ApiClient(parse_kubeconfig(kubeconfig(directory, HUB).read_bytes()), name="playground")


def _answers(path: Path) -> bool:
    """Whether the API server says it is ready; by kubectl, the same for both providers."""
    asked = subprocess.run(  # noqa: S603 - the binary that we built
        [
            str(binaries.path("kubectl")),
            f"--kubeconfig={path}",
            "--request-timeout=2s",
            "get",
            "--raw=/readyz",
        ],
        capture_output=True,
        check=False,
    )
    return asked.returncode == 0


def _zone(member: str) -> str:
    return f"zone-{_number(member)}"


def _number(member: str) -> int:
    return int(member.rpartition("-")[2])


def _load(directory: Path) -> dict[str, Any]:
    path = directory / STATE
    state: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return state


def _save(directory: Path, state: Mapping[str, Any]) -> None:
    """By a rename: a command that is interrupted never leaves half a file."""
    draft = directory / f"{STATE}.new"
    draft.write_text(json.dumps(state, indent=1))
    draft.rename(directory / STATE)
