"""`stowage plugins`: the plugins of each profile; the command asks no hub and no controller."""

from __future__ import annotations

from pathlib import Path

import click

from stowage.commands.options import OUTPUT, PLUGINS


@click.command("plugins")
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    help="A SchedulerConfiguration; without it, what runs without one.",
)
@PLUGINS
@OUTPUT
def plugins_(config_file: Path | None, plugins: tuple[str, ...], output: str) -> None:
    """Show the plugins of each profile at each point: weights, origins, arguments.

    They stand in the order in which a pass calls them. Below are those that are installed and that
    no point enables. A configuration that the controller would refuse is refused with its words.
    """
    from stowage.report import plugins as planning

    planning.show(config_file, plugins, output)
