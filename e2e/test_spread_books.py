"""The counts of a WorkloadSpread when members hang, pods do not end, and a leader dies.

The status of a subset counts what members show. A member that hangs shows nothing, a pod that does
not end is shown until it does, a leader that is killed between two writes has written one of them:
each time the quota must come back, and be right again when the fault is over. member-1 is the pool
with a cap, member-2 the elastic one.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeAlias

import pytest

from e2e.harness import wait, workload
from e2e.stage import Stage
from e2e.test_spread import POOL, POOLS, spread, subset, until_placed

pytestmark = pytest.mark.long

Told: TypeAlias = tuple[int, int, dict[str, list[str]]]
"""A subset's replicas, missingReplicas, and the units under way by field."""
HOLD = "spread.example.com/hold"
"""A finalizer that only the test removes, and a gate that keeps a pod from its node."""
BOTH = {"member-1": 3, "member-2": 2}
UNDER_WAY = ("creatingPods", "deletingPods", "stuckPods")


@pytest.fixture(autouse=True)
def labels(running: Stage) -> Iterator[None]:
    for member, pool in POOLS.items():
        running.hub("label", "mc", member, "--overwrite", f"{POOL}={pool}")
    yield
    for member in POOLS:
        running.hub("label", "mc", member, f"{POOL}-")


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


def until_told(
    stage: Stage, space: str, normal: tuple[int, int], elastic: int, **under_way: list[str]
) -> None:
    """Wait until the only spread has these subsets at one moment; the elastic one has no cap."""
    wanted: dict[str, Told] = {"normal": (*normal, under_way), "elastic": (elastic, -1, {})}

    def told() -> bool:
        (found,) = books(stage, space).values()
        if found == wanted:
            return True
        raise ValueError(found)

    wait(f"the books to tell {wanted}", told)


def warnings(stage: Stage, space: str, reason: str) -> list[str]:
    """Return the messages of spreads' warnings of that reason, one for each occurrence."""
    found = stage.hub.items("events", space)
    mine = [e for e in found if e["involvedObject"].get("kind") == "WorkloadSpread"]
    return [
        e["message"]
        for e in mine
        if (e["type"], e["reason"]) == ("Warning", reason)
        for _ in range((e.get("series") or {}).get("count", 1))
    ]


def scale(stage: Stage, space: str, replicas: int) -> None:
    stage.hub("-n", space, "scale", "wl", "--all", f"--replicas={replicas}")


def pods(stage: Stage, member: str, space: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = stage.members[member].items("pods", space)
    return found


def patch(stage: Stage, member: str, found: list[dict[str, Any]], change: dict[str, Any]) -> None:
    """Merge the change into these pods."""
    for pod in found:
        name, where = pod["metadata"]["name"], pod["metadata"]["namespace"]
        kubectl = stage.members[member]
        kubectl("-n", where, "patch", "pod", name, "--type=merge", "-p", json.dumps(change))


def test_units_count_while_the_member_that_shall_create_them_hangs(
    running: Stage, space: str
) -> None:
    with hanging(running, space):
        pass


@pytest.mark.proves("W22", "W24")
def test_units_that_a_hanging_member_does_not_create_give_their_quota_back(
    running: Stage, space: str
) -> None:
    with hanging(running, space):
        running.processes["controller"].kill()  # the start of the units' wait outlives the leader
        running.process("controller")
        until_told(running, space, (2, 4), 0)
        wait("the warning", lambda: warnings(running, space, "CreateFailed"))
        (said,) = warnings(running, space, "CreateFailed")
        assert said == "subset normal, replicas 3: not created in 30 s: member-1/3-5"
        assert running.placements(space, "web") == {"member-1": 5}
    assert len(warnings(running, space, "CreateFailed")) == 1


@contextmanager
def hanging(running: Stage, space: str) -> Iterator[None]:
    """Freeze member-1 while three more units are placed there; then let it create them."""
    running.hub.apply(spread("web", space, *pools(6)), workload("web", space, replicas=2))
    until_placed(running, space, "web", member_1=2)
    until_told(running, space, (2, 4), 0)
    running.signal("member-1", "freeze")
    try:
        scale(running, space, 5)
        until_told(running, space, (5, 1), 0, creatingPods=["member-1/3-5"])
        # The spread's status is written first: a controller killed in between undoes the decision.
        wait("the decision", lambda: running.placements(space, "web") == {"member-1": 5})
        yield
    finally:
        running.signal("member-1", "thaw")
    until_placed(running, space, "web", member_1=5)
    running.until_running(space, "web", timeout=120)
    until_told(running, space, (5, 1), 0)


"""The time that a kubelet lets a pod end in the test above, which is stuck after 15."""


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
