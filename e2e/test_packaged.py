"""What is packaged on a fleet: the rendered chart, wrapped manifests, and releases side by side."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from e2e.harness import ROOT, Failed, Kubectl, Playground, wait
from e2e.stage import Stage
from stowage.console.progress import Lines
from stowage.toolchain import binaries, build

pytestmark = pytest.mark.long
HOME = "stowage-system"
EXAMPLE = (ROOT / "examples/01-deployment-service-secret.yaml").read_text()


@pytest.fixture(scope="module")
def rendered(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The chart, by Helm 4."""
    module = binaries.HELM["helm4"]
    with pytestconfig.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        build.ensure(("helm",), progress=Lines(), module=module)
    chart = str(ROOT / "deploy/charts/stowage")
    command = [str(binaries.path("helm", module)), "template", "stowage", chart, "-n", HOME]
    command += ["--kube-version=1.36.0", "--set=ui.enabled=true"]
    command += ["--set=ui.session.existingSecret=session"]
    env = {"HOME": str(tmp_path_factory.mktemp("helm")), "PATH": "/usr/bin:/bin"}
    return subprocess.check_output(command, env=env, text=True)


@pytest.mark.proves("PK7")
def test_the_chart_runs_the_examples(playground: Playground, rendered: str) -> None:
    objects = [each for each in yaml.safe_load_all(rendered) if each]
    # Both processes of the playground run already, from this machine.
    rest = [each for each in objects if each["kind"] != "Deployment"]
    apply = ("apply", "--server-side", "--force-conflicts", "--field-manager=helm", "-f", "-")
    playground.hub(*apply, stdin=yaml.safe_dump_all(rest))
    playground.hub.apply((ROOT / "examples/00-namespace.yaml").read_text())
    playground.hub.apply(EXAMPLE)
    playground.until_running("demo", "wordpress")
    playground.hub("-n", "demo", "delete", "wl", "--all", timeout=120)


@pytest.mark.proves("PK7")
def test_a_server_takes_its_pods_where_only_restricted_ones_are(
    playground: Playground, rendered: str
) -> None:
    hub = playground.hub
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": "restricted",
            "labels": {"pod-security.kubernetes.io/enforce": "restricted"},
        },
    }
    account = {"apiVersion": "v1", "kind": "ServiceAccount"}
    named = {"metadata": {"name": "default", "namespace": "restricted"}}
    hub.apply(namespace)
    # The hub's controller manager may make it at the same moment.
    hub("apply", "--server-side", "-f", "-", stdin=json.dumps(account | named))
    templates = {
        each["metadata"]["name"]: each["spec"]["template"]
        for each in yaml.safe_load_all(rendered)
        if each and each["kind"] == "Deployment"
    }
    assert len(templates) == 3
    for name, template in templates.items():
        others = ("serviceAccountName", "priorityClassName")  # of a namespace that has neither
        spec = {key: value for key, value in template["spec"].items() if key not in others}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        dry = ("create", "--dry-run=server", "-n", "restricted", "-f", "-")
        assert name in hub(*dry, stdin=json.dumps(pod))
        root = {**pod, "spec": {**spec, "securityContext": {"runAsUser": 0}}}
        with pytest.raises(Failed, match="violates PodSecurity"):
            hub(*dry, stdin=json.dumps(root))


@pytest.mark.proves("IM17")
def test_what_is_wrapped_runs_on_members(playground: Playground, namespace: str) -> None:
    wrap = [sys.executable, "-m", "stowage", "wrap", "-n", namespace, "-f"]
    example = ROOT / "examples" / "wrap"
    made = subprocess.check_output(
        [*wrap, example / "shop.yaml", f"--spec={example / 'together.yaml'}"], text=True, cwd=ROOT
    )
    tenant = [sys.executable, "-m", "stowage", "tenant", "add", namespace]
    subprocess.run([*tenant, f"--kubeconfig={playground.hub.kubeconfig}"], check=True, cwd=ROOT)
    playground.hub.apply(made)
    places = set()
    for name in ("web", "database"):
        playground.until_running(namespace, name)
        places |= set(playground.placements(namespace, name))
    (member,) = places
    for kind, name in (("ConfigMap", "settings"), ("Secret", "database"), ("Service", "web")):
        assert playground.seen(member, namespace, name, version="v1", kind=kind)


# --- releases side by side ------------------------------------------------------------------------

NEWER = "0.2.0"
FUTURE = {"type": "string"}


class Released:
    """A process that says that it is of another release."""

    def __init__(self, stage: Stage, role: str) -> None:
        self.stage, self.role = stage, role

    def start(self) -> None:
        process = self.stage.processes[self.role]
        process.kill()
        patched = f"import machinery.release as r; r.release = lambda: {NEWER!r}"
        code = f"{patched}\nfrom stowage.cli import cli; cli()"
        process.args = [process.args[0], "-c", code, *process.args[3:]]
        process.start()


@pytest.fixture
def newer_kinds(running: Stage) -> Iterator[Kubectl]:
    """A hub whose kind Workload has fields that none of these processes knows."""
    hub = running.hub
    crd = json.loads(hub("get", "crd", "workloads.stowage.dev", "-o", "json"))
    (version,) = crd["spec"]["versions"]
    properties: dict[str, Any] = version["schema"]["openAPIV3Schema"]["properties"]
    before = json.dumps({"spec": {"versions": [version]}})
    for part in ("spec", "status"):
        properties[part]["properties"]["future"] = FUTURE
    patch = ("patch", "crd", "workloads.stowage.dev", "--type=merge", "-p")
    hub(*patch, json.dumps({"spec": {"versions": [version]}}))
    yield hub
    for part in ("spec", "status"):
        del properties[part]["properties"]["future"]
    hub(*patch, before)


@pytest.mark.proves("PK20")
@pytest.mark.parametrize("role", ["controller", "propagator"])
def test_processes_one_minor_apart_place_and_scale(
    running: Stage, newer_kinds: Kubectl, space: str, role: str
) -> None:
    Released(running, role).start()
    wait(
        "the release to be noted",
        lambda: NEWER in running.hub("get", "lease", f"stowage-{role}", "-n", HOME, "-o", "yaml"),
    )
    (body,) = (each for each in yaml.safe_load_all(EXAMPLE) if each["kind"] == "Workload")
    body["metadata"]["namespace"] = space
    body["spec"] = {"future": "kept", "targetDeployment": body["spec"]["targetDeployment"]}
    name = body["metadata"]["name"]
    running.hub.apply(body)
    running.until_running(space, name)
    status = ("patch", "wl", name, "-n", space, "--subresource=status", "--type=merge")
    running.hub(*status, "-p", json.dumps({"status": {"future": "kept"}}))
    running.hub("scale", "wl", name, "-n", space, "--replicas=5")
    wait("five replicas", lambda: sum(running.placements(space, name).values()) == 5)
    running.until_running(space, name)
    found = running.hub.get("wl", name, space)
    assert found["spec"]["future"] == found["status"]["future"] == "kept"
    code = subprocess.run(
        [sys.executable, "-m", "stowage", "status", f"--kubeconfig={running.hub.kubeconfig}"],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    assert "minor version apart" not in code.stdout
    running.processes[role].kill()  # the next test starts it as it is
