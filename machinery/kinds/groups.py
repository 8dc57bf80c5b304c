"""Which WorkloadGroups a Workload names, in its own labels, its template's and its pods'."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crds.groups.membership import groups_named, labels_in
from machinery.kinds.paths import InvalidTemplate
from machinery.kinds.table import profile_in
from machinery.kinds.templates import pods_in


def groups_of(labels: Mapping[str, str], template: Mapping[str, Any]) -> tuple[str, ...]:
    try:
        pods = [labels_in(each.template) for each in pods_in(profile_in(template), template)]
    except InvalidTemplate:
        pods = []
    return groups_named(labels, labels_in(template), *pods)
