"""Refuses autoscalers of a Workload's main object among its manifests. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from machinery.kinds.builtin import DEPLOYMENT
from machinery.kinds.paths import InvalidTemplate


def refuse_scaler(field: str, manifest: Mapping[str, Any], kind: str, name: str) -> None:
    spec = manifest.get("spec")
    target = spec.get("scaleTargetRef") if isinstance(spec, Mapping) else None
    if not isinstance(target, Mapping):
        return
    if (target.get("kind") or DEPLOYMENT.kind, target.get("name")) == (kind, name):
        raise InvalidTemplate(
            f"{field}: it scales {kind} {name}, whose number is that of the Workload: let it scale "
            "the Workload on the hub instead"
        )
