"""The counts of WorkloadSpreads when the leading controller dies in the middle of a burst.

A leader that is killed between two writes has written one of them: the counts must be right again.
member-1 is the pool with a cap, member-2 the elastic one.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import pytest

from e2e.harness import wait, workload
from e2e.stage import Stage

pytestmark = pytest.mark.long

POOL = "spread.example.com/pool"
POOLS = {"member-1": "normal", "member-2": "elastic"}
Told: TypeAlias = tuple[int, int, dict[str, list[str]]]
"""A subset's replicas, missingReplicas, and the units under way by field."""
UNDER_WAY = ("creatingPods", "deletingPods", "stuckPods")


@pytest.fixture(autouse=True)
def labels(running: Stage) -> Iterator[None]:
    for member, pool in POOLS.items():
        running.hub("label", "mc", member, "--overwrite", f"{POOL}={pool}")
    yield
    for member in POOLS:
        running.hub("label", "mc", member, f"{POOL}-")


def subset(name: str, key: str, *values: str, **fields: Any) -> dict[str, Any]:
    """Return the subset of the clusters with one of these values."""
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}
    return {"name": name, "requiredNodeSelectorTerm": term, **fields}


def spread(name: str, namespace: str, *subsets: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Return a WorkloadSpread on the Workload of its own name."""
    target = {"apiVersion": "stowage.dev/v1alpha1", "kind": "Workload", "name": name}
    return {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "WorkloadSpread",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"targetRef": target, "subsets": list(subsets), **spec},
    }


def pools(most: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a normal subset with that cap, and an elastic one for the rest."""
    return subset("normal", POOL, "normal", maxReplicas=most), subset("elastic", POOL, "elastic")


def books(stage: Stage, space: str) -> dict[str, dict[str, Told]]:
    """Return the subsets of each spread, from its status."""
    return {
        each["metadata"]["name"]: {
            s["name"]: (
                s.get("replicas", 0),
                s["missingReplicas"],
                {field: sorted(s[field]) for field in UNDER_WAY if s.get(field)},
            )
            for s in each.get("status", {}).get("subsetStatuses", [])
        }
        for each in stage.hub.items("ws", space)
    }


def scale(stage: Stage, space: str, replicas: int) -> None:
    stage.hub("-n", space, "scale", "wl", "--all", f"--replicas={replicas}")


MOST = 4


@pytest.mark.proves("W19", "W22")
def test_leaders_that_are_killed_in_the_midst_leave_the_books_right(
    running: Stage, space: str
) -> None:
    hub, crowd = running.hub, [f"w{n}" for n in range(20)]
    hub.apply(*(spread(name, space, *pools(MOST)) for name in crowd))
    wait("the books to be open", lambda: all(books(running, space)[name] for name in crowd))
    running.process("controller", "standby")
    bursts: tuple[tuple[int, Callable[[], object]], ...] = (
        (5, lambda: hub.apply(*(workload(name, space, replicas=5) for name in crowd))),
        (7, lambda: scale(running, space, 7)),
    )
    try:
        wait("the standby to answer", lambda: running.metric("standby", "process_") > 0)
        for units, burst in bursts:
            kill_the_leader_during(running, space, units, burst)
            until_right(running, space, crowd, units)
    finally:
        running.processes["standby"].kill(signal.SIGTERM)


def kill_the_leader_during(
    stage: Stage, space: str, units: int, burst: Callable[[], object]
) -> None:
    """Kill the leader once it has placed the first Workload; it comes back as the standby."""
    leader = wait("a leader", lambda: leading(stage))
    assert leader is not None
    with ThreadPoolExecutor(max_workers=1) as other:
        done = other.submit(burst)
        wait("a first decision", lambda: units in totals(stage, space).values(), every=0.05)
        stage.processes[leader].kill()
        done.result()
    stage.process("controller", leader)


def leading(stage: Stage) -> str | None:
    """Return the controller that holds the lease, by the process id in its identity."""
    lease = stage.hub.get("lease", "stowage-controller", "stowage-system")
    pid = int(lease["spec"]["holderIdentity"].split("_")[1])
    both = {name: p.running for name, p in stage.processes.items() if name != "propagator"}
    return next((name for name, process in both.items() if process and process.pid == pid), None)


def totals(stage: Stage, space: str) -> dict[str, int]:
    """Return the placed units of each Workload; assert that none passes a cap."""
    found = {}
    for each in stage.hub.items("wl", space):
        name, placed = each["metadata"]["name"], each.get("status", {}).get("placements", [])
        shares = {share["cluster"]: share["replicas"] for share in placed}
        assert shares.get("member-1", 0) <= MOST, f"{name}: {shares}"
        found[name] = sum(shares.values())
    return found


def until_right(stage: Stage, space: str, crowd: list[str], units: int) -> None:
    """Wait until all Workloads are placed in full, on members and in the spreads' statuses."""
    whole = dict.fromkeys(crowd, units)
    wait(f"{units} units of each", lambda: totals(stage, space) == whole, timeout=120)
    for member, share in (("member-1", MOST), ("member-2", units - MOST)):
        wanted = {f"{space}/{name}": share for name in crowd}
        wait(f"{member} to run them", lambda m=member, w=wanted: shares_on(stage, m, space) == w)
    right: dict[str, Told] = {"normal": (MOST, 0, {}), "elastic": (units - MOST, -1, {})}
    wait("the books", lambda: books(stage, space) == dict.fromkeys(crowd, right), timeout=120)
    assert totals(stage, space) == whole


def shares_on(stage: Stage, member: str, space: str) -> dict[str, int]:
    """Return spec.replicas of a member's Deployments in that namespace."""
    found = stage.managed(member)
    return {key: units for key, units in found.items() if key.startswith(f"{space}/")}
