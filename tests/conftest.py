"""Real API servers for every test that asks for one; started at first use, once for each group.

`control_planes` is the etcd that all stand on, `hub` an API server with our kinds installed,
`make_cluster` any other with the parts asked for. All blocking: from within an event loop call the
slow ones (`restart`, `kubectl wait`) through `asyncio.to_thread`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from stowage.console.progress import Lines
from stowage.playground.controlplanes import Cluster, ControlPlanes, Parts
from stowage.toolchain import build
from tests import inforce
from tests.requirements import Proofs


def pytest_configure(config: pytest.Config) -> None:
    """Have it noted what the tests prove; `test_requirements` reads that."""
    config.pluginmanager.register(Proofs(), "proofs")


@pytest.fixture(scope="session")
def control_planes(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlanes]:
    """One etcd; everything on it is ended with the session, whatever happened in between."""
    with pytestconfig.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        build.ensure(progress=Lines())  # takes minutes where `make test T=…` is the first run
    planes = ControlPlanes(tmp_path_factory.mktemp("control-planes"))
    try:
        planes.start()
        yield planes
    finally:
        planes.stop()


@pytest.fixture(scope="session")
def make_cluster(control_planes: ControlPlanes) -> Callable[..., Cluster]:
    """make_cluster(name, controller_manager=False, scheduler=False, kwok=False, nodes=0).

    The same name gives the same cluster again. `nodes` are Ready when it returns, 8 cpu, 32Gi and
    110 pods each; `Cluster.add_nodes` makes others. `server_flags` are further flags of the API
    server, such as `flags.BEFORE_1_36`.
    """

    def make(
        name: str,
        *,
        controller_manager: bool = False,
        scheduler: bool = False,
        kwok: bool = False,
        nodes: int = 0,
        server_flags: tuple[str, ...] = (),
    ) -> Cluster:
        if name in control_planes.clusters:
            return control_planes.clusters[name]
        parts = Parts(
            controller_manager=controller_manager,
            scheduler=scheduler,
            kwok=kwok,
            server_flags=server_flags,
        )
        cluster = control_planes.create(name, parts)
        if nodes:
            cluster.add_nodes(nodes)
        return cluster

    return make


@pytest.fixture(scope="session")
def apiserver(hub: Cluster) -> Cluster:
    """A running API server, for tests that ask nothing of our kinds."""
    return hub


@pytest.fixture(scope="session")
def hub(make_cluster: Callable[..., Cluster]) -> Cluster:
    """An API server with our kinds and admission policies installed, and stowage-system.

    A test has a namespace of its own, or takes away what others have left: `live.world_on`.
    """
    cluster = make_cluster("hub")
    install_kinds(cluster)
    return cluster


def install_kinds(cluster: Cluster) -> None:
    """Apply crds.manifests() and wait until the kinds are served, and Workloads are judged."""
    import crds  # noqa: PLC0415 - only the tests that ask for a hub need the models

    items = crds.manifests()
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    cluster.kubectl("apply", "--server-side", "-f", "-", input=listed)
    kinds = inforce.crd_names(items)
    established = [f"crd/{name}" for name in kinds]
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=240s", *established)
    cluster.kubectl("create", "namespace", "stowage-system")
    inforce.until_judging(cluster, kinds)
