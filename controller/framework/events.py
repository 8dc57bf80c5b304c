"""Events of objects, and which of them could lift a plugin's refusal.

A resource is the name of a kind.
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
    """Changes of an object. One update may be several of these."""

    ADDED = enum.auto()
    DELETED = enum.auto()
    LABELS = enum.auto()
    """Of a cluster also what all its nodes, or one, say."""
    ANNOTATIONS = enum.auto()
    TAINTS = enum.auto()
    """The taints or the cordon of a cluster."""
    SPEC = enum.auto()
    """Any other field of the spec."""
    READY = enum.auto()
    """A cluster became reachable or unreachable."""
    VERSION = enum.auto()
    """The version, provider, accepted namespaces or served kinds of a cluster."""
    ROOM = enum.auto()
    """A cluster may hold more: it reports so, its quotas too, or fewer replicas are in flight."""
    SHARES = enum.auto()
    """A Workload has replicas on other clusters, or another object counts fewer."""
    WORSE = enum.auto()
    """Less is left, or replicas counted twice are counted once. Requeues no Workload, but may
    outdate messages about the object."""

    @classmethod
    def every(cls) -> Action:
        """Return all actions that could lift a refusal."""
        return ~cls.WORSE

    @classmethod
    def updated(cls) -> Action:
        """Return all actions of an update that could lift a refusal."""
        return ~(cls.ADDED | cls.DELETED | cls.WORSE)


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    resource: str
    action: Action


Hint: TypeAlias = Callable[[WorkloadInfo, Any, Any], bool]
"""(refused Workload, old object, new object): whether the event could lift the refusal. An object
is None if it was added or deleted. No I/O; a few microseconds, because each waiting Workload's hint
is called. A burst, or several events of one object, requeue without a call.
"""

About: TypeAlias = Callable[[WorkloadInfo], str | Key | None]
"""Returns the key of the only object, or the namespace, whose events matter; None for any."""


@dataclass(frozen=True, slots=True)
class EventHint:
    """An event that could lift a refusal. Events that are not of `about` cost nothing."""

    event: ClusterEvent
    hint: Hint | None = None
    about: About | None = None


def on(
    resource: str, action: Action, hint: Hint | None = None, about: About | None = None
) -> EventHint:
    return EventHint(ClusterEvent(resource, action), hint, about)


ANYTHING: Sequence[EventHint] = (on(ANY_RESOURCE, Action.every()),)

THE_PLAN = ""
"""The plugin name that stands for the plan of shares."""
PLAN_EVENTS: Sequence[EventHint] = (on(MEMBER_CLUSTER, Action.ADDED | Action.ROOM | Action.SPEC),)
"""Awaited by every plan, because room bounds it."""


def namespace_of(info: WorkloadInfo) -> str:
    return info.namespace
