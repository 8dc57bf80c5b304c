"""A member's credentials: what they may contain, and nothing else.

`Connection` is all that `machinery.api.client` needs to reach an API server. Its repr never shows a
secret.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from machinery.config import plaintext
from machinery.config.address import check_host, check_proxy, check_server
from machinery.errors import KubeconfigError
from machinery.types import bounds
from machinery.types.bounds import TooMuch

_CLUSTER_KEYS = frozenset(
    {
        "server",
        "certificate-authority-data",
        "tls-server-name",
        "proxy-url",
        "disable-compression",
        "extensions",
    }
)
_USER_KEYS = frozenset(
    {"token", "client-certificate-data", "client-key-data", "username", "password", "extensions"}
)
_CURES = {
    "exec": "runs a program, which is refused; use a token or a client certificate",
    "auth-provider": "runs a plugin, which is refused; use a token or a client certificate",
    "certificate-authority": "names a file, which is refused; use certificate-authority-data",
    "client-certificate": "names a file, which is refused; use client-certificate-data",
    "client-key": "names a file, which is refused; use client-key-data",
    "tokenFile": "names a file, which is refused; use token",
    "insecure-skip-tls-verify": "skips verification, which is refused; use "
    "certificate-authority-data",
}


_FALSE = (None, "false", "False", "FALSE")


class TokenSource(Protocol):
    """A bearer token that changes: a projected service account token, or an exec plugin's."""

    async def __call__(self, *, rejected: str | None = None) -> str:
        """Return the token to use now.

        The transport calls this before every request, so the source caches the token. `rejected`
        is a token that the server has just refused: the source must not return it from its cache.
        Raises ConfigurationError when there is no token to be had.
        """
        ...


@dataclass(frozen=True, slots=True)
class Connection:
    """How to reach one API server, and with which credential. Certificates and keys are PEM."""

    server: str
    ca: bytes | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    client_cert: bytes | None = field(default=None, repr=False)
    client_key: bytes | None = field(default=None, repr=False)
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls_server_name: str | None = None
    proxy_url: str | None = field(default=None, repr=False)
    namespace: str = "default"
    impersonate: str | None = None
    impersonate_groups: tuple[str, ...] = ()
    token_source: TokenSource | None = field(default=None, repr=False)


def parse_kubeconfig(data: bytes, *, context: str | None = None) -> Connection:
    """Return the connection of a member's kubeconfig; nothing is executed, read or sent.

    Accepts server, CA data, token, client certificate and key data, user name and password, TLS
    server name and proxy. Raises KubeconfigError, naming the offending key, for exec and
    auth-provider, any path of a file, skipped verification, impersonation, a server that is not
    https, a missing context, or what is no kubeconfig at all. Bounded as
    `machinery.config.plaintext` is.
    """
    document = _mapping(_load(data), "")
    name = context or _text(document.get("current-context"), "current-context")
    if not name:
        raise KubeconfigError("current-context", "is missing; say which context is meant")
    chosen, where = _named(document, "contexts", "context", name)
    cluster, at_cluster = _named(
        document, "clusters", "cluster", _text(chosen.get("cluster"), f"{where}.cluster")
    )
    user, at_user = _named(document, "users", "user", _text(chosen.get("user"), f"{where}.user"))
    _refuse(cluster, at_cluster, _CLUSTER_KEYS)
    _refuse(user, at_user, _USER_KEYS)
    return _checked(
        server=_text(cluster.get("server"), f"{at_cluster}.server"),
        server_key=f"{at_cluster}.server",
        ca=_data(cluster, "certificate-authority-data", at_cluster),
        token=_text(user.get("token"), f"{at_user}.token"),
        client_cert=_data(user, "client-certificate-data", at_user),
        client_key=_data(user, "client-key-data", at_user),
        username=_text(user.get("username"), f"{at_user}.username"),
        password=_text(user.get("password"), f"{at_user}.password"),
        user_key=at_user,
        tls_server_name=_text(cluster.get("tls-server-name"), f"{at_cluster}.tls-server-name"),
        tls_key=f"{at_cluster}.tls-server-name",
        proxy_url=_text(cluster.get("proxy-url"), f"{at_cluster}.proxy-url"),
        proxy_key=f"{at_cluster}.proxy-url",
        namespace=_namespace(chosen, where),
    )


def connection_from_secret(data: Mapping[str, bytes]) -> Connection:
    """Return the connection of a registration Secret's decoded data.

    Either `kubeconfig`, or key by key: endpoint, clusterCA, and token | clientCert and clientKey |
    username and password. Raises KubeconfigError.
    """
    size = sum(map(len, data.values()))
    if size > bounds.SECRET_BYTES:
        largest = max(data, key=lambda key: len(data[key]))
        raise KubeconfigError(_shown(largest), too_large(size))
    if data.get("kubeconfig"):
        return parse_kubeconfig(data["kubeconfig"])
    if not data.get("endpoint"):
        raise KubeconfigError("kubeconfig", "is missing; give kubeconfig, or endpoint and the rest")
    return _checked(
        server=_decoded(data, "endpoint"),
        server_key="endpoint",
        ca=data.get("clusterCA") or None,
        token=_decoded(data, "token"),
        client_cert=data.get("clientCert") or None,
        client_key=data.get("clientKey") or None,
        username=_decoded(data, "username"),
        password=_decoded(data, "password"),
        user_key="",
        tls_server_name=_decoded(data, "tlsServerName"),
        tls_key="tlsServerName",
        proxy_url=_decoded(data, "proxyURL"),
        proxy_key="proxyURL",
        namespace="default",
    )


def too_large(size: int) -> str:
    """Return the message about a Secret of that many bytes."""
    return f"is larger than {bounds.SECRET_BYTES >> 10} KiB: the Secret holds {size >> 10} KiB"


def _load(data: bytes) -> Any:
    try:
        return plaintext.parse(data)
    except (ValueError, TooMuch) as e:
        raise KubeconfigError("kubeconfig", str(e)) from e


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise KubeconfigError(where or "kubeconfig", "is not a mapping")
    return value


def _text(value: Any, where: str) -> str | None:
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise KubeconfigError(where, "is not a string")
    return value


def _namespace(context: Mapping[str, Any], where: str) -> str:
    name = _text(context.get("namespace"), f"{where}.namespace") or "default"
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", name):
        raise KubeconfigError(f"{where}.namespace", "is no name of a namespace")
    return name


def _named(
    document: Mapping[str, Any], listed: str, inner: str, name: str | None
) -> tuple[Mapping[str, Any], str]:
    """Return the entry of that name in one of the three lists, and its path."""
    entries = document.get(listed)
    if not isinstance(entries, list):
        raise KubeconfigError(listed, "is missing")
    for index, entry in enumerate(entries):
        where = f"{listed}[{index}]"
        if _mapping(entry, where).get("name") == name:
            return _mapping(entry.get(inner) or {}, f"{where}.{inner}"), f"{where}.{inner}"
    raise KubeconfigError(listed, "has no entry of the name that the context asks for")


def _refuse(found: Mapping[str, Any], where: str, known: frozenset[str]) -> None:
    """Refuse every key that is not known to be harmless, with the cure where there is one."""
    for key, value in found.items():
        if key in known or (key == "insecure-skip-tls-verify" and value in _FALSE):
            continue
        cure = _CURES.get(key, "is not accepted in a member's kubeconfig")
        raise KubeconfigError(f"{where}.{_shown(key)}", cure)


def _data(found: Mapping[str, Any], key: str, where: str) -> bytes | None:
    text = _text(found.get(key), f"{where}.{key}")
    if text is None:
        return None
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except ValueError as e:
        raise KubeconfigError(f"{where}.{key}", "is not base64") from e


def _decoded(data: Mapping[str, bytes], key: str) -> str | None:
    try:
        return data[key].decode().strip() or None if key in data else None
    except UnicodeDecodeError as e:
        raise KubeconfigError(key, "is not text") from e


def _checked(
    *,
    server: str | None,
    server_key: str,
    ca: bytes | None,
    token: str | None,
    client_cert: bytes | None,
    client_key: bytes | None,
    username: str | None,
    password: str | None,
    user_key: str,
    tls_server_name: str | None,
    tls_key: str,
    proxy_url: str | None,
    proxy_key: str,
    namespace: str,
) -> Connection:
    _addressed(server_key, server or "", check_server)
    if proxy_url is not None:
        _addressed(proxy_key, proxy_url, check_proxy)
    if tls_server_name is not None:
        _addressed(tls_key, tls_server_name, check_host)
    for secret, key in ((token, "token"), (username, "username"), (password, "password")):
        if secret is not None and not _sayable(secret):
            raise KubeconfigError(_join(user_key, key), "contains control characters")
    if token is not None and not re.fullmatch(r"[!-~]+", token):
        raise KubeconfigError(
            _join(user_key, "token"), "is no token: it holds a space, or no ASCII"
        )
    if username is not None and ":" in username:
        raise KubeconfigError(_join(user_key, "username"), "contains a colon, which ends it")
    if (client_cert is None) != (client_key is None):
        raise KubeconfigError(user_key or "clientCert", "certificate and key belong together")
    if not (token or client_cert or username):
        raise KubeconfigError(
            user_key or "token", "has no credential: give a token, a certificate and key, or a user"
        )
    connection = Connection(
        server=server or "",
        ca=ca,
        token=token,
        client_cert=client_cert,
        client_key=client_key,
        username=username,
        password=password,
        tls_server_name=tls_server_name,
        proxy_url=proxy_url,
        namespace=namespace,
    )
    from machinery.config import certificates  # noqa: PLC0415 - slow, see the module

    key_path = _join(user_key, "client-key-data" if user_key else "clientKey")
    certificates.verify(ca, client_cert, client_key, key_path)
    return connection


def _addressed(key: str, text: str, check: Callable[[str], None]) -> None:
    try:
        check(text)
    except ValueError as e:
        raise KubeconfigError(key, str(e)) from e


def _sayable(secret: str) -> bool:
    return not any(ord(c) < 32 or 127 <= ord(c) < 160 or 0xD800 <= ord(c) < 0xE000 for c in secret)


def _shown(key: str) -> str:
    """Return a key of a foreign document for a message."""
    return bounds.clean(key, bounds.WORD)


def _join(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key
