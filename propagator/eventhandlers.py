"""Maps each change on the hub or on a member to the keys to reconcile, and drops ended state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from machinery.tasks import Gradually
from machinery.types.metadata import Key
from propagator.hub.named_objects import NamedObjects
from propagator.hub.workloads import SECRET_INDEX, HubWorkloads, clusters_of
from propagator.members.cluster_identity import noted
from propagator.members.context import ControllerContext
from propagator.members.inventory import OwnedObjects
from propagator.members.pulled import PullSession
from propagator.reconciler import running
from propagator.status.controller import Reporter
from propagator.types.cluster import MemberCluster
from propagator.types.hub_objects import HubSecret
from propagator.types.workload import Workload

_USER = "resources"


class EventHandlers:
    def __init__(
        self,
        context: ControllerContext,
        *,
        workloads: HubWorkloads,
        secrets: NamedObjects[HubSecret],
        inventory: OwnedObjects,
        reporter: Reporter,
    ) -> None:
        self._registry = context.registry
        self._clusters = context.clusters
        self._membership = context.membership
        self._workloads = workloads
        self._secrets = secrets
        self._inventory = inventory
        self._reporter = reporter
        self._shares = context.shares
        self.syncs: Gradually[tuple[str, Key]] = Gradually(lambda at: self._registry.wake(*at))
        self.reports: Gradually[Key] = Gradually(reporter.queue.add)
        workloads.informer.add_handler(self.workload_changed)
        context.registry.on_change(self.member_changed)
        context.registry.key_of = workloads.key_of
        context.clusters.add_handler(self.cluster_changed)
        context.membership.on_change(self.members_changed)

    def workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        known = new or old
        if known is None:
            return
        for secret in new.secrets if new is not None else ():
            self._secrets.need((known.metadata.namespace, secret), _USER)
        if old is not None:
            self._end(old, new)
        self._reporter.queue.add(known.metadata.key)
        # This process's own status writes arrive here too: they wake only members that are left.
        self._queue(known, self._concerned(known, before=old if new is not None else None))

    def gate_changed(self, workload: Workload) -> None:
        self._queue(workload, self._clusters_of(workload) | self._inventory.holders(workload.uid))

    def member_changed(self, name: str, key: Key | None) -> None:
        if key is not None:
            self._reporter.queue.add(key)
            workload = self._workloads.informer.get(key)
            lacking = self._reporter.lacking(workload) if workload is not None else set()
            for member in lacking - {name}:
                self._registry.wake(member, key)  # what it waits for may be gone
            return
        if self._registry.get(name) is None:
            self._shares.drop_member(name)
        keys = [workload.metadata.key for workload in self._workloads.touching(name)]
        kept = [workload.metadata.key for workload in self._workloads.keeping(name)]
        self.reports.add(name, [*keys, *kept])
        if isinstance(self._registry.get(name), PullSession):
            keys += kept  # its agent is to look at that
        self.syncs.add(name, [(name, key) for key in keys])

    def look_again(self) -> None:
        """Queue what each member has: no event does, and what is not reported yet is dropped."""
        for name in self._registry.names():
            self.member_changed(name, None)

    def cluster_changed(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        known = new or old
        if known is not None and self._clusters.synced and _known_as(old) != _known_as(new):
            found = [*self._workloads.keeping(known.name), *self._workloads.keeping_unknown()]
            self.reports.add("kept", [each.metadata.key for each in found])
        before, after = (e is not None and (e.out_of_service or e.given_up) for e in (old, new))
        if before == after:
            return
        for name, key in self._reporter.all_lacking():
            self._registry.wake(name, key)
        self.members_changed()  # what ends waits for no cluster that is given up

    def members_changed(self) -> None:
        """Look anew at what ends, and at names that no MemberCluster has: no session tells."""
        found = [*self._workloads.ending()]
        for name in self._workloads.clusters_unknown():
            if self._membership.serves(name):
                found += self._workloads.touching(name)
        self.reports.add("", [each.metadata.key for each in found])

    def secret_changed(self, key: Key) -> None:
        for workload in self._workloads.informer.by_index(SECRET_INDEX, "/".join(key)):
            self._queue(workload, workload.placements)

    def dependency_changed(self, key: Key, shares: Sequence[tuple[Key, str]]) -> None:
        """`shares` are (Workload's key, member)."""
        self.syncs.add(("dependency", key), [(member, of) for of, member in shares])

    def _queue(self, workload: Workload, members: Iterable[str]) -> None:
        key = workload.metadata.key
        self.syncs.add(key, [(name, key) for name in members])

    def _end(self, old: Workload, new: Workload | None) -> None:
        if new is None or new.uid != old.uid:
            self._shares.drop_workload(old.uid)
        for secret in set(old.secrets) - set(new.secrets if new is not None else ()):
            key = (old.metadata.namespace, secret)
            if not self._workloads.informer.by_index(SECRET_INDEX, "/".join(key)):
                self._secrets.drop(key, _USER)

    def _concerned(self, known: Workload, *, before: Workload | None) -> set[str]:
        """Return the members to queue; `before` is None if the Workload came or went."""
        if before is None:
            return self._clusters_of(known) | self._inventory.holders(known.uid)
        if not _same_decision(before, known) or self._told_anew(before, known):
            concerned = self._clusters_of(before) | self._clusters_of(known)
            return concerned | self._inventory.holders(known.uid)
        patched = _with_new_patch(before, known) | before.with_other_revision(known)
        # Now that its end is stored, the object may be forgotten; and go, now that its work is.
        patched |= known.ends.keys() - before.ends.keys()
        patched |= {c for c in known.leaving if known.known_done(c) != before.known_done(c)}
        if known.status.kept != before.status.kept:
            patched |= self._pulled(known) | self._pulled(before)
        if _standing_in(known) != _standing_in(before):
            patched |= self._reporter.keeping(known)
        if running(known) and not running(before):
            there = self._clusters_of(known) | self._inventory.holders(known.uid)
            return patched | (there - set(known.placements))
        return patched

    def _told_anew(self, before: Workload, known: Workload) -> bool:
        if not self._membership.several or not known.leaves:
            return False
        if before.decided_by != known.decided_by or before.sent != known.sent:
            return True
        return bool(before.status.clusters != known.status.clusters)

    def _pulled(self, workload: Workload) -> set[str]:
        """Return the members in mode Pull that keep something."""
        names = {each["cluster"] for each in workload.status.kept} if self._registry.pulls else ()
        return {name for name in names if isinstance(self._registry.get(name), PullSession)}

    def _clusters_of(self, workload: Workload) -> set[str]:
        return clusters_of(workload, self._registry.names)


def _known_as(cluster: MemberCluster | None) -> tuple[object, ...]:
    """Return what says which cluster it is, and was."""
    if cluster is None:
        return ()
    return cluster.metadata.uid, tuple(cluster.spec.former_names), noted(cluster), cluster.given_up


def _same_decision(old: Workload, new: Workload) -> bool:
    return (
        old.uid == new.uid
        and old.metadata.generation == new.metadata.generation
        and old.metadata.deleting == new.metadata.deleting
        and old.deletion_confirmed == new.deletion_confirmed
        and old.restored == new.restored
        and old.placements == new.placements
        and old.parts == new.parts
        and old.leaving == new.leaving
        and old.causes == new.causes
        and old.groups == new.groups
        and old.status.review == new.status.review
    )


def _standing_in(workload: Workload) -> tuple[int | None, int]:
    status, seconds = workload.status, workload.spec.movement.ready_seconds
    available = sum(share.get("available", 0) for share in status.clusters) if seconds else 0
    return status.ready, available


def _with_new_patch(old: Workload, new: Workload) -> set[str]:
    """Deletion costs do not count."""
    if bytes(old.status.overrides) == bytes(new.status.overrides):
        return set()
    before, after = old.overrides, new.overrides
    if before.fault != after.fault:
        return set(new.placements)
    return {
        each for each in before.differing(after) if before.of(each).digest != after.of(each).digest
    }
