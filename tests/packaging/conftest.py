"""Helm 3 and Helm 4, built from their Go modules; for tests marked `long` alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from stowage.console.progress import Lines
from stowage.toolchain import binaries, build
from tests.stowage.conftest import Stowage

from .rendering import Helm


@pytest.fixture(scope="session", params=["helm3", "helm4"])
def helm(
    request: pytest.FixtureRequest,
    pytestconfig: pytest.Config,
    tmp_path_factory: pytest.TempPathFactory,
) -> Helm:
    """Each of both versions; the first run builds it, for three minutes."""
    module = binaries.HELM[request.param]
    with pytestconfig.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        build.ensure(("helm",), progress=Lines(), module=module)
    return Helm(binaries.path("helm", module), tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="session")
def kubectl(pytestconfig: pytest.Config) -> Path:
    """The program, for tests that ask no server."""
    with pytestconfig.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        build.ensure(("kubectl",), progress=Lines())
    return binaries.path("kubectl")


@pytest.fixture
def stowage() -> Stowage:
    return Stowage()
