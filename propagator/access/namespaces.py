"""Prepares a namespace of a member before a write into it.

A propagator that writes as itself creates a missing namespace. One that writes as the namespace's
account also creates that account, and uses an existing namespace only if `stowage join` or the
label `stowage.dev/tenant` gave it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from crds.workload import PropagatedReason
from machinery.api.acting import Acting, account
from machinery.api.resources import CONFIG_MAPS, NAMESPACES, ROLE_BINDINGS, SERVICE_ACCOUNTS
from machinery.api.responses import shaped
from machinery.clock import Clock
from machinery.errors import AlreadyExists, ApiError, Forbidden, NotFound
from machinery.tasks import KeyedLocks
from machinery.types.metadata import Key, Object
from propagator.credentials.accounts import NAMESPACES_ACCOUNT, TENANT_ACCOUNT, namespace, tenancy
from propagator.errors import Refused, says_no
from propagator.members.connection import Link
from propagator.members.session import MemberSession
from propagator.members.tenants import Tenants, given
from propagator.types.workload import Workload

EFFECT_SECONDS = 5.0
"""The time until every API server applies new rights."""
_POLL_SECONDS = 0.1
_MANAGER = "stowage-namespaces"


class Namespaces:
    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._locks: KeyedLocks[Key] = KeyedLocks()

    async def admit(self, session: MemberSession, workload: Workload) -> None:
        """Ensure our account in the target namespaces of a narrow member.

        Raises Refused if a namespace is not given, and TransportError.
        """
        link = session.link
        if link is None or link.tenants is None:
            return
        for name in sorted(workload.namespaces()):
            async with self._locks.of((session.name, name)):
                if name not in link.tenants:
                    await self._give(session.name, link, link.tenants, name)

    async def make(self, session: MemberSession, name: str) -> bool:
        """Create a missing namespace; return whether it exists now. Raises TransportError.

        It is never deleted, because others may use it.
        """
        link = session.link
        if link is None or link.tenants is not None or not name:
            return False
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        with suppress(AlreadyExists):
            await link.client.create(NAMESPACES, body)
        return True

    async def _give(self, member: str, link: Link, tenants: Tenants, name: str) -> None:
        maker = Acting(link.client, account(link.home, NAMESPACES_ACCOUNT))
        try:
            await _given(maker, member, link, tenants, name)
            *bindings, ours = tenancy(name, home=link.home)
            for body in bindings:
                await _apply(maker, body, name)
            await self._take_effect(link, name)
            made = await _apply(maker, ours, name)
        except ApiError as e:
            if isinstance(e, NotFound) or not says_no(e):  # it has ended meanwhile
                raise
            raise _not_given(member, name, _why(e)) from e
        tenants.informer.upsert(shaped(made, Object))

    async def _take_effect(self, link: Link, name: str) -> None:
        # Not forever: a write that is refused then reports why.
        until = self._clock.monotonic() + EFFECT_SECONDS
        while self._clock.monotonic() < until and not await _may_act(link, name):
            await self._clock.sleep(_POLL_SECONDS)


async def _may_act(link: Link, name: str) -> bool:
    try:
        with suppress(NotFound):
            await link.client_for(name).get(CONFIG_MAPS, TENANT_ACCOUNT, namespace=name)
    except Forbidden:
        return False
    return True


async def _given(maker: Acting, member: str, link: Link, tenants: Tenants, name: str) -> None:
    """Raises Refused."""
    try:
        found = await maker.get(NAMESPACES, name)
    except NotFound:
        body = namespace(name, link.pod_security)
        try:
            found = await maker.create(NAMESPACES, body)
        except AlreadyExists:
            found = await maker.get(NAMESPACES, name)
    there = shaped(found, Object)
    if there.metadata.deleting:
        message = f"{member}: namespace {name} is being deleted there: it is made when it is gone"
        raise Refused(PropagatedReason.PROPAGATING, message)
    if not given(there):
        tenants.refuse(name)
        raise _not_given(member, name, "it exists there and was not given to Stowage")


async def _apply(maker: Acting, body: Mapping[str, Any], name: str) -> dict[str, Any]:
    resource = SERVICE_ACCOUNTS if body["kind"] == "ServiceAccount" else ROLE_BINDINGS
    meta = body["metadata"]
    return await maker.apply(
        resource, body, name=meta["name"], namespace=name, field_manager=_MANAGER, force=True
    )


def _why(refusal: ApiError) -> str:
    if "cannot impersonate" in refusal.message:
        return "it takes namespaces by name alone"
    return str(refusal)


def _not_given(member: str, name: str, why: str) -> Refused:
    return Refused(
        PropagatedReason.NAMESPACE_NOT_ALLOWED,
        f"{member} does not take namespace {name}: {why}. To give it: `stowage join {member} "
        f"--member-kubeconfig FILE --target-namespace {name}`",
    )
