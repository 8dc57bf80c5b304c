"""ClusterProfiles as a feature: what the process runs for them. It has no plugin."""

from __future__ import annotations

from collections.abc import Mapping

from controller.cache.ledger import Ledger
from controller.features.clusterprofile.controller import ClusterProfileController
from controller.framework.runtime.arguments import Factory
from controller.framework.runtime.feature import Enabled, Term, Watch
from controller.framework.runtime.handle import Handle
from controller.model.objects import MemberCluster
from crds.names import DEFAULT_SCHEDULER
from machinery.api.resources import MEMBER_CLUSTERS


class ClusterProfiles:
    """The one instance of the feature in a process."""

    defaults: tuple[Enabled, ...] = ()
    ledgers: tuple[Ledger, ...] = ()

    def __init__(self) -> None:
        self.plugins: Mapping[str, Factory] = {}
        self.watches = (Watch(MEMBER_CLUSTERS, MemberCluster, self.cluster_changed),)
        self._handle: Handle | None = None
        self._controller: ClusterProfileController | None = None

    def attach(self, handle: Handle) -> None:
        """Keep the handle: it has the configuration."""
        self._handle = handle

    def lead(self, term: Term) -> ClusterProfileController | None:
        assert self._handle is not None  # noqa: S101 - `attach` comes first
        configuration = self._handle.configuration
        section = configuration.cluster_profiles
        # Without the section the controller of the default name takes off what was said before; a
        # controller of other names must not, as it has a configuration of its own.
        if section is None and DEFAULT_SCHEDULER not in configuration.profiles:
            return None
        self._controller = ClusterProfileController(term, section)
        return self._controller

    def stop_leading(self) -> None:
        self._controller = None

    def cluster_changed(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        """Handle an informer's event."""
        if self._controller is not None:
            self._controller.cluster_changed(old, new)
