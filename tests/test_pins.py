"""What comes from elsewhere is what was looked at: by lock, by hash, by digest, by commit."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from stowage.playground import kind

ROOT = Path(__file__).resolve().parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.y*ml"))
DIGEST = r"@sha256:[0-9a-f]{64}"


@pytest.mark.proves("S12")
def test_actions_are_named_by_commit_with_their_version_beside() -> None:
    used = [line for path in WORKFLOWS for line in path.read_text().splitlines() if "uses:" in line]
    assert len(used) >= 6
    for line in used:
        assert re.search(r"uses: [\w/.-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+$", line), line


@pytest.mark.proves("S12")
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
