"""`stowage wrap`: plain objects, such as a rendered chart, become Workloads."""

from __future__ import annotations

import sys

import click


@click.command()
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="FILE",
    help="Objects to wrap: a file, a folder, or - for standard input, the default; may be given "
    "again.",
)
@click.argument("more", nargs=-1, metavar="[FILE]...")
@click.option("-n", "--namespace", default="", help="Of objects that name none.")
@click.option(
    "--spec",
    "specs",
    multiple=True,
    metavar="[NAME=]FILE",
    help="Fields of spec, laid over each Workload, or over the one named; may be given again.",
)
@click.option(
    "--rest-with",
    default="",
    metavar="NAME",
    help="The Workload that takes along objects to which no other refers.",
)
def wrap(
    files: tuple[str, ...],
    more: tuple[str, ...],
    namespace: str,
    specs: tuple[str, ...],
    rest_with: str,
) -> None:
    """Make Workloads of plain objects, such as those of a chart; touch nothing.

    Each Deployment, StatefulSet, Job and so on becomes a Workload that takes along what belongs to
    it. Secrets, hooks and autoscalers stay as they are, for the hub. The YAML goes to standard
    output, notes to standard error.

    helm template web CHART | stowage wrap | kubectl apply -f -

    Helm 3: helm install web CHART --post-renderer stowage --post-renderer-args wrap

    Helm 4, by the plugin deploy/helm-plugin: helm install web CHART --post-renderer stowage-wrap
    """
    from stowage.wrapping import command

    named = (*files, *more)
    if not named and sys.stdin.isatty():
        raise click.UsageError("name the objects: -f FILE, or pipe them in")
    command.run(command.Wrapping(named or ("-",), namespace, specs, rest_with))
