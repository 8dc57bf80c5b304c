"""What a caller may list: the one fact that pages are narrowed by.

Callers with the same rights have equal scopes, and share what is computed for one of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from machinery.api.resources import LEASES, Resource
from stowage.web.identity import CallerAuthorizer
from stowage.web.snapshot import KINDS


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
