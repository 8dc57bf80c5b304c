"""The places of programs that are built from Go modules: a cache folder for each set of versions.

The folder's name is the hash of the Go module's go.sum, so no set overwrites another or is built
twice.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

_HERE = Path(__file__).parent
GO_MODULE = _HERE / "gomod"

# name of the program -> its package in the Go module
PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "kwok": "sigs.k8s.io/kwok/cmd/kwok",
    "kind": "sigs.k8s.io/kind",
}


class GoModule(NamedTuple):
    """Versions that are pinned together, and the programs that are built with them."""

    place: Path
    """The folder of go.mod and go.sum."""
    cache: str
    """The folder in the cache."""
    packages: Mapping[str, str]


CONTROL_PLANE = GoModule(GO_MODULE, "controlplanes", PACKAGES)
HELM = {
    major: GoModule(_HERE / major, major, {"helm": f"helm.sh/helm/v{major[-1]}/cmd/helm"})
    for major in ("helm3", "helm4")
}
"""Both are tried with the chart; nothing else runs them."""
KREW = GoModule(
    _HERE / "krew",
    "krew",
    {"validate-krew-manifest": "sigs.k8s.io/krew/cmd/validate-krew-manifest"},
)
"""Judges the manifest of the plugin of kubectl, in tests."""
# what the local provider needs; kind is built on demand
LOCAL = ("etcd", "kubectl", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")

KWOK_MODULE = "sigs.k8s.io/kwok"
# kwok does nothing without stages: what a Node and a Pod go through, and when
KWOK_STAGES = (
    "kustomize/stage/node/fast/node-initialize.yaml",
    "kustomize/stage/pod/fast/pod-ready.yaml",
    "kustomize/stage/pod/fast/pod-complete.yaml",
    "kustomize/stage/pod/fast/pod-delete.yaml",
)


def cache_root() -> Path:
    """Return `$XDG_CACHE_HOME/stowage`, or `~/.cache/stowage`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stowage"


def key(module: GoModule = CONTROL_PLANE) -> str:
    """Return the name of this set of versions: the first 16 hex digits of go.sum's SHA-256."""
    return hashlib.sha256((module.place / "go.sum").read_bytes()).hexdigest()[:16]


def folder(module: GoModule = CONTROL_PLANE) -> Path:
    """Return the cache folder of this set of versions; it holds `bin/` and `stages/`."""
    return cache_root() / module.cache / key(module)


def path(name: str, module: GoModule = CONTROL_PLANE) -> Path:
    """Return the place of that program, which need not be built yet."""
    return folder(module) / "bin" / name


def stages() -> list[Path]:
    return [folder() / "stages" / Path(stage).name for stage in KWOK_STAGES]


def missing(names: Sequence[str], module: GoModule = CONTROL_PLANE) -> list[str]:
    return [name for name in names if not path(name, module).exists()]
