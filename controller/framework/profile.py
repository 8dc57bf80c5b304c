"""A profile: the plugins at each extension point, in order, for one schedulerName."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from controller.framework import points
from controller.unit import Unit

PROTOCOLS: Mapping[str, type] = {
    "queueSort": points.QueueSort,
    "preFilterHook": points.PreFilterHook,
    "preFilter": points.PreFilter,
    "filterHook": points.FilterHook,
    "filter": points.Filter,
    "postFilter": points.PostFilter,
    "preScore": points.PreScore,
    "scoreHook": points.ScoreHook,
    "score": points.Score,
    "assign": points.Assign,
    "reserve": points.Reserve,
    "permit": points.Permit,
    "preBind": points.PreBind,
    "postBind": points.PostBind,
}
"""The names of the points in the configuration, in the order in which a pass calls them.

NormalizeScore belongs to its Score plugin and is called right after it; Bind is the one status
write.
"""


@dataclass(frozen=True, slots=True)
class Profile:
    """The enabled plugins. `weights` are those of the Score plugins, by name."""

    scheduler_name: str
    queue_sort: points.QueueSort
    before_pre_filter: Sequence[points.PreFilterHook] = ()
    pre_filter: Sequence[points.PreFilter] = ()
    before_filter: Sequence[points.FilterHook] = ()
    filter: Sequence[points.Filter] = ()
    post_filter: Sequence[points.PostFilter] = ()
    pre_score: Sequence[points.PreScore] = ()
    before_score: Sequence[points.ScoreHook] = ()
    score: Sequence[points.Score] = ()
    assign: Sequence[points.Assign] = ()
    reserve: Sequence[points.Reserve] = ()
    permit: Sequence[points.Permit] = ()
    pre_bind: Sequence[points.PreBind] = ()
    post_bind: Sequence[points.PostBind] = ()
    weights: Mapping[str, int] = field(default_factory=dict)
    names: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The plugins at each point."""

    @staticmethod
    def of(
        scheduler_name: str, enabled: Mapping[str, Sequence[Any]], weights: Mapping[str, int]
    ) -> Profile:
        """A profile of plugins by point; every point is optional but queueSort."""
        return Profile(
            scheduler_name=scheduler_name,
            queue_sort=enabled["queueSort"][0],
            before_pre_filter=enabled.get("preFilterHook", ()),
            pre_filter=enabled.get("preFilter", ()),
            before_filter=enabled.get("filterHook", ()),
            filter=enabled.get("filter", ()),
            post_filter=enabled.get("postFilter", ()),
            pre_score=enabled.get("preScore", ()),
            before_score=enabled.get("scoreHook", ()),
            score=enabled.get("score", ()),
            assign=enabled.get("assign", ()),
            reserve=enabled.get("reserve", ()),
            permit=enabled.get("permit", ()),
            pre_bind=enabled.get("preBind", ()),
            post_bind=enabled.get("postBind", ()),
            weights=weights,
            names={p: frozenset(each.name for each in those) for p, those in enabled.items()},
        )

    def assigner(self, unit: Unit) -> points.Assign | None:
        """The first Assign plugin that serves the unit; None where the configuration has none."""
        return next((plugin for plugin in self.assign if plugin.serves(unit)), None)

    def settled(self, unit: Unit, now: datetime) -> Unit:
        """The unit with what its assigner has learnt of its clusters by now."""
        plugin = self.assigner(unit)
        return plugin.settled(unit, now) if isinstance(plugin, points.Settle) else unit

    def next_look(self, unit: Unit, now: datetime) -> float | None:
        """Seconds until there may be more to learn though nothing is reported, or None."""
        plugin = self.assigner(unit)
        return plugin.next_look(unit, now) if isinstance(plugin, points.Settle) else None
