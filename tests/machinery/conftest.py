"""The fixtures of all tests of this folder."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def _no_authorities_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """The servers here are plain HTTP or bring an authority of their own.

    Each client without one reads those of the system: a hundred, in the time of a whole test. The
    tests that are about them name their own. For each test anew, so that what outlives it (the
    build of the API servers, which downloads) is begun before.
    """
    monkeypatch.setenv("SSL_CERT_FILE", os.devnull)
    monkeypatch.setenv("SSL_CERT_DIR", os.devnull)
