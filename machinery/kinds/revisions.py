"""Revisions of a Workload: the fields that make its pods, their digest, and the stored object.

The number of units is not part: scaling makes no revision.
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
_UNSTAGED: Final = 8 * "0"  # one digest in four thousand million begins with it


def revision_data(spec: Mapping[str, Any]) -> dict[str, Any]:
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


def unstaged_revision(spec: str) -> str:
    """Return a name for what ran before the spec of that digest, and was never stored."""
    return f"{_UNSTAGED}{spec[: len(spec) - len(_UNSTAGED)]}"


def is_unstaged(revision: str) -> bool:
    return revision.startswith(_UNSTAGED)


def revision_name(workload: str, revision: str) -> str:
    return f"{workload[: _LONGEST_NAME - len(revision) - 1].rstrip('-.')}-{revision}"
