"""A cluster that has another name: what names the old one is read by the new one, and written so."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.cache.asread import Renames
from controller.eventhandlers import SchedulerCache as Cache
from controller.eventhandlers import known
from controller.model.objects import MemberCluster, Workload
from machinery.tasks import SLICE, end
from tests.controller.features.workloadpolicy.test_live import ZONE
from tests.letting_go import let_go

from .live import World, deciding, placements, policy
from .make import cluster, workload

LABEL = "stowage.dev/workload-policy"


def renamed(name: str, *former: str, created: str = "") -> MemberCluster:
    found = cluster(name)
    meta = msgspec.structs.replace(found.metadata, creation_timestamp=created)
    spec = msgspec.structs.replace(found.spec, former_names=list(former))
    return msgspec.structs.replace(found, metadata=meta, spec=spec)


def placed(**shares: int) -> Workload:
    fresh = workload(replicas=sum(shares.values()), distribution="Divided")
    listed = [{"cluster": name, "replicas": units} for name, units in shares.items()]
    status = msgspec.convert(
        {"placements": listed, "clusters": [{"name": name} for name in shares]},
        type(fresh.status),
    )
    return known(msgspec.structs.replace(fresh, status=status))


@pytest.mark.proves("N3")
class TestRenames:
    def test_a_name_is_another_clusters_once_nobody_has_it(self) -> None:
        names, found = Renames(), placed(a=3, b=1)
        assert names.saw(None, cluster("a")) == set()
        assert names.saw(None, renamed("new", "a")) == set()
        assert names.of(found) is found
        assert names.saw(cluster("a"), None) == {"a", "new"}
        assert names.of(found).placements == {"new": 3, "b": 1}
        assert [each.name for each in names.of(found).status.clusters] == ["new", "b"]
        assert found.placements == {"a": 3, "b": 1}
        assert names.saw(None, cluster("a")) == {"a", "new"}, "somebody has the name again"
        assert names.of(found) is found

    @pytest.mark.proves("A30")
    def test_a_second_registration_under_a_former_name_takes_nothing_back(self) -> None:
        names, found = Renames(), placed(a=3)
        names.saw(None, renamed("new", "a"))
        second = cluster("a", ready=False)
        assert names.saw(None, second) == set()
        assert names.of(found).placements == {"new": 3}
        other = cluster("a", ready=False, status={"clusterID": "another"})
        assert names.saw(second, other) == {"a", "new"}
        assert names.of(found).placements == {"a": 3}

    @pytest.mark.proves("A8")
    def test_what_leaves_and_what_may_return_has_the_new_name_too(self) -> None:
        names, bare = Renames(), placed(b=1)
        names.saw(None, renamed("new", "a"))
        left = {"cluster": "a", "replicas": 2, "cause": "Drained", "since": "2026-01-01T00:00:00Z"}
        back = {"cluster": "a", "replicas": 1, "cause": "Drained", "time": "2026-01-01T00:00:00Z"}
        moves = {"leaving": [left], "displaced": [back]}
        status = msgspec.convert({**msgspec.to_builtins(bare.status), **moves}, type(bare.status))
        meta = msgspec.structs.replace(bare.metadata, resource_version="2")
        moving = known(msgspec.structs.replace(bare, metadata=meta, status=status, info=None))
        info = names.of(moving).info
        assert info.moving.leaving["new"].replicas == 2
        assert info.moving.displaced["new"].replicas == 1

    @pytest.mark.proves("A8", "KD19")
    def test_a_part_of_the_work_goes_on_under_the_new_name(self) -> None:
        names = Renames()
        names.saw(None, renamed("new", "a"))
        job = {"parallelism": 4, "completions": 10, "template": {"spec": {"containers": []}}}
        template = {"apiVersion": "batch/v1", "kind": "Job", "spec": job}
        fresh = known(workload(replicas=4, distribution="Divided", template=template))
        placed = [
            {"cluster": "a", "replicas": 2, "completions": 5},
            {"cluster": "b", "replicas": 2, "completions": 5},
        ]
        clusters = [{"name": "a", "scheduled": 2, "completed": 2}, {"name": "b"}]
        status = msgspec.convert(
            {"placements": placed, "clusters": clusters, "run": fresh.info.run},
            type(fresh.status),
        )
        again = workload(replicas=4, distribution="Divided", template=template)
        found = names.of(known(msgspec.structs.replace(again, status=status))).info
        work = found.work.after({"new": 2, "b": 2}, (), 0)
        assert (dict(work.parts), work.completed) == ({"new": 5, "b": 5}, 0)
        assert found.work.done == {"new": 2}
        assert found.work.begun == {"new"}

    def test_shares_of_both_names_are_one(self) -> None:
        names = Renames()
        names.saw(None, renamed("new", "a", "z"))
        assert names.of(placed(a=3, new=2, z=1)).placements == {"new": 6}

    def test_the_older_one_had_it(self) -> None:
        names = Renames()
        names.saw(None, renamed("thief", "a", created="2026-01-02T00:00:00Z"))
        names.saw(None, renamed("zealous", "a", created="2026-01-01T00:00:00Z"))
        assert names.of(placed(a=3)).placements == {"zealous": 3}

    @given(st.data())
    def test_units_are_never_lost_and_the_order_of_events_is_no_matter(self, data: Any) -> None:
        """Whatever comes and goes, what counts is who is there now."""
        names = st.sampled_from("abcd")
        snapshot = data.draw(st.dictionaries(names, st.lists(names, max_size=2), max_size=4))
        made = [
            renamed(name, *former, created=f"2026-01-0{n + 1}T00:00:00Z")
            for n, (name, former) in enumerate(sorted(snapshot.items()))
        ]
        passing = [renamed(name) for name in data.draw(st.lists(names, unique=True))]
        answers = []
        for order in (made, data.draw(st.permutations(made))):
            seen = Renames()
            for each in passing if order is made else []:
                seen.saw(None, each)
            for each in passing if order is made else []:
                seen.saw(each, None)
            for each in order:
                seen.saw(None, each)
            found = seen.of(placed(a=1, b=2, c=4, d=8)).placements
            assert sum(found.values()) == 15
            assert all(found.get(name, 0) >= n for name, n in (("a", 1),) if "a" in snapshot)
            answers.append(found)
        assert answers[0] == answers[1]

    def test_a_name_that_comes_late_in_a_list_is_counted_back(self) -> None:
        """Of both that are there in the middle of a rename, the new one may be listed first."""
        stored = placed(old=3)
        world = Cache({"stowage"}, sort=_by_name, reviewed=lambda _: True)
        world.reads({stored.metadata.key: stored}.get)
        world.workload_changed(None, stored)
        world.cluster_changed(None, renamed("new", "old"))
        assert world.shares("new") == {stored.metadata.key: 3}
        world.cluster_changed(None, cluster("old"))
        assert (world.shares("new"), world.shares("old")) == ({}, {stored.metadata.key: 3})
        world.cluster_changed(cluster("old"), None)
        assert (world.shares("new"), world.shares("old")) == ({stored.metadata.key: 3}, {})

    async def test_shares_of_a_large_cluster_are_read_in_steps_and_nothing_is_decided_meanwhile(
        self,
    ) -> None:
        first = placed(old=3)
        many = {
            (first.metadata.namespace, f"w{n}"): msgspec.structs.replace(
                first, metadata=msgspec.structs.replace(first.metadata, name=f"w{n}")
            )
            for n in range(2 * SLICE + 1)
        }
        many = {key: known(each) for key, each in many.items()}
        world = Cache({"stowage"}, sort=_by_name, reviewed=lambda _: True)
        world.reads(many.get)
        world.cluster_changed(None, renamed("new", "old"))
        world.cluster_changed(None, cluster("old"))
        for each in many.values():
            world.workload_changed(None, each)
        running = asyncio.create_task(world.run())
        world.cluster_changed(cluster("old"), None)
        steps = 0
        while not world.renames_read:
            assert len(world.shares("new")) == SLICE * steps
            await asyncio.sleep(0)
            steps += 1
        assert steps >= 3
        assert world.shares("new") == dict.fromkeys(many, 3)
        await end([running])


def _by_name(info: Any) -> Any:
    return info.key


async def rename(world: World, old: str, new: str, **how: Any) -> None:
    """What `stowage rename` leaves behind, with the moment in which the new one is not ready."""
    await world.cluster(new, ready=False, formerNames=[old], **how)
    await let_go(world.client, old)


@pytest.mark.long
@pytest.mark.proves("N3")
async def test_what_names_the_old_cluster_names_the_new_one_with_the_same_units(
    world: World,
) -> None:
    """Another one has room, and takes nothing of it; a quota stays taken throughout."""
    for name in ("a", "b"):
        await world.cluster(name, labels={ZONE: name}, cpu="20")
    async with deciding(world):
        await policy(world, a=2, b=1)
        await world.workload("bound", replicas=3, labels={LABEL: "demo"})
        await world.workload("single", replicas=2, targetCluster={"name": "a"})
        await world.workload("divided", replicas=6, distribution="Divided")
        before = {name: await world.placed(name) for name in ("bound", "single", "divided")}

        await rename(world, "a", "new", labels={ZONE: "a"}, cpu="20")
        for name, shares in before.items():
            found = await becomes(world, name, {_now(c): n for c, n in shares.items()})
            last = found["status"]["history"][-1]
            assert (last["cause"], last["name"]) == ("ClusterRenamed", "a")
            assert {c["cause"] for c in found["status"]["history"]} == {"Placed", "ClusterRenamed"}
            steps = {each["cluster"]: each["steps"] for each in found["status"]["reasons"]}
            assert [step["cause"] for step in steps["new"]] == ["Placed"]
        await world.report("new", cpu="20")
        await world.settle()
        assert (await world.get("single"))["status"]["pending"] == 0

        await rename(world, "new", "a", labels={ZONE: "a"}, cpu="20")
        for name, shares in before.items():
            await becomes(world, name, shares)


async def becomes(world: World, name: str, wanted: dict[str, int]) -> dict[str, Any]:
    return await world.until(name, lambda status: placements({"status": status}) == wanted)


def _now(cluster: str) -> str:
    return "new" if cluster == "a" else cluster
