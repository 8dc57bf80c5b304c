"""The bounds on everything that comes from outside, and their checks.

A violation is a `TooMuch`, which the caller turns into the condition of one object.
"""

from __future__ import annotations

import re
from itertools import accumulate

from machinery.errors import TransportError

KIB, MIB = 1024, 1024 * 1024

# Answers of an API server.
OBJECT_BYTES = 4 * MIB
PAGE_BYTES = 4 * MIB
"""A longer page is requested again in smaller ones, down to a single object."""
USUAL_PAGE_BYTES = 1 * MIB
"""A longer page makes the next ones smaller."""
LINE_BYTES = 4 * MIB
FACT_BYTES = 64 * KIB
"""/version, /readyz: a page of text at most."""
DISCOVERY_BYTES = 1 * MIB
REFUSAL_BYTES = 256 * KIB
MODEST_BYTES = 64 * KIB
"""Answers and lines up to this size are read concurrently, larger ones one at a time."""

# Input that is decoded in one step, while nothing else runs.
CONTAINERS = 100_000
"""Mappings and lists in one object."""
VALUES = 400_000
DEPTH = 64
"""Nesting of JSON or YAML. A pod is 12 deep; Python's recursion ends at 1,000."""

# Objects of a server that are kept in memory.
KEPT_OBJECTS = 300_000
"""Objects of one kind on one server; Kubernetes is tested up to 150,000 pods."""
KEPT_BYTES = 256 * MIB
"""Memory for the objects of all members in a process without a memory limit."""
NO_LIMIT = 1 << 50
"""A larger memory limit means no limit."""
NAME = 253
UID = 128
LABEL_VALUE = 63
"""Characters of the value of a label."""
VERSION_TEXT = LABEL_VALUE
RESOURCES = 64
TAINTS = 64
ADDRESSES = 32
"""Addresses of one load balancer that are reported."""
CONDITIONS = 32
"""Conditions of a member's object that are read."""

# Numbers beyond these are cut where they enter, or refused.
MOST_AMOUNT = 2**56
"""An amount of any resource, on a node, in a cluster, or in the request of one unit. 64 PiB of
memory, 72 trillion cores: a hundred times it is below 2**63, so percentages are exact in int64.
"""
MOST_UNITS = 2**31 - 1
"""Units of one Workload or share: Kubernetes counts replicas in an int32."""
MOST_NODES = 2**20
LONGEST_QUANTITY = 64

# Texts for people.
MESSAGE = 4096
"""Characters of a server's message in conditions, events and logs."""
WORD = 128
"""Characters of a reason or a type of a condition."""

# Registration.
SECRET_BYTES = 64 * KIB
SECRET_DEPTH = 16
SECRET_NODES = 4096
"""Keys, values, lists and mappings of a kubeconfig; a usual one has 40."""

# Requests to one member, in flight at once.
FOR_ONE_WORKLOAD = 8
LEASES = 2
DISCOVERIES = 4
PROBES = 2
DISCOVERY_SECONDS = 3.0
DISCOVERED = 64
"""Groups and versions that are cached for one server, found or not."""
KINDS = 1000
"""Resource types of one group and version, including subresources."""
TOKEN = 4096
UNKNOWN_SECONDS = 5.0
"""Seconds for which an unknown kind, or a fault of discovery, is cached."""
RETRY_AFTER_SECONDS = 60.0
"""The longest Retry-After that is obeyed."""

_CONTROLS = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]+"
)
"""Characters that a terminal obeys: controls, those that change the direction of writing, and those
without width.

Lone surrogates, too: they cannot be encoded.
"""
_TO_SQUARE = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")
_CUT = DEPTH + 8
_TOKENS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
_STEPS = {ord("["): 1, ord("]"): -1}


class TooMuch(TransportError):
    """The message names the input and the bound."""


def clean(text: str, most: int = MESSAGE) -> str:
    """Return the text in one line of at most `most` characters, without control characters.

    A longer text ends in an ellipsis.
    """
    head = _CONTROLS.sub(" ", text[: 4 * most])
    tidy = " ".join(head.split())
    if len(tidy) <= most and len(text) <= 4 * most:
        return tidy
    return tidy[: most - 1].rstrip() + "…"


def shown(text: str) -> str:
    """Return the text for a terminal: lines and tabs stay, other control characters become `?`."""
    return _CONTROLS.sub(lambda found: "".join(c if c in "\n\t" else "?" for c in found[0]), text)


def between(least: int, number: int, most: int) -> int:
    return max(least, min(number, most))


def quoted(value: object, *, most: int = 40) -> str:
    """Return a value from outside for a message: escaped, and cut to `most` characters."""
    if isinstance(value, str) and len(value) > most:
        return f"{value[:most]!r}…"
    if isinstance(value, str | float | None):
        return repr(value)
    if isinstance(value, int):
        return str(value) if value.bit_length() <= 64 else "a number of more than 64 bits"
    return f"a {type(value).__name__}"


def name_in_words(name: str, *, most: int = LABEL_VALUE) -> str:
    """Quoted if too long, or with control characters."""
    return name if clean(name, most) == name else quoted(name)


def check_json(data: bytes | memoryview, *, depth: int = DEPTH) -> None:
    """Raise TooMuch for JSON that would cost more to decode than its bytes suggest."""
    data = bytes(data)
    if data.count(b"{") + data.count(b"[") <= depth and data.count(b",") <= VALUES:
        return
    brackets = _brackets(data)
    if max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > depth:
        raise TooMuch(f"nested deeper than {depth} levels")


def check_page(data: bytes) -> None:
    """Raise TooMuch for a page with too many containers or values."""
    if data.count(b"{") + data.count(b"[") > CONTAINERS or data.count(b",") > VALUES:
        _brackets(data)


def shallow(data: bytes) -> bytes:
    """Return the same JSON with null for values that nest too deep even to be skipped."""
    kept, end, begin, depth = [], 0, 0, 0
    for token in _TOKENS.finditer(data):
        mark = data[token.start()]
        if mark in b"[{":
            depth += 1
            begin = token.start() if depth == _CUT else begin
        elif mark in b"]}":
            if depth == _CUT:
                kept += [data[end:begin], b"null"]
                end = token.end()
            depth -= 1
    return b"".join((*kept, data[end:]))


def _brackets(data: bytes) -> bytes:
    """Square. Raises TooMuch."""
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    if data.count(b'"') > 4 * VALUES:  # each key and each value may be one
        raise TooMuch(f"more than {VALUES} values in one object")
    structure = b"".join(data.split(b'"')[::2])
    if structure.count(b",") > VALUES:
        raise TooMuch(f"more than {VALUES} values in one object")
    brackets = structure.translate(_TO_SQUARE, _NO_BRACKETS)
    if brackets.count(b"[") > CONTAINERS:
        raise TooMuch(f"more than {CONTAINERS} lists and mappings in one object")
    return brackets
