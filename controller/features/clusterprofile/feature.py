"""ClusterProfiles as a feature: what the process runs for them. It has no plugin."""

from __future__ import annotations

from controller.features.clusterprofile.controller import ClusterProfileController
from controller.framework.runtime.feature import Feature, Term
from controller.model.objects import MemberCluster
from crds.names import DEFAULT_SCHEDULER
from machinery.api.resources import MEMBER_CLUSTERS


class ClusterProfiles(Feature):
    """The one instance of the feature in a process."""

    controller: ClusterProfileController

    def __init__(self) -> None:
        self.watch(MEMBER_CLUSTERS, MemberCluster, self.cluster_changed)

    def start(self, term: Term) -> ClusterProfileController | None:
        configuration = self.handle.configuration
        section = configuration.cluster_profiles
        # Without the section the controller of the default name takes off what was said before; a
        # controller of other names must not, as it has a configuration of its own.
        if section is None and DEFAULT_SCHEDULER not in configuration.profiles:
            return None
        return ClusterProfileController(term, section)

    def cluster_changed(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        """Handle an informer's event."""
        self.controller.cluster_changed(old, new)
