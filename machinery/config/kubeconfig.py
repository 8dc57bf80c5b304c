"""Kubeconfigs: a member's, of which nothing is trusted, and a user's own of the plain form.

A `Connection` is all that `machinery.api.client` needs; its repr never shows a secret.
"""

from __future__ import annotations

import base64
import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from machinery.config import plaintext
from machinery.config.address import check_host, check_hub, check_proxy, check_server
from machinery.errors import KubeconfigError
from machinery.types import bounds
from machinery.types.bounds import TooMuch

_MEMBER_CLUSTER = frozenset(
    {
        "server",
        "certificate-authority-data",
        "tls-server-name",
        "proxy-url",
        "disable-compression",
        "extensions",
    }
)
_MEMBER_USER = frozenset(
    {"token", "client-certificate-data", "client-key-data", "username", "password", "extensions"}
)
_OWN_CLUSTER = frozenset(
    {"server", "certificate-authority-data", "certificate-authority", "tls-server-name"}
)
_OWN_USER = frozenset(
    {"client-certificate-data", "client-key-data", "client-certificate", "client-key", "token"}
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
    """A bearer token that changes."""

    async def __call__(self, *, rejected: str | None = None) -> str:
        """Return the token to use now. Raises ConfigurationError without one.

        `rejected` is a token that the server has just refused.
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
    context: str = field(default="", compare=False)
    """Empty without one, as in a pod."""
    namespace: str = "default"
    impersonate: str | None = None
    impersonate_groups: tuple[str, ...] = ()
    token_source: TokenSource | None = field(default=None, repr=False)


def parse_kubeconfig(
    data: bytes, *, context: str | None = None, trusted: bool = False, directory: Path = Path()
) -> Connection:
    """Return the connection of a kubeconfig; nothing is executed or sent.

    A member's may have server, CA data, token, client certificate and key data, user name and
    password, TLS server name and proxy. A user's own is `trusted`: it may name files, relative to
    `directory`, and a server without https. Its user names and proxies are not read, because they
    depend on the environment.

    Raises KubeconfigError, naming the key, for exec and auth-provider, a path of a file in a
    member's, skipped verification, impersonation, a member's server without https, a missing
    context, or a malformed document; OSError for a file of a user's own.
    """
    document = _mapping(_load(data), "")
    name = context or _text(document.get("current-context"), "current-context")
    if not name:
        raise KubeconfigError("current-context", "is missing; say which context is meant")
    find = functools.partial(_named, document, unique=trusted)
    chosen, where = find("context", name)
    cluster, at_cluster = find("cluster", _text(chosen.get("cluster"), f"{where}.cluster"))
    user, at_user = find("user", _text(chosen.get("user"), f"{where}.user"))
    _refuse(cluster, at_cluster, _OWN_CLUSTER if trusted else _MEMBER_CLUSTER)
    _refuse(user, at_user, _OWN_USER if trusted else _MEMBER_USER)
    connection = Connection(
        server=_text(cluster.get("server"), f"{at_cluster}.server") or "",
        ca=_pem(cluster, "certificate-authority", at_cluster, directory),
        token=_text(user.get("token"), f"{at_user}.token"),
        client_cert=_pem(user, "client-certificate", at_user, directory),
        client_key=_pem(user, "client-key", at_user, directory),
        username=_text(user.get("username"), f"{at_user}.username"),
        password=_text(user.get("password"), f"{at_user}.password"),
        tls_server_name=_text(cluster.get("tls-server-name"), f"{at_cluster}.tls-server-name"),
        proxy_url=_text(cluster.get("proxy-url"), f"{at_cluster}.proxy-url"),
        context=name,
        namespace=_namespace(chosen, where),
    )
    if trusted:
        _addressed(f"{at_cluster}.server", connection.server, check_hub)
        return replace(connection, server=connection.server.rstrip("/"))
    return _checked(
        connection,
        server_key=f"{at_cluster}.server",
        tls_key=f"{at_cluster}.tls-server-name",
        proxy_key=f"{at_cluster}.proxy-url",
        user_key=at_user,
    )


def connection_from_secret(data: Mapping[str, bytes]) -> Connection:
    """Return the connection of a registration Secret's decoded data. Raises KubeconfigError.

    The data is `kubeconfig`, or key by key: endpoint, clusterCA, and token, or clientCert and
    clientKey, or username and password.
    """
    size = sum(map(len, data.values()))
    if size > bounds.SECRET_BYTES:
        largest = max(data, key=lambda key: len(data[key]))
        raise KubeconfigError(_shown(largest), too_large(size))
    if data.get("kubeconfig"):
        return parse_kubeconfig(data["kubeconfig"])
    if not data.get("endpoint"):
        raise KubeconfigError("kubeconfig", "is missing; give kubeconfig, or endpoint and the rest")
    connection = Connection(
        server=_decoded(data, "endpoint") or "",
        ca=data.get("clusterCA") or None,
        token=_decoded(data, "token"),
        client_cert=data.get("clientCert") or None,
        client_key=data.get("clientKey") or None,
        username=_decoded(data, "username"),
        password=_decoded(data, "password"),
        tls_server_name=_decoded(data, "tlsServerName"),
        proxy_url=_decoded(data, "proxyURL"),
    )
    return _checked(
        connection,
        server_key="endpoint",
        tls_key="tlsServerName",
        proxy_key="proxyURL",
        user_key="",
    )


def too_large(size: int) -> str:
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
    document: Mapping[str, Any], kind: str, name: str | None, *, unique: bool
) -> tuple[Mapping[str, Any], str]:
    listed = f"{kind}s"
    entries = document.get(listed)
    if not isinstance(entries, list):
        raise KubeconfigError(listed, "is missing")
    found: tuple[Mapping[str, Any], str] | None = None
    for index, entry in enumerate(entries):
        where = f"{listed}[{index}]"
        if _mapping(entry, where).get("name") == name:
            if found is not None:
                raise KubeconfigError(listed, "has several entries of one name")
            found = _mapping(entry.get(kind) or {}, f"{where}.{kind}"), f"{where}.{kind}"
            if not unique:
                break
    if found is None:
        raise KubeconfigError(listed, "has no entry of the name that the context asks for")
    return found


def _refuse(found: Mapping[str, Any], where: str, known: frozenset[str]) -> None:
    for key, value in found.items():
        if key in known or (key == "insecure-skip-tls-verify" and value in _FALSE):
            continue
        cure = _CURES.get(key, "is not accepted in a member's kubeconfig")
        raise KubeconfigError(f"{where}.{_shown(key)}", cure)


def _pem(entry: Mapping[str, Any], name: str, where: str, directory: Path) -> bytes | None:
    key = f"{where}.{name}-data"
    text = _text(entry.get(f"{name}-data"), key)
    if text is None:
        file = _text(entry.get(name), f"{where}.{name}")
        return (directory / file).read_bytes() if file else None
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except ValueError as e:
        raise KubeconfigError(key, "is not base64") from e


def _decoded(data: Mapping[str, bytes], key: str) -> str | None:
    try:
        return data[key].decode().strip() or None if key in data else None
    except UnicodeDecodeError as e:
        raise KubeconfigError(key, "is not text") from e


def _checked(
    connection: Connection, *, server_key: str, tls_key: str, proxy_key: str, user_key: str
) -> Connection:
    _addressed(server_key, connection.server, check_server)
    if connection.proxy_url is not None:
        _addressed(proxy_key, connection.proxy_url, check_proxy)
    if connection.tls_server_name is not None:
        _addressed(tls_key, connection.tls_server_name, check_host)
    token, username, password = connection.token, connection.username, connection.password
    for secret, key in ((token, "token"), (username, "username"), (password, "password")):
        if secret is not None and not _sayable(secret):
            raise KubeconfigError(_join(user_key, key), "contains control characters")
    if token is not None and not re.fullmatch(r"[!-~]+", token):
        raise KubeconfigError(
            _join(user_key, "token"), "is no token: it holds a space, or no ASCII"
        )
    if username is not None and ":" in username:
        raise KubeconfigError(_join(user_key, "username"), "contains a colon, which ends it")
    if (connection.client_cert is None) != (connection.client_key is None):
        raise KubeconfigError(user_key or "clientCert", "certificate and key belong together")
    if not (token or connection.client_cert or username):
        raise KubeconfigError(
            user_key or "token", "has no credential: give a token, a certificate and key, or a user"
        )
    from machinery.config import certificates  # noqa: PLC0415 - slow, see the module

    key_path = _join(user_key, "client-key-data" if user_key else "clientKey")
    certificates.verify(connection.ca, connection.client_cert, connection.client_key, key_path)
    return connection


def _addressed(key: str, text: str, check: Callable[[str], None]) -> None:
    try:
        check(text)
    except ValueError as e:
        raise KubeconfigError(key, str(e)) from e


def _sayable(secret: str) -> bool:
    return not any(ord(c) < 32 or 127 <= ord(c) < 160 or 0xD800 <= ord(c) < 0xE000 for c in secret)


def _shown(key: str) -> str:
    return bounds.clean(key, bounds.WORD)


def _join(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key
