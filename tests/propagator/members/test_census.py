"""What a member says it is, however it says it."""

from __future__ import annotations

from typing import Any

import pytest

from machinery.errors import TransportError
from propagator.members.cluster_identity import cluster_id


class Member:
    """Answers with whatever it was given."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self._answer = answer

    async def get(self, *_: object) -> dict[str, Any]:
        return self._answer


@pytest.mark.proves("S10")
@pytest.mark.parametrize(
    ("answer", "uid"),
    [
        ({"metadata": {"uid": "123"}}, "123"),
        ({}, ""),
        ({"metadata": {"name": "kube-system"}}, ""),
        ({"metadata": {"uid": "\x1b[31m1\n2"}}, "[31m1 2"),
        ({"metadata": {"uid": "x" * 1000}}, "x" * 127 + "…"),
    ],
)
async def test_who_a_member_is_becomes_a_short_clean_note(answer: dict[str, Any], uid: str) -> None:
    assert await cluster_id(Member(answer)) == uid


@pytest.mark.parametrize("metadata", [None, [], "x", {"uid": 5}])
async def test_what_is_no_object_at_all_is_a_fault_of_the_answer(metadata: Any) -> None:
    with pytest.raises(TransportError, match="not what was asked for"):
        await cluster_id(Member({"metadata": metadata}))
