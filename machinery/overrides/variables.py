"""The variables in the strings of an override: of the cluster, and of what was carried there.

`$(stowage.cluster)` is the name, `$(stowage.label:KEY)` the value of a label. An override that
names a value by `$(stowage.carried:NAME)` is left out without it. `$$(stowage.` stands for
`$(stowage.`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from crds.names import LABEL_CLUSTER, LABEL_PROVIDER, LABEL_VERSION
from machinery.types.selectors import label_value

_VARIABLE = re.compile(r"(\$?)\$\(stowage\.([^)]*)\)")
_LABEL, _CARRIED = "label:", "carried:"
_NAMES = frozenset({"cluster", _LABEL + LABEL_CLUSTER})
"""The variables that are the cluster's name."""


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    name: str
    labels: Mapping[str, str]
    carried: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, name: str, labels: Mapping[str, str], *, provider: str, version: str
    ) -> ClusterFacts:
        """Return the facts of a MemberCluster, with its labels as rules read them.

        Pinned values of the spec win over reported labels.
        """
        pinned = {LABEL_PROVIDER: provider, LABEL_VERSION: version}
        ours = {key: label_value(text) for key, text in pinned.items() if text}
        return cls(name, {**labels, **ours, LABEL_CLUSTER: name})


def labels_named(value: Any) -> frozenset[str]:
    """Return the keys of the labels that variables in a JSON value name."""
    return _named(value, _LABEL)


def carried_named(value: Any) -> frozenset[str]:
    """Return the names of the carried values that variables in a JSON value name."""
    return _named(value, _CARRIED)


def _named(value: Any, what: str) -> frozenset[str]:
    if isinstance(value, str):
        names = (name for escaped, name in _VARIABLE.findall(value) if not escaped)
        return frozenset(n.removeprefix(what) for n in names if n.startswith(what))
    inner = value.values() if isinstance(value, Mapping) else value
    if isinstance(value, Mapping | list):
        return frozenset[str]().union(*(_named(each, what) for each in inner))
    return frozenset()


def names_cluster(value: Any) -> bool:
    if isinstance(value, str):
        names = {name for escaped, name in _VARIABLE.findall(value) if not escaped}
        return not names.isdisjoint(_NAMES)
    inner = value.values() if isinstance(value, Mapping) else value
    return isinstance(value, Mapping | list) and any(map(names_cluster, inner))


def variable(value: Any) -> bool:
    if isinstance(value, str):
        return "$(stowage." in value
    if isinstance(value, Mapping):
        return any(map(variable, value.values()))
    return isinstance(value, list) and any(map(variable, value))


def filled(value: Any, cluster: ClusterFacts) -> Any:
    """Return a JSON value with the variables of its strings, but not of its keys, filled in.

    Raises ValueError for a label that the cluster lacks, and for an unknown variable.
    """
    if isinstance(value, str):
        return _VARIABLE.sub(lambda found: _value(found, cluster), value)
    if isinstance(value, Mapping):
        return {key: filled(inner, cluster) for key, inner in value.items()}
    return [filled(inner, cluster) for inner in value] if isinstance(value, list) else value


def _value(found: re.Match[str], cluster: ClusterFacts) -> str:
    escaped, name = found.groups()
    if escaped:
        return found[0][1:]
    if name == "cluster":
        return cluster.name
    if name.startswith(_CARRIED):
        return cluster.carried.get(name.removeprefix(_CARRIED), "")
    if not name.startswith(_LABEL):
        text = "there are $(stowage.cluster), $(stowage.label:KEY) and $(stowage.carried:NAME)"
        raise ValueError(f"{found[0]} is no variable: {text}")
    key = name.removeprefix(_LABEL)
    if key not in cluster.labels:
        raise ValueError(f"{found[0]}: the cluster has no label {key}")
    return cluster.labels[key]
