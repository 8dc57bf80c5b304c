"""What a member is told to do with a Workload that is placed elsewhere."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from crds.names import LABEL_GROUP
from machinery.api.client import ApiClient
from machinery.overrides.variables import ClusterFacts
from machinery.types.metadata import Key
from propagator import reconciler
from propagator.groups.rule import APPLY
from propagator.hub.revisions import Revisions
from propagator.members.objects import ManagedObject, Mark
from propagator.reconciler import WorkloadReconciler
from propagator.shares import ShareTable
from propagator.types.workload import workload_of
from tests.fakeclock import FakeClock
from tests.propagator.contexts import Context, OneWorkload


@pytest.mark.proves("G24", "A6", "A12")
@pytest.mark.parametrize("placed", [True, False])
@pytest.mark.parametrize(
    ("starts", "ran_before", "did"),
    [(True, False, ["remove"]), (True, True, []), (False, False, [])],
)
async def test_a_share_that_left_goes_at_once_only_while_its_gang_starts(
    monkeypatch: pytest.MonkeyPatch, placed: bool, starts: bool, ran_before: bool, did: list[str]
):
    """What stands there is of a try that failed; else it may be the last healthy copy."""
    status = {
        "placements": [{"cluster": "m3", "replicas": 2}],
        "clusters": [{"name": "m3", "replicas": 2, "state": "Creating"}],
    }
    workload = workload_of(
        {
            "metadata": {
                "namespace": "shop",
                "name": "a",
                "uid": "u-a",
                "labels": {LABEL_GROUP: "batch"},
            },
            "spec": {"replicas": 2, "template": {"apiVersion": "apps/v1", "kind": "Deployment"}},
            "status": status if placed else {},
        }
    )
    done: list[str] = []

    async def remove(*_: Any) -> None:
        done.append("remove")

    async def wait_listed(*_: Any) -> None:
        pass

    monkeypatch.setattr(reconciler, "owned", lambda _session, _uid: [(None, ManagedObject())])

    async def sweep(*_: Any) -> None:
        pass

    async def confirms(_: Any) -> bool:
        return True

    gates = SimpleNamespace(
        confirms=confirms,
        verdict=lambda _: APPLY,
        removal_pending=lambda *_: False,
        starting=lambda _: starts,
        retains=lambda *_: ran_before,
    )
    parts: dict[str, Any] = {
        "workloads": OneWorkload(workload),
        "judged": SimpleNamespace(known=True),
        "gates": gates,
        "revisions": Revisions(cast("ApiClient", None), ShareTable()),
        "inventory": SimpleNamespace(wait_listed=wait_listed, holds=lambda *_: True),
        "shares": SimpleNamespace(remove=remove, stays=lambda *_: None),
        "guard": SimpleNamespace(note=lambda *_: None),
        "once": SimpleNamespace(left=lambda *_: None),
        "orphans": SimpleNamespace(sweep=sweep),
        "claims": None,
        "leftovers": None,
        "reporter": SimpleNamespace(queue=SimpleNamespace(add=lambda _: None)),
    }
    context: Any = Context(clock=FakeClock(), registry=None, fresh=lambda: True)
    session: Any = SimpleNamespace(name="m2", mark=Mark(), facts=ClusterFacts("m2", {}))
    await WorkloadReconciler(context, **parts).reconcile(session, workload.metadata.key)
    assert done == did


@pytest.mark.proves("M54")
@pytest.mark.parametrize("overdue", [("shop", "db"), None])
async def test_nothing_is_written_on_a_member_that_still_runs_what_runs_elsewhere(
    overdue: Key | None,
) -> None:
    """Out of service it came back: that goes first."""
    workload = workload_of(
        {
            "metadata": {"namespace": "shop", "name": "a", "uid": "u-a"},
            "spec": {"template": {"apiVersion": "apps/v1", "kind": "Deployment"}},
            "status": {"placements": [{"cluster": "m2", "replicas": 2}]},
        }
    )
    did: list[str] = []

    async def apply(*_: Any) -> None:
        did.append("apply")

    async def sweep(*_: Any) -> None:
        pass

    parts: dict[str, Any] = {
        "workloads": OneWorkload(workload),
        "judged": SimpleNamespace(known=True),
        "gates": SimpleNamespace(
            verdict=lambda _: APPLY, removal_pending=lambda *_: False, starting=lambda _: False
        ),
        "revisions": Revisions(cast("ApiClient", None), ShareTable()),
        "inventory": None,
        "shares": SimpleNamespace(apply=apply),
        "guard": None,
        "once": SimpleNamespace(overdue=lambda _: overdue),
        "orphans": SimpleNamespace(sweep=sweep),
        "claims": None,
        "leftovers": None,
        "reporter": None,
    }
    context: Any = Context(clock=FakeClock(), registry=None, fresh=lambda: True)
    session: Any = SimpleNamespace(name="m2", mark=Mark(), facts=ClusterFacts("m2", {}))
    again = await WorkloadReconciler(context, **parts).reconcile(session, workload.metadata.key)
    assert did == ([] if overdue else ["apply"])
    assert not overdue or (again or 0) > 0, "it is looked at again"


@pytest.mark.proves("M51", "A6", "N3")
@pytest.mark.parametrize(("placed", "formerly"), [(5, ()), (4, ()), (5, ("m1",))])
async def test_what_runs_at_most_once_goes_from_a_cluster_made_again_once_all_of_it_is_placed(
    monkeypatch: pytest.MonkeyPatch, placed: int, formerly: tuple[str, ...]
) -> None:
    """Its successors wait for it, so that it cannot wait for these. Placed by a former name of the
    cluster it has no successors.
    """
    workload = workload_of(
        {
            "metadata": {"namespace": "shop", "name": "a", "uid": "u-a"},
            "spec": {"replicas": 5, "template": {"apiVersion": "apps/v1", "kind": "StatefulSet"}},
            "status": {"desired": 5, "placements": [{"cluster": "m1", "replicas": placed}]},
        }
    )
    did: list[str] = []

    def does(what: str, answer: Any = None) -> Any:
        async def does_it(*_: Any) -> Any:
            did.append(what)
            return answer

        return does_it

    monkeypatch.setattr(reconciler, "owned", lambda _session, _uid: [(None, ManagedObject())])
    monkeypatch.setattr(reconciler, "taken_up", lambda _found, _mark: True)
    parts: dict[str, Any] = {
        "workloads": OneWorkload(workload, *formerly),
        "judged": SimpleNamespace(known=True),
        "gates": SimpleNamespace(
            verdict=lambda _: APPLY, removal_pending=lambda *_: False, starting=lambda _: False
        ),
        "revisions": Revisions(cast("ApiClient", None), ShareTable()),
        "inventory": SimpleNamespace(wait_listed=does("list"), holds=lambda *_: True),
        "shares": SimpleNamespace(lower=does("lower"), stays=lambda *_: did.append("stays")),
        "guard": SimpleNamespace(note=lambda *_: None, kept=does("guard", answer=4)),
        "once": SimpleNamespace(left=lambda *_: None),
        "orphans": SimpleNamespace(sweep=does("sweep")),
        "claims": SimpleNamespace(note=does("note", answer=True)),
        "leftovers": None,
        "reporter": SimpleNamespace(queue=SimpleNamespace(add=lambda _: None)),
    }
    context: Any = Context(clock=FakeClock(), registry=None, fresh=lambda: True)
    session: Any = SimpleNamespace(name="m3", mark=Mark(), facts=ClusterFacts("m3", {}))
    await WorkloadReconciler(context, **parts).reconcile(session, workload.metadata.key)
    goes = placed == 5 and not formerly
    assert ("lower" in did) == goes
    assert ("stays" in did) == (not goes)
