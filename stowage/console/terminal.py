"""The only way of text to a terminal, with control characters made visible.

Names, messages and labels come from servers and files that others control, and a terminal obeys
control sequences in them: colours, titles, lines written over. All text of a command passes here.
"""

from __future__ import annotations

import click

from machinery.types.bounds import shown


def say(text: str, *, err: bool = False) -> None:
    """Print the text, on standard error where it is not the result of the command."""
    click.echo(shown(text), err=err)
