"""Writes deploy/man/, the man pages of the commands: `python -m website.man`, or `--check`.

Each page has the words of `--help`, as click gives them. The wheel installs them in share/man.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from machinery.release import release
from stowage.cli import cli
from website.reference import written

FOLDER = Path(__file__).resolve().parent.parent / "deploy" / "man"
_HEADER = '.\\" Generated: `make reference` writes it.\n'


def pages() -> dict[str, str]:
    """Return the text of each page, by file name."""
    return {f"{'-'.join(path)}.1": _page(path, each) for path, each in _walk(("stowage",), cli)}


def _walk(
    path: tuple[str, ...], command: click.Command
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name, below in sorted(command.commands.items()):
            if not below.hidden:
                yield from _walk((*path, name), below)


def _page(path: Sequence[str], command: click.Command) -> str:
    context = click.Context(command, info_name=" ".join(path), **cli.context_settings)
    # As texts are broken at the width of the page, each paragraph is one line.
    first, *more = [
        " ".join(part.split()) for part in (command.help or "").replace("\b", "").split("\n\n")
    ]
    usage = " ".join(command.collect_usage_pieces(context))
    parts = [
        f'{_HEADER}.TH "{"-".join(path).upper()}" "1" "" "Stowage {release()}" "Stowage"',
        f".SH NAME\n{_text('-'.join(path))} \\- {_text(first.rstrip('.'))}",
        f".SH SYNOPSIS\n.B {_text(' '.join(path))}\n{_text(usage)}",
        ".SH DESCRIPTION\n" + "\n.PP\n".join(_text(each) for each in (first, *more)),
        ".SH OPTIONS\n" + "\n".join(_options(command, context)),
    ]
    if isinstance(command, click.Group):
        below = sorted((name, each) for name, each in command.commands.items() if not each.hidden)
        listed = (
            _item(f"{'-'.join((*path, name))}(1)", each.get_short_help_str(limit=200))
            for name, each in below
        )
        parts.append(".SH COMMANDS\n" + "\n".join(listed))
    if len(path) > 1:
        parts.append(f".SH SEE ALSO\n.BR {_text('-'.join(path[:-1]))} (1)")
    return "\n".join(parts) + "\n"


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    for each in command.get_params(context):
        # an argument stands in the synopsis
        record = each.get_help_record(context) if isinstance(each, click.Option) else None
        if record:
            yield _item(*record)


def _item(term: str, text: str) -> str:
    return f".TP\n.B {_text(term)}\n{_text(text)}"


def _text(text: str) -> str:
    """Return a text for roff: no word of it is a request, and hyphens can be copied."""
    made = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")
    return f"\\&{made}" if made.startswith((".", "'")) else made


def main(arguments: Sequence[str] | None = None, folder: Path = FOLDER) -> int:
    """Write the pages, or with `--check` name those that differ; 1 when one does."""
    return written(
        pages(), folder, arguments, about="python -m website.man", text=__doc__, suffix=".1"
    )


if __name__ == "__main__":
    sys.exit(main())
