"""Objects that a controller of a member makes of ours, with our labels and annotations on them."""

from __future__ import annotations

from typing import Any

import pytest

from crds.names import FIELD_MANAGER
from machinery.api.resources import Resource
from propagator.members.objects import managed, orphan_marks, owners

from .stage import DEPLOYMENTS, KINDS, MakeStage, Stage, deployment, settled
from .test_known_kinds import main, serving

INFERENCE = Resource("serving.kserve.io", "v1beta1", "inferenceservices", "InferenceService")


async def child(stage: Stage, of: Resource, name: str, made: dict[str, Any]) -> dict[str, Any]:
    """What a controller makes that copies labels and annotations of its object."""
    parent = await stage.appears("m1", name, kind=of)
    meta = parent["metadata"]
    owner = {
        "apiVersion": parent["apiVersion"],
        "kind": parent["kind"],
        "name": name,
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    copied = {key: meta.get(key, {}) for key in ("labels", "annotations")}
    about = {**made["metadata"], **copied, "ownerReferences": [owner]}
    kind = KINDS[made["kind"]]
    where: Any = {"namespace": stage.namespace}
    return await stage.members["m1"].create(kind, {**made, "metadata": about}, **where)


@pytest.mark.proves("KD87")
def test_marks_count_where_we_wrote_them_or_nobody_controls_the_object() -> None:
    marks = {"owner.stowage.dev/u": "shop/web", "orphan.stowage.dev/u": "", "team": "a"}
    maker = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "web", "uid": "w"}
    ours = {"manager": FIELD_MANAGER, "operation": "Apply", "apiVersion": "apps/v1"}
    theirs = {"manager": "widgets", "operation": "Update", "apiVersion": "apps/v1"}

    def marked(controller: bool | None, *wrote: dict[str, str]) -> set[str]:
        refs = [] if controller is None else [{**maker, "controller": controller}]
        fields = [{**each, "fieldsV1": {}} for each in wrote]
        meta = {"name": "web", "annotations": marks, "ownerReferences": refs}
        found = managed(DEPLOYMENTS, {"metadata": {**meta, "managedFields": fields}})
        assert found.metadata.annotations["team"] == "a"
        assert bool(orphan_marks(found.metadata)) == bool(owners(found.metadata))
        return set(owners(found.metadata))

    assert marked(True, theirs) == set()
    assert marked(True, theirs, ours) == {"u"}, "a controller took it up afterwards"
    assert marked(False, theirs) == {"u"}
    assert marked(None) == {"u"}


@pytest.mark.long
@pytest.mark.proves("KD87")
async def test_what_a_controller_makes_of_ours_is_the_controllers(stage_on: MakeStage) -> None:
    async with stage_on() as stage, serving(stage.members["m1"], kinds=[INFERENCE]):
        spec = {"predictor": {"model": {"modelFormat": {"name": "sklearn"}}}}
        await stage.create("iris", template=main(INFERENCE, "iris", **spec))
        await stage.place("iris", m1=1)
        await stage.propagated("iris")
        made = await child(stage, INFERENCE, "iris", deployment("iris-predictor"))
        await settled(stage)
        edited = main(INFERENCE, "iris", predictor={**spec["predictor"], "minReplicas": 2})
        await stage.patch("iris", {"spec": {"template": edited}})
        await stage.propagated("iris")
        await settled(stage)
        await stage.restart()
        await stage.ready()
        await settled(stage)
        found = await stage.on("m1", "iris-predictor")
        assert found is not None, "its controller would make it again, for ever"
        assert found["metadata"]["uid"] == made["metadata"]["uid"]
        assert "deletionTimestamp" not in found["metadata"]
        await stage.delete("iris")
        await stage.gone("iris")
        assert await stage.on("m1", "iris", kind=INFERENCE) is None
