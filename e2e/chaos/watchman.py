"""The watchman of a chaos run: watches on the hub and on each member, past the relays.

The watchman judges every state of a Workload that the hub shows, alone and beside the one before
it; asks about each object that leaves a member; reports a PersistentVolumeClaim that goes though no
user ended its Workload; and compares once a second the hub's statements about members with the
members. A suspicion that a fault of the run may explain is checked on the servers themselves before
it is a finding.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from crds.names import LABEL_MANAGED
from e2e.chaos import judgement, wishes
from e2e.chaos.churn import Churn
from e2e.chaos.faults import Faults
from e2e.chaos.judgement import Whole
from e2e.chaos.judging import Judging
from e2e.chaos.once import OUT_SECONDS, OnceWatch, given_up
from e2e.chaos.stage import CLAIMS, ChaosStage
from e2e.chaos.wishes import FOREIGN, NAMESPACES
from e2e.harness import deployment
from machinery.api.resources import NAMESPACES as NAMESPACE_KIND
from machinery.api.resources import WORKLOADS, Resource
from machinery.errors import AlreadyExists, NotFound, TransportError
from machinery.runtime.informer import Informer
from machinery.types.metadata import Key

KINDS = {
    **wishes.CUSTOM,
    "Deployment": Resource("apps", "v1", "deployments", "Deployment"),
    "StatefulSet": Resource("apps", "v1", "statefulsets", "StatefulSet"),
}
_RECENT_SECONDS = 60.0
"""A copy that was ready within this time counts as ready: roads stall for a third of that."""
_AWAY_SECONDS = 120.0
"""The time in which a move may be the consequence of a deregistration."""
_RETURN_SECONDS = 30.0
"""The time in which statuses may still be those of a member before it was registered again."""
_REPORT_SECONDS = 20.0
"""The time without a fault in which a propagator leads, at the latest, and reports."""
_IDLE_SECONDS = 60.0
"""The time in which a copy may go because its Workload wanted no unit."""
Place = tuple[str, str, Key]
"""(member, kind, key)."""


class Watchman(Judging):
    """Judges a chaos run."""

    def __init__(self, stage: ChaosStage, churn: Churn, faults: Faults) -> None:
        super().__init__()
        self.looks = 0
        self.states = 0
        self.removals = 0
        self.claims = 0
        self.volumes: set[str] = set()
        """The UIDs of all claims that a member ever had: each stands for its data."""
        self._stage = stage
        self._churn = churn
        self._faults = faults
        self._foreign: dict[str, tuple[str, int]] = {}
        self._workloads = Informer(stage.hub, WORKLOADS, Whole)
        self._copies = {
            (member, kind): Informer(
                client, resource, Whole, label_selector=f"{LABEL_MANAGED}=true"
            )
            for member, client in stage.members.items()
            for kind, resource in KINDS.items()
        }
        self._volumes = {
            member: Informer(client, CLAIMS, Whole, label_selector=wishes.LABEL_LIFE)
            for member, client in stage.members.items()
        }
        self._was_ready: dict[Place, float] = {}
        self._told: set[tuple[str, str]] = set()
        self._unsure: set[str] = set()
        """The UIDs of claims of StatefulSets that a person has given up with their cluster."""
        self._claimed: dict[str, float] = {}
        """When each claim of a StatefulSet was first seen, by its UID."""
        self.once = OnceWatch(stage, faults, find=self._find, ask=self._ask, read=_patiently)

    async def prepare(self) -> None:
        """Create a foreign object on each member, with the name of a later Workload."""
        for member, client in self._stage.members.items():
            for namespace in NAMESPACES:
                body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
                with suppress(AlreadyExists):
                    await client.create(NAMESPACE_KIND, body)
            namespace, name = FOREIGN
            foreign = deployment(name, replicas=1)
            foreign["metadata"]["namespace"] = namespace
            made = await client.create(KINDS["Deployment"], foreign, namespace=namespace)
            self._foreign[member] = _identity(made)

    async def run(self) -> None:
        self._workloads.add_handler(self._workload_changed)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._workloads.run())
            for place, informer in self._copies.items():
                informer.add_handler(self._handler(*place))
                tasks.create_task(informer.run())
            for member, volumes in self._volumes.items():
                volumes.add_handler(self._volume_handler(member))
                tasks.create_task(volumes.run())
            for once in self.once.informers():
                tasks.create_task(once.run())
            tasks.create_task(self._look())

    async def left_alone(self) -> list[str]:
        """Return the members whose foreign object was touched."""
        wrong = []
        for member, client in self._stage.members.items():
            namespace, name = FOREIGN
            found = await client.get(KINDS["Deployment"], name, namespace=namespace)
            if _identity(found) != self._foreign[member]:
                wrong.append(f"{member}: the object of nobody was touched: {found['metadata']}")
        return wrong

    async def end(self) -> None:
        """Delete the foreign objects, for the next run on the clusters."""
        namespace, name = FOREIGN
        for client in self._stage.members.values():
            await client.delete(KINDS["Deployment"], name, namespace=namespace)

    # --- what the hub says ------------------------------------------------------------------------

    def _workload_changed(self, old: Whole | None, new: Whole | None) -> None:
        if new is None:
            return
        self.states += 1
        body = new.body()
        self.findings += judgement.disagreements(body)
        self.once.book.noted(body)
        self.once.wanted(body)
        if old is not None:
            away = self._away(_AWAY_SECONDS)
            self.findings += judgement.moved(old.body(), body, excused=away)

    def _away(self, since: float) -> set[str]:
        now = asyncio.get_running_loop().time()
        return {member for member, when in self._faults.away.items() if now < when + since}

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(1)
            self.once.look()
            for member in given_up(self._faults, OUT_SECONDS):
                self._unsure |= {each.metadata.uid for each in self._volumes[member].values()}
            with suppress(TransportError, TimeoutError):
                listed = (await self._stage.hub.list(WORKLOADS))["items"]
                self.looks += 1
                for each in listed:
                    self.findings += judgement.disagreements(each)
                    self._compare(each)
                self.findings += judgement.over_quota(listed)

    def _compare(self, workload: Mapping[str, Any]) -> None:
        """Compare the Workload's statements about members with the watches there."""
        meta = workload["metadata"]
        state = (meta["uid"], meta["resourceVersion"])
        if meta["uid"] in self._faults.spoilt or state in self._told:
            return
        kind, image = judgement.main_of(workload)
        if kind not in KINDS:
            return  # a Job comes and goes
        returning = self._away(_RETURN_SECONDS)
        for cluster in judgement.claims(workload):
            member = judgement.member_of(cluster)
            if member in returning:
                continue
            self.claims += 1
            copy = self._copies[member, kind].get((meta["namespace"], meta["name"]))
            if copy is None or judgement.image_of(copy.body()) != image:
                self._told.add(state)
                self._ask(self._verify(member, workload), seconds=None)

    async def _verify(self, member: str, workload: Mapping[str, Any]) -> None:
        """Ask the member, as the watch may lag behind, and then whether the hub still says so.

        While no propagator can report, the hub says what it was told last.
        """
        reporters = [each for each in self._stage.instances if not each.startswith("controller")]
        while self._faults.quiet("hub", *reporters) < _REPORT_SECONDS:  # noqa: ASYNC110 - of this process
            await asyncio.sleep(0.2)
        meta = workload["metadata"]
        kind, image = judgement.main_of(workload)
        key = (meta["namespace"], meta["name"])
        copy = await _patiently(self._stage.members[member], KINDS[kind], key)
        if copy is not None and judgement.image_of(copy) == image:
            return
        again = await _patiently(self._stage.hub, WORKLOADS, key)
        if again is None or again["metadata"]["resourceVersion"] != meta["resourceVersion"]:
            return
        if meta["uid"] not in self._faults.spoilt:
            there = "is not there" if copy is None else f"runs {judgement.image_of(copy)}"
            self._find(
                f"{key}: says that generation {meta['generation']} ({image}) runs on {member}, "
                f"where it {there}"
            )

    # --- the claims -------------------------------------------------------------------------------

    def _volume_handler(self, member: str) -> Any:
        def changed(old: Whole | None, new: Whole | None) -> None:
            if new is not None:
                self.volumes.add(new.metadata.uid)
                self._claimed.setdefault(new.metadata.uid, asyncio.get_running_loop().time())
            if old is None or old.metadata.deleting:
                return
            if new is None or new.metadata.deleting:
                self._volume_went(member, old, new)

        return changed

    def _volume_went(self, member: str, old: Whole, new: Whole | None) -> None:
        """Report a claim that goes, unless a user ended its Workload.

        That of a StatefulSet goes with it, which a person lets go who gives its cluster up; a hub
        that was set back may have placed it elsewhere.
        """
        owners, uid = judgement.owners(old.metadata.annotations), old.metadata.uid
        if judgement.life_of(old) in self._churn.ended:
            return
        if not owners and (uid in self._unsure or self._claimed[uid] < self._faults.forgot):
            return
        if owners and owners.keys() <= self._churn.forgotten:
            return
        how = "is gone, or nobody's" if new is None else "is being deleted"
        self._find(
            f"{member}: the PersistentVolumeClaim {'/'.join(old.metadata.key)} (uid "
            f"{old.metadata.uid}) {how}, and nobody has ended its Workload "
            f"{owners}"
        )

    def _find(self, finding: str) -> None:
        self.findings.append(f"{finding}; before that: {', '.join(self._faults.acts)}")

    # --- the last copy ----------------------------------------------------------------------------

    def _handler(self, member: str, kind: str) -> Any:
        def changed(old: Whole | None, new: Whole | None) -> None:
            now = asyncio.get_running_loop().time()
            if new is not None and judgement.ready(new.body()):
                self._was_ready[member, kind, new.metadata.key] = now
            if old is None or new is not None or old.metadata.uid in self._faults.meddled:
                return
            self.removals += 1
            for uid, key in judgement.owners(old.metadata.annotations).items():
                others = self._relied_on(member, kind, old, now)
                self._ask(self._judge(member, uid, key, (kind, old), others))

        return changed

    def _relied_on(self, member: str, kind: str, gone: Whole, now: float) -> list[str]:
        """Return the other members whose copy is ready, or was so a moment ago."""
        there = []
        for other in self._stage.members:
            place = (other, kind, gone.metadata.key)
            copy = self._copies[other, kind].get(gone.metadata.key)
            fresh = now - self._was_ready.get(place, -_RECENT_SECONDS) < _RECENT_SECONDS
            if other != member and (fresh or (copy and judgement.ready(copy.body()))):
                there.append(other)
        return there

    async def _judge(
        self, member: str, uid: str, key: Key, gone: tuple[str, Whole], others: list[str]
    ) -> None:
        """Report a copy that went, unless another is ready or none is wanted."""
        copy = gone[1]
        if others or key in self._churn.busy:
            return
        held = await self._holders(gone)
        workload = await _patiently(self._stage.hub, WORKLOADS, key)
        if self._unwanted(workload, uid, key, copy):
            return
        if copy.metadata.uid in self._faults.meddled or uid in self._faults.spoilt:
            return
        healthy = judgement.ready(copy.body())
        if any(held.values()) or (held and not healthy):
            return
        set_back = self._faults.backs > 0
        if workload is not None and judgement.gives_first(workload, set_back=set_back):
            return
        what = f"healthy {gone[0]}" if healthy else gone[0]
        placed = "nowhere, as the hub has forgotten it"
        if workload is not None:
            status = workload.get("status", {})
            placed = f"on {status.get('placements', [])} after {status.get('history', [])}"
        self._find(
            f"{key}: its last {what} (uid {copy.metadata.uid}) was removed from {member}; it is "
            f"placed {placed}, and lies on {sorted(held)}"
        )

    def _unwanted(
        self, workload: Mapping[str, Any] | None, uid: str, key: Key, copy: Whole
    ) -> bool:
        """Return whether a user wants no unit of it, or did so a moment ago.

        A hub that was set back may have no such Workload: then the copy's life decides.
        """
        idle = self._churn.idle_at.get(key, -_IDLE_SECONDS)
        if key in self._churn.busy or asyncio.get_running_loop().time() < idle + _IDLE_SECONDS:
            return True
        if judgement.life_of(copy) in self._churn.ended or uid in self._churn.forgotten:
            return True
        if workload is None or workload["metadata"]["uid"] != uid:
            return False
        return bool(
            workload["metadata"].get("deletionTimestamp") or not workload["spec"]["replicas"]
        )

    async def _holders(self, gone: tuple[str, Whole]) -> dict[str, bool]:
        """Return the members that have a copy of it, and whether that is ready."""
        kind, copy = gone
        held = {}
        for member, client in self._stage.members.items():
            found = await _patiently(client, KINDS[kind], copy.metadata.key)
            if found and judgement.life_of(found) == judgement.life_of(copy):
                held[member] = judgement.ready(found)
        return held


async def _patiently(client: Any, resource: Resource, key: Key) -> dict[str, Any] | None:
    """Return the object, None where there is none; ask again while the server does not answer."""
    while True:
        try:
            found: dict[str, Any] = await client.get(resource, key[1], namespace=key[0])
        except NotFound:
            return None
        except TransportError:
            await asyncio.sleep(0.5)
        else:
            return found


def _identity(found: Mapping[str, Any]) -> tuple[str, int]:
    return found["metadata"]["uid"], found["metadata"]["generation"]
