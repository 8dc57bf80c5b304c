"""What people see while they wait: one line on a terminal, few plain lines elsewhere."""

from __future__ import annotations

import io

from stowage.console.output import table
from stowage.console.progress import Lines


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
