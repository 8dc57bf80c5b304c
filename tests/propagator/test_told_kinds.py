"""What Assignments tell of kinds: of each kind the youngest counts."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from machinery.kinds import table
from machinery.kinds.workloadkinds import WorkloadKind
from propagator.agent.told_kinds import ToldKinds
from tests.propagator.test_workload_kinds import KIND

NAME = KIND["metadata"]["name"]


def said(path: str, generation: int = 1, made: str = "2026-01-01T00:00:00Z") -> WorkloadKind:
    meta = {**KIND["metadata"], "generation": generation, "creationTimestamp": made}
    body: Any = {"metadata": meta, "spec": {**KIND["spec"], "replicas": {"path": path}}}
    return msgspec.convert(body, WorkloadKind)


def path() -> str:
    return table.profile_of("knobs.dev/v1", "Knob").replicas_path


@pytest.mark.proves("PL2")
def test_the_youngest_counts_and_none_once_no_assignment_tells_one() -> None:
    changed: list[tuple[str, str]] = []
    told = ToldKinds(lambda *kind: changed.append(kind))
    told.take("a", [NAME], [said("spec.first")])
    told.take("b", [NAME], [said("spec.first")])
    assert (path(), len(changed)) == ("spec.first", 1)
    told.take("b", [NAME], [said("spec.second", 2)])
    assert (path(), len(changed)) == ("spec.second", 2)
    told.take("a", [NAME], [said("spec.first")])  # its own edit is on its way
    assert (path(), len(changed)) == ("spec.second", 2)
    told.take("a", [NAME], [said("spec.second", 2)])
    told.take("a", [NAME], [said("spec.third", made="2026-02-01T00:00:00Z")])  # made anew
    assert path() == "spec.third"
    told.drop("a")
    told.drop("b")
    assert path() == "spec.third", "what runs goes on by it"
    told.take("c", [NAME], [])
    assert path() == "", "the hub has it no more"
    assert set(changed) == {("knobs.dev", "Knob")}
