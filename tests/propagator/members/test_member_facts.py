"""The kinds that a member serves and what its quotas leave, as the status of it says them."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from controller.model.objects import MemberCluster as OfController
from crds.membercluster import MOST_QUOTAS, MOST_SERVED, MemberClusterStatus
from machinery.api.client import Seen
from machinery.api.kinds import AGGREGATED, served_kinds
from machinery.api.resources import CRDS, MEMBER_CLUSTERS, Resource
from machinery.api.verbs import ServerHistory
from machinery.errors import Forbidden, TransportError, Unreachable
from machinery.types.memory_budget import BudgetShare
from machinery.types.metadata import Object
from propagator.hub.cluster_status import status_of
from propagator.members import quotas as quotas_module
from propagator.members import served_kinds as served_kinds_module
from propagator.members.health import CONNECTED, HealthProbe
from propagator.members.quotas import QUOTAS, Quota, QuotasOfMember, WireQuota, slim_quota
from propagator.members.served_kinds import KindsOfMember
from propagator.types.cluster import MemberCluster, lean
from tests.definitions import definition
from tests.fakeclock import FakeClock
from tests.propagator.stage import MakeStage
from tests.propagator.waits import until


def group(name: str, *kinds: str, version: str = "v1", fresh: str = "Current") -> dict[str, Any]:
    resources = [{"resource": k.lower(), "responseKind": {"kind": k}} for k in kinds]
    versions = [{"version": version, "resources": resources, "freshness": fresh}]
    return {"metadata": {"name": name}, "versions": versions}


def answer(*groups: dict[str, Any], kind: str = "APIGroupDiscoveryList") -> bytes:
    return json.dumps({"kind": kind, "items": [*groups]}).encode()


class Member:
    """Answers what it is told to."""

    def __init__(self) -> None:
        self.answers: list[bytes | TransportError] = []
        self.told = 0

    async def request(self, _method: str, path: str, **how: Any) -> bytes:
        assert (path, how["accept"]) == ("/apis", AGGREGATED)
        found, seen = self.answers.pop(0), how["seen"]
        if isinstance(found, TransportError):
            raise found
        known, seen.etag = seen.etag, f"{len(found)}"
        return b"" if known == seen.etag else found

    def notify(self) -> None:
        self.told += 1


def kinds_of(member: Member) -> KindsOfMember:
    return KindsOfMember(member, clock=FakeClock(), notify=member.notify, members=lambda: 1)  # type: ignore[arg-type]


FORBIDDEN = Forbidden(code=403, reason="Forbidden", message="no")


@pytest.mark.proves("KD60")
class TestServed:
    async def test_groups_with_a_dot_are_listed_once(self) -> None:
        member = Member()
        found = kinds_of(member)
        apps, rollout = group("apps", "Deployment"), group("argoproj.io", "Rollout", "Rollout")
        member.answers = [answer(rollout, apps), b"", answer(rollout), Unreachable("x")]
        assert not found.asked
        for _ in range(4):
            await found.look()
        assert found.facts == {"kinds": ["argoproj.io/v1/Rollout"], "kindsOmitted": 0}
        assert member.told == 1, "nothing new is nothing to write"

    async def test_what_may_not_be_read_is_not_known(self) -> None:
        member = Member()
        found = kinds_of(member)
        listed = answer(group("a.io", "A"))
        member.answers = [listed, FORBIDDEN, answer(kind="APIGroupList"), FORBIDDEN, listed]
        for known in (["a.io/v1/A"], None, None, None, ["a.io/v1/A"]):
            await found.look()
            assert found.facts["kinds"] == known
        assert member.told == 3

    async def test_more_than_are_listed_are_counted_and_a_group_that_is_away_too(self) -> None:
        member = Member()
        found = kinds_of(member)
        many = [f"K{n:04}" for n in range(MOST_SERVED + 7)]
        odd = ["a b", "x" * 400, "\x1b[31m", ""]
        away = group("metrics.k8s.io", fresh="Stale")
        kept = group("custom.metrics.k8s.io", "M", fresh="Stale")
        for groups, omitted in (
            ([group("a.io", *many)], 7),
            ([group("a.io", *odd, "A")], 4),
            ([away, kept, group("a.io", "A")], 1),
        ):
            member.answers = [answer(*groups)]
            await found.look()
            assert found.facts["kindsOmitted"] == omitted
            assert len(found.facts["kinds"]) <= MOST_SERVED
            MemberClusterStatus.model_validate(found.facts)

    @pytest.mark.parametrize(
        "body", [b"[]", b"{", b'{"items": 3}', b'{"items": [{"versions": [7]}]}']
    )
    async def test_nonsense_changes_nothing(self, body: bytes) -> None:
        member = Member()
        found = kinds_of(member)
        member.answers = [answer(group("a.io", "A")), body]
        await found.look()
        await found.look()
        assert (found.facts["kinds"], member.told) == (["a.io/v1/A"], 1)


def quota(namespace: str = "shop", name: str = "team", **said: Any) -> Object:
    body = {"metadata": {"namespace": namespace, "name": name, "uid": name}, **said}
    return slim_quota(msgspec.convert(body, WireQuota))


def counted(hard: dict[str, Any], used: dict[str, Any], **spec: Any) -> Object:
    return quota(spec=spec, status={"hard": hard, "used": used})


@pytest.mark.proves("KD61")
class TestQuotas:
    @pytest.mark.parametrize(
        ("hard", "used", "free"),
        [
            ({"pods": "5", "services": "2"}, {"pods": "3", "services": "0"}, {"pods": "2"}),
            ({"limits.cpu": "2"}, {"limits.cpu": "500m"}, {"limits.cpu": "1500m"}),
            ({"requests.memory": "2Gi"}, {"requests.memory": "1Gi"}, {"requests.memory": "1Gi"}),
            ({"pods": 2}, {"pods": 5}, {"pods": "0"}),
            ({"pods": "2", "cpu": "1"}, {"cpu": "0"}, {"cpu": "1"}),
            ({"requests.storage": "1Gi"}, {"requests.storage": "0"}, {}),
            (
                {"requests.nvidia.com/gpu": "4"},
                {"requests.nvidia.com/gpu": "1"},
                {"requests.nvidia.com/gpu": "3"},
            ),
            ({"requests." + "x" * 400: "4"}, {"requests." + "x" * 400: "1"}, {}),
        ],
    )
    def test_what_is_left_is_told_by_the_quotas_names(self, hard, used, free) -> None:
        found = counted(hard, used)
        assert isinstance(found, Quota)
        assert dict(found.free) == free

    def test_one_with_scopes_bounds_nothing(self) -> None:
        for spec in ({"scopes": ["BestEffort"]}, {"scopeSelector": {"matchExpressions": []}}):
            found = counted({"pods": "5"}, {"pods": "3"}, **spec)
            assert isinstance(found, Quota)
            assert bool(found.free) == (not any(spec.values()))

    def test_it_lists_namespaces_that_may_be_targets(self) -> None:
        found = quotas_of(*(quota(f"n{n:03}", "q", **PODS) for n in range(MOST_QUOTAS + 9)))
        told = found.facts(lambda namespace: namespace != "n000")
        assert len(told) == MOST_QUOTAS
        assert told[0] == {"namespace": "n001", "name": "q", "free": {"pods": "2"}}
        MemberClusterStatus.model_validate({"quotas": told})

    async def test_a_busy_namespace_is_told_of_once_in_a_while(self) -> None:
        told: list[int] = []
        found = quotas_of(notify=lambda: told.append(1))
        clock = found._clock
        running = asyncio.create_task(found.run())
        for number in range(100):
            found.informer.observe(quota(status={"hard": {"pods": "9"}, "used": {"pods": number}}))
            await clock.advance(0.1)
        running.cancel()
        assert 1 <= len(told) <= 4


PODS = {"status": {"hard": {"pods": "5"}, "used": {"pods": "3"}}}


def quotas_of(*held: Object, notify: Any = lambda: None) -> QuotasOfMember:
    client = SimpleNamespace(holding=BudgetShare(), pace=None, history=ServerHistory())
    made = QuotasOfMember(
        cast("Any", client), begin=lambda _: None, clock=FakeClock(), notify=notify
    )
    for each in held:
        made.informer.observe(each)
    return made


def status_with(before: dict[str, Any], facts: dict[str, Any], *quotas: Object, **how: Any) -> Any:
    """The status of a member that serves these kinds and has these quotas."""
    known = how.get("known", True)
    found = quotas_of(*quotas)
    if known:
        found.informer._synced.set()
        found.informer._heard()
    link = SimpleNamespace(
        probe=SimpleNamespace(version="v1"),
        provider="",
        measured=False,
        obstacle="",
        cluster_id="",
        kinds=SimpleNamespace(asked=known, facts=facts),
        quotas=found,
        tenants=how.get("tenants"),
    )
    session = SimpleNamespace(
        link=link,
        allows=lambda namespace: namespace != "closed",
        generation=1,
        health=HealthProbe(),
        held=None,
    )
    cluster = msgspec.convert({"metadata": {"name": "m1"}, "status": before}, MemberCluster)
    return status_of(cluster, cast("Any", session), CONNECTED, now=FakeClock().now())


@pytest.mark.proves("KD60", "KD61")
def test_the_status_has_what_is_known_and_drops_what_may_be_read_no_more() -> None:
    kinds = {"kinds": ["a.io/v1/A"], "kindsOmitted": 0}
    found = status_with({}, kinds, quota(**PODS), quota("closed", **PODS))
    assert found["kinds"] == ["a.io/v1/A"]
    assert [each["namespace"] for each in found["quotas"]] == ["shop"]
    narrow = Tenanted({"else"})
    assert "quotas" not in status_with({}, kinds, quota(**PODS), tenants=narrow)
    before = {name: found[name] for name in ("kinds", "kindsOmitted", "quotas")}
    kept = status_with(before, {}, known=False)
    assert {name: kept[name] for name in before} == before, "nothing is known yet"
    gone = status_with(before, {"kinds": None, "kindsOmitted": 0})
    assert not {"kinds", "quotas"} & gone.keys()


@pytest.mark.proves("KD60")
def test_members_that_serve_the_same_share_one_list() -> None:
    """Ten thousand clusters with hundreds of kinds each would fill the memory of both processes."""
    bodies = [{"metadata": {"name": n}, "status": {"kinds": ["a.io/v1/A", "b"]}} for n in "ab"]
    one, other = (lean(msgspec.convert(body, MemberCluster)) for body in bodies)
    assert one.status["kinds"] is other.status["kinds"]
    here, there = (msgspec.json.decode(json.dumps(each), type=OfController) for each in bodies)
    assert here.status.kinds is there.status.kinds


class Tenanted(set[str]):
    """The namespaces of a narrow member."""

    def facts(self) -> None:
        return None


ROLLOUTS = definition(Resource("argoproj.io", "v1alpha1", "rollouts", "Rollout"), status=False)


@pytest.mark.long
@pytest.mark.proves("KD59", "KD61")
async def test_a_real_member_says_both(
    stage_on: MakeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its server alone: this test stands in for the controller that counts what is used."""
    monkeypatch.setattr(served_kinds_module, "LOOK_SECONDS", 0.2)
    monkeypatch.setattr(quotas_module, "SETTLE_SECONDS", 0.1)
    async with stage_on() as stage:
        member = stage.members["m1"]

        async def status() -> dict[str, Any]:
            found: dict[str, Any] = (await stage.hub.get(MEMBER_CLUSTERS, "m1"))["status"]
            return found

        async def says(kind: str, *, there: bool) -> bool:
            found = await status()
            return (kind in found.get("kinds", ())) is there and not found.get("kindsOmitted")

        await until(lambda: says("networking.k8s.io/v1/Ingress", there=True))
        assert not any(each.startswith(("apps/", "v1/")) for each in (await status())["kinds"])
        rollout = "argoproj.io/v1alpha1/Rollout"
        await member.create(CRDS, ROLLOUTS)
        await until(lambda: says(rollout, there=True))
        seen = Seen()
        asked = {"accept": AGGREGATED, "seen": seen}
        found = served_kinds(await member.request("GET", "/apis", **asked))
        assert found is not None
        assert ("argoproj.io", "v1alpha1", "Rollout") in found.kinds
        assert await member.request("GET", "/apis", **asked) == b"", "it is as it was"
        await member.delete(CRDS, ROLLOUTS["metadata"]["name"])
        await until(lambda: says(rollout, there=False))

        for name, spec in (("team", {}), ("few", {"scopes": ["BestEffort"]})):
            hard = {"pods": "5"}
            body = {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"hard": hard, **spec},
            }
            await member.create(QUOTAS, body)
            counted = {"status": {"hard": hard, "used": {"pods": "3"}}}
            await member.merge_patch(
                QUOTAS, name, counted, namespace="default", subresource="status"
            )

        async def left() -> Any:
            return (await status()).get("quotas")

        async def is_left(*told: Any) -> bool:
            return await left() == ([*told] or None)

        await until(
            lambda: is_left({"namespace": "default", "name": "team", "free": {"pods": "2"}})
        )
        for name in ("team", "few"):
            await member.delete(QUOTAS, name, namespace="default")
        await until(is_left)
