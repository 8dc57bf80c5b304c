"""The man pages of the commands."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from stowage.cli import cli
from stowage.packaging import forms
from website import man, processes

FOLDER = forms.ROOT / "deploy" / "man"
OPTION = re.compile(r"(?m)^ +(-[\w-]+.*?)(?:  |$)")


def commands(path: tuple[str, ...], command: click.Command) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            if not below.hidden:
                yield from commands((*path, name), below)


def named(text: str) -> list[str]:
    return sorted(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", text))


@pytest.mark.proves("PK35")
def test_each_command_has_a_page_with_the_options_of_its_help() -> None:
    processes.commands()  # click keeps the names of --help by which it was first asked
    paths = list(commands((), cli))
    assert len(paths) > 40
    assert {each.name for each in FOLDER.iterdir()} == {
        f"{'-'.join(('stowage', *path))}.1" for path in paths
    }
    for path in paths:
        text = CliRunner().invoke(cli, [*path, "--help"], terminal_width=300).output
        told = [
            each for line in OPTION.findall(text.partition("Options:")[2]) for each in named(line)
        ]
        page = (FOLDER / f"{'-'.join(('stowage', *path))}.1").read_text().replace("\\-", "-")
        terms = re.findall(r"(?m)^\.TP\n\.B (-.*)$", page.partition(".SH OPTIONS")[2])
        assert sorted(each for term in terms for each in named(term)) == sorted(told), path
        assert "--help" in told


@pytest.mark.proves("PK35")
def test_the_wheel_installs_them_where_man_looks() -> None:
    wheel = tomllib.loads((forms.ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]  # fmt: skip
    assert wheel["shared-data"] == {"deploy/man": "share/man/man1"}


@pytest.mark.proves("PK35")
def test_the_check_names_a_page_that_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert man.main([], tmp_path) == 0
    assert man.main(["--check"], tmp_path) == 0
    (tmp_path / "stowage.1").write_text("old")
    (tmp_path / "stowage-old.1").write_text("old")
    assert man.main(["--check"], tmp_path) == 1
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["stowage-old.1", "stowage.1"]  # fmt: skip


def test_nothing_in_a_text_is_a_request() -> None:
    assert man._text(".x") == "\\&.x"
    assert man._text('a-b \\ "c"') == "a\\-b \\e \\(dqc\\(dq"


@pytest.mark.long
@pytest.mark.proves("PK35")
def test_groff_takes_each_page() -> None:
    for each in sorted(FOLDER.iterdir()):
        command = ["groff", "-man", "-Tutf8", "-ww", "-z", str(each)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stderr == "", each.name
