"""What stays on real members when a Workload says `onDelete: Orphan`: at its end, and only then."""

from __future__ import annotations

import asyncio
import base64
from typing import Any, cast

import msgspec
import pytest

from crds.names import (
    GROUP,
    LABEL_MANAGED,
    LABEL_WORKLOAD_UID,
    ORPHAN_PREFIX,
    OWNER_PREFIX,
    SYSTEM_NAMESPACE,
)
from machinery.api.resources import SECRETS, WORKLOADS, Resource
from machinery.api.verbs import Verbs
from machinery.errors import Forbidden, NotFound
from propagator.errors import HubFault
from propagator.hub.own_kind import FRESH_SECONDS, OwnKind
from propagator.types.workload import departing, workload_of
from stowage.playground.controlplanes import Cluster
from tests.fakeclock import FakeClock
from tests.patience import PATIENCE
from tests.propagator.conftest import QUICK
from tests.propagator.stage import (
    CONFIGMAPS,
    DEPLOYMENTS,
    SERVICES,
    MakeStage,
    Stage,
    configmap,
    deployment,
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


@pytest.mark.long
@pytest.mark.proves("X8")
async def test_the_last_word_before_the_end_counts(stage: Stage):
    for name, first, last in (("stays", "Delete", "Orphan"), ("goes", "Orphan", "Delete")):
        await stage.push(name, onDelete=first)
        was = await stage.on("m1", name)
        assert any(each.startswith(ORPHAN_PREFIX) for each in marks(was)) is (name == "goes")
        await stage.stop()
        await stage.patch(name, {"spec": {"onDelete": last}})
        await stage.delete(name)
        stage.start()
        await stage.gone(name)
    await unmarked(stage, "m1", "stays")
    assert await stage.on("m1", "goes") is None
    # An edit alone reaches the objects, and touches no pod.
    await stage.push("turns")
    was = await stage.on("m1", "turns")
    for word in ("Orphan", "Delete"):
        await stage.patch("turns", {"spec": {"onDelete": word}})

        async def told(word: str = word) -> bool:
            found = marks(await stage.on("m1", "turns"))
            return any(e.startswith(ORPHAN_PREFIX) for e in found) is (word == "Orphan")

        await until(told)
    now = await stage.on("m1", "turns")
    assert now["spec"] == was["spec"]
    assert marks(now) == marks(was)


@pytest.mark.long
@pytest.mark.proves("X8")
@pytest.mark.parametrize("when", ["before the write", "after the write"])
async def test_a_process_that_ends_at_the_parting_is_made_up_for(
    stage_on: MakeStage, monkeypatch: pytest.MonkeyPatch, when: str
):
    merge_patch, reached = Verbs.merge_patch, asyncio.Event()

    async def stuck(self: Verbs, res: Resource, name: str, patch: Any, **how: Any) -> Any:
        if res != DEPLOYMENTS or LABEL_MANAGED not in str(patch) or reached.is_set():
            return await merge_patch(self, res, name, patch, **how)
        if when == "after the write":
            await merge_patch(self, res, name, patch, **how)
        reached.set()
        return await asyncio.Future()

    monkeypatch.setattr(Verbs, "merge_patch", stuck)
    async with stage_on() as stage:
        await stage.bring("demo", {"m1": 1}, manifests=[configmap("conf", k="v")], **ORPHAN)
        await stage.delete("demo")
        async with asyncio.timeout(60 * PATIENCE):
            await reached.wait()
        assert await stage.workload("demo"), "what is not acknowledged is not forgotten"
        await stage.restart()
        await stage.gone("demo")
        await unmarked(stage, "m1")
        await unmarked(stage, "m1", "conf", kind=CONFIGMAPS)


@pytest.mark.long
@pytest.mark.proves("X9")
async def test_what_is_gone_holds_nothing_and_who_is_away_holds_the_end(
    stage_on: MakeStage, m1: Cluster
):
    async with stage_on(sessions=QUICK) as stage:
        for name in ("demo", "other"):
            manifests = [configmap(f"{name}-conf", k="v")]
            await stage.create(
                name, manifests=manifests, targetDeployment=deployment(name), **ORPHAN
            )
            await stage.place(name, m1=1, m2=1)
            await stage.propagated(name)
        async with stage.away("m1"):
            await stage.members["m2"].delete(DEPLOYMENTS, "demo", namespace=stage.namespace)
            await stage.delete("demo")
            assert "m1" in await stage.refused("demo", "ClusterUnreachable")

            async def parted() -> bool:
                return not marks(await stage.on("m2", "demo-conf", kind=CONFIGMAPS))

            await until(parted)
        await stage.gone("demo")
        await unmarked(stage, "m1", "demo")
        await unmarked(stage, "m1", "demo-conf", kind=CONFIGMAPS)

        # One whose MemberCluster is deleted holds it no more, and finds it so when it is back.
        secret = await stage.unregister("m1")
        await stage.end("other")
        assert marks(await stage.on("m1", "other"))
        await stage.restart()
        await stage.hub.create(SECRETS, secret)

        async def let_go() -> bool:
            kinds = {"other": DEPLOYMENTS, "other-conf": CONFIGMAPS}
            found = [await stage.on("m1", name, kind=kind) for name, kind in kinds.items()]
            return not any(map(marks, found))

        await until(let_go, seconds=60)


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


@pytest.mark.long
@pytest.mark.proves("X10")
async def test_what_is_not_the_end_removes_as_ever(stage: Stage):
    await stage.bring("demo", {"m1": 1}, manifests=[configmap("conf"), configmap("also")], **ORPHAN)
    await stage.patch("demo", {"spec": {"manifests": [configmap("conf")]}})
    await stage.goes("m1", "also", kind=CONFIGMAPS)
    await stage.place("demo", m2=1)
    await stage.make_ready("m2")
    await stage.goes("m1")
    await stage.goes("m1", "conf", kind=CONFIGMAPS)
    await stage.propagated("demo")
    await stage.patch("demo", {"spec": {"replicas": 0}})
    await stage.place("demo")
    await stage.goes("m2")
    await stage.goes("m2", "conf", kind=CONFIGMAPS)


@pytest.mark.long
@pytest.mark.proves("X9", "X10")
async def test_what_a_lost_member_has_of_a_share_that_left_it_goes(
    stage_on: MakeStage, m1: Cluster
):
    """Else it would run twice, and nobody would know."""
    async with stage_on(sessions=QUICK) as stage:
        await stage.bring("demo", {"m1": 1}, **ORPHAN)
        async with stage.away("m1"):
            await stage.place("demo", m2=1)
            await stage.make_ready("m2")
            await stage.fares("demo", "m2", "Running")
            await stage.delete("demo")
            assert "m1" in await stage.refused("demo", "ClusterUnreachable")
        await stage.gone("demo")
        assert await stage.on("m1") is None
        await unmarked(stage, "m2")


@pytest.mark.long
@pytest.mark.proves("X11")
@pytest.mark.parametrize("last", ["Delete", "Orphan"])
async def test_a_shared_secret_stays_for_the_pods_that_were_left(stage: Stage, last: str):
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "creds", "namespace": stage.namespace},
        "data": {"password": base64.b64encode(b"one").decode()},
    }
    await stage.hub.create(SECRETS, body)
    for name, word in (("first", "Orphan"), ("second", last), ("third", "Delete")):
        await stage.create(
            name,
            targetDeployment=deployment(name),
            resources=[{"name": "db", "secretName": "creds"}],
            onDelete=word,
        )
        await stage.place(name, m1=1)
        await stage.propagated(name)

    async def owners() -> set[str]:
        found = await stage.on("m1", "creds", kind=SECRETS)
        assert found is not None, "the pods that were left need it"
        return {each for each in marks(found) if each.startswith(OWNER_PREFIX)}

    await settled(stage)
    assert len(await owners()) == 3
    before = await stage.on("m1", "creds", kind=SECRETS)
    await settled(stage)
    assert await stage.on("m1", "creds", kind=SECRETS) == before, "nobody fights over marks"
    for number, name in enumerate(("first", "third", "second")):
        await stage.end(name)
        assert len(await owners()) == 2 - number
        if number == 0:  # the others go on writing it
            turned = {"data": {"password": base64.b64encode(b"two").decode()}}
            await stage.hub.merge_patch(SECRETS, "creds", turned, namespace=stage.namespace)

            async def rotated(turned: dict[str, Any] = turned) -> bool:
                return (await stage.on("m1", "creds", kind=SECRETS))["data"] == turned["data"]

            await until(rotated)
    await unmarked(stage, "m1", "creds", kind=SECRETS)
    await unmarked(stage, "m1", "first")
    assert await stage.on("m1", "third") is None


@pytest.mark.proves("A22")
@pytest.mark.parametrize(
    ("said", "ends"),
    [
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, True),
        ({"metadata": {}}, False),
        (NotFound(code=404, reason="NotFound", message="gone"), True),
    ],
)
async def test_the_definition_says_whether_the_kind_is_deleted(said: Any, ends: bool):
    class Hub:
        asked = 0

        async def get(self, _: Resource, name: str) -> Any:
            assert name == "workloads.stowage.dev"
            self.asked += 1
            if isinstance(said, Exception):
                raise said
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

        async def get(self, _: Resource, name: str) -> Any:
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
