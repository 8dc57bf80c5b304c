"""`stowage migrate`: runs a step against real servers, and prints what became of each Workload."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from machinery.api import client
from machinery.api.verbs import Verbs
from machinery.clock import SystemClock
from machinery.config.kubeconfig import Connection
from machinery.errors import ConfigurationError
from machinery.types.bounds import clean
from stowage.console import output
from stowage.console.terminal import say
from stowage.hub import connection, reader
from stowage.importing import live
from stowage.migrating import plan as planning
from stowage.migrating.members import Members
from stowage.migrating.outcomes import Outcome
from stowage.migrating.peer import Peer
from stowage.migrating.peers import karmada, kubefleet, ocm
from stowage.migrating.steps import STEPS
from stowage.migrating.survey import Asked, World
from stowage.simulation.plan import Where

PEERS: Mapping[str, Peer] = {each.name: each for each in (karmada.PEER, ocm.PEER, kubefleet.PEER)}
_SUFFIXES = ("", ".kubeconfig", ".yaml", ".yml", ".conf")
_COLUMNS = ("workload", "step", "in the way")


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """How the servers of a migration are reached."""

    hub: Connection
    kubeconfig: str | None
    """The hub's kubeconfig, which may have contexts of the members' names."""
    theirs: Connection
    folder: Path | None
    """A folder with a kubeconfig for each member, `NAME` or `NAME.kubeconfig`."""
    home: str

    def member(self, name: str) -> Connection:
        """Return the user's own connection to a member. Raises ConfigurationError."""
        for suffix in _SUFFIXES if self.folder is not None else ():
            if self.folder is not None and (file := self.folder / f"{name}{suffix}").is_file():
                return connection(str(file), None)
        try:
            return connection(self.kubeconfig, name)
        except ConfigurationError as e:
            raise ConfigurationError(
                f"no kubeconfig leads to {name}: it is {name}.kubeconfig in --member-kubeconfigs "
                f"DIR, or the context {name}: {e}"
            ) from e


def run(step: str, peer: Peer, servers: Servers, asked: Asked, form: str) -> bool:
    """Do a step, and print what became of each Workload; return whether all went well.

    Raises StowageError if the peer's hub or ours cannot be read.
    """
    return asyncio.run(_run(step, peer, servers, asked, form))


async def _run(step: str, peer: Peer, servers: Servers, asked: Asked, form: str) -> bool:
    async with AsyncExitStack() as stack:
        world = await _world(peer, servers, stack)
        if step == "plan":
            made = await planning.plan(world, asked)
            output.show(made.to_dict(), form, text=made.text())
            return made.possible == len(made.candidates)
        if step == "release":
            text = f"waits until {peer.title} has let go, and {world.settle:.0f} s more"
            say(f"release: {text}", err=True)
        outcomes = await STEPS[step](world, asked)
    if not outcomes and step != "status":
        raise ConfigurationError(nothing(step, peer, asked.namespace))
    show(outcomes, form)
    return not any(each.fault for each in outcomes)


async def _world(peer: Peer, servers: Servers, stack: AsyncExitStack) -> World:
    async def member(name: str) -> Verbs:
        return await stack.enter_async_context(client.ApiClient(servers.member(name), name=name))

    where = Where("default", hub=servers.hub)
    hub = await stack.enter_async_context(client.ApiClient(servers.hub, name="hub"))
    return World(
        peer=peer,
        hub=hub,
        theirs=await stack.enter_async_context(client.ApiClient(servers.theirs, name=peer.name)),
        member=Members(hub, member),
        documents=lambda namespace: _documents(peer, servers.theirs, namespace),
        inputs=where.present,
        where=where,
        clock=SystemClock(),
        home=servers.home,
    )


def _documents(peer: Peer, theirs: Connection, namespace: str) -> list[Any]:
    with reader(theirs) as api:
        return live.documents(peer.name, api, namespace, theirs.server)


def nothing(step: str, peer: Peer, namespace: str) -> str:
    """Return why a step that writes had no Workload to go on with."""
    where = f"in {namespace}" if namespace else "in any namespace"
    if step in ("adopt", "release"):
        return f"{peer.title} runs nothing {where} that can be a Workload"
    return f"no Workload {where} is being migrated from {peer.title}: adopt it first"


def show(outcomes: Sequence[Outcome], form: str) -> None:
    """Print the step of each Workload, and how many are at each."""
    rows = [
        {"workload": "/".join(each.key), "step": each.step, "in the way": clean(each.fault) or "-"}
        for each in outcomes
    ]
    counts = Counter(str(each.step) for each in outcomes)
    said = ", ".join(f"{number} {step}" for step, number in counts.items()) or "no Workload"
    data = {
        "workloads": [
            {
                "namespace": each.key[0],
                "name": each.key[1],
                "step": str(each.step),
                "inTheWay": each.fault,
            }
            for each in outcomes
        ],
        "counts": dict(counts),
    }
    output.show(data, form, text=f"{output.table(rows, _COLUMNS)}\n{said}" if rows else said)


def peer_named(name: str) -> Peer:
    """Return the system of that name. Raises ConfigurationError for one without a migration."""
    if name not in PEERS:
        raise ConfigurationError(
            f"{name} can be imported and not migrated, which {', '.join(PEERS)} can: `stowage "
            f"import --from {name}` prints its Workloads"
        )
    return PEERS[name]
