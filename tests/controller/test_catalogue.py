"""The catalogue: what features add to the registry and to the default profile, and in which place."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from controller import catalogue
from controller.config import default_profile
from controller.framework.percluster import PerClusterFilter
from controller.framework.runtime.arguments import Plain
from controller.framework.runtime.feature import Enabled
from machinery.errors import ConfigurationError

from .licencepool.feature import LicencePools


class Early(PerClusterFilter):
    """Looks before room is looked at."""

    name = "Early"

    def fits(self, info: Any, cluster: Any) -> str:
        return ""


@dataclass
class Bare:
    """A feature of a plugin and nothing else."""

    defaults: tuple[Enabled, ...] = ()
    plugins: dict[str, Any] = field(default_factory=lambda: {"Early": Plain(Early)})
    ledgers: tuple[Any, ...] = ()
    watches: tuple[Any, ...] = ()

    def attach(self, handle: Any) -> None:
        """Nothing to remember."""

    def lead(self, term: Any) -> None:
        """Nothing to do."""

    def stop_leading(self) -> None:
        """Nothing to end."""


def order(point: str, *features: Any) -> list[str]:
    return [name for name, _ in catalogue.registry(features).defaults.get(point, ())]


def test_a_feature_says_ahead_of_whom_its_plugin_stands() -> None:
    ahead = Bare(defaults=(Enabled("filter", "Early", before="ClusterResources"),))
    assert order("filter", ahead)[-2:] == ["Early", "ClusterResources"]
    assert order("filter", Bare(defaults=(Enabled("filter", "Early"),)))[-1] == "Early"
    assert order("filter", Bare()) == order("filter")


def test_features_that_come_with_stowage_do_not_share_their_defaults() -> None:
    assert order("filter", Bare(defaults=(Enabled("filter", "Early"),))) != order("filter")
    names = [plugin.name for plugin in default_profile().filter]
    ours = names.index("WorkloadPolicy")
    there = ["WorkloadPolicy", "WorkloadSpread", "Reservation", "Coscheduling", "TaintEviction"]
    there.append("Failover")
    assert names[ours : ours + 7] == [*there, "ClusterResources"]


def test_two_features_cannot_bring_one_plugin() -> None:
    with pytest.raises(ConfigurationError, match="a plugin named Early already"):
        catalogue.registry([Bare(), Bare()])


def test_an_installed_package_adds_a_feature(monkeypatch: pytest.MonkeyPatch) -> None:
    def points(group: str) -> list[Any]:
        assert group == "stowage.features"
        return [SimpleNamespace(name="pools", load=lambda: LicencePools)]

    monkeypatch.setattr(catalogue, "installed", points)
    assert any(isinstance(each, LicencePools) for each in catalogue.features())
    assert "LicenceSeats" in [plugin.name for plugin in default_profile().permit]
