"""What a status cannot hold: bounded, or said on the object once; nothing is tried over and over."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from controller.binding.statuspatch import patch_of, short_patch
from controller.cache.placements import PlacementIndex
from controller.config import default_profile
from controller.eventhandlers import known
from controller.framework.runtime import framework as runtime
from controller.framework.statuswriter import for_good
from controller.model.objects import Footprint, Workload
from controller.model.unit import workload_info
from controller.scheduling.decision import Decision
from crds.names import ANNOTATION_CLUSTERS
from crds.workload import ScheduledReason, WorkloadState, WorkloadStatus
from machinery.api.resources import WORKLOADS
from machinery.errors import ApiError, Conflict, Invalid, Unreachable
from machinery.types.workload_api import LeavingShare
from tests.controller import make
from tests.controller.features.workloadquota.quota import arranged, ask
from tests.controller.live import SINCE, condition, placements
from tests.controller.memory import Stage

MOST = 2**31 - 1
FORM = ("must be a mapping, and not ", "Expected `")
"""What is said of a part of a wrong form: on the path to the pods or a number, and below."""
FORM_OF_PART = (*(f": {said}" for said in FORM), "[...]: Expected `")
MANY = {f"{'k' * 60}{n}": "v" * 63 for n in range(40)}
"""Labels whose text is longer than a status may tell."""


def decision(workload: Workload, **shares: int) -> Decision:
    """One that places these shares of the Workload, and nothing else."""
    info = workload_info(workload)
    return Decision(
        workload=info,
        fields=runtime.status_fields(
            default_profile(), info, shares, make.snapshot(), PlacementIndex()
        ),
        snapshot=make.snapshot(),
        time=make.NOW,
        placements=shares,
        desired=sum(shares.values()),
        reason=ScheduledReason.SCHEDULED,
        state=WorkloadState.SCHEDULED,
        message="all of it",
    )


def status_of(made: Decision, workload: Workload) -> dict[str, Any]:
    """The status that would be written; the kind allows it."""
    patch = patch_of(made, workload)
    assert patch is not None
    given = {name: value for name, value in patch["status"].items() if value is not None}
    WorkloadStatus.model_validate(given)
    return dict(patch["status"])


@pytest.mark.proves("R1", "C30")
def test_the_write_of_the_placements_notes_for_good_who_may_be_sent_something() -> None:
    first = make.workload(replicas=2)
    assert status_of(decision(first, b=1, a=1), first)["footprint"] == {"clusters": "a,b"}
    noted = Footprint(clusters="a,b")
    moved = msgspec.structs.replace(
        first, status=msgspec.structs.replace(first.status, footprint=noted)
    )
    assert status_of(decision(moved, c=2), moved)["footprint"] == {"clusters": "a,b,c"}
    assert "footprint" not in status_of(decision(moved, a=2), moved)
    marks = {ANNOTATION_CLUSTERS: "c"}
    older = msgspec.structs.replace(
        moved, metadata=msgspec.structs.replace(moved.metadata, annotations=marks)
    )
    assert "footprint" not in status_of(decision(older, c=2), older)


class TestBounds:
    """Every field of the patch, at its worst."""

    def test_more_units_in_sum_than_a_field_can_say(self) -> None:
        workload = make.workload(replicas=MOST)
        status = status_of(decision(workload, a=MOST, b=MOST), workload)
        assert (status["desired"], status["assigned"], status["pending"]) == (MOST, MOST, 0)

    def test_that_units_are_missing_is_said_even_then(self) -> None:
        workload = make.workload(replicas=MOST)
        short = replace(decision(workload, a=MOST, b=MOST), desired=2 * MOST + 5)
        status = status_of(short, workload)
        assert (status["desired"], status["assigned"], status["pending"]) == (MOST, MOST - 5, 5)

    def test_a_selector_is_whole_or_none(self) -> None:
        workload = make.workload(labels={"app": "web"})
        assert status_of(decision(workload, a=1), workload)["selector"] == "app=web"
        workload = make.workload(labels=MANY)
        status = status_of(replace(decision(workload, a=1), message="x" * 9000), workload)
        said = condition(status, "Scheduled")["message"]
        assert status["selector"] == ""
        assert said.startswith("xxx")
        assert "status.selector is left out" in said
        assert len(said) == 4096

    def test_a_label_that_is_no_name_is_no_reference(self) -> None:
        workload = make.workload(labels={"stowage.dev/workload-policy": "Demo_1"})
        assert "policyRef" not in status_of(decision(workload, a=1), workload)

    def test_conditions_of_others_and_a_hash_of_anybody(self) -> None:
        theirs = [{"type": f"their/{n}", "status": "True"} for n in range(31)]
        ours = [{"type": "Ready", "status": "True"}]
        stored = make.workload(present={"a": 1}, decided="x" * 100 + "-y-z")
        with_more = msgspec.structs.replace(stored.status, conditions=[*theirs, *ours])
        workload = msgspec.structs.replace(stored, status=with_more)
        kept = replace(decision(workload, a=1), reason=ScheduledReason.INVALID_WORKLOAD)
        told = [each["type"] for each in status_of(kept, workload)["conditions"]]
        assert {"Scheduled", "Ready"} <= set(told)
        assert len(told) == 24, "32, less those of ours that it does not have now"

    @pytest.mark.parametrize("kind", ["Job", "Custom"])
    def test_a_template_that_asks_for_more_than_can_be_counted(self, kind: str) -> None:
        field = "parallelism" if kind == "Job" else "size"
        version = make.api_version(kind) if kind == "Job" else "x.dev/v1"
        template = {"apiVersion": version, "kind": kind, "spec": {field: MOST + 1}}
        path = {} if kind == "Job" else {"replicasPath": "spec.size"}
        found = known(make.workload(replicas=None, template=template, **path))
        assert found.fault == f"spec.template.spec.{field}: {MOST + 1} is more than {MOST} replicas"

    def test_a_custom_kinds_selector_may_be_of_any_form(self) -> None:
        for selector in ("app=x", ["app"], {"matchLabels": ["app"]}):
            template = {"apiVersion": "x.dev/v1", "kind": "Odd", "spec": {"selector": selector}}
            odd = make.workload(replicas=None, template=template)
            assert workload_info(odd).pod_selector == ""

    @pytest.mark.parametrize(
        ("kind", "body", "field"),
        [
            ("Deployment", {"template": "x"}, "template"),
            ("Deployment", {"template": {"metadata": "x"}}, "template.metadata"),
            ("Job", {"template": {"metadata": {"labels": ["x"]}}}, "template.metadata.labels"),
            ("DaemonSet", {"template": {"spec": ["x"]}}, "template.spec"),
            (
                "StatefulSet",
                {"template": {"spec": {"containers": ["x"]}}},
                "template.spec.containers[0]",
            ),
            (
                "Deployment",
                {"template": {"spec": {"containers": [{"resources": {"requests": ["x"]}}]}}},
                "template.spec.containers[0].resources.requests",
            ),
            ("Job", {"template": {"spec": {"overhead": "x"}}}, "template.spec.overhead"),
            (
                "Job",
                {"template": {"spec": {"nodeSelector": ["x"]}}},
                "template.spec.nodeSelector",
            ),
            (
                "Deployment",
                {"template": {"spec": {"tolerations": "x"}}},
                "template.spec.tolerations",
            ),
            ("CronJob", {"jobTemplate": {"spec": "x"}}, "jobTemplate.spec"),
        ],
    )
    def test_a_template_of_the_wrong_form(
        self, kind: str, body: dict[str, Any], field: str
    ) -> None:
        template = {"apiVersion": make.api_version(kind), "kind": kind, "spec": body}
        found = known(make.workload(template=template))
        assert found.fault.startswith(tuple(f"spec.template.spec.{field}: {s}" for s in FORM))

    @pytest.mark.parametrize(
        ("part", "field"),
        [
            ({"spec": ["x"]}, "spec"),
            ({"spec": None}, "spec"),
            ({"metadata": {"labels": {"version": 1}}}, "metadata.labels"),
            ({"metadata": {"labels": ["x"]}}, "metadata.labels"),
        ],
    )
    def test_a_template_that_is_hardly_one(self, part: dict[str, Any], field: str) -> None:
        template = {"apiVersion": "x.dev/v1", "kind": "Odd", **part}
        found = known(make.workload(replicas=None, template=template))
        assert found.fault.startswith(tuple(f"spec.template.{field}{s}" for s in FORM_OF_PART))


class TestForGood:
    """Which refusals of the hub are its last word."""

    @pytest.mark.parametrize(
        ("code", "message", "last"),
        [
            (422, "status.selector: Too long: may not be more than 4096 bytes", True),
            (413, "Request entity too large: limit is 3145728", True),
            (500, "etcdserver: request is too large", True),
            (500, "rpc error: trying to send message larger than max (3 vs. 2)", True),
            (500, "etcdserver: leader changed", False),
            (409, "the object has been modified", False),
        ],
    )
    def test_an_answer(self, code: int, message: str, *, last: bool) -> None:
        assert for_good(ApiError.of(code=code, reason="", message=message)) == last

    def test_no_answer(self) -> None:
        assert not for_good(Unreachable("too large a distance"))
        assert not for_good(Conflict(code=409, reason="", message=""))

    def test_what_was_said_is_not_said_again(self) -> None:
        workload = make.workload()
        refused = replace(decision(workload), state=WorkloadState.FAILED, message="no")
        patch = short_patch(refused, workload)
        assert patch is not None
        assert set(patch["status"]) == {"observed", "conditions", "state"}
        told = {**msgspec.to_builtins(workload.status), **patch["status"]}
        after = msgspec.structs.replace(
            workload, status=msgspec.convert(told, type(workload.status))
        )
        assert short_patch(refused, after) is None

    def test_the_verdict_alone_does_not_say_that_what_leaves_has_left(self) -> None:
        stored = make.workload(present={"a": 1})
        share = LeavingShare("b", 2, since=SINCE, cause="Drained")
        moves = msgspec.structs.replace(stored.status, leaving=[share])
        workload = msgspec.structs.replace(stored, status=moves)
        kept = replace(
            decision(workload, a=1),
            reason=ScheduledReason.INVALID_WORKLOAD,
            snapshot=make.snapshot(make.cluster("a"), make.cluster("b")),
        )
        patch = short_patch(kept, workload)
        assert patch is not None
        said = condition(patch["status"], "Moving")
        assert said["reason"] != "Settled"
        assert "2 of" in said["message"]


def refusing(stage: Stage, path: str, field: str, words: str = "") -> None:
    """The hub refuses that field with those words, as one whose kind allows less."""

    async def refuse(method: str, at: str, body: Any) -> None:
        told = body["status"].get(field) if method == "PATCH" and path in at else None
        if told and words in str(told):
            raise Invalid(code=422, reason="Invalid", message=f"status.{field}: Too long")

    stage.hub.faults.append(refuse)


async def test_what_nobody_foresaw_is_said_and_rests() -> None:
    """A kind that allows less than we know of: of a later release, or somebody's own."""
    stage = Stage("one")
    refusing(stage, "/workloads/mute/status", "placements")
    async with stage.leading():
        stage.workload("mute")
        await stage.until(lambda: stage.says("mute")[1] == "InvalidWorkload")
        assert "the hub refuses its status" in stage.says("mute")[2]
        found = stage.hub.read(WORKLOADS, "mute")
        assert (placements(found), found["status"]["state"]) == ({}, "Failed")
        written = len(stage.hub.writes("/mute/"))
        stage.cluster("two")
        stage.workload("other", replicas=1)
        await stage.until(lambda: stage.placed("other"))
        await stage.calm(60)
        assert len(stage.hub.writes("/mute/")) == written, "nothing helps it"
        stage.hub.faults.clear()
        stage.hub.edit(WORKLOADS, "mute", {"spec": {"replicas": 3}})
        await stage.until(lambda: sum(stage.placed("mute").values()) == 3)


@pytest.mark.proves("K24")
async def test_a_claim_that_the_hub_never_takes_is_told_and_the_others_go_on() -> None:
    stage = arranged(host=100)
    refusing(stage, "/workloadpolicies/demo/status", "claims", "shop/wide")
    async with stage.leading():
        for n in range(3):
            ask(stage, f"wide{n}", "stowage")
            ask(stage, f"narrow{n}", "stowage")
        await stage.until(
            lambda: all(stage.says(f"wide{n}")[1] == "InvalidWorkload" for n in range(3))
        )
        await stage.until(lambda: all(stage.placed(f"narrow{n}") for n in range(3)))
        assert "Too long" in stage.says("wide0")[2]
        stage.hub.faults.clear()
        stage.hub.edit(WORKLOADS, "wide0", {"spec": {"replicas": 1}})
        await stage.until(lambda: stage.placed("wide0"))
