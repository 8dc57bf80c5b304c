"""The token and the credentials by which an agent writes its own member."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from crds.names import AGENT, SYSTEM_NAMESPACE
from machinery.api.verbs import Verbs
from machinery.clock import Clock
from machinery.config.kubeconfig import Connection
from machinery.errors import ConfigurationError, TransportError
from propagator.credentials.accounts import MEMBER_ACCOUNT
from propagator.credentials.credentials import (
    POD_SECURITY,
    RIGHTS,
    Credentials,
    PodSecurity,
    Rights,
)
from propagator.credentials.tokens import SHORTEST_SECONDS, life_of, request_token

_MEMBER_SECONDS = 3600


class MemberToken:
    """The token of the account that `join` makes, as in mode Push. `client` may make it.

    It is a `TokenSource`.
    """

    def __init__(self, client: Verbs, *, clock: Clock, home: str = SYSTEM_NAMESPACE) -> None:
        self._client = client
        self._clock = clock
        self._account = (home, MEMBER_ACCOUNT)
        self._token = ""
        self._until = 0.0
        self._turn = asyncio.Lock()

    async def __call__(self, *, rejected: str | None = None) -> str:
        """Return a token that is not old. Raises TransportError while there is none."""
        async with self._turn:
            old = self._clock.monotonic() >= self._until
            if not self._token or old or rejected == self._token:
                asked = self._clock.monotonic()
                try:
                    token = await request_token(
                        self._client, self._account, seconds=_MEMBER_SECONDS
                    )
                except TransportError:
                    if not self._token or rejected == self._token:
                        raise
                    return self._token  # it may be good for a third of its life
                life = life_of(token)
                whole = (life.expires - life.issued).total_seconds() if life else SHORTEST_SECONDS
                self._token, self._until = token, asked + whole * 2 / 3
            return self._token


def member_credentials(
    data: Mapping[str, str], connection: Connection, *, home: str = SYSTEM_NAMESPACE
) -> Credentials:
    """Return the credentials by which the agent writes its member, as `join` has noted the rights.

    `data` are the decoded data of the Secret, `connection` one with a `MemberToken`. Raises
    ConfigurationError for rights that are none.
    """
    try:
        rights = Rights(data.get(RIGHTS) or Rights.NARROW)
        security = PodSecurity(data.get(POD_SECURITY) or PodSecurity.BASELINE)
    except ValueError as e:
        raise ConfigurationError(f"Secret {home}/{AGENT}: {e}") from e
    return Credentials(connection, rights, (home, MEMBER_ACCOUNT), security)
