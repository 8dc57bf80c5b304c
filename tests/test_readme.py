"""What the README and the indexes of the documents list is all that there is."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
import yaml

from crds.definition import KINDS, definition
from stowage.cli import cli
from stowage.importing.command import SYSTEMS
from tests.docs.blocks import misused

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text()


def sections(text: str = README) -> dict[str, str]:
    """The text below each heading of the second level."""
    parts = re.split(r"^## +(.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def rows(section: str) -> dict[str, str]:
    """The tables of a section: what each row says of its first cell."""
    cells = re.findall(r"^\| (.+?) \| (.+) \|$", section, re.MULTILINE)
    return {first: rest for first, rest in cells if set(first) != {"-"}}


@pytest.mark.proves("C34")
def test_what_is_kept_out_is_said() -> None:
    said = " ".join(sections()["What it does not do"].split())
    for what in (
        "scheduling of pods onto nodes",
        "autoscaling of clusters",
        "serverless or virtual-machine targets",
        "creation of clusters",
    ):
        assert what in said[: said.index("Members keep")]


def test_the_two_commands_come_first() -> None:
    first = next(iter(sections()))
    assert first == "Two commands"
    assert {"make demo", "make test"} <= set(re.findall(r"make \w+", sections()[first]))


@pytest.mark.proves("Q24")
def test_each_example_has_a_row_and_no_other() -> None:
    told = re.findall(r"^\| `(.+?)`", sections()["Examples"], re.MULTILINE)
    assert told == sorted(path.name for path in (ROOT / "examples").glob("*.yaml"))


@pytest.mark.proves("Q24")
def test_each_command_has_a_row_and_no_other() -> None:
    told: set[str] = set()
    for cell in rows(sections()["Commands"]):
        lines = re.findall(r"`([^`]+)`", cell)
        words = [line.removeprefix("stowage ").split()[0] for line in lines]
        group = cli.commands.get(words[0] if words else "")  # of `stowage tenant add`, `remove`
        below = set(group.commands) if isinstance(group, click.Group) else set()
        told |= set(words) - below
        assert [wrong for line in lines[:1] for wrong in misused(line)] == []
    assert told == set(cli.commands)


@pytest.mark.proves("Q24")
def test_each_system_that_can_be_imported_is_named() -> None:
    pages = {
        "README.md": rows(sections()["Commands"])["`stowage import -f FILE…`"],
        "docs/README.md": (DOCS / "README.md").read_text().partition("[Importing]")[2],
        "docs/import.md": (DOCS / "import.md").read_text().partition("\n## ")[0],
    }
    for page, text in pages.items():
        assert [each.name for each in SYSTEMS if each.name not in text] == [], page


@pytest.mark.proves("Q24")
def test_each_page_has_its_line_in_the_index() -> None:
    indexes = [DOCS / "README.md", DOCS / "decisions" / "README.md"]
    linked = {
        (index.parent / link).resolve()
        for index in indexes
        for link in re.findall(r"\]\(([^)#]+)\)", index.read_text())
    }
    assert len(linked) > 50
    assert {DOCS / f"reference/kinds/{kind.__name__.lower()}.md" for kind in KINDS} <= linked
    assert set(DOCS.rglob("*.md")) - {DOCS / "README.md"} - linked == set()


@pytest.mark.proves("Q24")
def test_the_page_says_which_kinds_the_roles_of_users_may_write() -> None:
    text = (ROOT / "deploy" / "users.yaml").read_text()
    writes = {
        role["metadata"]["name"].removeprefix("stowage-"): {
            resource.partition("/")[0]
            for rule in role["rules"]
            for resource in rule["resources"]
            if "create" in rule["verbs"]
        }
        for role in yaml.safe_load_all(text)
    }
    told = {
        name.strip("`"): {word.lower() for word in re.findall(r"\b[A-Z]\w+s\b", may)}
        for name, may in rows(sections((DOCS / "install.md").read_text())["Who may use it"]).items()
        if name != "who has"
    }
    assert told.pop("view") == {"memberclusters"}
    assert writes.pop("view") == set()
    assert told == writes
    plurals = {definition(kind)["spec"]["names"]["plural"] for kind in KINDS}
    assert writes["edit"] | writes["admin"] <= plurals - {"workloadquotas"}
