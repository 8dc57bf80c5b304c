"""What comes from elsewhere is what was looked at: by lock, by hash, by digest, by commit."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from stowage.playground import kind

ROOT = Path(__file__).resolve().parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.y*ml"))
DIGEST = r"@sha256:[0-9a-f]{64}"


def runs() -> str:
    """All that the forge runs."""
    jobs = [job for path in WORKFLOWS for job in yaml.safe_load(path.read_text())["jobs"].values()]
    return "\n".join(step["run"] for job in jobs for step in job["steps"] if "run" in step)


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


@pytest.mark.proves("S12")
def test_dependencies_are_looked_at_with_every_lint() -> None:
    assert re.search(
        r"^CHECKS := (.*\\\n)*.*'deptry \.'", (ROOT / "Makefile").read_text(), re.MULTILINE
    )


@pytest.mark.proves("Y2")
def test_the_forge_tries_what_a_docker_engine_is_needed_for_on_both_kinds_of_hub() -> None:
    said = runs()
    for command in ("make test", "make demo", "make e2e PROVIDER=kind"):
        assert command in said
    (job,) = (yaml.safe_load(path.read_text())["jobs"]["kind"] for path in WORKFLOWS)
    newest, older = job["strategy"]["matrix"]["nodes"]
    assert newest == ""
    assert re.search(r"node:v1\.3[0-5]\.\d+" + DIGEST, older)
    assert re.search(r"node:v1\.36\.\d+" + DIGEST, kind.NODE_IMAGE)
