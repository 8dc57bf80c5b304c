"""All objects of a Workload onto a member: in waves, of which each waits for the one before it.

One object that is refused stops no other, but the workload itself is held back until everything is
there that its pods need in order to start. `object_writer` brings a single object there, `prune`
takes away in the opposite order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from machinery.api.resources import group_of
from propagator.apply.apply_records import Backoff
from propagator.apply.object_writer import PieceWriter
from propagator.apply.refusals import twice
from propagator.apply.render import Piece
from propagator.errors import Refused
from propagator.members.kinds import USUAL
from propagator.members.target import Target
from propagator.types.workload import Workload

WAVES: Sequence[frozenset[str]] = (
    frozenset({"Namespace", "CustomResourceDefinition"}),
    frozenset({"Secret", "ConfigMap"}),
    frozenset({"ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}),
    frozenset(),  # every other kind of spec.manifests
    frozenset({"Service"}),
    frozenset(),  # the workload itself
)
"""What goes before what; a wave waits for the one before it. Removal goes the other way round."""

_OTHERS, _MAIN = 3, 5
_NEEDED = 2
"""The last wave of what pods need in order to start: refused, it holds the workload back."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What came of applying: what has to keep a backoff, and what was refused.

    `whole` tells whether the workload itself is as wanted: only then may its predecessor go.
    """

    backoffs: Sequence[Backoff]
    refusals: Sequence[Refused]
    whole: bool


class Overtaken(Exception):
    """The hub has decided otherwise meanwhile: the rest is not written."""


async def apply(
    writer: PieceWriter,
    session: Target,
    workload: Workload,
    pieces: Sequence[Piece],
    *,
    stands: Callable[[Workload], bool],
) -> Applied:
    """Bring all pieces to the member, wave by wave; one that is refused stops no other.

    The workload itself waits for what its pods need. `stands` is asked before each wave whether
    it may be written still. Raises Overtaken, and TransportError, once nothing of the wave is
    under way any more.
    """
    pieces, refusals = _once(pieces)
    backoffs: list[Backoff] = []
    needed = whole = True
    for number, wave in sorted(_by_wave(pieces).items()):
        if number == _MAIN and not needed:
            whole = False
            break
        if not stands(workload):
            raise Overtaken
        begun = (writer.write(session, workload, piece) for piece in wave)
        ended = await asyncio.gather(*begun, return_exceptions=True)
        refused = _refusals(ended)
        refusals += refused
        backoffs += [backoff for backoff in ended if isinstance(backoff, Backoff)]
        needed = needed and not (refused and number <= _NEEDED)
        whole = not refused
    return Applied(backoffs, refusals, whole=whole)


def wave_of(kind: str) -> int:
    """The number of the wave that objects of that kind belong to, 0 the first."""
    for number, kinds in enumerate(WAVES):
        if kind in kinds:
            return number
    return _MAIN if any(kind == resource.kind for resource in USUAL) else _OTHERS


def _once(pieces: Sequence[Piece]) -> tuple[Sequence[Piece], list[Refused]]:
    """Each object once: two wishes for one object would be written over each other for ever.

    The workload itself comes before a manifest, and the first before the second.
    """
    wanted: dict[tuple[str, str, str, str], Piece] = {}
    refusals = []
    for piece in sorted(pieces, key=lambda each: not each.main):
        where = (group_of(piece.api_version), piece.kind, piece.namespace, piece.name)
        first = wanted.setdefault(where, piece)
        if first is not piece:
            refusals.append(twice(piece, first))
    return list(wanted.values()), refusals


def _by_wave(pieces: Sequence[Piece]) -> dict[int, list[Piece]]:
    waves: dict[int, list[Piece]] = {}
    for piece in pieces:
        waves.setdefault(_MAIN if piece.main else wave_of(piece.kind), []).append(piece)
    return waves


def _refusals(ended: Sequence[Backoff | BaseException | None]) -> list[Refused]:
    """What was refused. Raises the first fault of another kind."""
    for each in ended:
        if isinstance(each, BaseException) and not isinstance(each, Refused):
            raise each
    return [each for each in ended if isinstance(each, Refused)]
