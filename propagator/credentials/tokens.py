"""Tokens of a member's account: their request, their life, and their place in a Secret.

Thirty days are requested (TokenRequest); the member may grant another life, which the token states.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import yaml

from machinery.api.resources import SERVICE_ACCOUNTS
from machinery.api.responses import decode
from machinery.api.verbs import Verbs
from machinery.config.kubeconfig import Connection
from machinery.types.metadata import Key

TOKEN_SECONDS = 30 * 24 * 3600
"""The requested life; managed clusters often grant no more than a day."""
TOKEN_LIMIT = 16 * 1024
"""The maximum characters of a token: a request header must hold it."""
SHORTEST_SECONDS = 600
"""The shortest life that Kubernetes grants."""


class _TokenClaims(msgspec.Struct):
    iat: int
    exp: int


class _TokenStatus(msgspec.Struct):
    token: str = msgspec.field(default="")


class _TokenRequest(msgspec.Struct):
    status: _TokenStatus


_claims = msgspec.json.Decoder(_TokenClaims)
_answer = msgspec.json.Decoder(_TokenRequest)


@dataclass(frozen=True, slots=True)
class Life:
    issued: datetime
    expires: datetime

    def spent(self, now: datetime) -> float:
        """0 at the beginning, 1 at the end."""
        whole = (self.expires - self.issued).total_seconds()
        return (now - self.issued).total_seconds() / whole if whole > 0 else 1.0


async def request_token(client: Verbs, account: Key, *, seconds: int = TOKEN_SECONDS) -> str:
    """Former tokens stay valid. Raises TransportError."""
    namespace, name = account
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": max(seconds, SHORTEST_SECONDS)},
    }
    path = SERVICE_ACCOUNTS.path(namespace, name, "token")
    answer: _TokenRequest = decode(await client.request("POST", path, body=body), _answer)
    return answer.status.token


def life_of(token: str) -> Life | None:
    """None for a token that does not state its life, or never expires."""
    try:
        _, payload, _ = token.split(".")
        claims = _claims.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return Life(_moment(claims.iat), _moment(claims.exp))
    except (ValueError, OverflowError, OSError):
        return None


def with_token(
    data: Mapping[str, bytes], connection: Connection, token: str, *, user: str
) -> dict[str, bytes]:
    if data.get("kubeconfig"):
        return {"kubeconfig": kubeconfig(replace(connection, token=token), user=user).encode()}
    return {"token": token.encode()}


def kubeconfig(connection: Connection, *, user: str) -> str:
    cluster: dict[str, Any] = {"server": connection.server}
    if connection.ca:
        cluster["certificate-authority-data"] = base64.b64encode(connection.ca).decode()
    if connection.tls_server_name:
        cluster["tls-server-name"] = connection.tls_server_name
    if connection.proxy_url:
        cluster["proxy-url"] = connection.proxy_url
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "member",
        "clusters": [{"name": "member", "cluster": cluster}],
        "users": [{"name": user, "user": {"token": connection.token}}],
        "contexts": [{"name": "member", "context": {"cluster": "member", "user": user}}],
    }
    return yaml.safe_dump(document, sort_keys=False)


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
