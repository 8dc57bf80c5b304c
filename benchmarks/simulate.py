"""What `stowage simulate --each` costs: the loss of each cluster of a fleet by itself.

    uv run python -m benchmarks.simulate

100 clusters and 2,000 Workloads of ten units and three priorities, which are placed first. The
lines give the processor time of that, and of the hundred losses after it, with the number of
decisions that each made and the milliseconds of one; last the ratio of the hundred losses to as
many decisions, each made alone on the fleet as it is: what counting them as written costs beside.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime

import msgspec

from benchmarks.decide import times
from benchmarks.fleets import clusters
from controller.eventhandlers import known
from controller.model.objects import Workload
from controller.model.unit import WorkloadInfo
from controller.scheduling.sets import Batch
from crds.names import LABEL_CLUSTER
from stowage.fleet.inventory import PlanInputs
from stowage.simulation import simulate
from stowage.simulation.plan import Where
from stowage.simulation.rehearsal import Rehearsal
from stowage.simulation.simulate import Scenario
from tests.fakeclock import FakeClock

CLUSTERS, WORKLOADS, UNITS, ROUNDS = 100, 2_000, 10, 300
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def workload(number: int) -> Workload:
    name = f"web-{number:04}"
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}}
    body = {
        "metadata": {"name": name, "namespace": "shop", "uid": name, "labels": labels},
        "spec": {
            "schedulerName": "stowage",
            "replicas": UNITS,
            "priority": number % 3,
            "distribution": "Divided",
            "spreadConstraints": [{"topologyKey": LABEL_CLUSTER, "maxDomains": 5}],
            "targetDeployment": {**deployment, "spec": spec},
        },
    }
    return known(msgspec.convert(body, Workload))


class Counted:
    """Counts the decisions of simulations, and remembers the last one of these."""

    def __init__(self) -> None:
        self.decisions = 0
        self.simulation: Rehearsal | None = None
        real, count = Rehearsal._decide, self  # noqa: SLF001 - it is what is measured

        def decide(self: Rehearsal, info: WorkloadInfo) -> Batch:
            count.decisions += 1
            count.simulation = self
            return real(self, info)

        Rehearsal._decide = decide  # type: ignore[method-assign]  # noqa: SLF001 - as above


def line(title: str, seconds: float, decisions: int) -> None:
    each = 1000 * seconds / decisions
    print(f"{title:40} {seconds:6.1f} s  {decisions:6} decisions  {each:5.2f} ms each")


def main() -> None:
    count, where = Counted(), Where("shop")
    present = PlanInputs(clusters=clusters(CLUSTERS))
    for number in range(WORKLOADS):
        each = workload(number)
        present.add(each, {})
    configuration, _ = simulate.assumed(where)
    clock = FakeClock()
    began = time.process_time()
    simulate.results(Scenario(), where, present, configuration, clock=clock)
    placed, decisions = time.process_time() - began, count.decisions
    line(f"{CLUSTERS} clusters, {WORKLOADS} Workloads placed", placed, decisions)
    simulation = count.simulation
    assert simulation is not None
    p50, _ = times(lambda: simulation.once(("shop", "web-0000")), ROUNDS)
    began, count.decisions = time.process_time(), 0
    each_of = Scenario(each=LABEL_CLUSTER)
    found = simulate.results(each_of, where, present, configuration, clock=clock)
    seconds, many = time.process_time() - began - placed, count.decisions - decisions
    line(f"and each of {len(found)} clusters lost", seconds, many)
    hit, moved = (sum(getattr(each, of) for each in found) for of in ("hit", "moves"))
    print(f"{hit} units hit, {moved} moved; one decision alone {p50:.2f} ms")
    print(f"in all {seconds + placed:.1f} s; ratio {1000 * seconds / (many * p50):.2f}")


if __name__ == "__main__":
    main()
