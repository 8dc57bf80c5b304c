"""Renews tokens of members before they expire, if the registration Secret names their account.

The new token is patched into the Secret on the version that was read.
"""

from __future__ import annotations

import asyncio
import base64
import random
from dataclasses import dataclass
from datetime import timedelta

import msgspec

from crds.membercluster import MemberClusterEventReason
from machinery import logs
from machinery.api.client import ApiClient
from machinery.api.resources import SECRETS
from machinery.clock import timestamp
from machinery.config.kubeconfig import Connection
from machinery.errors import KubeconfigError, TransportError
from machinery.runtime.informer import Informer
from machinery.runtime.workqueue import WorkQueue, work
from machinery.types.metadata import Key
from propagator.credentials.credentials import credentials_of
from propagator.credentials.tokens import TOKEN_LIMIT, Life, life_of, request_token, with_token
from propagator.hub.events import tell_of
from propagator.hub.registration import ANNOTATION_REGISTERED, completed, digest
from propagator.members.context import ControllerContext
from propagator.settings import RenewalSettings
from propagator.types.cluster import MemberCluster, Secret

LOG = logs.get(__name__)
CHECK_SECONDS = 3600.0
"""The maximum time between two checks of a token: clocks jump, and machines sleep."""
_WORKERS = 4
_FIRST_RETRY, _LAST_RETRY = 5.0, 600.0


@dataclass(frozen=True, slots=True)
class _Ours:
    connection: Connection
    account: Key
    life: Life


class Renewer:
    """`secrets` are the labelled registration Secrets."""

    def __init__(
        self,
        context: ControllerContext,
        *,
        secrets: Informer[Secret],
        settings: RenewalSettings,
    ) -> None:
        self._hub = context.hub
        self._secrets = secrets
        self._clusters = context.clusters
        self._registry = context.registry
        self._settings = settings
        self._recorder = context.recorder
        self._clock = context.clock
        self._queue: WorkQueue[str] = WorkQueue(
            name="renewal", clock=context.clock, base_delay=_FIRST_RETRY, max_delay=_LAST_RETRY
        )
        secrets.add_handler(self._secret_changed)
        self._clusters.add_handler(self._cluster_changed)

    async def run(self) -> None:
        await self._secrets.wait_synced()
        await self._clusters.wait_synced()
        await work(self._queue, self._renew_if_due, workers=_WORKERS, log=LOG)

    def _secret_changed(self, old: Secret | None, new: Secret | None) -> None:
        if new is not None and (old is None or old.data != new.data):
            self._queue.add(new.metadata.name)

    def _cluster_changed(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        if new is not None and (old is None or old.spec != new.spec):
            self._queue.add(new.name)

    async def _renew_if_due(self, name: str) -> float | None:
        """Return seconds until the next check."""
        cluster = self._clusters.get(("", name))
        secret = self._secret_of(cluster)
        ours = await _ours(cluster, secret) if cluster and secret else None
        if cluster is None or secret is None or ours is None:
            return None
        left = self._settings.renew_after - ours.life.spent(self._clock.now())
        if left > 0:
            return self._later(left, ours.life)
        session = self._registry.get(name)
        if session is None or not session.ready or session.client is None:
            return _FIRST_RETRY
        # On a member that grants very short lives.
        pause = session.token_renewed + self._settings.pause - self._clock.monotonic()
        if pause > 0:
            return pause
        try:
            await self._renew(session.client, secret, ours)
        except TransportError as fault:
            self._tell(cluster, ours.life, fault)
            raise
        session.token_renewed = self._clock.monotonic()
        return self._settings.pause

    def _secret_of(self, cluster: MemberCluster | None) -> Secret | None:
        reference = cluster.spec.secret_ref if cluster is not None else None
        return self._secrets.get(reference.key) if reference is not None else None

    def _later(self, left: float, life: Life) -> float:
        """Spread over clusters that were joined together."""
        seconds = left * (life.expires - life.issued).total_seconds()
        return min(seconds * random.uniform(1.0, 1.1), CHECK_SECONDS)  # noqa: S311 - jitter

    async def _renew(self, member: ApiClient, secret: Secret, ours: _Ours) -> None:
        token = await request_token(member, ours.account, seconds=self._settings.seconds)
        _believe(token, ours.life)
        changes = with_token(secret.data, ours.connection, token, user=ours.account[1])
        renewed = msgspec.structs.replace(secret, data={**secret.data, **changes})
        metadata = {
            "resourceVersion": secret.metadata.resource_version,
            # As the registrar would mark it: otherwise the new data would register again a cluster
            # whose MemberCluster was just deleted.
            "annotations": {ANNOTATION_REGISTERED: digest(renewed)},
        }
        data = {key: base64.b64encode(value).decode() for key, value in changes.items()}
        namespace, name = secret.metadata.key
        await self._hub.merge_patch(
            SECRETS, name, {"metadata": metadata, "data": data}, namespace=namespace
        )
        LOG.info("its token was renewed", extra={"object": name})

    def _tell(self, cluster: MemberCluster, life: Life, fault: TransportError) -> None:
        note = f"the token ends at {timestamp(life.expires)} and could not be renewed: {fault}"
        reason = MemberClusterEventReason.TOKEN_NOT_RENEWED
        tell_of(self._recorder, cluster, reason, note, "Renew", warns=True)


async def _ours(cluster: MemberCluster, secret: Secret) -> _Ours | None:
    """None if it never expires, or the Secret names no account."""
    try:
        data = completed(secret, cluster.spec.endpoint).data
        credentials = await asyncio.to_thread(credentials_of, data)
    except KubeconfigError:
        return None  # the registrar reports it
    life = life_of(credentials.connection.token or "")
    if credentials.account is None or life is None:
        return None
    return _Ours(credentials.connection, credentials.account, life)


def _believe(token: str, before: Life) -> None:
    """Raises TransportError, which never shows the token."""
    life = life_of(token) if len(token) <= TOKEN_LIMIT and token.isascii() else None
    if life is None or not token.isprintable():
        raise TransportError("the member answered with something that is no token")
    if life.expires <= before.expires + timedelta(seconds=1):
        raise TransportError("the member answered with a token that ends no later")
