"""The ResourceQuotas of one member, as far as they bound the pods of its namespaces.

Those with scopes are left out. A member that forbids to list quotas has none here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import msgspec

from crds.membercluster import MOST_QUOTAS
from machinery.api.resources import Resource
from machinery.api.verbs import Verbs
from machinery.clock import Clock
from machinery.runtime.informer import Informer
from machinery.types import podquotas
from machinery.types.bounds import RESOURCES
from machinery.types.metadata import Key, Meta, Object, shared
from propagator.members.sanitize import is_label_key

QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
SETTLE_SECONDS = 3.0
"""How long a change waits for others, and for a write that goes to the hub anyway."""
_KEPT_BYTES = 1000


class _QuotaSpec(msgspec.Struct, frozen=True, rename="camel"):
    scopes: list[Any] | None = None
    scope_selector: Any = None


class _QuotaStatus(msgspec.Struct, frozen=True):
    hard: dict[str, str | int | float] = {}
    used: dict[str, str | int | float] = {}


class WireQuota(Object, frozen=True):
    """The decoded form; `slim_quota` converts it."""

    spec: _QuotaSpec = _QuotaSpec()
    status: _QuotaStatus = _QuotaStatus()


class Quota(Object, frozen=True):
    free: tuple[tuple[str, str], ...] = ()
    """What is left, by the quota's own names."""


class QuotasOfMember:
    """`begin` runs the informer in each phase in which the member answers."""

    def __init__(
        self,
        client: Verbs,
        *,
        begin: Callable[[Informer[Object]], None],
        clock: Clock,
        notify: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._notify = notify
        self._changed = asyncio.Event()
        self.informer: Informer[Object] = Informer(
            client, QUOTAS, WireQuota, transform=slim_quota, clock=clock, kept_bytes=_KEPT_BYTES
        )
        self.informer.add_handler(lambda _old, _new: self._changed.set())
        begin(self.informer)

    async def run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._clock.sleep(SETTLE_SECONDS)
            self._notify()

    @property
    def known(self) -> bool:
        """Whether they are all listed, or may not be."""
        return self.informer.trusted or self.informer.refused is not None

    def facts(self, allows: Callable[[str], bool]) -> list[dict[str, Any]]:
        """Return MemberCluster.status.quotas: of namespaces that may be targets."""
        if self.informer.refused is not None:
            return []
        listed = cast("Iterable[Quota]", self.informer.values())
        bounding: dict[Key, Quota] = {each.metadata.key: each for each in listed if each.free}
        chosen = [key for key in sorted(bounding) if allows(key[0])][:MOST_QUOTAS]
        return [
            {"namespace": key[0], "name": key[1], "free": dict(bounding[key].free)}
            for key in chosen
        ]


def slim_quota(found: Object) -> Object:
    """A resource of which the member has not counted the use yet bounds nothing.

    Raises ValueError for a malformed quantity.
    """
    assert isinstance(found, WireQuota)  # noqa: S101 - the informer decodes nothing else
    meta, scoped = found.metadata, bool(found.spec.scopes or found.spec.scope_selector)
    return Quota(
        metadata=Meta(
            name=meta.name,
            namespace=shared(meta.namespace),
            uid=meta.uid,
            resource_version=meta.resource_version,
        ),
        free=() if scoped else _free(found.status.hard, found.status.used),
    )


def _free(
    hard: Mapping[str, str | int | float], used: Mapping[str, str | int | float]
) -> tuple[tuple[str, str], ...]:
    bounding = sorted(name for name in hard if podquotas.bounds(name) and is_label_key(name))
    return tuple(
        (shared(name), podquotas.render(name, left))
        for name in bounding[:RESOURCES]
        if name in used
        for left in [podquotas.amount(name, hard[name]) - podquotas.amount(name, used[name])]
    )
