"""The labels of a cluster's nodes, read where the MemberCluster itself lacks a key. Pure.

A label of the MemberCluster wins. `In`, `Exists`, `Gt` and `Lt` hold if they hold of one node,
`NotIn` and `DoesNotExist` if they hold of all.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from machinery.types.api import NodeGroup
from machinery.types.selectors import LabelSelector, Operator, Requirement, SelectorTerm

_WITHOUT = "-"
"""That of nodes without the label; no label has this value."""
_OF_ALL = (Operator.NOT_IN, Operator.DOES_NOT_EXIST)


def told(groups: Iterable[NodeGroup], own: Container[str]) -> dict[str, str]:
    """Return the different values of each key that is not among a cluster's own, one a line."""
    counted = [group.labels for group in groups if group.count > 0]
    keys = {key for labels in counted for key in labels if key not in own}
    return {
        key: "\n".join(sorted({labels.get(key, _WITHOUT) for labels in counted})) for key in keys
    }


def agreed(values: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in values.items() if "\n" not in value}


def holds(requirement: Requirement, values: str) -> bool:
    """Whether it holds of a cluster whose nodes have these values, as `told`."""
    key = requirement.key
    each = (
        requirement.matches({} if value == _WITHOUT else {key: value})
        for value in values.split("\n")
    )
    return all(each) if requirement.operator in _OF_ALL else any(each)


def matches(
    term: LabelSelector | SelectorTerm, labels: Mapping[str, str], values: Mapping[str, str]
) -> bool:
    equal = [Requirement(key, Operator.IN, (value,)) for key, value in term.match_labels.items()]
    return all(
        holds(each, values[each.key]) if each.key in values else each.matches(labels)
        for each in (*equal, *term.match_expressions)
    )
