"""The Secret `stowage-agent` on a member: what its agent knows of the hub, and its token there."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from crds.names import AGENT, SYSTEM_NAMESPACE
from machinery.api.resources import SECRETS
from machinery.api.verbs import Verbs
from machinery.config.address import check_server
from machinery.errors import ConfigurationError, NotFound

UID, SERVERS, CA, NAMESPACE, INVITATION = "uid", "servers", "ca", "namespace", "invitation"
PROXY, KEY, TOKEN = "proxy", "key", "token"
"""Keys of its data. The first five come with the invitation, and `key` and `token` are the agent's
own."""
ADVICE = "apply what `stowage invite` prints on the hub"


class AgentData(msgspec.Struct, frozen=True):
    """The Secret, decoded; a key that it lacks is empty."""

    version: str
    data: Mapping[str, str]

    def __getitem__(self, key: str) -> str:
        return self.data.get(key, "")

    @property
    def servers(self) -> Sequence[str]:
        return self[SERVERS].split()


class AgentSecret:
    """`member` is a client of the member's API server that may read and patch the Secret."""

    def __init__(self, member: Verbs, *, home: str = SYSTEM_NAMESPACE) -> None:
        self._member = member
        self._home = home

    def __str__(self) -> str:
        return f"Secret {self._home}/{AGENT}"

    async def read(self) -> AgentData:
        """Raises ConfigurationError for a Secret that is missing or malformed, TransportError."""
        try:
            found = await self._member.get(SECRETS, AGENT, namespace=self._home)
        except NotFound as e:
            raise ConfigurationError(f"the member has no {self}: {ADVICE}") from e
        stored = AgentData(found["metadata"]["resourceVersion"], decoded(found))
        check_servers(stored.servers, str(self))
        if lacking := [key for key in (UID, SERVERS, NAMESPACE) if not stored[key]]:
            raise ConfigurationError(f"{self} lacks {', '.join(lacking)}: {ADVICE}")
        return stored

    async def store(self, stored: AgentData, changes: Mapping[str, str]) -> AgentData:
        """Store on the version that was read. Raises Conflict if it was changed since."""
        data = {key: base64.b64encode(value.encode()).decode() for key, value in changes.items()}
        patch = {"metadata": {"resourceVersion": stored.version}, "data": data}
        found = await self._member.merge_patch(SECRETS, AGENT, patch, namespace=self._home)
        return AgentData(found["metadata"]["resourceVersion"], decoded(found))


def check_servers(servers: Sequence[str], where: str) -> None:
    """Raises ConfigurationError."""
    for each in servers:
        try:
            check_server(each)
        except ValueError as e:
            raise ConfigurationError(f"{where}: servers: one {e}; write https://HOST:PORT") from e


def decoded(secret: Mapping[str, Any]) -> dict[str, str]:
    """Return the data of a Secret as text."""
    given = secret.get("data") or {}
    return {k: base64.b64decode(v).decode("utf-8", "replace") for k, v in given.items()}
