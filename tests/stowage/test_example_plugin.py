"""examples/plugin, installed beside Stowage in an environment of its own, as somebody else would.

Both come from their wheels, so that nothing of the checkout is imported and the plugin is found by
its entry point alone. The versions of everything else are those of the lock, which uv has at hand.
"""

from __future__ import annotations

import ast
import functools
import json
import os
import shutil
import subprocess
import sys
import tomllib
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from crds.names import SYSTEM_NAMESPACE
from stowage.playground.cluster import Cluster
from stowage.playground.processes import Process
from tests.inforce import until_may
from tests.patience import hold_on
from tests.stowage import accounts

from .conftest import listening

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLE = ROOT / "examples" / "plugin"
CONFIG = f"--config={EXAMPLE / 'scheduler.yaml'}"
GRAMS = "carbon.example.com/grams-per-kwh"
LIMIT = "carbon.example.com/at-most"
RUNS = "the controller Carbon/readings runs"

until = functools.partial(hold_on, every=0.5)  # each look is a kubectl


class Environment:
    """A virtual environment with both packages; `env(...)` runs a program of it, in its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = folder / "env" / "bin" / "python"
        packages = ("numpy", "pytest", "pytest-asyncio")
        locked = folder / "locked.txt"
        _uv("export", "--locked", "--no-emit-project", "--no-hashes", f"--output-file={locked}")
        for package in (ROOT, EXAMPLE):
            _uv("build", "--wheel", f"--out-dir={folder}", str(package))
        self.stowage, self.carbon = sorted(folder.glob("*.whl"))
        _uv("venv", f"--python={sys.executable}", str(folder / "env"))
        wheels = (str(self.stowage), str(self.carbon))
        there = f"--python={self.python}"
        _uv("pip", "install", there, f"--constraints={locked}", *wheels, *packages)

    def program(self, name: str) -> str:
        """Where it is."""
        return str(self.python.with_name(name))

    def __call__(self, name: str, *args: str, code: int = 0) -> str:
        """What it prints; it must end with that code."""
        done = subprocess.run(
            [self.program(name), *args],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout


def _uv(*args: str) -> None:
    uv = os.environ.get("UV") or shutil.which("uv") or str(ROOT / ".tools" / "bin" / "uv")
    done = subprocess.run(
        [uv, *args], cwd=ROOT, capture_output=True, text=True, timeout=480, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("example"))


@pytest.mark.long
@pytest.mark.proves("V27")
def test_our_wheel_has_the_files_of_the_web_page(env: Environment) -> None:
    ours = set(zipfile.ZipFile(env.stowage).namelist())
    web = ROOT / "stowage" / "web"
    files = [path for name in ("templates", "static") for path in (web / name).iterdir()]
    assert len(files) > 15
    assert {path.relative_to(ROOT).as_posix() for path in files} <= ours


@pytest.mark.long
def test_it_is_a_package_of_its_own_which_our_wheel_leaves_out(env: Environment) -> None:
    ours, theirs = (zipfile.ZipFile(wheel).namelist() for wheel in (env.stowage, env.carbon))
    assert "stowage/examples/01-deployment-service-secret.yaml" in ours
    for package in ("crds", "machinery", "controller", "propagator", "stowage"):
        assert f"{package}/py.typed" in ours, "plugins are checked against our types"
    assert not [name for name in ours if "carbon" in name or "examples/plugin" in name]
    assert "stowage_carbon/plugin.py" in theirs
    assert not [name for name in theirs if name.startswith(("controller/", "tests/"))]


@pytest.mark.long
@pytest.mark.proves("E2")
def test_its_own_tests_pass_with_what_is_installed(env: Environment) -> None:
    where = env("python", "-c", "import controller, stowage_carbon as s; print(s.__file__)")
    assert str(env.folder) in where
    assert " passed" in env("pytest", "-q", "-p", "no:cacheprovider", str(EXAMPLE))


@pytest.mark.long
@pytest.mark.proves("E1", "PK11")
def test_a_plan_of_files_goes_by_it(env: Environment) -> None:
    about = (f"-f{EXAMPLE / 'workload.yaml'}", f"--fleet={EXAMPLE / 'fleet.yaml'}")
    found = json.loads(env("stowage", "plan", *about, CONFIG, "-o", "json"))["workloads"][0]
    assert [share["cluster"] for share in found["placements"]] == ["paris"]
    reasons = {each["name"]: each["reason"] for each in found["clusters"]}
    assert reasons["berlin"] == "more than 200 g CO2/kWh"
    without = json.loads(env("stowage", "plan", *about, "-o", "json"))["workloads"][0]
    assert not any("CO2" in each["reason"] for each in without["clusters"])


@pytest.mark.long
@pytest.mark.proves("PK11")
def test_beside_a_checkout_it_is_found_as_beside_the_wheel(env: Environment) -> None:
    beside = env("stowage", "plugins", CONFIG)
    _uv("venv", f"--python={sys.executable}", str(env.folder / "beside"))
    python = env.folder / "beside" / "bin" / "python"
    locked = f"--constraints={env.folder / 'locked.txt'}"
    _uv("pip", "install", f"--python={python}", locked, "--editable", str(ROOT), str(env.carbon))
    where = "import controller, stowage_carbon as s; print(controller.__file__, s.__file__)"
    ours, theirs = subprocess.check_output([python, "-c", where], text=True, cwd="/").split()
    assert ours == str(ROOT / "controller" / "__init__.py")
    assert str(env.folder / "beside") in theirs
    told = [python.with_name("stowage"), "plugins", CONFIG]
    assert subprocess.check_output(told, text=True, cwd="/") == beside


@pytest.mark.proves("PK11")
def test_its_source_is_found_by_its_entry_point_and_imports_what_the_wheel_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The packages of a checkout are those of the wheel, so one source works beside both."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    (entry,) = project["entry-points"]["stowage.plugins"].items()
    about = tmp_path / "stowage_carbon-0.1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: stowage-carbon\nVersion: 0.1.0\n")
    (about / "entry_points.txt").write_text(f"[stowage.plugins]\n{' = '.join(entry)}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(EXAMPLE))
    found = {each.name: each for each in metadata.entry_points(group="stowage.plugins")}
    assert found["Carbon"].load().__module__ == "stowage_carbon.plugin"
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]  # fmt: skip
    needed = {each.partition(">")[0] for each in project["dependencies"]} - {"stowage"}
    roots = {
        name.split(".")[0]
        for file in (EXAMPLE / "stowage_carbon").glob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        for name in (
            [each.name for each in node.names]
            if isinstance(node, ast.Import)
            else [str(node.module)]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert "controller" in roots
    assert roots - sys.stdlib_module_names - needed - {"stowage_carbon"} <= {*wheel["only-include"]}


@pytest.fixture(scope="module")
def carbon(env: Environment, make_cluster: Any) -> Cluster:
    """A hub with our kinds and accounts, a ConfigMap and the clusters of the example's fleet."""
    cluster: Cluster = make_cluster("carbon")
    env("stowage", "install", "--wait=false", f"--kubeconfig={cluster.kubeconfig}")
    cluster.kubectl("apply", "-f", str(EXAMPLE / "rbac.yaml"))
    cluster.kubectl("create", "namespace", "demo")
    numbers = ("--from-literal=fr=55", "--from-literal=de=420", "--from-literal=pl=dirty")
    where = ("-n", SYSTEM_NAMESPACE)
    cluster.kubectl("create", "configmap", "carbon-intensity", *where, *numbers)
    for region, name in (("fr", "paris"), ("de", "berlin"), ("pl", "warsaw")):
        _register(cluster, name, region)
    accounts.rights_in_force(cluster)
    user = f"system:serviceaccount:{SYSTEM_NAMESPACE}:stowage-controller"
    until_may(cluster, user, "patch memberclusters.stowage.dev")
    until_may(cluster, user, f"get configmaps/carbon-intensity -n {SYSTEM_NAMESPACE}")
    return cluster


def _register(cluster: Cluster, name: str, region: str) -> None:
    room = {"count": 2, "free": {"cpu": "8", "memory": "32Gi", "pods": "110"}}
    since = {"lastTransitionTime": "2026-01-01T00:00:00Z", "message": ""}
    ready = {"type": "Ready", "status": "True", "reason": "Connected", **since}
    body = {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "MemberCluster",
        "metadata": {"name": name, "labels": {"topology.kubernetes.io/region": region}},
        "spec": {"secretRef": {"namespace": SYSTEM_NAMESPACE, "name": name}},
    }
    cluster.kubectl("create", "-f", "-", input=json.dumps(body))
    status = json.dumps({"status": {"conditions": [ready], "nodeGroups": [room]}})
    patch = ("--subresource=status", "--type=merge", f"--patch={status}")
    cluster.kubectl("patch", "membercluster", name, *patch)


@pytest.fixture
async def replicas(env: Environment, carbon: Cluster, tmp_path: Path) -> Iterator[list[Process]]:
    """A controller that leads and a standby, as the service account, with the example's file."""
    kubeconfig = await accounts.kubeconfig(carbon, "controller", tmp_path)
    command = [env.program("stowage"), "controller", "--http-port=0", CONFIG]
    command.append(f"--kubeconfig={kubeconfig}")
    started: list[Process] = []
    try:
        for name in ("first", "second"):
            started.append(Process(name, command, tmp_path / f"{name}.log"))
            started[-1].start(detached=False)
            listening(started[-1].log)
            hold_on(lambda: RUNS in started[0].log.read_text())
        yield started
    finally:
        for process in started:
            process.end()


@pytest.mark.long
@pytest.mark.proves("E1", "E5", "E6", "E12")
def test_it_lives_in_a_controller(
    env: Environment, carbon: Cluster, replicas: list[Process]
) -> None:
    log, standby = (process.log for process in replicas)
    base = f"http://127.0.0.1:{listening(log)}"

    def grams() -> dict[str, str | None]:
        items = json.loads(carbon.kubectl("get", "memberclusters", "-o", "json"))["items"]
        return {i["metadata"]["name"]: i["metadata"]["labels"].get(GRAMS) for i in items}

    # Its controller, with the rights of rbac.yaml.
    written = {"paris": "55", "berlin": "420", "warsaw": None}
    until(lambda: grams() == written, what=lambda: (grams(), log.read_text()[-2000:]))
    # Its filter, over the numbers that the controller has brought.
    carbon.kubectl("apply", "-f", str(EXAMPLE / "workload.yaml"))
    until(lambda: _status(carbon).get("placements") == [{"cluster": "paris", "replicas": 2}])
    # Its endpoints.
    services = _get(f"{base}/apis/v1/__services__")["GET"]
    assert "/apis/v1/plugins/Carbon/clusters/:name" in services
    told = {"region": "fr", "gramsPerKwh": 55, "source": "label"}
    assert _get(f"{base}/apis/v1/plugins/Carbon/clusters/paris") == told
    assert _get(f"{base}/apis/v1/plugins/Carbon/clusters")["warsaw"]["source"] == "args"
    unknown = _get(f"{base}/apis/v1/plugins/Carbon/clusters/nowhere", code=404)
    assert unknown == {"message": "cannot find cluster nowhere"}
    # Its refusal, in the condition and explained from the hub's objects alone.
    carbon.kubectl("-n", "demo", "delete", "workload", "report", "--wait=false")
    carbon.kubectl("-n", "demo", "patch", "workload", "report", *_merge({"finalizers": None}))
    strict = (EXAMPLE / "workload.yaml").read_text().replace('at-most: "200"', 'at-most: "40"')
    until(lambda: "not found" in carbon.kubectl("-n", "demo", "get", "wl", "report", check=False))
    carbon.kubectl("apply", "-f", "-", input=strict)
    until(lambda: "more than 40 g CO2/kWh" in _scheduled(carbon).get("message", ""))
    about = ("wl/report", "-n", "demo", f"--kubeconfig={carbon.kubeconfig}", CONFIG)
    explained = env("stowage", "explain", *about)
    assert f"label {LIMIT} of 55 or more" in explained
    # What it waits for.
    carbon.kubectl("label", "membercluster", "berlin", f"{GRAMS}=20", "--overwrite")
    until(lambda: _status(carbon).get("placements") == [{"cluster": "berlin", "replicas": 2}])
    # Its controller runs in one replica, and in the other one when that leads.
    assert (log.read_text().count(RUNS), standby.read_text().count(RUNS)) == (1, 0)
    _get(f"http://127.0.0.1:{listening(standby)}/apis/v1/plugins/Carbon/clusters", code=503)
    cleaner = json.dumps({"data": {"fr": "50"}})
    where = ("-n", SYSTEM_NAMESPACE, "--type=merge", f"--patch={cleaner}")
    carbon.kubectl("patch", "configmap", "carbon-intensity", *where)
    replicas[0].end()
    until(lambda: grams()["paris"] == "50", what=lambda: standby.read_text()[-2000:])
    assert (log.read_text().count(RUNS), standby.read_text().count(RUNS)) == (1, 1)
    assert "orbidden" not in log.read_text() + standby.read_text()


@pytest.mark.long
def test_the_deployment_of_a_hub_takes_the_configuration(carbon: Cluster) -> None:
    where, name = ("-n", SYSTEM_NAMESPACE), "stowage-controller"
    before = json.loads(carbon.kubectl(*where, "get", "deployment", name, "-o", "json"))
    patch = f"--patch-file={EXAMPLE / 'controller-patch.yaml'}"
    carbon.kubectl(*where, "patch", "deployment", name, patch)
    after = json.loads(carbon.kubectl(*where, "get", "deployment", name, "-o", "json"))
    args = [each["spec"]["template"]["spec"]["containers"][0]["args"] for each in (before, after)]
    assert args[1] == [*args[0], "--config=/etc/stowage/scheduler.yaml"]
    (mount,) = after["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
    assert mount["mountPath"] == "/etc/stowage"


def _merge(metadata: dict[str, Any]) -> tuple[str, str]:
    return "--type=merge", f"--patch={json.dumps({'metadata': metadata})}"


def _get(url: str, *, code: int = 200) -> Any:
    try:
        answer = urllib.request.urlopen(url, timeout=60)
    except urllib.error.HTTPError as e:
        answer = e
    with answer:
        assert answer.status == code
        return json.loads(answer.read())


def _status(carbon: Cluster) -> dict[str, Any]:
    found = json.loads(carbon.kubectl("-n", "demo", "get", "wl", "report", "-o", "json"))
    status: dict[str, Any] = found.get("status", {})
    return status


def _scheduled(carbon: Cluster) -> dict[str, Any]:
    conditions = _status(carbon).get("conditions", [])
    return next((each for each in conditions if each["type"] == "Scheduled"), {})
