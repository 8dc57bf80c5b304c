"""`stowage rollout`: how far a staged rollout has come, and what a person may do about it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from stowage.commands.options import (
    OUTPUT,
    REFERENCE,
    TIMEOUT,
    Command,
    Commands,
    HubOptions,
    looking,
    object_options,
    with_hub,
    workload_name,
)

if TYPE_CHECKING:
    from machinery.api.client import ApiClient

_WAIT = click.option(
    "--wait", is_flag=True, help="Show how it goes until it is complete, failed or paused."
)


def _arguments(command: Command) -> Command:
    """Add the Workload, its hub, and whether to wait."""
    for option in (
        TIMEOUT,
        _WAIT,
        object_options("Of the Workload; the context's."),
        click.argument("reference", nargs=-1, required=True, type=REFERENCE, metavar="wl/NAME"),
    ):
        command = option(command)
    return command


@click.group(cls=Commands)
def rollout() -> None:
    """Show the staged rollout of a Workload, approve it, pause it, give it up."""


@rollout.command()
@_arguments
@OUTPUT
@click.pass_context
def status(
    command: click.Context,
    reference: tuple[str, ...],
    hub: HubOptions,
    wait: bool,
    timeout: float,
    output: str,
) -> None:
    """Show how far the rollout of a Workload has come, wave by wave.

    Exit code 0 when it is complete, and without --wait also on its way there; 1 when it has failed,
    is paused or rolled back, or on a time-out; 2 when the hub could not be asked.
    """
    from stowage.report import rollout as rolling

    name = workload_name(reference, "rolled out")
    with looking():
        at = hub.connection() if wait else hub.quick()
        key = (hub.namespace or at.namespace, name)
        if wait:
            watch = rolling.RolloutWait(seconds=timeout)
            well = with_hub(at, lambda client: rolling.wait(client, key, output, watch))
        else:
            well = rolling.show(at, key, output)
    command.exit(0 if well else 1)


@rollout.command()
@_arguments
@click.option("--wave", default="", help="The wave that is approved.  [default: that which waits]")
def approve(wave: str, **where: Any) -> None:
    """Let the rollout go on after the wave that waits for an approval.

    Needs the verb approve on the Workload, and patch as any edit does.
    """
    _carry_out("approve", wave=wave, **where)


def _carry_out(
    verb: str,
    *,
    reference: tuple[str, ...],
    hub: HubOptions,
    wait: bool,
    timeout: float,
    wave: str = "",
) -> None:
    """Make the edit; with --wait exit with 0 if it ends Complete or as wanted, else with 1."""
    from stowage.report import rollout as rolling

    name = workload_name(reference, "rolled out")
    make = rolling.approve(wave) if verb == "approve" else rolling.VERBS[verb]
    wanted = rolling.ENDS.get(verb, "")
    at = hub.written()
    key = (hub.namespace or at.namespace, name)

    async def run(client: ApiClient) -> bool:
        written = await rolling.write(client, key, make)
        if not wait:
            return True
        watch = rolling.RolloutWait(seconds=timeout, wanted=wanted, edit=written)
        return await rolling.wait(client, key, "table", watch)

    click.get_current_context().exit(0 if with_hub(at, run, moves=True) else 1)


for _verb, _does in {
    "pause": "Have no further cluster begin; those that have begun end.",
    "resume": "Go on after a pause.",
    "abort": "Give the revision up: every cluster goes back to the stable one. The spec stays.",
    "retry": "Try the clusters again that have failed, or the revision that was given up by abort.",
}.items():
    rollout.command(_verb, help=_does)(_arguments(partial(_carry_out, _verb)))
