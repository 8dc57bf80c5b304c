"""Argo CD's generator `clusterDecisionResource`, by its source (applicationset/generators/duck_type.go).

It reads a ConfigMap and the objects that it names, of its own namespace alone; asks of each item
the value under `matchKey`; finds the cluster of that name among those that Argo CD knows; and makes
of every other value of the item a parameter. A value that is no string, and a status without the
list, end the process there: here they raise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

LISTED = "clusters"
"""The list that is read where the ConfigMap names none."""


class GeneratorPanic(Exception):
    """The process of the ApplicationSet controller would have ended."""


def resource_of(settings: Mapping[str, str]) -> tuple[str, str, str]:
    """Return (group, version, plural) that the ConfigMap's data name."""
    group, slash, version = settings.get("apiVersion", "").partition("/")
    if not (group and slash and settings.get("kind")):
        raise ValueError("there is a problem with the apiVersion, kind or resourceName provided")
    return group, version, settings["kind"]


def generated(
    settings: Mapping[str, str],
    objects: Sequence[Mapping[str, Any]],
    clusters: Mapping[str, str],
    values: Mapping[str, str] | None = None,
) -> list[dict[str, str]]:
    """Return the parameters of each Application.

    Args:
        settings: the data of the ConfigMap.
        objects: what the list of the resource in Argo CD's namespace answers.
        clusters: those that Argo CD knows: their servers by name.
        values: those of the ApplicationSet.
    """
    if not objects:
        raise LookupError("no clusterDecisionResources found")
    key = settings["matchKey"]
    found = []
    for each in objects:
        status = each.get("status")
        if not status:
            continue
        listed = status.get(settings.get("statusListKey") or LISTED)
        if not isinstance(listed, list):
            raise GeneratorPanic("interface conversion: interface {} is nil, not []interface {}")
        found += listed
    return [
        _parameters(item, item[key], clusters[item[key]], values or {})
        for item in found
        if item.get(key) in clusters
    ]


def _parameters(
    item: Mapping[str, Any], name: str, server: str, values: Mapping[str, str]
) -> dict[str, str]:
    parameters = {"name": name, "server": server}
    for key, value in item.items():
        if not isinstance(value, str):
            raise GeneratorPanic(f"interface conversion: {key} is {type(value)}, not string")
        parameters[key] = value
    return parameters | {f"values.{key}": value for key, value in values.items()}
