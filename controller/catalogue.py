"""The features and plugins that come with Stowage. No other module knows all of them.

Installed packages add more by entry points of the groups `stowage.features` and `stowage.plugins`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from controller.features.clusterprofile.feature import ClusterProfiles
from controller.features.evacuation.feature import Evacuations
from controller.features.publishing.feature import Publishing
from controller.features.reservation.feature import Reservations
from controller.features.rollout.feature import StagedRollouts
from controller.features.shards.feature import Shards
from controller.features.workloadgroup.feature import WorkloadGroups
from controller.features.workloadkind.feature import WorkloadKinds
from controller.features.workloadpolicy.feature import WorkloadPolicies
from controller.features.workloadquota.feature import WorkloadQuotas
from controller.features.workloadquota.plugin import NAME as QUOTA
from controller.features.workloadspread.feature import WorkloadSpreads
from controller.framework.runtime.feature import Feature
from controller.framework.runtime.registry import Registry, installed, loaded
from controller.plugins.defaults import BUILTIN, DEFAULTS

FEATURES: Sequence[Callable[[], Feature]] = (
    WorkloadPolicies,
    WorkloadSpreads,
    Reservations,
    WorkloadGroups,
    WorkloadQuotas,
    Evacuations,
    Shards,
    StagedRollouts,
    ClusterProfiles,
    Publishing,
    WorkloadKinds,
)
DEFAULT_QUOTA = QUOTA
"""The plugin that gets `defaultQuota` of the configuration."""
ENTRY_POINTS = "stowage.features"


def features() -> list[Feature]:
    """Return a new instance of each feature.

    Raises ConfigurationError for an installed feature that cannot be imported.
    """
    theirs = [loaded(f"feature {point.name}", point.load) for point in installed(ENTRY_POINTS)]
    return [make() for make in (*FEATURES, *theirs)]


def registry(of: Sequence[Feature] | None = None) -> Registry:
    """Return the plugins of Stowage and of the features, which are new by default.

    Raises ConfigurationError if two plugins have one name.
    """
    known = Registry(BUILTIN, DEFAULTS)
    for feature in features() if of is None else of:
        known.with_feature(feature)
    return known
