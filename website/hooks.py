"""Hooks of MkDocs: files that stand outside `docs/`, and Markdown as GitHub reads it.

GitHub shows the same files, so they keep links that are relative to the repository, and info
strings that tell tests/docs/test_blocks.py what to do. MkDocs knows neither; these hooks translate.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Mapping
from pathlib import Path
from textwrap import indent

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
DOCS = "docs/"
OUTSIDE: Mapping[str, str] = {
    "README.md": "stowage.md",  # docs/README.md is the site's first page
    "CHANGELOG.md": "CHANGELOG.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "SECURITY.md": "SECURITY.md",
    "stowage/web/static/icon.svg": "images/icon.svg",
    "examples/plugin/README.md": "plugin-example.md",
    "examples/plugin-ocm/README.md": "plugin-ocm.md",
}
"""Files of the repository that the site has, and where it has them."""
NESTED = " " * 4
"""What Python-Markdown takes as the inside of a list item; GitHub takes the width of the marker."""
_HOME = {place: path for path, place in OUTSIDE.items()}
_PIECES = re.compile(
    r"^(?P<block>(?P<fence> *```+)(?P<language>\w*)[^\n]*\n(?P<text>.*?)^(?P=fence))$"
    r'|(?P<open>\]\(|(?:src|srcset)=")(?P<link>[^)\s"#]+)'
    r"|^(?P<indent> {2,3})(?=[^ ])",
    re.MULTILINE | re.DOTALL,
)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Show the list of versions where mike builds, which keeps them."""
    if "MIKE_DOCS_VERSION" in os.environ:
        config.extra["version"] = {"provider": "mike"}
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that stand outside `docs/`."""
    for path, place in OUTSIDE.items():
        _add(files, config, path, place)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the page's text with links as the site has them, and fences with a language alone.

    A file of the repository that the page links to comes along.
    """
    place = page.file.src_uri
    folder = posixpath.dirname(_HOME.get(place, DOCS + place))

    def piece(found: re.Match[str]) -> str:
        if found["indent"]:
            return NESTED
        if found["block"]:
            block = f"{found['fence']}{found['language']}\n{found['text']}{found['fence']}"
            depth = len(block) - len(block.lstrip(" "))
            return indent(block, NESTED[depth:]) if depth else block
        link = found["link"]
        if ":" in link:
            return found[0]
        path = posixpath.normpath(posixpath.join(folder, link))
        if (ROOT / path / "README.md").is_file():  # what GitHub shows of a folder
            path = posixpath.join(path, "README.md")
        target = OUTSIDE.get(path, path.removeprefix(DOCS))
        there = files.get_file_from_path(target) is not None
        # It is too late for a page: one that the site lacks is told as a broken link.
        if not there and not path.endswith(".md") and (ROOT / path).is_file():
            _add(files, config, path, target)
        return found["open"] + posixpath.relpath(target, posixpath.dirname(place) or ".")

    return _PIECES.sub(piece, markdown)


def _add(files: Files, config: MkDocsConfig, path: str, place: str) -> None:
    files.append(File.generated(config, place, abs_src_path=str(ROOT / path)))
