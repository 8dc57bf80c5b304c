"""`stowage version` and `completion`: what the command says of itself."""

from __future__ import annotations

import click

from stowage.commands.options import OUTPUT, HubOptions, home_options
from stowage.console.terminal import say

SHELLS = ("bash", "zsh", "fish")


@click.command()
@home_options
@click.option("--client", is_flag=True, help="Of this command alone: no hub is asked.")
@OUTPUT
@click.pass_context
def version(command: click.Context, hub: HubOptions, client: bool, output: str) -> None:
    """Show the release of this command, and of the hub: its processes, its kinds, and its own.

    Exit code 1 when no hub can be asked: then the release of this command alone is on the standard
    output, and why on the standard error.
    """
    from stowage.report import version as reading

    asked = None if client else hub.quick
    command.exit(0 if reading.show(asked, hub.system_namespace, output) else 1)


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(command: click.Context, shell: str) -> None:
    """Print the script by which a shell completes commands and options.

    In ~/.bashrc: source <(stowage completion bash)

    In ~/.zshrc, after compinit: source <(stowage completion zsh)

    Once: stowage completion fish > ~/.config/fish/completions/stowage.fish
    """
    from click.shell_completion import get_completion_class

    of_shell = get_completion_class(shell)
    assert of_shell is not None  # noqa: S101 - click has each of SHELLS
    say(of_shell(command.find_root().command, {}, "stowage", "_STOWAGE_COMPLETE").source())
