"""What reaches a terminal: text to be read, whoever wrote it."""

from __future__ import annotations

import io
import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

import stowage
from crds.fields.why import ChangeCause
from stowage import cli
from stowage.console import words
from stowage.console.output import manifests, show, table
from stowage.console.progress import Lines
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
    data = {"console/output.py", "importing/command.py", "wrapping/command.py"}
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


TEXTS = [
    "1e3",
    "0x1F",
    "y",
    "n",
    "no",
    "null",
    "0o644",
    "07",
    "1_000",
    "+1",
    "12:30",
    "~",
    "-",
    ".5",
]


def test_texts_stay_texts_for_every_reader_of_what_is_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """kubectl reads `1e3` as a number and `y` as a flag where PyYAML reads texts."""
    others = ["=", "", "a: b", "two\nlines\n"]
    manifests([{"data": dict(enumerate(TEXTS + others))}])
    show({"data": TEXTS + others}, "yaml", text="")
    printed = capsys.readouterr().out
    for text in TEXTS:
        assert re.findall(rf"(?:- |: )(['\"]){re.escape(text)}\1$", printed, re.MULTILINE), text


def test_a_bare_equals_sign_is_text() -> None:
    """PyYAML has a type for it, and cannot make anything of that."""
    (document,) = parse("x.yaml", "{kind: Pod, command: [test, a, =, b]}")
    assert document.body["command"] == ["test", "a", "=", "b"]


NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.proves("U1")
@pytest.mark.parametrize("word", ["{0}", "{", "{name.__class__}", "Moved"])
def test_a_cause_that_is_not_known_is_told_as_it_is(word: str) -> None:
    assert words.cause(word, "zone-1") == f"{word} zone-1"
    assert words.cause(word, "") == word


@pytest.mark.proves("U1")
def test_a_cause_that_is_known_is_told_in_words() -> None:
    assert words.cause("ClusterGone", "{0}") == "cluster {0} gone"
    assert words.cause("Scaled", "") == "scaled"
    assert words.cause("ClusterLost", "m1") == "cluster m1 lost"


@pytest.mark.proves("U1")
@pytest.mark.parametrize("cause", ChangeCause)
def test_every_cause_of_ours_has_words(cause: ChangeCause) -> None:
    assert not words.cause(cause, "m1").startswith(cause)


@pytest.mark.proves("U1")
@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-10:00", "soon"])
def test_a_time_that_no_clock_here_shows_is_told_as_it_is(text: str) -> None:
    assert words.moment(text, NOW) == text


class _Clock:
    def __init__(self):
        self.seconds = 0.0

    def monotonic(self):
        return self.seconds


class _Terminal(io.StringIO):
    def isatty(self):
        return True


def _lines(out, clock):
    return Lines(out=out, clock=clock)


def test_plain_lines_come_every_five_seconds_and_at_the_end():
    out, clock = io.StringIO(), _Clock()
    lines = _lines(out, clock)
    for done in range(21):
        lines.step("Packages built", done, 20)
        clock.seconds += 1.0
    assert out.getvalue().splitlines() == [
        "Packages built: 0 of 20 (0 s)",
        "Packages built: 5 of 20 (5 s)",
        "Packages built: 10 of 20 (10 s)",
        "Packages built: 15 of 20 (15 s)",
        "Packages built: 20 of 20 (20 s)",
    ]


def test_the_end_is_said_once():
    out = io.StringIO()
    lines = _lines(out, _Clock())
    lines.step("Clusters ready", 4, 4)
    lines.step("Clusters ready", 4, 4)
    assert out.getvalue() == "Clusters ready: 4 of 4 (0 s)\n"


def test_a_terminal_has_one_line_that_is_written_over():
    out, clock = _Terminal(), _Clock()
    lines = _lines(out, clock)
    for done in range(3):
        lines.step("Clusters ready", done, 2)
        clock.seconds += 1.0
    assert out.getvalue().count("\n") == 1
    assert out.getvalue().split("\r\x1b[K")[-1] == "Clusters ready: 2 of 2 (2 s)\n"


def test_another_matter_begins_a_line_of_its_own():
    out, clock = _Terminal(), _Clock()
    lines = _lines(out, clock)
    lines.step("Fetching Go modules", 7)
    lines.say("found")
    assert out.getvalue() == "\r\x1b[KFetching Go modules: 7 (0 s)\nfound\n"


def test_tables_align_under_their_headings():
    rows = [{"name": "hub", "ready": True}, {"name": "member-1", "ready": False}]
    assert table(rows, ("name", "ready")) == "NAME       READY\nhub        yes\nmember-1   no"
