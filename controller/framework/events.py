"""What can happen to an object, and which of it could lift a plugin's refusal.

As in kube-scheduler: a plugin that refuses says which events could change its mind, and may look at
each of them with a hint before anybody is woken for it. The queue parks a refused Workload with the
events of those who refused it, and knows neither the plugins nor their kinds: a resource is a kind
by name, and whoever introduces a kind announces its events.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from controller.model.unit import WorkloadInfo
from machinery.types.metadata import Key

MEMBER_CLUSTER = "MemberCluster"
WORKLOAD = "Workload"
ANY_RESOURCE = "*"


class Action(enum.Flag):
    """What happened to an object. One change of it is often several of these."""

    ADDED = enum.auto()
    DELETED = enum.auto()
    LABELS = enum.auto()
    ANNOTATIONS = enum.auto()
    TAINTS = enum.auto()
    """A cluster's taints, or its cordon."""
    SPEC = enum.auto()
    """Anything else of the spec."""
    READY = enum.auto()
    """A cluster began to answer, or stopped."""
    VERSION = enum.auto()
    """What a cluster says of itself: its version, its provider, the namespaces that it takes."""
    ROOM = enum.auto()
    """A cluster may hold more: it says so, or units on their way there are not any more."""
    SHARES = enum.auto()
    """A Workload has units on other clusters than before; something else counts fewer of them."""
    WORSE = enum.auto()
    """Less is left of it: a cluster has less room, a quota counts more; or units that a cluster and
    we have counted both are counted once again.

    That helps nobody and wakes nobody, but what was said of it may be true no longer.
    """

    @classmethod
    def every(cls) -> Action:
        """All that could help."""
        return ~cls.WORSE

    @classmethod
    def updated(cls) -> Action:
        """All that could help and can happen to an object that was there before and still is."""
        return ~(cls.ADDED | cls.DELETED | cls.WORSE)


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """Something that happens in the cluster of clusters: to which kind of object, and what."""

    resource: str
    action: Action


Hint: TypeAlias = Callable[[WorkloadInfo, Any, Any], bool]
"""(the refused unit, the object before, the object after): whether that could help.

No I/O, and a few microseconds: it is asked for each Workload that waits for such an event. The
object before is None for a new one, the one after for one that is gone. Many events at once, and
several about one object, wake without asking.
"""

About: TypeAlias = Callable[[WorkloadInfo], str | Key | None]
"""The only object (its key), or the namespace, whose events matter to a unit; None for any."""


@dataclass(frozen=True, slots=True)
class EventHint:
    """An event that could lift a refusal, and what narrows that down.

    `about` costs nothing at an event that is about something else; `hint` is asked at each.
    """

    event: ClusterEvent
    hint: Hint | None = None
    about: About | None = None


def on(
    resource: str, action: Action, hint: Hint | None = None, about: About | None = None
) -> EventHint:
    """An EventHint, in one line."""
    return EventHint(ClusterEvent(resource, action), hint, about)


ANYTHING: Sequence[EventHint] = (on(ANY_RESOURCE, Action.every()),)
"""What a plugin waits for that does not say."""

THE_PLAN = ""
"""Stands among the names of plugins for the plan of shares itself, which all of them bound."""
PLAN_EVENTS: Sequence[EventHint] = (on(MEMBER_CLUSTER, Action.ADDED | Action.ROOM | Action.SPEC),)
"""What a plan waits for, whichever plugins are enabled: the clusters' room is its own bound."""


def namespace_of(unit: WorkloadInfo) -> str:
    """For `about`: objects of the unit's own namespace."""
    return unit.namespace
