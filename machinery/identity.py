"""Who asks, as HTTP headers: the credential of a connection, its impersonation, its proxy's."""

from __future__ import annotations

import base64
from urllib.parse import unquote, urlsplit

from machinery.kubeconfig import Connection


def identity(connection: Connection, user_agent: str) -> list[tuple[str, str]]:
    """The headers of every request, but for a token that changes."""
    headers = [("User-Agent", user_agent), ("Accept-Encoding", "identity")]
    if connection.token:
        headers.append(("Authorization", f"Bearer {connection.token}"))
    elif connection.username is not None:
        headers.append(("Authorization", _basic(connection.username, connection.password or "")))
    if connection.impersonate:
        headers.append(("Impersonate-User", connection.impersonate))
        headers += [("Impersonate-Group", group) for group in connection.impersonate_groups]
    return headers


def proxy(url: str) -> tuple[str, dict[str, str]]:
    """The proxy's URL without the credentials in it, and the headers that carry them instead."""
    parts = urlsplit(url)
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    if parts.username is None:
        return bare, {}
    credentials = _basic(unquote(parts.username), unquote(parts.password or ""))
    return bare, {"Proxy-Authorization": credentials}


def _basic(username: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()
