"""`stowage import`: objects of other systems become ours."""

from __future__ import annotations

import click


@click.command("import")
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    required=True,
    metavar="FILE",
    help="Objects to import: a file, a folder, or - for standard input; may be given again.",
)
@click.argument("more", nargs=-1, metavar="[FILE]...")
@click.option("-n", "--namespace", default="", help="Of objects that name none.")
@click.option(
    "--lossy", is_flag=True, help="Print also where something that was asked for is lost."
)
def import_(files: tuple[str, ...], more: tuple[str, ...], namespace: str, lossy: bool) -> None:
    """Turn objects of other systems that place workloads into Stowage's; touch nothing.

    They are OpenKruise, Kosmos, Koordinator and scheduler-plugins. The YAML goes to standard
    output. Notes on standard error say of each field that changed what became of it. Where
    something cannot be kept true, nothing is printed and the exit code is 1.
    """
    from stowage.importing import command

    command.run((*files, *more), namespace, lossy=lossy)
