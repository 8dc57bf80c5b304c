"""The objects of a share as one text: JSON, compressed by zlib, in base64, without Secrets. Pure.

The values of a Secret travel in a Secret of their own, whose name tells its contents. Every copy is
of the type Opaque: a controller of the hub must not act on it.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from crds.assignment import MOST_BUNDLE
from crds.fields.dependencies import DependencyState
from crds.workload import PropagatedReason
from machinery.api.resources import SECRETS
from machinery.kinds.workloadkinds import WorkloadKind
from machinery.types.bounds import OBJECT_BYTES
from propagator.apply.render import Piece
from propagator.errors import Refused

MOST_UNPACKED = 4 * OBJECT_BYTES
"""Bytes of a bundle once it is unpacked."""
MOST_SECRET = 1024 * 1024
"""Bytes of a Secret's values, which an API server takes at most."""
_VALUES = ("data", "stringData")
_MAIN = "main"
NOTHING_ABSENT: Mapping[tuple[str, str], DependencyState] = MappingProxyType({})
CONTENTS = "contents"
"""The one key of a copy."""


class SecretCopy(NamedTuple):
    name: str
    as_: str
    digest: str
    contents: str
    """The values of the Secret, compressed, in base64."""


class _Packed(msgspec.Struct, omit_defaults=True, rename="camel"):
    body: dict[str, Any]
    digest: str = ""
    template_digest: str = ""
    shared: bool = False
    main: bool = False
    subset: str = ""
    fixed: tuple[str, ...] = ()
    joined: str = ""
    ignored: tuple[tuple[str | dict[str, Any], ...], ...] = ()
    secret: str = ""
    """The name of the copy that has its values."""


class Bundle(msgspec.Struct, omit_defaults=True):
    kinds: list[str] = []
    """`apiVersion/kind` of all that the Workload may have there."""
    objects: list[_Packed] = []
    replicas_path: str = ""
    """As spec.replicasPath of the Workload."""
    described: list[dict[str, Any]] = []
    """The WorkloadKinds of these kinds, as far as `described_by` has it."""
    follows: bool = False
    """Whether what its pods name goes along."""
    absent: list[tuple[str, str, DependencyState]] = []
    """As `Share.absent`: kind, name and state."""


class Unreadable(ValueError):
    """The bundle, or a Secret that goes along, is not what the hub has written."""


def packed(
    uid: str,
    pieces: Sequence[Piece],
    kinds: Iterable[tuple[str, str]],
    *,
    absent: Mapping[tuple[str, str], DependencyState] = NOTHING_ABSENT,
    **more: Any,
) -> tuple[str, list[SecretCopy]]:
    """Return the bundle of these pieces, and the copies of Secrets. Raises Refused.

    `more` is that of `outlines`: `replicas_path`, `described`, `follows`.
    """
    objects, copies = [], []
    for piece in pieces:
        body, copy = dict(piece.body), None
        if piece.id[:2] == (SECRETS.group, SECRETS.kind):
            copy = _copy(uid, piece)
            copies.append(copy)
            body = {key: value for key, value in body.items() if key not in _VALUES}
        objects.append(
            _Packed(
                body,
                piece.digest,
                piece.template_digest,
                piece.shared,
                piece.main,
                piece.subset,
                piece.fixed,
                piece.joined,
                tuple(tuple(_plain(step) for step in steps) for steps in piece.ignored),
                copy.name if copy is not None else "",
            )
        )
    gone = sorted((*name, state) for name, state in absent.items())
    text = _squeezed(_bundled(objects, kinds, absent=gone, **more))
    if len(text) > MOST_BUNDLE:
        message = (
            f"its objects take {len(text)} bytes once they are compressed, and a member in mode "
            f"Pull is sent at most {MOST_BUNDLE}: divide the Workload"
        )
        raise Refused(PropagatedReason.TOO_LARGE, message)
    return text, copies


def outlines(
    bodies: Iterable[Mapping[str, Any]],
    kinds: Iterable[tuple[str, str]],
    **more: Any,
) -> str:
    """Return the bundle of an order that writes nothing: kinds and names of what may be there.

    The main one has the key `main`.
    """
    objects = [
        _Packed({key: value for key, value in body.items() if key != _MAIN}, main=_MAIN in body)
        for body in bodies
    ]
    return _squeezed(_bundled(objects, kinds, **more))


def _bundled(
    objects: list[_Packed],
    kinds: Iterable[tuple[str, str]],
    *,
    replicas_path: str = "",
    described: Iterable[WorkloadKind] = (),
    follows: bool = False,
    absent: Sequence[tuple[str, str, DependencyState]] = (),
) -> bytes:
    named = sorted("/".join(pair) for pair in kinds)
    told = sorted(described, key=lambda each: each.metadata.name)
    kinds_told = [_description(each) for each in told]
    bundle = Bundle(named, objects, replicas_path, kinds_told, follows, [*absent])
    return msgspec.json.encode(bundle, order="deterministic")


def _description(kind: WorkloadKind) -> dict[str, Any]:
    """Return what an agent is told of it: enough to judge by, and which of two is younger."""
    meta = kind.metadata
    told = {"creationTimestamp": meta.creation_timestamp, "generation": meta.generation}
    return {"metadata": {"name": meta.name, **told}, "spec": kind.spec}


def described_by(bundle: Bundle) -> list[WorkloadKind]:
    """Return the WorkloadKinds that it tells. Raises ValueError."""
    return msgspec.convert(bundle.described, list[WorkloadKind])


def unpacked(text: str) -> Bundle:
    """Raises Unreadable."""
    try:
        reader = zlib.decompressobj()
        whole = reader.decompress(base64.b64decode(text, validate=True), MOST_UNPACKED)
        if reader.unconsumed_tail:
            raise Unreadable(f"the bundle is longer than {MOST_UNPACKED} bytes")
        return _bundle.decode(whole)
    except (ValueError, zlib.error) as e:
        raise Unreadable(f"the bundle cannot be read: {e}") from e


def pieces_of(bundle: Bundle, contents: Mapping[str, bytes]) -> list[Piece]:
    """Return the pieces; `contents` are those of the copies by name. Raises Unreadable."""
    pieces = []
    for each in bundle.objects:
        meta, body = each.body["metadata"], each.body
        if each.secret:
            body = {**body, **_values(each.secret, contents)}
        pieces.append(
            Piece(
                api_version=body["apiVersion"],
                kind=body["kind"],
                namespace=meta.get("namespace", ""),
                name=meta["name"],
                body=body,
                digest=each.digest,
                shared=each.shared,
                main=each.main,
                template_digest=each.template_digest,
                subset=each.subset,
                fixed=each.fixed,
                joined=each.joined,
                ignored=each.ignored,
            )
        )
    return pieces


def digest_of(*parts: Any) -> str:
    encoded = msgspec.json.encode(parts, order="deterministic")
    return hashlib.blake2b(encoded, digest_size=16).hexdigest()


def _copy(uid: str, piece: Piece) -> SecretCopy:
    values = {key: piece.body[key] for key in _VALUES if key in piece.body}
    contents = _squeezed(msgspec.json.encode(values, order="deterministic"))
    if len(contents) * 3 // 4 > MOST_SECRET:
        message = f"Secret {piece.name} is too large to be sent to a member in mode Pull"
        raise Refused(PropagatedReason.TOO_LARGE, message)
    digest = digest_of(piece.namespace, piece.name, values)
    return SecretCopy(f"{uid}-{digest[:12]}", piece.name, digest, contents)


def _values(name: str, contents: Mapping[str, bytes]) -> dict[str, Any]:
    if name not in contents:
        raise Unreadable(f"Secret {name} of the hub, which goes along, is not there yet")
    try:
        reader = zlib.decompressobj()
        whole = reader.decompress(contents[name], MOST_UNPACKED)
        return _mapping.decode(whole)
    except (ValueError, zlib.error) as e:
        raise Unreadable(f"Secret {name} of the hub cannot be read: {e}") from e


def _plain(step: Any) -> Any:
    return step if isinstance(step, str) else dict(step)


def _squeezed(plain: bytes) -> str:
    return base64.b64encode(zlib.compress(plain, 6)).decode()


_bundle = msgspec.json.Decoder(Bundle)
_mapping = msgspec.json.Decoder(dict[str, Any])
