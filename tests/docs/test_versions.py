"""mike keeps the documentation of each release beside that of the next, and the switcher finds both."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.docs.conftest import QUIET, SITE, one_page
from tests.web.conftest import browser

__all__ = ["browser"]
pytestmark = SITE
BIN = Path(sys.executable).parent
MIKE = str(BIN / "mike")
ENVIRONMENT = {
    **QUIET,
    "PATH": f"{BIN}:{os.environ['PATH']}",  # mike runs mkdocs by its name
    **{
        f"GIT_{who}_{what}": "docs" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    },
}
RELEASES = ("0.1.0", "0.2.0")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Tell nothing: the log of a test is its own."""


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a web server shows after two releases, each of one page, by the site's own settings."""
    folder = tmp_path_factory.mktemp("versions")
    # Not strict: the pages that the files of the repository link to are not there.
    one_page(folder, "", strict=False)

    def run(*command: str) -> None:
        done = subprocess.run(
            command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr

    run("git", "init", "--quiet", "--initial-branch=main")
    run("git", "commit", "--quiet", "--allow-empty", "--message", "Begin")
    for release in RELEASES:
        (folder / "docs" / "README.md").write_text(f"# Documents of {release}\n")
        run(MIKE, "deploy", "--update-aliases", release, "latest")
    run(MIKE, "set-default", "latest")
    run("git", "worktree", "add", "--quiet", "shown", "gh-pages")
    return folder / "shown"


@pytest.fixture
def address(kept: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=kept)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.mark.proves("DOC9")
@pytest.mark.long
def test_the_documents_of_each_release_are_kept(kept: Path) -> None:
    listed = json.loads((kept / "versions.json").read_text())
    assert [(each["version"], each["aliases"]) for each in listed] == [
        ("0.2.0", ["latest"]),
        ("0.1.0", []),
    ]
    for place, release in (("0.1.0", "0.1.0"), ("0.2.0", "0.2.0"), ("latest", "0.2.0")):
        assert f"Documents of {release}" in (kept / place / "index.html").read_text()


@pytest.mark.proves("DOC9")
def test_the_switcher_leads_to_another_release_without_another_host(
    address: str, browser: Browser
) -> None:
    foreign: list[str] = []

    def refuse(route: Route) -> None:
        foreign.append(route.request.url)
        route.abort()

    page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
    page.route(lambda url: not url.startswith(address), refuse)
    page.goto(address)
    expect(page.get_by_role("heading", level=1)).to_contain_text("Documents of 0.2.0")
    versions = page.locator(".md-version")
    versions.get_by_role("button").focus()
    expect(versions.get_by_role("link")).to_have_text(["0.2.0", "0.1.0"])
    versions.get_by_role("link", name="0.1.0").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Documents of 0.1.0")
    assert foreign == []
