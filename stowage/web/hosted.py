"""`stowage ui --serve`: the page in the hub, for many readers, each with their own rights.

One process reads the hub by its own account, which may list our kinds and nothing else. The hub's
TokenReview says whose bearer token or cookie it is; its SubjectAccessReviews say what that caller
may list. No other header says who somebody is.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qs

from machinery import tasks
from machinery.api.client import ApiClient
from machinery.api.resources import WORKLOADS
from machinery.api.verbs import Verbs
from machinery.clock import Clock, SystemClock
from machinery.errors import ConfigurationError, TransportError
from machinery.http_messages import Request, Response
from machinery.http_server import HttpServer
from stowage.console.terminal import say
from stowage.simulation.plan import Where
from stowage.web import render
from stowage.web.app import serving
from stowage.web.identity import AccessReviews, AnswerCache, Authenticator, Caller
from stowage.web.login import GONE, SealedTokens, key_of_process, keys_of_folder
from stowage.web.narrowing import Scope, scope_of
from stowage.web.render import HTML, fault, wants_json
from stowage.web.snapshot import KINDS
from stowage.web.source import HubSource
from stowage.web.visit import Sights, Visit
from stowage.web.whatif import same_origin

SCOPE_SECONDS = 1.0
"""For so long the answers to all questions of one caller are kept together."""
CERTIFICATE_SECONDS = 60.0
"""So often the certificate is read again: it is renewed in its place."""
PATIENCE_SECONDS = 10.0
"""For so long a page waits until the explanations of others are computed."""
UNKNOWN = "The hub does not know that token."
FOREIGN = "This page takes forms of its own alone."
TOO_LONG = "That token is too long for a cookie: have a proxy send it, as Authorization: Bearer."
LATER = "The hub does not answer: try again."


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedSettings:
    """Where to listen, and as whom to read.

    Args:
        where: the profiles that decide; its hub is the one that is followed.
        certificate: files of certificate and key; None for plain http behind a proxy that has TLS.
        keys: the folder of the keys that seal cookies; without it they end with the process.
    """

    where: Where
    host: str
    port: int
    certificate: tuple[Path, Path] | None = None
    keys: Path | None = None
    system: str = "stowage-system"


class TokenDoor:
    """Lets in whose token the hub knows, with the rights that the hub tells."""

    def __init__(self, hub: Verbs, sights: Sights, cookies: SealedTokens, clock: Clock) -> None:
        self._authenticator, self._reviews = Authenticator(hub, clock), AccessReviews(hub, clock)
        self._sights, self._cookies = sights, cookies
        self._scopes = AnswerCache[Scope](clock, seconds=SCOPE_SECONDS, most=1000)

    def route(self, server: HttpServer) -> None:
        server.route("GET", "/login", self._form)
        server.route("POST", "/login", self._login)
        server.route("POST", "/logout", self._logout)

    async def enter(self, request: Request) -> Visit | Response:
        given = request.header("Authorization")
        token = _bearer(given) if given else self._cookies.token(request)
        if not given and not token:
            return _stranger(request)
        caller = await self._authenticator.caller(token)
        if caller is None:
            return _unknown(request) if given else _stranger(request)
        return await self._visit(caller)

    async def _visit(self, caller: Caller) -> Visit:
        async def asked() -> Scope:
            held = {res: self._sights.whole.namespaces(res) for res in KINDS}
            return await scope_of(self._reviews.of(caller), held, self._sights.system)

        scope = await self._scopes.answer(caller.digest, asked)
        # what is pasted without a namespace is for the only one that there is
        own = {namespace for plural, namespace in scope.within if plural == WORKLOADS.plural}
        return Visit(
            session=caller.digest,
            sight=self._sights.of(scope),
            sights=self._sights,
            authorizer=self._reviews.of(caller),
            user=caller.digest,
            name=caller.name,
            namespace=own.pop() if len(own) == 1 else "",
        )

    async def _form(self, request: Request) -> Response:
        del request
        return _login_page()

    async def _login(self, request: Request) -> Response:
        if not same_origin(request):
            return fault(request, 403, FOREIGN)
        token = _pasted(request)
        try:
            caller = await self._authenticator.caller(token)
        except TransportError:
            return _login_page(LATER, 503)
        if caller is None:
            return _login_page(UNKNOWN, 401)
        cookie = self._cookies.cookie(token)
        if not cookie:
            return _login_page(TOO_LONG, 400)
        return Response(303, headers={"Location": "/", "Set-Cookie": cookie})

    async def _logout(self, request: Request) -> Response:
        if not same_origin(request):
            return fault(request, 403, FOREIGN)
        return Response(303, headers={"Location": "/login", "Set-Cookie": GONE})


def _bearer(header: str) -> str:
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _pasted(request: Request) -> str:
    try:
        fields = parse_qs(request.body.decode("ascii"), max_num_fields=10)
    except ValueError:
        return ""
    return fields.get("token", [""])[0].strip()


def _stranger(request: Request) -> Response:
    """Return the way to the login, and 401 to a program or for what is no page."""
    no_page = request.path.startswith("/api/") or request.method not in ("GET", "HEAD")
    if wants_json(request) or no_page:
        return _unknown(request)
    return Response(303, headers={"Location": "/login"})


def _unknown(request: Request) -> Response:
    headers = {"WWW-Authenticate": 'Bearer realm="stowage"'}
    return fault(request, 401, "A token of the hub is needed.", headers=headers)


def _login_page(said: str = "", status: int = 200) -> Response:
    body = render.page("login.html", datetime.now(UTC), {"fault": said})
    return Response(status, body, HTML)


async def run(
    settings: HostedSettings, *, listening: Callable[[int], None] = lambda _: None
) -> None:
    """Serve the page until cancelled; call `listening` with the port.

    Raises ConfigurationError, TransportError, OSError for a port that is taken.
    """
    clock = SystemClock()
    keys = keys_of_folder(settings.keys) if settings.keys else key_of_process()
    tls = _context(settings.certificate) if settings.certificate else None
    hub = settings.where.hub
    assert hub is not None  # noqa: S101 - the command has asked for one
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(ApiClient(hub, name="hub"))
        found = HubSource(client, hub.server, namespaces=(), system=settings.system)
        await stack.enter_async_context(found.follow())
        sights = Sights(found.snapshot, system=settings.system, clock=clock)
        door = TokenDoor(client, sights, SealedTokens(keys), clock)
        server, site = serving(found, door, settings.where, patience=PATIENCE_SECONDS)
        stack.push_async_callback(site.close)
        port = await server.start(settings.host, settings.port, tls=tls)
        stack.push_async_callback(server.stop)
        stack.callback(site.feed.close)
        if tls is not None and settings.certificate is not None:
            renewing = asyncio.create_task(_renew(tls, settings.certificate, clock))
            stack.push_async_callback(tasks.end, [renewing])
        await site.explaining.warm()
        say(f"{found.title}: serving on port {port}")
        listening(port)
        await asyncio.Event().wait()


def _context(files: tuple[Path, Path]) -> ssl.SSLContext:
    """Return the server's side of TLS. Raises ConfigurationError."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        made.load_cert_chain(*files)
    except (OSError, ssl.SSLError) as e:
        raise ConfigurationError(f"{files[0]}, {files[1]}: {e.strerror or e}") from e
    return made


async def _renew(context: ssl.SSLContext, files: tuple[Path, Path], clock: Clock) -> None:
    """Load the certificate again and again; one that cannot be read leaves the one before."""
    while True:
        await clock.sleep(CERTIFICATE_SECONDS)
        try:
            _context(files)  # certificate and key may be of two moments
        except ConfigurationError:
            continue
        context.load_cert_chain(*files)
