"""Label selectors as Kubernetes evaluates them, all six operators. Pure.

Without requirements a `LabelSelector` selects everything, a `SelectorTerm` (as in node affinity)
nothing. An absent key satisfies only NotIn and DoesNotExist.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeAlias

import msgspec

_LABEL_LIMIT = 63
_INTEGER = re.compile(r"[+-]?[0-9]+")
_MOST_DIGITS = 64


def label_value(text: str) -> str:
    """Return the text as a valid label value: `v1.33.1+k3s1` becomes `v1.33.1-k3s1`."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", text)[:_LABEL_LIMIT].strip("-_.")


class Operator(StrEnum):
    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


class Requirement(msgspec.Struct, frozen=True):
    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels satisfy it. An unknown operator matches nothing."""
        have = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return have is not None and have in self.values
            case Operator.NOT_IN:
                return have is None or have not in self.values
            case Operator.EXISTS:
                return have is not None
            case Operator.DOES_NOT_EXIST:
                return have is None
            case Operator.GT | Operator.LT:
                return have is not None and self._compares(have)
            case _:
                return False

    def _compares(self, have: str) -> bool:
        left, right = integer(have), integer(self.values[0] if len(self.values) == 1 else "")
        if left is None or right is None:
            return False
        return left > right if self.operator == Operator.GT else left < right


class LabelSelector(msgspec.Struct, frozen=True, rename="camel"):
    match_labels: dict[str, str] = {}
    match_expressions: list[Requirement] = []

    def matches(self, labels: Mapping[str, str]) -> bool:
        return _all_hold(self.match_labels, self.match_expressions, labels)


SelectorPart: TypeAlias = str | dict[str, str] | list[Requirement]
ClusterSelector: TypeAlias = dict[str, SelectorPart]
"""A LabelSelector of clusters as it is stored, or labels alone, which are its matchLabels."""


def label_selector(given: Mapping[str, SelectorPart]) -> LabelSelector:
    """Return a selector of clusters in its one form."""
    labels, expressions = given.get("matchLabels"), given.get("matchExpressions")
    alone = {key: value for key, value in given.items() if isinstance(value, str)}
    return LabelSelector(
        {**alone, **labels} if isinstance(labels, dict) else alone,
        expressions if isinstance(expressions, list) else [],
    )


def flattened(given: Mapping[str, SelectorPart]) -> Mapping[str, SelectorPart]:
    selector = label_selector(given)
    expressions = selector.match_expressions
    return {**selector.match_labels, **({"matchExpressions": expressions} if expressions else {})}


class SelectorTerm(msgspec.Struct, frozen=True, rename="camel"):
    """A node-selector-like term: everything ANDed; empty matches nothing."""

    match_labels: dict[str, str] = {}
    match_expressions: list[Requirement] = []

    def matches(self, labels: Mapping[str, str]) -> bool:
        if not self.match_labels and not self.match_expressions:
            return False
        return _all_hold(self.match_labels, self.match_expressions, labels)


def _all_hold(
    pairs: Mapping[str, str], expressions: list[Requirement], labels: Mapping[str, str]
) -> bool:
    return all(labels.get(key) == value for key, value in pairs.items()) and all(
        expression.matches(labels) for expression in expressions
    )


def parse_label_selector(obj: Mapping[str, Any]) -> LabelSelector:
    """Return the selector of a decoded JSON object.

    Raises ValueError that names the field, as `matchExpressions[0].operator: …`.
    """
    try:
        selector = msgspec.convert(obj, LabelSelector)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error
    for index, requirement in enumerate(selector.match_expressions):
        _check(requirement, f"matchExpressions[{index}]")
    return selector


def _check(requirement: Requirement, where: str) -> None:
    count = len(requirement.values)
    match requirement.operator:
        case Operator.IN | Operator.NOT_IN if not count:
            raise ValueError(f"{where}.values: {requirement.operator} needs at least one value")
        case Operator.EXISTS | Operator.DOES_NOT_EXIST if count:
            raise ValueError(f"{where}.values: {requirement.operator} takes no values")
        case Operator.GT | Operator.LT if count != 1 or integer(requirement.values[0]) is None:
            raise ValueError(f"{where}.values: {requirement.operator} takes exactly one integer")
        case operator if operator not in {o.value for o in Operator}:
            known = ", ".join(o.value for o in Operator)
            raise ValueError(f"{where}.operator: {operator!r} is none of {known}")


def integer(text: str) -> int | None:
    if len(text) > _MOST_DIGITS or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None
