"""What is made of a member's refusal of an object."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from crds.workload import PropagatedReason
from machinery.errors import ApiError
from propagator.apply.refusals import rejected

PIECE: Any = SimpleNamespace(
    shared=False, subset="", kind="ConfigMap", namespace="shop", name="web"
)


def forbidden(details: Any) -> ApiError:
    text = "unable to create new content in namespace shop because it is being terminated"
    return ApiError.of(code=403, reason="Forbidden", message=text, details=details)


@pytest.mark.proves("B17")
def test_a_namespace_that_is_being_deleted_is_waited_for() -> None:
    """With the cause that a server names (1.36.3), and not by its words."""
    cause = {"reason": "NamespaceTerminating", "field": "metadata.namespace"}
    found = rejected("m1", PIECE, forbidden({"causes": [cause]}))
    assert found.reason is PropagatedReason.PROPAGATING
    assert "namespace shop is being deleted there: it is made when that is gone" in str(found)


@pytest.mark.parametrize("details", [None, {}, {"causes": None}, {"causes": ["x", {"reason": 7}]}])
def test_any_other_refusal_is_one(details: Any) -> None:
    assert rejected("m1", PIECE, forbidden(details)).reason is PropagatedReason.REJECTED


@pytest.mark.proves("Q6")
@pytest.mark.parametrize(
    ("resource", "group", "kind"),
    [
        ("ingresses", "networking.k8s.io", "networking.k8s.io/ingresses"),
        ("endpoints", "", "endpoints"),
    ],
)
def test_a_right_that_lacks_is_told_with_the_option_that_gives_it(
    resource: str, group: str, kind: str
) -> None:
    who = 'User "system:serviceaccount:shop:stowage"'
    text = (
        f'{resource} is forbidden: {who} cannot patch resource "{resource}" in API group "{group}"'
    )
    found = rejected("m1", PIECE, ApiError.of(code=403, reason="Forbidden", message=text))
    assert str(found) == (
        f"m1: ConfigMap shop/web: {text}: "
        f"`stowage join m1 --member-kubeconfig FILE --allow {kind}` gives the right"
    )
    quota = 'configmaps "web" is forbidden: exceeded quota'
    other = rejected("m1", PIECE, ApiError.of(code=403, reason="Forbidden", message=quota))
    assert str(other) == f"m1: ConfigMap shop/web: {quota}"
