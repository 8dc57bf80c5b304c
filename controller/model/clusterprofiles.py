"""The section `clusterProfiles` of the configuration: import as MemberClusters, and export."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from machinery.types.selectors import LabelSelector


@dataclass(frozen=True, slots=True)
class ImportRule:
    """The ClusterProfiles of a namespace that become MemberClusters."""

    namespace: str
    selector: LabelSelector = field(default_factory=LabelSelector)
    properties: tuple[str, ...] = ()
    """The names of the properties that become labels."""

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return namespace == self.namespace and self.selector.matches(labels)


@dataclass(frozen=True, slots=True)
class ClusterProfilesConfiguration:
    imports: tuple[ImportRule, ...] = ()
    export: bool = False

    def rule(self, namespace: str, labels: Mapping[str, str]) -> ImportRule | None:
        return next((each for each in self.imports if each.selects(namespace, labels)), None)

    def covers(self, namespace: str) -> bool:
        """Whether the ClusterProfiles of the namespace are followed."""
        return any(each.namespace == namespace for each in self.imports)
