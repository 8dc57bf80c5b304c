"""What an API server (1.36.3) holds admission policies to beyond their schema."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest

import crds

MOST_CHECKS = 2
"""Questions to the authorizer that the cost of one expression has room for. With a third the server
takes the policy and then refuses every request that it judges."""


def policies(suffix: str = "AdmissionPolicy") -> list[dict[str, Any]]:
    return [each for each in crds.manifests() if each["kind"].endswith(suffix)]


def expressions(policy: dict[str, Any]) -> Iterator[str]:
    spec = policy["spec"]
    for part in ("matchConditions", "variables", "validations", "auditAnnotations"):
        for each in spec.get(part, ()):
            yield each.get("expression") or each.get("valueExpression") or ""
            yield each.get("messageExpression", "")


def judged(policy: dict[str, Any]) -> set[tuple[str, str]]:
    rules = policy["spec"]["matchConstraints"]["resourceRules"]
    return {(g, r) for rule in rules for g in rule["apiGroups"] for r in rule["resources"]}


@pytest.mark.proves("RB10")
def test_no_expression_asks_the_authorizer_more_often_than_its_cost_allows() -> None:
    for policy in policies():
        name = policy["metadata"]["name"]
        asked = [text.count(".check(") for text in expressions(policy)]
        assert max(asked) <= MOST_CHECKS, name
        # A variable that asks would count in each expression that reads it.
        variables = policy["spec"].get("variables", ())
        assert not any(".check(" in each["expression"] for each in variables), name


@pytest.mark.proves("RB22")
def test_no_two_mutating_policies_are_about_one_kind() -> None:
    """They run in no fixed order, and none runs again whose conditions did not hold at first."""
    mutating = policies("MutatingAdmissionPolicy")
    assert len(mutating) > 1
    for one, other in combinations(mutating, 2):
        assert not judged(one) & judged(other)
