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
from crds.fields.template import REPLICAS_PATHS

_LONGEST_NAME: Final = 253
_DIGEST_BYTES = 8


def revision_data(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a spec that a revision consists of, without the number of units."""
    data = {name: spec[name] for name in REVISION_FIELDS if spec.get(name)}
    for name in ("template", "targetDeployment"):
        template = data.get(name)
        if isinstance(template, Mapping):
            kind = str(template.get("kind") or "Deployment")
            path = spec.get("replicasPath") or REPLICAS_PATHS.get(kind, "")
            data[name] = _without(template, str(path).split(".")) if path else template
    return data


def digest_of(data: Mapping[str, Any]) -> str:
    """Return the digest of `revision_data`: 16 hexadecimal digits."""
    encoded = msgspec.json.encode(data, order="deterministic")
    return hashlib.blake2b(encoded, digest_size=_DIGEST_BYTES).hexdigest()


def revision_name(workload: str, revision: str) -> str:
    """Return the name of the ControllerRevision that keeps a revision of a Workload."""
    return f"{workload[: _LONGEST_NAME - len(revision) - 1].rstrip('-.')}-{revision}"


def _without(body: Mapping[str, Any], path: list[str]) -> Mapping[str, Any]:
    """Return the body without what lies at the path; the same object where nothing does."""
    first, *rest = path
    if first not in body:
        return body
    if not rest:
        return {key: value for key, value in body.items() if key != first}
    inner = body[first]
    return {**body, first: _without(inner, rest)} if isinstance(inner, Mapping) else body
