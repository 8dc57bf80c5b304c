"""Checks addresses of servers and proxies, and names to verify, before any attempt.

Raises ValueError that does not repeat the value: a proxy's may hold a password.
"""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import SplitResult, urlsplit

from machinery.types import bounds

_PLAIN = re.compile(r"[!-~]+")
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?", re.IGNORECASE)
_PATH = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@%/-]*")
_CREDENTIALS = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:%-]*")
_ADDRESS = 2048
"""The most characters of an address."""


def loopback(host: str) -> bool:
    """Whether only this machine reaches the address.

    Names other than localhost count as reachable.
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_server(text: str) -> None:
    """Check an https URL of a host, with at most a port and a path."""
    parts = _split(text, schemes=("https",), what="an https URL")
    if "@" in parts.netloc or "?" in text or "#" in text:
        raise ValueError("carries more than a host, a port and a path")
    if not _PATH.fullmatch(parts.path) or {"..", "."} & set(parts.path.split("/")):
        raise ValueError("has a path that cannot be used")


def check_hub(text: str) -> None:
    """Check an http or https URL of a host, as a user's own kubeconfig names the hub."""
    _split(text, schemes=("http", "https"), what="an http or https URL")


def check_proxy(text: str) -> None:
    """Check an http or https URL of a host, with at most a port and credentials."""
    parts = _split(text, schemes=("http", "https"), what="an http or https URL")
    credentials, at, _ = parts.netloc.rpartition("@")
    if at and not _CREDENTIALS.fullmatch(credentials):
        raise ValueError("has credentials with characters that have to be written as %XX")
    if parts.path not in ("", "/") or "?" in text or "#" in text:
        raise ValueError("carries more than credentials, a host and a port")


def check_host(text: str) -> None:
    """Check a DNS name, or an IP address without brackets and without a zone."""
    if not text.isascii():
        raise ValueError("is not in ASCII; write the host as xn--…")
    if len(text) > bounds.NAME:
        raise ValueError(f"has a host longer than {bounds.NAME} characters")
    if ":" in text or re.fullmatch(r"[0-9.]+", text):
        try:
            address = ipaddress.ip_address(text)
        except ValueError as e:
            raise ValueError("names an IP address that is none") from e
        if getattr(address, "scope_id", None):
            raise ValueError("names an IP address with a zone, which means nothing elsewhere")
    elif not all(map(_LABEL.fullmatch, text.split("."))):
        raise ValueError("names a host that is neither a DNS name nor an IP address")


def _split(text: str, *, schemes: tuple[str, ...], what: str) -> SplitResult:
    if len(text) > _ADDRESS:
        raise ValueError(f"is longer than {_ADDRESS} characters")
    if not text.isascii():
        raise ValueError("is not in ASCII; write the host as xn--… and the path with %XX")
    if not _PLAIN.fullmatch(text):
        raise ValueError("holds a space or a control character")
    try:
        parts = urlsplit(text)
    except ValueError as e:
        raise ValueError(f"is not {what}") from e
    if parts.scheme not in schemes or not parts.hostname:
        raise ValueError(f"is not {what}")
    try:
        port = parts.port
    except ValueError as e:
        raise ValueError("has a port that is none") from e
    if port == 0:
        raise ValueError("has a port that is none")
    check_host(parts.hostname)
    return parts
