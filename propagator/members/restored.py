"""Whether this hub was restored from a backup, and which objects on members are younger than it.

`stowage restore` notes the former hub and the backup's resourceVersion in the ConfigMap
`stowage-restored`, and marks each Workload that it makes. Of a hub whose etcd was set back the
Lease on each member tells the version (`hub_lease`), for that member alone.

An object that the former hub wrote after the backup is *younger*. It is neither written nor removed
while its Workload is as it was restored: an edit, or a person, ends that. What is written meanwhile
carries the name of the restore, as versions of two histories do not compare.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple

from crds.names import RESTORED
from crds.restored import RestoredMark
from machinery import logs
from machinery.api.resources import CONFIG_MAPS
from machinery.api.verbs import Verbs
from machinery.clock import Clock
from machinery.errors import Forbidden, NotFound, TransportError
from machinery.types.bounds import NAME, clean
from propagator.errors import HubFault
from propagator.members.objects import (
    ManagedObject,
    hub_of,
    hub_version_of,
    owners,
    version_number,
    written_since,
)
from propagator.types.workload import Workload

LOG = logs.get(__name__)
FRESH_SECONDS = 5.0
"""After so long a note that is known is asked for again: a person may have ended it."""


class Backup(NamedTuple):
    name: str
    """Of the restore; objects that are written after it carry it."""
    hub: str
    """The UID of the hub that wrote objects after the backup."""
    version: int
    """That hub's resourceVersion in the backup."""
    same_uids: bool = False
    """Whether Workloads kept their UIDs: another one's object is no younger version then."""

    def younger(self, found: ManagedObject, uid: str) -> bool:
        """Whether that hub wrote the object after the backup, and this one has not since."""
        if hub_of(found) != self.hub or hub_version_of(found) <= self.version:
            return False
        if self.same_uids and uid not in owners(found.metadata):
            return False
        return self.name not in written_since(found)

    def is_named(self, restore: str) -> bool:
        """Whether that names this one, or its set-back as another process found it.

        Each names the version that it found. The greater one counts for all, and is of no earlier
        set-back: an object with its name would have been lost.
        """
        if restore == self.name or not self.same_uids:
            return restore == self.name
        version = version_number(restore.rpartition("-")[2]) or 0
        return version >= self.version and restore == set_back_name(self.hub, version)


class Restored(NamedTuple):
    as_of: tuple[Backup, ...] = ()
    """The backups in which the Workload is as it is now."""
    since: str = ""
    """The restores that what is written there now comes after."""
    mark: str = ""
    """What its annotation would say, where only Leases tell of the restore."""
    over: tuple[Backup, ...] = ()
    """The backups since which it was edited or accepted."""

    def younger(self, found: ManagedObject, uid: str) -> bool:
        return any(backup.younger(found, uid) for backup in self.as_of)

    def former(self, found: ManagedObject, uid: str) -> bool:
        """Whether an edit since has decided on it: its version is of a history that has ended."""
        return any(backup.younger(found, uid) for backup in self.over)

    def note(self, found: Iterable[ManagedObject], uid: str) -> str:
        """Return what its annotation has to say before these on a member are written, or "".

        A Workload of which nothing there is younger needs none.
        """
        needed = not self.as_of or any(self.younger(each, uid) for each in found)
        return self.mark if needed else ""


NOTHING = Restored()


class RestoredHub:
    """`uid` returns the UID of this hub. A hub that was never restored costs no request.

    `went_back_to` returns the version to which it was set back, as the Leases of shards tell; None
    if it was not.
    """

    def __init__(
        self,
        hub: Verbs,
        *,
        uid: Callable[[], Awaitable[str]],
        namespace: str,
        clock: Clock,
        went_back_to: Callable[[], int | None],
    ) -> None:
        self._went_back_to = went_back_to
        self._hub = hub
        self._uid = uid
        self._namespace = namespace
        self._clock = clock
        self._noted: Backup | None = None
        self._asked = -math.inf
        self._over = set[str]()
        """Restores that Workloads still name, and that are over."""
        self._edited = set[str]()
        """UIDs of Workloads whose spec was seen to change in this term, which a set-back ends."""

    def begin(self) -> None:
        """Begin a term: an edit that was seen before may be lost."""
        self._asked = -math.inf
        self._over.clear()
        self._edited.clear()

    def workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        if old is None:
            return
        if new is None or new.uid != old.uid:
            self._edited.discard(old.uid)
        elif new.metadata.generation > old.metadata.generation:  # else the hub was set back
            self._edited.add(new.uid)

    async def noted(self) -> Backup | None:
        """Ask for the backup that `stowage restore` has noted, unless that is over.

        TransportError.
        """
        await self._ask()
        return self._noted

    async def former(self) -> str:
        """Ask for the UID of the hub that this one was restored from; "" also if that is forbidden.

        Raises TransportError.
        """
        try:
            noted, own = await self.noted(), await self._uid()
        except Forbidden:
            return ""
        return noted.hub if noted is not None and noted.hub != own else ""

    async def of(self, workload: Workload, went_back_to: int | None) -> Restored:
        """`went_back_to` is the version that a member's Lease tells, if any. Raises HubFault."""
        mark = workload.restored
        told = (went_back_to, self._went_back_to())
        set_back = {each for each in told if each is not None}
        if not set_back and not mark.restore:
            return NOTHING
        try:
            backups = [
                *await self._restored(mark.restore),
                *[each for version in sorted(set_back) for each in await self._set_back(version)],
            ]
        except TransportError as fault:
            raise HubFault("it could not be asked whether it was restored", fault) from fault
        names = ",".join(each.name for each in backups)
        as_of = tuple(each for each in backups if self._as_of(workload, mark, each))
        over = tuple(each for each in backups if each not in as_of)
        return Restored(as_of, names, self._mark(workload, mark, backups), over)

    async def _restored(self, name: str) -> Iterable[Backup]:
        if not name or name in self._over:
            return ()
        noted, age = self._noted, self._clock.monotonic() - self._asked
        if noted is None or noted.name != name or age >= FRESH_SECONDS:
            # The ConfigMap is older than any mark, so an answer to a question now is final.
            noted = await self.noted()
        if noted is not None and noted.name == name:
            return (noted,)
        self._over.add(name)
        return ()

    async def _set_back(self, version: int | None) -> Iterable[Backup]:
        if version is None:
            return ()
        hub = await self._uid()
        return (Backup(set_back_name(hub, version), hub, version, same_uids=True),) if hub else ()

    def _as_of(self, workload: Workload, mark: RestoredMark, backup: Backup) -> bool:
        if mark.restore == backup.name:
            return mark.state == str(workload.metadata.generation)
        seen = backup.same_uids and workload.uid not in self._edited
        accepted = backup.is_named(mark.restore) and mark.state != str(workload.metadata.generation)
        return seen and not accepted

    def _mark(self, workload: Workload, mark: RestoredMark, backups: Sequence[Backup]) -> str:
        named = [each for each in backups if each.is_named(mark.restore)]
        if not backups or (named and (named[-1] is backups[-1] or not named[0].same_uids)):
            return ""
        name = backups[-1].name
        if workload.uid in self._edited:
            return str(RestoredMark.accepted(name))
        return str(RestoredMark.whole(name, workload.metadata.generation))

    async def _ask(self) -> None:
        try:
            found = await self._hub.get(CONFIG_MAPS, RESTORED, namespace=self._namespace)
        except NotFound:
            self._noted = None
        except Forbidden as e:
            LOG.warning("whether the hub was restored may not be read: `stowage install` (%s)", e)
            raise
        else:
            self._noted = backup_of(found.get("data") or {})
        self._asked = self._clock.monotonic()


def set_back_name(hub: str, version: int) -> str:
    return f"{hub.partition('-')[0]}-{version}"


def backup_of(data: dict[str, str]) -> Backup | None:
    name, hub = clean(data.get("restore", ""), NAME), clean(data.get("hub", ""), NAME)
    version = version_number(data.get("resourceVersion", ""))
    return Backup(name, hub, version) if name and hub and version is not None else None
