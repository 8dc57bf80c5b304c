"""`stowage backup` and `stowage restore`: all that a hub knows of Stowage, in a file."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

import click

from stowage.commands.options import (
    PATH,
    SYSTEM,
    HubOptions,
    home_options,
    object_options,
    with_hub,
)
from stowage.console.terminal import say

if TYPE_CHECKING:
    from pathlib import Path

WORKLOAD = re.compile(r"(?:(?:wl|workloads?(?:\.stowage\.dev)?)/)?([a-z0-9][a-z0-9.-]{0,252})")


@click.command()
@home_options
@click.option(
    "-o",
    "--file",
    "file",
    metavar="FILE",
    type=PATH,
    help="The file, which its owner alone may read; standard output when left out.",
)
@click.option("--without-secrets", is_flag=True, help="Leave the values of Secrets out.")
def backup(hub: HubOptions, file: Path | None, without_secrets: bool) -> None:
    """Write all that the hub knows of Stowage into a file.

    A List of all objects of its kinds with their statuses, of registrations, tenants, the
    ControllerRevisions of Workloads, and of what Workloads need of the hub's other objects. Kinds
    and processes are not in it: `stowage install` makes these.
    """
    from stowage.setup import backup as making
    from stowage.setup.backup_file import private

    if file is None and sys.stdout.isatty():
        raise click.UsageError("a backup holds Secrets: name a file by -o, or redirect it")

    async def whole(client: Any) -> tuple[making.Backup, Any]:
        async def into(open_file: Any) -> tuple[making.Backup, Any]:
            one = making.Backup(
                client, open_file, home=hub.system_namespace, secrets=not without_secrets
            )
            return one, await one.write()

        if file is None:
            return await into(sys.stdout.buffer)
        with private(file) as opened:
            return await into(opened)

    made, origin = with_hub(hub.connection(), whole)
    number = sum(made.counts.values())
    say(f"{number} objects of the hub {origin.hub}: {_counted(made.counts)}", err=True)
    if made.left_out:
        listed = "\n  ".join(made.left_out)
        say(f"left out, as a Secret is in their spec:\n  {listed}", err=True)


def _counted(counts: Any) -> str:
    return ", ".join(f"{number} {kind}" for kind, number in counts.items())


@click.command()
@click.argument("names", nargs=-1, metavar="[FILE|wl/NAME...]")
@object_options("Of the Workloads that are accepted; the context's when left out.")
@SYSTEM
@click.option("--dry-run", is_flag=True, help="Only tell what would be made.")
@click.option("--status", is_flag=True, help="Show what of a restore waits for a person.")
@click.option(
    "--accept", is_flag=True, help="Let the hub's version of these Workloads win on all members."
)
@click.option("--all", "all_", is_flag=True, help="With --accept: of all, which ends the restore.")
def restore(
    names: tuple[str, ...],
    hub: HubOptions,
    dry_run: bool,
    status: bool,
    accept: bool,
    all_: bool,
) -> None:
    """Make the objects of a backup on a hub; nothing that runs on members is set back.

    What is there already stays as it is. Objects on members that were written later than the
    backup stay too, until their Workload is edited, or accepted. Run it again where it was
    interrupted.
    """
    from pathlib import Path

    from stowage.setup import restore as restoring

    home = hub.system_namespace
    _refuse(names, dry_run=dry_run, status=status, accept=accept, all_=all_)
    if status:
        with_hub(hub.connection(), lambda api: restoring.show_left(api, home, say=say))
        return
    if accept and all_:
        with_hub(hub.written(), lambda api: restoring.accept_all(api, home, say=say))
        return
    if accept:
        workloads = [_workload(each) for each in names]
        at = hub.written()
        namespace = hub.namespace or at.namespace
        with_hub(at, lambda api: restoring.accept(api, workloads, namespace, say=say))
        return
    _restore(hub, Path(names[0]), home, dry_run=dry_run)


def _restore(hub: HubOptions, file: Path, home: str, *, dry_run: bool) -> None:
    from machinery.release import release
    from stowage.setup import restore as restoring

    found = restoring.content(file)

    async def whole(api: Any) -> None:
        await restoring.check(api, found, ours=release(), home=home)
        if dry_run:
            await restoring.show(api, found, say=say)
            return
        one = restoring.Restore(api, found, home, say)
        await one.run()
        say(f"{one.counts['restored']} objects restored, {one.counts['there']} were there already")
        say("what members have that is younger stays: see `stowage restore --status`")

    told = f"neither process acts on what is restored so far: `stowage restore {file}` goes on"
    at = hub.connection() if dry_run else hub.written()
    with_hub(at, whole, interrupted="" if dry_run else told)


def _refuse(
    names: tuple[str, ...], *, dry_run: bool, status: bool, accept: bool, all_: bool
) -> None:
    """Raise UsageError for options and arguments that do not go together."""
    if status + accept + dry_run > 1:
        raise click.UsageError("--dry-run, --status and --accept are each for themselves")
    if all_ and (not accept or names):
        raise click.UsageError("--all is for --accept, without names")
    if status and names:
        raise click.UsageError("--status names nothing")
    if accept and not (names or all_):
        raise click.UsageError("--accept wl/NAME, or --accept --all")
    if not (accept or status) and len(names) != 1:
        raise click.UsageError("name one file of a backup")


def _workload(name: str) -> str:
    found = WORKLOAD.fullmatch(name)
    if found is None:
        raise click.UsageError(f"{name!r} is not wl/NAME")
    return found[1]
