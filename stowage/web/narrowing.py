"""The fleet as one caller may see it: objects that they may not read are not there.

Pages are made from a `NarrowedSnapshot`, never from the whole one, so no page can forget to ask.
What objects of the caller say of others goes through `NarrowedSnapshot.told`: rows by the object
that they are about, and a sentence as a whole. No word of a text is ever changed, and words of the
caller's own objects hide nothing, so that nobody learns which names exist by writing them down.
What is computed over the whole fleet goes through `stowage.web.computed`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import msgspec

from machinery.api.resources import (
    LEASES,
    MEMBER_CLUSTERS,
    RESERVATIONS,
    WORKLOAD_GROUPS,
    WORKLOAD_POLICIES,
    WORKLOAD_QUOTAS,
    WORKLOAD_SPREADS,
    WORKLOADS,
    Resource,
)
from machinery.errors import Forbidden, NotFound
from machinery.types.metadata import Key
from stowage.web.identity import CallerAuthorizer
from stowage.web.snapshot import KINDS, HubSnapshot, StoredObject

ELSEWHERE = "another cluster"
WITHHELD = "Not shown: this names clusters or objects of others, which you may not see."
"""Stands in place of a sentence."""
_LISTS: Mapping[str, Resource] = {
    "groups": WORKLOAD_GROUPS,
    "policies": WORKLOAD_POLICIES,
    "quotas": WORKLOAD_QUOTAS,
    "reservations": RESERVATIONS,
    "spreads": WORKLOAD_SPREADS,
}
"""The kind of the rows of a list; those of other lists are Workloads."""
_NAMES = re.compile(r"[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?(?:/[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?)*")
_NAMESPACE = re.compile(r"\bnamespaces? ([a-z0-9][-a-z0-9]*)")


class _Named(msgspec.Struct):
    cluster: str = ""
    name: str = ""


class _Moves(msgspec.Struct):
    moves: list[_Named] = []


class _NamingStatus(msgspec.Struct):
    placements: list[_Named] = []
    leaving: list[_Named] = []
    clusters: list[_Named] = []
    history: list[_Moves] = []


class NamingWorkload(msgspec.Struct):
    """The clusters that a Workload's status names; its spec may name any, so it does not count."""

    status: _NamingStatus = msgspec.field(default_factory=_NamingStatus)

    @property
    def clusters(self) -> Iterator[str]:
        said = self.status
        for each in (*said.placements, *said.leaving, *(m for h in said.history for m in h.moves)):
            yield each.cluster
        yield from (each.name for each in said.clusters)


class NarrowedSnapshot:
    """The objects of a scope.

    Of clusters that may not be listed there are those that the caller's own Workloads name, with
    their names and Ready alone.
    """

    def __init__(self, whole: HubSnapshot, scope: Scope) -> None:
        self._whole, self.scope = whole, scope
        self._named: tuple[int, frozenset[str]] = (-1, frozenset())

    @property
    def revision(self) -> int:
        return self._whole.revision

    @property
    def hides_clusters(self) -> bool:
        return not self.scope.lists(MEMBER_CLUSTERS)

    def each(self, res: Resource, as_: Any, namespace: str | None = None) -> Iterator[Any]:
        """Yield the objects in the order of their names.

        Raises Forbidden for a kind of which the caller may list none; of Workloads and clusters
        there are none then, as what is said of the others stands on them.
        """
        if res == MEMBER_CLUSTERS and self.hides_clusters:
            yield from (self._reduced(name, as_) for name in sorted(self.named()))
            return
        among = self.scope.namespaces(res)
        if not among and among is not None and res != WORKLOADS:
            raise Forbidden(code=403, reason="Forbidden", message=f"may not list {res.plural}")
        yield from self._whole.each(res, as_, namespace, among=among)

    def read(self, res: Resource, name: str, namespace: str | None, as_: Any) -> Any:
        """Return one object. Raises NotFound, Forbidden."""
        if res == MEMBER_CLUSTERS and self.hides_clusters:
            if name in self.named():
                return self._reduced(name, as_)
            raise NotFound(code=404, reason="NotFound", message="no such cluster")
        if not self.scope.reads(res, namespace or "", name):
            raise Forbidden(code=403, reason="Forbidden", message=f"may not get {res.plural}")
        return self._whole.read(res, name, namespace, as_)

    def shows(self, res: Resource, key: Key) -> bool:
        """Whether an object is among what the caller may see, also one that was deleted."""
        if res == MEMBER_CLUSTERS and self.hides_clusters:
            return key[1] in self.named()
        return self.scope.lists(res, key[0])

    def named(self) -> frozenset[str]:
        """Return the clusters that the caller's own Workloads name, and that are there."""
        if self._named[0] != self.revision:
            own = self._whole.each(
                WORKLOADS, NamingWorkload, among=self.scope.namespaces(WORKLOADS)
            )
            found = frozenset(name for each in own for name in each.clusters)
            there = (name for name in found if self._whole.has(MEMBER_CLUSTERS, ("", name)))
            self._named = (self.revision, frozenset(there))
        return self._named[1]

    def _reduced(self, name: str, as_: Any) -> Any:
        body = self._whole.read(MEMBER_CLUSTERS, name, None, dict[str, Any])
        every = (body.get("status") or {}).get("conditions") or ()
        ready = [
            {"type": "Ready", "status": each.get("status") or "Unknown"}
            for each in every
            if each.get("type") == "Ready"
        ]
        found = {"metadata": {"name": name}, "status": {"conditions": ready}}
        return msgspec.convert(found, as_) if isinstance(as_, type) else found

    # --- what the caller's objects say of others ---

    def told(self, value: Any, about: Key | None = None) -> Any:
        """Return stored JSON values without the rows, and without the sentences, of what is hidden.

        `about` is the object that they belong to.
        """
        return value if self.scope.whole else _Narrowed(self, about).value(value)

    def hides_namespace(self, name: str) -> bool:
        """Whether objects of ours are or were there, and the caller may list none of them."""
        return self._whole.inhabited(name) and not self.scope.enters(name)

    def hides_cluster(self, name: str) -> bool:
        there = self.hides_clusters and self._whole.has(MEMBER_CLUSTERS, ("", name))
        return there and name not in self.named()

    def own_words(self, about: Key) -> str:
        """Return what its author wrote into an object of that name, where the caller may read it.

        Whoever wrote a name there knows it.
        """
        own = about if self.scope.enters(about[0]) else ()
        return "\n".join((*own, *(self._written(each, about) for each in KINDS if each.namespaced)))

    def _written(self, res: Resource, key: Key) -> str:
        if not (self.scope.reads(res, *key) and self._whole.has(res, key)):
            return ""
        found: StoredObject = self._whole.read(res, key[1], key[0], StoredObject)
        meta = found.metadata
        return f"{meta.labels} {meta.annotations} {bytes(found.spec).decode()}"

    def names_own(self, word: str) -> bool:
        """Whether an object that the caller may read has that name."""
        kinds = [each for each in KINDS if each.namespaced]
        return any(self._whole.named(each, word, self.scope.namespaces(each)) for each in kinds)


class _Narrowed:
    """The values of one answer; `about` is the object of the row that is looked at."""

    def __init__(self, shown: NarrowedSnapshot, about: Key | None) -> None:
        self._shown, self._about = shown, about
        self._foreign: dict[str, bool] = {}

    def value(self, value: Any, within: str = "") -> Any:
        if isinstance(value, str):
            return WITHHELD if self._hidden(value) else value
        if isinstance(value, Mapping):
            return self._mapping(value)
        if isinstance(value, list | tuple):
            return [self.value(each, within) for each in self._rows(value, within)]
        return value

    def _mapping(self, value: Mapping[Any, Any]) -> dict[Any, Any]:
        before, self._about = self._about, self._of(value) or self._about
        found = {
            key: self.value(each, key)
            for key, each in value.items()
            if not (isinstance(key, str) and self._hidden(key))
        }
        self._about = before
        return found

    def _of(self, row: Mapping[Any, Any]) -> Key | None:
        """Return the object that a row is about; a finding has its name as `shop/web`."""
        name = next(iter(row.get("names") or ()), row.get("name"))
        namespace = row.get("namespace")
        if isinstance(name, str) and isinstance(namespace, str):
            return (namespace, name)
        both = name.split("/") if isinstance(name, str) else []
        return (both[0], both[1]) if len(both) == len(("namespace", "name")) else None

    def _rows(self, rows: Sequence[Any], within: str) -> Iterable[Any]:
        """Yield the rows that are no others'; shares on hidden clusters are one row."""
        away: list[Mapping[str, Any]] = []
        for row in rows:
            if not isinstance(row, Mapping):
                yield row
            elif self._others(row, within):
                continue
            elif not self._away(row, within):
                yield row
            elif "replicas" in row and "cluster" in row:
                away.append(row)
        if away:
            yield elsewhere(away)

    def _others(self, row: Mapping[str, Any], within: str) -> bool:
        if not isinstance(namespace := row.get("namespace"), str):
            return False
        kind, name = _LISTS.get(within, WORKLOADS), str(row.get("name", ""))
        return not self._shown.scope.reads(kind, namespace, name)

    def _away(self, row: Mapping[str, Any], within: str) -> bool:
        name = row.get("cluster", row.get("name") if within == "clusters" else None)
        return isinstance(name, str) and self._shown.hides_cluster(name)

    def _hidden(self, text: str) -> bool:
        """Whether words that are not the caller's own name what they may not see."""
        named = (each[1] for each in _NAMESPACE.finditer(text) if self._is_foreign(each[1]))
        words = (each[0] for each in _NAMES.finditer(text) if self._names_others(each[0]))
        found = [*named, *words]
        return bool(found) and not all(map(self._written, found))

    def _names_others(self, word: str) -> bool:
        parts = word.split("/")
        if len(parts) == len(("namespace", "name")) and self._shown.scope.enters(parts[0]):
            return False
        return any(map(self._is_foreign, parts[:-1])) or any(map(self._shown.hides_cluster, parts))

    def _written(self, word: str) -> bool:
        own = self._shown.own_words(self._about) if self._about else ""
        return word in own or self._shown.names_own(word)

    def _is_foreign(self, namespace: str) -> bool:
        known = self._foreign.get(namespace)
        if known is None:
            known = self._foreign[namespace] = self._shown.hides_namespace(namespace)
        return known


def elsewhere(shares: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return one share for those on clusters that are hidden; why they are there is left out."""
    every = list(shares)
    empty: dict[str, Any] = {key: [] for key in ("reasons", "steps") if key in every[0]}
    total = sum(each["replicas"] for each in every)
    return {"cluster": ELSEWHERE, "replicas": total, **empty}


class Authorizer(Protocol):
    """What the hub lets a caller do."""

    def allows(
        self, verb: str, res: Resource, namespace: str = "", name: str = ""
    ) -> Awaitable[bool]:
        """Whether the hub allows it; without a namespace: in all. Raises TransportError."""
        ...


@dataclass(frozen=True, slots=True)
class Scope:
    """The objects that a caller may read.

    Args:
        everywhere: the kinds, by plural, that they may list over all namespaces.
        within: kind and namespace that they may list besides.
        objects: kind, namespace and name of what they may get besides.
    """

    everywhere: frozenset[str] = frozenset()
    within: frozenset[tuple[str, str]] = frozenset()
    objects: frozenset[tuple[str, str, str]] = frozenset()

    @property
    def whole(self) -> bool:
        """Whether nothing is hidden but Leases."""
        return all(each.plural in self.everywhere for each in KINDS)

    @property
    def empty(self) -> bool:
        return not self.within and not any(each.plural in self.everywhere for each in KINDS)

    def lists(self, res: Resource, namespace: str = "") -> bool:
        """Whether all objects of a kind may be read, of one namespace or of all."""
        return res.plural in self.everywhere or (res.plural, namespace) in self.within

    def reads(self, res: Resource, namespace: str, name: str) -> bool:
        return self.lists(res, namespace) or (res.plural, namespace, name) in self.objects

    def enters(self, namespace: str) -> bool:
        """Whether any kind may be listed in that namespace."""
        return any(self.lists(each, namespace) for each in KINDS if each.namespaced)

    def namespaces(self, res: Resource) -> frozenset[str] | None:
        """Return where a kind may be listed; None for everywhere."""
        if res.plural in self.everywhere:
            return None
        return frozenset(namespace for plural, namespace in self.within if plural == res.plural)

    def with_object(self, res: Resource, namespace: str, name: str) -> Scope:
        return replace(self, objects=self.objects | {(res.plural, namespace, name)})


EVERYTHING = Scope(frozenset(each.plural for each in (*KINDS, LEASES)))


async def scope_of(
    authorizer: CallerAuthorizer, namespaces: Mapping[Resource, Collection[str]], system: str
) -> Scope:
    """Return the scope of a caller: each kind everywhere, or else namespace by namespace.

    `namespaces` are those that hold objects of a kind, `system` is that of the Leases. Raises
    TransportError.
    """
    wide = [(res, "") for res in namespaces] + [(LEASES, system)]
    everywhere = {res.plural for res, _ in await _listed(authorizer, wide)}
    narrow = [
        (res, each)
        for res, known in namespaces.items()
        if res.namespaced and res.plural not in everywhere
        for each in known
    ]
    within = {(res.plural, each) for res, each in await _listed(authorizer, narrow)}
    return Scope(frozenset(everywhere), frozenset(within))


async def _listed(
    authorizer: CallerAuthorizer, asked: Sequence[tuple[Resource, str]]
) -> list[tuple[Resource, str]]:
    # an open page asks each second, of hundreds of namespaces: no task for what is known
    known = {each: authorizer.known("list", *each) for each in asked}
    unknown = [each for each, answer in known.items() if answer is None]
    answers = await asyncio.gather(*(authorizer.allows("list", *each) for each in unknown))
    known.update(zip(unknown, answers, strict=True))
    return [each for each in asked if known[each]]
