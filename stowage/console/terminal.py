"""The one way of text to a terminal: shown to be read, and never obeyed.

Names, messages and labels come from servers and files of somebody else, and a terminal obeys what
it is sent: colours, titles, lines written over. Whatever a command prints as text passes here.
"""

from __future__ import annotations

import click

from machinery.types.bounds import shown


def say(text: str, *, err: bool = False) -> None:
    """Print it, on standard error where it is no result."""
    click.echo(shown(text), err=err)
