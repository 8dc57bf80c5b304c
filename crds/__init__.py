"""The kinds of Stowage: one module each, and beside it the manifest that is generated from it.

`kubectl apply -f crds/` installs them; so does applying `manifests()`. This is the lowest
layer: it imports nothing of ours, does no I/O beyond reading its own files, and everything above
may rely on its names. The models need pydantic; `crds.names` and this module do without.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib import resources
from typing import Any

import yaml

FILES = (
    "membercluster.yaml",
    "workloadkind.yaml",
    "workload.yaml",
    "workloadpolicy.yaml",
    "workloadspread.yaml",
    "reservation.yaml",
    "workloadgroup.yaml",
    "workloadquota.yaml",
    "clusterdecision.yaml",
    "assignment.yaml",
    "memberreport.yaml",
    "admission.yaml",
    "zz-guard.yaml",
)
"""The generated manifests, in the order in which they are applied."""


LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The one in C, where PyYAML has it: ten times as fast, and both processes read at their start."""


def manifests() -> list[dict[str, Any]]:
    """Return all objects to apply to a hub, in order: CRDs, policies with bindings, the guard.

    Read from the package's own files, so that an installed wheel needs no generator.
    """
    return [document for name in FILES for document in _documents(name)]


@functools.cache
def definition_of(kind: str) -> Mapping[str, Any]:
    """Return the CRD of that kind of ours alone, such as `Workload`; the same object each time."""
    (found,) = _documents(f"{kind.lower()}.yaml")
    return found


def _documents(name: str) -> list[dict[str, Any]]:
    text = resources.files(__name__).joinpath(name).read_text(encoding="utf-8")
    return list(yaml.load_all(text, Loader=LOADER))
