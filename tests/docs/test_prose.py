"""The pages are outlined by purpose, define their words, and are made of short sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.docs.conftest import ROOT

pytestmark = pytest.mark.proves("Q28")

DOCS = ROOT / "docs"
WRITTEN = sorted(
    [
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
        *(page for page in DOCS.rglob("*.md") if "reference" not in page.parts),
    ]
)
"""The pages that nothing generates."""
MOST_WORDS = 49
FENCES = re.compile(r"^( *```+).*?^\1$", re.MULTILINE | re.DOTALL)
BEGINS = re.compile(r"\s*(?:[-*] |\d+\. |#|\||$)")
"""A line that begins a paragraph of its own, an item, a heading or a row of a table."""
END = re.compile(r"(?<=[.!?:])\s+(?=[A-Z`\[*])")


def prose(text: str) -> Iterator[str]:
    """The paragraphs, items and cells of a page, without blocks of code and without markup."""
    whole: list[str] = []
    for line in [*re.sub(r"<[^>]+>", "", FENCES.sub("", text)).splitlines(), ""]:
        if BEGINS.match(line) and whole:
            yield " ".join(whole)
            whole = []
        if line.startswith("|"):
            yield from re.split(r"(?<!\\)\|", line.strip("|"))
        elif line.strip():
            whole.append(line)


def sentences(text: str) -> Iterator[str]:
    for part in prose(text):
        yield from (each for each in END.split(part.strip()) if " · " not in each)


def told(page: Path) -> str:
    return str(page.relative_to(ROOT))


def test_no_sentence_is_long() -> None:
    assert len(WRITTEN) > 40
    assert [
        f"{told(page)}: {each}"
        for page in WRITTEN
        for each in sentences(page.read_text())
        if len(each.split()) > MOST_WORDS
    ] == []


def test_a_long_sentence_is_seen_wherever_it_stands() -> None:
    long = "Word " * MOST_WORDS + "more"
    for text in (long, f"# A\n\nB. {long}\ngoes on.", f"- {long}", f"| a | {long} |"):
        assert max(len(each.split()) for each in sentences(text)) > MOST_WORDS
    text = f"```text\n{long}\n```\n{long[:200]}.\n{long[:200]}.\n\n{long[:200]}"
    assert max(len(each.split()) for each in sentences(text)) <= MOST_WORDS


def test_replicas_have_one_name() -> None:
    """Names of fields, metrics and columns are code, and stay what they are."""
    assert [
        f"{told(page)}: {part}"
        for page in WRITTEN
        for part in prose(page.read_text())
        for named in [re.sub(r"`[^`]+`", "", part)]
        if re.search(r"\b[Uu]nits?\b(?! and property tests)", named)
        if "whole units" not in named  # of a quantity
    ] == []


def test_the_glossary_defines_the_words_in_their_order() -> None:
    text = (DOCS / "concepts.md").read_text()
    rows = re.findall(
        r"^\| ([^|]+) \| (.+) \|$", text.partition("\n## Glossary\n")[2], re.MULTILINE
    )
    words = {word: meaning for word, meaning in rows if word != "word" and set(word) != {"-"}}
    assert 20 <= len(words) <= 30
    assert list(words) == sorted(words)
    assert {"hub", "member", "share", "replica", "gate", "quorum", "guard", "brake"} <= set(words)
    assert [word for word, meaning in words.items() if not meaning.endswith(".")] == []


def test_the_outline_goes_by_purpose_and_by_person() -> None:
    nav = yaml.safe_load(re.sub(r"!\S+", "", (ROOT / "mkdocs.yml").read_text()))["nav"]
    outline = {title: pages for part in nav for title, pages in part.items()}
    purposes = ["Overview", "Concepts", "Tasks", "Troubleshooting", "Reference", "Contributing"]
    persons = ["Platform administrator", "Application team", "Plugin author"]
    assert list(outline) == purposes
    assert [next(iter(each)) for each in outline["Tasks"]] == persons
    index = (DOCS / "README.md").read_text()
    assert re.findall(r"^## (.+)$", index, re.MULTILINE) == purposes
    assert re.findall(r"^### (.+)$", index, re.MULTILINE) == persons


def test_each_symptom_leads_to_what_helps() -> None:
    text = (DOCS / "troubleshooting.md").read_text()
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", text, re.MULTILINE)[2:]
    assert len(rows) > 15
    assert [symptom for symptom, read in rows if not re.search(r"\]\([\w/.]+\.md", read)] == []
