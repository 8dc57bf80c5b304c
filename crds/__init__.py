"""The kinds of Stowage: one module each, and beside it the manifest that is generated from it.

`kubectl apply -f crds/` installs them; so does whoever applies `manifests()`. This is the lowest
layer: it imports nothing of ours, does no I/O beyond reading its own files, and everything above
may rely on its names. The models need pydantic; `crds.names` and this module do without.
"""

from __future__ import annotations

from importlib import resources
from typing import Any

import yaml

FILES = (
    "membercluster.yaml",
    "workload.yaml",
    "workloadpolicy.yaml",
    "workloadspread.yaml",
    "reservation.yaml",
    "workloadgroup.yaml",
    "admission.yaml",
)
"""The generated manifests, in the order in which they are applied."""


def manifests() -> list[dict[str, Any]]:
    """All objects to apply to a hub, in order: CRDs, then admission policies with their bindings.

    Read from the package's own files, so that an installed wheel needs no generator.
    """
    folder = resources.files(__name__)
    return [
        document
        for name in FILES
        for document in yaml.safe_load_all(folder.joinpath(name).read_text(encoding="utf-8"))
    ]
