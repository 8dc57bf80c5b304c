"""What reaches a terminal: text to be read, whoever wrote it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

import stowage
from stowage import cli
from stowage.console.output import manifests, show, table
from stowage.console.terminal import say
from stowage.console.yamltext import dump
from stowage.fleet.manifests import parse

ANSI = "\x1b]0;title\x07\x1b[2J\u202e\x9b31m"


@pytest.mark.proves("S10")
@pytest.mark.parametrize("err", [False, True])
def test_a_text_is_shown_and_not_obeyed(capsys: pytest.CaptureFixture[str], err: bool) -> None:
    say(f"a\t{ANSI}\nb", err=err)
    printed = capsys.readouterr()
    assert (printed.err if err else printed.out) == "a\t?]0;title??[2J??31m\nb\n"


@pytest.mark.proves("S10")
@pytest.mark.parametrize("output", ["json", "yaml", "table"])
def test_no_form_of_data_is_obeyed(capsys: pytest.CaptureFixture[str], output: str) -> None:
    rows = [{"name": ANSI, ANSI: 1}]
    show(rows, output, text=table(rows, ["name"]))
    printed = capsys.readouterr().out
    assert not any(
        (c < " " and c != "\n") or "\x7f" <= c <= "\x9f" or c == "\u202e" for c in printed
    )
    if output != "table":
        assert {"json": json.loads, "yaml": yaml.safe_load}[output](printed) == rows


@pytest.mark.proves("S10")
def test_there_is_one_way_to_a_terminal() -> None:
    """A new command that prints by itself would print what a server sent."""
    home = Path(stowage.__file__).parent
    printing = {
        str(path.relative_to(home))
        for path in home.rglob("*.py")
        if "click.echo" in (text := path.read_text()) or " print(" in text
    }
    data = {"console/output.py", "importing/command.py"}
    assert printing <= {"console/terminal.py", *data}, "the others: YAML and JSON"


@pytest.mark.proves("S10")
def test_what_is_imported_is_printed_as_data() -> None:
    body = {"kind": ANSI, ANSI: [f"a\n{ANSI}\nb", "\u202e"]}
    text = dump([body])
    assert not any((c < " " and c != "\n") or "\x7f" <= c <= "\x9f" or c == "\u202e" for c in text)
    assert yaml.safe_load(text) == body


@pytest.mark.proves("S10")
def test_the_words_of_a_file_are_not_obeyed(tmp_path: Path) -> None:
    file = tmp_path / "odd.yaml"
    file.write_text(
        '{"apiVersion": "v1", "kind": "\\u001b[31mOdd", "metadata": {"name": "\\u001b[2J"}}'
    )
    ran = CliRunner().invoke(cli.cli, ["plan", "-f", str(file), "--fleet", str(file)])
    words = ran.output + str(ran.exception or "")
    assert "\x1b" not in ran.output
    assert words


TEXTS = ["1e3", "y", "no", "0o644", "1_000", "=", "12:30", "~", ".5", "a: b", "two\nlines\n"]


def test_texts_stay_texts_for_every_reader_of_what_is_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """kubectl reads `1e3` as a number and `y` as a flag where PyYAML reads texts."""
    manifests([{"data": dict(enumerate(TEXTS))}])
    show({"data": TEXTS}, "yaml", text="")
    printed = capsys.readouterr().out
    for text in ("1e3", "y", "no", "0o644", "1_000", "12:30", "~", ".5"):
        assert re.findall(rf"(?:- |: )(['\"]){re.escape(text)}\1$", printed, re.MULTILINE), text


def test_a_bare_equals_sign_is_text() -> None:
    """PyYAML has a type for it, and cannot make anything of that."""
    (document,) = parse("x.yaml", "{kind: Pod, command: [test, a, =, b]}")
    assert document.body["command"] == ["test", "a", "=", "b"]
