"""The plugin's controller: carries newer numbers from a ConfigMap to the labels of the clusters.

It runs while this instance leads, and nowhere in `stowage plan` or `stowage explain`: what it has
learnt stands on the hub, where everybody reads it. A ConfigMap that is not there changes nothing,
and neither does an entry that is no number; a region that it names no more loses its labels, so
that the table of the arguments counts again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from controller.framework.runtime.handle import Handle
from machinery import logs
from machinery.api.resources import CONFIG_MAPS, MEMBER_CLUSTERS
from machinery.errors import NotFound
from stowage_carbon.arguments import CarbonArgs, ReadingsArgs
from stowage_carbon.intensities import GRAMS_LABEL, UNKNOWN, number

LOG = logs.get(__name__)


class Readings:
    """Looks at the ConfigMap from time to time, and labels the clusters of its regions."""

    name = "readings"

    def __init__(self, args: CarbonArgs, source: ReadingsArgs, handle: Handle) -> None:
        self._args, self._source, self._handle = args, source, handle
        self._complained = ""
        self._written = handle.metrics.counter(
            "carbon_labels_written", "Labels with a carbon intensity that were written"
        )

    async def run(self) -> None:
        """Until cancelled. What the hub refuses is raised: it is run again after a while."""
        while True:
            await self.look()
            await self._handle.clock.sleep(self._source.seconds)

    async def look(self) -> None:
        """Read the ConfigMap once, and write the labels that say otherwise."""
        client = self._handle.client
        if client is None:
            return
        try:
            stored = await client.get(
                CONFIG_MAPS, self._source.name, namespace=self._source.namespace
            )
        except NotFound:
            LOG.info("there is no ConfigMap %s/%s", self._source.namespace, self._source.name)
            return
        data = stored.get("data") or {}
        self._complain(stored, sorted(region for region in data if number(data[region]) == UNKNOWN))
        for name, label in self._changes(data):
            self._handle.check()  # another instance may lead by now, and write newer numbers
            patch = {"metadata": {"labels": {GRAMS_LABEL: label}}}
            with suppress(NotFound):  # the cluster has gone in between
                await client.merge_patch(MEMBER_CLUSTERS, name, patch)
                self._written.inc()

    def _changes(self, data: Mapping[str, str]) -> Iterator[tuple[str, str | None]]:
        """Each cluster with another label than the ConfigMap wants; None takes it away."""
        for cluster in self._handle.snapshot().clusters:
            labels = cluster.metadata.labels
            wanted = data.get(labels.get(self._args.region_label, ""))
            readable = wanted is None or number(wanted) != UNKNOWN
            if readable and wanted != labels.get(GRAMS_LABEL):
                yield cluster.metadata.name, wanted

    def _complain(self, stored: Mapping[str, Any], unreadable: list[str]) -> None:
        """Say once of each version of the ConfigMap what in it is no number."""
        version = stored["metadata"]["resourceVersion"]
        if not unreadable or version == self._complained:
            return
        self._complained = version
        named = ", ".join(region[:63] for region in unreadable[:3])
        self._handle.recorder.event(
            {"apiVersion": "v1", "kind": "ConfigMap", **stored},
            type="Warning",
            reason="UnreadableIntensity",
            action="ReadIntensities",
            note=f"{len(unreadable)} entries are no whole grams of CO2 per kWh: {named}",
        )
