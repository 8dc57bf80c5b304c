"""What members are asked for one Workload, as their API servers count it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from machinery.api.client import ApiClient
from machinery.api.resources import Resource
from machinery.api.verbs import Verbs
from machinery.errors import Unreachable
from propagator.apply.object_writer import Site
from tests.propagator.stage import (
    CONFIGMAPS,
    MakeStage,
    Stage,
    configmap,
    counted,
    deployment,
    settled,
)

pytestmark = pytest.mark.long

Asked = Counter[tuple[str, str]]


async def asked(member: ApiClient) -> Asked:
    """Everything but the watches, which are long and are renewed now and then."""
    found = await counted(member)
    return Counter({each: number for each, number in found.items() if each[0] != "WATCH"})


def is_about_objects(verb: str, resource: str) -> bool:
    """Whether it is a write, or about the kinds of the objects: a member is looked at all the time."""
    return verb not in ("GET", "LIST") or resource in ("configmaps", "deployments")


@pytest.mark.proves("C22")
async def test_a_new_workload_costs_one_write_for_each_object_and_nothing_else(
    stage_on: MakeStage,
):
    wanted = Counter({("APPLY", "deployments"): 1, ("APPLY", "configmaps"): 1})
    async with stage_on() as stage:
        await stage.push("first", manifests=[configmap("first", a="1")])
        await settled(stage)
        more = []
        # The member's own controllers list something now and then, and are counted as well.
        for name in ("demo", "another", "third"):
            before = await asked(stage.members["m1"])
            await stage.push(name, manifests=[configmap(f"{name}-conf", a="1")])
            await settled(stage)
            told = await asked(stage.members["m1"]) - before
            more.append(Counter({each: n for each, n in told.items() if is_about_objects(*each)}))
            assert more[-1] & wanted == wanted
            if more[-1] == wanted:
                return
        raise AssertionError(f"more than {wanted} each time: {more}")


@pytest.mark.proves("D2")
async def test_a_kind_is_watched_on_a_member_from_the_first_object_of_ours_on(stage_on: MakeStage):
    def watched(member: str) -> set[str]:
        streams = stage.process.term.registry.get(member).link.informers
        return {informer.resource.kind for informer in streams}

    jobs = {**deployment("nightly"), "apiVersion": "batch/v1", "kind": "CronJob"}
    pods = deployment("nightly")["spec"]["template"]
    pods["spec"]["restartPolicy"] = "Never"
    jobs["spec"] = {"schedule": "0 1 * * *", "jobTemplate": {"spec": {"template": pods}}}
    async with stage_on() as stage:
        await settled(stage)
        before = {member: watched(member) for member in ("m1", "m2")}
        assert "CronJob" not in before["m1"] | before["m2"]
        assert before["m1"] >= {"Node", "Pod"}
        await stage.bring("demo", {"m1": 1}, template=jobs)
        assert watched("m1") == before["m1"] | {"CronJob"}
        assert watched("m2") == before["m2"]


@pytest.mark.proves("C29", "R1")
async def test_a_write_whose_answer_was_lost_costs_one_look_and_is_not_made_again(
    stage_on: MakeStage, monkeypatch: pytest.MonkeyPatch
):
    apply, tries, sent = Verbs.apply, [], []

    async def without_an_answer(self: Verbs, res: Resource, obj: Any, **how: Any) -> Any:
        tries.extend([res] * (res == CONFIGMAPS))
        answer = await apply(self, res, obj, **how)
        if res == CONFIGMAPS:
            sent.append(answer)
            raise Unreachable("the connection broke")
        return answer

    def not_quick_enough(site: Site) -> Any:
        """The watch shows the object only after the second try."""
        return None if len(tries) < 2 else site.informer.get(site.place.key)

    async with stage_on() as stage:
        await stage.push("first", manifests=[configmap("first")])
        await settled(stage)
        before = await asked(stage.members["m1"])
        monkeypatch.setattr(Verbs, "apply", without_an_answer)
        monkeypatch.setattr(Site, "seen", property(not_quick_enough))
        await stage.bring("demo", {"m1": 1}, manifests=[configmap("conf", a="1")])
        await settled(stage)
        after = await asked(stage.members["m1"])
        assert len(sent) == 1, "the second one was refused, as there is such an object"
        ours = ("configmaps", "deployments")  # the member's own controllers list other kinds
        assert Counter({each: n for each, n in (after - before).items() if each[1] in ours}) == {
            ("APPLY", "configmaps"): 2,
            ("GET", "configmaps"): 1,
            ("APPLY", "deployments"): 1,
        }
        there = await stage.on("m1", "conf", kind=CONFIGMAPS)
        assert there["metadata"]["resourceVersion"] == sent[0]["metadata"]["resourceVersion"]


@pytest.mark.proves("C29")
async def test_fields_that_are_taken_out_go_from_what_was_made_by_one_write(stage: Stage):
    await stage.push("demo", manifests=[configmap("conf", a="1", b="2")])
    await stage.patch("demo", {"spec": {"manifests": [configmap("conf", a="1")]}})

    template = deployment("demo", minReadySeconds=3)
    await stage.patch("demo", {"spec": {"targetDeployment": template}})
    await stage.becomes("m1", "demo", 3, "minReadySeconds")
    assert (await stage.on("m1", "conf", kind=CONFIGMAPS))["data"] == {"a": "1"}
    owners = [
        (each["manager"], each["operation"])
        for each in (await stage.on("m1", "demo"))["metadata"]["managedFields"]
    ]
    assert owners == [("stowage", "Apply")]
