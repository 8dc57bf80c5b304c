"""Objects that a controller of a member makes of ours, with our labels and annotations on them."""

from __future__ import annotations

import pytest

from crds.names import FIELD_MANAGER
from propagator.members.objects import managed, orphan_marks, owners

from .stage import DEPLOYMENTS


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
