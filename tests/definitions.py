"""Definitions of custom kinds, as an API server takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from machinery.api.resources import CRDS, Resource

ANYTHING: Mapping[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def definition(
    of: Resource,
    *,
    versions: Sequence[str] = (),
    status: bool = True,
    schema: Mapping[str, Any] = ANYTHING,
) -> dict[str, Any]:
    """The definition of a kind; its own version is stored, `status` is a subresource or none."""
    listed = [
        {
            "name": each,
            "served": True,
            "storage": each == of.version,
            **({"subresources": {"status": {}}} if status else {}),
            "schema": {"openAPIV3Schema": dict(schema)},
        }
        for each in versions or (of.version,)
    ]
    return {
        "apiVersion": CRDS.api_version,
        "kind": CRDS.kind,
        "metadata": {
            "name": f"{of.plural}.{of.group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": of.group,
            "scope": "Namespaced" if of.namespaced else "Cluster",
            "names": {"plural": of.plural, "singular": of.kind.lower(), "kind": of.kind},
            "versions": listed,
        },
    }
