"""A namespace of its own on the hub for each test of this folder that asks for one."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest

_numbers = itertools.count(1)


class Tenant:
    """One namespace on the hub, and the ways into it that the tests need."""

    def __init__(self, hub: Any, namespace: str) -> None:
        self.hub = hub
        self.namespace = namespace

    def kubectl(self, *args: str, **more: Any) -> str:
        return self.hub.kubectl("-n", self.namespace, *args, **more)

    def apply(self, obj: dict[str, Any], *flags: str, check: bool = True) -> str:
        return self.kubectl("apply", "-f", "-", *flags, input=json.dumps(obj), check=check)

    def get(self, name: str, kind: str = "workload") -> dict[str, Any]:
        return json.loads(self.kubectl("get", kind, name, "-o", "json"))

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


@pytest.fixture
def tenant(hub: Any) -> Iterator[Tenant]:
    namespace = f"crds-{next(_numbers)}"
    hub.kubectl("create", "namespace", namespace)
    yield Tenant(hub, namespace)
    # No controller ends a namespace on this hub, so what the test made goes by name.
    hub.kubectl("-n", namespace, "delete", "workloads", "--all", "--wait=false")
