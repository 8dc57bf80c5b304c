"""A playground for the session, and a namespace for each test.

With `--provider local` (the default) clusters are control planes built from Go modules, and both
processes run beside them; with `--provider kind` they are kind clusters, and both processes run on
the hub as Deployments, from the image of the Dockerfile. The tests are the same.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import pytest

from e2e.harness import (
    PACE,
    PACES,
    ROOT,
    Kubectl,
    Playground,
    image_of,
    stowage,
)
from e2e.movement import fleet, own_processes  # noqa: F401 - fixtures of those who ask for them
from e2e.stage import running, space, stage  # noqa: F401 - as above
from stowage.toolchain import binaries

_numbers = itertools.count(1)
MEMBERS = 3
UP_SECONDS = 2400.0
"""Long enough for four clusters of kind on two CPUs, with the image of their nodes to fetch."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--provider",
        choices=("local", "kind"),
        default="local",
        help="what the end-to-end tests run their clusters on",
    )
    parser.addoption("--node-image", help="what kind's nodes are made of, if not of its newest")
    parser.addoption("--base", help="what the image of both processes is made on (kind)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put last what ends both processes; skip what kind cannot do: it stops whole nodes only."""
    items.sort(key=lambda item: "stage" in getattr(item, "fixturenames", ()))
    if config.getoption("--provider") != "kind":
        return
    only_local = pytest.mark.skip(reason="stops etcd and API servers alone, and cuts roads to them")
    for item in items:
        if item.get_closest_marker("stops_api_servers"):
            item.add_marker(only_local)


@pytest.fixture(scope="session")
def provider(request: pytest.FixtureRequest) -> str:
    chosen = str(request.config.getoption("--provider"))
    PACE.factor = PACES[chosen]
    return chosen


@pytest.fixture(scope="session")
def playground(
    request: pytest.FixtureRequest, provider: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Playground]:
    """Yield a hub, members, controller and propagator, as `stowage playground up` makes them."""
    directory = tmp_path_factory.mktemp("playground")
    base = request.config.getoption("--base")
    image = [f"--image={image_of(ROOT, base=base)}"] if provider == "kind" else []
    if nodes := request.config.getoption("--node-image"):
        image += [f"--node-image={nodes}"]
    try:
        stowage(
            "playground", "up", f"--members={MEMBERS}", f"--provider={provider}",
            f"--dir={directory}", *image, timeout=UP_SECONDS,
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
    """Yield a namespace on the hub; its Workloads and their objects are deleted after the test."""
    stem = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:40].strip("-")
    name = f"{stem}-{next(_numbers)}"
    playground.hub("create", "namespace", name)
    yield name
    playground.hub("-n", name, "delete", "wl", "--all", "--wait=true", timeout=120)
    playground.hub("delete", "namespace", name, "--wait=false")
