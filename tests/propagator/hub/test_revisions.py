"""What a member gets of a revision that is not the spec's, from a hub that answers one request."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from machinery.api.client import ApiClient
from machinery.errors import NotFound
from machinery.kinds.revisions import digest_of, revision_data, unstaged_revision
from propagator.apply.render import render
from propagator.errors import Refused
from propagator.hub.revisions import Revisions
from propagator.shares import ShareTable
from propagator.types.workload import Workload, workload_of
from tests.propagator.apply.memberfacts import member_facts
from tests.propagator.stage import deployment

NEW = {
    "template": {
        "apiVersion": "example.com/v1",
        "kind": "Shop",
        "metadata": {"name": "web"},
        "spec": {"size": 1},
    },
    "replicasPath": "spec.size",
}


def staged(spec: dict[str, Any], old: str, **status: Any) -> Workload:
    """A Workload with that spec, of which m1 has an old revision."""
    revision = digest_of(revision_data(spec))
    return workload_of(
        {
            "metadata": {"namespace": "shop", "name": "web", "uid": "u1", "generation": 2},
            "spec": {**spec, "replicas": 3, "rollout": {"waves": [{}]}},
            "status": {
                "rollout": {"revision": revision},
                "revisions": [{"revision": old, "clusters": ["m1"]}],
                "placements": [{"cluster": "m1", "replicas": 3}],
                **status,
            },
        }
    )


@pytest.mark.proves("T1")
@pytest.mark.parametrize("to_custom", [True, False])
async def test_a_revision_of_another_kind_keeps_its_number_of_units(to_custom: bool) -> None:
    built_in = {"targetDeployment": deployment(image="nginx:1")}
    before, after = (built_in, NEW) if to_custom else (NEW, built_in)
    data = revision_data(before)

    async def get(*_: Any, **__: Any) -> Any:
        return {"data": {"spec": data}}

    hub = cast("ApiClient", SimpleNamespace(get=get))
    given = await Revisions(hub, ShareTable()).of_member(staged(after, digest_of(data)), "m1")
    main = render(given, replicas=3, first_ordinal=0, secrets=[], member=member_facts())[-1].body
    if to_custom:
        assert (main["kind"], main["spec"]["replicas"]) == ("Deployment", 3)
        assert "size" not in main["spec"]
    else:
        assert (main["kind"], main["spec"]) == ("Shop", {"size": 3})


@pytest.mark.proves("T23", "A9")
async def test_only_what_was_never_stored_is_kept_without_a_word_of_loss() -> None:
    async def get(*_: Any, **__: Any) -> Any:
        raise NotFound(code=404, reason="NotFound", message="gone")

    async def refused(old: str, *, runs: str) -> str:
        told = staged(NEW, old, clusters=[{"name": "m1", "revision": runs}])
        with pytest.raises(Refused) as refusal:
            await Revisions(cast("ApiClient", SimpleNamespace(get=get)), ShareTable()).of_member(
                told, "m1"
            )
        return str(refusal.value.reason)

    stored = digest_of(revision_data({"targetDeployment": deployment(image="nginx:1")}))
    unstored = unstaged_revision(digest_of(revision_data(NEW)))
    assert len(unstored) == len(stored)
    assert await refused(stored, runs=stored) == "RevisionLost"
    assert await refused(unstored, runs=unstored) == "Propagating"
    assert await refused(unstored, runs=stored) == "RevisionLost"
