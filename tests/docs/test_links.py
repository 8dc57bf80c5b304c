"""No link, anchor or image is broken: in the site, and in the files as GitHub shows them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml
from pymdownx.slugs import slugify

from tests.docs.blocks import EXAMPLES
from tests.docs.conftest import ROOT, SITE, built, one_page

pytestmark = SITE

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *EXAMPLES])
FENCES = re.compile(r"^( *```+).*?^\1$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"""(?:\]\(|(?:src|srcset|href)=")([^)\s"]+)""")
SLUG = slugify(case="lower")


@cache
def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    titles = re.findall(r"^#+ +(.+)$", FENCES.sub("", page.read_text()), re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)|[`*]", r"\1", title) for title in titles]
    seen: dict[str, int] = {}
    found = set()
    for each in (SLUG(title, "-") for title in plain):
        found.add(f"{each}-{seen[each]}" if each in seen else each)
        seen[each] = seen.get(each, 0) + 1
    return found


def broken(page: Path, text: str) -> Iterator[str]:
    """The links of a page, given with that text, that lead nowhere."""
    for link in LINK.findall(re.sub(r"`[^`\n]*`", "", FENCES.sub("", text))):
        if re.match(r"https?:|mailto:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        there = target.exists() and target.is_relative_to(ROOT)
        if not there or (anchor and (target.suffix != ".md" or anchor not in anchors(target))):
            yield link


@pytest.mark.proves("DOC1")
def test_each_link_of_a_file_leads_somewhere() -> None:
    assert len(PAGES) > 50
    assert [
        f"{page.relative_to(ROOT)}: {link}"
        for page in PAGES
        for link in broken(page, page.read_text())
    ] == []


@pytest.mark.proves("DOC1")
def test_a_broken_link_is_seen() -> None:
    text = "[a](gangs.md#none) [b](none.md) ![c](images/none.png) [d](gangs.md) <img src='x'>"
    told = list(broken(ROOT / "docs/ui.md", text + '<source srcset="none.png">'))
    assert told == ["gangs.md#none", "none.md", "images/none.png", "none.png"]


@pytest.mark.proves("DOC1", "Q24")
def test_each_fault_of_a_page_fails_the_build(tmp_path: Path) -> None:
    one_page(tmp_path, "# A\n[a](gone.md) [b](#gone) [c](../folder/)\n", hooks=[])
    (tmp_path / "docs" / "unlisted.md").write_text("# B\n")
    done = built(tmp_path)
    assert done.returncode == 1
    assert "Aborted with 4 warnings" in done.stdout + done.stderr
    for fault in ("'gone.md'", "'#gone'", "'../folder/'", "unlisted.md"):
        assert fault in done.stderr


@pytest.mark.proves("DOC1", "Q24")
def test_the_site_builds_and_asks_no_other_host(site: Path) -> None:
    pages = [each for each in site.rglob("*.html") if each.name != "404.html"]
    assert len(pages) > 30
    for page in pages:
        text = page.read_text()
        loaded = re.findall(r'<(?:script|img|source|iframe)\b[^>]*\bsrc(?:set)?="([^"]+)', text)
        loaded += re.findall(r'<link rel="(?:stylesheet|icon|preconnect)"[^>]*href="([^"]+)', text)
        assert [link for link in loaded if "//" in link] == []
        missing = [link for link in loaded if not (page.parent / link).exists()]
        assert missing == [], page.name


RULES = yaml.safe_load((ROOT / "deploy/monitoring/stowage-rules.yaml").read_text())["groups"]


@pytest.mark.proves("DOC5")
def test_each_runbook_is_a_section_of_the_site(site: Path) -> None:
    base = yaml.safe_load(re.sub(r"!\S+", "", (ROOT / "mkdocs.yml").read_text()))["site_url"]
    latest = f"{base}latest/"  # the name of the newest release that is kept
    alerts = [rule for rule in RULES[0]["rules"] if "alert" in rule]
    assert len(alerts) > 10
    wrong = []
    for rule in alerts:
        place, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        page = site / place.removeprefix(latest)
        there = place.startswith(latest) and page.is_file()
        if not there or f'<h3 id="{anchor}">{rule["alert"]}<' not in page.read_text():
            wrong.append(f"{rule['alert']}: {place}#{anchor}")
    assert wrong == []


@pytest.mark.proves("DOC1")
def test_the_site_nests_what_github_nests(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert not re.search(r"```|<p>(?:[-*|]|\d+\.) ", page.read_text()), page.name
    items = re.search(r"<ol>(.*?)</ol>", (site / "distribution.html").read_text(), re.DOTALL)
    assert items is not None
    assert "<code>" in items[1]
    assert "Packed" in items[1]
