"""Which Workloads a shard keeps whole: those that concern its members. Of others UID and key stay.

With one shard every Workload is whole. Of several shards one that has a name of our members in its
placements, entries or footprint is, one that names a group, and one of which a member of ours has
something. Shard 0 also has those that name no member.

A change of the number of shards is read before it is announced: a member that is served has its
Workloads whole.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import msgspec

from crds.fields.publishing import Delivery
from crds.names import ANNOTATION_CLUSTERS, ANNOTATION_DELETION, CONFIRMED, GROUP_LABELS
from crds.workload import OnDelete
from machinery.runtime.informer import Informer
from machinery.types.metadata import Object
from machinery.types.shards import owner
from machinery.types.workload_api import Footprint
from machinery.types.written_clusters import ALL, MemberRecord

EVERYTHING = frozenset({1})
_GROUP_KEYS = tuple(f'"{key}"'.encode() for key in GROUP_LABELS)


class _At(msgspec.Struct, frozen=True, gc=False):
    cluster: str = ""


class _Entry(msgspec.Struct, frozen=True):
    name: str = ""
    ended: Any = None


class _Spec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    delivery: str = Delivery.PUSH.value
    on_delete: str = OnDelete.DELETE.value


class _Status(msgspec.Struct, frozen=True):
    placements: list[_At] = []
    leaving: list[_At] = []
    clusters: list[_Entry] = []
    kept: list[_At] = []
    drift: list[_At] = []
    footprint: Footprint = Footprint()


class Brief(Object, frozen=True):
    """As much of a Workload as says whom it concerns, and whether its deletion counts."""

    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def names(self) -> set[str]:
        """Those of clusters, digests of some among them, or `ALL`."""
        said = self.status
        noted = self.metadata.annotations.get(ANNOTATION_CLUSTERS, ""), said.footprint.clusters
        return {
            *(each.cluster for each in (*said.placements, *said.leaving, *said.kept, *said.drift)),
            *(each.name for each in said.clusters),
            *(entry for text in noted for entry in MemberRecord.read(text).entries),
        } - {""}

    @property
    def runs(self) -> bool:
        """Whether a share of it has not ended."""
        ended = {each.name for each in self.status.clusters if each.ended is not None}
        return any(each.cluster not in ended for each in self.status.placements)

    @property
    def taken(self) -> bool:
        """Whether its deletion removes what runs, and no operator has approved it."""
        confirmed = self.metadata.annotations.get(ANNOTATION_DELETION) == CONFIRMED
        orphans = self.spec.on_delete == OnDelete.ORPHAN or self.spec.delivery == Delivery.NONE
        return self.metadata.deleting and not (orphans or confirmed)


class Concern:
    """`holders` returns the members of ours that have something of the Workload of that UID."""

    def __init__(self, holders: Callable[[str], Collection[str]]) -> None:
        self._holders = holders
        self._shard = 0
        self.numbers = EVERYTHING
        """The numbers of shards by any of which all that concerns our members is kept whole."""
        self._judged_by = EVERYTHING
        self._informer: Informer[Any] | None = None

    def of(self, informer: Informer[Any]) -> None:
        """That informer asks `aside`."""
        self._informer = informer

    def aside(self, raw: msgspec.Raw) -> Brief | None:
        """Return what is read of a Workload that need not be whole; None for any other."""
        if 1 in self._judged_by:
            return None
        try:
            found = _brief.decode(raw)
        except (ValueError, RecursionError):
            return None
        concerns = self._concerns(found.names) or self._holders(found.metadata.uid)
        if concerns or any(key in bytes(raw) for key in _GROUP_KEYS):
            return None
        return found

    def _concerns(self, names: Collection[str]) -> bool:
        if not names:
            return self._shard == 0
        if any(name == ALL or name.startswith("#") for name in names):
            return True  # which may be any of ours
        return any(owner(name, n) == self._shard for name in names for n in self._judged_by)

    def begin(self, shard: int, numbers: frozenset[int]) -> None:
        """A term begins, of that shard: what the last one did not keep is listed anew."""
        informer = self._informer
        has = 1 in self.numbers or (shard == self._shard and numbers <= self.numbers)
        self._shard = shard
        if informer is not None and informer.synced and has:
            self._judged_by = self.numbers
            return
        if informer is not None:
            informer.list_anew()
        self.numbers = self._judged_by = numbers

    def covers(self, number: int) -> bool:
        return 1 in self.numbers or number in self.numbers

    async def cover(self, numbers: frozenset[int]) -> None:
        """Keep whole what concerns our members by one of these numbers. Raises TransportError."""
        informer, all_whole = self._informer, 1 in self.numbers
        if all_whole or numbers <= self.numbers:
            self.numbers = numbers
        try:
            self._judged_by = self.numbers | numbers
            if informer is not None and not (all_whole and 1 in numbers):
                await informer.sift()
            self.numbers = numbers
        finally:
            self._judged_by = self.numbers


_brief = msgspec.json.Decoder(Brief)
