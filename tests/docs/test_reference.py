"""The reference has each field, option, metric, reason and Event, and nothing else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from stowage.cli import cli
from stowage.report import advice
from tests.docs.conftest import ROOT
from tests.test_monitoring import fresh
from website import reference
from website.reasons import HELPS, attribute_docs, enums

pytestmark = pytest.mark.xdist_group("monitoring")  # which starts the processes that tell metrics
FOLDER = ROOT / "docs" / "reference"


def tables(text: str) -> list[list[str]]:
    """The cells of each row of a page's tables, their headings aside."""
    return [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `")]


def sections(page: str, level: str = "##") -> dict[str, str]:
    """What stands below each heading of a level."""
    text = (FOLDER / page).read_text()
    parts = re.split(rf"^{level} (.+)$", text, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def fields(schema: dict[str, Any], path: str) -> Iterator[str]:
    for name, below in schema.get("properties", {}).items():
        yield f"{path}.{name}"
        yield from fields(below, f"{path}.{name}")
    if "items" in schema:
        yield from fields(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from fields(schema["additionalProperties"], f"{path}.*")


CRDS = [
    each
    for each in sorted((ROOT / "crds").glob("*.yaml"))
    if each.stem not in ("admission", "zz-guard")
]


@pytest.mark.proves("DOC4")
def test_each_reason_and_condition_says_what_it_tells() -> None:
    silent = [
        f"{of.__name__}.{each.name}"
        for of in enums()
        for each in of
        if not attribute_docs(of).get(each.name)
    ]
    assert not silent


@pytest.mark.proves("DOC4")
def test_each_field_and_each_column_of_a_kind() -> None:
    assert len(CRDS) >= 8
    for crd in CRDS:
        version = yaml.safe_load(crd.read_text())["spec"]["versions"][0]
        parts = version["schema"]["openAPIV3Schema"]["properties"]
        expected = [
            field
            for part in ("spec", "status")
            if part in parts
            for field in fields(parts[part], part)
        ]
        page = (FOLDER / "kinds" / crd.name).with_suffix(".md").read_text()
        told, _, columns = page.partition("## Columns")
        assert re.findall(r"^\| `([^`]+)`", told, re.MULTILINE) == expected, crd.stem
        assert re.findall(r"^\| (?!column|---)([^|]+) \|", columns, re.MULTILINE) == [
            each["name"] for each in version["additionalPrinterColumns"]
        ], crd.stem


def options(command: click.Command, path: str) -> Iterator[tuple[str, set[str]]]:
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            yield from options(below, f"{path} {name}")
    names = [
        (each.opts, each.secondary_opts)
        for each in command.params
        if each.param_type_name == "option"
    ]
    yield path, {name for both in names for some in both for name in some}


@pytest.mark.proves("DOC4")
def test_each_command_and_each_option() -> None:
    told = {
        name: {found for row in tables(text) for found in re.findall(r"`(--?[a-zA-Z-]+)`", row[0])}
        for name, text in sections("commands.md").items()
    }
    assert told == dict(each for each in options(cli, "stowage") if each[0] != "stowage")


@pytest.mark.proves("DOC4")
def test_each_metric() -> None:
    shown = [row[0].strip("`") for row in tables((FOLDER / "metrics.md").read_text())]
    told = {each.partition("{")[0]: each for each in shown}
    exposed = {
        re.sub(r"_(bucket|count|sum|created)$", "", name): labels["labels"]
        for name, labels in fresh().items()
        if name.startswith("stowage_")
    }
    ours = {name for name in exposed if f"{name}_total" not in exposed}
    assert set(told) == ours
    for name, shown in told.items():
        labels = [each for each in exposed[name] if each != "le"]
        assert shown == (f"{name}{{{','.join(labels)}}}" if labels else name)


@pytest.mark.proves("DOC4")
def test_each_reason_and_each_event() -> None:
    told = {
        name: [row[0].strip("`") for row in tables(text)]
        for name, text in sections("reasons.md", "###").items()
    }
    assert told == {each.__name__: [reason.value for reason in each] for each in enums()}


@pytest.mark.proves("DOC4")
def test_each_reason_has_the_help_that_status_prints() -> None:
    told = {
        name: {row[0].strip("`"): row[2:] for row in tables(text)}
        for name, text in sections("reasons.md", "###").items()
    }
    assert told["MovingReason"]["NotReadyThere"] == [advice.MOVING["NotReadyThere"]]
    for name, helps in HELPS.items():
        assert {word: cells[0] for word, cells in told[name].items() if cells} == {
            word: help_ for word, help_ in helps.items() if word in told[name]
        }


def literal_reasons() -> Iterator[str]:
    """Where an Event is recorded, or a condition made, with a reason that no enum has."""
    for package in ("controller", "propagator"):
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text()
            for node in ast.walk(ast.parse(text)) if 'reason="' in text else ():
                if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(
                    (".event", "condition")
                ):
                    for each in node.keywords:
                        if each.arg == "reason" and isinstance(each.value, ast.Constant):
                            yield f"{path}:{node.lineno}: {each.value.value}"


@pytest.mark.proves("DOC4")
def test_each_reason_that_the_code_gives_is_of_an_enum() -> None:
    assert list(literal_reasons()) == []


@pytest.mark.proves("DOC4")
def test_each_event_has_who_records_it() -> None:
    events = (FOLDER / "reasons.md").read_text().partition("## Events")[2]
    cells = [row[1] for row in tables(events)]
    assert set(cells) == {"controller", "propagator"}


@pytest.mark.proves("DOC4")
def test_each_rule_of_a_role_has_its_row() -> None:
    text = (
        (ROOT / "deploy/rbac.yaml").read_text()
        + "\n---\n"
        + (ROOT / "deploy/users.yaml").read_text()
    )
    roles = [
        each for each in yaml.safe_load_all(text.replace("${", "$(")) if each and "rules" in each
    ]
    told = sections("rights.md")
    assert list(told) == [f"{each['kind']} {each['metadata']['name']}" for each in roles]
    for role, lines in zip(roles, told.values(), strict=True):
        shown = [re.findall(r"`([^`]+)`", " | ".join(row[:3])) for row in tables(lines)]
        assert shown == [
            [
                *(each or "core" for each in rule.get("apiGroups", ())),
                *rule.get("resources", rule.get("nonResourceURLs", ())),
                *rule.get("resourceNames", ()),
                *rule["verbs"],
            ]
            for rule in role["rules"]
        ]


def test_a_change_is_told_and_then_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gone.md").write_text("of another release")
    assert reference.main(["--check"], folder=tmp_path) == 1
    assert "gone.md differs" in capsys.readouterr().out
    assert reference.main([], folder=tmp_path) == 0
    assert reference.main(["--check"], folder=tmp_path) == 0
