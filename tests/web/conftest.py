"""One browser for all tests of the page; each test has a window of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from stowage.console.progress import Lines
from stowage.toolchain import chromium


@pytest.fixture(scope="session")
def browser(pytestconfig: pytest.Config) -> Iterator[Browser]:
    """A browser without a window, fetched by the first run."""
    with pytestconfig.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        found = chromium.browser(Lines())
    environment = {**os.environ, **found.variables}
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found.program, env=environment)
        yield started
        started.close()
