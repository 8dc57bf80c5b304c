"""Options of all commands: one meaning each, that of kubectl, and help that is not cut."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from stowage.cli import cli
from stowage.commands.options import TIMEOUT


def commands(path: str = "", command: click.Command = cli) -> Iterator[tuple[str, click.Command]]:
    """Every command by its words."""
    yield path, command
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            yield from commands(f"{path} {name}".strip(), below)


def options(name: str) -> dict[str, click.Option]:
    """The option of that name of each command that has it."""
    return {
        path: each
        for path, command in commands()
        for each in command.params
        if isinstance(each, click.Option) and name in each.opts
    }


@pytest.mark.proves("Q17")
def test_a_namespace_is_that_of_objects_and_never_that_of_stowage() -> None:
    short = options("-n")
    assert short == options("--namespace")
    assert {path: each.help for path, each in short.items() if "Stowage" in (each.help or "")} == {}
    system = options("--system-namespace")
    assert {path: (each.help, each.default) for path, each in system.items()} == dict.fromkeys(
        system, ("Where Stowage lives.", "stowage-system")
    )
    assert {"install", "join", "controller", "status", "ui"} <= system.keys()


@pytest.mark.proves("Q17")
def test_an_output_is_said_by_the_same_words() -> None:
    plain = ("table", "json", "yaml")
    found = options("--output")
    assert {"pods", "tenant list", "status", "explain"} <= found.keys()
    for path, each in found.items():
        assert isinstance(each.type, click.Choice), path
        objects = each.type.choices == ("table", "wide", "name", "json", "yaml")
        assert objects is (path in ("pods", "tenant list")), path
        assert objects or each.type.choices == plain, path


@pytest.mark.proves("Q17")
@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ("30s", 30),
        ("5m", 300),
        ("1h30m", 5400),
        ("500ms", 0.5),
        ("1.5m", 90),
        ("90", 90),
        ("0", 0),
        ("soon", None),
        ("-3s", None),
        ("5 m", None),
        ("5m3", None),
        ("", None),
    ],
)
def test_a_timeout_is_a_duration_or_plain_seconds(given: str, seconds: float | None) -> None:
    asked = []

    @click.command()
    @TIMEOUT
    def command(timeout: float) -> None:
        asked.append(timeout)

    done = CliRunner().invoke(command, ["--timeout", given])
    if seconds is None:
        assert done.exit_code == 2
        assert "is no time such as 30s, 5m or 1h30m" in done.output
    else:
        assert asked == [seconds], done.output
    assert {type(each.callback) for each in options("--timeout").values()} != {type(None)}


@pytest.mark.proves("Q22")
@pytest.mark.parametrize("path", [path for path, _ in commands()])
def test_no_help_is_cut(path: str) -> None:
    printed = CliRunner().invoke(cli, [*path.split(), "--help"])
    assert printed.exit_code == 0
    cut = [line for line in printed.output.splitlines() if line.endswith(("...", "…"))]
    assert [line for line in cut if not line.startswith("Usage:")] == []
