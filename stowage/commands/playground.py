"""`stowage playground`: a hub and members on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stowage.commands.options import OUTPUT, PATH, Commands, interruptible
from stowage.console.terminal import say

if TYPE_CHECKING:
    from pathlib import Path


@click.group(cls=Commands)
def playground() -> None:
    """A hub and members on this machine."""


DIRECTORY = click.option(
    "--dir",
    "directory",
    type=PATH,
    default=".playground",
    show_default=True,
    help="Where kubeconfigs, logs and data lie.",
)


@playground.command()
@DIRECTORY
@click.option("--members", default=3, show_default=True, type=click.IntRange(0, 100))
@click.option("--provider", type=click.Choice(["auto", "local", "kind"]), default="auto")
@click.option("--no-run", is_flag=True, help="Do not start controller and propagator.")
@click.option("--image", help="Run both on the hub from this image of the Docker engine (kind).")
@click.option(
    "--node-image", help="What kind's nodes are made of, such as an image of your own mirror."
)
@click.option(
    "--shards",
    type=click.IntRange(1, 64),
    metavar="N",
    help="Share out the members among N propagators, and run one more; as it is when left out.",
)
@OUTPUT
def up(
    directory: Path,
    members: int,
    provider: str,
    no_run: bool,
    image: str | None,
    node_image: str | None,
    shards: int | None,
    output: str,
) -> None:
    """Bring it up, or what of it is missing."""
    from stowage.console.progress import Lines
    from stowage.playground import ground

    with interruptible(""):  # the playground itself says what is left
        ground.up(
            directory.resolve(),
            members=members,
            provider=provider,
            run=not no_run,
            image=image,
            node_image=node_image,
            shards=shards,
            progress=Lines(),
        )
    _show_playground(directory, output)


@playground.command()
@DIRECTORY
def down(directory: Path) -> None:
    """End it, and remove its data."""
    from stowage.console.progress import Lines
    from stowage.playground import ground

    with interruptible("part of it may be left; the same command goes on from there"):
        ground.down(directory.resolve(), progress=Lines())


@playground.command()
@DIRECTORY
@OUTPUT
def status(directory: Path, output: str) -> None:
    """Say what runs."""
    _show_playground(directory, output)


@playground.command(hidden=True)
@DIRECTORY
def demo(directory: Path) -> None:
    """Apply the examples to a playground that is up, and show what happened."""
    from stowage.console.progress import Lines
    from stowage.playground import demo as show

    with interruptible("what is applied already stays"):
        show.run(directory.resolve(), progress=Lines(), out=say)


def _show_playground(directory: Path, form: str) -> None:
    from stowage.console import output
    from stowage.playground import ground

    found = ground.status(directory.resolve())
    clusters = output.table(found["clusters"], ("name", "role", "ready", "kubeconfig"))
    processes = output.table(found["processes"], ("name", "running", "http", "log"))
    parts = [clusters, *([processes] if found["processes"] else [])]
    parts.append(ground.exported(directory.resolve()))
    output.show(found, form, text="\n\n".join(parts))
