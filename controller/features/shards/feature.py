"""Shards as a feature without a plugin: it tells of members that no propagator serves."""

from __future__ import annotations

from controller.features.shards.controller import ShardController
from controller.framework.runtime.feature import Feature, Term
from controller.model.objects import MemberCluster
from machinery.api.resources import MEMBER_CLUSTERS


class Shards(Feature):
    controller: ShardController

    def __init__(self) -> None:
        self.watch(MEMBER_CLUSTERS, MemberCluster, self.cluster_changed, gone=self.cluster_gone)

    def start(self, term: Term) -> ShardController:
        return ShardController(term)

    def cluster_changed(self, _old: MemberCluster | None, new: MemberCluster) -> None:
        self.controller.add(new.metadata.key)

    def cluster_gone(self, old: MemberCluster) -> None:
        self.controller.forget(old.metadata.key)
