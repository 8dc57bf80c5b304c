"""WorkloadQuota in the pass: what is let in, what is said of the rest, and what counts."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller import catalogue, config
from controller.cache.placements import PlacementIndex
from controller.explain.record import record
from controller.features.reservation.compiled import compile_reservation
from controller.features.reservation.ledger import ReservationLedger
from controller.features.workloadquota.compiled import WorkloadQuota, compile_quota
from controller.features.workloadquota.plugin import book
from controller.features.workloadquota.usage import Usage
from controller.model.objects import reserved_shares
from controller.model.unit import WorkloadInfo, workload_info
from controller.scheduling.cycle import decide
from controller.scheduling.decision import Decision
from crds.names import API_VERSION, PLACEHOLDER_CLASS, PLACEHOLDER_SCHEDULER
from crds.workload import ScheduledReason, WorkloadState
from machinery.errors import ConfigurationError
from machinery.http_messages import Request
from machinery.types.metadata import OwnerReference
from tests.controller import make
from tests.controller.features.reservation.reservations import PLACED, reservation
from tests.controller.features.workloadquota.quotas import holding, quota, used
from tests.examples import examples

CLUSTERS = [make.cluster(name) for name in ("a", "b", "c")]
EXCEEDED = ScheduledReason.QUOTA_EXCEEDED
FLEET = make.snapshot(*CLUSTERS)
PROFILE = config.default_profile()


def tried(info: WorkloadInfo, bound: PlacementIndex) -> Decision:
    return decide(FLEET, info, bound, PROFILE, make.NOW)


def place(info: WorkloadInfo, bound: PlacementIndex) -> Decision:
    """Decide, and count it."""
    decision = tried(info, bound)
    bound.put(info, decision.placements)
    return decision


def written(decision: Decision) -> WorkloadInfo:
    """The unit as its status says it afterwards."""
    shares = reserved_shares(decision.fields.get("reservations") or [])
    return replace(decision.workload, present=decision.placements, reservations=shares)


def asking(name: str, units: int, cpu: str = "1", **spec: Any) -> WorkloadInfo:
    pod = {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}
    return make.info(name, replicas=units, pod=pod, **spec)


@pytest.mark.proves("N4", "N10b")
@pytest.mark.parametrize(
    ("distribution", "placed"), [("Divided", 3), ("Single", 0), ("Duplicated", 0)]
)
def test_units_above_the_quota_are_pending(distribution: str, placed: int) -> None:
    bound = holding(quota(cpu=4))
    assert place(asking("first", 1), bound).scheduled
    found = tried(asking("next", 5, distribution=distribution), bound)
    assert (found.assigned, found.reason) == (placed, EXCEEDED)
    assert found.state is (WorkloadState.SCHEDULED if placed else WorkloadState.PENDING)
    asks = {"Divided": "a replica asks for 1", "Single": "5 replicas ask for 5"}
    said = f"WorkloadQuota team: requests.cpu 1 of 4 used, {asks.get(distribution, asks['Single'])}"
    assert said in found.message
    assert "WorkloadQuota" in found.kept_out_by(), "it waits for news of its quota"


@pytest.mark.proves("N10b")
def test_units_bound_a_workload_that_asks_for_next_to_nothing() -> None:
    bound = holding(quota(units=50))
    found = tried(asking("tiny", 2**31 - 1, cpu="1m", distribution="Divided"), bound)
    assert (found.assigned, found.reason) == (50, EXCEEDED)
    assert found.desired == 2**31 - 1


@pytest.mark.proves("N4")
def test_of_several_quotas_all_hold_and_the_tightest_is_named() -> None:
    bound = holding(quota("cpus", cpu=3), quota("count", units=2), quota("loose", units=99))
    found = tried(asking("demo", 5, distribution="Divided"), bound)
    assert found.assigned == 2
    assert "WorkloadQuota count: units 0 of 2 used, a replica asks for 1" in found.message


@pytest.mark.proves("N4")
def test_nothing_placed_is_taken_away_and_what_is_placed_may_move() -> None:
    bound = holding(quota(units=2))
    there = make.info("demo", replicas=6, present={"a": 3, "gone": 1}, distribution="Divided")
    bound.put(there, there.present)
    found = tried(there, bound)
    assert (found.assigned, found.placements["a"]) == (4, 3), "it moves off a cluster that is gone"
    assert found.reason is EXCEEDED
    single = make.info("one", replicas=3, present={"gone": 2})
    bound.put(single, single.present)
    assert tried(single, bound).assigned == 2
    fewer = make.info("demo", replicas=1, present={"a": 3}, distribution="Divided")
    assert tried(fewer, bound).scheduled, "a scale-down is never held back"


@pytest.mark.proves("N4")
def test_a_copy_on_each_cluster_comes_whole_or_not_at_all() -> None:
    bound = holding(quota(units=7))
    info = make.info("demo", replicas=3, distribution="Duplicated")
    found = place(info, bound)
    assert sorted(found.placements.values()) == [3, 3]
    assert (found.desired, found.reason) == (9, EXCEEDED)
    more = make.info("demo", replicas=4, present=found.placements, distribution="Duplicated")
    grown = tried(more, bound)
    assert sorted(grown.placements.values()) == [3, 4], "one copy grows, the other stays as it is"


@pytest.mark.proves("N4")
def test_who_needs_none_of_what_is_used_up_is_let_in() -> None:
    bound = holding(quota(**{"example.com/gpu": 0}))
    assert tried(asking("demo", 4), bound).scheduled
    pod = {"containers": [{"name": "m", "resources": {"limits": {"example.com/gpu": "1"}}}]}
    assert tried(make.info("gpu", pod=pod), bound).reason is EXCEEDED


@pytest.mark.proves("N4")
def test_a_quota_of_another_namespace_bounds_nobody_here() -> None:
    bound = holding(quota(units=0))
    assert tried(asking("demo", 2, namespace="other"), bound).scheduled


def test_a_quota_that_makes_no_sense_bounds_nobody() -> None:
    for hard in ({}, {"cpu": "1"}, {"units": "many"}, {"units": -1}, "none", {"requests.": "1"}):
        stored = msgspec.convert(
            {"metadata": {"name": "x", "namespace": "shop"}, "spec": {"hard": hard}}, WorkloadQuota
        )
        found = compile_quota(stored)
        assert found.fault.startswith("spec.hard"), hard
        bound = PlacementIndex([Usage()])
        bound.ledger(Usage).put_quota(found)
        assert tried(asking("demo", 2), bound).scheduled


@pytest.mark.proves("N4")
def test_the_placeholders_of_a_reservation_count_for_nothing() -> None:
    bound = holding(quota(units=1))
    stored = make.workload(
        "room-hold",
        schedulerName=PLACEHOLDER_SCHEDULER,
        pod={"priorityClassName": PLACEHOLDER_CLASS, "containers": [{"name": "m"}]},
    )
    owner = OwnerReference(
        api_version=API_VERSION, kind="Reservation", name="room", uid="uid-room", controller=True
    )
    meta = msgspec.structs.replace(stored.metadata, owner_references=[owner])
    held = workload_info(msgspec.structs.replace(stored, metadata=meta))
    bound.put(held, {"a": 7})
    assert used(bound) == {}


class TestReservations:
    """Room that a Reservation holds counts; a unit inside counts once."""

    def held(
        self, bound: PlacementIndex, units: int, cpu: str = "2", name: str = "peak", **spec: Any
    ) -> Any:
        """A Reservation of the namespace, decided and counted."""
        stored = reservation(name, {"cpu": cpu}, replicas=units, allocateOnce=False, **spec)
        bound.ledger(ReservationLedger).put_reservation(compile_reservation(stored))
        info = replace(workload_info(PLACED.workload(stored)), booked=True)
        info = replace(info, name=f"reservations/{name}")
        return place(info, bound)

    @pytest.mark.proves("N4")
    def test_a_tenant_holds_no_more_room_than_its_quota(self) -> None:
        bound = holding(quota(cpu=6, reservations=1))
        first = self.held(bound, 2_000_000_000)
        assert (first.assigned, first.reason) == (3, EXCEEDED)
        assert used(bound) == {"reservations": 1, "requests.cpu": 6000, "units": 3}
        second = self.held(bound, 1, name="second")
        assert (second.assigned, second.reason) == (0, EXCEEDED)
        assert second.message == "0/3 clusters: WorkloadQuota team: reservations 1 of 1 used"
        assert tried(asking("other", 1), bound).reason is EXCEEDED

    @pytest.mark.proves("N4")
    @pytest.mark.parametrize("distribution", ["Single", "Divided"])
    def test_a_unit_inside_its_reservation_counts_once(self, distribution: str) -> None:
        bound = holding(quota(cpu=8))
        assert self.held(bound, 3, targetCluster={"name": "b"}).placements == {"b": 3}
        inside = asking("demo", 3, "2", distribution=distribution)
        found = place(inside, bound)
        assert found.placements == {"b": 3}
        assert used(bound) == {"reservations": 1, "requests.cpu": 6000, "units": 3}
        more = place(replace(written(found), replicas=4), bound)
        assert more.assigned == 4, "one more beside its reservation, as the quota lets"
        over = tried(replace(written(more), replicas=5), bound)
        assert (over.assigned, over.reason) == (4, EXCEEDED)

    @pytest.mark.proves("N4")
    @pytest.mark.parametrize("distribution", ["Single", "Divided"])
    def test_inside_and_beside_in_one_decision(self, distribution: str) -> None:
        bound = holding(quota(cpu=8))
        self.held(bound, 3, targetCluster={"name": "b"})
        found = place(asking("demo", 4, "2", distribution=distribution), bound)
        assert found.placements == {"b": 4}
        assert used(bound)["requests.cpu"] == 8000

    @pytest.mark.proves("N4")
    def test_who_is_no_owner_finds_the_room_used(self) -> None:
        bound = holding(quota(cpu=8))
        self.held(bound, 3)
        assert tried(asking("other", 3, "2", distribution="Divided"), bound).assigned == 1

    @pytest.mark.proves("N4")
    def test_what_is_not_reserved_is_taken_of_the_quota(self) -> None:
        """Eight small units fit into one of the reservation: their number is not reserved."""
        bound = holding(quota(units=4))
        self.held(bound, 1, "4")
        found = place(asking("demo", 8, "500m", distribution="Divided"), bound)
        assert found.reason is EXCEEDED
        assert used(bound)["units"] <= 4


@pytest.mark.proves("N4")
def test_the_default_quota_holds_where_there_is_none() -> None:
    file = """
apiVersion: stowage.dev/v1alpha1
kind: SchedulerConfiguration
defaultQuota: {hard: {units: "3", requests.cpu: 100}}
"""
    profile = config.parse(file, catalogue.registry()).profiles["stowage"]

    def decided(bound: PlacementIndex) -> Decision:
        return decide(FLEET, asking("demo", 5, distribution="Divided"), bound, profile, make.NOW)

    without = decided(holding())
    assert (without.assigned, without.reason) == (3, EXCEEDED)
    assert "defaultQuota: units 0 of 3 used, a replica asks for 1" in without.message
    assert decided(holding(quota(units=4))).assigned == 4, "its own quota stands for it"


@pytest.mark.parametrize(
    ("hard", "text"),
    [
        ("{cpu: 4}", "defaultQuota.hard: names are units, reservations and requests.<resource>"),
        ("{units: 1.5}", "defaultQuota"),
        ("{}", "defaultQuota.hard"),
    ],
)
def test_a_wrong_default_quota_is_refused_with_its_line(hard: str, text: str) -> None:
    file = f"apiVersion: stowage.dev/v1alpha1\nkind: SchedulerConfiguration\ndefaultQuota: {{hard: {hard}}}\n"
    with pytest.raises(ConfigurationError, match="configuration:3: " + text):
        config.parse(file, catalogue.registry())


@pytest.mark.proves("N4")
@pytest.mark.parametrize("pending", [1, 4])
def test_explain_says_what_would_help(pending: int) -> None:
    bound = holding(quota(units=1))
    bound.put(asking("first", 1), {"a": 1} if pending == 4 else {})
    told = record(tried(asking("demo", 4, distribution="Divided"), bound))
    assert "more of hard.units in WorkloadQuota team" in json.dumps(told["remedies"])


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("workload"),
            st.sampled_from("pqrs"),
            st.integers(0, 6),
            st.sampled_from(["Divided", "Single", "Duplicated"]),
            st.sampled_from(["500m", "1", "3"]),
        ),
        st.tuples(st.just("delete"), st.sampled_from("pqrs")),
        st.tuples(
            st.just("quota"),
            st.sampled_from("xy"),
            st.integers(0, 12),
            st.one_of(st.none(), st.integers(0, 20)),
        ),
        st.tuples(st.just("no quota"), st.sampled_from("xy")),
    ),
    max_size=14,
)


@pytest.mark.proves("N4", "N10b")
@examples(200)
@given(STEPS)
def test_nothing_placed_ever_exceeds_a_quota_and_freed_room_is_given_at_once(steps: Any) -> None:
    """Decided again and again until nothing changes, nobody is pending whom the quotas would let in.

    Above a quota stands only what was placed before it was made or lowered.
    """
    bound = holding()
    ledger, wanted, placed = (
        bound.ledger(Usage),
        dict[str, WorkloadInfo](),
        dict[str, dict[str, int]](),
    )

    def settle() -> None:
        for _ in range(4):
            for name, info in sorted(wanted.items()):
                now = info.with_present(placed[name])
                before, found = used(bound), tried(now, bound)
                placed[name] = dict(found.placements)
                bound.put(now, placed[name])
                after = used(bound)
                for each in ledger.quotas("shop"):
                    for what, hard in each.hard.items():
                        assert after.get(what, 0) <= max(hard, before.get(what, 0)), (name, what)
                if found.reason is EXCEEDED and info.distribution == "Divided":
                    asks = {"units": 1, "requests.cpu": info.request["cpu"]}
                    assert any(
                        after.get(what, 0) + asks[what] > hard
                        for each in ledger.quotas("shop")
                        for what, hard in each.hard.items()
                    ), "it is refused although the quotas would let it in"

    for kind, name, *rest in steps:
        if kind == "workload":
            units, distribution, cpu = rest
            wanted[name] = asking(name, units, cpu, distribution=distribution)
            placed.setdefault(name, {})
            bound.put(wanted[name].with_present(placed[name]), placed[name])
        elif kind == "delete" and name in wanted:
            bound.drop(wanted.pop(name).key)
            placed.pop(name)
        elif kind == "quota":
            units, cpu = rest
            amounts = {"units": units} | ({} if cpu is None else {"cpu": cpu})
            ledger.put_quota(compile_quota(quota(name, **amounts)))
        elif kind == "no quota":
            ledger.drop_quota(("shop", name))
        settle()
    counted = holding()
    for name, info in wanted.items():
        counted.put(info, placed[name])
    assert used(bound) == used(counted), "the sums are those of what is placed"


async def asked(bound: PlacementIndex, path: str, query: dict[str, str], **params: str) -> Any:
    routes = {route.path: route.answer for route in book(lambda: bound).routes()}
    return await routes[path](
        Request(method="GET", path="/", query=query, params=params, headers={}, body=b"")
    )


@pytest.mark.proves("N4")
async def test_the_endpoints_tell_what_the_next_decision_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("controller.framework.runtime.services.PAGE", 2)
    bound = holding(*(quota(f"q{n}", units=5, memory="2Gi") for n in range(3)))
    bound.put(make.info("demo"), {"a": 1})
    first = await asked(bound, "/quotas", {})
    assert [each["name"] for each in first["quotas"]] == ["q0", "q1"]
    rest = await asked(bound, "/quotas", {"continue": first["continue"]})
    assert rest == {
        "quotas": [
            {
                "namespace": "shop",
                "name": "q2",
                "hard": {"units": "5", "requests.memory": "2Gi"},
                "used": {"units": "1", "requests.memory": "1Gi"},
            }
        ]
    }
    one = await asked(bound, "/quotas/:namespace/:name", {}, namespace="shop", name="q2")
    assert one == rest["quotas"][0]
    none = await asked(bound, "/quotas/:namespace/:name", {}, namespace="shop", name="none")
    assert none.status == 404


def side(kind: str = "Deployment", cpu: str = "2", **fields: Any) -> dict[str, Any]:
    """An object of spec.manifests that makes pods."""
    pods = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}}
    group = {"CronJob": "batch/v1", "Job": "batch/v1", "Pod": "v1", "Crew": "example.com/v1"}
    spec: dict[str, Any] = {"template": pods, **fields}
    if kind == "CronJob":
        spec = {"jobTemplate": {"spec": {"template": pods}}}
    if kind == "Pod":
        spec = pods["spec"]
    return {
        "apiVersion": group.get(kind, "apps/v1"),
        "kind": kind,
        "metadata": {"name": "side"},
        "spec": spec,
    }


@pytest.mark.proves("A11")
@pytest.mark.parametrize(
    ("manifest", "pods"),
    [
        (side(replicas=6), 6),
        (side(), 1),
        (side("StatefulSet", replicas=3), 3),
        (side("DaemonSet"), 1),
        (side("Job", parallelism=4), 4),
        (side("CronJob"), 1),
        (side("Pod"), 1),
        (side("Crew", replicas=5), 5),
        ({"apiVersion": "v1", "kind": "ConfigMap", "data": {}}, 0),
    ],
)
def test_pods_of_manifests_count_once_on_each_cluster(manifest: dict[str, Any], pods: int) -> None:
    bound = holding(quota(units=1 + pods, cpu=1 + 2 * pods))
    web = asking("web", 1, manifests=[manifest])
    assert sum(place(web, bound).placements.values()) == 1
    assert used(bound)["units"] == 1 + pods
    assert used(bound)["requests.cpu"] == 1000 + 2000 * pods
    found = tried(web, holding(quota(units=max(pods, 1), cpu=max(2 * pods, 1))))
    assert bool(found.placements) == (not pods)
    if pods:
        assert "a replica, with the pods of its manifests, asks for" in found.message


@pytest.mark.proves("A11")
def test_an_override_of_a_manifest_counts() -> None:
    bound = holding(quota(units=100, cpu=100))
    pods = side(cpu="9")["spec"]["template"]
    pods["spec"]["containers"][0]["image"] = "side:1"
    override = {
        "name": "more",
        "clusterSelector": {},
        "target": {"kind": "Deployment", "name": "side"},
        "patch": {"spec": {"template": pods}},
    }
    place(asking("web", 1, manifests=[side()], overrides=[override]), bound)
    assert used(bound)["requests.cpu"] == 10_000


@pytest.mark.proves("A11")
def test_the_most_that_an_override_asks_for_counts_also_when_it_comes_later() -> None:
    bound = holding(quota(cpu=10))
    place(asking("web", 4), bound)
    container = {"name": "main", "resources": {"requests": {"cpu": "3"}}}
    patch = {"spec": {"template": {"spec": {"containers": [container]}}}}
    override = {"name": "eu", "clusterSelector": {"matchLabels": {"region": "eu"}}, "patch": patch}
    later = replace(asking("web", 5, overrides=[override]), present={"a": 4})
    bound.put(later, {"a": 4})  # the edit is seen
    assert sum(tried(later, bound).placements.values()) == 4, "what is placed stays"
    assert used(bound)["requests.cpu"] == 12_000
    said = tried(asking("new", 1, overrides=[override]), bound).message
    assert "requests.cpu 12 of 10 used, a replica asks for 3" in said
    assert "WorkloadSpread" not in said
