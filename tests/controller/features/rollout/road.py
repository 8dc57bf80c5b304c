"""A rollout over looks, for tests of the wave machine: its status is what the last look said."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from controller.features.rollout.machine import Machine, RolloutCluster, RolloutStep, RolloutView
from machinery.types.workload_api import Rollout, RolloutStatus, RolloutWave

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
OLD, NEW, NEWER = "a" * 16, "b" * 16, "c" * 16


class Road:
    """A rollout over looks: the members do at once what they are told, where nothing else is said."""

    def __init__(
        self, *waves: RolloutWave, clusters: Iterable[tuple[str, int]], **pace: Any
    ) -> None:
        self.spec = Rollout(waves=list(waves), **pace)
        self.seconds = 0.0
        self.clusters = {
            name: RolloutCluster(name, wave, revision=OLD, settled=True) for name, wave in clusters
        }
        self.status: RolloutStatus | None = RolloutStatus("Complete", OLD, OLD)
        self.exceptions: dict[str, str] = {}
        self.digest = OLD
        self.lost = ""
        self.open_waves: frozenset[int] = frozenset()
        self.told: list[str] = []

    def look(self) -> RolloutStep:
        now = BEGINNING + timedelta(seconds=self.seconds)
        there = [self.clusters[name] for name in sorted(self.clusters)]
        view = RolloutView(
            self.spec, self.status, self.exceptions, there, now, self.lost, self.open_waves
        )
        step = Machine(view, self.digest).step()
        self.status, self.exceptions = step.status, dict(step.exceptions)
        self.told += [event.reason for event in step.events]
        return step

    def after(self, seconds: float) -> RolloutStep:
        self.seconds += seconds
        return self.look()

    def edit(self, digest: str) -> RolloutStep:
        self.digest = digest
        return self.look()

    def pace(self, **fields: Any) -> RolloutStep:
        self.spec = msgspec.structs.replace(self.spec, **fields)
        return self.look()

    def see(self, name: str, **fields: Any) -> None:
        self.clusters[name] = replace(self.clusters[name], **fields)

    def obey(self, *names: str) -> None:
        """These clusters, or all, are settled with what they are given."""
        for name in names or self.clusters:
            if self.clusters[name].reachable:
                self.see(name, revision=self.target(name), settled=True)

    def target(self, name: str) -> str:
        assert self.status is not None
        return self.exceptions.get(name, self.status.revision)

    def given(self, revision: str = NEW) -> set[str]:
        return {name for name in self.clusters if self.target(name) == revision}

    @property
    def phase(self) -> str:
        assert self.status is not None
        return self.status.phase

    def wave(self, name: str) -> Any:
        assert self.status is not None
        return next(each for each in self.status.waves if each.name == name)

    def place(self, name: str, wave: int) -> None:
        """Another scheduler places the Workload on one more cluster."""
        self.clusters[name] = RolloutCluster(name, wave)

    def admit(self, name: str, wave: int) -> None:
        """A decision places the Workload on one more cluster."""
        self.clusters[name] = RolloutCluster(name, wave)
        there = [self.clusters[each] for each in sorted(self.clusters)]
        view = RolloutView(self.spec, self.status, self.exceptions, there)
        step = Machine(view, "").admit([name])
        assert self.status is not None
        self.status = msgspec.structs.replace(self.status, updates=step.status.updates)
        self.exceptions = dict(step.exceptions)
