"""A hub that was restored from a backup, or set back: what members have that is younger stays."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crds.names import (
    ANNOTATION_HUB,
    ANNOTATION_HUB_VERSION,
    ANNOTATION_RESTORED,
    ANNOTATION_SINCE,
    OWNER_PREFIX,
    RESTORED,
    SYSTEM_NAMESPACE,
)
from crds.restored import RestoredMark
from machinery.api.resources import CONFIG_MAPS, MEMBER_CLUSTERS, NAMESPACES, SECRETS, WORKLOADS
from machinery.types import conditions
from propagator.members.hub_lease import HELD_SECONDS
from stowage.setup import restore as restoring
from stowage.setup.backup import Backup
from tests.propagator.memory import SPACE, World, _true
from tests.propagator.pulling import PullWorld
from tests.propagator.stage import deployment
from tests.propagator.test_one_shard import propagated, ready, runs, start, workload

FORMER = "the-former-hub"


def on(world: World, name: str = "web", member: str = "m1") -> dict[str, Any]:
    return world.members[member].objects["deployments"][SPACE, name]


def image(world: World, name: str = "web", member: str = "m1") -> str:
    (container,) = on(world, name, member)["spec"]["template"]["spec"]["containers"]
    return str(container["image"])


def edit(world: World, name: str, **spec: Any) -> None:
    world.hub.edit(WORKLOADS, name, {"spec": spec})


def held(world: World) -> str:
    """The reason of SweepHeld."""
    return str(conditions.find(world.cluster("m1"), "SweepHeld").get("reason", ""))


async def placed(world: World, *names: str) -> None:
    for name in names:
        world.put(WORKLOADS, workload(name))
        world.place(name, m1=2)
        await world.until(lambda name=name: runs(world, name, m1=2))
    await world.calm(2)


async def backed_up(world: World, folder: Path) -> Path:
    file = io.BytesIO()
    await Backup(world.hub, file, home=SYSTEM_NAMESPACE, secrets=True).write()  # type: ignore[arg-type] # it only reads
    path = folder / "backup.json"
    path.write_bytes(file.getvalue())
    return path


async def restored(world: World, file: Path) -> restoring.Restore:
    found = restoring.content(file)
    one = restoring.Restore(world.hub, found, SYSTEM_NAMESPACE, lambda _: None)  # type: ignore[arg-type] # as above
    await one.run()
    return one


def emptied(world: World) -> None:
    """The hub without any object of ours."""
    for res in (WORKLOADS, MEMBER_CLUSTERS):
        for each in world.hub.all(res):
            namespace = each["metadata"].get("namespace")
            world.hub._delete(res.path(namespace, each["metadata"]["name"]))
    for name in world.members:
        world.hub._delete(SECRETS.path(SYSTEM_NAMESPACE, name))


def another_cluster(world: World) -> None:
    """As if another hub had written all that members have, and led them."""
    for member in world.members.values():
        for kind, objects in member.objects.items():
            for each in objects.values():
                if ANNOTATION_HUB in (notes := each["metadata"].get("annotations") or {}):
                    notes[ANNOTATION_HUB] = FORMER
                if kind == "leases":
                    old = each["spec"]["holderIdentity"].partition(" ")[2]
                    each["spec"]["holderIdentity"] = f"{FORMER} {old}"


def of_former(file: Path) -> Path:
    """The same backup, of that other hub."""
    lines = file.read_bytes().splitlines()
    note = json.loads(lines[-2])
    note["data"]["hub"] = FORMER
    lines[-2] = json.dumps(note).encode()
    file.write_bytes(b"\n".join(lines) + b"\n")
    return file


def bare(found: dict[str, Any]) -> dict[str, Any]:
    """What runs there, and which object it is."""
    return {"spec": found["spec"], "uid": found["metadata"]["uid"]}


def shares(world: World) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in world.status("web")["clusters"]}


def accept(world: World, name: str) -> None:
    """As `stowage restore --accept` does."""
    mark = RestoredMark.of(world.hub.read(WORKLOADS, name)["metadata"]["annotations"])
    assert mark.restore, "the command finds nothing to accept"
    noted = {ANNOTATION_RESTORED: str(RestoredMark.accepted(mark.restore))}
    world.hub.edit(WORKLOADS, name, {"metadata": {"annotations": noted}})


async def once_free(world: World, holds: Callable[[], bool]) -> None:
    """Let the time pass in which the Lease on the member has to stand still, and a little more."""
    end = world.clock.monotonic() + HELD_SECONDS + 60
    while world.clock.monotonic() < end and not _true(holds):
        world.hub.bookmark()
        for member in world.members.values():
            for plural in list(member.watchers):
                member.tell(plural, "BOOKMARK", {"metadata": {"resourceVersion": "0"}})
        await world.clock.advance(1.0)  # a term is renewed every two
    await world.until(holds)


@pytest.mark.proves("PK29", "PK31")
async def test_a_hub_that_is_restored_takes_all_up_and_changes_nothing_but_marks(
    tmp_path: Path, steady: None
) -> None:
    world = World("m1")
    async with world.propagating():
        await ready(world)
        await placed(world, "web")
        file = await backed_up(world, tmp_path)
        before = world.status("web"), world.cluster("m1")
        await placed(world, "later")
    web, later = bare(on(world)), bare(on(world, "later"))
    old = world.hub.read(WORKLOADS, "web")["metadata"]["uid"]
    emptied(world)
    one = await restored(world, file)
    assert world.hub.read(CONFIG_MAPS, RESTORED, SYSTEM_NAMESPACE)["data"]["state"] == "restored"
    assert world.cluster("m1")["clusterID"] == before[1]["clusterID"]
    assert world.status("web")["placements"] == before[0]["placements"]
    for _ in range(2):  # over a restart as well
        async with world.propagating():
            await once_free(world, lambda: held(world) == "HubRestored")
            await world.until(lambda: runs(world, "web", m1=2))
            await world.calm(3)
    assert propagated(world, "web") == "Propagated"
    assert bare(on(world)) == web
    assert bare(on(world, "later")) == later, "what was made after the backup runs on"
    marks = on(world)["metadata"]["annotations"]
    new = world.hub.read(WORKLOADS, "web")["metadata"]["uid"]
    assert OWNER_PREFIX + new in marks
    assert OWNER_PREFIX + old not in marks
    assert one.name in marks["stowage.dev/written-since"]


@pytest.mark.proves("PK30", "PK32")
async def test_another_cluster_takes_over_when_the_former_hub_is_silent_and_sets_nothing_back(
    tmp_path: Path, steady: None
) -> None:
    world = World("m1")
    async with world.propagating():
        await ready(world)
        await placed(world, "web", "other")
        file = await backed_up(world, tmp_path)
        for name in ("web", "other"):
            edit(world, name, targetDeployment=deployment(name, image="newer"))
        await world.until(lambda: image(world) == image(world, "other") == "newer")
    emptied(world)
    another_cluster(world)
    web = bare(on(world))
    sent = len(world.sent)
    await restored(world, of_former(file))
    async with world.propagating():

        def refused() -> str:
            return str(conditions.find(world.cluster("m1"), "Ready").get("reason"))

        await world.until(lambda: refused() == "HeldByAnotherHub")
        writes = [each for each in world.sent[sent:] if each[0] == "m1" and each[1] != "GET"]
        assert {each[1] for each in writes} <= {"WATCH"}
        await once_free(world, lambda: propagated(world, "web") == "HubRestored")
        told = conditions.find(world.status("web"), "Propagated")["message"]
        assert "image (pause here, newer there)" in told
        assert "stowage restore --accept wl/web -n shop" in told
        assert bare(on(world)) == web
        new = world.hub.read(WORKLOADS, "web")["metadata"]["uid"]
        assert OWNER_PREFIX + new in on(world)["metadata"]["annotations"]
        (share,) = world.status("web")["clusters"]
        assert share["ready"] == 2, "what runs is seen"
        await restoring.accept(world.hub, ["web"], SPACE, say=lambda _: None)  # type: ignore[arg-type] # as above
        await world.until(lambda: image(world) == "pause")
        await world.until(lambda: propagated(world, "web") == "Propagated")
        assert image(world, "other") == "newer"
        assert propagated(world, "other") == "HubRestored"
        edit(world, "other", targetDeployment=deployment("other", image="newest"))
        await world.until(lambda: image(world, "other") == "newest")


@pytest.mark.proves("PK33")
@pytest.mark.parametrize("bump", [0, 1_000_000], ids=["as it was", "bumped"])
async def test_a_hub_whose_store_was_set_back_sets_nothing_back(bump: int, steady: None) -> None:
    world = World("m1")
    async with world.propagating():
        await ready(world)
        await placed(world, "web", "idle")
        snapshot = world.hub.snapshot()
        edit(world, "web", targetDeployment=deployment("web", image="newer"))
        await world.until(lambda: image(world) == "newer")
        await placed(world, "later")
        await world.calm(60)
    later, sent = bare(on(world, "later")), on(world)["metadata"]["annotations"]
    world.hub.set_back(snapshot, bump)
    for _ in range(2):  # over a restart as well
        async with world.propagating():
            await once_free(world, lambda: propagated(world, "web") == "HubRestored")
            await world.until(lambda: held(world) == "HubWentBack")
            await world.calm(3)
        assert image(world) == "newer"
        assert on(world)["metadata"]["annotations"] == sent
        assert bare(on(world, "later")) == later
        idle = world.hub.read(WORKLOADS, "idle")["metadata"]
        assert ANNOTATION_RESTORED not in idle["annotations"], "nothing there is younger"
    mark = world.hub.read(WORKLOADS, "web")["metadata"]["annotations"][ANNOTATION_RESTORED]
    assert mark.endswith("/1")
    async with world.propagating():
        await ready(world)
        edit(world, "web", targetDeployment=deployment("web", image="newest"))
        await world.until(lambda: image(world) == "newest")
        assert ANNOTATION_HUB_VERSION in on(world)["metadata"]["annotations"]
        assert world.hub.read(NAMESPACES, "kube-system")
    assert bare(on(world, "later")) == later


@pytest.mark.proves("PK33")
async def test_a_former_object_that_is_younger_says_that_an_edit_decides(steady: None) -> None:
    """What runs at most once waits for it."""
    world = World("m1")
    once = workload("web")
    once["spec"]["movement"] = {"maxSurge": 0}
    async with world.propagating():
        await ready(world)
        world.put(WORKLOADS, once)
        world.place("web", m1=2)
        await world.until(lambda: runs(world, "web", m1=2))
        snapshot = world.hub.snapshot()
        edit(world, "web", targetDeployment=deployment("web-2"))
        await world.until(lambda: on(world, "web-2")["spec"]["replicas"] == 2)
        world.place("web", m1=0)
        await world.until(lambda: on(world, "web-2")["spec"]["replicas"] == 0)
        await world.calm(60)
    world.hub.set_back(snapshot)
    async with world.propagating():
        await once_free(world, lambda: propagated(world, "web") == "HubRestored")
        said = conditions.find(world.status("web"), "Propagated")["message"]
        assert "Deployment shop/web-2 stays for now" in said
        assert "an edit of the Workload decides" in said
        edit(world, "web", targetDeployment=deployment("web", image="newest"))
        await world.until(lambda: image(world) == "newest")
    assert (SPACE, "web-2") not in world.members["m1"].objects["deployments"]


@pytest.mark.proves("PK33")
async def test_what_has_moved_to_a_pulled_member_leaves_it_once_the_place_of_before_runs(
    steady: None,
) -> None:
    """No Assignment of it is left; the agent told of it while nothing could stand in for it."""
    world = PullWorld("m1")
    async with world.propagating(), world.agent():
        await ready(world)
        await placed(world, "web")
        snapshot = world.hub.snapshot()
        world.place("web", paris=2)
        await world.until(lambda: runs(world, "web", paris=2))
        await world.calm(60)
    world.hub.set_back(snapshot)
    async with world.propagating(), world.agent():
        await once_free(world, lambda: "paris" in shares(world))
        left = shares(world)["paris"]
        assert (left["state"], left["ready"]) == ("Leaving", 2)
        least: list[int] = []

        def has_left() -> bool:
            found = [*world.deployments("m1"), *world.deployments("paris")]
            least.append(sum(each["status"]["readyReplicas"] for each in found))
            return not world.deployments("paris")

        await once_free(world, has_left)
        assert min(least) == 2
        await world.until(lambda: runs(world, "web", m1=2))


@pytest.mark.proves("PK33", "PL12")
@pytest.mark.parametrize("accepted", [False, True], ids=["an edit", "stowage restore --accept"])
async def test_what_is_younger_on_a_pulled_member_leaves_it_after_an_edit_alone(
    accepted: bool, steady: None
) -> None:
    """What its agent had seen before the hub was set back is no edit since."""
    world = PullWorld(pulled=("paris", "rome"))

    def told() -> tuple[str, str]:
        share = shares(world).get("paris", {})
        return share.get("state", ""), share.get("reason", "")

    def ordered() -> str:
        found = world.assignment(world.hub.read(WORKLOADS, "web")["metadata"]["uid"])
        return str(found and found["spec"]["order"])

    async with world.propagating(), world.agent(), world.agent("rome", "agent-2"):
        await ready(world)
        await start(world, paris=2)
        edit(world, "web", targetDeployment=deployment("web", image="new"))
        await world.until(lambda: image(world, member="paris") == "new")
        world.cut.add("agent-1")
        world.place("web", rome=2)
        await world.until(lambda: ordered() == "Remove")
        snapshot = world.hub.snapshot()
        world.place("web", paris=2)
        world.hub._version += 1_000_000
        edit(world, "web", targetDeployment=deployment("web", image="newer"))
        await world.until(lambda: ordered() == "Apply")
        world.cut.clear()
        await world.until(lambda: image(world, member="paris") == "newer")
        world.hub.set_back(snapshot)
        await world.until(lambda: told() == ("Leaving", "HubRestored"), seconds=120)
        await world.calm(30, step=0.5)
        assert image(world, member="paris") == "newer"
        if accepted:
            accept(world, "web")
        else:
            edit(world, "web", targetDeployment=deployment("web", image="newest"))
        await world.until(lambda: not world.deployments("paris"))
        await world.until(lambda: runs(world, "web", rome=2))


@pytest.mark.proves("PK33", "PL31")
async def test_an_order_stands_as_it_is_when_another_process_begins_after_a_set_back(
    steady: None,
) -> None:
    """What is written names the set-back, which no member in mode Pull can tell."""
    world = PullWorld()

    def order() -> str:
        found = world.assignment(uid)
        assert found is not None
        return str(found["metadata"]["resourceVersion"])

    async with world.agent():
        async with world.propagating():
            await ready(world)
            world.put(WORKLOADS, workload("web"))
            uid = world.hub.read(WORKLOADS, "web")["metadata"]["uid"]
            world.place("web", paris=2)
            await world.until(lambda: runs(world, "web", paris=2))
            snapshot = world.hub.snapshot()
            await world.calm(3)
            world.hub.set_back(snapshot)
            await world.calm(10)
            edit(world, "web", targetDeployment=deployment("web", image="newer"))
            await world.until(lambda: ANNOTATION_SINCE in str(world.bundle(uid)))
            await world.until(lambda: image(world, member="paris") == "newer")
            await world.calm(30, step=0.5)
        before = order()
        async with world.propagating("two"):
            await world.until(lambda: conditions.holds(world.cluster("paris"), "Ready"))
            await world.calm(60, step=0.5)
            assert order() == before
