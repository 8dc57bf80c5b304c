"""The bounds on everything that comes from outside: each number, its reason, and the checks.

Whatever a member, a tenant or a stranger on the network sends is checked where it enters, so that
the code behind need not ask how long, how deep or how many. What exceeds a bound is a `TooMuch`,
which the caller turns into the condition of the object that it came with: never a fault of others.
The checks look at undecoded bytes, in a time linear in them, at the speed of memory.
"""

from __future__ import annotations

import re
from itertools import accumulate

from machinery.errors import TransportError

KIB, MIB = 1024, 1024 * 1024

# What one answer of an API server may hold.
OBJECT_BYTES = 4 * MIB
"""One object. etcd takes 1.5 MiB; as JSON, with Secrets in base64, that is well below twice it."""
PAGE_BYTES = 4 * MIB
"""One page of a list. A longer one is asked for again in smaller pages, down to a single object."""
USUAL_PAGE_BYTES = 1 * MIB
"""A page that is longer makes the next ones smaller, so that each is decoded in small steps."""
LINE_BYTES = 4 * MIB
"""One event of a watch: an object and a few words."""
FACT_BYTES = 64 * KIB
"""/version, /readyz: a page of text at most."""
DISCOVERY_BYTES = 1 * MIB
"""The kinds of one group and version. The largest known, of cloud providers, are near 300 KiB."""
REFUSAL_BYTES = 256 * KIB
"""An answer that says no. A Status names the fields at fault, and may quote them."""
MODEST_BYTES = 64 * KIB
"""The size up to which answers and lines of a server are read side by side; larger ones are read
one at a time, so that a server costs this much for each connection and one OBJECT_BYTES."""

# What is decoded in one step, while nothing else runs.
CONTAINERS = 100_000
"""Mappings and lists in one object: each costs a hundred times its two bytes."""
VALUES = 400_000
"""Values in one object; a list of short numbers costs more memory than its text."""
DEPTH = 64
"""How deep JSON or YAML may nest. A pod is 12 deep; Python's recursion ends at 1,000."""

# What is kept of a server's objects.
KEPT_OBJECTS = 300_000
"""Objects of one kind on one server; Kubernetes is tested up to 150,000 pods."""
KEPT_BYTES = 256 * MIB
"""For the objects of all members, where the process has no memory limit: 400,000 pods."""
NO_LIMIT = 1 << 50
"""A memory limit above this is none: the old control groups write a very large number instead."""
NAME = 253
"""Characters of a name, a namespace, or a group: a DNS name, as Kubernetes has it."""
UID = 128
LABEL_VALUE = 63
"""Characters of the value of a label, as Kubernetes has it."""
VERSION_TEXT = LABEL_VALUE
"""Characters of a version or provider: they become values of labels."""
RESOURCES = 64
"""Names of resources in one list of amounts, as the schema of MemberCluster has it."""
TAINTS = 64
ADDRESSES = 32
"""Addresses of one load balancer that are reported."""
CONDITIONS = 32
"""Conditions of one object of a member that are read."""

# Numbers beyond these are cut where they enter, or refused.
MOST_AMOUNT = 2**56
"""Of any resource, on one node or in sum over a cluster, and of one unit's request.

64 PiB of memory, 72 trillion cores: beyond any cluster, and a hundred times it is still less than
2**63, so that percentages of it are exact in int64."""
MOST_UNITS = 2**31 - 1
"""Units of one Workload, or of one share of it: Kubernetes counts replicas in an int32."""
MOST_NODES = 2**20
"""Nodes of one group of a cluster: two hundred times what Kubernetes supports in all."""
LONGEST_QUANTITY = 64
"""Characters of a quantity; as the schema of our kinds has it."""

# Texts for people.
MESSAGE = 4096
"""Characters of a server's message that go on into conditions, events and logs."""
WORD = 128
"""Characters of a reason or a type of a condition."""

# Registration.
SECRET_BYTES = 64 * KIB
"""A registration Secret. A kubeconfig with three certificates is 8 KiB."""
SECRET_DEPTH = 16
"""How deep a kubeconfig may nest; a usual one is 5 deep."""
SECRET_NODES = 4096
"""Keys, values, lists and mappings of a kubeconfig; a usual one has 40."""

# Requests to one member, in flight at once.
FOR_ONE_WORKLOAD = 8
"""Of one Workload: a quarter of the member's connections, however many manifests it brings."""
LEASES = 2
DISCOVERIES = 4
PROBES = 2
DISCOVERY_SECONDS = 3.0
DISCOVERED = 64
"""Groups and versions that are remembered of one server, found or not."""
KINDS = 1000
"""Resource types of one group and version, subresources among them."""
TOKEN = 4096
"""Characters of a token that leads to the next page; it goes into an address."""
UNKNOWN_SECONDS = 5.0
"""How long a server is not asked again for a kind that it does not know, or did not answer for."""
RETRY_AFTER_SECONDS = 60.0
"""The longest Retry-After of a server that is obeyed."""

_CONTROLS = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]+"
)
"""Characters that a terminal obeys instead of showing them: controls, and those that change the
direction of writing or have no width; lone surrogates too, which cannot be encoded."""
_TO_SQUARE = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")
_CUT = DEPTH + 8
"""The depth at which `shallow` cuts: an object in a list or event is a few levels deep itself."""
_TOKENS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
_STEPS = {ord("["): 1, ord("]"): -1}


class TooMuch(TransportError):
    """The input exceeds a bound. The message names the input and the bound."""


def clean(text: str, most: int = MESSAGE) -> str:
    """Return the text in one line of at most `most` characters, without anything a terminal obeys.

    A longer one ends in an ellipsis. Only as much is looked at as may be kept.
    """
    head = _CONTROLS.sub(" ", text[: 4 * most])
    tidy = " ".join(head.split())
    if len(tidy) <= most and len(text) <= 4 * most:
        return tidy
    return tidy[: most - 1].rstrip() + "…"


def shown(text: str) -> str:
    """Return the text for a terminal: lines and tabs stay, anything else it obeys becomes `?`."""
    return _CONTROLS.sub(lambda found: "".join(c if c in "\n\t" else "?" for c in found[0]), text)


def between(least: int, number: int, most: int) -> int:
    """Return the number, or the bound that it passes."""
    return max(least, min(number, most))


def quoted(value: object, *, most: int = 40) -> str:
    """Return a value from outside as a message may quote it: escaped, and cut where it is long."""
    if isinstance(value, str) and len(value) > most:
        return f"{value[:most]!r}…"
    if isinstance(value, str | float | None):
        return repr(value)
    if isinstance(value, int):
        return str(value) if value.bit_length() <= 64 else "a number of more than 64 bits"
    return f"a {type(value).__name__}"


def name_in_words(name: str, *, most: int = LABEL_VALUE) -> str:
    """Return a name from outside for a message; quoted where it is too long, or has other lines."""
    return name if clean(name, most) == name else quoted(name)


def check_json(data: bytes | memoryview, *, depth: int = DEPTH) -> None:
    """Raise TooMuch for JSON that would cost more to decode than its bytes suggest.

    Such JSON nests deeper than `depth`, or holds more containers or values than any object has.
    Malformed JSON passes: the decoder reports that.
    """
    data = bytes(data)
    if data.count(b"{") + data.count(b"[") <= depth and data.count(b",") <= VALUES:
        return
    brackets = _brackets(data)
    if max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > depth:
        raise TooMuch(f"nested deeper than {depth} levels")


def check_page(data: bytes) -> None:
    """Raise TooMuch for a page with too many containers or values, as `check_json` does.

    The depth is checked for each of its objects alone: one of them does not spoil the others.
    """
    if data.count(b"{") + data.count(b"[") > CONTAINERS or data.count(b",") > VALUES:
        _brackets(data)


def shallow(data: bytes) -> bytes:
    """Return the same JSON with null for values that nest too deep for a decoder even to skip.

    A server accepts objects of 10,000 levels from any user who may write one, and lists them among
    all others. What is left of such an object is still deeper than `check_json` allows, so only
    this one is not read. Slower than a decoder: called where one has failed.
    """
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
    """Return the brackets alone, all square, without those inside strings. Raises TooMuch."""
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
