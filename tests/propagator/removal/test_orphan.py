"""What stays on real members when a Workload says `onDelete: Orphan`: at its end, and only then."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

from crds.names import (
    GROUP,
    LABEL_MANAGED,
    LABEL_WORKLOAD_UID,
    OWNER_PREFIX,
    SYSTEM_NAMESPACE,
)
from machinery.api.resources import SECRETS, WORKLOADS, Resource
from machinery.api.verbs import Verbs
from machinery.errors import Forbidden
from propagator.errors import HubFault
from propagator.hub.own_kind import FRESH_SECONDS, OwnKind
from propagator.types.workload import departing, workload_of
from tests.fakeclock import FakeClock
from tests.propagator.stage import (
    CONFIGMAPS,
    DEPLOYMENTS,
    SERVICES,
    MakeStage,
    Stage,
    configmap,
    settled,
)
from tests.propagator.waits import until

ORPHAN: dict[str, Any] = {"onDelete": "Orphan"}
SERVICE = {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 80}]}}


def marks(found: dict[str, Any]) -> set[str]:
    """What Stowage has written on the object itself."""
    meta = found["metadata"]
    return {key for part in ("labels", "annotations") for key in meta.get(part, {}) if GROUP in key}


async def unmarked(stage: Stage, member: str, name: str = "web", **where: Any) -> dict[str, Any]:
    found = await stage.on(member, name, **where)
    assert found is not None, f"{name} is gone"
    assert not marks(found)
    return found


@pytest.mark.proves("PK27")
async def test_without_its_registration_a_member_keeps_what_it_runs(stage: Stage) -> None:
    """As where the namespace of the Secrets is deleted, or all MemberClusters are."""
    await stage.push("web", manifests=[configmap("conf", k="v")])
    before = [await stage.on("m1"), await stage.on("m1", "conf", kind=CONFIGMAPS)]
    how: dict[str, Any] = {"namespace": SYSTEM_NAMESPACE}
    secrets = (await stage.hub.list(SECRETS, **how))["items"]
    for each in secrets:
        await stage.hub.delete(SECRETS, each["metadata"]["name"], **how)
    await until(lambda: not stage.process.term.registry.get("m1").ready)
    await settled(stage)
    assert [await stage.on("m1"), await stage.on("m1", "conf", kind=CONFIGMAPS)] == before
    assert marks(before[0])
    for each in secrets:
        meta = {key: each["metadata"][key] for key in ("name", "namespace", "labels")}
        await stage.hub.create(SECRETS, {**each, "metadata": meta})
    await stage.ready()


@pytest.mark.long
@pytest.mark.proves("X8")
async def test_what_a_deleted_workload_leaves_runs_on_and_is_taken_over_again(stage: Stage):
    how: dict[str, Any] = {
        "adoption": "IfNoDiff",
        "targetService": SERVICE | {"metadata": {"name": "web"}},
        "manifests": [configmap("conf", k="v")],
        **ORPHAN,
    }
    await stage.bring("first", {"m1": 1, "m2": 1}, **how)
    before = {name: await stage.on(name) for name in ("m1", "m2")}
    assert LABEL_WORKLOAD_UID in before["m1"]["spec"]["template"]["metadata"]["labels"]
    await stage.end("first")
    for member, was in before.items():
        left = await unmarked(stage, member)
        assert left["spec"] == was["spec"]
        assert left["metadata"]["uid"] == was["metadata"]["uid"]
        await unmarked(stage, member, kind=SERVICES)
        await unmarked(stage, member, "conf", kind=CONFIGMAPS)
    await stage.restarted()
    await settled(stage)
    await unmarked(stage, "m1")
    await stage.bring("second", {"m1": 1}, **how)
    again = await stage.on("m1")
    uid = (await stage.workload("second"))["metadata"]["uid"]
    assert OWNER_PREFIX + uid in marks(again)
    assert again["spec"] == before["m1"]["spec"]
    await unmarked(stage, "m2")


@pytest.mark.proves("X8")
@pytest.mark.parametrize("said", ["Orphan", "Delete", None, ["Orphan"], "?"])
@pytest.mark.parametrize("before", [None, "Orphan", "Delete"])
def test_an_end_is_read_from_a_spec_that_cannot_be_read(said: Any, before: str | None):
    meta = {"namespace": "shop", "name": "demo", "uid": "u"}
    last = workload_of({"metadata": meta, "spec": {"onDelete": before}}) if before else None
    spec = {"replicas": "many", **({"onDelete": said} if said else {})}
    raw = msgspec.Raw(msgspec.json.encode({"metadata": meta, "spec": spec}))
    with pytest.raises(msgspec.ValidationError):
        workload_of(msgspec.json.decode(raw))
    word = said if said in ("Orphan", "Delete") else before
    assert departing(raw, last).orphans is (word == "Orphan")


@pytest.mark.proves("X9")
async def test_an_object_that_goes_at_the_parting_holds_nothing(
    stage_on: MakeStage, monkeypatch: pytest.MonkeyPatch
):
    merge_patch, gone = Verbs.merge_patch, []

    async def a_moment_later(self: Verbs, res: Resource, name: str, patch: Any, **how: Any) -> Any:
        if res == DEPLOYMENTS and LABEL_MANAGED in str(patch) and not gone:
            gone.append(name)
            await stage.members["m1"].delete(DEPLOYMENTS, name, namespace=stage.namespace)
        return await merge_patch(self, res, name, patch, **how)

    monkeypatch.setattr(Verbs, "merge_patch", a_moment_later)
    async with stage_on() as stage:
        await stage.bring("demo", {"m1": 1}, **ORPHAN)
        await stage.end("demo")
        assert gone == ["web"]
        assert await stage.on("m1") is None


@pytest.mark.proves("A22")
@pytest.mark.parametrize(
    ("said", "ends"),
    [
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, True),
        ({"metadata": {}}, False),
        (None, True),
    ],
)
async def test_the_definition_says_whether_the_kind_is_deleted(said: Any, ends: bool):
    class Hub:
        asked = 0

        async def find(self, _: Resource, name: str) -> Any:
            assert name == "workloads.stowage.dev"
            self.asked += 1
            return said

    hub, clock = Hub(), FakeClock()
    kind = OwnKind(cast("Verbs", hub), WORKLOADS, clock=clock)
    assert [await kind.ends() for _ in range(3)] == [ends] * 3
    assert hub.asked == (3 if ends else 1), "what is about to be believed is asked again"
    await clock.advance(FRESH_SECONDS)
    assert await kind.ends() is ends


@pytest.mark.proves("PK23")
async def test_no_answer_counts_that_is_older_than_the_deletion():
    class Hub:
        ends, refuses = False, False

        async def find(self, _: Resource, name: str) -> Any:
            if self.refuses:
                raise Forbidden(code=403, reason="Forbidden", message="no")
            return {"metadata": {"deletionTimestamp": "now"} if self.ends else {}}

    hub, clock = Hub(), FakeClock()
    kind = OwnKind(cast("Verbs", hub), WORKLOADS, clock=clock)
    assert not await kind.ends()
    hub.ends = True
    assert not await kind.ends(), "an answer is kept for a moment"
    await clock.advance(FRESH_SECONDS / 2)
    assert await kind.ends(since=clock.monotonic()), "but not for a Workload that was deleted since"
    hub.refuses = True
    with pytest.raises(HubFault):
        await kind.ends()
