"""deploy/argocd/: the health script on recorded objects, and the files that hold it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from crds.definition import KINDS
from machinery.types import conditions
from tests import kstatus
from tests.argocd import SCRIPT, WORDS, health

pytestmark = pytest.mark.proves("CT3")

CUSTOMIZATIONS = SCRIPT.parent / "resource_customizations" / "stowage.dev"


def recorded() -> list[Any]:
    """Each test of the layout of Argo CD's repository: (file of the object, its health)."""
    return [
        pytest.param(
            tests.parent / each["inputPath"],
            each["healthStatus"],
            id=f"{tests.parent.name}-{Path(each['inputPath']).stem}",
        )
        for tests in sorted(CUSTOMIZATIONS.glob("*/health_test.yaml"))
        for each in yaml.safe_load(tests.read_text())["tests"]
    ]


@pytest.mark.parametrize(("path", "wanted"), recorded())
def test_a_recorded_object(path: Path, wanted: dict[str, str]) -> None:
    stored = yaml.safe_load(path.read_text())
    assert health(stored) == wanted
    assert wanted["status"] in WORDS[kstatus.compute(stored)], "Flux says the same"
    assert kstatus.exclusive(stored)


def test_each_recorded_object_has_its_health() -> None:
    found = {each.values[0].resolve() for each in recorded()}
    assert found == {each.resolve() for each in CUSTOMIZATIONS.glob("*/testdata/*.yaml")}
    states = {each.values[1]["status"] for each in recorded()}
    assert states == {"Progressing", "Healthy", "Degraded", "Suspended"}


@pytest.mark.parametrize(
    "status", [None, {}, {"observedGeneration": -1}, {"observedGeneration": 1}]
)
@pytest.mark.parametrize("kind", [each.__name__ for each in KINDS])
def test_an_object_of_which_nobody_has_said_anything(kind: str, status: Any) -> None:
    stored = {"kind": kind, "metadata": {"name": "new", "generation": 1}}
    said = {} if status is None else {"status": status}
    assert health({**stored, **said})["status"] == "Progressing"


def test_the_message_is_that_of_the_cause() -> None:
    said = [
        {"type": "Scheduled", "status": "False", "reason": "PolicyNotFound", "message": "no gold"},
        {"type": "Ready", "status": "False", "reason": "ReplicasNotReady", "message": ""},
        {
            "type": conditions.STALLED,
            "status": "True",
            "reason": "PolicyNotFound",
            "message": "see",
        },
    ]
    stored = {"kind": "Workload", "metadata": {"generation": 1}}
    found = health({**stored, "status": {"observedGeneration": 1, "conditions": said}})
    assert found == {"status": "Degraded", "message": "PolicyNotFound: no gold"}


def test_one_script_serves_all_kinds() -> None:
    patch = yaml.safe_load((SCRIPT.parent / "argocd-cm.yaml").read_text())
    told = {each.__name__ for each in KINDS} - {"Assignment", "MemberReport"}  # of no repository
    keys = {f"resource.customizations.health.stowage.dev_{each}" for each in told}
    assert patch == {"data": dict.fromkeys(keys, SCRIPT.read_text())}
    for each in CUSTOMIZATIONS.glob("*/health.lua"):
        assert each.resolve() == SCRIPT


@pytest.mark.parametrize("phase", ["Paused", "AwaitingApproval"])
def test_a_rollout_that_pauses_on_purpose_is_suspended(phase: str) -> None:
    said = [{"type": conditions.RECONCILING, "status": "True", "reason": phase, "message": ""}]
    status = {"observedGeneration": 1, "conditions": said, "rollout": {"phase": phase}}
    found = health({"kind": "Workload", "metadata": {"generation": 1}, "status": status})
    assert found["status"] == "Suspended"
