"""A playground for the session, and a namespace for each test.

`--provider local` (the default) stands on control planes built from Go modules, and both processes
run beside it; `--provider kind` stands on kind clusters, and both run on the hub as Deployments,
from the image that the Dockerfile makes. The tests are the same.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import pytest

from e2e.harness import ROOT, Kubectl, Playground, image_of, stowage
from stowage.playground import binaries

_numbers = itertools.count(1)
MEMBERS = 3


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--provider",
        choices=("local", "kind"),
        default="local",
        help="what the end-to-end tests run their clusters on",
    )


@pytest.fixture(scope="session")
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.config.getoption("--provider"))


@pytest.fixture(scope="session")
def playground(provider: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Playground]:
    """A hub, three members, controller and propagator, as `stowage playground up` makes them."""
    directory = tmp_path_factory.mktemp("playground")
    image = [f"--image={image_of(ROOT)}"] if provider == "kind" else []
    try:
        stowage(
            "playground", "up", f"--members={MEMBERS}", f"--provider={provider}",
            f"--dir={directory}", *image,
        )  # fmt: skip
        kubectl = binaries.path("kubectl")
        yield Playground(
            directory=directory,
            provider=provider,
            hub=Kubectl(kubectl, directory / "hub.kubeconfig"),
            members={
                f"member-{n}": Kubectl(kubectl, directory / f"member-{n}.kubeconfig")
                for n in range(1, MEMBERS + 1)
            },
        )
    finally:
        stowage("playground", "down", f"--dir={directory}")


@pytest.fixture
def namespace(playground: Playground, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace on the hub.

    Its Workloads are deleted after the test, and with them their objects.
    """
    stem = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:40].strip("-")
    name = f"{stem}-{next(_numbers)}"
    playground.hub("create", "namespace", name)
    yield name
    playground.hub("-n", name, "delete", "wl", "--all", "--wait=true", timeout=120)
    playground.hub("delete", "namespace", name, "--wait=false")
