"""Ports that are held, and whether something answers on one: all that starting a server needs.

The standard library's client, because all that is asked is one status code, before there is
anything to be configured.
"""

from __future__ import annotations

import http.client
import socket
import ssl
from typing import Self

from machinery.errors import StowageError

# What a server says that lost the race for a port; the same words in etcd and the API server.
PORT_TAKEN = "address already in use"
ATTEMPTS = 3


class HeldPort:
    """A port of 127.0.0.1 that the kernel gives to no other program until `release`.

    The socket is bound and does not listen: connections are refused until a server listens there
    that binds with SO_REUSEPORT, as etcd and API servers do when their flags say so. No other
    program takes the port between its choice and the server's bind, nor while the server is down.
    """

    def __init__(self, number: int = 0) -> None:
        """Hold that port, or any that is free. Raises StowageError where another program has it."""
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            self._socket.bind(("127.0.0.1", number))
        except OSError as error:
            self._socket.close()
            raise StowageError(
                f"127.0.0.1:{number} cannot be used: {error.strerror}. End the program that has it"
            ) from error
        self.number = int(self._socket.getsockname()[1])

    def release(self) -> None:
        """Leave the port to whoever listens there, or to anyone."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


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
