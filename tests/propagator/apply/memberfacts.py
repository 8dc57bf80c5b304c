"""A member that rendering is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from machinery.overrides.variables import ClusterFacts
from machinery.types.api import ImageRule
from propagator.apply.render import MemberFacts


def member_facts(
    name: str = "m1",
    labels: Mapping[str, str] | None = None,
    images: Sequence[tuple[str, str]] = (),
    hub: str = "",
) -> MemberFacts:
    """A member with these labels and images; its objects get the mark of that hub."""
    facts = ClusterFacts.of(name, labels or {}, provider="", version="")
    return MemberFacts(facts, [ImageRule(*each) for each in images], hub=hub)
