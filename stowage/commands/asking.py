"""`stowage plan` and `stowage explain`: what would be placed where, and why; both only read."""

from __future__ import annotations

from pathlib import Path

import click

from stowage.commands.options import where_of, where_options


@click.command()
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    required=True,
    metavar="FILE",
    help="Workloads: a file, a folder, or - for standard input; may be given again.",
)
@click.argument("more", nargs=-1, metavar="[FILE]...")
@where_options
def plan(
    files: tuple[str, ...],
    more: tuple[str, ...],
    kubeconfig: str | None,
    context: str | None,
    namespace: str | None,
    fleet: tuple[str, ...],
    config_file: Path | None,
    output: str,
) -> None:
    """Show what would be placed where if these files were applied; touch nothing."""
    from stowage import plan as planning  # noqa: PLC0415 - see stowage.cli

    where = where_of(kubeconfig, context, namespace, fleet, config_file)
    planning.show((*files, *more), where, output)


@click.command()
@click.argument("reference", nargs=-1, required=True, metavar="wl/NAME")
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="FILE",
    help="Explain what a plan of these Workloads would decide.",
)
@click.option("--controller", "url", help="Who to ask for the record.  [default: this machine's]")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help="The bearer token for a controller that asks for one.",
)
@click.option("--all", "everything", is_flag=True, help="Print every cluster.")
@where_options
def explain(
    reference: tuple[str, ...],
    files: tuple[str, ...],
    url: str | None,
    token_file: Path | None,
    everything: bool,
    kubeconfig: str | None,
    context: str | None,
    namespace: str | None,
    fleet: tuple[str, ...],
    config_file: Path | None,
    output: str,
) -> None:
    """Say why a Workload is where it is, cluster by cluster, and what would help the rest."""
    from stowage import explain as explaining  # noqa: PLC0415 - see stowage.cli

    try:
        name = explaining.reference(reference)
    except ValueError as e:
        raise click.UsageError(str(e)) from e
    explaining.show(
        name,
        where_of(kubeconfig, context, namespace, fleet, config_file),
        files=files,
        controller=explaining.controller(url, token_file),
        form=output,
        everything=everything,
    )
