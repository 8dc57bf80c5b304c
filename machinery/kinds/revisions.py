"""Revisions of a Workload: what makes its pods, its digest, and the object that keeps an old one.

The number of units is no part of a revision: whoever scales changes none. An old revision lies on
the hub as a ControllerRevision that the Workload owns; whoever reads one compares its digest with
its name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from crds.fields.rollout import REVISION_FIELDS
from machinery.kinds.paths import steps, without
from machinery.kinds.table import profile_of_main

_LONGEST_NAME: Final = 253
_DIGEST_BYTES = 8


def revision_data(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a spec that a revision consists of, without the number of units."""
    data = {name: spec[name] for name in REVISION_FIELDS if spec.get(name)}
    path = steps(profile_of_main(spec).replicas_path)
    for name in ("template", "targetDeployment"):
        template = data.get(name)
        if isinstance(template, Mapping):
            data[name] = without(template, path) if path else template
    return data


def digest_of(data: Mapping[str, Any]) -> str:
    """Return the digest of `revision_data`: 16 hexadecimal digits."""
    encoded = msgspec.json.encode(data, order="deterministic")
    return hashlib.blake2b(encoded, digest_size=_DIGEST_BYTES).hexdigest()


def revision_name(workload: str, revision: str) -> str:
    """Return the name of the ControllerRevision that keeps a revision of a Workload."""
    return f"{workload[: _LONGEST_NAME - len(revision) - 1].rstrip('-.')}-{revision}"
