"""The command line: `stowage`, also `kubectl stowage`.

A command reads its options, imports what it needs, so that `--help` is quick, and calls one
function. Foreseen faults exit with 1, wrong usage with 2. `status` exits with 1 when something
needs a person, so its faults exit with 2.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import click

from machinery import garbage
from stowage.commands import (
    asking,
    backup,
    clusters,
    install,
    itself,
    members,
    migrating,
    moving,
    playground,
    processes,
    pulling,
    rollout,
    running,
    tenants,
    upgrade,
    web,
    wrapping,
)
from stowage.commands.options import Commands
from stowage.console.terminal import say


def main() -> None:
    """Run the command. Exit codes: 0 done, 1 could not be done, 2 wrong usage."""
    garbage.loading()
    from machinery.errors import StowageError  # noqa: PLC0415 - --help needs none of it

    known: list[BaseException] = []
    try:
        cli(prog_name=sys.argv[0].rpartition("/")[2].replace("__main__.py", "stowage"))
    except* (StowageError, OSError) as faults:
        known += _flat(faults)
    for fault in known:
        say(f"error: {_told(fault)}", err=True)
    if known:
        sys.exit(1)


def _flat(faults: BaseExceptionGroup[Any]) -> Iterator[BaseException]:
    for fault in faults.exceptions:
        if isinstance(fault, BaseExceptionGroup):
            # tasks that run side by side fail as groups, which may be nested
            yield from _flat(fault)
        else:
            yield fault


def _told(fault: BaseException) -> str:
    """Return what is said of a fault; of a file its name first, without a number of Python's."""
    if isinstance(fault, OSError) and fault.filename and fault.strerror:
        return f"{fault.filename}: {fault.strerror}"
    return str(fault)


def complete() -> None:
    """Print what `kubectl stowage …` completes: it runs kubectl_complete-stowage with the words.

    The last one is not complete. The line after the names is a sum of flags of kubectl: 4 for no
    names of files.
    """
    from click.shell_completion import ShellComplete  # noqa: PLC0415 - this alone needs it

    *words, incomplete = sys.argv[1:] or [""]
    for each in ShellComplete(cli, {}, "stowage", "").get_completions(words, incomplete):
        say(str(each.value))
    say(":4")


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="stowage", prog_name="stowage", message="%(prog)s %(version)s")
def cli() -> None:
    """Places workloads across a fleet of Kubernetes clusters, and says why."""


for _command in (
    processes.controller,
    processes.propagator,
    processes.agent,
    install.install,
    install.uninstall,
    upgrade.upgrade,
    backup.backup,
    backup.restore,
    members.join,
    members.unjoin,
    pulling.invite,
    pulling.revoke,
    pulling.agents,
    members.rename,
    members.sweep,
    moving.drain,
    clusters.cordon,
    clusters.uncordon,
    clusters.clean,
    clusters.shards,
    moving.taint,
    moving.rebalance,
    moving.simulate,
    rollout.rollout,
    running.restart,
    running.pods,
    running.logs,
    tenants.tenant,
    asking.kinds,
    asking.plan,
    asking.explain,
    asking.history,
    asking.drift,
    asking.status,
    asking.plugins_,
    asking.import_,
    migrating.migrate,
    wrapping.wrap,
    web.ui,
    playground.playground,
    itself.version,
    itself.completion,
):
    cli.add_command(_command)
