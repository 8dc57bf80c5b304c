"""What one propagator does of the Workloads of a hub on its members, all but the process in memory."""

from __future__ import annotations

import asyncio
import base64
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from crds.groups.gate import decision_of
from crds.names import (
    ANNOTATION_COUNTED,
    ANNOTATION_DELETION,
    ANNOTATION_DELETION_COST,
    ANNOTATION_HUB,
    ANNOTATION_HUB_VERSION,
    ANNOTATION_SWEEP,
    ANNOTATION_UNJOIN,
    CONFIRMED,
    GIVEN_UP,
    LABEL_GROUP,
    LABEL_MANAGED,
    LABEL_WORKLOAD_UID,
    OWNER_PREFIX,
    PLACEHOLDER_SCHEDULER,
    POD_DELETION_COST,
    SYSTEM_NAMESPACE,
)
from machinery import tracing
from machinery.api.resources import (
    CONFIG_MAPS,
    CONTROLLER_REVISIONS,
    LEASES,
    MEMBER_CLUSTERS,
    NAMESPACES,
    SECRETS,
    WORKLOAD_GROUPS,
    WORKLOADS,
)
from machinery.errors import Forbidden, Unreachable
from machinery.kinds.paths import value_at
from machinery.kinds.revisions import digest_of, revision_data, revision_name
from machinery.tracing import TraceIds, Tracer, TraceSpan
from machinery.types import conditions
from propagator import deletion_costs
from propagator.members.health import Contact
from propagator.status.aggregation import BY_OTHERS
from stowage.setup.holders import standing
from stowage.setup.rename import Rename, rename
from tests.propagator.memory import SPACE, World
from tests.propagator.stage import autoscaler, configmap, deployment
from tests.propagator.test_ends import job
from tests.propagator.test_one_shard import (
    anothers,
    propagated,
    ready,
    runs,
    start,
    starts,
    statefulset,
    workload,
)

pytestmark = pytest.mark.usefixtures("steady")
Json = dict[str, Any]
QUORUM = "2026-01-02T03:04:05Z"


@asynccontextmanager
async def serving(*members: str, **shares: int) -> AsyncIterator[World]:
    """A propagator whose members are ready, with the Workload web so placed."""
    world = World(*members)
    async with world.propagating():
        await ready(world)
        if shares:
            await start(world, **shares)
            await world.calm(3)
        yield world


def made(name: str, **spec: Any) -> Json:
    """A Workload with these fields of its spec."""
    body = workload(name)
    return {**body, "spec": {**body["spec"], **spec}}


def edit(world: World, name: str = "web", **spec: Any) -> None:
    world.hub.edit(WORKLOADS, name, {"spec": spec})


def on(world: World, member: str, plural: str = "deployments") -> dict[str, Json]:
    """The objects of that kind there by name, but for a system's own."""
    found = world.members[member].objects[plural]
    return {name: body for (space, name), body in found.items() if space == SPACE}


def said(world: World, kind: str = "Propagated", name: str = "web") -> Json:
    """A condition of the Workload."""
    return dict(conditions.find(world.status(name), kind))


def share(world: World, member: str, name: str = "web") -> Json:
    return next((e for e in world.status(name).get("clusters", []) if e["name"] == member), {})


def not_ready(world: World, member: str = "m1") -> str:
    """Why the member is not Ready."""
    found = conditions.find(world.cluster(member), "Ready")
    return str(found["reason"]) if found.get("status") == "False" else ""


def sent(world: World, since: int, *servers: str) -> Counter[str]:
    """METHOD plural of what was asked of these servers since then, but for probes and Leases."""
    found: Counter[str] = Counter()
    for server, method, path, _, _ in world.sent[since:]:
        parts = path.partition("?")[0].split("/")
        if server in servers and "leases" not in parts and parts[1] in ("api", "apis"):
            found[f"{method} {parts[-1] if method == 'WATCH' else '/'.join(parts[-2:])}"] += 1
    return found


def secret(world: World, name: str = "token") -> None:
    meta = {"name": name, "namespace": SPACE}
    data = {"value": base64.b64encode(b"one").decode()}
    world.put(SECRETS, {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data})


@pytest.mark.proves("C27", "C28", "R8")
async def test_a_secret_is_waited_for_and_stays_until_the_last_workload_of_it_goes() -> None:
    async with serving("m1") as world:

        async def refuses(_method: str, path: str, _body: Any) -> None:
            if path.endswith(f"/{SPACE}/secrets/token"):
                raise Forbidden(code=403, reason="Forbidden", message="not for you")

        world.hub.faults.append(refuses)
        for name in ("web", "api"):
            world.put(WORKLOADS, made(name, resources=[{"name": "token"}]))
            world.place(name, m1=1)
        await world.until(lambda: said(world).get("reason") == "SecretNotFound")
        assert f"{SPACE}/token" in said(world)["message"]
        assert not on(world, "m1"), "pods wait for what they need"
        secret(world)
        await world.until(lambda: propagated(world, "web") == "HubUnavailable")
        assert said(world)["message"].startswith("the hub: Secret ")
        world.hub.faults.clear()
        await world.until(lambda: runs(world, "web", m1=1) and runs(world, "api", m1=1))
        world.delete("web")
        await world.until(lambda: len(world.hub.all(WORKLOADS)) == 1)
        assert on(world, "m1", "secrets")
        world.delete("api")
        await world.until(lambda: not world.hub.all(WORKLOADS))
        assert not on(world, "m1", "secrets")


@pytest.mark.proves("E25")
async def test_pods_that_keep_room_go_when_none_of_it_is_left_to_keep() -> None:
    """The owners of a Reservation have taken all of it, so its placeholder is placed nowhere."""
    owner = {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "Reservation",
        "name": "room",
        "uid": "u-room",
        "controller": True,
    }
    async with serving("m1", "m2") as world:
        body = made("room-hold", schedulerName=PLACEHOLDER_SCHEDULER, manifests=[])
        body["metadata"]["ownerReferences"] = [owner]
        world.put(WORKLOADS, body)
        world.place("room-hold", m1=1, m2=1)
        await world.until(lambda: runs(world, "room-hold", m1=1, m2=1))
        world.place("room-hold")
        await world.until(lambda: not world.deployments("m1") and not world.deployments("m2"))
        world.place("room-hold", m2=1)
        await world.until(lambda: runs(world, "room-hold", m2=1))


@pytest.mark.proves("N1", "M20")
async def test_what_is_placed_nowhere_stays_and_what_shall_have_no_replicas_goes_at_once() -> None:
    async with serving("m1", "m2", m1=2) as world:
        before = on(world, "m1")["web"]["metadata"]["uid"]
        world.place("web")
        await world.until(lambda: "placed nowhere" in share(world, "m1")["message"])
        await world.calm(30)
        world.place("web", m1=2)
        await world.until(lambda: runs(world, "web", m1=2))
        assert on(world, "m1")["web"]["metadata"]["uid"] == before
        edit(world, replicas=0)
        world.place("web")
        await world.until(lambda: not on(world, "m1") and not on(world, "m1", "configmaps"))


@pytest.mark.proves("C29", "R4")
async def test_what_waits_costs_few_requests_and_an_answer_that_was_lost_one_look() -> None:
    world, lost = World("m1"), list[str]()
    attempt = world._attempt

    async def without_an_answer(client: Any, call: Any, token: Any) -> bytes:
        answer = await attempt(client, call, token)
        if "/configmaps/api-conf" in call.url.path and not lost:
            lost.append(call.method)
            raise Unreachable("the connection broke")
        return answer

    world._attempt = without_an_answer  # type: ignore[method-assign]
    async with world.propagating():
        await ready(world)
        world.members["m1"].objects["configmaps"][SPACE, "web-conf"] = anothers("web-conf")
        world.put(WORKLOADS, workload("web"))
        world.place("web", m1=1)
        await world.until(lambda: propagated(world, "web") == "AlreadyExists")
        since = len(world.sent)
        await world.calm(60)
        asked = sent(world, since, "m1", "hub")
        assert sum(asked[each] for each in asked if "web" in each) <= 12
        world.members["m1"].delete("configmaps", (SPACE, "web-conf"))
        await world.until(lambda: runs(world, "web", m1=1))

        since = len(world.sent)
        await start(world, "api", m1=1)
        assert lost
        asked = sent(world, since, "m1")
        assert asked["PATCH deployments/api"] == 1
        assert asked["PATCH configmaps/api-conf"] <= 2


@pytest.mark.proves("CT8")
async def test_without_delivery_no_member_gets_a_write_and_what_stands_is_let_go_of() -> None:
    async with serving("m1", "m2", m1=1) as world:
        spec = on(world, "m1")["web"]["spec"]
        edit(world, delivery="None")
        await world.until(lambda: said(world, "Ready").get("reason") == "Decided")
        await world.until(
            lambda: OWNER_PREFIX not in str(on(world, "m1")["web"]["metadata"]["annotations"])
        )
        assert on(world, "m1")["web"]["spec"] == spec  # so that no pod restarts
        since = len(world.sent)
        world.place("web", m1=2, m2=1)
        await world.until(lambda: len(world.status("web")["clusters"]) == 2)
        assert {each["message"] for each in world.status("web")["clusters"]} == {BY_OTHERS}
        world.delete("web")
        await world.until(lambda: not world.hub.all(WORKLOADS))
        await world.calm(5)
        assert on(world, "m1")
        assert not [each for each in world.written(since) if each[0] != "hub"]


@pytest.mark.proves("KD80")
async def test_manifests_alone_are_a_copy_on_each_cluster_and_ready_by_their_objects() -> None:
    async with serving("m1", "m2") as world:
        body = made("web", distribution="Duplicated", manifests=[configmap("a"), deployment("b")])
        del body["spec"]["targetDeployment"]
        world.put(WORKLOADS, body)
        world.place("web", m1=1, m2=1)
        await world.until(lambda: runs(world, "web", m1=1, m2=1))
        assert said(world, "Ready")["message"] == "every replica is ready"
        world.members["m2"].report("deployments", (SPACE, "b"), readyReplicas=0)
        await world.until(lambda: said(world, "Ready")["status"] == "False")
        edit(world, manifests=[configmap("a")])
        world.place("web", m1=1)
        await world.until(lambda: runs(world, "web", m1=1) and not on(world, "m1"))
        assert on(world, "m1", "configmaps")
        assert not on(world, "m2", "configmaps")


@pytest.mark.proves("N6")
@pytest.mark.parametrize("seconds", [3, 30])
async def test_a_hub_that_is_away_for_a_while_ends_no_session_and_costs_no_list(
    seconds: int,
) -> None:
    world = World("m1", "m2")
    async with world.propagating() as process:
        await ready(world)
        await start(world, m1=1, m2=1)
        assert process.manager is not None
        registry = process.manager.registry
        links = [registry.get(name).link for name in world.members]  # type: ignore[union-attr]
        told, since = world.hub.read(WORKLOADS, "web"), len(world.sent)
        world.cut.add("one")
        await world.calm(seconds)
        assert (process.term is None) is (seconds > 10)
        world.cut.clear()
        await world.until(lambda: process.term is not None and not process.term.stale())
        await world.calm(10)
        assert [registry.get(name).link for name in world.members] == links  # type: ignore[union-attr]
        assert not [each for each in world.written(since) if each[0] != "hub"]
        asked = sent(world, since, "m1", "m2")
        assert {each.split("/")[-1] for each in asked} <= {"api", "apis"}
        assert world.hub.read(WORKLOADS, "web") == told
        world.place("web", m1=2, m2=1)
        await world.until(lambda: runs(world, "web", m1=2, m2=1))


@pytest.mark.proves("CT17")
async def test_each_apply_and_becoming_ready_join_the_trace_of_the_decision() -> None:
    joined: list[tuple[TraceIds, TraceSpan]] = []

    def export(trace: int, whole: TraceSpan, own: int | None, parent: int | None) -> None:
        assert own is None
        assert parent is not None, "the root is the controller's"
        joined.append((TraceIds(trace, parent), whole))

    def decided(number: int, **shares: int) -> TraceIds:
        """Place as the controller does: with the id of the decision."""
        placements = [{"cluster": c, "replicas": n} for c, n in shares.items()]
        decision = {"id": f"d{number}", "hash": "any", "time": "2026-01-01T00:00:00Z"}
        scheduled = {"type": "Scheduled", "status": "True", "reason": "Scheduled", "message": ""}
        scheduled["lastTransitionTime"] = "2026-01-01T00:00:00Z"
        status = {"placements": placements, "decision": decision, "conditions": [scheduled]}
        found = world.hub.edit(WORKLOADS, "web", {"status": status}, status=True)
        return TraceIds.of(found["metadata"]["uid"], f"d{number}")

    def of(ids: TraceIds, name: str) -> list[TraceSpan]:
        return [span for at, span in joined if at == ids and span.name == name]

    with tracing.using(Tracer(export, ratio=1.0)):
        async with serving("m1", "m2") as world:
            world.put(WORKLOADS, workload("web"))
            first = decided(1, m1=2, m2=1)
            await world.until(lambda: of(first, "ready"))
            for member in ("m1", "m2"):
                (apply,) = of(first, f"apply {member}")
                assert apply.attributes["stowage.member"] == member
                parts = [(p.name, p.attributes.get("stowage.object")) for p in apply.parts()]
                assert parts[0][0] == "render"
                objects = {("send", f"{k} {SPACE}/{n}") for k, n in (
                    ("ConfigMap", "web-conf"), ("Deployment", "web")
                )}  # fmt: skip
                assert set(parts[1:]) == objects
            joined.clear()
            second = decided(2, m1=2, m2=3)
            await world.until(lambda: runs(world, "web", m1=2, m2=3))
            assert {n for _, s in joined if (n := s.name).startswith("apply")} == {"apply m2"}
            assert of(second, "apply m2"), "what sends nothing is no apply"
            world.away.add("m1")
            third = decided(3, m1=4, m2=3)
            await world.until(lambda: of(third, "apply m1"))
            assert of(third, "apply m1")[0].error.startswith("Unreachable: ")


def group(world: World, gate: str | None, *released: str, **more: Any) -> None:
    """What the group's controller writes: these Workloads at their present placements."""
    decisions: Json = {}
    for name in released:
        found = world.hub.read(WORKLOADS, name)
        placed = {each["cluster"]: each["replicas"] for each in found["status"]["placements"]}
        decisions[found["metadata"]["uid"]] = decision_of(placed)
    status = {"gate": gate, "decisions": decisions or None, "retained": None, **more}
    world.hub.edit(WORKLOAD_GROUPS, "batch", {"status": status}, status=True)


@pytest.mark.proves("G4", "G24", "N8")
async def test_a_gang_is_on_no_member_but_as_its_gate_says() -> None:
    def member(name: str, **shares: int) -> None:
        body = workload(name)
        world.put(
            WORKLOADS, {**body, "metadata": {**body["metadata"], "labels": {LABEL_GROUP: "batch"}}}
        )
        world.place(name, **shares)

    def held(words: str, *names: str) -> bool:
        found = [said(world, name=name) for name in names or ("a", "b")]
        return all(f["reason"] == "WaitingForGroup" and words in f["message"] for f in found)

    def standing() -> dict[str, list[str]]:
        return {name: sorted(on(world, name)) for name in ("m1", "m2")}

    async with serving("m1", "m2") as world:
        kind = {"apiVersion": WORKLOAD_GROUPS.api_version, "kind": WORKLOAD_GROUPS.kind}
        meta = {"name": "batch", "namespace": SPACE}
        world.put(WORKLOAD_GROUPS, {**kind, "metadata": meta, "spec": {"minMember": 3}})
        member("a", m1=1)
        member("b", m1=1, m2=2)
        await world.until(lambda: held("waits for its quorum"))
        assert {each["state"] for each in world.status("b")["clusters"]} == {"Pending"}
        assert all(each["scheduled"] == 0 for each in world.status("b")["clusters"])
        await world.calm(5)
        assert not [each for each in world.written() if each[0] != "hub"]
        world.away.add("m2")
        group(world, "Open", "a", "b")
        await world.until(lambda: propagated(world, "a") == "ClusterUnreachable")
        await world.calm(10)
        assert standing() == {"m1": [], "m2": []}, "all of it, or nothing"
        world.away.clear()
        await world.until(lambda: runs(world, "a", m1=1) and runs(world, "b", m1=1, m2=2))
        world.place("b", m1=3)
        edit(world, "b", manifests=[])
        await world.until(lambda: held("other placements", "b"))
        await world.calm(10)
        assert standing() == {"m1": ["a", "b"], "m2": ["b"]}
        assert "b-conf" in on(world, "m1", "configmaps"), "an edit is held with all else"
        group(world, "Closed", "a", "b")
        await world.until(lambda: standing() == {"m1": [], "m2": []})
        await world.until(lambda: held("took all of its replicas back"))
        group(world, "Open", "a", "b", quorumTime=QUORUM)
        await world.until(lambda: standing() == {"m1": ["a", "b"], "m2": []})
        # What ran before the gate opened stays when it closes.
        uid = world.hub.read(WORKLOADS, "b")["metadata"]["uid"]
        group(world, "Closed", "a", "b", retained={uid: {"m1": 3}})
        await world.until(lambda: standing() == {"m1": ["b"], "m2": []})
        world.hub.remove(WORKLOAD_GROUPS, "batch")
        await world.until(lambda: held("not found"))
        await world.calm(10)
        assert standing() == {"m1": ["b"], "m2": []}
        world.delete("a")
        world.delete("b")
        await world.until(lambda: not world.hub.all(WORKLOADS))


@pytest.mark.proves("A22")
async def test_many_that_are_deleted_at_once_run_on_until_a_person_lets_them_go() -> None:
    names = [f"w{n}" for n in range(12)]
    async with serving("m1") as world:
        for name in names:
            world.put(WORKLOADS, workload(name))
            old = {"creationTimestamp": "2020-01-01T00:00:00Z"}
            world.hub.edit(WORKLOADS, name, {"metadata": old})
            world.place(name, m1=1)
        await world.until(lambda: len(on(world, "m1")) == len(names))
    for name in names:
        world.delete(name)
    async with world.propagating():
        await world.until(lambda: all(propagated(world, n) == "DeletionHeld" for n in names))
        assert "stowage sweep --confirm" in said(world, name="w0")["message"]
        await world.calm(30)
        assert len(on(world, "m1")) == len(names)
        edit(world, "w0", onDelete="Orphan")
        for name in names[1:]:
            confirmed = {"annotations": {ANNOTATION_DELETION: CONFIRMED}}
            world.hub.edit(WORKLOADS, name, {"metadata": confirmed})
        await world.until(lambda: not world.hub.all(WORKLOADS))
        assert [*on(world, "m1")] == ["w0"]


def leave(world: World, name: str, plural: str = "configmaps", hub: str = "", **more: str) -> None:
    """What a Workload left on m1 that the hub does not know."""
    hub = hub or world.hub.read(NAMESPACES, "kube-system")["metadata"]["uid"]
    notes = {f"{OWNER_PREFIX}gone-{name}": f"{SPACE}/gone-{name}", **more}
    notes |= {ANNOTATION_HUB: hub, ANNOTATION_HUB_VERSION: "1"}
    kind = {"configmaps": "ConfigMap", "persistentvolumeclaims": "PersistentVolumeClaim"}[plural]
    meta: Json = {"name": name, "namespace": SPACE, "labels": {LABEL_MANAGED: "true"}}
    meta["creationTimestamp"] = "2031-01-01T00:00:00Z"
    body = {"apiVersion": "v1", "kind": kind, "metadata": {**meta, "annotations": notes}}
    world.members["m1"].apply(plural, (SPACE, name), body)


@pytest.mark.proves("A2", "A8")
async def test_what_ends_waits_for_no_cluster_that_was_given_up_before_another_process_began() -> (
    None
):
    """Its unjoin waits for nothing there meanwhile, though another cluster does not answer."""
    async with serving("m1", "m2", m1=1, m2=1) as world:
        world.away |= {"m1", "m2"}
        await world.calm(20)
        world.delete("web")
        await world.calm(5)
        mark = {"metadata": {"annotations": {ANNOTATION_UNJOIN: GIVEN_UP}}}
        world.hub.edit(MEMBER_CLUSTERS, "m1", mark)
        world.hub.remove(SECRETS, "m1", SYSTEM_NAMESPACE)
        web = world.hub.read(WORKLOADS, "web")
        await world.until(lambda: not standing(world.hub.read(WORKLOADS, "web"), "m1").runs)
        assert standing(web, "m1").runs
        assert standing(world.hub.read(WORKLOADS, "web"), "m2").runs
        world.hub.remove(MEMBER_CLUSTERS, "m1", "")
        await world.calm(2)
    async with world.propagating():
        await world.calm(20)
        world.away.discard("m2")
        await world.until(lambda: not world.hub.all(WORKLOADS), seconds=120)
        assert on(world, "m1"), "it was left behind"
        assert not on(world, "m2")


@pytest.mark.proves("R2", "A14")
async def test_what_this_hub_wrote_for_workloads_that_are_gone_is_swept_and_no_claim() -> None:
    world = World("m1")
    world.put(WORKLOADS, workload("web"))
    uid = world.hub.read(WORKLOADS, "web")["metadata"]["uid"]
    leave(world, "left")
    leave(world, "shared", **{OWNER_PREFIX + uid: f"{SPACE}/web"})
    leave(world, "of-another-hub", hub="another")
    leave(world, "data", "persistentvolumeclaims")
    async with world.propagating():
        await world.until(lambda: "left" not in on(world, "m1", "configmaps"))
        await world.until(lambda: world.cluster("m1")["sweepHeld"]["count"] == 1)
        assert conditions.find(world.cluster("m1"), "SweepHeld")["reason"] == "HoldsData"
        await world.calm(10)
        assert {"shared", "of-another-hub"} == on(world, "m1", "configmaps").keys()
        assert on(world, "m1", "persistentvolumeclaims")
        marks = on(world, "m1", "configmaps")["shared"]["metadata"]["annotations"]
        assert [each for each in marks if each.startswith(OWNER_PREFIX)] == [OWNER_PREFIX + uid]
        edit(world, manifests=[configmap("of-another-hub")])
        world.place("web", m1=1)
        await world.until(lambda: propagated(world, "web") == "AlreadyExists")
        assert "another hub" in said(world)["message"]
        confirmed = {"metadata": {"annotations": {ANNOTATION_SWEEP: "gone-data"}}}
        world.hub.edit(MEMBER_CLUSTERS, "m1", confirmed)
        await world.until(lambda: not on(world, "m1", "persistentvolumeclaims"))


@pytest.mark.proves("A14", "N2")
@pytest.mark.parametrize("placed", [True, False])
async def test_a_claim_of_a_kind_that_the_hub_has_forgotten_stays_named_over_a_restart(
    *, placed: bool
) -> None:
    world = World("m1", "m2")
    world.put(WORKLOADS, workload("web"))
    uid = world.hub.read(WORKLOADS, "web")["metadata"]["uid"]
    world.place("web", m1=1)
    async with world.propagating():
        await world.until(lambda: propagated(world, "web") == "Propagated")
    leave(world, "data", "persistentvolumeclaims", **{OWNER_PREFIX + uid: f"{SPACE}/web"})
    (claim,) = on(world, "m1", "persistentvolumeclaims").values()
    del claim["metadata"]["annotations"][f"{OWNER_PREFIX}gone-data"]
    world.place("web", **{"m1" if placed else "m2": 1})

    def named() -> list[str]:
        return [each["name"] for each in world.status("web").get("kept", ())]

    searched = {"metadata": {"annotations": {ANNOTATION_COUNTED: None}}}
    world.hub.edit(MEMBER_CLUSTERS, "m1", searched)
    async with world.propagating():
        await world.until(lambda: named() == ["data"])
        await world.until(lambda: propagated(world, "web") == "Propagated")
        await world.calm(10)
    async with world.propagating():
        for _ in range(100):
            await world.clock.advance(0.1)
            assert named() == ["data"]


@pytest.mark.proves("R3")
async def test_two_wishes_for_one_object_are_told_and_not_fought_out() -> None:
    async with serving("m1") as world:
        both = [autoscaler("v2", 3), autoscaler("v1", 7)]
        world.put(WORKLOADS, made("web", manifests=both))
        world.place("web", m1=1)
        await world.until(lambda: propagated(world, "web") == "Rejected")
        assert "(autoscaling/v1 and autoscaling/v2) is asked for twice" in said(world)["message"]
        (found,) = on(world, "m1", "horizontalpodautoscalers").values()
        assert found["spec"]["maxReplicas"] == 3
        world.place("web", m1=2)
        await world.until(lambda: on(world, "m1")["web"]["spec"]["replicas"] == 2)
        assert on(world, "m1", "horizontalpodautoscalers")["scaler"] == found


@pytest.mark.proves("S7", "S1", "R11")
async def test_nothing_reaches_a_member_that_was_not_reviewed_or_that_it_does_not_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World("m1")
    world.hub._objects = {
        path: each
        for path, each in world.hub._objects.items()
        if "admissionregistration" not in path
    }
    async with world.propagating():
        await ready(world)
        world.put(WORKLOADS, workload("web"))
        world.place("web", m1=1)
        await world.until(lambda: propagated(world, "web") == "NotReviewed")
        assert "generation 1 waits for the controller's review" in said(world)["message"]
        await world.calm(10)
        assert not on(world, "m1")
        seen = {"status": {"review": {"generation": 1}}}
        world.hub.edit(WORKLOADS, "web", seen, status=True)
        await world.until(lambda: on(world, "m1"))
        edit(world, targetDeployment=deployment("web", image="evil"))
        await world.until(lambda: propagated(world, "web") == "NotReviewed")
        await world.calm(10)
        assert "evil" not in str(on(world, "m1"))
    monkeypatch.setattr("propagator.share_writer.FIRST_PAUSE", 600.0)
    async with serving("m1") as world:
        namespaces = {"spec": {"namespaces": {"allow": ["team-*"]}}}
        world.hub.edit(MEMBER_CLUSTERS, "m1", namespaces)
        await world.calm(1)
        world.put(WORKLOADS, workload("web"))
        world.place("web", m1=1)
        await world.until(lambda: propagated(world, "web") == "NamespaceNotAllowed")
        assert not on(world, "m1", "configmaps")
        namespaces["spec"]["namespaces"]["allow"] = [SPACE]
        world.hub.edit(MEMBER_CLUSTERS, "m1", namespaces)
        await world.until(lambda: runs(world, "web", m1=1), seconds=10)


async def test_a_lost_race_loses_neither_readiness_nor_what_the_controller_wrote() -> None:
    """The status of a MemberCluster has two writers, and each leaves the other's part as it is."""

    def evacuating(message: str) -> None:
        others = [e for e in world.cluster("m1")["conditions"] if e["type"] != "Evacuating"]
        condition = {"type": "Evacuating", "status": "True", "reason": "Draining"}
        told = {"conditions": [*others, {**condition, "message": message}], "units": 4}
        world.hub.edit(MEMBER_CLUSTERS, "m1", {"status": told}, status=True)

    def part(kind: str, field: str) -> Any:
        return conditions.find(world.cluster("m1"), kind)[field]

    def change(**data: str) -> None:
        given = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
        world.hub.edit(SECRETS, "m1", {"data": given}, namespace=SYSTEM_NAMESPACE)

    async with serving("m1") as world:
        of_hub, asked = world._of_hub, list[str]()

        async def raced(method: str, url: Any, body: Any) -> bytes:
            if url.path.endswith("/memberclusters/m1/status") and "conditions" in body["status"]:
                asked.append(f"race {len(asked) + 1}")
                if len(asked) <= 3:
                    evacuating(asked[-1])
            return await of_hub(method, url, body)

        world._of_hub = raced  # type: ignore[method-assign]
        change(kubeconfig="none")
        await world.until(lambda: not_ready(world) == "InvalidKubeconfig")
        assert part("Stalled", "reason") == "InvalidKubeconfig", "no time heals it"
        assert (part("Evacuating", "status"), part("Evacuating", "message")) == ("True", "race 3")
        assert len(asked) == 4, "each lost race is run again once"
        evacuating("last")
        world.hub.edit(SECRETS, "m1", {"data": {"kubeconfig": None}}, namespace=SYSTEM_NAMESPACE)
        await world.until(lambda: not not_ready(world))
        assert part("Evacuating", "message") == "last"
        assert world.cluster("m1")["units"] == 4


@pytest.mark.proves("CT9")
async def test_a_member_that_its_inventory_calls_unhealthy_is_not_touched() -> None:
    async with serving("m1", "m2", m1=1) as world:
        stored = world.cluster("m1")["conditions"]
        bad = {"type": "InventoryUnhealthy", "status": "True", "reason": "ProfileNotFound"}
        told = {"conditions": [*stored, {**bad, "message": "it is gone"}]}
        world.hub.edit(MEMBER_CLUSTERS, "m1", {"status": told}, status=True)
        await world.until(lambda: not_ready(world) == "InventoryUnhealthy")
        assert conditions.find(world.cluster("m1"), "Ready")["message"] == "m1: it is gone"
        assert conditions.holds(world.cluster("m1"), "Stalled")
        assert world.cluster("m1")["clusterID"]
        before = on(world, "m1")
        world.place("web", m2=1)
        await world.until(lambda: on(world, "m2"))
        world.delete("web")
        await world.until(lambda: not on(world, "m2"))
        await world.calm(10)
        assert on(world, "m1") == before
        well = [e for e in world.cluster("m1")["conditions"] if e["type"] != bad["type"]]
        world.hub.edit(MEMBER_CLUSTERS, "m1", {"status": {"conditions": well}}, status=True)
        await world.until(lambda: not world.hub.all(WORKLOADS))
        assert not on(world, "m1")


@pytest.mark.proves("D1", "S6", "N19")
async def test_a_membercluster_follows_its_secret_and_stays_deleted_until_that_changes() -> None:
    def there() -> bool:
        return any(each["metadata"]["name"] == "m1" for each in world.hub.all(MEMBER_CLUSTERS))

    async with serving("m1", "m2") as world:
        spec = {"spec": {"provider": "aws", "version": "v1.2.3+x"}}
        world.hub.edit(MEMBER_CLUSTERS, "m1", spec)

        def labels() -> Json:
            found: Json = world.hub.read(MEMBER_CLUSTERS, "m1")["metadata"]["labels"]
            return found

        await world.until(lambda: labels()["stowage.dev/provider"] == "aws")
        assert labels()["stowage.dev/version"] == "v1.2.3-x"
        assert world.cluster("m1")["provider"] != "aws"
        world.hub.remove(MEMBER_CLUSTERS, "m1", "")
        await world.calm(30)
        assert not there()
    async with world.propagating():
        await world.calm(30)
        assert not there()
        noted = {"metadata": {"annotations": {"note": "hello"}}}
        world.hub.edit(SECRETS, "m1", noted, namespace=SYSTEM_NAMESPACE)
        await world.calm(10)
        assert not there()
        data = {"token": base64.b64encode(b"another").decode()}
        world.hub.edit(SECRETS, "m1", {"data": data}, namespace=SYSTEM_NAMESPACE)
        await world.until(there)
        await world.until(lambda: not not_ready(world))
        # One that is written by hand may name any Secret.
        way_in = world.hub.read(SECRETS, "m2", SYSTEM_NAMESPACE)
        meta = {"name": "way-in", "namespace": "elsewhere"}
        by_hand = {"secretRef": {"namespace": "elsewhere", "name": "way-in"}}
        world.hub.remove(SECRETS, "m2", SYSTEM_NAMESPACE)
        world.hub.edit(MEMBER_CLUSTERS, "m2", {"spec": by_hand})
        await world.until(lambda: not_ready(world, "m2") == "SecretNotFound")
        world.put(SECRETS, {**way_in, "metadata": meta})
        await world.until(lambda: not not_ready(world, "m2"))


@pytest.mark.proves("N6")
async def test_what_was_not_reported_before_another_one_led_is_told_once_this_one_leads_again() -> (
    None
):
    world = World("m1")
    async with world.propagating() as process:
        await ready(world)
        await start(world, m1=1)

        async def fails(method: str, path: str, _body: Any) -> None:
            if method == "PATCH" and path.endswith("/workloads/web/status"):
                raise Unreachable("no answer in time")

        world.hub.faults.append(fails)
        edit(world, targetDeployment=deployment("web", image="newer"))
        pods = "spec.template.spec.containers"
        await world.until(lambda: value_at(on(world, "m1")["web"], pods)[0]["image"] == "newer")
        world.cut.add("one")
        await world.calm(30)
        assert process.term is None
        lease = world.hub.read(LEASES, "stowage-propagator", SYSTEM_NAMESPACE)
        more = lease["spec"]["leaseTransitions"] + 1
        spec = {"leaseTransitions": more, "holderIdentity": "two", "renewTime": None}
        world.hub.edit(LEASES, "stowage-propagator", {"spec": spec}, namespace=SYSTEM_NAMESPACE)
        world.hub.faults.clear()
        world.cut.clear()
        generation = world.hub.read(WORKLOADS, "web")["metadata"]["generation"]
        await world.until(lambda: share(world, "m1").get("observedGeneration") == generation)
        assert propagated(world, "web") == "Propagated"


@pytest.mark.proves("S6")
async def test_a_session_that_ends_by_a_fault_of_ours_is_not_ready_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World("m1")
    async with world.propagating() as process:
        await ready(world)
        assert process.term is not None
        session = process.term.registry.get("m1")
        assert session is not None
        assert session.link is not None

        async def fault(*_: Any) -> None:
            raise ZeroDivisionError

        with monkeypatch.context() as patched:
            for name in ("until_lost", "_ask"):
                patched.setattr(session.link.probe, name, fault)
            await world.until(lambda: not_ready(world) == "Unreachable")
            assert "its log says how" in conditions.find(world.cluster("m1"), "Ready")["message"]
        await world.until(lambda: session.contact is Contact.SERVING)


@pytest.mark.proves("N3b")
async def test_another_cluster_is_left_alone_until_a_person_confirms() -> None:
    async with serving("m1", m1=1) as world:
        first = world.cluster("m1")["clusterID"]
    world.same["m1"] = "another"
    since = len(world.sent)
    async with world.propagating():
        await world.until(lambda: not_ready(world) == "ClusterChanged")
        told = conditions.find(world.cluster("m1"), "Ready")["message"]
        assert first in told
        assert "uid-of-another" in told
        world.place("web", m1=2)
        await world.calm(10)
        assert not [each for each in world.written(since) if each[0] == "m1"]
        world.hub.edit(MEMBER_CLUSTERS, "m1", {"status": {"clusterID": None}}, status=True)
        await world.until(lambda: runs(world, "web", m1=2))
        assert world.cluster("m1")["clusterID"] == "uid-of-another"


@pytest.mark.proves("N5")
async def test_what_somebodys_finalizer_holds_is_made_again_when_it_is_gone() -> None:
    """And no fight is told, as the removal is our own."""
    async with serving("m1", m1=1) as world:
        member, key = world.members["m1"], (SPACE, "web-conf")
        held = member.objects["configmaps"][key]["metadata"]
        held |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/hold"]}
        member.report("configmaps", key)
        world.place("web", m1=2)
        await world.until(lambda: "example.com/hold" in said(world)["message"])
        assert said(world)["reason"] == "Propagating"
        assert "made again when it is gone" in said(world)["message"]
        await world.calm(20)
        assert member.objects["configmaps"][key]["metadata"]["uid"] == held["uid"]
        member.delete("configmaps", key)
        await world.until(lambda: runs(world, "web", m1=2))
        assert member.objects["configmaps"][key]["metadata"]["uid"] != held["uid"]
        assert propagated(world, "web") == "Propagated"


@pytest.mark.proves("DP2")
async def test_a_workload_that_does_not_follow_has_nothing_of_its_namespace_read() -> None:
    async with serving("m1") as world:
        secret(world, "db")
        body = made("web")
        container = {"name": "main", "image": "pause", "envFrom": [{"secretRef": {"name": "db"}}]}
        body["spec"]["targetDeployment"]["spec"]["template"]["spec"]["containers"] = [container]
        world.put(WORKLOADS, body)
        world.place("web", m1=1)
        await world.until(lambda: runs(world, "web", m1=1))

        def reads() -> list[str]:
            inside = f"/namespaces/{SPACE}/"
            return [p for s, _, p, _, _ in world.sent if s == "hub" and f"{inside}secrets" in p]

        assert not reads()
        assert "dependencies" not in world.status("web")
        edit(world, dependencies="Follow")
        await world.until(lambda: on(world, "m1", "secrets"))
        assert reads(), "and what follows is found by the same means"
        edit(world, dependencies="None")
        await world.until(lambda: not on(world, "m1", "secrets"))


def pod(
    world: World,
    name: str,
    ready: str = "True",
    of: str = "web",
    by: Json | None = None,
    **status: Any,
) -> None:
    """A pod of that Workload on m1, as the member's own controllers make it and tell of it.

    `by` is its controller, else the ReplicaSet of a Deployment.
    """
    uid = world.hub.read(WORKLOADS, of)["metadata"]["uid"]
    by = by or {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{of}-5d7f", "uid": "r"}
    meta: Json = {"name": name, "namespace": SPACE, "ownerReferences": [{**by, "controller": True}]}
    meta["labels"] = {"pod-template-hash": "5d7f", LABEL_WORKLOAD_UID: uid}
    says = {"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:05:00Z"}
    told = {"startTime": "2026-01-01T00:00:00Z", "conditions": [says], **status}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "status": told}
    spec = {"nodeName": "n1", "containers": [{"name": "main"}]}
    world.members["m1"].apply("pods", (SPACE, name), {**body, "spec": spec})


def cost(world: World, name: str, **costs: int) -> None:
    """Say how many replicas on m1 have each of these costs, as c200=1."""
    some = [{"cost": int(c[1:]), "replicas": n} for c, n in costs.items()]
    entry = {"name": "normal", "clusters": [{"name": "m1", "deletionCosts": some}]}
    given = {"status": {"overrides": [entry] if some else []}}
    world.hub.edit(WORKLOADS, name, given, status=True)


def costs(world: World) -> dict[str, tuple[str | None, bool]]:
    """What each pod on m1 costs, and whether it has the mark."""
    found = {}
    for name, body in on(world, "m1", "pods").items():
        notes = body["metadata"].get("annotations", {})
        found[name] = notes.get(POD_DELETION_COST), ANNOTATION_DELETION_COST in notes
    return found


@pytest.mark.proves("N8")
async def test_a_gang_that_runs_stays_while_the_watch_of_groups_is_behind() -> None:
    async with serving("m1") as world:
        kind = {"apiVersion": WORKLOAD_GROUPS.api_version, "kind": WORKLOAD_GROUPS.kind}
        meta = {"name": "batch", "namespace": SPACE}
        world.put(WORKLOAD_GROUPS, {**kind, "metadata": meta, "spec": {"minMember": 1}})
        body = workload("web")
        body["metadata"]["labels"] = {LABEL_GROUP: "batch"}
        world.put(WORKLOADS, body)
        world.place("web", m1=1)
        group(world, "Open", "web")
        await world.until(lambda: runs(world, "web", m1=1))
        release = world.hub.hold(WORKLOAD_GROUPS)
        group(world, "Open", "web", quorumTime=QUORUM)
        world.place("web")
        await world.calm(20)
        assert [*on(world, "m1")] == ["web"], "it is not taken back, as it has run"
        release()
        await world.calm(5)
        assert [*on(world, "m1")] == ["web"]


@pytest.mark.proves("N8", "A8")
@pytest.mark.parametrize("gate", ["Closed", None])
async def test_what_ran_before_a_gang_stays_on_a_cluster_that_is_renamed(gate: str | None) -> None:
    """The group notes it by the former name, and so do the placements for a while."""
    async with serving("m1") as world:
        world.put(WORKLOADS, workload("web"))
        world.place("web", m1=2)
        world.hub.edit(WORKLOADS, "web", {"status": {"observed": {"controller": 1}}}, status=True)
        await world.until(lambda: runs(world, "web", m1=2))
        (before,) = world.deployments("m1")
        kind = {"apiVersion": WORKLOAD_GROUPS.api_version, "kind": WORKLOAD_GROUPS.kind}
        meta = {"name": "batch", "namespace": SPACE}
        world.put(WORKLOAD_GROUPS, {**kind, "metadata": meta, "spec": {"minMember": 3}})
        retained = {world.hub.read(WORKLOADS, "web")["metadata"]["uid"]: {"m1": 2}}
        group(world, gate, "web", retained=retained)
        await world.calm(3)
        world.hub.edit(WORKLOADS, "web", {"metadata": {"labels": {LABEL_GROUP: "batch"}}})
        await world.calm(3)
        plan = Rename(old="m1", new="rome", namespace=SYSTEM_NAMESPACE)
        renaming = asyncio.create_task(rename(cast("Any", world.hub), plan, say=lambda _: None))
        for step in range(300):
            await world.calm(0.1)
            await asyncio.sleep(0.005)  # the command waits by the clock of its machine
            there = [each["metadata"]["name"] for each in world.hub.all(MEMBER_CLUSTERS)]
            if step > 60 and there == ["rome"]:
                world.place("web", rome=2)
            if renaming.done():
                break
        await renaming
        await world.until(lambda: runs(world, "web", rome=2))
        await world.calm(10)
        (after,) = world.deployments("m1")
        assert after["metadata"]["uid"] == before["metadata"]["uid"]


@pytest.mark.proves("W14", "G24")
async def test_costs_are_taken_away_later_not_fought_over_and_not_of_a_held_decision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deletion_costs, "FIRST_POD_PAUSE", 30.0)
    async with serving("m1") as world:
        for name in ("web", "api"):
            body = workload(name)
            if name == "api":
                body["metadata"]["labels"] = {LABEL_GROUP: "batch"}
            world.put(WORKLOADS, body)
            world.place(name, m1=1)
        kind = {"apiVersion": WORKLOAD_GROUPS.api_version, "kind": WORKLOAD_GROUPS.kind}
        meta = {"name": "batch", "namespace": SPACE}
        world.put(WORKLOAD_GROUPS, {**kind, "metadata": meta, "spec": {"minMember": 1}})
        pod(world, "a")
        pod(world, "b", of="api")
        cost(world, "api", c200=1)
        await world.until(lambda: "quorum" in said(world, name="api")["message"])
        cost(world, "web", c200=1)
        await world.until(lambda: costs(world)["a"] == ("200", True))
        await world.calm(10)
        assert costs(world)["b"] == (None, False)
        group(world, "Open", "api")
        await world.until(lambda: costs(world)["b"] == ("200", True))

        def spoil() -> int:
            theirs: Json = {"annotations": {POD_DELETION_COST: "7"}}
            world.members["m1"].apply("pods", (SPACE, "a"), {"metadata": theirs})
            return len(world.sent)

        spoil()
        await world.until(lambda: costs(world)["a"][0] == "200")
        since = spoil()
        await world.calm(10)
        assert not sent(world, since, "m1")["PATCH pods/a"], "they win for a while"
        await world.until(lambda: costs(world)["a"][0] == "200")
    cost(world, "web")
    async with world.propagating():
        await world.until(lambda: costs(world)["a"] == (None, False))


@pytest.mark.proves("W14")
async def test_costs_stay_while_the_status_that_gives_them_cannot_be_read() -> None:
    async with serving("m1", m1=1) as world:
        pod(world, "a")
        cost(world, "web", c200=1)
        await world.until(lambda: costs(world)["a"] == ("200", True))
        spoilt = [{"clusters": [{"name": "m1", "deletionCosts": "many"}]}]
        world.hub.edit(WORKLOADS, "web", {"status": {"overrides": spoilt}}, status=True)
        await world.until(lambda: "cannot be read" in said(world)["message"])
        await world.calm(10)
        assert costs(world)["a"] == ("200", True)
        cost(world, "web")
        await world.until(lambda: costs(world)["a"] == (None, False))


@pytest.mark.proves("W14")
async def test_a_member_that_lets_nobody_patch_its_pods_is_asked_once_and_runs_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World("m1")
    attempt = world._attempt

    async def forbids(client: Any, call: Any, token: Any) -> bytes:
        answer = await attempt(client, call, token)
        if call.method == "PATCH" and "/pods/" in call.url.path:
            raise Forbidden(code=403, reason="Forbidden", message="no")
        return answer

    world._attempt = forbids  # type: ignore[method-assign]
    async with world.propagating():
        await ready(world)
        world.put(WORKLOADS, workload("web"))
        world.place("web", m1=3)
        for name in "abc":
            pod(world, name)
        await world.until(lambda: runs(world, "web", m1=3))
        since = len(world.sent)
        cost(world, "web", c200=3)
        await world.calm(10)
        asked = [each for each in world.written(since) if "/pods/" in each[1]]
        cost(world, "web", c100=3)
        await world.calm(10)
        assert [each for each in world.written(since) if "/pods/" in each[1]] == asked
        assert caplog.text.count("deletion costs are not written") == 1
        assert propagated(world, "web") == "Propagated"


@pytest.mark.proves("KD71", "KD72")
async def test_a_pod_that_crashes_is_told_and_a_new_process_counts_on() -> None:
    async with serving("m1") as world:
        world.put(WORKLOADS, made("web", movement={"unhealthySeconds": 600}))
        world.place("web", m1=1)
        pod(world, "a")
        await world.until(lambda: share(world, "m1").get("health") == "Healthy")
        await world.until(lambda: "failover" in share(world, "m1"))
        waits = {"waiting": {"reason": "CrashLoopBackOff"}}
        pod(world, "a", "False", containerStatuses=[{"name": "main", "state": waits}])
        await world.until(lambda: share(world, "m1")["health"] == "Degraded", seconds=90)
        told = share(world, "m1")["failover"]
        assert told["since"]
    async with world.propagating():
        await ready(world)
        await world.calm(5)
        assert share(world, "m1")["health"] == "Degraded"
        assert share(world, "m1")["failover"] == told
        pod(world, "a")
        await world.until(lambda: "since" not in share(world, "m1")["failover"])


@pytest.mark.proves("A1", "KD29")
@pytest.mark.parametrize("restarted", [False, True])
async def test_a_pod_that_goes_after_its_job_is_counted_no_more(*, restarted: bool) -> None:
    """Its controller removes a Job before the pods that it made."""

    def scheduled() -> int:
        return int(share(world, "m1")["scheduled"])

    async with serving("m1") as world:
        world.put(WORKLOADS, {**workload("web"), "spec": {"replicas": 1, "template": job("web")}})
        world.place("web", m1=1)
        await world.until(lambda: on(world, "m1", "jobs"))
        pod(world, "a", by={"apiVersion": "batch/v1", "kind": "Job", "name": "web", "uid": "j"})
        await world.until(lambda: scheduled() == 1)
        over = [{"type": "Complete", "status": "True"}]
        world.members["m1"].report("jobs", (SPACE, "web"), succeeded=1, conditions=over)
        await world.until(lambda: "ended" in share(world, "m1"))
        world.members["m1"].delete("jobs", (SPACE, "web"))
        await world.calm(5)
        assert scheduled() == 1
        if not restarted:
            world.members["m1"].delete("pods", (SPACE, "a"))
            await world.until(lambda: scheduled() == 0)
            return
    async with world.propagating():
        await ready(world)
        await world.calm(5)
        assert scheduled() == 1
        world.members["m1"].delete("pods", (SPACE, "a"))
        await world.until(lambda: scheduled() == 0)


def mounting(image: str, name: str) -> Json:
    """A Deployment of that image which needs a ConfigMap of that name."""
    body = deployment("web", image=image)
    pods = body["spec"]["template"]["spec"]
    pods["volumes"] = [{"name": "settings", "configMap": {"name": name}}]
    return body


def digest(world: World, *, keep: bool = False) -> str:
    """The revision of the Workload as it is now, which the hub keeps if that is asked for."""
    data = revision_data(world.hub.read(WORKLOADS, "web")["spec"])
    meta = {"name": revision_name("web", digest_of(data)), "namespace": SPACE}
    kind = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1}
    if keep:
        world.put(CONTROLLER_REVISIONS, {**kind, "metadata": meta, "data": {"spec": data}})
    return digest_of(data)


def say(world: World, revision: str, **exceptions: str) -> None:
    """Say what is rolled out; `exceptions`: the revision of each cluster that has another."""
    named = [{"revision": other, "clusters": [name]} for name, other in exceptions.items()]
    rollout = {"phase": "Progressing", "revision": revision}
    status = {"rollout": rollout, "revisions": named}
    world.hub.edit(WORKLOADS, "web", {"status": status}, status=True)


def images(world: World) -> dict[str, str]:
    """What each member runs."""
    found = {name: on(world, name)["web"]["spec"]["template"]["spec"] for name in world.members}
    return {name: spec["containers"][0]["image"] for name, spec in found.items()}


@pytest.mark.proves("T1", "T2", "T6", "T21", "T23", "X1", "DP6")
async def test_a_held_member_keeps_its_revision_whatever_happens_to_it() -> None:
    async with serving("m1", "m2") as world:
        for name in ("old", "new"):
            world.put(CONFIG_MAPS, configmap(name))
        waves = [{"name": "a", "clusterSelector": {"matchLabels": {"tier": "canary"}}}]
        first = {"targetDeployment": mounting("one", "old"), "manifests": [configmap("set")]}
        more = {"rollout": {"waves": waves}, "dependencies": "Follow", "replicas": 2}
        world.put(WORKLOADS, made("web", **first, **more))
        one = digest(world, keep=True)
        say(world, one)
        world.place("web", m1=1, m2=1)
        await world.until(lambda: runs(world, "web", m1=1, m2=1))
        edit(world, replicas=4, targetDeployment=mounting("two", "new"), manifests=[])
        world.place("web", m1=1, m2=3)
        await world.until(lambda: runs(world, "web", m1=1, m2=3))
        assert images(world) == {"m1": "one", "m2": "one"}, "nothing is said of it yet"
        two = digest(world)
        say(world, two, m2=one)
        await world.until(lambda: share(world, "m1").get("revision") == two)
        await world.until(lambda: set(on(world, "m1", "configmaps")) == {"new"})
        assert set(on(world, "m2", "configmaps")) == {"old", "set"}
        assert share(world, "m2")["revision"] == one
        world.members["m2"].delete("configmaps", (SPACE, "set"))
        await world.until(lambda: "set" in on(world, "m2", "configmaps"))
        assert images(world) == {"m1": "two", "m2": "one"}
        await world.calm(10)
    since = len(world.sent)
    async with world.propagating():
        await ready(world)
        await world.calm(10)
        assert not [each for each in world.written(since) if each[0] == "m2"]
    world.hub.edit(
        CONTROLLER_REVISIONS,
        revision_name("web", one),
        {"data": {"spec": {"targetDeployment": mounting("evil", "old")}}},
    )
    async with world.propagating():
        await world.until(lambda: propagated(world, "web") == "RevisionLost")
        assert revision_name("web", one) in said(world)["message"]
        await world.calm(10)
        assert not [each for each in world.written(since) if each[0] == "m2"]
        say(world, two)
        await world.until(lambda: images(world) == {"m1": "two", "m2": "two"})
        await world.until(lambda: set(on(world, "m2", "configmaps")) == {"new"})
        await world.until(lambda: propagated(world, "web") == "Propagated")


@pytest.mark.proves("KD29", "A8")
@pytest.mark.parametrize("distribution", ["Duplicated", "Divided", "Single"])
async def test_a_job_that_has_ended_runs_no_second_time_on_a_cluster_that_is_renamed(
    distribution: str,
) -> None:
    """Its object has gone, so the status alone knows of its end, by the former name."""
    async with serving("m1", "m2") as world:
        body = made("bill", template=job(completions=1), distribution=distribution)
        del body["spec"]["targetDeployment"]
        world.put(WORKLOADS, body)
        counts = dict.fromkeys(("scheduled", "current", "ready", "unschedulable", "updated"), 0)
        ended = {"result": "Succeeded", "time": QUORUM}
        of_m1 = {"name": "m1", "replicas": 1, **counts, "state": "Complete", "message": ""}
        shares = [{"cluster": "m1", "replicas": 1, "completions": 1}]
        status: Json = {"placements": shares, "clusters": [of_m1 | {"ended": ended}]}
        status["observed"] = {"controller": 1}
        world.hub.edit(WORKLOADS, "bill", {"status": status}, status=True)
        await world.calm(5)
        assert not on(world, "m1", "jobs")
        found = world.hub.read(MEMBER_CLUSTERS, "m1")
        secret = world.hub.read(SECRETS, "m1", SYSTEM_NAMESPACE)
        secret["metadata"] |= {"name": "rome"}
        spec = {**found["spec"], "formerNames": ["m1"]}
        spec["secretRef"] = {"namespace": SYSTEM_NAMESPACE, "name": "rome"}
        world.put(MEMBER_CLUSTERS, {**found, "metadata": {"name": "rome"}, "spec": spec})
        world.put(SECRETS, secret)
        world.hub.remove(SECRETS, "m1", SYSTEM_NAMESPACE)
        world.hub.remove(MEMBER_CLUSTERS, "m1")
        await world.until(lambda: conditions.holds(world.cluster("rome"), "Ready"))
        await world.calm(5)
        renamed = [each | {"cluster": "rome"} for each in shares]
        world.hub.edit(WORKLOADS, "bill", {"status": {"placements": renamed}}, status=True)
        await world.calm(10)
        assert not on(world, "m1", "jobs")
        (told,) = world.status("bill")["clusters"]
        assert (told["name"], told["ended"]["result"]) == ("rome", "Succeeded")


@pytest.mark.proves("R5", "N2")
async def test_a_busy_member_that_lists_late_after_a_start_is_told_only_if_it_lasts() -> None:
    world, late = World("m1"), {"seconds": 0.0}
    attempt = world._attempt

    async def lists_late(client: Any, call: Any, token: Any) -> bytes:
        if call.method == "GET" and call.url.path.endswith("/deployments"):
            await world.clock.sleep(late["seconds"])
        return await attempt(client, call, token)

    world._attempt = lists_late  # type: ignore[method-assign]
    async with world.propagating():
        await ready(world)
        await start(world, m1=2)
        await world.calm(3)
    for late["seconds"], told in ((15.0, False), (95.0, True)):
        before, since = world.status("web"), len(world.sent)
        async with world.propagating():
            await world.calm(late["seconds"] - 3)
            wrote = ("hub", WORKLOADS.path(SPACE, "web", "status")) in world.written(since)
            assert wrote == told
            entry = share(world, "m1")
            assert (entry["ready"], entry["state"] == "Unreachable") == (2, told)
            await world.until(lambda: runs(world, "web", m1=2))
            await world.calm(3)
        assert (world.status("web") == before) != told


def budget(world: World, *apps: str, allowed: int) -> None:
    """A budget on m1 over the pods of these Workloads, which allows so many to go."""
    among = {"key": "app", "operator": "In", "values": [*apps]}
    body = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "all"},
        "spec": {"selector": {"matchExpressions": [among]}},
        "status": {"disruptionsAllowed": allowed, "observedGeneration": 1},
    }
    world.members["m1"].apply("poddisruptionbudgets", (SPACE, "all"), body)


def drained(world: World, name: str, replicas: int, **shares: int) -> None:
    """The Workload leaves m1 for these, which are ready."""
    since = {"since": "2026-01-01T00:00:00Z", "cause": "Drained"}
    leaving = [{"cluster": "m1", "replicas": replicas, "replaced": replicas, **since}]
    placements = [{"cluster": c, "replicas": n} for c, n in shares.items()]
    status = {"leaving": leaving if replicas else [], "placements": placements}
    world.hub.edit(WORKLOADS, name, {"status": status}, status=True)


@pytest.mark.proves("M23", "M28")
async def test_a_step_that_is_taken_back_leaves_the_budget_to_others() -> None:
    def asked(name: str) -> int:
        return int(on(world, "m1")[name]["spec"]["replicas"])

    async with serving("m1", "m2") as world:
        budget(world, "web", "api", allowed=1)
        for name in ("web", "api"):
            await start(world, name, m1=2)
            for number in range(2):
                pod(world, f"{name}-{number}", of=name)
        drained(world, "web", 2, m2=2)
        await world.until(lambda: asked("web") == 1)
        drained(world, "web", 0, m1=2)
        await world.until(lambda: asked("web") == 2)
        await world.calm(30)
        drained(world, "api", 2, m2=2)
        await world.until(lambda: asked("api") == 1)
        budget(world, "web", "api", allowed=0)
        await world.calm(5)
        drained(world, "web", 2, m2=2)
        await world.calm(10)
        assert asked("web") == 2, "what went before came back, and no more may go"


@pytest.mark.proves("A4", "KD44")
async def test_a_divided_statefulset_that_was_edited_before_its_kinds_were_noted_gets_ordinals() -> (
    None
):
    world = World("m1", "m2")
    world.put(WORKLOADS, statefulset("db"))
    world.hub.edit(
        WORKLOADS, "db", {"spec": {"template": statefulset("db", "other")["spec"]["template"]}}
    )
    starts_at = [{"cluster": "m1", "start": 0}, {"cluster": "m2", "start": 1000}]
    noted = {"ordinals": starts_at, "footprint": {"clusters": "m1,m2"}}
    world.hub.edit(WORKLOADS, "db", {"status": noted}, status=True)
    world.place("db", m1=1, m2=1)
    async with world.propagating():
        await world.until(lambda: len(starts(world, "db")) == 2)
        assert starts(world, "db") == {"m1": (0, "other"), "m2": (1000, "other")}
