"""Wheel, sdist and bill of materials; the wheel in an environment of its own.

The environment has the Python that runs the tests: the workflows run them with 3.11 and 3.13.
"""

from __future__ import annotations

import filecmp
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from stowage.packaging import forms
from stowage.playground.cluster import Cluster
from stowage.playground.processes import Process
from tests import lock
from tests.patience import hold_on

from .rendering import DEPLOY, Helm
from .test_apply import NEW, kinds

ROOT = forms.ROOT
CLIENT = f"client   {metadata.version('stowage')}\n"
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())


def hashes(package: lock.Package) -> set[str]:
    files = [*package.get("wheels", ()), *([package["sdist"]] if "sdist" in package else ())]
    return {each["hash"].removeprefix("sha256:") for each in files}


def named(bill: dict[str, Any]) -> dict[tuple[str, str], set[str]]:
    return {
        (each["name"], each["version"]): {
            digest["content"]
            for reference in each["externalReferences"]
            for digest in reference["hashes"]
            if digest["alg"] == "SHA-256"
        }
        for each in bill["components"]
    }


@pytest.mark.proves("PK12")
def test_the_bill_names_what_the_lock_installs_and_no_other() -> None:
    bill = json.loads((DEPLOY / forms.SBOM).read_text())
    locked = {(each["name"], each["version"]): hashes(each) for each in lock.runtime()}
    assert named(bill) == locked
    assert all(locked.values())
    assert "serialNumber" not in bill
    assert "timestamp" not in bill["metadata"]
    assert SETTINGS["tool"]["hatch"]["build"]["targets"]["wheel"]["sbom-files"] == [
        f"deploy/{forms.SBOM}"
    ]


@pytest.mark.proves("PK12")
def test_two_prints_are_equal() -> None:
    assert forms.printed() == forms.printed()


@pytest.mark.proves("PK10")
def test_the_wheel_has_each_package_and_the_data_of_the_commands() -> None:
    wheel = SETTINGS["tool"]["hatch"]["build"]["targets"]["wheel"]
    packages = SETTINGS["tool"]["importlinter"]["root_packages"]
    assert set(wheel["only-include"]) == {*packages, "deploy", "examples"}
    assert wheel["sources"] == {"deploy": "stowage/deploy", "examples": "stowage/examples"}
    excluded = [each.strip("/") for each in wheel["exclude"]]
    for each in excluded:
        assert (ROOT / each).exists(), each
    parts = (ROOT / "stowage/setup/install.py").read_text() + (
        ROOT / "stowage/setup/tenants.py"
    ).read_text()
    for part in re.findall(r'"([\w/-]+\.yaml)"', parts):
        assert (DEPLOY / part).exists()
        assert not [each for each in excluded if f"deploy/{part}".startswith(each)]
    scripts = SETTINGS["project"]["scripts"]
    assert set(scripts.values()) == {"stowage.cli:main", "stowage.cli:complete"}


# --- built ----------------------------------------------------------------------------------------


def run(*command: object, **env: str) -> str:
    said = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **env}
    said |= {name: value for name, value in os.environ.items() if name.startswith(("UV_", "PIP_", "SSL_", "REQUESTS_"))}  # fmt: skip
    done = subprocess.run(
        list(map(str, command)), cwd="/", env=said, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def checkout(folder: Path) -> Path:
    """A copy of what git has, or would have."""
    listed = run("git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "-z")
    for name in filter(None, listed.split("\0")):
        source, target = ROOT / name, folder / name
        if source.is_file() and not source.is_symlink():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    return folder


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two folders with the same checkout, and the result of a build in `dist` of each."""
    made = [checkout(tmp_path_factory.mktemp(name)) for name in ("one", "another-folder")]
    for folder in made:
        run(forms._uv(), "build", "--quiet", f"--python={sys.executable}", folder)
    return made


@pytest.fixture(scope="module")
def wheel(built: list[Path]) -> Path:
    (found,) = (built[0] / "dist").glob("*.whl")
    return found


@pytest.mark.long
@pytest.mark.proves("PK12")
def test_two_builds_are_equal(built: list[Path], wheel: Path) -> None:
    one, other = (folder / "dist" for folder in built)
    names = sorted(path.name for path in one.iterdir() if not path.name.startswith("."))
    assert [Path(name).suffix for name in names] == [".whl", ".gz"]
    assert filecmp.cmpfiles(one, other, names, shallow=False) == (names, [], [])
    with zipfile.ZipFile(wheel) as archive:
        (bill,) = (name for name in archive.namelist() if "/sboms/" in name)
        assert archive.read(bill) == (DEPLOY / forms.SBOM).read_bytes()


@pytest.mark.long
@pytest.mark.proves("PK35")
def test_the_wheel_has_the_man_pages(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        pages = {Path(each).name: archive.read(each) for each in archive.namelist() if "/share/man/man1/" in each}  # fmt: skip
    assert pages == {each.name: each.read_bytes() for each in (DEPLOY / "man").iterdir()}


@pytest.mark.long
@pytest.mark.proves("PK12")
def test_two_charts_are_equal(helm: Helm, tmp_path: Path) -> None:
    """By Helm 4, which `make dist` takes; Helm 3 writes the time of the day into the archive."""
    recipe = run("make", "-C", ROOT, "--dry-run", "dist")
    if "helm4" not in str(helm.program):
        assert "build helm4)" in recipe
        return
    (touched,) = re.findall(r"touch -d (\S+) ", recipe)
    made = []
    for name in ("one", "other"):
        folder = tmp_path / name
        shutil.copytree(DEPLOY / "charts" / "stowage", folder / "stowage")
        run("find", folder, "-exec", "touch", "-d", touched, "{}", "+")
        code, said = helm.run("package", folder / "stowage", "--destination", folder)
        assert code == 0, said
        made.append((folder / "stowage-0.1.0.tgz").read_bytes())
    assert made[0] == made[1]


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment that has the wheel, and what its metadata asks for."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    run(forms._uv(), "venv", "--quiet", f"--python={sys.executable}", folder)
    run(forms._uv(), "pip", "install", "--quiet", f"--python={folder / 'bin/python'}", wheel)
    return folder / "bin"


@pytest.mark.long
@pytest.mark.proves("PK10")
def test_the_wheel_runs_alone(environment: Path, tmp_path: Path) -> None:
    stowage = environment / "stowage"
    inside = run(
        environment / "python", "-c", "import stowage.setup.install as i; print(i.folder())"
    )
    assert "site-packages/stowage/deploy" in inside
    assert run(stowage, "version", "--client") == CLIENT
    printed = run(stowage, "install", "--dry-run", "--kubeconfig=/none")
    assert printed.count("kind: CustomResourceDefinition") == len(kinds())
    examples = ROOT / "examples"
    planned = run(stowage, "plan", "-f", examples / "12-divided-by-weight.yaml", "--fleet", examples / "fleet/three-zones.yaml")  # fmt: skip
    assert "demo/weighted" in planned


@pytest.fixture
def installed(make_cluster: Callable[..., Cluster]) -> Cluster:
    hub = make_cluster("wheel")
    hub.kubectl("apply", "-f", str(NEW))
    return hub


@pytest.fixture
def started(environment: Path, installed: Cluster, tmp_path: Path) -> Iterator[list[Process]]:
    made = [
        Process(
            name,
            [str(environment / "stowage"), name, "--http-port=0", f"--kubeconfig={installed.kubeconfig}"],
            tmp_path / f"{name}.log",
        )
        for name in ("controller", "propagator")
    ]  # fmt: skip
    for each in made:
        each.start(detached=False)
    yield made
    for each in made:
        each.end()


@pytest.mark.long
@pytest.mark.proves("PK10")
def test_both_processes_start_from_the_wheel(started: list[Process]) -> None:
    for each in started:
        hold_on(lambda each=each: re.search(r"listening on \S+:(\d+)", each.log.read_text()))
        assert each.alive()


@pytest.mark.long
@pytest.mark.proves("PK10")
def test_uv_and_pipx_install_the_checkout(built: list[Path], tmp_path: Path) -> None:
    tools = {"UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin")}
    run(forms._uv(), "tool", "install", "--quiet", f"--python={sys.executable}", built[0], **tools)
    assert run(tmp_path / "bin/stowage", "version", "--client") == CLIENT
    pipx = {"PIPX_HOME": str(tmp_path / "pipx"), "PIPX_BIN_DIR": str(tmp_path / "pipx-bin")}
    run(forms._uv(), "tool", "run", "--quiet", f"--python={sys.executable}", "pipx", "install", f"--python={sys.executable}", built[0], **pipx)  # fmt: skip
    assert run(tmp_path / "pipx-bin/stowage", "version", "--client") == CLIENT
