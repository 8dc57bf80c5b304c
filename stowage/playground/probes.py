"""Free ports, and whether something answers on one: what starting a server needs, and no more.

The standard library's client, because all that is asked is one status code, before there is
anything to be configured.
"""

from __future__ import annotations

import http.client
import socket
import ssl

# What a server says that lost the race for a port; the same words in etcd and the API server.
PORT_TAKEN = "address already in use"
ATTEMPTS = 3


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def api_ready(port: int, ca: bytes) -> bool:
    """Whether the API server on that port says it is ready."""
    context = ssl.create_default_context(cadata=ca.decode())
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=2, context=context)
    return _says_ok(connection, "/readyz")


def etcd_healthy(port: int, context: ssl.SSLContext) -> bool:
    """Whether the etcd on that port says it is healthy, to a client that it lets in."""
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=2, context=context)
    return _says_ok(connection, "/health")


def _says_ok(connection: http.client.HTTPConnection, path: str) -> bool:
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
