"""The hub for commands: its connection, reads, and edits on the version that was read.

Commands that must answer at once read over the standard library, with the TLS, identity, errors and
bounds of `machinery.api.client`: that client takes half a second to import, and the library of
kubeconfigs most of a second.
"""

from __future__ import annotations

import http.client
import os
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self
from urllib.parse import urlencode, urlsplit

import msgspec

from crds.names import GROUP
from machinery.api.credentials import client_context, identity, proxy
from machinery.api.resources import MEMBER_CLUSTERS, Resource
from machinery.api.responses import decode, onward
from machinery.api.status_errors import refusal
from machinery.config.address import loopback
from machinery.config.kubeconfig import Connection, parse_kubeconfig
from machinery.errors import (
    ConfigurationError,
    Conflict,
    KubeconfigError,
    NotFound,
    ServerError,
    TLSVerificationFailed,
    TooManyRequests,
    TransportError,
    Unreachable,
)
from machinery.types import bounds
from machinery.types.bounds import TooMuch
from stowage.console.terminal import say

if TYPE_CHECKING:
    from machinery.api.client import ApiClient
    from machinery.api.verbs import Verbs

JSON = "application/json"
METADATA_LIST = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
SERVER_METADATA = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
)
"""What an API server writes into the metadata of an object."""
PAGE = 500
LONGEST_LINE = 1 << 20
"""Bytes of one line of a log that are printed at once."""
MOST_PAGES = 10_000
ATTEMPTS = 5
"""Tries of one request, if the server says when to try again."""
LONGEST_WAIT_SECONDS = 10.0
"""A request that the server postpones for longer fails."""
TRIES = 5
"""Writes, while others write the same object."""
_PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy")

Body = dict[str, Any]

# --- the connection -------------------------------------------------------------------------------


def connection(kubeconfig: str | None, context: str | None) -> Connection:
    """Return how to reach the hub. Raises ConfigurationError.

    The library reads a kubeconfig that is not plain. A token that changes is asked for once, as
    these commands last a moment.
    """
    plain = plain_connection(kubeconfig=kubeconfig, context=context)
    return guarded(plain or _other(kubeconfig, context))


def guarded(connection: Connection) -> Connection:
    """Return the connection. Raises ConfigurationError for a credential over plain http.

    To an address of this machine the credential goes without TLS, with a note: another user of the
    machine may own that port.
    """
    shown = connection.token or connection.token_source or connection.password
    address = urlsplit(connection.server)
    if not shown or address.scheme != "http":
        return connection
    if not loopback(address.hostname or ""):
        raise ConfigurationError(
            f"{connection.server} is plain http: the credential for it would be read on the way; "
            "use https, or `kubectl port-forward` and an address of this machine"
        )
    say(f"note: {connection.server} gets the credential without TLS", err=True)
    return connection


def plain_connection(*, kubeconfig: str | None, context: str | None) -> Connection | None:
    """Return the connection of one plain kubeconfig; None for any other, and for every fault."""
    listed = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
    if os.pathsep in listed or any(os.environ.get(name) for name in _PROXIES):
        return None
    try:
        file = Path(listed).expanduser()
        return parse_kubeconfig(
            file.read_bytes(), context=context, trusted=True, directory=file.parent
        )
    except (OSError, KubeconfigError):
        return None


def _other(kubeconfig: str | None, context: str | None) -> Connection:
    import asyncio  # noqa: PLC0415 - only here

    from machinery.config.hub_config import hub_connection  # noqa: PLC0415 - slow

    found = hub_connection(kubeconfig=kubeconfig, context=context)
    if found.token_source is None:
        return found
    return replace(found, token=asyncio.run(_token(found)), token_source=None)


async def _token(found: Connection) -> str | None:
    return await found.token_source() if found.token_source else None


def reader(of: Connection, *, timeout: float = 30.0) -> Reader:
    """Return a reader of an API server. Raises ConfigurationError where none is named."""
    if not of.server:
        raise ConfigurationError("the kubeconfig names no server")
    return Reader(of, timeout=timeout)


def at_server(fault: BaseException | None, at: Connection) -> ConfigurationError | None:
    """Return the fault of something missing with the server and context that were asked.

    None for any other fault. An API server answers with a Status if it has no such object, and
    without one, so without a reason, if it has no such kind.
    """
    cause = fault
    while cause is not None and not isinstance(cause, NotFound):
        cause = cause.__cause__
    where = at.server + (f" (context {at.context})" if at.context else "")
    if isinstance(cause, NotFound) and not cause.reason:
        return ConfigurationError(
            f"{where} does not know the kinds of {GROUP}: name the hub by --context or --kubeconfig"
            ", or run `stowage install` there"
        )
    found = isinstance(cause, NotFound) and isinstance(fault, ConfigurationError)
    return ConfigurationError(f"{fault}; {where} was asked") if found else None


# --- reads ----------------------------------------------------------------------------------------


class ObjectReader(Protocol):
    """Objects of a hub: read from it one by one, or from a snapshot."""

    def read(self, res: Resource, name: str, namespace: str | None, as_: Any) -> Any:
        """Return one object as a struct of type `as_`. Raises TransportError, such as NotFound."""
        ...

    def each(self, res: Resource, as_: Any, namespace: str | None = None) -> Iterator[Any]:
        """Yield the objects of one namespace, or all. Raises TransportError."""
        ...


class _Https(http.client.HTTPSConnection):
    """Verifies the server by the name that the kubeconfig gives."""

    def __init__(
        self, host: str, port: int, *, name: str, context: ssl.SSLContext, timeout: float
    ) -> None:
        # Given none, the library makes one of its own first, with all the system's certificates.
        super().__init__(host, port, timeout=timeout, context=context)
        self._name, self._tls = name, context

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        self.sock = self._tls.wrap_socket(self.sock, server_hostname=self._name)


class _Meta(msgspec.Struct):
    name: str


class _NamedObject(msgspec.Struct):
    metadata: _Meta


class _Named(msgspec.Struct):
    items: list[_NamedObject] = []


class Reader:
    """GETs of one API server. `timeout` bounds each wait, in seconds. Close it, or use `with`."""

    def __init__(
        self,
        connection: Connection,
        *,
        timeout: float = 30.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._connection, self._server, self._sleep = connection, connection.server, sleep
        self._headers = dict(identity(connection, "stowage"))
        url = urlsplit(connection.server)
        self._prefix, host = url.path.rstrip("/"), url.hostname or ""
        port = url.port or (443 if url.scheme == "https" else 80)
        via, at, credentials = _way(connection.proxy_url, host, port)
        self._http: http.client.HTTPConnection
        if url.scheme == "https":
            name, context = connection.tls_server_name or host, client_context(connection)
            self._http = _Https(via, at, name=name, context=context, timeout=timeout)
        else:
            self._http = http.client.HTTPConnection(via, at, timeout=timeout)
        if connection.proxy_url:
            self._http.set_tunnel(host, port, credentials)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, e: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()
        if (fault := at_server(e, self._connection)) is not None:
            raise fault from e

    def get(
        self, path: str, params: Mapping[str, str] | None = None, *, accept: str = JSON
    ) -> bytes:
        """Return the body of a 2xx answer. Raises TransportError, among them TooMuch.

        A busy server that says when to come back is asked again then.
        """
        where = f"{self._prefix}{path}" + (f"?{urlencode(params)}" if params else "")
        for _ in range(ATTEMPTS - 1):
            try:
                return self._once(where, accept)
            except (TooManyRequests, ServerError) as e:
                if e.retry_after is None or e.retry_after > LONGEST_WAIT_SECONDS:
                    raise
                self._sleep(e.retry_after)
        return self._once(where, accept)

    def _once(self, where: str, accept: str = JSON) -> bytes:
        with self._reached():
            answer = self._answer(where, accept)
            body = answer.read(bounds.PAGE_BYTES + 1)
        if len(body) > bounds.PAGE_BYTES:
            self._http.close()
            raise TooMuch(f"{where.partition('?')[0]}: more than {bounds.PAGE_BYTES} bytes")
        if not 200 <= answer.status < 300:
            raise refusal(answer.status, dict(answer.getheaders()), body)
        return body

    def _answer(self, where: str, accept: str = JSON) -> http.client.HTTPResponse:
        self._http.request("GET", where, headers={**self._headers, "Accept": accept})
        return self._http.getresponse()

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """Raise a TransportError for what the standard library raises of a connection."""
        try:
            yield
        except ssl.SSLCertVerificationError as e:
            raise TLSVerificationFailed(f"{self._server}: {e.verify_message}") from e
        except TimeoutError as e:  # that of a handshake names a line of Python's own source
            self._http.close()
            raise Unreachable(f"{self._server}: no answer in time") from e
        except (OSError, http.client.HTTPException) as e:
            self._http.close()
            said = (e.strerror if isinstance(e, OSError) else "") or str(e) or type(e).__name__
            raise Unreachable(f"{self._server}: {bounds.clean(said)}") from e

    def lines(self, path: str, params: Mapping[str, str]) -> Iterator[str]:
        """Yield the lines of a text that may go on, such as a log, a very long one in parts.

        No time bounds the wait for the next line. Raises as `get` does.
        """
        with self._reached():
            answer = self._answer(f"{self._prefix}{path}?{urlencode(params)}")
            if not 200 <= answer.status < 300:
                raise refusal(
                    answer.status, dict(answer.getheaders()), answer.read(bounds.PAGE_BYTES)
                )
            if self._http.sock is not None:
                self._http.sock.settimeout(None)
        while True:
            with self._reached():
                line = answer.readline(LONGEST_LINE)
            if not line:
                return
            yield line.decode(errors="replace").rstrip("\n")

    def names(self, res: Resource, namespace: str | None = None) -> list[str]:
        """Return the names of one page of a list. Raises TransportError."""
        where = f"{self._prefix}{res.path(namespace)}?limit={PAGE}"
        page = decode(self._once(where, METADATA_LIST), msgspec.json.Decoder(_Named))
        return [each.metadata.name for each in page.items]

    def read(self, res: Resource, name: str, namespace: str | None, as_: Any) -> Any:
        """Return one object as a struct of type `as_`. Raises as `get` does."""
        return decode(self.get(res.path(namespace, name)), msgspec.json.Decoder(as_))

    def each(
        self, res: Resource, as_: Any, namespace: str | None = None, *, selector: str = ""
    ) -> Iterator[Any]:
        """Yield the objects of a list, page by page, as structs of type `as_`.

        `selector` selects them by labels. A page that is too large is asked for again with fewer.
        """
        decoder = msgspec.json.Decoder(msgspec.defstruct("Page", [("items", list[as_], [])]))
        selected = {"labelSelector": selector} if selector else {}
        params = selected
        size = PAGE
        for _ in range(MOST_PAGES):
            try:
                page = self.get(res.path(namespace), {**params, "limit": str(size)})
            except TooMuch:
                if size == 1:
                    raise
                size = max(1, size // 8)
                continue
            yield from decode(page, decoder).items
            following = onward(page)
            if not following:
                return
            params = {**selected, "continue": following}
            size = min(PAGE, max(1, size * bounds.USUAL_PAGE_BYTES // len(page)))
        raise TransportError(f"the list of {res.plural} has no end after {MOST_PAGES} pages")


def _way(proxy_url: str | None, host: str, port: int) -> tuple[str, int, dict[str, str]]:
    """Return host, port and headers of the first hop: the server, or its proxy."""
    if not proxy_url:
        return host, port, {}
    bare, credentials = proxy(proxy_url)
    address = urlsplit(bare)
    if address.scheme != "http":
        raise ConfigurationError(f"a proxy that is reached by {address.scheme} is not supported")
    return address.hostname or "", address.port or 80, credentials


# --- edits ----------------------------------------------------------------------------------------


async def edit(
    hub: Verbs,
    res: Resource,
    name: str,
    patch_of: Callable[[Body], Mapping[str, Any]],
    *,
    namespace: str | None = None,
) -> Body:
    """Write the merge patch that `patch_of` makes of the stored object; return the object.

    The write succeeds only on the version that was read, else the object is read again. An empty
    patch writes nothing. Raises Conflict after TRIES writes, and what `patch_of` raises.
    """
    for left in reversed(range(TRIES)):
        stored = await hub.get(res, name, namespace=namespace)
        patch = patch_of(stored)
        if not patch:
            return stored
        read = {"resourceVersion": stored["metadata"]["resourceVersion"]}
        patch = {**patch, "metadata": {**patch.get("metadata", {}), **read}}
        try:
            return await hub.merge_patch(res, name, patch, namespace=namespace)
        except Conflict:
            if not left:
                raise
    raise AssertionError("a last try returns or raises")


async def member_cluster(hub: ApiClient, name: str) -> Body:
    """Return a MemberCluster as stored. Raises ConfigurationError for no such cluster."""
    try:
        return await hub.get(MEMBER_CLUSTERS, name)
    except NotFound as e:
        raise await no_such_cluster(hub, name) from e


async def no_such_cluster(hub: ApiClient, name: str) -> ConfigurationError:
    """Return the fault of a name that no MemberCluster of the hub has."""
    listed = (await hub.list(MEMBER_CLUSTERS, metadata_only=True))["items"]
    return unknown_cluster(name, (each["metadata"]["name"] for each in listed))


def unknown_cluster(name: str, known: Iterable[str]) -> ConfigurationError:
    from crds.faults import suggestion  # noqa: PLC0415 - slow, and most names are right

    meant = suggestion(name, known)
    return ConfigurationError(f"the hub knows no cluster {name}{meant}: see `kubectl get mc`")
