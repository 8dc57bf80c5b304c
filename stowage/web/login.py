"""The cookie of the hosted page: the caller's own token, sealed, so that the server keeps nothing.

All replicas read the keys from one mounted Secret. The first key seals, both open: a new key is put
in as `current`, and the old one stays as `previous` while its cookies live.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from http.cookies import CookieError, SimpleCookie
from pathlib import Path

import msgspec
from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from machinery.errors import ConfigurationError
from machinery.http_messages import Request

COOKIE = "__Host-stowage"
SESSION_SECONDS = 8 * 3600
"""A cookie is good for no longer."""
KEYS = ("current", "previous")
"""The files of the folder of keys, of which the first one seals."""
KEY_BYTES = 32
"""A key is at least so long."""
LONGEST_COOKIE = 4000
"""Bytes that every browser takes."""
_ATTRIBUTES = "Path=/; Secure; HttpOnly; SameSite=Strict"
GONE = f"{COOKIE}=; {_ATTRIBUTES}; Max-Age=0"
"""The header Set-Cookie that ends a session."""


class _Claims(msgspec.Struct):
    exp: float | None = None


class SealedTokens:
    """Cookies with a token inside. `now` is in seconds since the epoch.

    `keys` are asked for each time, so that a new key is used as soon as it is there.
    """

    def __init__(
        self, keys: Callable[[], Sequence[bytes]], *, now: Callable[[], float] = time.time
    ) -> None:
        self._keys, self._now = keys, now

    def cookie(self, token: str) -> str:
        """Return the header Set-Cookie; empty for a token that is too long for one."""
        now = int(self._now())
        until = min(now + SESSION_SECONDS, expiry(token) or now + SESSION_SECONDS)
        value = self._fernet().encrypt_at_time(token.encode(), now)
        if len(value) > LONGEST_COOKIE:
            return ""
        return f"{COOKIE}={value.decode()}; {_ATTRIBUTES}; Max-Age={max(until - now, 0)}"

    def token(self, request: Request) -> str:
        """Return the token of the request's cookie; empty where it has none that is good."""
        given, now = cookie(request, COOKIE), int(self._now())
        if not given:
            return ""
        try:
            opened = self._fernet().decrypt_at_time(given, SESSION_SECONDS - 1, now)
        except (InvalidToken, ValueError):
            return ""
        token = opened.decode()
        return token if now < (expiry(token) or now + 1) else ""

    def _fernet(self) -> MultiFernet:
        derived = [hashlib.sha256(b"stowage-ui-session" + each).digest() for each in self._keys()]
        return MultiFernet([Fernet(base64.urlsafe_b64encode(each)) for each in derived])


def cookie(request: Request, name: str) -> str:
    """Return the value of a cookie; empty without one, and for a header that cannot be read."""
    jar = SimpleCookie()
    with suppress(CookieError):
        jar.load(request.header("Cookie"))
    return jar[name].value if name in jar else ""


def expiry(token: str) -> int:
    """Return when a JWT ends, in seconds since the epoch; 0 of another one, or without an end.

    It is only read to end the cookie no later: whether the token is good says the hub.
    """
    parts = token.split(".")
    if len(parts) != 3:
        return 0
    try:
        body = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        return int(msgspec.json.decode(body, type=_Claims).exp or 0)
    except (ValueError, OverflowError):
        return 0


def keys_of_folder(folder: Path) -> Callable[[], Sequence[bytes]]:
    """Return what reads the keys of a mounted Secret. Raises ConfigurationError for no good key."""

    def read() -> Sequence[bytes]:
        found = [(folder / name).read_bytes() for name in KEYS if (folder / name).is_file()]
        if not found or any(len(each) < KEY_BYTES for each in found):
            told = f"{folder}: {KEYS[0]} is a file of at least {KEY_BYTES} bytes"
            raise ConfigurationError(told)
        return found

    read()
    return read


def key_of_process() -> Callable[[], Sequence[bytes]]:
    """Return what gives a key that ends with the process: one replica, for a while."""
    key = secrets.token_bytes(KEY_BYTES)
    return lambda: [key]
