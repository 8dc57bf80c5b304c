"""Applies all objects of a Workload on a member in waves.

A refused object stops no other, except the main object in want of what its pods need to start. What
is of its kind is not removed meanwhile, as it may be what had its place before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from machinery.api.resources import USUAL, group_of
from propagator.apply.apply_records import Backoff
from propagator.apply.object_writer import PieceWriter
from propagator.apply.refusals import twice
from propagator.apply.render import Piece
from propagator.errors import Refused
from propagator.members.session import MemberSession
from propagator.types.workload import Workload

_RBAC = "rbac.authorization.k8s.io"
WAVES: Sequence[frozenset[tuple[str, str]]] = (
    frozenset({("", "Namespace"), ("apiextensions.k8s.io", "CustomResourceDefinition")}),
    frozenset({("", "Secret"), ("", "ConfigMap")}),
    frozenset(
        {
            ("", "ServiceAccount"),
            (_RBAC, "Role"),
            (_RBAC, "RoleBinding"),
            (_RBAC, "ClusterRole"),
            (_RBAC, "ClusterRoleBinding"),
        }
    ),
    frozenset(),  # every other kind of spec.manifests
    frozenset({("", "Service")}),
    frozenset(),  # the workload itself
)
"""The order of apply, by group and kind. Removal reverses it."""

_OTHERS, _MAIN = 3, 5
_NEEDED = 2
"""The last wave that pods need in order to start."""


@dataclass(frozen=True, slots=True)
class Applied:
    """`whole`: the main object is as wanted. Only then may its predecessor be removed.

    `refused` are group and kind of the refused objects, whose predecessors stay.
    """

    backoffs: Sequence[Backoff]
    refusals: Sequence[Refused]
    whole: bool
    refused: Collection[tuple[str, str]]


class Overtaken(Exception):
    """The gate no longer allows the apply; the remaining waves are not applied."""


async def apply(
    writer: PieceWriter,
    session: MemberSession,
    workload: Workload,
    pieces: Sequence[Piece],
    *,
    may_apply: Callable[[Workload], bool],
) -> Applied:
    """`may_apply` is called before each wave.

    Raises Overtaken, and TransportError once no request of the wave is in flight.
    """
    pieces, refusals = _once(pieces)
    backoffs: list[Backoff] = []
    kinds: set[tuple[str, str]] = set()
    needed = whole = True
    for number, wave in sorted(_by_wave(pieces).items()):
        if number == _MAIN and not needed:
            whole = False
            break
        if not may_apply(workload):
            raise Overtaken
        begun = (writer.write(session, workload, piece) for piece in wave)
        ended = await asyncio.gather(*begun, return_exceptions=True)
        refused = _refusals(ended)
        refusals += refused
        kinds |= {_kind(p) for p, how in zip(wave, ended, strict=True) if isinstance(how, Refused)}
        backoffs += [backoff for backoff in ended if isinstance(backoff, Backoff)]
        needed = needed and not (refused and number <= _NEEDED)
        whole = not refused
    return Applied(backoffs, refusals, whole=whole, refused=kinds)


def wave_of(group: str, kind: str) -> int:
    for number, kinds in enumerate(WAVES):
        if (group, kind) in kinds:
            return number
    usual = ((resource.group, resource.kind) for resource in USUAL)
    return _MAIN if (group, kind) in usual else _OTHERS


def _once(pieces: Sequence[Piece]) -> tuple[Sequence[Piece], list[Refused]]:
    # Two different applies of one object would overwrite each other forever.
    wanted: dict[tuple[str, str, str, str], Piece] = {}
    refusals = []
    for piece in sorted(pieces, key=lambda each: not each.main):
        where = (*_kind(piece), piece.namespace, piece.name)
        first = wanted.setdefault(where, piece)
        if first is not piece:
            refusals.append(twice(piece, first))
    return list(wanted.values()), refusals


def _by_wave(pieces: Sequence[Piece]) -> dict[int, list[Piece]]:
    waves: dict[int, list[Piece]] = {}
    for piece in pieces:
        wave = _MAIN if piece.main else wave_of(*_kind(piece))
        waves.setdefault(wave, []).append(piece)
    return waves


def _kind(piece: Piece) -> tuple[str, str]:
    return group_of(piece.api_version), piece.kind


def _refusals(ended: Sequence[Backoff | BaseException | None]) -> list[Refused]:
    """Raises the first fault that is no refusal."""
    for each in ended:
        if isinstance(each, BaseException) and not isinstance(each, Refused):
            raise each
    return [each for each in ended if isinstance(each, Refused)]
