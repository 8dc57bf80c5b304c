"""A tenant with rights in one namespace, on a real API server: its quota is not its own to write."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from machinery.api.resources import WORKLOAD_QUOTAS
from stowage.toolchain import binaries
from tests.controller.features.reservation.reserving import phase, reservation
from tests.controller.features.workloadquota.quotas import body
from tests.controller.live import World, condition, deciding
from tests.patience import until

RIGHTS = [
    {
        "apiGroups": ["stowage.dev"],
        "resources": ["workloads", "reservations", "workloadspreads", "workloadgroups"],
        "verbs": ["*"],
    },
    {
        "apiGroups": ["stowage.dev"],
        "resources": ["workloadquotas"],
        "verbs": ["get", "list", "watch"],
    },
]


class Tenant:
    """kubectl with a kubeconfig of its own, for a ServiceAccount that has a Role in one namespace."""

    def __init__(self, world: World, folder: Path) -> None:
        hub = world.hub
        role = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": "tenant", "namespace": "shop"},
            "rules": RIGHTS,
        }
        hub.kubectl("apply", "-f", "-", input=json.dumps(role))
        hub.kubectl("-n", "shop", "create", "serviceaccount", "tenant")
        hub.kubectl(
            *("-n", "shop", "create", "rolebinding", "tenant"),
            *("--role=tenant", "--serviceaccount=shop:tenant"),
        )
        token = hub.kubectl("-n", "shop", "create", "token", "tenant").strip()
        known = yaml.safe_load(Path(hub.kubeconfig).read_text())
        known["users"] = [{"name": "tenant", "user": {"token": token}}]
        context = {"cluster": known["clusters"][0]["name"], "user": "tenant", "namespace": "shop"}
        known["contexts"] = [{"name": "tenant", "context": context}]
        known["current-context"] = "tenant"
        self._file = folder / "tenant.kubeconfig"
        self._file.write_text(yaml.safe_dump(known))

    def __call__(self, *args: str, stdin: Any = None) -> subprocess.CompletedProcess[str]:
        given = None if stdin is None else json.dumps(stdin)
        return subprocess.run(
            [str(binaries.path("kubectl")), "--kubeconfig", str(self._file), *args],
            input=given,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


@pytest.mark.long
@pytest.mark.proves("N4", "N10b")
async def test_one_tenant_cannot_hold_all_room(world: World, tmp_path: Path) -> None:
    for name in ("a", "b"):
        await world.cluster(name, cpu="24", pods="5000")
    await world.client.create(WORKLOAD_QUOTAS, body(cpu=8, units=20, reservations=1))
    tenant = Tenant(world, tmp_path)
    refused = tenant(
        "patch", "wq", "team", "--type=merge", "-p", '{"spec": {"hard": {"units": 9}}}'
    )
    assert "forbidden" in refused.stderr
    refused = tenant("patch", "wq", "team", "--subresource=status", "--type=merge", "-p", "{}")
    assert "forbidden" in refused.stderr
    assert "forbidden" in tenant("delete", "wq", "team").stderr
    async with deciding(world):
        greedy = reservation("all", requests={"cpu": "500m"}, replicas=2_000_000_000, ttl="0")
        made = tenant("create", "-f", "-", stdin=greedy)
        assert made.returncode == 0, made.stderr
        status = await phase(world, "Available", "all", assigned=16)
        said = condition(status, "Scheduled")
        assert said["reason"] == "QuotaExceeded"
        assert "WorkloadQuota team: requests.cpu " in said["message"]
        tenant("create", "-f", "-", stdin=reservation("more", requests={"cpu": "1m"}))
        assert condition(await phase(world, "Pending", "more", desired=1), "Scheduled")[
            "message"
        ].endswith("WorkloadQuota team: reservations 1 of 1 used")
        neighbour = await world.space("neighbour")
        await neighbour.workload("web", replicas=20, cpu="1", distribution="Divided")
        assert sum((await neighbour.placed("web")).values()) == 20, "others have the rest"
        tiny = world.manifest("tiny", replicas=2**31 - 1, cpu="1m", distribution="Divided")
        assert tenant("create", "-f", "-", stdin=tiny).returncode == 0
        said = await world.refused("tiny", "QuotaExceeded")
        shown: list[str] = []

        async def told() -> bool:
            shown[:] = tenant("get", "wq", "team", "--no-headers").stdout.split()
            return len(shown) > 2 and json.loads(shown[2])["requests.cpu"] == "8"

        await until(told, what=lambda: shown)
        assert shown[0] == "team"
        assert json.loads(shown[1]) == {"requests.cpu": "8", "reservations": "1", "units": "20"}
