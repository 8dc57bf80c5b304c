"""Objects of each form of installation, by what names them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from crds import LOADER
from stowage.packaging import forms
from stowage.toolchain import binaries

Objects = dict[tuple[str, str, str], dict[str, Any]]
DEPLOY = forms.ROOT / "deploy"
CHART = DEPLOY / "charts" / "stowage"
NEWEST = "--kube-version=1.36.0"
HOME = "stowage-system"


def listed(objects: Iterable[Mapping[str, Any] | None]) -> Objects:
    """The objects by kind, namespace and name. Each is there once."""
    found: Objects = {}
    for each in objects:
        if each:
            meta = each["metadata"]
            key = (each["kind"], meta.get("namespace", ""), meta["name"])
            assert key not in found, key
            found[key] = dict(each)
    return found


def read(text: str) -> Objects:
    return listed(yaml.load_all(text, Loader=LOADER))


def kustomized(folder: Path) -> Objects:
    return read(subprocess.check_output([binaries.path("kubectl"), "kustomize", folder], text=True))


class Helm:
    """One version of Helm; `run` gives its exit code and all that it says."""

    def __init__(self, program: Path, home: Path) -> None:
        self.program = program
        self._env = {"PATH": "/usr/bin:/bin", "HOME": str(home)}

    def run(self, *arguments: object) -> tuple[int, str]:
        done = subprocess.run(
            [self.program, *map(str, arguments)],
            env=self._env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    def template(
        self, *arguments: str, version: str = NEWEST, home: str = HOME, chart: Path = CHART
    ) -> str:
        """What it renders. Fails the test where it renders nothing."""
        code, said = self.run("template", "stowage", chart, "-n", home, version, *arguments)
        assert code == 0, said
        return said

    def refused(self, *arguments: str) -> str:
        """What it says instead of rendering."""
        code, said = self.run("template", "stowage", CHART, "-n", HOME, NEWEST, *arguments)
        assert code != 0
        return said
