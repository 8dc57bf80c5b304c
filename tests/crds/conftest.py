"""The hub over a kept connection, and a namespace of its own for each test that asks for one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from .asking import Asking

_numbers = itertools.count(1)


class Tenant:
    """One namespace on the hub, and the ways into it that the tests need.

    `kubectl` is for what kubectl itself does or prints, the others are verbs of `asking.Asking`.
    """

    def __init__(self, hub: Any, asking: Asking, namespace: str) -> None:
        self.hub = hub
        self.asking = asking
        self.namespace = namespace
        self.create = asking.create
        self.apply = asking.apply

    def kubectl(self, *args: str, **more: Any) -> str:
        return self.hub.kubectl("-n", self.namespace, *args, **more)

    def get(self, name: str, kind: str = "Workload") -> dict[str, Any]:
        return self.asking.get(name, kind, namespace=self.namespace)

    def patch(self, name: str, patch: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        return self.asking.patch(name, patch, namespace=self.namespace, **more)

    def label(self, name: str, key: str, value: str | None) -> dict[str, Any]:
        """Send a patch as `kubectl label workload` does; None takes the label off."""
        return self.patch(name, {"metadata": {"labels": {key: value}}})

    def write_status(
        self, name: str, status: Mapping[str, Any], kind: str = "Workload", **more: Any
    ) -> dict[str, Any]:
        return self.patch(name, {"status": status}, kind=kind, subresource="status", **more)

    def workload(self, name: str, *, labels: dict[str, str] | None = None, **spec: Any) -> dict:
        template = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}}
        return {
            "apiVersion": "stowage.dev/v1alpha1",
            "kind": "Workload",
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "labels": labels or {},
            },
            "spec": {"targetDeployment": template} | spec,
        }


@pytest.fixture(scope="module")
def asking(hub: Any) -> Iterator[Asking]:
    """Kept for a module: a server closes a connection that is idle for a minute and a half."""
    asking = Asking(hub)
    yield asking
    asking.close()


@pytest.fixture
def tenant(hub: Any, asking: Asking) -> Iterator[Tenant]:
    namespace = f"crds-{next(_numbers)}"
    asking.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    yield Tenant(hub, asking, namespace)
    # No controller ends a namespace on this hub, so what the test made goes by name.
    asking.delete(None, "Workload", namespace=namespace)
