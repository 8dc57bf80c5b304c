"""Who may see the page on this machine: whoever opened it with the key that `stowage ui` printed.

Every user of the machine may reach a port on loopback. The key in the printed address is good for
one request; what it gives is a cookie, sealed with a secret in the user's own state folder. So an
open page stays open over a restart, and a copied address opens none.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from machinery.http_messages import Request, Response
from machinery.http_server import HttpServer
from stowage.web.login import cookie
from stowage.web.render import fault
from stowage.web.visit import Sights, Visit, own

COOKIE = "stowage-ui"
SESSION_SECONDS = 8 * 3600
"""For so long a cookie is good."""
OPEN = "Open the page with the address that stowage ui has printed"
_SECRET_BYTES = 32


class Sessions:
    """The one-time key, and the cookies that it gave. `now` is in seconds since the epoch."""

    def __init__(self, secret: bytes, *, now: Callable[[], float] = time.time) -> None:
        self._secret, self._now = secret, now
        self.key: str | None = secrets.token_urlsafe(32)
        """Good for one request; None once it was used."""

    def opened(self, request: Request) -> str:
        """Return the session of the cookie; empty where it has none that is good."""
        session, _, seal = cookie(request, COOKIE).rpartition(".")
        if not hmac.compare_digest(seal.encode(), self._seal(session).encode()):
            return ""
        return session if self._good(session) else ""

    def redeem(self, request: Request) -> str:
        """Return the header Set-Cookie for the one-time key; empty where the key is another."""
        given, self_key = request.query.get("key", ""), self.key
        if self_key is None or not hmac.compare_digest(given.encode(), self_key.encode()):
            return ""
        self.key = None
        session = f"{secrets.token_urlsafe(12)}.{int(self._now()) + SESSION_SECONDS}"
        value = f"{session}.{self._seal(session)}"
        # not Secure: the address is plain http on loopback
        return f"{COOKIE}={value}; Path=/; Max-Age={SESSION_SECONDS}; HttpOnly; SameSite=Strict"

    def _seal(self, session: str) -> str:
        return hmac.new(self._secret, session.encode(), hashlib.sha256).hexdigest()

    def _good(self, session: str) -> bool:
        until = session.rpartition(".")[2]
        return until.isascii() and until.isdigit() and int(until) > self._now()


class KeyDoor:
    """Lets in whoever has the key, or the cookie that it gave, to the whole fleet."""

    def __init__(self, sessions: Sessions, sights: Sights) -> None:
        self._sessions, self._sights = sessions, sights

    async def enter(self, request: Request) -> Visit | Response:
        session, headers = self._sessions.opened(request), dict[str, str]()
        if not session:
            redeemed = self._sessions.redeem(request)
            if not redeemed:
                message = "The key in that address is good for one use."
                return fault(request, 401, message, heading=OPEN)
            headers["Set-Cookie"] = redeemed
        return own(self._sights, session, headers)

    def route(self, server: HttpServer) -> None:
        """Register nothing: the key is in the address."""


def secret_of_user() -> bytes:
    """Return the secret in `$XDG_STATE_HOME/stowage`, made by the first call; for its owner alone.

    Where nothing can be written there it is a new one: then a restart closes open pages.
    """
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    file = state / "stowage" / "ui-secret"
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(FileExistsError):
            _write(file)
        found = file.read_bytes()
        if len(found) == _SECRET_BYTES and not file.stat().st_mode & 0o077:
            return found
    return secrets.token_bytes(_SECRET_BYTES)


def _write(file: Path) -> None:
    """Make the file whole or not at all, also where two processes begin at once."""
    made = file.with_suffix(f".{os.getpid()}")
    with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        out.write(secrets.token_bytes(_SECRET_BYTES))
    try:
        os.link(made, file)
    finally:
        made.unlink()
