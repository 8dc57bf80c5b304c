"""A MemberCluster that comes from an inventory: without credentials, until a Secret brings them."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest

from machinery.api.resources import MEMBER_CLUSTERS, SECRETS
from stowage.playground.controlplanes import Cluster
from tests.letting_go import let_go
from tests.propagator.conftest import secret, token_for
from tests.propagator.waits import until

pytestmark = pytest.mark.proves("CT9")

Rigs = Callable[..., Any]


def imported(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": MEMBER_CLUSTERS.api_version,
        "kind": MEMBER_CLUSTERS.kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def address(member: Cluster) -> dict[str, str]:
    connection = member.connection()
    assert connection.ca is not None
    ca = base64.b64encode(connection.ca).decode()
    return {"server": connection.server, "certificateAuthorityData": ca}


async def test_a_secret_brings_the_token_and_the_inventory_the_address(rig_on: Rigs, m1: Cluster):
    async with rig_on() as rig:
        await rig.hub.create(MEMBER_CLUSTERS, imported("fleet-a", endpoint=address(m1)))
        told = await rig.becomes("fleet-a", "SecretNotFound")
        assert "make the Secret stowage-system/fleet-a with the label stowage.dev/register" in told
        await rig.register("fleet-a", {"token": token_for(m1, "fleet")})
        await rig.becomes("fleet-a", "Connected")
        assert (await rig.cluster("fleet-a"))["spec"]["secretRef"]["name"] == "fleet-a"


@pytest.mark.long
async def test_a_secret_that_nobody_labelled_or_that_was_let_go_of_is_not_taken(
    rig_on: Rigs, m1: Cluster
):
    """The token of another account must not go to the address of a ClusterProfile."""
    unlabelled = secret("fleet-a", {"token": "a-token"})
    del unlabelled["metadata"]["labels"]
    async with rig_on() as rig:
        await rig.hub.create(SECRETS, unlabelled)
        await rig.hub.create(MEMBER_CLUSTERS, imported("fleet-a", endpoint=address(m1)))
        await rig.register("fleet-b", {"kubeconfig": m1.admin_kubeconfig})
        await rig.becomes("fleet-b", "Connected")
        await rig.marked("fleet-b")
        await rig.becomes("fleet-a", "SecretNotFound")
        assert "secretRef" not in (await rig.cluster("fleet-a"))["spec"]
        await let_go(rig.hub, "fleet-b")
        await until(lambda: rig.registry.get("fleet-b") is None)
        await rig.hub.create(MEMBER_CLUSTERS, imported("fleet-b"))  # the inventory has it still
        await rig.becomes("fleet-b", "SecretNotFound")
        assert "secretRef" not in (await rig.cluster("fleet-b"))["spec"]
        await rig.hub.delete(SECRETS, "fleet-a", namespace="stowage-system")
