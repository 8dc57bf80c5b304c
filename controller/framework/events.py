"""Events of objects, and which of them could lift a plugin's refusal.

As in kube-scheduler: a plugin that refuses registers the events that could change its mind, and a
hint may look at each of them before a Workload is requeued. The queue keeps an unschedulable
Workload with the events of the plugins that refused it, and knows neither the plugins nor their
kinds: a resource is a kind by name, and the feature that introduces a kind announces its events.
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
    """Kinds of changes of an object. One change is often several of these."""

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
    """A cluster reports another version, provider, or set of namespaces that it takes."""
    ROOM = enum.auto()
    """A cluster may hold more: it reports so, or replicas in flight there are no longer."""
    SHARES = enum.auto()
    """A Workload has replicas on other clusters than before; something else counts fewer."""
    WORSE = enum.auto()
    """Less is left of it: a cluster has less room, a quota counts more; or replicas counted
    twice are counted once. Helps and requeues no Workload, but a message about the object may be
    untrue."""

    @classmethod
    def every(cls) -> Action:
        """Return all actions that could help."""
        return ~cls.WORSE

    @classmethod
    def updated(cls) -> Action:
        """Return all actions that could help and can happen to an object that stays."""
        return ~(cls.ADDED | cls.DELETED | cls.WORSE)


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """A kind of object, and the kinds of its changes."""

    resource: str
    action: Action


Hint: TypeAlias = Callable[[WorkloadInfo, Any, Any], bool]
"""(the refused Workload, the object before, the object after): whether that could help. No I/O, and
a few microseconds: a hint is asked for each Workload that awaits such an event. The object before
is None for a new one, the one after for one that is gone. Many events at once, and several about
one object, requeue without asking."""

About: TypeAlias = Callable[[WorkloadInfo], str | Key | None]
"""The only object (its key), or the namespace, whose events matter to a Workload; None for any."""


@dataclass(frozen=True, slots=True)
class EventHint:
    """An event that could lift a refusal, and what narrows the event down.

    `about` is looked up in an index, so events about other objects cost nothing; `hint` is asked at
    each event.
    """

    event: ClusterEvent
    hint: Hint | None = None
    about: About | None = None


def on(
    resource: str, action: Action, hint: Hint | None = None, about: About | None = None
) -> EventHint:
    return EventHint(ClusterEvent(resource, action), hint, about)


ANYTHING: Sequence[EventHint] = (on(ANY_RESOURCE, Action.every()),)
"""The events of a plugin that registers none."""

THE_PLAN = ""
"""Stands among plugin names for the plan of shares itself, which several plugins bound."""
PLAN_EVENTS: Sequence[EventHint] = (on(MEMBER_CLUSTER, Action.ADDED | Action.ROOM | Action.SPEC),)
"""The events that a plan awaits, whichever plugins are enabled: the clusters' room bounds it."""


def namespace_of(info: WorkloadInfo) -> str:
    """For `about`: objects of the Workload's own namespace."""
    return info.namespace
