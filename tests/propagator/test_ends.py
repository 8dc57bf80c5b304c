"""A Job on a real member runs once: its end is noted before it may be forgotten."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from machinery.api.resources import MEMBER_CLUSTERS, Resource
from propagator.apply.object_writer import PieceWriter
from propagator.apply.render import Piece
from propagator.members.inventory import last_seen
from propagator.members.session import MemberSession
from propagator.removal.formers import Formers
from propagator.types.workload import Workload
from tests.letting_go import let_go
from tests.propagator.stage import MakeStage, Stage, settled
from tests.propagator.waits import until

JOBS = Resource("batch", "v1", "jobs", "Job")
WHEN = "2026-01-01T00:00:00Z"


def job(name: str = "bill", image: str = "pause", **spec: Any) -> dict[str, Any]:
    pods = {"containers": [{"name": "main", "image": image}], "restartPolicy": "Never"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": {"spec": pods}, **spec},
    }


async def completes(stage: Stage, name: str) -> None:
    """What the controllers of m1 say of a Job."""
    over = [{"type": each, "status": "True"} for each in ("SuccessCriteriaMet", "Complete")]
    status = {
        "startTime": WHEN,
        "completionTime": "2026-01-01T00:01:00Z",
        "succeeded": 1,
        "conditions": [{**each, "lastTransitionTime": WHEN} for each in over],
    }
    await stage.members["m1"].merge_patch(
        JOBS, name, {"status": status}, namespace=stage.namespace, subresource="status"
    )


@pytest.mark.proves("A1", "KD26", "KD27", "KD28", "KD29", "KD30", "KD32")
async def test_a_job_runs_once_and_is_forgotten_once_its_end_is_stored(stage: Stage):
    main = job(ttlSecondsAfterFinished=600)
    await stage.bring("bill", {"m1": 1}, targetDeployment=None, template=main)
    made = await stage.appears("m1", "bill", kind=JOBS)
    assert "ttlSecondsAfterFinished" not in made["spec"]

    # Another template of what runs is refused there, and it runs on.
    edited = job(image="other", ttlSecondsAfterFinished=600)
    await stage.patch("bill", {"spec": {"template": edited}})
    await stage.refused("bill", "Rejected", "spec.template", "immutable")
    await stage.patch("bill", {"spec": {"template": main}})
    await stage.propagated("bill")

    # It ends while the propagator is away.
    await stage.stop()
    await completes(stage, "bill")
    stage.start()
    await stage.becomes("m1", "bill", 600, "ttlSecondsAfterFinished", kind=JOBS)
    ended = (await stage.fares("bill", "m1", "Complete"))["ended"]
    assert (ended["result"], ended["object"]) == (
        "Succeeded",
        f"Job {stage.namespace}/bill",
    )
    assert (await stage.status("bill"))["state"] == "Complete"
    ready = await stage.condition("bill", "Ready")
    assert (ready["status"], ready["reason"]) == ("True", "Completed")

    # Nothing makes it again: its deletion, another process, another template, its cluster anew.
    await stage.members["m1"].delete(JOBS, "bill", namespace=stage.namespace)
    await stage.goes("m1", "bill", kind=JOBS)
    await stage.restart()
    await stage.patch("bill", {"spec": {"template": edited}})
    await stage.ready()
    await let_go(stage.hub, "m1")
    await until(lambda: stage.process.term.registry.get("m1") is None)
    ref = {"secretRef": {"namespace": "stowage-system", "name": "m1"}}
    kind = {"apiVersion": MEMBER_CLUSTERS.api_version, "kind": MEMBER_CLUSTERS.kind}
    again = {**kind, "metadata": {"name": "m1"}, "spec": ref}
    await stage.hub.create(MEMBER_CLUSTERS, again)
    await stage.ready()
    await settled(stage)
    assert await stage.on("m1", "bill", kind=JOBS) is None
    assert (await stage.share("bill", "m1"))["ended"] == ended
    said = await stage.condition("bill", "Ready")
    assert "spec.template.metadata.name" in said["message"]
    await stage.patch("bill", {"spec": {"template": job("bill-2")}})
    await stage.appears("m1", "bill-2", kind=JOBS)

    async def runs() -> bool:
        return "ended" not in await stage.share("bill", "m1")

    await until(runs)


@pytest.mark.long
@pytest.mark.proves("A1", "KD29")
@pytest.mark.parametrize("after", ["the look at it", "the look for its end"])
async def test_a_job_that_goes_with_its_end_while_it_is_written_is_not_made_again(
    stage_on: MakeStage, monkeypatch: pytest.MonkeyPatch, after: str
):
    gone = asyncio.Event()

    async def goes(session: MemberSession, workload: Workload) -> None:
        """It ends and is deleted, and both are heard, in the middle of an attempt to write it."""
        if gone.is_set():
            return
        gone.set()
        await completes(stage, "bill")
        await stage.members["m1"].delete(JOBS, "bill", namespace=stage.namespace)
        await until(lambda: last_seen(session, workload) is not None)

    give_way, write = Formers.give_way, PieceWriter._write

    async def late(self: Formers, session: MemberSession, workload: Workload, **how: Any) -> str:
        await goes(session, workload)
        return await give_way(self, session, workload, **how)

    async def later(
        self: PieceWriter, session: MemberSession, workload: Workload, piece: Piece
    ) -> Any:
        await goes(session, workload)
        return await write(self, session, workload, piece)

    async with stage_on() as stage:
        await stage.run("bill", {"m1": 1}, targetDeployment=None, template=job())
        await stage.appears("m1", "bill", kind=JOBS)
        await settled(stage)
        if after == "the look at it":
            monkeypatch.setattr(Formers, "give_way", late)
        else:
            monkeypatch.setattr(PieceWriter, "_write", later)
        edited = {"metadata": {"labels": {"edited": "yes"}}}
        await stage.patch("bill", {"spec": {"template": edited}})
        await asyncio.wait_for(gone.wait(), 60)
        await stage.fares("bill", "m1", "Complete")
        await settled(stage)
        assert await stage.on("m1", "bill", kind=JOBS) is None
