"""`stowage simulate`: what the fleet would come to, in steps instead of seconds.

The fleet is read once, from the hub or from files. What moves there already ends; then all that is
asked for happens at once, and the controller's own decisions follow. What is told of as before is
the fleet as read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from controller.features.evacuation.taints import most_lost
from controller.framework.profile import SchedulerConfiguration
from controller.model.moving import NEVER
from controller.model.objects import MemberCluster, Workload
from controller.model.placed import is_workload
from controller.model.unit import restated, scaled
from crds.faults import suggestion
from crds.names import GROUP, LABEL_CLUSTER
from machinery.clock import Clock, SystemClock
from machinery.errors import ConfigurationError
from machinery.types.bounds import MOST_UNITS, clean
from machinery.types.budget import amount
from machinery.types.metadata import Key
from stowage.console import output, words
from stowage.console.terminal import say
from stowage.fleet import cluster_files, inventory, manifests
from stowage.fleet.inventory import PlanInputs
from stowage.kinds import titled
from stowage.simulation import foresight, outcomes
from stowage.simulation.moves import Simulation
from stowage.simulation.outcomes import UnitCounts, Usage, WorkloadOutcome
from stowage.simulation.plan import Where

SHOWN = 3
"""Workloads that a line of counts names."""
_COLUMNS = ("workload", "before", "after", "moves", "order")
_EACH = ("lose", "replicas hit", "move", "no place", "await fence", "tightest after", "brake")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What happens at once.

    Args:
        lose: names of clusters, or `key=value` of their labels.
        cordon: names of clusters that nothing new comes to; what runs there stays.
        drain: names of clusters that are cordoned, and that what runs there leaves.
        add: files with MemberClusters.
        scale: the units of Workloads, by key.
        files: files that are applied.
        each: a label key; each of its values is lost in a run of its own. Empty for one run.
    """

    lose: Sequence[str] = ()
    cordon: Sequence[str] = ()
    drain: Sequence[str] = ()
    add: Sequence[str] = ()
    scale: Mapping[Key, int] = field(default_factory=dict)
    files: Sequence[str] = ()
    each: str = ""

    @property
    def title(self) -> str:
        parts = [
            ("Lose", self.lose),
            ("Cordon", self.cordon),
            ("Drain", self.drain),
            ("Add", self.add),
            ("Scale", [f"{titled(key)}={n}" for key, n in self.scale.items()]),
            ("Apply", self.files),
        ]
        return ", ".join(f"{verb} {' and '.join(names)}" for verb, names in parts if names)


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """One run: the units, the Workloads and the clusters before and after it."""

    title: str
    hit: int
    hit_workloads: int
    counts: tuple[UnitCounts, UnitCounts]
    workloads: Sequence[WorkloadOutcome]
    usage: tuple[Usage, Usage]
    left: Sequence[str]
    """The clusters that go on."""
    steps: int
    lost: int
    registered: int
    most_lost: int
    braked: str
    moving: int
    """The units that may move at once."""
    max_moving: int | str

    @property
    def homeless(self) -> int:
        return self.counts[1].waiting

    @property
    def moves(self) -> int:
        return sum(each.moves for each in self.workloads if each.told)

    @property
    def tightest(self) -> tuple[str, str, int] | None:
        return outcomes.tightest(self.usage[1], self.left)

    def to_dict(self) -> dict[str, Any]:
        tightest = self.tightest
        return {
            "title": self.title,
            "unitsHit": self.hit,
            "workloadsHit": self.hit_workloads,
            "before": self.counts[0].to_dict(),
            "after": self.counts[1].to_dict(),
            "moves": self.moves,
            "steps": self.steps,
            "brake": {
                "state": "braked" if self.braked else "open",
                "lost": self.lost,
                "registered": self.registered,
                "limit": self.most_lost,
                "message": self.braked,
            },
            "tightest": None
            if tightest is None
            else dict(zip(("cluster", "resource", "percent"), tightest, strict=True)),
            "clusters": [
                {"cluster": name, "before": self.usage[0].get(name, {}), "after": asked}
                for name, asked in sorted(self.usage[1].items())
            ],
            "workloads": list(outcomes.as_json(each for each in self.workloads if each.told)),
        }

    def table(self) -> str:
        total = self.counts[0].placed
        head = (
            f"{self.title}: {self.hit} of {words.count(total, 'replica')} of "
            f"{words.count(self.hit_workloads, 'Workload')} lose their cluster"
        )
        parts = [head, output.table([*self._counts(), *self._clusters()], _SUMMARY)]
        told = [each for each in self.workloads if each.told]
        told.sort(key=lambda each: (not each.order, each.order, -each.priority, each.key))
        if told:
            parts.append(output.table([_row(each) for each in told], _COLUMNS))
        if others := [each for each in self.workloads if each.moved and not each.told]:
            replicas = words.count(sum(each.moves for each in others), "replica")
            workloads = words.count(len(others), "Workload")
            parts.append(f"Besides, {replicas} of {workloads} move already")
        return "\n".join((*parts, self._end()))

    def _counts(self) -> Iterator[dict[str, Any]]:
        first, last = self.counts
        yield {"": "placed", "before": first.placed, "after": last.placed, " ": ""}
        for title, units, many, word in (
            ("no new place", (first.waiting, last.waiting), "homeless", _lacking),
            ("awaits fence", (first.fenced, last.fenced), "fenced", _once),
            ("hold data", (first.data, last.data), "data", _holding),
            ("stay on paper", (first.paper, last.paper), "paper", _many("paper")),
        ):
            some = [each for each in self.workloads if getattr(each, many)]
            if some or any(units):
                named = ", ".join(map(word, some[:SHOWN]))
                more = f" and {len(some) - SHOWN} more" if len(some) > SHOWN else ""
                yield {"": title, "before": units[0], "after": units[1], " ": named + more}

    def _clusters(self) -> Iterator[dict[str, Any]]:
        before, after = self.usage
        for name in sorted(self.left):
            if (most := outcomes.tightest(after, [name])) is None:
                continue
            _, resource, percent = most
            was = before.get(name, {}).get(resource)
            if was != percent:
                first = "-" if was is None else f"{resource} {was}%"
                yield {"": name, "before": first, "after": f"{resource} {percent}%", " ": ""}

    def _end(self) -> str:
        units = words.count(self.moving, "replica")
        steps = f"Steps: {self.steps} at maxMoving {self.max_moving} ({units})"
        if self.braked:
            return f"{steps}. Brake: braked ({self.braked})"
        numbers = f"{self.lost} of {self.registered} lost, limit {self.most_lost}"
        return f"{steps}. Brake: stays open ({numbers})"

    def line(self) -> dict[str, Any]:
        """Return the row of a table of several runs."""
        tightest = self.tightest
        return {
            "lose": self.title,
            "replicas hit": self.hit,
            "move": self.moves,
            "no place": self.homeless,
            "await fence": self.counts[1].fenced,
            "tightest after": "-" if tightest is None else "{} {} {}%".format(*tightest),
            "brake": "braked" if self.braked else "open",
        }


_SUMMARY = ("", "before", "after", " ")


def _lacking(each: WorkloadOutcome) -> str:
    return f"{each.name} {each.homeless}: NoRoom ({clean(each.lacks)})"


def _once(each: WorkloadOutcome) -> str:
    return f"{each.name} (at most once)"


def _holding(each: WorkloadOutcome) -> str:
    return f"{each.name} {each.data}: HoldsData ({clean(each.data_message)})"


def _many(field_: str) -> Any:
    return lambda each: f"{each.name} {getattr(each, field_)}"


def _row(each: WorkloadOutcome) -> dict[str, Any]:
    return {
        "workload": each.name,
        "before": words.shares(each.before),
        "after": words.shares(each.after),
        "moves": each.moves,
        "order": f"{each.order} (priority {each.priority})" if each.order else "-",
    }


def show(scenario: Scenario, where: Where, form: str) -> bool:
    """Print what the scenario comes to; return whether every unit has a place.

    Raises ConfigurationError for what does not exist, and as `Where` does.
    """
    configuration, note = assumed(where)
    if note and (scenario.lose or scenario.each):
        more = "" if where.config_file else "; --config names the controller's file"
        say(f"note: {note}{more}", err=True)
    present = where.present()
    for each in present.notes:
        say(f"note: {each}", err=True)
    found = results(scenario, where, present, configuration, clock=SystemClock())
    if not scenario.each:
        output.show(found[0].to_dict(), form, text=found[0].table())
    else:
        told = {"key": scenario.each, "runs": [each.to_dict() for each in found]}
        output.show(told, form, text=output.table([each.line() for each in found], _EACH))
    return not any(each.homeless for each in found)


def assumed(where: Where) -> tuple[SchedulerConfiguration, str]:
    """Return the configuration, and a note on what of it is assumed.

    A hub does not show the file of its controller: without one the defaults hold.
    """
    configuration = where.configuration()
    seconds = configuration.movement.not_ready_toleration_seconds
    if where.config_file is not None:
        note = "movement.notReadyTolerationSeconds is -1: nothing leaves a lost cluster by itself"
        return configuration, note if seconds == NEVER else ""
    note = f"a lost cluster is left, as with movement.notReadyTolerationSeconds: {seconds}"
    return configuration, note


def results(
    scenario: Scenario,
    where: Where,
    present: PlanInputs,
    configuration: SchedulerConfiguration,
    *,
    clock: Clock,
) -> list[SimulationResult]:
    """Return the one run of the scenario, or one for each value of its key `each`.

    Raises ConfigurationError for a cluster or a Workload that does not exist.
    """
    now = clock.now()
    simulation = Simulation(present, configuration, now=now, handle=where.handle)
    simulation.arrive()
    counts, used = outcomes.counted(simulation), outcomes.usage(simulation)
    simulation.play()
    simulation.mark()
    already = {each.key: each for each in outcomes.outcomes(simulation)}
    first = _First(outcomes.after(counts, already.values()), used, already, simulation.steps)
    change = _Change.of(scenario, where, present, simulation, now)
    change.make(simulation)
    if not scenario.each:
        return [_run(simulation, change, scenario.lose, first, scenario.title or "Nothing")]
    simulation.mark()
    found = []
    for value in _values(simulation.members.values(), scenario.each):
        lose = (*scenario.lose, f"{scenario.each}={value}")
        found.append(_run(simulation, change, lose, first, value))
        simulation.restore()
    return found


def _values(clusters: Iterable[MemberCluster], key: str) -> list[str]:
    """Return the values of a label. Raises ConfigurationError if no cluster has it."""
    found = sorted({value for each in clusters if (value := each.labels.get(key, ""))})
    if not found:
        raise ConfigurationError(f"no cluster has the label {key}")
    return found


@dataclass(frozen=True, slots=True)
class _First:
    """The fleet as it is, and what becomes of it if nothing else happens, in so many steps."""

    counts: UnitCounts
    usage: Usage
    outcomes: Mapping[Key, WorkloadOutcome]
    steps: int

    def followed_by(self, last: Iterable[WorkloadOutcome]) -> list[WorkloadOutcome]:
        """Return the outcomes of both runs, each from now to the end, by their names."""
        found = dict(self.outcomes)
        found = {key: each.following(each, self.steps) for key, each in found.items()}
        for each in last:
            first = self.outcomes.get(each.key)
            found[each.key] = each if first is None else each.following(first, self.steps)
        return [found[key] for key in sorted(found)]


@dataclass(frozen=True, slots=True)
class _Change:
    """What differs from the fleet, before any cluster is lost."""

    clusters: Mapping[str, MemberCluster]
    drained: frozenset[str]
    workloads: Sequence[Workload]
    objects: Sequence[tuple[Any, Any]]

    @staticmethod
    def of(
        scenario: Scenario,
        where: Where,
        present: PlanInputs,
        simulation: Simulation,
        now: datetime,
    ) -> _Change:
        clusters = {}
        for document in manifests.read(scenario.add):
            if not document.of(GROUP, "MemberCluster") and document.kind:
                raise document.error("--add takes MemberClusters")
            added = cluster_files.member(document)
            if added.metadata.name in simulation.members:
                raise document.error("metadata.name: there is a cluster of this name already")
            clusters[added.metadata.name] = added
        all_ = {**simulation.members, **clusters}
        for name in scenario.cordon:
            clusters[name] = foresight.cordoned(_cluster(all_, name))
        for name in scenario.drain:
            clusters[name] = foresight.drained(_cluster(all_, name))
        before = dict(present.objects)
        asked = inventory.to_apply(
            manifests.read(scenario.files), present, namespace=where.namespace, now=now
        )
        present.notes += inventory.ignored(asked.others)
        workloads = {key: _over(each, simulation) for key, each in asked.workloads.items()}
        objects = [
            (before.get(at), each)
            for at, each in present.objects.items()
            if before.get(at) is not each
        ]
        for key, units in scenario.scale.items():
            stored = workloads.get(key) or simulation.placed.get(key)
            if stored is None or not is_workload(key):
                raise ConfigurationError(f"there is no Workload {titled(key)}")
            workloads[key] = scaled(stored, units)
        return _Change(clusters, frozenset(scenario.drain), list(workloads.values()), objects)

    def make(self, simulation: Simulation) -> None:
        for before, after in self.objects:
            simulation.hear(before, after)
        simulation.change(self.clusters.values())
        for workload in self.workloads:
            simulation.store(workload)


def _run(
    simulation: Simulation,
    change: _Change,
    lose: Iterable[str],
    first: _First,
    title: str,
) -> SimulationResult:
    """Lose clusters beside that change, and return what comes of it all."""
    members = simulation.members
    lost = {name for each in lose for name in chosen(members.values(), each)}
    gone = lost | change.drained
    on = [
        sum(units)
        for key, each in simulation.placed.items()
        if is_workload(key)
        and (units := [n for name, n in each.placements.items() if name in gone])
    ]
    simulation.change(foresight.lost(members[name]) for name in lost)
    simulation.play(each.metadata.key for each in change.workloads)
    listed, movement = first.followed_by(outcomes.outcomes(simulation)), simulation.movement
    return SimulationResult(
        title,
        sum(on),
        len(on),
        (first.counts, outcomes.after(outcomes.counted(simulation), listed)),
        listed,
        (first.usage, outcomes.usage(simulation)),
        [name for name in simulation.members if name not in gone],
        first.steps + simulation.steps,
        len(outcomes.lost(simulation)),
        len(simulation.members),
        most_lost(len(simulation.members), movement.brake),
        outcomes.braked(simulation),
        max(amount(movement.max_moving, first.counts.placed, up=False), 1),
        movement.max_moving,
    )


def chosen(clusters: Collection[MemberCluster], one: str) -> list[str]:
    """Return the clusters of a name or of `key=value`. Raises ConfigurationError without any."""
    key, equals, value = one.partition("=")
    if not equals:
        key, value = LABEL_CLUSTER, one
    found = [each.metadata.name for each in clusters if each.labels.get(key) == value]
    if not found:
        meant = suggestion(one, (each.metadata.name for each in clusters))
        what = f"no cluster has the label {one}" if equals else f"there is no cluster {one}{meant}"
        raise ConfigurationError(what)
    return found


def _cluster(clusters: Mapping[str, MemberCluster], name: str) -> MemberCluster:
    if name not in clusters:
        meant = suggestion(name, clusters)
        raise ConfigurationError(f"there is no cluster {name}{meant}")
    return clusters[name]


def _over(workload: Workload, simulation: Simulation) -> Workload:
    """Return a Workload of a file with the status that the simulation has come to."""
    there = simulation.placed.get(workload.metadata.key)
    if there is None:
        return workload
    return restated(workload, workload.metadata, there.status)


def scales(texts: Sequence[str], namespace: str) -> dict[Key, int]:
    """Return the units of `ns/wl=N` or `wl=N`. Raises ValueError for another form."""
    found = {}
    for text in texts:
        name, equals, number = text.rpartition("=")
        *space, workload = name.split("/")
        if not (equals and workload and len(space) < 2 and number.isascii() and number.isdigit()):
            raise ValueError(f"{text!r} is not of the form namespace/workload=replicas")
        if int(number) > MOST_UNITS:
            raise ValueError(f"{text!r} is more than {MOST_UNITS} replicas")
        found[space[0] if space else namespace, workload] = int(number)
    return found
