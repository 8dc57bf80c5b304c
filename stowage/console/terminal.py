"""The only way of text to a terminal: control characters are shown, never sent.

Names, messages and labels come from servers and files that others control, and a terminal obeys
control sequences in them: colours, titles, lines written over.
"""

from __future__ import annotations

import click

from machinery.types.bounds import shown


def say(text: str, *, err: bool = False) -> None:
    """Print the text, with `err` on standard error."""
    click.echo(shown(text), err=err)
