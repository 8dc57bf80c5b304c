"""How much of anything that comes from outside is taken: every number, its reason, and the checks.

Whatever a member, a tenant or a stranger on the network sends passes these bounds where it enters,
so that nothing behind has to ask how long, how deep or how many. What exceeds one is a `TooMuch`,
which its caller turns into the condition of the object that it came with: never a fault of others.
The checks look at undecoded bytes and take a time that is linear in them, at the speed of memory.
Pure, and below everything else: nothing of ours is imported here but the errors.
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
"""What each answer or line of a server may hold at any time; beyond it one of them goes on at once,
so that a server costs this much for each connection and one OBJECT_BYTES, whatever it sends."""

# What is decoded in one step, which is a time in which nothing else runs.
CONTAINERS = 100_000
"""Mappings and lists in one object: each costs a hundred times its two bytes."""
VALUES = 400_000
"""Values in one object; a list of short numbers costs more memory than its text."""
DEPTH = 64
"""How deep JSON or YAML may nest. A pod is 12 deep; Python itself gives up at 1,000."""

# What is kept of a server's objects.
KEPT_OBJECTS = 300_000
"""Objects of one kind on one server; Kubernetes is tested up to 150,000 pods."""
KEPT_BYTES = 256 * MIB
"""Of what all members show, where the process has no memory limit of its own: 400,000 pods."""
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
"""Addresses of one load balancer that are told."""
CONDITIONS = 32
"""Conditions that are looked at of one object of a member."""

# What may be reckoned with: beyond these, numbers are cut where they enter, or refused.
MOST_AMOUNT = 2**56
"""Of any resource, on one node or in sum over a cluster, and of one unit's request.

64 PiB of memory, 72 trillion cores: beyond what anybody has, and a hundred times it is still less
than 2**63, so that percentages of it are exact in int64."""
MOST_UNITS = 2**31 - 1
"""What Kubernetes counts replicas with: units of one Workload, or of one share of it."""
MOST_NODES = 2**20
"""Nodes of one group of a cluster: two hundred times what Kubernetes supports in all."""
LONGEST_QUANTITY = 64
"""Characters of a quantity; as the schema of our kinds has it."""

# What is said to people.
MESSAGE = 4096
"""Characters of a server's sentence that go on into conditions, events and logs."""
WORD = 128
"""Characters of a reason or a type of a condition."""

# Registration.
SECRET_BYTES = 64 * KIB
"""A registration Secret. A kubeconfig with three certificates is 8 KiB."""
SECRET_DEPTH = 16
"""How deep a kubeconfig may nest; a usual one is 5 deep."""
SECRET_NODES = 4096
"""Keys, values, lists and mappings of a kubeconfig; a usual one has 40."""

# Requests to one member, under way at once.
FOR_ONE_WORKLOAD = 8
"""Of one Workload: a quarter of the member's connections, however many manifests it brings."""
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
"""For so long a kind that a server does not know, or does not tell of, is not asked for again."""
RETRY_AFTER_SECONDS = 60.0
"""The longest wait that a server may ask of us."""

_CONTROLS = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]+"
)
"""What a terminal obeys instead of showing it: control characters, and those that turn the
direction of writing or have no width; halves of characters too, which nobody can encode."""
_TO_SQUARE = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")
_CUT = DEPTH + 8
"""An object in a list, or in an event, lies a few levels deep already."""
_TOKENS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
_STEPS = {ord("["): 1, ord("]"): -1}


class TooMuch(TransportError):
    """More came than is taken. The message says of what, and how much is taken."""


def clean(text: str, most: int = MESSAGE) -> str:
    """The text in one line of at most `most` characters, without anything that a terminal obeys.

    A longer one ends in an ellipsis. Only as much is looked at as may be kept.
    """
    head = _CONTROLS.sub(" ", text[: 4 * most])
    tidy = " ".join(head.split())
    if len(tidy) <= most and len(text) <= 4 * most:
        return tidy
    return tidy[: most - 1].rstrip() + "…"


def shown(text: str) -> str:
    """The text for a terminal: lines and tabs stay, whatever else a terminal obeys becomes `?`."""
    return _CONTROLS.sub(lambda found: "".join(c if c in "\n\t" else "?" for c in found[0]), text)


def between(least: int, number: int, most: int) -> int:
    """The number, or the bound that it passes."""
    return max(least, min(number, most))


def quoted(value: object, *, most: int = 40) -> str:
    """A value from outside as a message may quote it: escaped, and cut where it is long."""
    if isinstance(value, str) and len(value) > most:
        return f"{value[:most]!r}…"
    if isinstance(value, str | float | None):
        return repr(value)
    if isinstance(value, int):
        return str(value) if value.bit_length() <= 64 else "a number of more than 64 bits"
    return f"a {type(value).__name__}"


def name_in_words(name: str, *, most: int = LABEL_VALUE) -> str:
    """A name from outside as a message has it: what is no name, by its length or lines, quoted."""
    return name if clean(name, most) == name else quoted(name)


def check_json(data: bytes | memoryview, *, depth: int = DEPTH) -> None:
    """Raises TooMuch for JSON that would cost more to decode than its bytes tell.

    It nests deeper than `depth`, or holds more containers or values than any object has.
    What is no JSON at all passes: that is for the decoder to say.
    """
    data = bytes(data)
    if data.count(b"{") + data.count(b"[") <= depth and data.count(b",") <= VALUES:
        return
    brackets = _brackets(data)
    if max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > depth:
        raise TooMuch(f"nested deeper than {depth} levels")


def check_page(data: bytes) -> None:
    """Raises TooMuch for a page that would fall into more parts than it is worth; as `check_json`.

    How deep its objects nest is asked of each by itself: one of them does not spoil the others.
    """
    if data.count(b"{") + data.count(b"[") > CONTAINERS or data.count(b",") > VALUES:
        _brackets(data)


def shallow(data: bytes) -> bytes:
    """The same JSON with null for whatever nests too deep for a decoder even to pass over.

    A server takes objects of 10,000 levels from anybody who may write one, and shows them among all
    others. What is left of such an object is still deeper than `check_json` takes, so it stays the
    one that is not read. Slower than a decoder: for what one has given up on.
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
    """Its brackets alone, all square, without those inside of strings. Raises TooMuch."""
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
