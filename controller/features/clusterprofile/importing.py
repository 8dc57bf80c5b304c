"""ClusterProfiles become MemberClusters, which then follow them.

`Imports` makes the MemberClusters: one for each ClusterProfile that the configuration selects and
that none stands for, whatever its name, as `stowage rename` gives another one. `Following` keeps
their labels, and writes the condition InventoryUnhealthy, from which the propagator stops serving a
member. A MemberCluster is never deleted, and its spec is written once: an inventory that is edited
sends no token to another address. What Stowage has exported is never imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from controller.features.clusterprofile.profiles import (
    ClusterProfile,
    flaw,
    membercluster,
    relabelled,
    trouble,
)
from controller.framework.runtime.feature import Term
from controller.framework.statuswriter import Result, StatusWriter, for_good
from controller.model.clusterprofiles import ClusterProfilesConfiguration
from controller.model.objects import MemberCluster
from crds.membercluster import ClusterProfileEventReason, MemberClusterCondition
from crds.names import ANNOTATION_PROFILE
from machinery import logs
from machinery.api.resources import CLUSTER_PROFILES, MEMBER_CLUSTERS
from machinery.errors import AlreadyExists, Forbidden, TransportError
from machinery.runtime.event_recorder import ObjectRef
from machinery.runtime.informer import Informer
from machinery.runtime.workqueue import WorkQueue, work
from machinery.types import conditions
from machinery.types.bounds import clean
from machinery.types.metadata import Key

LOG = logs.get(__name__)
AGAIN_SECONDS = 60.0
"""Seconds until a MemberCluster that the hub refuses, or that is another one, is tried again."""
_WORKERS = 4
_UNHEALTHY = MemberClusterCondition.INVENTORY_UNHEALTHY.value


class Imports:
    """The MemberClusters that have to be made, for one term of leadership."""

    def __init__(
        self,
        term: Term,
        profiles: Informer[ClusterProfile],
        standing: Callable[[Key], bool],
        configuration: ClusterProfilesConfiguration,
    ) -> None:
        self._term = term
        self._profiles = profiles
        self._standing = standing
        self._clusters: Informer[MemberCluster] = term.informer(MEMBER_CLUSTERS)
        self._configuration = configuration
        self._told: dict[Key, str] = {}
        self._queue: WorkQueue[Key] = WorkQueue(name="clusterprofileimports", clock=term.clock)

    def look(self, key: Key) -> None:
        """Queue a ClusterProfile that changed, or whose MemberCluster is gone."""
        self._queue.add(key)

    async def run(self) -> None:
        """Make MemberClusters until cancelled."""
        try:
            await work(self._queue, self.sync, workers=_WORKERS, log=LOG)
        finally:
            self._queue.shut_down()

    async def sync(self, key: Key) -> float | None:
        """Make the MemberCluster of one ClusterProfile where it lacks; return seconds to the next.

        Raises TransportError where trying again may help, and LeaseLost.
        """
        profile = self._profiles.get(key)
        if profile is None or profile.metadata.deleting or profile.ours or self._standing(key):
            self._told.pop(key, None)
            return None
        rule = self._configuration.rule(key[0], profile.metadata.labels)
        if rule is None:
            return None
        if why := flaw(profile):
            self._tell(profile, why)
            return None
        try:
            self._term.check()
            made = membercluster(profile, rule.properties)
            answer = await self._term.client.create(MEMBER_CLUSTERS, made)
        except AlreadyExists:
            name = profile.metadata.name
            note = f"{ANNOTATION_PROFILE}: {'/'.join(key)}"
            self._tell(
                profile,
                f"there is a MemberCluster {name} that stands for another one, or for none: the "
                f"annotation `{note}` on it says that it is this one",
            )
            return AGAIN_SECONDS
        except TransportError as e:
            if not (for_good(e) or isinstance(e, Forbidden)):
                raise
            self._tell(profile, f"the hub refuses its MemberCluster: {clean(str(e))}")
            return AGAIN_SECONDS
        else:
            self._told.pop(key, None)
            self._clusters.upsert(msgspec.convert(answer, MemberCluster))
        return None

    def _tell(self, profile: ClusterProfile, why: str) -> None:
        meta = profile.metadata
        if self._told.get(meta.key) == why:
            return
        self._told[meta.key] = why
        about = ObjectRef(CLUSTER_PROFILES.api_version, CLUSTER_PROFILES.kind, *meta.key, meta.uid)
        self._term.recorder.event(
            about,
            type="Warning",
            reason=ClusterProfileEventReason.NOT_IMPORTED.value,
            note=why,
            action="Import",
        )


class Following(StatusWriter[MemberCluster]):
    """What MemberClusters say of the ClusterProfiles that they stand for.

    Without `profiles` nothing is followed, and what was said before is taken off.
    """

    action = "Import"

    def __init__(
        self,
        term: Term,
        profiles: Informer[ClusterProfile] | None,
        configuration: ClusterProfilesConfiguration,
    ) -> None:
        super().__init__(term, MEMBER_CLUSTERS, MemberCluster)
        self._profiles = profiles
        self._configuration = configuration

    async def prepare(self, stored: MemberCluster) -> None:
        """Bring the labels up to date, as far as the ClusterProfile is selected."""
        key = self._followed(stored)
        profile = self._profile(key) if key is not None else None
        if key is None or profile is None:
            return
        rule = self._configuration.rule(key[0], profile.metadata.labels)
        if rule is None or flaw(profile):
            return
        patch = relabelled(stored, profile, rule.properties)
        if patch:
            self._check()
            meta = stored.metadata
            patch["resourceVersion"] = meta.resource_version
            answer: Any = await self._client.merge_patch(
                MEMBER_CLUSTERS, meta.name, {"metadata": patch}
            )
            self._stored.upsert(msgspec.convert(answer, MemberCluster))

    def draft(self, stored: MemberCluster) -> Result | None:
        key, said = self._followed(stored), stored.condition(_UNHEALTHY)
        if key is not None and not (self._profiles is not None and self._profiles.trusted):
            return None  # whether it is gone is not known now
        why = trouble(key, self._profile(key)) if key is not None else None
        if why is None and said is None:
            return None
        others = [each.stored for each in stored.status.conditions if each.type != _UNHEALTHY]
        if why is not None:
            renewed = conditions.renewed(
                {} if said is None else said.stored,
                type_=_UNHEALTHY,
                true=True,
                reason=why[0].value,
                message=why[1],
                now=self._clock.now(),
                generation=stored.metadata.generation,
            )
            if said is not None and renewed == said.stored:
                return None
            others.append(renewed)
        return Result(fields={"conditions": others}, anyway=True)

    def _followed(self, stored: MemberCluster) -> Key | None:
        """Return the ClusterProfile that a MemberCluster follows; None where it follows none."""
        key = stored.profile
        return key if key is not None and self._configuration.covers(key[0]) else None

    def _profile(self, key: Key) -> ClusterProfile | None:
        return self._profiles.get(key) if self._profiles is not None else None
