"""What comes from elsewhere is what was looked at: by lock, by hash, by digest, by commit."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from stowage.packaging import release
from stowage.playground import kind
from tests import lock

ROOT = Path(__file__).resolve().parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.y*ml"))
DIGEST = r"@sha256:[0-9a-f]{64}"


@pytest.mark.proves("S12", "PK14")
def test_actions_are_named_by_commit_with_their_version_beside() -> None:
    used = [line for path in WORKFLOWS for line in path.read_text().splitlines() if "uses:" in line]
    assert len(used) >= 6
    for line in used:
        assert re.search(r"uses: [\w/.-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+$", line), line


@pytest.mark.proves("S12", "PK13")
def test_the_image_is_built_from_the_lock_on_a_base_by_digest() -> None:
    text = (ROOT / "Dockerfile").read_text()
    (base,) = re.findall(r"^ARG BASE=(\S+)$", text, re.MULTILINE)
    assert re.search(rf"^python:3\.\d+\.\d+-slim-\w+{DIGEST}$", base)
    assert set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) == {"${BASE}"}
    for line in re.sub(r"\\\n", " ", text).splitlines():
        for command in re.findall(r"(?:uv sync|pip install)[^&]*", line):
            assert "--locked" in command or "--require-hashes" in command, command
    made = re.search(r"^UV_VERSION := (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert made
    assert f"uv=={made[1]} " in text
    for folder in ("crds", "machinery", "controller", "propagator", "stowage", "deploy"):
        assert f"COPY {folder} {folder}\n" in text


@pytest.mark.proves("PK13")
def test_the_image_runs_as_nobody_and_says_what_it_is() -> None:
    text = (ROOT / "Dockerfile").read_text()
    last = text.rpartition("\nFROM ")[2]
    (user,) = re.findall(r"(?m)^USER (\S+)$", last)
    assert user.split(":")[0].isdigit()
    assert user.split(":")[0] != "0"
    labels = set(re.findall(r"org\.opencontainers\.image\.(\w+)=", last))
    assert labels >= {"title", "description", "licenses", "version", "revision", "source"}
    assert not re.search(r"(?m)\b(?:curl|wget|apt-get|apk|git clone)\b|^ADD ", text)
    (build,) = re.findall(r"docker buildx build .*?--tag", COMMANDS["release"], re.DOTALL)
    assert set(re.findall(r"--build-arg (\w+)=", build)) == {"VERSION", "REVISION", "SOURCE"}


@pytest.mark.proves("PK13")
def test_what_is_not_python_comes_as_a_wheel_on_both_architectures() -> None:
    """Else the image of one of them would need a compiler."""
    native = 0
    for package in lock.runtime():
        names = [wheel["url"].rpartition("/")[2] for wheel in package["wheels"]]
        if any(name.endswith("-none-any.whl") for name in names):
            continue
        native += 1
        for machine in ("x86_64", "aarch64"):
            assert any(
                re.search(rf"-(?:cp313-cp313|cp3\d+-abi3)-[\w.]*manylinux[\w.]*{machine}", name)
                for name in names
            ), f"{package['name']} for {machine}"
    assert native > 5


COMMANDS = {
    path.stem: "\n".join(
        step["run"]
        for job in yaml.safe_load(path.read_text())["jobs"].values()
        for step in job["steps"]
        if "run" in step
    )
    for path in WORKFLOWS
}
"""What each workflow runs."""


@pytest.mark.proves("PK14")
def test_each_target_that_a_workflow_makes_is_there() -> None:
    made = {target for said in COMMANDS.values() for target in re.findall(r"(?m)^make (\S+)", said)}
    assert made >= {"test", "test-all", "docs", "demo", "demo-down", "e2e", "lint", "dist"}
    for target in made:
        asked = ["make", "--dry-run", target]
        assert subprocess.run(asked, cwd=ROOT, capture_output=True, check=False).returncode == 0


@pytest.mark.proves("PK14")
def test_the_nightly_workflow_draws_anew_and_has_chaos() -> None:
    assert "make test-all" in COMMANDS["nightly"]
    said = commands({"run": "make test-all"})
    assert "--hypothesis-profile=long" in said
    assert "pytest -m long e2e/test_chaos.py" in said


CHANGES = "# Changes\n\n## Unreleased\n\n## 0.2.0 - 2027-01-31\n\n## 0.1.0 - 2026-11-30\n"


@pytest.mark.proves("PK14")
@pytest.mark.parametrize(
    ("tag", "version", "changes", "told"),
    [
        ("v0.2.0", "0.2.0", CHANGES, []),
        ("v0.1.0", "0.2.0", CHANGES, ["the tag is v0.1.0, and pyproject.toml has 0.2.0"]),
        ("0.2.0", "0.2.0", CHANGES, ["the tag is 0.2.0, and pyproject.toml has 0.2.0"]),
        (
            "v0.3.0",
            "0.3.0",
            CHANGES,
            ["the newest heading of CHANGELOG.md is 0.2.0, and pyproject.toml has 0.3.0"],
        ),
        (
            "v0.1.0",
            "0.1.0",
            "# Changes\n\n## Unreleased\n",
            ["the newest heading of CHANGELOG.md is no release, and pyproject.toml has 0.1.0"],
        ),
    ],
)
def test_a_release_stops_where_tag_project_and_changes_differ(
    tag: str,
    version: str,
    changes: str,
    told: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "pyproject.toml").write_text(f'[project]\nversion = "{version}"\n')
    (tmp_path / "CHANGELOG.md").write_text(changes)
    assert release.main([tag], tmp_path) == (1 if told else 0)
    assert capsys.readouterr().err.splitlines() == [f"error: {each}" for each in told]


@pytest.mark.proves("PK14")
def test_a_release_is_judged_before_anything_is_pushed() -> None:
    said = COMMANDS["release"]
    judged = said.index('stowage.packaging.release "$TAG"')
    assert judged < said.index("make lint") < said.index("--push")
    assert said.index("--push") < said.index("gh release create")


def commands(step: dict[str, Any], nodes: str = "") -> str:
    """What make would run for a step of the forge. Raises where make has no such target."""
    said = {**os.environ, "MAKEFLAGS": "n", "NODES": nodes}
    return subprocess.check_output(["sh", "-ec", step["run"]], cwd=ROOT, env=said, text=True)


@pytest.mark.proves("Y2")
def test_the_forge_tries_what_a_docker_engine_is_needed_for_on_both_kinds_of_hub() -> None:
    jobs = {
        n: job for path in WORKFLOWS for n, job in yaml.safe_load(path.read_text())["jobs"].items()
    }
    steps = {name: [each for each in job["steps"] if "run" in each] for name, job in jobs.items()}
    assert "pytest --dist=loadgroup" in commands(steps["test"][0])
    assert "playground demo" in commands(steps["demo"][0])
    newest, older = jobs["kind"]["strategy"]["matrix"]["nodes"]
    for nodes in (newest, older):
        (command,) = re.findall("pytest e2e .*", commands(steps["kind"][0], nodes))
        assert "--provider kind" in command
        assert re.findall(r"--node-image=(\S+)", command) == [each for each in (nodes,) if each]
    assert re.search(r"node:v1\.3[0-5]\.\d+" + DIGEST, older)
    assert re.search(r"node:v1\.36\.\d+" + DIGEST, kind.NODE_IMAGE)
