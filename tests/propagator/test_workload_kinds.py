"""A WorkloadKind in the propagator: it writes and judges by it from when it stands on the hub."""

from __future__ import annotations

from typing import Any

import pytest

from machinery.api.resources import CRDS, WORKLOAD_KINDS, Resource
from tests.definitions import definition

from .stage import Stage
from .waits import until

KNOBS = Resource("knobs.dev", "v1", "knobs", "Knob")
CRD = definition(KNOBS)
KIND: dict[str, Any] = {
    "apiVersion": "stowage.dev/v1alpha1",
    "kind": "WorkloadKind",
    "metadata": {"name": "knob.knobs.dev"},
    "spec": {
        "group": "knobs.dev",
        "kind": "Knob",
        "versions": ["v1"],
        "replicas": {"path": "spec.size"},
        "ready": {"observedGeneration": "", "replicas": "status.up"},
    },
}


async def becomes(stage: Stage, name: str, **wanted: Any) -> dict[str, Any]:
    """Wait until the share on m1 says so; the share."""
    found: dict[str, Any] = {}

    async def said() -> bool:
        found.update(await stage.share(name, "m1"))
        return all(found.get(field) == value for field, value in wanted.items())

    await until(said, seconds=20, what=lambda: found)
    return found


@pytest.mark.long
@pytest.mark.proves("KD3", "KD4", "KD7")
async def test_a_kind_is_written_and_judged_by_what_the_hub_says_of_it(stage: Stage):
    member = stage.members["m1"]
    await member.create(CRDS, CRD)
    await stage.hub.create(WORKLOAD_KINDS, KIND)
    try:
        await _lives(stage)
    finally:
        await stage.hub.delete(WORKLOAD_KINDS, KIND["metadata"]["name"])
        await member.delete(CRDS, CRD["metadata"]["name"])


async def _lives(stage: Stage) -> None:
    template = {"apiVersion": "knobs.dev/v1", "kind": "Knob", "spec": {"size": 1}}
    await stage.run("demo", {"m1": 3}, template=template)
    await stage.becomes("m1", "demo", 3, "size", kind=KNOBS)

    async def says(**status: Any) -> None:
        where: Any = {"namespace": stage.namespace, "subresource": "status"}
        await stage.members["m1"].merge_patch(KNOBS, "demo", {"status": status}, **where)

    await says(up=2, phase="Turning")
    await becomes(stage, "demo", ready=2)

    # By the phase, from when it stands on the hub; the object itself does not change.
    async def judged_by(condition: str) -> None:
        ready = {"when": [condition]}
        patch = {"spec": {"ready": {"observedGeneration": "", "replicas": None, **ready}}}
        await stage.hub.merge_patch(WORKLOAD_KINDS, KIND["metadata"]["name"], patch)

    await judged_by("status.phase == 'Still'")
    await becomes(stage, "demo", ready=0, health="Progressing")
    await says(up=2, phase="Still")
    await becomes(stage, "demo", ready=3, health="Healthy")

    # It fails on this object: the share is not ready, and says why.
    await judged_by("status.phase + 1 == 2")
    share = await becomes(stage, "demo", ready=0)
    assert "No matching overloads" in share["message"]

    # It does not compile: nothing is written, and what runs stays as it is.
    await judged_by("status.phase ===")
    await stage.refused(
        "demo", "InvalidWorkload", "WorkloadKind knob.knobs.dev: spec.ready.when[0]"
    )
    await stage.place("demo", m1=2)
    await stage.refused(
        "demo", "InvalidWorkload", "WorkloadKind knob.knobs.dev: spec.ready.when[0]"
    )
    found = await stage.on("m1", "demo", kind=KNOBS)
    assert found is not None
    assert found["spec"]["size"] == 3
    await judged_by("status.phase == 'Still'")
    await stage.becomes("m1", "demo", 2, "size", kind=KNOBS)
    await becomes(stage, "demo", ready=2)
