"""The plugin of kubectl that krew installs."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
import yaml

from stowage.console.progress import Lines
from stowage.packaging import krew
from stowage.toolchain import binaries, build

from .rendering import DEPLOY

pytestmark = pytest.mark.proves("PK36")

VERSION = metadata.version("stowage")
MANIFEST = DEPLOY / "krew" / "stowage.yaml"


def test_the_manifest_has_the_digest_of_the_archive() -> None:
    spec = yaml.safe_load(MANIFEST.read_text())["spec"]
    (platform,) = spec["platforms"]
    packed = krew.archive(VERSION)
    assert platform["sha256"] == hashlib.sha256(packed).hexdigest()
    assert platform["uri"].endswith(f"/v{VERSION}/{krew.ARCHIVE}")
    assert spec["version"] == f"v{VERSION}"
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        modes = {each.filename: each.external_attr >> 16 & 0o777 for each in archive.infolist()}
    assert modes == {platform["bin"]: 0o755, "LICENSE": 0o644}


@pytest.fixture
def script(tmp_path: Path) -> Path:
    krew.main([str(tmp_path / "made")])
    with zipfile.ZipFile(tmp_path / "made" / krew.ARCHIVE) as archive:
        archive.extract("kubectl-stowage", tmp_path)
    (tmp_path / "kubectl-stowage").chmod(0o755)
    (tmp_path / "bin").mkdir()
    return tmp_path / "kubectl-stowage"


def program(folder: Path, name: str, says: str) -> None:
    (folder / "bin" / name).write_text(f"#!/bin/sh\n{says}\n")
    (folder / "bin" / name).chmod(0o755)


def run(script: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PATH": f"{script.parent / 'bin'}"}
    return subprocess.run(
        ["/bin/sh", script, *arguments], env=env, capture_output=True, text=True, check=False
    )


def test_the_script_runs_this_very_version(script: Path) -> None:
    folder = script.parent
    alone = run(script)
    assert alone.returncode == 1
    assert f"needs uv or pipx on the PATH, or the command stowage {VERSION}" in alone.stderr
    wheel = f"stowage @ {krew.RELEASES}/v{VERSION}/stowage-{VERSION}-py3-none-any.whl"
    program(folder, "pipx", 'echo pipx "$@"')
    assert (
        run(script, "plan", "a b").stdout == f"pipx run --quiet --spec {wheel} stowage plan a b\n"
    )
    program(folder, "uvx", 'echo uvx "$@"')
    assert run(script, "plan").stdout == f"uvx --quiet --from {wheel} stowage plan\n"
    other = 'if [ "$1" = --version ]; then echo stowage 9.9.9; else echo other "$@"; fi'
    program(folder, "stowage", other)
    assert run(script, "plan").stdout.startswith("uvx ")
    program(folder, "stowage", other.replace("9.9.9", VERSION).replace("other", "ours"))
    assert run(script, "plan", "a  b").stdout == "ours plan a  b\n"


def test_a_release_pins_its_wheel(tmp_path: Path) -> None:
    wheel = tmp_path / "x.whl"
    wheel.write_bytes(b"wheel")
    made = ["--wheel", str(wheel), "--url", "https://r.example/d", str(tmp_path / "dist")]
    assert krew.main(made) == 0
    packed = (tmp_path / "dist" / krew.ARCHIVE).read_bytes()
    pinned = f"#sha256={hashlib.sha256(b'wheel').hexdigest()}'"
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        assert pinned in archive.read("kubectl-stowage").decode()
    (platform,) = yaml.safe_load((tmp_path / "dist/stowage.yaml").read_text())["spec"]["platforms"]
    assert platform["sha256"] == hashlib.sha256(packed).hexdigest()
    assert platform["uri"] == f"https://r.example/d/v{VERSION}/{krew.ARCHIVE}"


@pytest.mark.long
def test_krew_takes_the_manifest(pytestconfig: pytest.Config) -> None:
    name = "validate-krew-manifest"
    with pytestconfig.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        build.ensure((name,), progress=Lines(), module=binaries.KREW)
    command = [binaries.path(name, binaries.KREW), "-manifest", MANIFEST, "-skip-install"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "structural validation OK" in done.stderr
