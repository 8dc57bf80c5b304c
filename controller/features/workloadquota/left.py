"""Pods that deleted Workloads left on clusters, which still count.

`onDelete: Orphan` and the annotation `stowage.dev/keep: Always` leave some. The quota's annotation
`stowage.dev/released` releases what no longer runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from controller.features.workloadquota.compiled import Amounts, rendered, resource_of
from controller.features.workloadquota.objects import WorkloadQuota
from crds.names import ANNOTATION_RELEASED
from crds.workloadquota import MOST_LEFT
from machinery.types import quantities
from machinery.types.metadata import Key


class LeftNote(NamedTuple):
    """The sum of many deleted Workloads has no `name`."""

    uid: str
    name: str
    amounts: Amounts


class LeftBehind:
    """The notes of one namespace: the stored ones, and later changes."""

    def __init__(self) -> None:
        self._living: set[str] = set()
        """The UIDs of existing Workloads."""
        self._leaving: dict[str, LeftNote] = {}
        """Existing Workloads that would leave something."""
        self._ended: dict[str, LeftNote] = {}
        """Deletions that this process saw and the stored notes lack."""
        self._stored: dict[Key, dict[str, LeftNote]] = {}
        self._released: dict[Key, frozenset[str]] = {}
        self._sum: Amounts | None = None

    def lives(self, uid: str, name: str, leaves: Amounts) -> None:
        if uid not in self._living:
            self._living.add(uid)
            self._ended.pop(uid, None)
            self._sum = None
        self._leaving.pop(uid, None)
        if leaves:
            self._leaving[uid] = LeftNote(uid, name, leaves)

    def ended(self, uid: str, name: str, leaves: Amounts) -> None:
        """Record the end of a Workload. Its last amounts replace the noted ones."""
        self._living.discard(uid)
        self._leaving.pop(uid, None)
        self._sum = None
        if leaves or any(uid in notes for notes in self._stored.values()):
            self._ended[uid] = LeftNote(uid, name, leaves)

    def stored(self, quota: WorkloadQuota) -> bool:
        """Read the notes and releases of a quota. Return whether any changed."""
        key = quota.metadata.key
        named = quota.metadata.annotations.get(ANNOTATION_RELEASED, "").split(",")
        released = frozenset(uid.strip() for uid in named)
        notes = {
            each.uid: LeftNote(each.uid, each.workload, _amounts(each.amounts))
            for each in quota.status.left
        }
        for uid, note in list(self._ended.items()):
            if notes.get(uid, LeftNote(uid, "", {})).amounts == note.amounts:
                del self._ended[uid]
        before = self._stored.get(key, {}), self._released.get(key, frozenset({""}))
        if before == (notes, released):
            return False
        self._stored[key], self._released[key] = notes, released
        self._sum = None
        return True

    def drop(self, quota: Key, *, kept: bool) -> None:
        """If `kept`, another quota of the namespace takes the notes."""
        notes = self._stored.pop(quota, {})
        released = self._released.pop(quota, frozenset())
        self._sum = None
        for uid, note in notes.items() if kept else ():
            if uid not in self._living and uid not in released:
                self._ended.setdefault(uid, note)
        if not kept:
            self._ended.clear()

    def amounts(self) -> Amounts:
        if self._sum is None:
            total: dict[str, int] = {}
            for note in self._gone():
                _add(total, note.amounts)
            self._sum = total
        return self._sum

    def told(self, quota: Key, *, all_of_it: bool) -> list[dict[str, Any]]:
        """Return `status.left`. `all_of_it` means that the quota is the oldest."""
        if not all_of_it:
            return [_told(each) for each in self._stored.get(quota, {}).values()]
        gone = {each.uid: each for each in self._gone()}
        if len(gone) > MOST_LEFT:
            # A note that is not yet stored as it is here would count again next to the sum.
            stored = self._stored.get(quota, {})
            old = [uid for uid in stored if uid in gone and uid not in self._ended]
            total: dict[str, int] = {}
            for uid in old[: MOST_LEFT // 2]:
                _add(total, gone.pop(uid).amounts)
            gone = {uid: LeftNote(uid, "", total) for uid in old[:1]} | gone
        return [_told(each) for each in [*gone.values(), *self._leaving.values()][:MOST_LEFT]]

    def _gone(self) -> list[LeftNote]:
        found: dict[str, LeftNote] = {}
        for notes in self._stored.values():
            found |= notes
        found |= self._ended
        past = frozenset().union(*self._released.values())
        return [
            note
            for uid, note in found.items()
            if note.amounts and uid not in self._living and uid not in past
        ]


def _told(note: LeftNote) -> dict[str, Any]:
    amounts = {name: rendered(name, n) for name, n in sorted(note.amounts.items())}
    return {"workload": note.name, "uid": note.uid, "amounts": amounts}


def _amounts(given: Mapping[str, Any]) -> dict[str, int]:
    found = {}
    for name, text in given.items():
        try:
            found[name] = quantities.amount(resource_of(name), text)
        except ValueError:
            continue  # an unknown name
    return found


def _add(total: dict[str, int], amounts: Amounts) -> None:
    for name, n in amounts.items():
        total[name] = total.get(name, 0) + n
