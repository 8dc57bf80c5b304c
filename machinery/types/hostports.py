"""Host ports and anti-affinity within a node as resources, of which each node has one. Pure.

As a resource, `hostport/TCP/8080`, a port is counted like any other; no resource of Kubernetes has
two slashes. hostIP is ignored, which never overstates room.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

from machinery.types import quantities
from machinery.types.bounds import RESOURCES

PREFIX = "hostport/"
PROTOCOLS = ("TCP", "UDP", "SCTP")
MOST_PORT = 65535
_PORTS = len(PROTOCOLS) * (MOST_PORT + 1)
_APART = f"{PREFIX}node/"
_DIGEST = re.compile("[0-9a-f]{16}")
MOST_OF_ONE = 16
"""Host ports counted per template, and published per node."""
NONE: frozenset[int] = frozenset()


def apart(labels: Mapping[str, Any]) -> str:
    """Return the resource of which pods with these labels need one each."""
    text = json.dumps(labels, sort_keys=True, default=str)
    return f"{_APART}{hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}"


def is_apart(name: str) -> bool:
    return name.startswith(_APART)


def resource(protocol: str, port: int) -> str:
    return f"{PREFIX}{protocol}/{port}"


@lru_cache(maxsize=4096)
def code(name: str) -> int | None:
    """Return the number of a resource of which each node has one; None for any other."""
    if not name.startswith(PREFIX):
        return None
    if is_apart(name):
        digest = name.removeprefix(_APART)
        return _PORTS + int(digest, 16) if _DIGEST.fullmatch(digest) else None
    protocol, _, port = name.removeprefix(PREFIX).partition("/")
    plain = port.isdecimal() and port.isascii() and len(port) <= 5 and port[0] != "0"
    if protocol not in PROTOCOLS or not plain or int(port) > MOST_PORT:
        return None
    return code_of(protocol, int(port))


def code_of(protocol: str, port: int) -> int:
    return PROTOCOLS.index(protocol) * (MOST_PORT + 1) + port


def named(port: int) -> str:
    if port >= _PORTS:
        return f"{_APART}{port - _PORTS:016x}"
    protocol, number = divmod(port, MOST_PORT + 1)
    return resource(PROTOCOLS[protocol], number)


def codes(names: Collection[str]) -> frozenset[int]:
    found = (code(name) for name in names if name.startswith(PREFIX))
    return frozenset(port for port in found if port is not None)


def used(free: Mapping[str, str | int]) -> frozenset[int]:
    """Return the codes of the ports of which these free amounts have none."""
    if not any(name.startswith(PREFIX) for name in free):
        return NONE
    return frozenset(sorted(port for port in codes(free) if _none(free[named(port)]))[:RESOURCES])


def _none(text: str | int) -> bool:
    try:
        return quantities.bounded("", text) == 0
    except ValueError:
        return True


def words(name: str) -> str:
    """Return a resource for messages: `host port 8080/TCP`; most by their own name."""
    if is_apart(name):
        return "node without one of its replicas"
    if code(name) is None:
        return name
    return f"host port {place(name)}"


def place(name: str) -> str:
    protocol, _, port = name.removeprefix(PREFIX).partition("/")
    return f"{port}/{protocol}"
