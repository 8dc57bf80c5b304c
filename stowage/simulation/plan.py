"""`stowage plan`: the placements and their reasons, if these files were applied.

With clusters in files no hub is asked; otherwise the hub is read once. The controller's own code
decides, in its own order, so a plan that differs from what happens means that the hub changed in
between.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controller import catalogue, config
from controller.binding.moving import holds_data
from controller.explain.pending import shortage_of
from controller.explain.record import completions, hooks, ordinals, record
from controller.framework.explains import either
from controller.framework.profile import Profile, SchedulerConfiguration
from controller.framework.runtime.handle import DryRunHandle
from controller.model.objects import MemberCluster, Workload
from controller.model.place import Part
from controller.model.unit import WorkloadInfo
from controller.plugins.clusteroverrides import ClusterOverrides
from controller.scheduling.decision import Decision
from crds.faults import suggestion
from crds.fields.dependencies import Dependencies
from crds.fields.movement import MovingReason
from crds.fields.why import ChangeCause
from crds.names import DEFAULT_SCHEDULER
from machinery.clock import Clock, SystemClock
from machinery.config.kubeconfig import Connection
from machinery.errors import ConfigurationError
from machinery.kinds.profile import Pods
from machinery.kinds.templates import kind_of_pods
from machinery.types import hostports, quantities
from machinery.types.bounds import clean, quoted
from machinery.types.metadata import Key
from stowage.console import output, words
from stowage.console.terminal import say
from stowage.fleet import admission, inventory, manifests
from stowage.fleet.inventory import PlanInputs
from stowage.fleet.manifests import Document
from stowage.hub import Reader, reader
from stowage.kinds import titled, told
from stowage.naming import clusters_named
from stowage.simulation import gangs
from stowage.simulation.gangs import GroupPlan
from stowage.simulation.kindnotes import notes
from stowage.simulation.rehearsal import Rehearsal

if TYPE_CHECKING:
    from stowage.simulation.dependencies import Along
    from stowage.simulation.waves import ForeseenRollout

COLUMNS = ("workload", "desired", "assigned", "pending", "clusters", "change")


@dataclass(frozen=True, slots=True)
class Planned:
    """A decision on an object of that kind, and the shares that it has now."""

    decision: Decision
    before: Mapping[str, int]
    kind: str
    along: Sequence[Along] = ()
    """What it brings along by `spec.dependencies`."""
    rollout: ForeseenRollout | None = None
    """What its revision would go through by `spec.rollout`."""
    notes: Sequence[str] = ()
    """What an edit or letting go does, in the words of its kind."""

    @property
    def changed(self) -> bool:
        return dict(self.before) != dict(self.decision.placements)

    @property
    def unfit(self) -> list[str]:
        """What keeps placed units from ever running where they are."""
        return [f"does not fit: {clean(text)}" for text in unfit(self.decision)]

    @property
    def later(self) -> list[str]:
        """What of a move follows after this step."""
        units = words.count(self.decision.moving.held, "replica")
        verb = "moves" if self.decision.moving.held == 1 else "move"
        text = f"first step of a move: {units} {verb} later; stowage simulate shows the end"
        return [text] if self.decision.moving.held else []

    def to_dict(self) -> dict[str, Any]:
        """Return the record of the decision, and the shares of now as `present`.

        `moveLater` is how many units of a move follow after this step.
        """
        along = {"bringsAlong": [each.to_dict() for each in self.along]} if self.along else {}
        rollout = {"rollout": self.rollout.to_dict()} if self.rollout else {}
        later = {"moveLater": held} if (held := self.decision.moving.held) else {}
        notes = {"notes": list(self.notes)} if self.notes else {}
        found = recorded(self.decision, self.kind)
        present = {"present": words.listed(self.before)}
        return {**found, **present, **later, **along, **rollout, **notes}


def recorded(decision: Decision, kind: str) -> dict[str, Any]:
    """Return the record of a decision, with the Reservations that its units are inside.

    `doesNotFit` has a sentence for each cluster on which no node can run the units that stay.
    """
    misfits = {"doesNotFit": texts} if (texts := unfit(decision)) else {}
    profile = {"profile": profile_of(decision.workload)}
    return {**told(record(decision), kind), **profile, "reservations": inside(decision), **misfits}


def profile_of(info: WorkloadInfo) -> dict[str, Any]:
    """Return what its kind makes of a Workload: the pods are those of one replica."""
    parts = info.place.parts
    if not parts and info.request:
        sort = info.profile.pods[0] if info.profile.pods else Pods()
        name = sort.name or kind_of_pods(sort.template)
        parts = (Part(name, 1, tuple(info.request.items()), info.place),)
    pods = [{"name": p.name, "count": p.count, "requests": requests_of(p)} for p in parts]
    return {"replicas": info.asked, "whole": info.profile.whole, "pods": pods}


def requests_of(part: Part) -> dict[str, str]:
    """Return the amounts of one pod, as Kubernetes writes them."""
    amounts = dict(part.request)
    return {
        resource: quantities.render(resource, n)
        for resource, n in sorted(amounts.items())
        if resource != "pods" and not resource.startswith(hostports.PREFIX)
    }


def unfit(decision: Decision) -> list[str]:
    return [
        eviction.note
        for cluster, eviction in sorted(decision.moving.evictions.items())
        if eviction.cause == ChangeCause.NO_NODE and decision.placements.get(cluster)
    ]


def inside(decision: Decision) -> list[dict[str, Any]]:
    """Return the units inside of Reservations, as the Workload's status would list them."""
    shares: list[dict[str, Any]] = decision.fields.get("reservations") or []
    return shares


@dataclass(frozen=True, slots=True)
class Plan:
    """The decisions on the objects of the files, in their order, and on others that would move."""

    planned: Sequence[Planned]
    notes: Sequence[str]
    groups: Sequence[GroupPlan] = ()
    bodies: Mapping[Key, Mapping[str, Any]] = field(default_factory=dict)
    clusters: Sequence[MemberCluster] = ()

    @property
    def changes(self) -> bool:
        return any(each.changed for each in self.planned)

    def to_dict(self) -> dict[str, Any]:
        return {
            "workloads": [each.to_dict() for each in self.planned],
            "groups": [each.to_dict() for each in self.groups],
        }

    def table(self) -> str:
        parts = [self._workloads()] if self.planned or not self.groups else []
        return "\n\n".join((*parts, *([gangs.table(self.groups)] if self.groups else ())))

    def _workloads(self) -> str:
        """Return a row for each Workload; below it Reservations, waves, hooks, the reason."""
        rows = [_row(each) for each in self.planned]
        return output.table(rows, COLUMNS, below=map(self._below, self.planned))

    def _below(self, each: Planned) -> Iterator[str]:
        decision = each.decision
        if rooms := words.inside(inside(decision), decision.workload.namespace):
            yield rooms
        if ranges := words.ordinals(ordinals(decision)):
            yield ranges
        if work := words.completions(completions(decision)):
            yield work
        if each.along:
            yield _line(each.along)
        if each.rollout:
            yield from each.rollout.lines()
        yield from (*each.notes, *each.unfit, *each.later, *words.hooks(hooks(decision)))
        if not decision.scheduled:
            yield f"{decision.reason.value}: {self._why(decision)}"
        if decision.moving.data:
            yield f"{MovingReason.HOLDS_DATA.value}: {clean(holds_data(decision))}"

    def _why(self, decision: Decision) -> str:
        """Return the reason of a Workload, or a reference to its group if that says the same."""
        for each in self.groups:
            info = decision.workload
            mine = [(info.namespace, name) for name in info.groups] == [each.key]
            if mine and each.reason == decision.reason.value:
                return f"as {each.title} says below"
        return clean(decision.message)  # labels in a template may hold any text


def _row(planned: Planned) -> dict[str, Any]:
    decision = planned.decision
    change = words.change(planned.before, decision.placements)
    unmoved = "no change" if decision.placements or not decision.pending else "pending"
    return {
        "workload": titled(decision.workload.key),
        "desired": decision.desired,
        "assigned": decision.assigned,
        "pending": decision.pending,
        "clusters": words.shares(decision.placements),
        "change": change or unmoved,
    }


def show(files: Sequence[str], where: Where, form: str) -> Plan:
    """Print the plan, and its notes to standard error. Raises as `Where` and `make` do."""
    made = make(files, where, clock=SystemClock())
    for note in made.notes:
        say(f"note: {note}", err=True)
    if form == "table":
        say(made.table())  # without the records, which take long to make for a large plan
    else:
        output.show(made.to_dict(), form, text="")
    return made


@dataclass(frozen=True, slots=True)
class Where:
    """The hub or the files of a plan, and the profiles that decide.

    `plugins` are factories that no installed package offers, as `module:factory`.
    """

    namespace: str
    fleet: Sequence[str] = ()
    hub: Connection | None = None
    config_file: Path | None = None
    plugins: Sequence[str] = ()
    handle: DryRunHandle = field(default_factory=DryRunHandle)

    def present(self) -> PlanInputs:
        """Return the objects that exist. Raises ConfigurationError, TransportError."""
        if self.hub is None:
            return inventory.of_fleet(manifests.read(self.fleet), namespace=self.namespace)
        with reader(self.hub) as api:
            return inventory.of_hub(api)

    def configuration(self) -> SchedulerConfiguration:
        """Return the configuration of the file, or the default one. Raises ConfigurationError."""
        registry = catalogue.registry().with_installed().with_modules(self.plugins)
        if self.config_file is not None:
            return config.load(self.config_file, registry, self.handle)
        profile = config.default_profile(registry, self.handle)
        return SchedulerConfiguration({DEFAULT_SCHEDULER: profile})

    def rehearsal(
        self,
        configuration: SchedulerConfiguration,
        present: PlanInputs,
        *,
        now: datetime,
        over: Mapping[Key, Workload] | None = None,
    ) -> Rehearsal:
        """Return what decides on these objects; Workloads in `over` replace some of them."""
        return Rehearsal(
            configuration.profiles,
            clusters=present.clusters,
            workloads={**present.workloads, **(over or {})}.values(),
            objects=present.objects.values(),
            now=now,
            handle=self.handle,
            movement=configuration.movement,
        )


def make(files: Sequence[str], where: Where, *, clock: Clock) -> Plan:
    """Return the plan for the objects of these files.

    Raises ConfigurationError for a wrong one, and as `Where` does.
    """
    found, configuration, now = manifests.read(files), where.configuration(), clock.now()
    if not found:
        raise ConfigurationError(f"{', '.join(files)}: no Workload in these files")
    present = where.present()
    asked = inventory.to_apply(found, present, namespace=where.namespace, now=now)
    rehearsal = where.rehearsal(configuration, present, now=now, over=asked.workloads)
    rehearsal.run(asked.keys)
    everybody = rehearsal.placed
    made = {
        key: Planned(decision, everybody[key].placements, rehearsal.kind_of(key))
        for key, decision in rehearsal.decisions.items()
    }
    planned = [made[key] for key in asked.keys if key in made]
    planned += [made[key] for key in sorted(made.keys() - set(asked.keys)) if made[key].changed]
    bodies = {**present.stored, **asked.bodies}
    others = {(each.kind, admission.key_of(each, where.namespace)): each for each in asked.others}
    planned = _with_dependencies(planned, bodies, others, present, where)
    planned = [_with_rollout(each, bodies, present.clusters) for each in planned]
    planned = [_with_notes(each, asked.bodies, present.stored) for each in planned]
    theirs = [
        left(everybody[key], configuration.profiles)
        for key in asked.keys
        if key not in made and key in everybody
    ]
    groups = _groups(rehearsal, present, asked, [each.decision.workload.key for each in planned])
    known = {each.metadata.name for each in present.clusters}
    unknown = chain.from_iterable(_unknown(key, asked.bodies[key], known) for key in asked.bodies)
    along = {
        (found.kind, (each.decision.workload.namespace, found.name))
        for each in planned
        for found in each.along
    }
    unused = inventory.ignored([each for of, each in others.items() if of not in along])
    misfits = chain.from_iterable(map(_misfits, planned))
    notes = [*present.notes, *unused, *unknown, *theirs, *misfits]
    return Plan(planned, notes, groups, asked.bodies, present.clusters)


def _unknown(key: Key, body: Mapping[str, Any], known: Collection[str]) -> Iterator[str]:
    """Yield which clusters a Workload names that are not there; they may come later."""
    for path, name in clusters_named(body.get("spec")):
        if name not in known:
            meant = suggestion(name, known)
            yield f"{titled(key)}: {path}: there is no cluster {quoted(name)}{meant}"


def _misfits(planned: Planned) -> Iterator[str]:
    """Yield which overrides do not fit on clusters that are not used: no reason tells of them."""
    decision = planned.decision
    said = zip(decision.refusals, decision.masks, strict=True) if decision.scheduled else ()
    for refusal, mask in said:
        if refusal.plugin != ClusterOverrides.name:
            continue
        names = [name for name, out in zip(decision.snapshot.names, mask, strict=True) if out]
        where = either(sorted({*names} - decision.placements.keys()), "and")
        why = decision.plugins[refusal.plugin].why(shortage_of(decision), refusal, mask)
        if where:
            text = f"{titled(decision.workload.key)}: {refusal.text} on {where}, not used now"
            yield clean(": ".join(filter(None, (text, why))))


def _with_dependencies(
    planned: Sequence[Planned],
    bodies: Mapping[Key, Mapping[str, Any]],
    others: Mapping[tuple[str, Key], Document],
    present: PlanInputs,
    where: Where,
) -> list[Planned]:
    def follows(each: Planned) -> bool:
        spec = bodies.get(each.decision.workload.key, {}).get("spec") or {}
        return bool(spec.get("dependencies") == Dependencies.FOLLOW.value)

    if not any(map(follows, planned)):
        return [*planned]
    core = {of: each.body for of, each in others.items() if each.body.get("apiVersion") == "v1"}
    with nullcontext() if where.hub is None else reader(where.hub) as api:
        return [
            replace(each, along=_along(each, bodies, core, present, api)) if follows(each) else each
            for each in planned
        ]


def _with_notes(
    each: Planned, asked: Mapping[Key, Mapping[str, Any]], stored: Mapping[Key, Mapping[str, Any]]
) -> Planned:
    key = each.decision.workload.key
    spec, before = ((found.get(key) or {}).get("spec") for found in (asked, stored))
    return replace(each, notes=tuple(notes(spec, before))) if spec else each


def _with_rollout(
    each: Planned, bodies: Mapping[Key, Mapping[str, Any]], clusters: Sequence[MemberCluster]
) -> Planned:
    body = bodies.get(each.decision.workload.key, {})
    if not (body.get("spec") or {}).get("rollout"):
        return each
    from stowage.simulation import waves  # noqa: PLC0415 - loads the models of the kinds

    return replace(each, rollout=waves.foreseen(body, each.decision.placements, clusters))


def _along(
    each: Planned,
    bodies: Mapping[Key, Mapping[str, Any]],
    given: Mapping[tuple[str, Key], Mapping[str, Any]],
    present: PlanInputs,
    api: Reader | None,
) -> list[Along]:
    from stowage.simulation import dependencies  # noqa: PLC0415 - loads the propagator's parts

    decision = each.decision
    body = overridden(bodies[decision.workload.key], decision)
    placed = [c for c in present.clusters if c.metadata.name in decision.placements]
    return dependencies.of_plan(body, placed, api, given)


def overridden(body: Mapping[str, Any], decision: Decision | None) -> dict[str, Any]:
    """Return a Workload with the overrides that a decision gives its shares, in its status."""
    overrides = decision.fields.get("overrides") if decision is not None else None
    return {**body, "status": {"overrides": overrides or []}}


def _line(along: Sequence[Along]) -> str:
    from stowage.simulation import dependencies  # noqa: PLC0415 - as above

    return dependencies.line(along)


def _groups(
    rehearsal: Rehearsal, present: PlanInputs, asked: inventory.PlanRequest, planned: Iterable[Key]
) -> list[GroupPlan]:
    """Return the groups of the files, in their order, and those that planned Workloads name."""
    found = dict.fromkeys(key for kind, key in asked.beside if kind == gangs.KIND)
    found |= dict.fromkeys(
        (info.namespace, info.groups[0])
        for info in map(rehearsal.info, planned)
        if info is not None and len(info.groups) == 1
    )
    stored = {key: present.objects.get((gangs.KIND, key)) for key in found}
    return [gangs.judged(rehearsal, key, stored[key], rehearsal.decisions) for key in found]


def left(workload: Workload, profiles: Mapping[str, Profile]) -> str:
    """Return why nothing is decided of a Workload."""
    name = titled(workload.metadata.key)
    if workload.metadata.deleting:
        return f"{name} is being deleted"
    ours = " and ".join(sorted(profiles))
    return f"{name} is left to scheduler {workload.spec.scheduler_name}; asked is {ours}"
