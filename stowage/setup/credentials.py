"""The rule that a token or a password travels inside TLS, or stays on this machine."""

from __future__ import annotations

from urllib.parse import urlsplit

from machinery.config.address import loopback
from machinery.config.kubeconfig import Connection
from machinery.errors import ConfigurationError
from stowage.console.terminal import say


def guarded(connection: Connection) -> Connection:
    """Return the connection, unless it would send a credential over plain http.

    Raises ConfigurationError then. To an address of this machine the credential goes without TLS,
    with a note: another user of the machine may own that port.
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
