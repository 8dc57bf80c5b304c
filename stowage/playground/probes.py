"""Ports that are held, and probes whether a server answers."""

from __future__ import annotations

import http.client
import socket
import ssl
from typing import Self

from machinery.errors import StowageError

# The message of a server whose port another one has; etcd and the API server use the same words.
PORT_TAKEN = "address already in use"
ATTEMPTS = 3


class HeldPort:
    """A port of 127.0.0.1 that the kernel gives to no other program until `release`.

    The socket is bound and does not listen: connections are refused until a server listens there
    that binds with SO_REUSEPORT, as etcd and API servers do when their flags say so. No other
    program takes the port between its choice and the server's bind, nor while the server is down.
    """

    def __init__(self, number: int = 0) -> None:
        """Hold that port, or any that is free. Raises StowageError if another program has it."""
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
        """Release the port; a server that listens on it keeps it."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def api_ready(port: int, ca: bytes) -> bool:
    context = ssl.create_default_context(cadata=ca.decode())
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=2, context=context)
    return _says_ok(connection, "/readyz")


def etcd_healthy(port: int, context: ssl.SSLContext) -> bool:
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
