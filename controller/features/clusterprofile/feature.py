"""ClusterProfiles as a feature without a plugin."""

from __future__ import annotations

from controller.features.clusterprofile.controller import ClusterProfileController
from controller.framework.runtime.feature import Feature, Term
from controller.model.objects import MemberCluster
from crds.names import DEFAULT_SCHEDULER
from machinery.api.resources import MEMBER_CLUSTERS


class ClusterProfiles(Feature):
    controller: ClusterProfileController

    def __init__(self) -> None:
        self.watch(MEMBER_CLUSTERS, MemberCluster, self.cluster_changed)

    def start(self, term: Term) -> ClusterProfileController | None:
        configuration = self.handle.configuration
        section = configuration.cluster_profiles
        # Without the section the controller of the default name removes earlier conditions. A
        # controller of other names must not, because the section may be in another configuration.
        if section is None and DEFAULT_SCHEDULER not in configuration.profiles:
            return None
        return ClusterProfileController(term, section)

    def cluster_changed(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        self.controller.cluster_changed(old, new)
