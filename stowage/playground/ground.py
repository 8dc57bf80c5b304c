"""The playground: a hub and members on this machine, registered, with both processes running.

`up` starts everything that is missing, however the last command ended; `down` ends everything and
removes its data. A later command finds the state in the folder. Only processes and containers that
were started from here are ended.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from crds.names import SYSTEM_NAMESPACE
from machinery.api.client import ApiClient
from machinery.api.resources import MEMBER_CLUSTERS, SECRETS
from machinery.config.kubeconfig import parse_kubeconfig
from machinery.errors import ConfigurationError, StowageError
from stowage.console.progress import Progress
from stowage.lock import alone
from stowage.playground import kind, local, roles
from stowage.playground.processes import wait_until
from stowage.setup import install, join, member_side, tenants
from stowage.setup import shards as sharding
from stowage.toolchain import binaries

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
    node_image: str | None = None,
    shards: int | None = None,
) -> None:
    """Start the playground. Raises StowageError with what is in the way.

    `run` starts controller and propagator in the background; with `image`, an image of this
    machine's Docker engine, they run on the hub instead (kind only), and stay there when a later
    `up` names no image. `node_image` is the image of new clusters' nodes (kind only); a later `up`
    that names none uses the same. With `shards` so many propagators share out the members, and one
    more runs; a later `up` that names no number keeps it.
    """
    if image and not run:
        raise ConfigurationError("--image runs both on the hub: leave out --no-run")
    directory.mkdir(parents=True, exist_ok=True)
    with alone(directory / "lock", progress, waiting="Another command is at work here: waiting"):
        state = _load(directory)
        nodes = node_image or state.get("node_image", kind.NODE_IMAGE)
        # Both options need kind; the check below would refuse other clusters.
        asked = "kind" if provider == "auto" and (image or node_image) else provider
        chosen = _provider(asked, state, 1 + members, nodes, progress)
        for option, given in (("--image", image), ("--node-image", node_image)):
            if given and chosen != "kind":
                raise ConfigurationError(f"{option} needs kind: local clusters run no containers")
        if image:
            # Checked here, not after the minutes that making clusters takes.
            kind.require(image)
        names = [f"member-{number}" for number in range(1, members + 1)]
        state["provider"] = chosen
        state["members"] = sorted({*names, *state.get("members", [])}, key=_number)
        if chosen == "kind":
            state["node_image"] = nodes
        state |= {} if shards is None else {"shards": shards}
        _save(directory, state)
        with _told_what_stays(directory, progress):
            _clusters_up(directory, chosen, names, nodes, progress)
            if image:
                kind.load(directory, HUB, image, progress=progress)
            on_hub = bool(image or "image" in state)
            registered = {n: _registration(directory, n, chosen, on_hub=on_hub) for n in names}
            progress.say("Installing Stowage on the hub, and registering the members")
            on_the_hub = asyncio.run(
                _prepare(
                    directory,
                    registered,
                    image=image,
                    shards=state.get("shards"),
                    progress=progress,
                )
            )
            if image:
                # They would hold the leases that the processes on the hub need.
                roles.end(state.pop("processes", {}))
                state["image"] = image
            elif run and "image" not in state:
                state["processes"] = roles.start(
                    directory,
                    state.get("processes", {}),
                    kubeconfig(directory, HUB),
                    progress,
                    shards=state.get("shards"),
                )
            _save(directory, state)
            if run:
                roles.wait_ready(
                    _client(directory), on_the_hub, state.get("processes", {}), progress
                )


@contextmanager
def _told_what_stays(directory: Path, progress: Progress) -> Iterator[None]:
    try:
        yield
    except BaseException:
        progress.say(
            "What is up stays up: the next `stowage playground up` goes on from there, "
            f"`stowage playground down --dir {directory}` removes it"
        )
        raise


def down(directory: Path, *, progress: Progress) -> None:
    """End all processes and remove all data; do nothing where there is no playground."""
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
    """Return the state as plain data. Raises ConfigurationError where there is no playground."""
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
    return directory / f"{name}.kubeconfig"


def exported(directory: Path) -> str:
    """Return the line of a shell by which `kubectl` and `stowage` find the playground."""
    files = (kubeconfig(directory, HUB), *sorted(directory.glob("member-*.kubeconfig")))
    commands = f"{Path(sys.executable).parent}:{binaries.path('kubectl').parent}"
    return f"export KUBECONFIG={':'.join(map(str, files))}; PATH={commands}:$PATH"


def _provider(
    asked: str, state: Mapping[str, Any], clusters: int, nodes: str, progress: Progress
) -> str:
    standing = state.get("provider")
    if standing and asked not in ("auto", standing):
        raise ConfigurationError(
            f"a {standing} playground stands here: `stowage playground down` first"
        )
    if standing or asked == "local":
        return str(standing or asked)
    reason = kind.unusable(clusters, nodes, progress)
    if not reason:
        return "kind"
    if asked == "kind":
        raise ConfigurationError(f"kind cannot be used: {reason}")
    progress.say(f"Not using kind: {reason}. Using control planes built from Go modules.")
    return "local"


def _clusters_up(
    directory: Path, provider: str, names: list[str], nodes: str, progress: Progress
) -> None:
    if provider == "kind":
        kind.up(directory, HUB, names, image=nodes, progress=progress)
        _wait_answers(directory, (HUB, *names), progress)
    else:
        zones = {name: {ZONE: _zone(name)} for name in names}
        local.up(directory, HUB, zones, progress=progress)


def _wait_answers(directory: Path, names: Sequence[str], progress: Progress) -> None:
    """Return when all API servers answer; containers that were just started take a while."""
    silent = list(names)

    def all_answer() -> bool:
        silent[:] = [name for name in silent if not _answers(kubeconfig(directory, name))]
        progress.step("Clusters ready", len(names) - len(silent), len(names))
        return not silent

    if not wait_until(all_answer, seconds=_ANSWER_SECONDS, every=0.5):
        raise StowageError(
            "\n".join(
                f"{name} does not answer after {_ANSWER_SECONDS:g} s: "
                f"look with `docker logs {kind.container(directory, name)}`"
                for name in silent
            )
        )


def _registration(directory: Path, name: str, provider: str, *, on_hub: bool) -> str:
    """Return the kubeconfig by which the propagator reaches a member."""
    if provider == "kind" and (on_hub or sys.platform == "linux"):
        return kind.internal(directory, name)
    return kubeconfig(directory, name).read_text()


async def _prepare(
    directory: Path,
    members: Mapping[str, str],
    *,
    image: str | None,
    shards: int | None,
    progress: Progress,
) -> list[str]:
    """Install the kinds on the hub, and a Secret for each member: its name, and its kubeconfig.

    With an image, returns when both processes run on the hub. Returns the members' names there.
    """
    async with _client(directory) as hub:
        objects = install.manifests(
            namespace=SYSTEM_NAMESPACE,
            image=image or "",
            crds_only=not image,
            all_namespaces=True,  # users of a playground create namespaces as they like
            number=shards,
        )
        if not image:  # then they are among them
            objects += install.tenancy(SYSTEM_NAMESPACE)
        await install.apply(hub, objects, say=lambda _: None)
        if image:
            await tenants.settle(
                hub, home=SYSTEM_NAMESPACE, all_namespaces=True, say=lambda _: None
            )
        await install.ensure_namespace(hub, SYSTEM_NAMESPACE)
        if shards is not None and not image:
            await sharding.set_config(hub, SYSTEM_NAMESPACE, shards)
        called = await names_on_hub(hub, members)
        for name, text in members.items():
            if called[name] != name:
                progress.say(f"{name} is {called[name]} on the hub, as it was renamed")
            secret = join.secret(called[name], SYSTEM_NAMESPACE, text, {ZONE: _zone(name)})
            await hub.apply(
                SECRETS, secret, name=called[name], field_manager="stowage-playground", force=True
            )
            async with _client(directory, name) as member:
                await member_side.make_placeholder_class(member, lambda _: None)
        await install.until_running(hub, objects, progress=progress)
        return list(called.values())


async def names_on_hub(hub: ApiClient, members: Iterable[str]) -> dict[str, str]:
    """Return the name of each member on the hub: another one after `stowage rename`."""
    renamed = {
        former: each["metadata"]["name"]
        for each in (await hub.list(MEMBER_CLUSTERS))["items"]
        for former in each["spec"].get("formerNames") or ()
        if former != each["metadata"]["name"]
    }
    return {name: renamed.get(name, name) for name in members}


def _client(directory: Path, cluster: str = HUB) -> ApiClient:
    path = kubeconfig(directory, cluster)
    return ApiClient(parse_kubeconfig(path.read_bytes()), name="playground")


def _answers(path: Path) -> bool:
    """Return whether the API server is ready, by kubectl: the same for both providers."""
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
    draft = directory / f"{STATE}.new"
    draft.write_text(json.dumps(state, indent=1))
    # an interrupted command never leaves half a file
    draft.rename(directory / STATE)
