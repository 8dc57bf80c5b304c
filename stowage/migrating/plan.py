"""`stowage migrate plan`: what a migration would do, and what is in its way. Nothing is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from machinery.types.bounds import clean
from machinery.types.metadata import Key
from stowage.console import output, words
from stowage.migrating.clusters import READY, MatchedCluster, lacking
from stowage.migrating.examining import Examined, examined
from stowage.migrating.peer import Ref
from stowage.migrating.survey import Asked, Candidate, World, scales, surveyed

_CLUSTERS = ("cluster", "member", "by", "says")
_WORKLOADS = ("workload", "replicas", "where it runs", "as it is", "in the way")


@dataclass(frozen=True, slots=True)
class MigrationPlan:
    """What `plan` shows."""

    matches: Sequence[MatchedCluster]
    says: Mapping[str, str]
    candidates: Sequence[Candidate]
    found: Mapping[Key, Examined]
    losses: Sequence[str]
    moves: Mapping[Key, tuple[int, Mapping[str, int]]]
    later: Sequence[str] = ()
    """What is to be done by hand once Stowage brings the Workloads."""

    @property
    def possible(self) -> int:
        return sum(not each.ways for each in self.candidates)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan for programs."""
        return {
            "clusters": [
                {"cluster": m.name, "member": m.member, "by": m.by, "says": self.says[m.name]}
                for m in self.matches
            ],
            "workloads": [
                {
                    "namespace": each.key[0],
                    "name": each.key[1],
                    "placements": words.listed(each.shares),
                    "objects": self.found[each.key].objects,
                    "alike": self.found[each.key].alike,
                    "inTheWay": each.ways,
                    "wouldMove": self.moves[each.key][0] if each.key in self.moves else 0,
                }
                for each in self.candidates
            ],
            "lost": list(self.losses),
            "later": list(self.later),
        }

    def text(self) -> str:
        """Return the plan for people."""
        rows = [
            {"cluster": m.name, "member": m.member or "-", "by": m.by or "-",
             "says": self.says[m.name]}
            for m in self.matches
        ]  # fmt: skip
        parts = [output.table(rows, _CLUSTERS), self._workloads(), *self._below()]
        total = len(self.candidates)
        noun = "Workload" if total == 1 else "Workloads"
        end = f"{self.possible} of {total} {noun} can be migrated; nothing was written"
        return "\n".join((*parts, end))

    def _workloads(self) -> str:
        rows = []
        for each in self.candidates:
            found = self.found[each.key]
            rows.append(
                {
                    "workload": "/".join(each.key),
                    "replicas": sum(each.shares.values()),
                    "where it runs": words.shares(each.shares) or "-",
                    "as it is": f"{found.alike} of {found.objects}",
                    "in the way": clean("; ".join(each.ways)) or "-",
                }
            )
        return output.table(rows, _WORKLOADS)

    def _below(self) -> Iterator[str]:
        for loss in self.losses:
            yield f"lost: {clean(loss)}"
        for text in self.later:
            yield f"later: {clean(text)}"
        for each in self.candidates:
            moved, anew = self.moves.get(each.key, (0, {}))
            if moved:
                of = words.count(sum(each.shares.values()), "replica")
                yield (
                    f"If the rules decided anew: {'/'.join(each.key)} {moved} of {of} would move "
                    f"({words.shares(anew)})"
                )


async def plan(world: World, asked: Asked) -> MigrationPlan:
    """Return the plan. Raises StowageError if the peer's hub or ours does not answer."""
    survey = await surveyed(world, asked)
    found, numbers = await examined(world, asked, survey, compare=True)
    moves = {
        each.key: numbers.moves(each.key)
        for each in survey.candidates
        if each.shares and each.sound
    }
    spaces = sorted({each.key[0] for each in survey.candidates})
    return MigrationPlan(
        survey.matches,
        {each.name: _says(each, survey.members, spaces) for each in survey.matches},
        survey.candidates,
        found,
        [str(note) for note in survey.losses],
        moves,
        [
            f"{Ref.of(body)} scales {'/'.join(each.key)}: stowage import prints it; apply it after"
            " take"
            for each in survey.candidates
            for body in survey.beside
            if scales(body, each)
        ],
    )


def _says(match: MatchedCluster, members: Mapping[str, Any], spaces: Sequence[str]) -> str:
    if match.says != READY:
        return match.says
    texts = (lacking(members[match.member], space) for space in spaces)
    return "; ".join(filter(None, texts)) or READY
