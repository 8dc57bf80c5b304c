"""A connection's credential, as a TLS context and as HTTP headers; keys stay in memory."""

from __future__ import annotations

import base64
import contextlib
import os
import ssl
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from machinery.config.kubeconfig import Connection, TokenSource
from machinery.errors import ConfigurationError, KubeconfigError, Unauthorized

if TYPE_CHECKING:  # commands that must begin at once read this module, and need none of that
    from multidict import CIMultiDict


def client_context(connection: Connection) -> ssl.SSLContext:
    """Return a context that verifies the server by `connection.ca`, or by the system's CAs.

    Raises KubeconfigError if the CA, the certificate or the key cannot be used, or if a certificate
    or a key comes without the other.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    _trust(context, connection.ca)
    certificate, key = connection.client_cert, connection.client_key
    if certificate and key:
        _identify(context, certificate, key)
    elif certificate or key:
        # Without it the request would be anonymous.
        raise KubeconfigError("client-key-data", "certificate and key belong together")
    return context


def _trust(context: ssl.SSLContext, ca: bytes | None) -> None:
    if ca is None:
        context.load_default_certs()
        return
    try:
        context.load_verify_locations(cadata=ca.decode("ascii"))
    except (ssl.SSLError, ValueError) as e:
        raise KubeconfigError("certificate-authority-data", "is not a PEM certificate") from e


def _identify(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    try:
        with in_memory(certificate) as cert_path, in_memory(key) as key_path:
            context.load_cert_chain(cert_path, key_path, password=_no_passphrase)
    except OSError as e:  # an SSLError is one; of a pipe OpenSSL may say that it cannot seek
        raise KubeconfigError(
            "client-key-data", "certificate and key cannot be used together"
        ) from e


def _no_passphrase() -> str:
    return ""


@contextlib.contextmanager
def in_memory(data: bytes, *, pipe: bool = not hasattr(os, "memfd_create")) -> Iterator[str]:
    """Yield a path at which `data` can be read once, within the block; never on a disk."""
    descriptor = _pipe(data) if pipe else _memory_file(data)
    try:
        yield f"/dev/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _memory_file(data: bytes) -> int:
    descriptor = os.memfd_create("pem", os.MFD_CLOEXEC)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _pipe(data: bytes) -> int:
    reader, writer = os.pipe()
    try:
        os.set_blocking(writer, False)
        written = os.write(writer, data)
    finally:
        os.close(writer)
    if written == len(data):
        return reader
    os.close(reader)
    raise KubeconfigError("client-certificate-data", "is too long")


def identity(connection: Connection, user_agent: str) -> list[tuple[str, str]]:
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
    """Return the proxy's URL without its credentials, and the headers that carry them instead."""
    parts = urlsplit(url)
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    if parts.username is None:
        return bare, {}
    credentials = _basic(unquote(parts.username), unquote(parts.password or ""))
    return bare, {"Proxy-Authorization": credentials}


def _basic(username: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


def acting(headers: CIMultiDict[str], user: str) -> CIMultiDict[str]:
    # Not cached: the number of users is not known.
    headers = headers.copy()
    headers.popall("Impersonate-Group", None)
    headers["Impersonate-User"] = user
    return headers


def telling(headers: CIMultiDict[str], agent: str) -> CIMultiDict[str]:
    """Return the headers with `agent` at the end of User-Agent."""
    headers = headers.copy()
    headers["User-Agent"] = f"{headers['User-Agent']} {agent}"
    return headers


async def current_token(source: TokenSource, *, rejected: str | None = None) -> str:
    """Return the token to send now. Raises Unauthorized without one."""
    try:
        return await source(rejected=rejected)
    except ConfigurationError as e:
        raise Unauthorized(code=401, reason="Unauthorized", message=str(e)) from e
