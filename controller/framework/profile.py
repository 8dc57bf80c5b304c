"""A profile: the plugins at each extension point, in order, for one schedulerName."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from controller.framework import explains, interface
from controller.framework.gathering import GroupScheduling
from controller.model.moving import MovementConfiguration
from machinery.types.selectors import LabelSelector


@dataclass(frozen=True, slots=True)
class ImportRule:
    """The ClusterProfiles of a namespace that become MemberClusters."""

    namespace: str
    selector: LabelSelector = field(default_factory=LabelSelector)
    properties: tuple[str, ...] = ()
    """The names of the properties that become labels."""

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return namespace == self.namespace and self.selector.matches(labels)


@dataclass(frozen=True, slots=True)
class ClusterProfilesConfiguration:
    imports: tuple[ImportRule, ...] = ()
    export: bool = False

    def rule(self, namespace: str, labels: Mapping[str, str]) -> ImportRule | None:
        return next((each for each in self.imports if each.selects(namespace, labels)), None)

    def covers(self, namespace: str) -> bool:
        """Whether the ClusterProfiles of the namespace are followed."""
        return any(each.namespace == namespace for each in self.imports)


PROTOCOLS: Mapping[str, type | tuple[type, ...]] = {
    "queueSort": interface.QueueSort,
    "preFilterHook": interface.PreFilterHook,
    "preFilter": interface.PreFilter,
    "filterHook": interface.FilterHook,
    "filter": interface.Filter,
    "deschedule": interface.Deschedule,
    "postFilter": interface.PostFilter,
    "preScore": interface.PreScore,
    "scoreHook": interface.ScoreHook,
    "score": interface.Score,
    "assign": (interface.Assign, interface.Bounds),
    "reserve": interface.Reserve,
    "permit": interface.Permit,
    "preBind": interface.PreBind,
    "postBind": interface.PostBind,
}
"""The points of the configuration, in the order of a pass."""
_HOOKS = {
    "preFilterHook": "before_pre_filter",
    "filterHook": "before_filter",
    "scoreHook": "before_score",
}
_FIELDS = {
    point: _HOOKS.get(point) or re.sub("([A-Z])", r"_\1", point).lower() for point in PROTOCOLS
}
"""The field of `Profile` of each point."""


PLUGIN_TIMEOUT = 2.0


@dataclass(frozen=True, slots=True)
class Profile:
    """The enabled plugins. `weights` are those of the Score plugins, by name."""

    scheduler_name: str
    queue_sort: interface.QueueSort
    before_pre_filter: Sequence[interface.PreFilterHook] = ()
    pre_filter: Sequence[interface.PreFilter] = ()
    before_filter: Sequence[interface.FilterHook] = ()
    filter: Sequence[interface.Filter] = ()
    deschedule: Sequence[interface.Deschedule] = ()
    post_filter: Sequence[interface.PostFilter] = ()
    pre_score: Sequence[interface.PreScore] = ()
    before_score: Sequence[interface.ScoreHook] = ()
    score: Sequence[interface.Score] = ()
    assign: Sequence[interface.Assign | interface.Bounds] = ()
    reserve: Sequence[interface.Reserve] = ()
    permit: Sequence[interface.Permit] = ()
    pre_bind: Sequence[interface.PreBind] = ()
    post_bind: Sequence[interface.PostBind] = ()
    weights: Mapping[str, int] = field(default_factory=dict)
    plugin_timeout: float = PLUGIN_TIMEOUT
    """Per call; 0 for no limit."""
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The plugins at each point, in order."""
    plugins: Mapping[str, interface.Plugin] = field(init=False)
    telling: Sequence[explains.TellsStatus] = field(init=False, repr=False)
    telling_own: Sequence[explains.TellsOwnStatus] = field(init=False, repr=False)
    normalizing: Mapping[str, interface.NormalizeScore] = field(init=False, repr=False)
    bounds: Sequence[interface.Bounds] = field(init=False, repr=False)
    assigners: Sequence[interface.Assign] = field(init=False, repr=False)
    learning: Sequence[interface.Settle] = field(init=False, repr=False)
    gathering: Sequence[GroupScheduling] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Sort plugins by protocol once: an isinstance check costs microseconds."""
        plugins = {plugin.name: plugin for plugin in self.every_plugin()}
        gathers = [p for p in self.pre_filter if isinstance(p, GroupScheduling)]
        found = {
            "plugins": plugins,
            "telling": [p for p in plugins.values() if isinstance(p, explains.TellsStatus)],
            "telling_own": [p for p in plugins.values() if isinstance(p, explains.TellsOwnStatus)],
            "normalizing": {
                p.name: p for p in self.score if isinstance(p, interface.NormalizeScore)
            },
            "bounds": [p for p in self.assign if isinstance(p, interface.Bounds)],
            "assigners": [p for p in self.assign if isinstance(p, interface.Assign)],
            "learning": [p for p in (*self.assign, *gathers) if isinstance(p, interface.Settle)],
            "gathering": gathers,
        }
        for name, value in found.items():
            object.__setattr__(self, name, value)

    @staticmethod
    def of(
        scheduler_name: str,
        enabled: Mapping[str, Sequence[Any]],
        weights: Mapping[str, int],
        plugin_timeout: float = PLUGIN_TIMEOUT,
    ) -> Profile:
        """Return a profile. Only queueSort is required in `enabled`."""
        points: dict[str, Any] = {_FIELDS[point]: those for point, those in enabled.items()}
        points["queue_sort"] = enabled["queueSort"][0]
        return Profile(
            scheduler_name=scheduler_name,
            **points,
            weights=weights,
            plugin_timeout=plugin_timeout,
            names={p: tuple(each.name for each in those) for p, those in enabled.items()},
        )

    def every_plugin(self) -> Iterator[interface.Plugin]:
        """Yield the plugins of all points, with repetitions."""
        yield self.queue_sort
        for name in [*_FIELDS.values()][1:]:
            yield from getattr(self, name)

    def refusing(self) -> list[interface.Plugin]:
        """Return the plugins that can keep replicas out, each once."""
        before_write = (*self.reserve, *self.permit, *self.pre_bind)
        found = (*self.pre_filter, *self.filter, *self.deschedule, *self.assign, *before_write)
        return list({plugin.name: plugin for plugin in found}.values())

    def hooks(self) -> list[interface.Plugin]:
        return [*self.before_pre_filter, *self.before_filter, *self.before_score]


@dataclass(frozen=True, slots=True)
class SchedulerConfiguration:
    """`args` are those of plugins as written, by scheduler name and plugin."""

    profiles: Mapping[str, Profile]
    leader_elect: bool = True
    args: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    movement: MovementConfiguration = field(default_factory=MovementConfiguration)
    cluster_profiles: ClusterProfilesConfiguration | None = None
    placement_decisions: bool = False
