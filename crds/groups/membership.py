"""Which WorkloadGroups a Workload names: one rule for the controller, the propagator and commands.

A label may stand on the Workload, on its template or on its pods, by its own key or by an alias.
Several names are several answers: no reader guesses which of them was meant. A kind has pods if its
name is that of a built-in one, in any group: `StatefulSet` of `apps.kruise.io` is read as
that of `apps`. Commands that must answer at once load this, so nothing heavy is imported here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crds.names import GROUP_LABELS

KINDS_WITH_PODS = frozenset({"DaemonSet", "Deployment", "Job", "ReplicaSet", "StatefulSet"})
"""Kinds whose `spec.template` is that of their pods; a CronJob has it in its job."""
_NOTHING: Mapping[str, Any] = {}


def groups_named(*labels: Mapping[str, str]) -> tuple[str, ...]:
    """Return the groups that these labels name, each once, by name; empty values name none.

    Given are the labels of a Workload, of its template and of its pods; the groups are of the
    Workload's own namespace.
    """
    return tuple(sorted({each[key] for each in labels for key in GROUP_LABELS if each.get(key)}))


def groups_of(labels: Mapping[str, str], template: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the groups that a Workload with these labels and this template names.

    The template is as it is stored: what is of another form than labels must have names none.
    """
    return groups_named(labels, labels_in(template), labels_in(_pods(template)))


def labels_in(body: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels in an object's metadata that are text."""
    labels = _within(_within(body, "metadata"), "labels")
    return {key: value for key, value in labels.items() if isinstance(value, str)}


def _pods(template: Mapping[str, Any]) -> Mapping[str, Any]:
    """The template of its pods; empty for a custom kind, of whose pods nothing is known."""
    kind, body = template.get("kind"), _within(template, "spec")
    if kind == "CronJob":
        return _within(_within(_within(body, "jobTemplate"), "spec"), "template")
    known = isinstance(kind, str) and kind in KINDS_WITH_PODS
    return _within(body, "template") if known else _NOTHING


def _within(body: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    found = body.get(field)
    return found if isinstance(found, Mapping) else _NOTHING
