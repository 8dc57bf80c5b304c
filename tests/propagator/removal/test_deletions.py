"""Many Workloads deleted at once wait for a person; a few go as ever."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from crds.names import ANNOTATION_DELETION, CONFIRMED
from propagator.hub.workloads import HubWorkloads
from propagator.removal.brake import AT_ONCE_SECONDS, FEW
from propagator.removal.deletions import DeletionBrake
from propagator.shares import ShareTable
from propagator.types.workload import Workload, workload_of
from tests.fakeclock import FakeClock
from tests.propagator.contexts import Context

LIVED = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z")
YOUNG = ("2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z")
HELD = {"type": "Propagated", "status": "False", "reason": "DeletionHeld", "message": ""}


def workload(n: int, *, times: tuple[str, str] = LIVED, deleted: bool = True, **parts: Any) -> Any:
    meta = {"name": f"w{n}", "namespace": "shop", "uid": f"uid-{n}", "creationTimestamp": times[0]}
    meta |= {"deletionTimestamp": times[1]} if deleted else {}
    status = {"placements": [{"cluster": "m1", "replicas": 1}], **parts.pop("status", {})}
    spec = parts.pop("spec", {})
    return workload_of({"metadata": {**meta, **parts}, "spec": spec, "status": status})


class Hub:
    """The brake, with what its informer would tell it."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.stored: dict[str, Workload] = {}
        self.start()

    def start(self) -> None:
        """Begin as a new process."""
        told: list[Callable[..., None]] = []
        informer = SimpleNamespace(add_handler=told.append, on_aside=lambda _: None)
        hub = cast("HubWorkloads", SimpleNamespace(informer=informer))
        self.shares = ShareTable()
        context: Any = Context(clock=self.clock, shares=self.shares)
        self.brake = DeletionBrake(context, hub)
        (self.tell,) = told
        for each in self.stored.values():
            self.tell(None, each)

    def put(self, *workloads: Workload) -> None:
        for each in workloads:
            self.tell(self.stored.get(each.uid), each)
            self.stored[each.uid] = each

    def gone(self, *numbers: int) -> None:
        for n in numbers:
            self.tell(self.stored.pop(f"uid-{n}"), None)
            self.shares.drop_workload(f"uid-{n}")

    def held(self, *numbers: int) -> list[int]:
        return [n for n in numbers if self.brake.holds(self.stored[f"uid-{n}"])]


@pytest.mark.proves("KD82")
def test_what_is_not_taken_up_again_is_let_go_by_a_person() -> None:
    def why(kind: str, version: str, **parts: Any) -> str:
        template = {"apiVersion": version, "kind": kind, "metadata": {"name": "it"}, "spec": {}}
        spec = {"template": template, "onDelete": "Orphan", **parts.pop("spec", {})}
        return Hub(FakeClock()).brake.why(workload(1, spec=spec, **parts))

    told = why("RayCluster", "ray.io/v1")
    assert "the new one says that it is ready and owns nothing" in told
    assert "`stowage sweep --confirm` lets it go" in told
    for other in (
        why("RayCluster", "ray.io/v1", annotations={ANNOTATION_DELETION: CONFIRMED}),
        why("RayCluster", "ray.io/v1", spec={"onDelete": "Delete"}),
        why("RayCluster", "ray.io/v1", deleted=False),
        why("RayCluster", "ray.io/v1", status={"placements": []}),
        why("Rollout", "argoproj.io/v1alpha1"),
        why("Deployment", "apps/v1"),
        why("Widget", "example.com/v1"),
    ):
        assert other == ""


@pytest.fixture
def fleet() -> Hub:
    """Fifty Workloads that run."""
    made = Hub(FakeClock())
    made.put(*(workload(n, deleted=False) for n in range(50)))
    return made


@pytest.mark.proves("A22")
def test_a_few_go_and_many_at_once_wait(fleet: Hub) -> None:
    fleet.put(*(workload(n) for n in range(FEW)))
    assert not fleet.held(*range(FEW))
    fleet.put(*(workload(n) for n in range(FEW, 50)))
    assert fleet.held(*range(50)) == [*range(FEW, 50)], "what has begun to go goes on"
    fleet.start()
    assert fleet.held(*range(50)) == [*range(50)], "a new process counts again"


@pytest.mark.proves("A22")
def test_a_tenth_of_many_goes(fleet: Hub) -> None:
    fleet.put(*(workload(n, deleted=False) for n in range(50, 120)))
    fleet.put(*(workload(n) for n in range(12)))
    assert not fleet.held(*range(12))


@pytest.mark.proves("A22")
async def test_two_deletions_after_each_other_count_as_one_for_a_while(fleet: Hub) -> None:
    fleet.put(*(workload(n) for n in range(8)))
    assert not fleet.held(*range(8))
    fleet.gone(*range(8))
    fleet.put(*(workload(n) for n in range(8, 14)))
    assert fleet.held(*range(8, 14)) == [*range(8, 14)]
    await fleet.clock.advance(AT_ONCE_SECONDS + 1)
    assert fleet.held(*range(8, 14)) == [*range(8, 14)], "what is held stays so"
    fleet.gone(*range(8, 14))
    await fleet.clock.advance(AT_ONCE_SECONDS + 1)
    fleet.put(workload(14))
    assert not fleet.held(14)


@pytest.mark.proves("A22")
@pytest.mark.parametrize(
    "said",
    [
        {"annotations": {ANNOTATION_DELETION: CONFIRMED}},
        {"spec": {"onDelete": "Orphan"}},
        {"spec": {"delivery": "None"}},
    ],
)
def test_a_person_decides_on_each_and_the_others_wait_on(fleet: Hub, said: dict[str, Any]) -> None:
    fleet.put(*(workload(n) for n in range(40)))
    assert len(fleet.held(*range(40))) == 40
    fleet.put(*(workload(n, **said) for n in range(36)))
    assert fleet.held(*range(40)) == [36, 37, 38, 39]
    fleet.gone(*range(36))
    fleet.put(*(workload(n, status={"conditions": [HELD]}) for n in range(36, 40)))
    fleet.start()
    assert fleet.held(*range(36, 40)) == [36, 37, 38, 39], "the condition outlives the process"
    fleet.put(workload(41))
    assert not fleet.held(41), "what a person let go counts no more"


@pytest.mark.proves("A22")
@pytest.mark.parametrize(
    "parts",
    [
        {"times": YOUNG},
        {"status": {"placements": []}},
        {
            "spec": {"template": {"apiVersion": "batch/v1", "kind": "Job"}},
            "status": {"clusters": [{"name": "m1", "ended": {"result": "Succeeded"}}]},
        },
    ],
)
def test_what_is_young_or_runs_nothing_goes_in_any_number(
    fleet: Hub, parts: dict[str, Any]
) -> None:
    fleet.put(*(workload(n, **parts) for n in range(50)))
    assert not fleet.held(*range(50))
