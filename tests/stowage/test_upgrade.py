"""What an install over another release says of kinds that it has no profile for, and what an
upgrade says of members that lack a right."""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from click.testing import CliRunner, Result

from crds.names import LABEL_REGISTER, SYSTEM_NAMESPACE
from machinery.api.resources import SECRETS
from stowage.cli import cli
from stowage.setup import lacking_rights, upgrade
from tests.fakeclock import FakeClock
from tests.memoryhub import MemoryHub
from tests.stowage.plain_hub import PlainHub, hub_of

EXAMPLES = Path(__file__).parents[2] / "examples"
NEW = "example/stowage:2"


def workload(name: str, api_version: str, kind: str) -> dict[str, Any]:
    template = {"apiVersion": api_version, "kind": kind, "spec": {}}
    return {"metadata": {"name": name, "namespace": "shop"}, "spec": {"template": template}}


def controller(image: str) -> dict[str, Any]:
    containers = [{"name": "controller", "image": image}]
    spec = {"template": {"spec": {"containers": containers}}}
    return {"metadata": {"name": "stowage-controller"}, "spec": spec}


class Hub(PlainHub):
    """A release that runs, no members, and these Workloads."""

    def __init__(self) -> None:
        super().__init__()
        self.deployments = [controller("example/stowage:1")]
        self.workloads = [
            workload("web", "apps/v1", "Deployment"),
            {"metadata": {"name": "old", "namespace": "shop"}, "spec": {"targetDeployment": {}}},
            workload("set", "apps.example.com/v1", "StatefulSet"),
            *(workload(f"w{n}", "example.com/v1", "Widget") for n in range(7)),
        ]


hub = hub_of(Hub)


def install(file: Path, *more: str) -> Result:
    args = ["install", f"--kubeconfig={file}", f"--image={NEW}", "--wait=false", *more]
    return CliRunner().invoke(cli, args)


@pytest.mark.proves("KD10")
def test_an_install_over_another_release_lists_workloads_of_unknown_kinds_and_stops(
    hub: Hub,
) -> None:
    ran = install(hub.file)
    assert ran.exit_code == 1
    said = str(ran.exception)
    rows = [line.split(maxsplit=2) for line in said.splitlines()]
    assert ["StatefulSet.apps.example.com", "1", "shop/set"] in rows
    first = ", ".join(f"shop/w{n}" for n in range(5))
    assert ["Widget.example.com", "7", f"{first} and 2 more"] in rows
    assert "shop/web" not in said
    assert "shop/old" not in said
    assert "--yes" in said
    assert "applied" not in ran.output
    hub.deployments = []  # the kinds alone are hub
    assert install(hub.file).exit_code == 1


@pytest.mark.proves("KD10")
def test_a_kind_that_the_hub_describes_is_not_unknown(hub: Hub) -> None:
    kind = yaml.safe_load((EXAMPLES / "kinds/gadget-kind.yaml").read_text())
    hub.workloads = [workload("g", "example.com/v1", "Gadget")]
    assert "Gadget.example.com" in install(hub.file, "--dry-run").stderr
    hub.workloadkinds = [kind]
    assert "Gadget.example.com" not in install(hub.file, "--dry-run").stderr


@pytest.mark.proves("KD10")
def test_a_dry_run_lists_them_beside_the_manifests(hub: Hub) -> None:
    ran = install(hub.file, "--dry-run")
    assert ran.exit_code == 0
    assert "Widget.example.com" in ran.stderr
    assert "Widget.example.com" not in ran.stdout
    assert "kind: Deployment" in ran.stdout
    hub.file.write_text(hub.file.read_text().replace("127.0.0.1", "127.0.0.1.invalid"))
    unasked = install(hub.file, "--dry-run")
    assert (unasked.exit_code, unasked.stdout) == (0, ran.stdout)
    assert "is not known" in unasked.stderr


@pytest.mark.proves("KD10")
@pytest.mark.parametrize(
    "change",
    [{"deployments": [controller(NEW)]}, {"faults": {"workloads": 404}}, {"workloads": []}],
)
def test_a_second_run_and_a_new_hub_are_asked_nothing(hub: Hub, change: dict[str, Any]) -> None:
    for name, value in change.items():
        setattr(hub, name, value)
    assert install(hub.file, "--dry-run").stderr == ""
    assert "Nothing is installed" not in str(install(hub.file).exception), "it goes on to the hub"


@pytest.mark.proves("PK15")
@pytest.mark.parametrize("more", [(), ("--check",)])
def test_a_check_that_is_interrupted_tells_of_no_step(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    told = list[str]()

    def cut_off(_at: Any, _use: Any, *, interrupted: str) -> list[Any]:
        told.append(interrupted)
        return []

    monkeypatch.setattr(sys.modules["stowage.commands.upgrade"], "with_hub", cut_off)
    ran = CliRunner().invoke(cli, ["upgrade", f"--kubeconfig={hub.file}", *more])
    assert ran.exit_code == 0, ran.output
    assert ("carried out" in told[0]) is not bool(more)


# --- members --------------------------------------------------------------------------------------

MEMBER = {"endpoint": "https://m.example", "token": "t"}


@pytest.mark.proves("PK21")
@pytest.mark.parametrize(
    ("data", "command"),
    [
        ({"rights": "narrow"}, "stowage join paris"),
        ({"rights": "narrow", "podSecurity": "baseline"}, "stowage join paris"),
        (
            {"rights": "narrow", "podSecurity": "restricted"},
            "stowage join paris --pod-security restricted",
        ),
        ({"rights": "cluster"}, "stowage join paris --rights cluster"),
    ],
)
async def test_the_join_that_a_member_needs_keeps_its_rights(
    monkeypatch: pytest.MonkeyPatch, data: dict[str, str], command: str
) -> None:
    """A join without these options would make narrow rights of wide ones."""

    async def lacks(_: Any, name: str) -> list[str]:
        return [f"list {name}s"]

    monkeypatch.setattr(lacking_rights, "of_account", lacks)
    hub = MemoryHub(clock=FakeClock(), admission=False)
    meta = {"name": "paris", "namespace": SYSTEM_NAMESPACE, "labels": {LABEL_REGISTER: "true"}}
    given = {k: base64.b64encode(v.encode()).decode() for k, v in {**MEMBER, **data}.items()}
    hub.put(SECRETS, {"metadata": meta, "data": given})
    rows = await upgrade.planned(cast("Any", hub), [], SYSTEM_NAMESPACE, len)
    assert [each.change for each in rows] == [f"{command}    # + list pariss"]
