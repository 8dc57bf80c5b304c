"""MemberClusters as the evacuation controller would write them, for a simulation. Pure."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

import msgspec

from controller.features.evacuation import status, taints
from controller.features.evacuation.taints import brake_of
from controller.model.moving import MovementConfiguration
from controller.model.objects import Condition, MemberCluster
from crds.membercluster import MemberClusterCondition, ReadyReason
from crds.names import TAINT_DRAIN
from machinery.types.taints import Taint

_READY = MemberClusterCondition.READY.value
_EVACUATING = MemberClusterCondition.EVACUATING.value


def evacuated(
    clusters: Collection[MemberCluster], configuration: MovementConfiguration, now: datetime
) -> list[MemberCluster]:
    found = brake_of(clusters, configuration.brake)
    brake = "" if found is None else found.text
    return [
        _noted(each, configuration, now, brake)
        if taints.in_force(each) or each.evacuating
        else each
        for each in clusters
    ]


def _noted(
    cluster: MemberCluster, configuration: MovementConfiguration, now: datetime, brake: str
) -> MemberCluster:
    said = status.evacuation_of(
        cluster,
        status.NOTHING,
        configuration,
        now,
        blind=False,
        doubted=False,
        brake=brake,
        before="",
    )
    condition = Condition(_EVACUATING, str(said.true), said.reason.value, said.message)
    return _with(cluster, condition, evacuation=said.evacuation)


def cordoned(cluster: MemberCluster) -> MemberCluster:
    spec = msgspec.structs.replace(cluster.spec, unschedulable=True)
    return msgspec.structs.replace(cluster, spec=spec)


def drained(cluster: MemberCluster) -> MemberCluster:
    drain = Taint(TAINT_DRAIN, taints.NO_EXECUTE)
    others = [each for each in cluster.spec.taints if each.key != TAINT_DRAIN]
    spec = msgspec.structs.replace(cluster.spec, unschedulable=True, taints=[*others, drain])
    return msgspec.structs.replace(cluster, spec=spec)


def lost(cluster: MemberCluster) -> MemberCluster:
    return _with(cluster, Condition(_READY, "False", ReadyReason.UNREACHABLE.value))


def _with(cluster: MemberCluster, condition: Condition, **fields: object) -> MemberCluster:
    others = [each for each in cluster.status.conditions if each.type != condition.type]
    changed = msgspec.structs.replace(cluster.status, conditions=[*others, condition], **fields)
    return msgspec.structs.replace(cluster, status=changed)
